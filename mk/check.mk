# Tests and checks. `make check` is what CI runs: it installs, builds and runs all of them.
VENV := build/venv
PYTHON3 := $(firstword $(wildcard /usr/bin/python3) python3)

# cmocka programs: tests/unit/test_x.c -> build/tests/test_x, tests/box/test_x.c ->
# build/tests/box/test_x. Other .c files of the folder are helpers of each program in it.
TEST_CLI_OBJ := $(filter-out %/main.o,$(call obj,$(wildcard src/cli/*.c)))
UNIT_SRC := $(wildcard tests/unit/test_*.c)
UNIT_BIN := $(patsubst tests/unit/%.c,$(BUILD)/tests/%,$(UNIT_SRC))
UNIT_HELP := $(filter-out $(UNIT_SRC),$(wildcard tests/unit/*.c))
BOX_SRC := $(wildcard tests/box/test_*.c)
BOX_BIN := $(patsubst tests/box/%.c,$(BUILD)/tests/box/%,$(BOX_SRC))
BOX_HELP := $(filter-out $(BOX_SRC),$(wildcard tests/box/*.c))
FUZZ_BIN := $(patsubst tests/fuzz/%.c,build/fuzz/tests/%,$(wildcard tests/fuzz/fuzz_*.c))

TEST_CFLAGS = $(CFLAGS) -Itests -Itests/lib -Wno-missing-prototypes -Wno-unused-result \
	-DTEST_BUILD='"$(abspath $(BUILD))"' -DTEST_TOP='"$(CURDIR)"' -MMD -MP -MF $@.d

$(BUILD)/tests/test_cli_%: tests/unit/test_cli_%.c $(TEST_CLI_OBJ) $(BUILD)/libcaisson.a
	@mkdir -p $(@D)
	$(CC) $(TEST_CFLAGS) $(LDFLAGS) -o $@ $< $(TEST_CLI_OBJ) $(BUILD)/libcaisson.a -lcmocka \
		$(CLI_LIBS) $(LIBS)

$(BUILD)/tests/test_%: tests/unit/test_%.c $(UNIT_HELP) $(BUILD)/libcaisson.a
	@mkdir -p $(@D)
	$(CC) $(TEST_CFLAGS) $(LDFLAGS) -o $@ $< $(UNIT_HELP) $(BUILD)/libcaisson.a -lcmocka $(LIBS)

$(BUILD)/tests/box/test_%: tests/box/test_%.c $(BOX_HELP) $(BUILD)/libcaisson.a
	@mkdir -p $(@D)
	$(CC) $(TEST_CFLAGS) $(LDFLAGS) -o $@ $< $(BOX_HELP) $(BUILD)/libcaisson.a -lcmocka $(LIBS)

build/fuzz/tests/fuzz_%: tests/fuzz/fuzz_%.c build/fuzz/libcaisson.a
	@mkdir -p $(@D)
	clang $(filter-out -Werror -fno-strict-aliasing,$(CFLAGS_common)) -Itests -w -O1 \
		-fsanitize=fuzzer,address,undefined -fno-omit-frame-pointer \
		-o $@ $< build/fuzz/libcaisson.a $(LIBS)

-include $(wildcard $(BUILD)/tests/*.d $(BUILD)/tests/box/*.d)

# In the fuzz profile itself it is the ordinary library: without the guard it would call itself.
ifneq ($(PROFILE),fuzz)
.PHONY: build/fuzz/libcaisson.a
build/fuzz/libcaisson.a:
	@$(MAKE) -s PROFILE=fuzz CC=clang $@
endif

$(VENV)/.done: tests/requirements.txt
	@rm -rf $(VENV)
	@$(PYTHON3) -m venv $(VENV) || { echo "venv: $(PYTHON3) -m venv failed (apt-get install \
		python3-venv)" >&2; exit 1; }
	@$(VENV)/bin/pip install -q --disable-pip-version-check -r $< || { echo "venv: pip install \
		-r $< failed" >&2; exit 1; }
	@touch $@

.PHONY: deps unit-build box-build fuzz-build tests-build venv
deps:
	@tools/install-deps build image run test lint
unit-build: $(UNIT_BIN)
box-build: $(BOX_BIN)
fuzz-build: $(FUZZ_BIN)
venv: $(VENV)/.done
tests-build: all unit-build box-build venv testroot

.PHONY: check check-all unit asan tsan box api crash conformance fuzz soak lint coverage
# Each step is a make of its own: the lists above are read after the packages are there.
check: ## install, build and run every test (root)
	@[ "$$(id -u)" = 0 ] || { echo "check: needs root: sudo make check" >&2; exit 1; }
	@tools/install-deps build image run test lint
	@$(MAKE) -s -j2 image tests-build
	@$(MAKE) -s -j2 fuzz-build
	@$(MAKE) -s -j2 PROFILE=debug unit-build
	@tools/runtests --build build lint unit asan box api conformance crash fuzz

unit: unit-build ## unit tests
	@tools/runtests --build build $(if $(filter release,$(PROFILE)),unit,\
		$(if $(filter tsan,$(PROFILE)),tsan,asan))
box: all box-build testroot ## tests of the container, from inside and outside (root)
	@tools/runtests --build $(BUILD) box
api: all venv image testroot ## the REST API and the command line (root)
	@tools/runtests api
crash: all venv image testroot ## kill -9 at named points and at random (root)
	@tools/runtests crash
conformance: all venv image ## the official SDKs, unmodified (root)
	@tools/runtests conformance
fuzz: fuzz-build ## every parser, 6 s each
	@tools/runtests fuzz
# Minutes of each fuzz target in the long form; there are about two dozen.
SOAK_MINUTES ?= 30
soak: ## the long forms of the proofs: hours, less with SOAK_MINUTES=N for each fuzz target (root)
	@tools/install-deps build image run test lint
	@$(MAKE) -s -j2 image tests-build fuzz-build
	@tools/runtests --soak --minutes $(SOAK_MINUTES) box api conformance crash soak fuzz
lint: $(GEN_HDR) ## format, static analysis, banned calls, include rule, lengths
	@tools/lint

.PHONY: docs
docs: $(BUILD)/caissond ## write docs/configuration.md from the program's table
	@$(BUILD)/caissond --print-config-docs > docs/configuration.md

coverage: ## lines that the unit tests reach, in build/coverage/summary.txt
	@$(MAKE) -s -j2 PROFILE=coverage build/coverage/libcaisson.a unit-build
	@for t in build/coverage/tests/test_*; do \
		[ -x $$t ] && [ "$${t%.d}" = $$t ] && { $$t > /dev/null 2>&1 || echo "failed: $$t"; }; \
		done; true
	@tools/coverage build/coverage | tee build/coverage/summary.txt

.PHONY: compile_commands.json
compile_commands.json: ## for editors and clang-tidy
	@tools/compile-commands "$(CC)" '$(CFLAGS_common)' src > $@
