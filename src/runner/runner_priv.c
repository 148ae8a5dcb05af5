/*
 * runner_priv.c - the runner behind the privileged protocol: one row a verb, one helper for all.
 */
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "base/log.h"
#include "runner/priv_link.h"

static struct runner_priv *priv_of(struct runner *base)
{
	return container_of(base, struct runner_priv, base);
}

/* ---- the verbs: what each asks and what it is answered, in wire order ---- */

enum field_kind { FIELD_END, FIELD_STR, FIELD_CHARS, FIELD_STRV, FIELD_BOOL, FIELD_U32, FIELD_U64 };

#define FIELDS_MAX 11
#define REPLY_MAX  256 /* bytes of the largest struct that answers */
#define MSG_MAX	   8192

struct field {
	uint8_t kind;
	uint8_t off;
	uint8_t size; /* of FIELD_CHARS; of FIELD_STRV the place of its count */
};

struct text_ask {
	const char *text;
	uint32_t flags;
};

struct list_ask {
	bool uppers;
	const char *after;
};

struct hello_reply {
	char instance[32];
	char run_dir[sizeof(((struct runner_priv *)0)->run_dir)];
};

#define F(kind, type, member)                                                                      \
	{                                                                                          \
		FIELD_##kind, offsetof(struct type, member), 0                                     \
	}
#define CHARS(type, member)                                                                        \
	{                                                                                          \
		FIELD_CHARS, offsetof(struct type, member), sizeof(((struct type *)0)->member)     \
	}
#define STRV(type, member, count)                                                                  \
	{                                                                                          \
		FIELD_STRV, offsetof(struct type, member), offsetof(struct type, count)            \
	}
#define ASKS_TEXT                                                                                  \
	{                                                                                          \
		F(STR, text_ask, text)                                                             \
	}
#define SAYS_LAYER                                                                                 \
	{                                                                                          \
		CHARS(runner_layer, id), F(U64, runner_layer, bytes), F(U64, runner_layer, files)  \
	}

enum call_id {
	C_HELLO,
	C_START,
	C_KILL,
	C_DELETE,
	C_STATS,
	C_LIST,
	C_NET,
	C_IMPORT,
	C_DEFAULT,
	C_LAYER_RM,
	C_HOST
};

/* clang-format off */
static const struct call_row {
	uint16_t verb;
	int64_t limit_ms; /* 0: as long as it takes */
	struct field ask[FIELDS_MAX];
	size_t size; /* of the struct that answers */
	struct field reply[FIELDS_MAX];
} call_rows[] = {
	[C_HELLO] = {PRIV_HELLO, RUNNER_CALL_MS, {F(U32, text_ask, flags)},
		sizeof(struct hello_reply),
		{CHARS(hello_reply, instance), CHARS(hello_reply, run_dir)}},
	[C_START] = {PRIV_START, RUNNER_CALL_MS,
		{F(STR, runner_start, id), F(BOOL, runner_start, fresh),
		 STRV(runner_start, layer, nlayers), F(U64, runner_start, mem_bytes),
		 F(U32, runner_start, cpu_milli), F(U32, runner_start, pids_max),
		 F(U32, runner_start, nofile), F(U64, runner_start, disk_bytes),
		 F(U32, runner_start, flags), F(STR, runner_start, hostname)},
		sizeof(struct runner_started),
		{F(U32, runner_started, pid), CHARS(runner_started, ip4),
		 CHARS(runner_started, ip6), F(U32, runner_started, total_us)}},
	[C_KILL] = {PRIV_KILL, RUNNER_CALL_MS, ASKS_TEXT, 0, {{0}}},
	[C_DELETE] = {PRIV_DELETE, RUNNER_CALL_MS, ASKS_TEXT, 0, {{0}}},
	[C_STATS] = {PRIV_STATS, RUNNER_CALL_MS, ASKS_TEXT, sizeof(struct runner_stats),
		{F(U64, runner_stats, cpu_us), F(U64, runner_stats, mem_bytes),
		 F(U64, runner_stats, mem_peak), F(U64, runner_stats, mem_limit),
		 F(U64, runner_stats, mem_cache), F(U64, runner_stats, oom_kills),
		 F(U32, runner_stats, pids), F(U32, runner_stats, cpu_milli)}},
	/* Its answer is a list, read by list_page. */
	[C_LIST] = {PRIV_LIST, RUNNER_CALL_MS,
		{F(BOOL, list_ask, uppers), F(STR, list_ask, after)}, 0, {{0}}},
	[C_NET] = {PRIV_NET, RUNNER_CALL_MS,
		{F(STR, text_ask, text), F(U32, text_ask, flags)}, 0, {{0}}},
	[C_IMPORT] = {PRIV_IMPORT, 0, {F(U64, runner_layer, bytes)},
		sizeof(struct runner_layer), SAYS_LAYER},
	[C_DEFAULT] = {PRIV_DEFAULT, 0, {{0}}, sizeof(struct runner_layer), SAYS_LAYER},
	[C_LAYER_RM] = {PRIV_LAYER_RM, RUNNER_CALL_MS, ASKS_TEXT, 0, {{0}}},
	[C_HOST] = {PRIV_HOST, RUNNER_CALL_MS, {{0}}, sizeof(struct runner_host),
		{F(U64, runner_host, disk_total), F(U64, runner_host, disk_free),
		 F(U64, runner_host, mem_total), F(U32, runner_host, cpus),
		 F(U32, runner_host, live)}},
};
/* clang-format on */

_Static_assert(sizeof(struct runner_layer) <= REPLY_MAX &&
		       sizeof(struct hello_reply) <= REPLY_MAX &&
		       sizeof(struct runner_started) <= REPLY_MAX,
	       "REPLY_MAX");

static void field_put(struct wire_out *o, const struct field *f, const char *obj)
{
	const char *at = obj + f->off;

	switch ((enum field_kind)f->kind) {
	case FIELD_STR:
		wire_put_str(o, *(const char *const *)at);
		return;
	case FIELD_STRV:
		wire_put_strv(o, *(const char *const *const *)at, *(const size_t *)(obj + f->size));
		return;
	case FIELD_BOOL:
		wire_put_u8(o, *(const bool *)at);
		return;
	case FIELD_U32:
		wire_put_u32(o, *(const uint32_t *)at);
		return;
	case FIELD_U64:
		wire_put_u64(o, *(const uint64_t *)at);
		return;
	case FIELD_CHARS:
	case FIELD_END:
		return;
	}
}

static void field_get(struct wire_in *in, const struct field *f, char *obj)
{
	char *at = obj + f->off;

	if (f->kind == FIELD_CHARS)
		wire_get_str(in, at, f->size);
	else if (f->kind == FIELD_U32)
		*(uint32_t *)at = wire_get_u32(in);
	else if (f->kind == FIELD_U64)
		*(uint64_t *)at = wire_get_u64(in);
}

/* Ask and wait. On success c->body, to be freed, holds what was answered. */
static int call_ask(struct runner_priv *r, enum call_id id, struct priv_call *c, const void *ask,
		    int fd, struct err *err)
{
	const struct call_row *row = &call_rows[id];
	uint8_t msg[MSG_MAX];
	struct wire_out o = priv_begin(msg, sizeof(msg), c, r, row->verb);

	for (const struct field *f = row->ask; f->kind != FIELD_END; f++)
		field_put(&o, f, ask);
	return priv_finish(r, c, &o, fd, row->limit_ms, err);
}

/* The whole call; ret is the struct of the row, written on success only. */
static int call_run(struct runner_priv *r, enum call_id id, struct priv_call *c, const void *ask,
		    int fd, void *ret, struct err *err)
{
	const struct call_row *row = &call_rows[id];
	auto_free uint8_t *body = NULL;
	_Alignas(max_align_t) char got[REPLY_MAX] = {0};
	struct wire_in in;

	if (call_ask(r, id, c, ask, fd, err) < 0)
		return -1;
	body = c->body;
	in = wire_in_on(body, c->len);
	for (const struct field *f = row->reply; f->kind != FIELD_END; f++)
		field_get(&in, f, got);
	if (reply_end(&in, err) < 0)
		return -1;
	if (row->size)
		memcpy(ret, got, row->size);
	return 0;
}

static int call_text(struct runner *base, enum call_id id, const char *text, uint32_t flags,
		     void *ret, struct err *err)
{
	struct text_ask ask = {.text = text, .flags = flags};
	struct priv_call c = {0};

	return call_run(priv_of(base), id, &c, &ask, -1, ret, err);
}

static int priv_start(struct runner *base, const struct runner_start *s, struct runner_started *ret,
		      struct err *err)
{
	struct priv_call c = {0};

	if (call_run(priv_of(base), C_START, &c, s, -1, ret, err) < 0)
		return -1;
	/* A start ends with pid 1's word on its status pipe, and its file is of our version. */
	ret->serves = true;
	return 0;
}

static int priv_kill(struct runner *base, const char *id, struct err *err)
{
	return call_text(base, C_KILL, id, 0, NULL, err);
}

static int priv_remove(struct runner *base, const char *id, struct err *err)
{
	return call_text(base, C_DELETE, id, 0, NULL, err);
}

static int priv_net(struct runner *base, const char *id, uint32_t flags, struct err *err)
{
	return call_text(base, C_NET, id, flags, NULL, err);
}

static int priv_layer_remove(struct runner *base, const char *layer, struct err *err)
{
	return call_text(base, C_LAYER_RM, layer, 0, NULL, err);
}

static int priv_stats(struct runner *base, const char *id, struct runner_stats *ret,
		      struct err *err)
{
	return call_text(base, C_STATS, id, 0, ret, err);
}

static int priv_host(struct runner *base, struct runner_host *ret, struct err *err)
{
	return call_text(base, C_HOST, NULL, 0, ret, err);
}

static int priv_import(struct runner *base, int tar_fd, uint64_t max_bytes,
		       runner_progress_fn progress, void *arg, struct runner_layer *ret,
		       struct err *err)
{
	struct priv_call c = {.progress = progress, .arg = arg};
	struct runner_layer ask = {.bytes = max_bytes};

	return call_run(priv_of(base), C_IMPORT, &c, &ask, tar_fd, ret, err);
}

static int priv_default(struct runner *base, runner_progress_fn progress, void *arg,
			struct runner_layer *ret, struct err *err)
{
	struct priv_call c = {.progress = progress, .arg = arg};

	return call_run(priv_of(base), C_DEFAULT, &c, NULL, -1, ret, err);
}

/* ---- lists ---- */

/* One page of ids after the last one of *list; returns how many came. */
static int list_page(struct runner_priv *r, bool uppers, struct runner_live **list, size_t *n,
		     struct err *err)
{
	struct list_ask ask = {.uppers = uppers, .after = *n ? (*list)[*n - 1].id : ""};
	struct priv_call c = {0};
	auto_free uint8_t *body = NULL;
	struct runner_live *grown;
	struct wire_in in;
	size_t got;

	if (call_ask(r, C_LIST, &c, &ask, -1, err) < 0)
		return -1;
	body = c.body;
	in = wire_in_on(body, c.len);
	got = wire_get_count(&in, PRIV_LIST_PAGE, 8);
	grown = realloc(*list, (*n + got + 1) * sizeof(*grown));
	if (!grown)
		return err_set(err, ERR_NOMEM, "out of memory");
	*list = grown;
	for (size_t i = 0; i < got; i++) {
		wire_get_str(&in, grown[*n + i].id, ID_LEN);
		grown[*n + i].pid = wire_get_u32(&in);
	}
	if (reply_end(&in, err) < 0)
		return -1;
	*n += got;
	return (int)got;
}

static int list_all(struct runner_priv *r, bool uppers, struct runner_live **list, size_t *n,
		    struct err *err)
{
	int got;

	do
		got = list_page(r, uppers, list, n, err);
	while (got == PRIV_LIST_PAGE);
	return got < 0 ? -1 : 0;
}

static int priv_list(struct runner *base, struct runner_list *ret, struct err *err)
{
	struct runner_priv *r = priv_of(base);
	auto_free struct runner_live *uppers = NULL;
	struct runner_list got = {0};

	if (list_all(r, false, &got.live, &got.nlive, err) < 0 ||
	    list_all(r, true, &uppers, &got.nuppers, err) < 0) {
		runner_list_done(&got);
		return -1;
	}
	got.upper = calloc(got.nuppers + 1, sizeof(*got.upper));
	if (!got.upper) {
		runner_list_done(&got);
		return err_set(err, ERR_NOMEM, "out of memory");
	}
	for (size_t i = 0; i < got.nuppers; i++)
		memcpy(got.upper[i], uppers[i].id, ID_LEN);
	*ret = got;
	return 0;
}

static int priv_agent_path(struct runner *base, const char *id, char out[108], struct err *err)
{
	struct runner_priv *r = priv_of(base);

	if (!id_valid(id))
		return err_set(err, ERR_INTERNAL, "bad sandbox id");
	if (snprintf(out, 108, "%s/boxes/%s/agent.sock", r->run_dir, id) >= 108)
		return err_set(err, ERR_INTERNAL, "run directory's path is too long");
	return 0;
}

static void priv_free(struct runner *base)
{
	struct runner_priv *r = priv_of(base);

	priv_link_stop(r);
	close(r->sock);
	free(r);
}

static const struct runner_ops priv_ops = {
	.start = priv_start,
	.kill = priv_kill,
	.remove = priv_remove,
	.stats = priv_stats,
	.list = priv_list,
	.net = priv_net,
	.import = priv_import,
	.default_image = priv_default,
	.layer_remove = priv_layer_remove,
	.host = priv_host,
	.agent_path = priv_agent_path,
	.free = priv_free,
};

static int priv_hello(struct runner_priv *r, struct err *err)
{
	struct hello_reply got;

	if (call_text(&r->base, C_HELLO, NULL, PRIV_PROTO_VERSION, &got, err) < 0)
		return err_wrap(err, "greet the runner");
	memcpy(r->run_dir, got.run_dir, sizeof(r->run_dir));
	return 0;
}

void runner_priv_ready(int sock, const char *why)
{
	char text[PRIV_WHY_MAX];
	uint8_t msg[PRIV_WHY_MAX + 64];
	struct wire_out o = wire_out_on(msg, sizeof(msg));

	snprintf(text, sizeof(text), "%s", why);
	wire_put_u32(&o, UINT32_MAX);
	wire_put_u16(&o, PRIV_READY);
	wire_put_str(&o, log_request());
	wire_put_str(&o, text);
	send(sock, msg, o.len, MSG_NOSIGNAL | MSG_DONTWAIT);
}

struct runner *runner_priv_open(int sock, const struct runner_events *ev, struct err *err)
{
	struct runner_priv *r = calloc(1, sizeof(*r));

	if (!r) {
		close(sock);
		err_set(err, ERR_NOMEM, "out of memory");
		return NULL;
	}
	r->base.ops = &priv_ops;
	r->sock = sock;
	r->ev = *ev;
	if (fd_set_cloexec(sock, true, err) < 0 || priv_link_start(r, err) < 0) {
		close(sock);
		free(r);
		return NULL;
	}
	if (priv_hello(r, err) < 0) {
		priv_free(&r->base);
		return NULL;
	}
	return &r->base;
}
