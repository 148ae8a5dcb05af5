# The program that box tests run inside; static, since a box's image may hold nothing.
$(BUILD)/tests/box/probe: tests/box/probe/probe.c
	@mkdir -p $(@D)
	$(MUSL_CC) -std=gnu17 -D_GNU_SOURCE -O1 -Wall -static -s -idirafter /usr/include \
		-idirafter /usr/include/$(shell uname -m)-linux-gnu -o $@ $<

box-build: $(BUILD)/tests/box/probe
