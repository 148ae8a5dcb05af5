/*
 * task_msg.h - the record of a task as caisson-init sends and the daemon reads it.
 *
 * One table of fields serves both (agent_proto.h draws it). The reader is for hostile bytes:
 * values outside their ranges make the message bad. Strings point into the message.
 */
#ifndef CAISSON_WIRE_TASK_MSG_H
#define CAISSON_WIRE_TASK_MSG_H

#include <stddef.h>
#include <stdint.h>

#include "wire/agent_proto.h"
#include "wire/wire.h"

struct task_rec {
	const char *id, *parent, *label, *cwd;
	uint32_t kind, code, pid, uid, gid;
	uint8_t state, how, cause;
	uint16_t cols, rows;
	uint64_t created_ms, started_ms, ended_ms;
	uint64_t out_first, out_total, err_first, err_total;
	uint64_t user_us, sys_us, maxrss_kib;
};

void task_rec_put(struct wire_out *o, const struct task_rec *r);
size_t task_rec_size(const struct task_rec *r); /* bytes that task_rec_put writes */
/* As agent_str_get: the bytes under in are changed. in->bad on any fault. */
void task_rec_get(struct wire_in *in, struct task_rec *ret);

#endif
