/*
 * toolbox_pty.c - terminals (contract §3.8).
 *
 * A terminal is made and found before the upgrade, so that what fails has a status of its own.
 */
#include "api/daytona/session.h"

#include <stdio.h>
#include <string.h>

#include "api/term.h"
#include "base/base64.h"

#define SIZE_MAX_  1000
#define COLS	   80
#define ROWS	   24
#define ENV_MAX	   1000
#define ENVS_BYTES (64u << 10)

static const char envs_offer[] = "X-Daytona-Pty-Envs~";
static const char exit_offer[] = "X-Daytona-Pty-Exit-Control";

struct pty_args {
	const char *id, *cwd;
	struct kv envs;
	int64_t cols, rows;
	bool lazy;
};

#define AT(member) offsetof(struct pty_args, member) /* offsetof needs the type as a token */

static const struct jt_field pty_create_fields[] = {
	{"id", JT_STR, JT_REQUIRED, AT(id), 1, PROCESS_ID_MAX, NULL},
	{"cwd", JT_STR, 0, AT(cwd), 0, TOOLBOX_PATH_MAX - 1, NULL},
	{"envs", JT_KV, 0, AT(envs), 0, ENV_MAX, NULL},
	{"cols", JT_INT, 0, AT(cols), 0, SIZE_MAX_, NULL},
	{"rows", JT_INT, 0, AT(rows), 0, SIZE_MAX_, NULL},
	{"lazyStart", JT_BOOL, 0, AT(lazy), 0, 0, NULL},
};
const struct jt_table daytona_pty_create_table = {"PtyCreateRequest", pty_create_fields,
						  ARRAY_LEN(pty_create_fields)};

static const struct jt_field pty_query_fields[] = {
	{"id", JT_STR, JT_REQUIRED, AT(id), 1, PROCESS_ID_MAX, NULL},
	{"cwd", JT_STR, 0, AT(cwd), 0, TOOLBOX_PATH_MAX - 1, NULL},
	{"cols", JT_INT, 0, AT(cols), 0, SIZE_MAX_, NULL},
	{"rows", JT_INT, 0, AT(rows), 0, SIZE_MAX_, NULL},
};
static const struct jt_table pty_query_table = {"", pty_query_fields, ARRAY_LEN(pty_query_fields)};

struct resize_args {
	int64_t cols, rows;
};
static const struct jt_field pty_resize_fields[] = {
	{"cols", JT_INT, JT_REQUIRED, offsetof(struct resize_args, cols), 1, SIZE_MAX_, NULL},
	{"rows", JT_INT, JT_REQUIRED, offsetof(struct resize_args, rows), 1, SIZE_MAX_, NULL},
};
const struct jt_table daytona_pty_resize_table = {"PtyResizeRequest", pty_resize_fields,
						  ARRAY_LEN(pty_resize_fields)};

static const char *pty_id(struct http_req *req)
{
	return http_param(req, "sessionId");
}

static struct pty_spec spec_of(const struct pty_args *a)
{
	return (struct pty_spec){.id = a->id,
				 .cwd = a->cwd && *a->cwd ? a->cwd : NULL,
				 .env = &a->envs,
				 .cols = a->cols ? (unsigned)a->cols : COLS,
				 .rows = a->rows ? (unsigned)a->rows : ROWS,
				 .lazy = a->lazy};
}

/* ---- create ---- */

static int reply_text_member(struct http_req *req, int status, const char *key, const char *text,
			     struct err *err)
{
	auto_buf struct buf b = BUF_INIT(API_REPLY_MAX);
	struct jw w;

	jw_init(&w, &b);
	jw_open(&w, '{');
	jw_kstr(&w, key, text);
	jw_close(&w, '}');
	return api_reply(req, status, &w, err);
}

static int create(struct http_req *req, const struct pty_args *a, struct err *err)
{
	const struct pty_spec s = spec_of(a);

	if (pty_create(api_core(req), api_who(req), toolbox_id(req), &s, err) < 0)
		return -1;
	return reply_text_member(req, 201, "sessionId", a->id, err);
}

int daytona_toolbox_CreatePtySession(struct http_req *req, struct err *err)
{
	auto_jt_doc struct jt_doc doc = {NULL};
	struct pty_args a = {0};
	int r = api_body(req, &daytona_pty_create_table, &a, &doc, err);

	if (r == 0)
		r = create(req, &a, err);
	jt_release(&daytona_pty_create_table, &a);
	return r;
}

/* The environment travels as a subprotocol, for browsers can set no other header. */
static int offered_envs(struct http_req *req, struct kv *ret, struct err *err)
{
	auto_buf struct buf text = BUF_INIT(ENVS_BYTES);
	const char *offer;

	for (size_t i = 0; (offer = http_ws_offered(req, i)); i++) {
		const char *from = offer + strlen(envs_offer);

		if (strncmp(offer, envs_offer, strlen(envs_offer)) != 0)
			continue;
		if (base64_decode(from, strlen(from), &text, err) < 0)
			return err_wrap(err, "Sec-WebSocket-Protocol: envs");
		if (memchr(buf_str(&text), '\0', text.len))
			return err_set(err, ERR_INVALID, "envs: must be JSON text");
		return jt_parse_kv(buf_str(&text), "envs", ENV_MAX, ret, err);
	}
	return 0;
}

static int attach(struct http_req *req, const char *id, uint64_t offset, struct err *err)
{
	struct term_opts opts = {0};
	struct process_log *log;
	const char *offer;

	for (size_t i = 0; (offer = http_ws_offered(req, i)); i++)
		if (strcmp(offer, exit_offer) == 0)
			opts.exit_control = true;
	log = pty_attach(api_core(req), api_who(req), toolbox_id(req), id, offset, err);
	return log ? term_upgrade(req, log, &opts, err) : -1;
}

static int need_upgrade(struct http_req *req, struct err *err)
{
	if (http_wants_upgrade(req))
		return 0;
	return err_set(err, ERR_INVALID, "Upgrade: a WebSocket is needed here");
}

static int create_connect(struct http_req *req, struct pty_args *a, struct err *err)
{
	struct pty_spec s;

	if (api_query(req, &pty_query_table, a, err) < 0 || offered_envs(req, &a->envs, err) < 0)
		return -1;
	s = spec_of(a);
	if (pty_create(api_core(req), api_who(req), toolbox_id(req), &s, err) < 0)
		return -1;
	/* Nobody was there before: from the first byte on. */
	return attach(req, a->id, 0, err);
}

int daytona_toolbox_CreateConnectPtySession(struct http_req *req, struct err *err)
{
	struct pty_args a = {0};
	int r = need_upgrade(req, err);

	if (r == 0)
		r = create_connect(req, &a, err);
	jt_release(&pty_query_table, &a);
	kv_done(&a.envs);
	return r;
}

int daytona_toolbox_ConnectPtySession(struct http_req *req, struct err *err)
{
	/* From now on: what a shell asked the terminal before must not be answered twice. */
	return need_upgrade(req, err) < 0 ? -1 : attach(req, pty_id(req), TASK_TAIL, err);
}

/* ---- looking and changing ---- */

static void put_pty(struct jw *w, const struct pty_info *p)
{
	jw_open(w, '{');
	jw_kstr(w, "id", p->id);
	jw_kstr(w, "cwd", p->cwd);
	jw_key(w, "envs");
	jw_kv(w, &p->env);
	jw_kint(w, "cols", p->cols);
	jw_kint(w, "rows", p->rows);
	jw_key(w, "createdAt");
	jw_time(w, p->created_ms);
	jw_kbool(w, "active", p->active);
	jw_kbool(w, "lazyStart", p->lazy);
	jw_close(w, '}');
}

static int list_one(void *arg, const struct pty_info *p, struct err *err)
{
	(void)err;
	put_pty(arg, p);
	return 0;
}

int daytona_toolbox_ListPtySessions(struct http_req *req, struct err *err)
{
	auto_buf struct buf b = BUF_INIT(API_REPLY_MAX);
	struct jw w;

	jw_init(&w, &b);
	jw_open(&w, '{');
	jw_key(&w, "sessions");
	jw_open(&w, '[');
	if (pty_list(api_core(req), api_who(req), toolbox_id(req), list_one, &w, err) < 0)
		return -1;
	jw_close(&w, ']');
	jw_close(&w, '}');
	return api_reply(req, 200, &w, err);
}

static int reply_pty(struct http_req *req, const struct pty_info *p, struct err *err)
{
	auto_buf struct buf b = BUF_INIT(API_REPLY_MAX);
	struct jw w;

	jw_init(&w, &b);
	put_pty(&w, p);
	return api_reply(req, 200, &w, err);
}

int daytona_toolbox_GetPtySession(struct http_req *req, struct err *err)
{
	auto_pty struct pty_info p = {0};

	if (pty_get(api_core(req), api_who(req), toolbox_id(req), pty_id(req), &p, err) < 0)
		return -1;
	return reply_pty(req, &p, err);
}

int daytona_toolbox_ResizePtySession(struct http_req *req, struct err *err)
{
	auto_jt_doc struct jt_doc doc = {NULL};
	auto_pty struct pty_info p = {0};
	struct resize_args a = {0};

	if (api_body(req, &daytona_pty_resize_table, &a, &doc, err) < 0 ||
	    pty_resize(api_core(req), api_who(req), toolbox_id(req), pty_id(req), (unsigned)a.cols,
		       (unsigned)a.rows, &p, err) < 0)
		return -1;
	return reply_pty(req, &p, err);
}

int daytona_toolbox_DeletePtySession(struct http_req *req, struct err *err)
{
	if (pty_kill(api_core(req), api_who(req), toolbox_id(req), pty_id(req), err) < 0)
		return -1;
	return reply_text_member(req, 200, "message", "the terminal was killed", err);
}
