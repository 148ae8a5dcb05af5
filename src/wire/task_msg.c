/*
 * task_msg.c - see task_msg.h. One row a field, in wire order.
 */
#include "wire/task_msg.h"

#include <string.h>

#include "wire/agent_msg.h"

enum rec_kind { REC_STR, REC_U8, REC_U16, REC_U32, REC_U64 };

#define F(kind, f)                                                                                 \
	{                                                                                          \
		kind, offsetof(struct task_rec, f)                                                 \
	}

static const struct {
	uint8_t kind;
	uint8_t off;
} rec_field[] = {
	F(REC_STR, id),		F(REC_STR, parent),    F(REC_STR, label),
	F(REC_U32, kind),	F(REC_U8, state),      F(REC_U8, how),
	F(REC_U32, code),	F(REC_U8, cause),      F(REC_U32, pid),
	F(REC_U32, uid),	F(REC_U32, gid),       F(REC_STR, cwd),
	F(REC_U16, cols),	F(REC_U16, rows),      F(REC_U64, created_ms),
	F(REC_U64, started_ms), F(REC_U64, ended_ms),  F(REC_U64, out_first),
	F(REC_U64, out_total),	F(REC_U64, err_first), F(REC_U64, err_total),
	F(REC_U64, user_us),	F(REC_U64, sys_us),    F(REC_U64, maxrss_kib),
};

#define REC_FIELDS (sizeof(rec_field) / sizeof(rec_field[0]))

void task_rec_put(struct wire_out *o, const struct task_rec *r)
{
	for (size_t i = 0; i < REC_FIELDS; i++) {
		const char *at = (const char *)r + rec_field[i].off;

		switch (rec_field[i].kind) {
		case REC_STR:
			wire_put_str(o, *(const char *const *)at);
			break;
		case REC_U8:
			wire_put_u8(o, *(const uint8_t *)at);
			break;
		case REC_U16:
			wire_put_u16(o, *(const uint16_t *)at);
			break;
		case REC_U32:
			wire_put_u32(o, *(const uint32_t *)at);
			break;
		default:
			wire_put_u64(o, *(const uint64_t *)at);
			break;
		}
	}
}

size_t task_rec_size(const struct task_rec *r)
{
	static const size_t fixed[] = {
		[REC_STR] = 4, [REC_U8] = 1, [REC_U16] = 2, [REC_U32] = 4, [REC_U64] = 8};
	const char *const text[] = {r->id, r->parent, r->label, r->cwd};
	size_t n = 0;

	for (size_t i = 0; i < REC_FIELDS; i++)
		n += fixed[rec_field[i].kind];
	for (size_t i = 0; i < sizeof(text) / sizeof(text[0]); i++)
		n += text[i] ? strlen(text[i]) : 0;
	return n;
}

static bool rec_possible(const struct task_rec *r)
{
	return r->kind >= TASK_DETACHED && r->kind <= TASK_INTERPRETER && r->state >= TASK_QUEUED &&
	       r->state <= TASK_ENDED && r->how <= AGENT_EXIT_SIGNAL && r->cause <= TASK_LOST &&
	       r->code <= 255 && r->out_first <= r->out_total && r->err_first <= r->err_total &&
	       r->created_ms <= INT64_MAX && r->started_ms <= INT64_MAX &&
	       r->ended_ms <= INT64_MAX && strlen(r->id) <= TASK_ID_MAX &&
	       strlen(r->parent) <= TASK_ID_MAX && strlen(r->label) <= TASK_LABEL_MAX;
}

void task_rec_get(struct wire_in *in, struct task_rec *ret)
{
	struct task_rec r = {.id = ""};

	for (size_t i = 0; i < REC_FIELDS; i++) {
		char *at = (char *)&r + rec_field[i].off;

		switch (rec_field[i].kind) {
		case REC_STR:
			*(const char **)at = agent_str_get(in);
			break;
		case REC_U8:
			*(uint8_t *)at = wire_get_u8(in);
			break;
		case REC_U16:
			*(uint16_t *)at = wire_get_u16(in);
			break;
		case REC_U32:
			*(uint32_t *)at = wire_get_u32(in);
			break;
		default:
			*(uint64_t *)at = wire_get_u64(in);
			break;
		}
	}
	if (!in->bad && !rec_possible(&r))
		in->bad = true;
	*ret = r;
}
