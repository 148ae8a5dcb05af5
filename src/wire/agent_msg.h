/*
 * agent_msg.h - requests of the agent protocol as one struct, written and read by one table.
 *
 * The daemon encodes, caisson-init decodes; both use the rows of agent_msg.c, so they cannot
 * drift apart. The reader is for hostile bytes. It works in place: strings are moved over their
 * own length prefix and NUL-terminated, so a request costs no copy. Nothing here does I/O.
 */
#ifndef CAISSON_WIRE_AGENT_MSG_H
#define CAISSON_WIRE_AGENT_MSG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/agent_proto.h"
#include "wire/wire.h"

struct agent_strv {
	const char *const *v; /* NULL-terminated after agent_req_get */
	size_t n;
};

struct agent_bytes {
	const uint8_t *p; /* in the payload after agent_req_get */
	size_t n;
};

/* Fields a verb does not have stay zero or "". */
struct agent_req {
	uint16_t verb;
	uint16_t cols, rows;
	bool follow, parents, recursive, has_mode, tree, hard, has_mtime, eof;
	uint32_t flags, mode, depth, max, sig, grace_ms, kind, tflags, streams;
	uint64_t mtime_ns; /* an int64_t's bits */
	const char *user, *path, *to, *owner, *group, *cwd, *pattern;
	uint64_t timeout_ms, out_from, err_from;
	const char *id, *parent, *label, *text;
	struct agent_strv argv, env;
	struct agent_bytes data;
};

/* Is it a request at all (SIGNAL, RESIZE and KILL count)? */
bool agent_verb_known(uint16_t verb);
const char *agent_verb_name(uint16_t verb); /* "" when unknown */

/* NULL strings are written as "". Whether it fitted is o->overflow. */
void agent_req_put(struct wire_out *o, const struct agent_req *r);
/*
 * payload is changed and must outlive *ret. -1 on any fault: unknown verb, short, left-over or
 * NUL bytes, over a ceiling, out of memory. On success end with agent_req_done.
 */
int agent_req_get(uint16_t verb, void *payload, size_t len, struct agent_req *ret);
void agent_req_done(struct agent_req *r);
/* One string in place, as above: the bytes under in are changed. "" when bad. */
const char *agent_str_get(struct wire_in *in);

#endif
