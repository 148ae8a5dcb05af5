/*
 * fuzz_agent_request.c - any bytes as a request to the agent: refused, or the one encoding of what
 * was read.
 */
#include <stdlib.h>
#include <string.h>

#include "lib/fuzz_replay.h"
#include "wire/agent_msg.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct agent_req r;
	struct wire_out o;
	uint8_t *payload, *again;
	uint16_t verb;
	size_t n;

	if (size < 2)
		return 0;
	verb = (uint16_t)(data[0] | data[1] << 8);
	n = size - 2;
	payload = malloc(n + 1);
	again = malloc(n + 1);
	if (!payload || !again)
		abort();
	memcpy(payload, data + 2, n);
	if (agent_req_get(verb, payload, n, &r) == 0) {
		o = wire_out_on(again, n);
		agent_req_put(&o, &r);
		if (o.overflow || o.len != n || memcmp(again, data + 2, n) != 0)
			abort();
		agent_req_done(&r);
	}
	free(payload);
	free(again);
	return 0;
}
