# The program that box tests run inside; static, since a box's image may hold nothing.
PROBE_SRC := $(wildcard tests/box/probe/*.c)
$(BUILD)/tests/box/probe: $(PROBE_SRC) tests/box/probe/probe.h
	@mkdir -p $(@D)
	$(MUSL_CC) -std=gnu17 -D_GNU_SOURCE -O1 -Wall -static -s -idirafter /usr/include \
		-idirafter /usr/include/$(shell uname -m)-linux-gnu -o $@ $(PROBE_SRC)

box-build: $(BUILD)/tests/box/probe
