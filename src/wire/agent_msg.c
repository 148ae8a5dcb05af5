/*
 * agent_msg.c - see agent_msg.h. One row a verb, one cell a field, in wire order.
 */
#include "wire/agent_msg.h"

#include <stdlib.h>
#include <string.h>

enum field_kind {
	FIELD_END,
	FIELD_STR,
	FIELD_STRV,
	FIELD_BYTES,
	FIELD_U16,
	FIELD_U32,
	FIELD_U64,
	FIELD_BOOL
};

#define FIELDS_MAX 13 /* of the longest row, and its end */

struct field {
	uint8_t kind;
	uint16_t off;
};

#define S(f)                                                                                       \
	{                                                                                          \
		FIELD_STR, offsetof(struct agent_req, f)                                           \
	}
#define V(f)                                                                                       \
	{                                                                                          \
		FIELD_STRV, offsetof(struct agent_req, f)                                          \
	}
#define D(f)                                                                                       \
	{                                                                                          \
		FIELD_BYTES, offsetof(struct agent_req, f)                                         \
	}
#define H(f)                                                                                       \
	{                                                                                          \
		FIELD_U16, offsetof(struct agent_req, f)                                           \
	}
#define W(f)                                                                                       \
	{                                                                                          \
		FIELD_U32, offsetof(struct agent_req, f)                                           \
	}
#define Q(f)                                                                                       \
	{                                                                                          \
		FIELD_U64, offsetof(struct agent_req, f)                                           \
	}
#define B(f)                                                                                       \
	{                                                                                          \
		FIELD_BOOL, offsetof(struct agent_req, f)                                          \
	}

/* clang-format off */
static const struct verb_row {
	uint16_t verb;
	const char *name;
	struct field field[FIELDS_MAX];
} verb_rows[] = {
	{AGENT_HELLO,   "hello",   {{0}}},
	{AGENT_SPAWN,   "spawn",   {V(argv), V(env), S(cwd), S(user), W(flags), H(cols), H(rows)}},
	{AGENT_SIGNAL,  "signal",  {W(sig), B(tree)}},
	{AGENT_RESIZE,  "resize",  {H(cols), H(rows)}},
	{AGENT_KILL,    "kill",    {{0}}},
	{AGENT_NOTES,   "notes",   {{0}}},
	{AGENT_STAT,    "stat",    {S(user), S(path), B(follow)}},
	{AGENT_LIST,    "list",    {S(user), S(path), W(depth), W(max)}},
	{AGENT_OPEN,    "open",    {S(user), S(path), W(flags), W(mode)}},
	{AGENT_MKDIR,   "mkdir",   {S(user), S(path), W(mode), B(parents)}},
	{AGENT_RENAME,  "rename",  {S(user), S(path), S(to)}},
	{AGENT_REMOVE,  "remove",  {S(user), S(path), B(recursive)}},
	{AGENT_SETATTR, "setattr", {S(user), S(path), B(has_mode), W(mode), S(owner), S(group)}},
	{AGENT_USER,    "user",    {S(user)}},
	{AGENT_STATFS,  "statfs",  {S(path)}},
	{AGENT_FIND,    "find",    {S(user), S(path), S(pattern), W(max)}},
	{AGENT_SEARCH,  "search",  {S(user), S(path), S(pattern), W(max)}},
	{AGENT_PUT,     "put",     {S(user), S(path), W(flags), W(mode)}},
	{AGENT_COMMIT,  "commit",  {B(has_mtime), Q(mtime_ns)}},
	{AGENT_WATCH,   "watch",   {S(user), S(path), B(recursive)}},
	{AGENT_LINK,    "link",    {S(user), S(path), S(to), B(hard)}},
	{AGENT_PORTS,   "ports",   {{0}}},
	{AGENT_TRAFFIC, "traffic", {{0}}},
	{AGENT_TERM,    "term",    {W(grace_ms)}},
	{AGENT_TASK_START, "task_start",
		{S(id), S(label), W(kind), W(tflags), Q(timeout_ms), V(argv), V(env), S(cwd),
		 S(user), W(flags), H(cols), H(rows)}},
	{AGENT_TASK_EXEC, "task_exec", {S(parent), S(id), S(text), W(tflags), Q(timeout_ms)}},
	{AGENT_TASK_GET,    "task_get",    {S(id)}},
	{AGENT_TASK_LIST,   "task_list",   {W(kind), S(parent)}},
	{AGENT_TASK_READ,   "task_read",
		{S(id), W(streams), Q(out_from), Q(err_from), B(follow)}},
	{AGENT_TASK_WRITE,  "task_write",  {S(id), B(eof), D(data)}},
	{AGENT_TASK_SIGNAL, "task_signal", {S(id), W(sig), B(tree)}},
	{AGENT_TASK_RESIZE, "task_resize", {S(id), H(cols), H(rows)}},
	{AGENT_TASK_KILL,   "task_kill",   {S(id), W(grace_ms)}},
	{AGENT_TASK_REMOVE, "task_remove", {S(id)}},
	{AGENT_TASK_ATTACH, "task_attach", {S(id)}},
};
/* clang-format on */

static const struct verb_row *verb_find(uint16_t verb)
{
	for (size_t i = 0; i < sizeof(verb_rows) / sizeof(verb_rows[0]); i++)
		if (verb_rows[i].verb == verb)
			return &verb_rows[i];
	return NULL;
}

bool agent_verb_known(uint16_t verb)
{
	return verb_find(verb) != NULL;
}

const char *agent_verb_name(uint16_t verb)
{
	const struct verb_row *row = verb_find(verb);

	return row ? row->name : "";
}

static void field_put(struct wire_out *o, const struct agent_req *r, const struct field *f)
{
	const char *at = (const char *)r + f->off;
	const struct agent_strv *v;

	switch (f->kind) {
	case FIELD_STR:
		wire_put_str(o, *(const char *const *)at);
		break;
	case FIELD_STRV:
		v = (const struct agent_strv *)at;
		wire_put_strv(o, v->v, v->n);
		break;
	case FIELD_BYTES:
		wire_put_bytes(o, ((const struct agent_bytes *)at)->p,
			       ((const struct agent_bytes *)at)->n);
		break;
	case FIELD_U16:
		wire_put_u16(o, *(const uint16_t *)at);
		break;
	case FIELD_U32:
		wire_put_u32(o, *(const uint32_t *)at);
		break;
	case FIELD_U64:
		wire_put_u64(o, *(const uint64_t *)at);
		break;
	default:
		wire_put_u8(o, *(const bool *)at);
		break;
	}
}

void agent_req_put(struct wire_out *o, const struct agent_req *r)
{
	const struct verb_row *row = verb_find(r->verb);

	if (!row) {
		o->overflow = true;
		return;
	}
	for (const struct field *f = row->field; f->kind != FIELD_END; f++)
		field_put(o, r, f);
}

/* The string loses its prefix to gain a NUL: the four bytes before it are its own length. */
const char *agent_str_get(struct wire_in *in)
{
	size_t n;
	const uint8_t *p = wire_get_bytes(in, &n);
	char *dst;

	if (!p || memchr(p, 0, n)) {
		in->bad = true;
		return "";
	}
	dst = (char *)(uintptr_t)p - 4;
	memmove(dst, p, n);
	dst[n] = '\0';
	return dst;
}

static void strv_get(struct wire_in *in, struct agent_strv *ret)
{
	size_t n = wire_get_count(in, AGENT_ARGS_MAX, 4);
	const char **v;

	if (in->bad)
		return;
	v = malloc((n + 1) * sizeof(*v));
	if (!v) {
		in->bad = true;
		return;
	}
	for (size_t i = 0; i < n; i++)
		v[i] = agent_str_get(in);
	v[n] = NULL;
	ret->v = v;
	ret->n = n;
}

static void field_get(struct wire_in *in, struct agent_req *r, const struct field *f)
{
	char *at = (char *)r + f->off;

	switch (f->kind) {
	case FIELD_STR:
		*(const char **)at = agent_str_get(in);
		break;
	case FIELD_STRV:
		strv_get(in, (struct agent_strv *)at);
		break;
	case FIELD_BYTES:
		((struct agent_bytes *)at)->p = wire_get_bytes(in, &((struct agent_bytes *)at)->n);
		break;
	case FIELD_U16:
		*(uint16_t *)at = wire_get_u16(in);
		break;
	case FIELD_U32:
		*(uint32_t *)at = wire_get_u32(in);
		break;
	case FIELD_U64:
		*(uint64_t *)at = wire_get_u64(in);
		break;
	default:
		*(bool *)at = wire_get_bool(in);
		break;
	}
}

int agent_req_get(uint16_t verb, void *payload, size_t len, struct agent_req *ret)
{
	const struct verb_row *row = verb_find(verb);
	struct wire_in in = wire_in_on(payload, len);
	struct agent_req r = {.verb = verb,
			      .user = "",
			      .path = "",
			      .to = "",
			      .owner = "",
			      .group = "",
			      .cwd = "",
			      .pattern = "",
			      .id = "",
			      .parent = "",
			      .label = "",
			      .text = ""};

	if (!row)
		return -1;
	for (const struct field *f = row->field; f->kind != FIELD_END; f++)
		field_get(&in, &r, f);
	if (!wire_in_end(&in) || strlen(r.user) >= AGENT_USER_MAX) {
		agent_req_done(&r);
		return -1;
	}
	*ret = r;
	return 0;
}

void agent_req_done(struct agent_req *r)
{
	free((void *)(uintptr_t)r->argv.v);
	free((void *)(uintptr_t)r->env.v);
	r->argv = r->env = (struct agent_strv){0};
}
