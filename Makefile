# Caisson. `make help` lists the targets.
PROFILE ?= release
BUILD := build$(if $(filter release,$(PROFILE)),,/$(PROFILE))
CC := gcc
MUSL_CC := musl-gcc
VERSION := 0.1.0

CFLAGS_common := -std=gnu17 -D_GNU_SOURCE -g -Wall -Wextra -Werror -Wshadow -Wstrict-prototypes \
	-Wmissing-prototypes -Wformat=2 -Wno-format-nonliteral -Wvla -fno-strict-aliasing \
	-Isrc -Iinclude -I$(BUILD)/gen -DCAISSON_VERSION='"$(VERSION)"'
CFLAGS_harden := -fstack-protector-strong -fstack-clash-protection -D_FORTIFY_SOURCE=2 \
	-fcf-protection -fPIE
CFLAGS_release := -O2 $(CFLAGS_harden)
# Sanitizers blind the range analysis behind these two warnings; the release profile has them on.
CFLAGS_blind := -Wno-format-truncation -Wno-maybe-uninitialized
CFLAGS_debug := $(CFLAGS_blind) -O1 -fsanitize=address,undefined -fno-omit-frame-pointer -fno-sanitize-recover=undefined
CFLAGS_tsan := $(CFLAGS_blind) -O1 -fsanitize=thread -fno-omit-frame-pointer
CFLAGS_coverage := $(CFLAGS_blind) -O0 --coverage
CFLAGS_fuzz := -O1 -fsanitize=fuzzer-no-link,address,undefined -fno-omit-frame-pointer -Wno-error
CFLAGS := $(CFLAGS_common) $(CFLAGS_$(PROFILE))
LDFLAGS_release := -pie -Wl,-z,relro,-z,now,-z,noexecstack
LDFLAGS := $(LDFLAGS_$(PROFILE)) $(filter -fsanitize% --coverage,$(CFLAGS_$(PROFILE)))
LIBS := -lmicrohttpd -ljansson -lsqlite3 -lcrypto -lseccomp -lcap -lmnl -larchive -lzstd -lpthread
CLI_LIBS := -lcurl -ljansson -larchive -lpthread

# Folders of the daemon (all but init, cli and main). Order is the layer order of docs/architecture.md.
DAEMON_DIRS := base wire store agent runner jtab lsp core http api api/daytona api/caisson image box net priv
DAEMON_SRC := $(foreach d,$(DAEMON_DIRS),$(wildcard src/$(d)/*.c))
MAIN_SRC := $(wildcard src/main/*.c)
CLI_SRC := $(wildcard src/cli/*.c) $(wildcard src/base/*.c) $(wildcard src/wire/*.c)
INIT_SRC := $(wildcard src/init/*.c) $(wildcard src/wire/*.c) \
	$(addprefix src/base/,err.c buf.c clock.c fd.c glob.c id.c path.c sys.c)

obj = $(patsubst src/%.c,$(BUILD)/obj/%.o,$(1))
GEN_SRC := $(BUILD)/gen/routes.c $(BUILD)/gen/migrations.c
GEN_HDR := $(BUILD)/gen/routes.h
DAEMON_OBJ := $(call obj,$(DAEMON_SRC)) $(BUILD)/obj/gen/routes.o $(BUILD)/obj/gen/migrations.o
MAIN_OBJ := $(call obj,$(MAIN_SRC))
CLI_OBJ := $(call obj,$(CLI_SRC))

# V=1 shows whole command lines.
Q := $(if $(V),,@)
say = $(if $(V),,@printf '  %-5s %s\n' $(1) $(2);)

.DEFAULT_GOAL := all
.PHONY: all help
all: $(BUILD)/caissond $(BUILD)/caisson $(BUILD)/caisson-init ## build the three programs

help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | sort

$(BUILD)/libcaisson.a: $(DAEMON_OBJ)
	@rm -f $@ && ar rcs $@ $^

$(BUILD)/caissond: $(MAIN_OBJ) $(BUILD)/libcaisson.a
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) -o $@ $(MAIN_OBJ) $(BUILD)/libcaisson.a $(LIBS)

$(BUILD)/caisson: $(CLI_OBJ)
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(CLI_LIBS)

# pid 1 of every sandbox: static and small, since each page it touches is paid per sandbox.
INIT_CFLAGS := $(CFLAGS_common) -Os -static -fno-pie -no-pie -fno-asynchronous-unwind-tables \
	-ffunction-sections -fdata-sections -fstack-protector-strong \
	-idirafter /usr/include -idirafter /usr/include/$(shell uname -m)-linux-gnu
$(BUILD)/caisson-init: $(INIT_SRC) $(wildcard src/init/*.h src/wire/*.h src/base/*.h)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(MUSL_CC) $(INIT_CFLAGS) -o $@ $(INIT_SRC) -Wl,--gc-sections -Wl,-z,noexecstack -s

$(BUILD)/obj/%.o: src/%.c $(GEN_HDR)
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(CFLAGS) -MMD -MP -c -o $@ $<

$(BUILD)/obj/gen/%.o: $(BUILD)/gen/%.c
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(CFLAGS) -MMD -MP -c -o $@ $<

$(BUILD)/gen/routes.c $(BUILD)/gen/routes.h &: tools/apigen $(wildcard openapi/*.json)
	@mkdir -p $(@D)
	$(Q)tools/apigen --out $(BUILD)/gen openapi/*.json

$(BUILD)/gen/migrations.c: tools/embed-migrations $(wildcard migrations/*.sql)
	@mkdir -p $(@D)
	$(Q)tools/embed-migrations migrations > $@.tmp && mv $@.tmp $@

-include $(shell find $(BUILD)/obj -name '*.d' 2>/dev/null)
include $(wildcard mk/*.mk)

.PHONY: clean
clean: ## remove what was built, but the images
	find build -mindepth 1 -maxdepth 1 ! -name image -exec rm -rf {} +
