# make bench BENCH_OUT=FILE: the rows of docs/performance.md, measured here and now.
BENCH_OUT ?= build/bench.json
BENCH_ARGS ?=

$(BUILD)/bench-client: bench/client.c bench/conn.c bench/wsconn.c $(wildcard bench/*.h)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(LDFLAGS) -o $@ bench/client.c bench/conn.c bench/wsconn.c -lpthread

# What the kernel alone takes for a sandbox: build/bench-floor ROOT N.
$(BUILD)/bench-floor: bench/floor.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(LDFLAGS) -o $@ bench/floor.c

.PHONY: bench
bench: ## measure against the peers on one root file system; JSON to BENCH_OUT (root)
	@tools/install-deps build image run bench
	@$(MAKE) -s all testroot $(BUILD)/bench-client $(BUILD)/bench-floor
	@tools/bench --out $(BENCH_OUT) $(BENCH_ARGS)
