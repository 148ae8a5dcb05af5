/*
 * interpreter.c - contexts of the code interpreter, and running code in one over a WebSocket
 * (contract §3.9).
 *
 * The client's first message is text: {"code", "contextId", "envs", "timeout"}. The server's are
 * text, too: stdout, stderr, error, and last of all control, "completed" or "interrupted"; then it
 * closes with 1000. 4008: out of time. 1002: no JSON. 1008: refused, the reason says why. A client
 * that goes away does not end the code.
 */
#include "api/daytona/toolbox.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/utf8.h"
#include "caisson/interp.h"

#define FIRST_MS      10000 /* for the client's first message */
#define MESSAGE_MAX   (INTERP_CODE_MAX + (1u << 20))
#define FRAME_MAX     (2u << 20) /* bytes of JSON in one message */
#define SEND_MS	      50000
#define TICK_MS	      1000
#define PING_MS	      30000
#define TIMEOUT_S     600
#define TIMEOUT_MAX_S 86400
#define CLOSE_TIMEOUT 4008
#define CARRY_MAX     4

/* ---- contexts ---- */

static void put_context(struct jw *w, const struct interp_context *c)
{
	jw_open(w, '{');
	jw_kstr(w, "id", c->id);
	jw_kstr(w, "cwd", c->cwd);
	jw_key(w, "createdAt");
	jw_time(w, c->created_ms);
	jw_kbool(w, "active", c->active);
	jw_kstr(w, "language", "python");
	jw_close(w, '}');
}

struct context_args {
	const char *cwd, *language;
};

#define AT(member) offsetof(struct context_args, member)

static const struct jt_field context_fields[] = {
	{"cwd", JT_STR, 0, AT(cwd), 0, TOOLBOX_PATH_MAX - 1, NULL},
	{"language", JT_STR, 0, AT(language), 0, 64, NULL},
};
const struct jt_table daytona_context_table = {"CreateContextRequest", context_fields,
					       ARRAY_LEN(context_fields)};

static int context_create(struct http_req *req, const struct context_args *a, struct err *err)
{
	auto_buf struct buf b = BUF_INIT(API_REPLY_MAX);
	struct interp_context c;
	struct jw w;

	if (a->language && a->language[0] && strcmp(a->language, "python") != 0)
		return err_set(err, ERR_INVALID, "language: must be python");
	if (interp_create(api_core(req), api_who(req), toolbox_id(req),
			  a->cwd && a->cwd[0] ? a->cwd : NULL, &c, err) < 0)
		return -1;
	jw_init(&w, &b);
	put_context(&w, &c);
	return api_reply(req, 200, &w, err);
}

int daytona_toolbox_CreateInterpreterContext(struct http_req *req, struct err *err)
{
	auto_jt_doc struct jt_doc doc = {NULL};
	struct context_args a = {0};

	if (api_body(req, &daytona_context_table, &a, &doc, err) < 0)
		return -1;
	return context_create(req, &a, err);
}

int daytona_toolbox_ListInterpreterContexts(struct http_req *req, struct err *err)
{
	auto_buf struct buf b = BUF_INIT(API_REPLY_MAX);
	auto_free struct interp_context *c = NULL;
	struct jw w;
	size_t n;

	if (interp_list(api_core(req), api_who(req), toolbox_id(req), &c, &n, err) < 0)
		return -1;
	jw_init(&w, &b);
	jw_open(&w, '{');
	jw_key(&w, "contexts");
	jw_open(&w, '[');
	for (size_t i = 0; i < n; i++)
		put_context(&w, &c[i]);
	jw_close(&w, ']');
	jw_close(&w, '}');
	return api_reply(req, 200, &w, err);
}

int daytona_toolbox_DeleteInterpreterContext(struct http_req *req, struct err *err)
{
	auto_buf struct buf b = BUF_INIT(API_REPLY_MAX);
	struct jw w;

	if (interp_delete(api_core(req), api_who(req), toolbox_id(req), http_param(req, "id"),
			  err) < 0)
		return -1;
	jw_init(&w, &b);
	jw_open(&w, '{');
	jw_kstr(&w, "message", "Context deleted");
	jw_close(&w, '}');
	return api_reply(req, 200, &w, err);
}

/* ---- a run ---- */

struct run_args {
	const char *code, *context;
	struct kv envs;
	int64_t timeout_s;
};

#undef AT
#define AT(member) offsetof(struct run_args, member)

static const struct jt_field run_fields[] = {
	{"code", JT_STR, JT_REQUIRED, AT(code), 0, INTERP_CODE_MAX, NULL},
	{"contextId", JT_STR, 0, AT(context), 0, 255, NULL},
	{"envs", JT_KV, 0, AT(envs), 0, 1000, NULL},
	{"timeout", JT_INT, 0, AT(timeout_s), 0, TIMEOUT_MAX_S, NULL},
};
const struct jt_table daytona_run_code_table = {"ExecuteRequestInterpreter", run_fields,
						ARRAY_LEN(run_fields)};

struct run {
	struct http_ws *ws;
	struct core *core;
	struct caller who;
	char sandbox[ID_LEN];
	struct interp *interp;
	int64_t timeout_s, ping_ms;
	uint16_t refused; /* close code of a message that can't be taken */
	bool ended;
	struct {
		char b[CARRY_MAX]; /* start of a character whose rest has not come */
		size_t n;
	} carry[2];
};

/* The client has closed, hung up, or the server is to end. What it says meanwhile is not heard. */
static bool run_gone(void *arg)
{
	struct run *r = arg;
	auto_buf struct buf b = BUF_INIT(MESSAGE_MAX);
	int op;

	while ((op = http_ws_recv(r->ws, &b, MESSAGE_MAX, clock_mono_ms(), NULL)) > 0 &&
	       op != WS_CLOSE)
		buf_clear(&b);
	return op != 0 || http_stopping(r->ws);
}

/* While the client takes nothing the code waits, and the runner hears that we are there. */
static int run_send(struct run *r, struct jw *w, struct err *err)
{
	struct err why = {0};

	if (jw_end(w, err) < 0)
		return -1;
	while (http_ws_ready(r->ws, clock_mono_ms() + TICK_MS, &why) < 0) {
		if (why.code != ERR_TIMEOUT || run_gone(r))
			return err_set(err, ERR_CANCELLED, "the client went");
		interp_alive(r->interp);
	}
	return http_ws_send(r->ws, WS_TEXT, buf_str(w->b), w->b->len, clock_mono_ms() + SEND_MS,
			    err);
}

static void frame_open(struct jw *w, struct buf *b, const char *type)
{
	jw_init(w, b);
	jw_open(w, '{');
	jw_kstr(w, "type", type);
}

static const char *stream_name(int stream)
{
	return stream == 2 ? "stderr" : "stdout";
}

/* Text of a stream: what is carried, then p. A character that is cut at the end waits. */
static int tell_text(struct run *r, int stream, const char *p, size_t n, bool last, struct err *err)
{
	auto_buf struct buf b = BUF_INIT(FRAME_MAX), raw = BUF_INIT(FRAME_MAX);
	size_t at = stream == 2, whole;
	struct jw w;

	if (buf_add(&raw, r->carry[at].b, r->carry[at].n, err) < 0 || buf_add(&raw, p, n, err) < 0)
		return -1;
	whole = last || !raw.len ? raw.len : utf8_floor(raw.data, raw.len);
	r->carry[at].n = raw.len - whole;
	memcpy(r->carry[at].b, buf_str(&raw) + whole, raw.len - whole);
	if (!whole)
		return 0;
	frame_open(&w, &b, stream_name(stream));
	jw_key(&w, "text");
	jw_strn(&w, buf_str(&raw), whole);
	jw_close(&w, '}');
	return run_send(r, &w, err);
}

static int tell_rest(struct run *r, struct err *err)
{
	if (tell_text(r, 1, "", 0, true, err) < 0)
		return -1;
	return tell_text(r, 2, "", 0, true, err);
}

static int tell_lost(struct run *r, const struct interp_event *ev, struct err *err)
{
	auto_buf struct buf b = BUF_INIT(FRAME_MAX);
	struct jw w;

	frame_open(&w, &b, "gap");
	jw_kstr(&w, "stream", stream_name(ev->stream));
	jw_key(&w, "bytes");
	jw_uint(&w, ev->n);
	jw_close(&w, '}');
	return run_send(r, &w, err);
}

static int tell_error(struct run *r, const struct interp_event *ev, struct err *err)
{
	auto_buf struct buf b = BUF_INIT(FRAME_MAX);
	struct jw w;

	frame_open(&w, &b, "error");
	jw_key(&w, "name");
	jw_strn(&w, ev->name.p, ev->name.n);
	jw_key(&w, "value");
	jw_strn(&w, ev->text.p, ev->text.n);
	jw_key(&w, "traceback");
	jw_strn(&w, ev->traceback.p, ev->traceback.n);
	jw_close(&w, '}');
	return run_send(r, &w, err);
}

static int tell_control(struct run *r, const char *text, struct err *err)
{
	auto_buf struct buf b = BUF_INIT(FRAME_MAX);
	struct jw w;

	frame_open(&w, &b, "control");
	jw_kstr(&w, "text", text);
	jw_close(&w, '}');
	return run_send(r, &w, err);
}

static int tell_end(struct run *r, const struct interp_event *ev, struct err *err)
{
	struct interp_event died = *ev;
	char reason[80];

	r->ended = true;
	if (tell_rest(r, err) < 0)
		return -1;
	if (ev->end == INTERP_TIMED_OUT) {
		snprintf(reason, sizeof(reason), "execution timed out after %lld s",
			 (long long)r->timeout_s);
		http_ws_close(r->ws, CLOSE_TIMEOUT, reason);
		return 0;
	}
	died.name.p = "InterpreterDied";
	died.name.n = strlen(died.name.p);
	if ((ev->end == INTERP_DIED && tell_error(r, &died, err) < 0) ||
	    tell_control(r, ev->end == INTERP_INTERRUPTED ? "interrupted" : "completed", err) < 0)
		return -1;
	http_ws_close(r->ws, 1000, "");
	return 0;
}

static int run_event(struct run *r, const struct interp_event *ev, struct err *err)
{
	switch (ev->kind) {
	case INTERP_OUTPUT:
		return tell_text(r, ev->stream, ev->p, (size_t)ev->n, false, err);
	case INTERP_LOST:
		return tell_lost(r, ev, err);
	case INTERP_ERROR:
		return tell_rest(r, err) < 0 ? -1 : tell_error(r, ev, err);
	case INTERP_END:
		return tell_end(r, ev, err);
	default:
		return 0;
	}
}

static int run_step(struct run *r, struct err *err)
{
	struct pollfd p[] = {{interp_fd(r->interp), POLLIN, 0}, {http_ws_fd(r->ws), POLLIN, 0}};
	struct interp_event ev;

	poll(p, ARRAY_LEN(p), TICK_MS);
	if (run_gone(r))
		return err_set(err, ERR_CANCELLED, "the client went");
	if (clock_mono_ms() >= r->ping_ms) {
		r->ping_ms = clock_mono_ms() + PING_MS;
		http_ws_send(r->ws, WS_PING, "", 0, clock_mono_ms() + TICK_MS, NULL);
	}
	do {
		if (interp_next(r->interp, &ev, err) < 0 || run_event(r, &ev, err) < 0)
			return -1;
	} while (ev.kind != INTERP_NONE && !r->ended);
	return 0;
}

static int run_open(struct run *r, const struct run_args *a, struct err *err)
{
	const struct interp_spec spec = {
		.sandbox = r->sandbox,
		.context = a->context,
		.code = a->code,
		.env = &a->envs,
		.timeout_ms = a->timeout_s * 1000,
		.gone = run_gone,
		.arg = r,
	};

	r->timeout_s = a->timeout_s;
	r->interp = interp_open(r->core, &r->who, &spec, err);
	return r->interp ? 0 : -1;
}

static int run_start(struct run *r, struct err *err)
{
	struct run_args a = {.timeout_s = TIMEOUT_S};
	auto_buf struct buf b = BUF_INIT(MESSAGE_MAX);
	auto_jt_doc struct jt_doc doc = {NULL};
	int op = http_ws_recv(r->ws, &b, MESSAGE_MAX, clock_mono_ms() + FIRST_MS, err), rc = -1;

	if (op < 0)
		return -1;
	if (op == WS_CLOSE)
		return err_set(err, ERR_CANCELLED, "the client closed");
	r->refused = 1002;
	if (op != WS_TEXT)
		return err_set(err, ERR_INVALID, "the first message must be JSON text, within %d s",
			       FIRST_MS / 1000);
	if (jt_parse(&doc, buf_str(&b), b.len, err) < 0)
		return -1;
	r->refused = 1008;
	if (jt_decode(&doc, &daytona_run_code_table, &a, err) == 0)
		rc = run_open(r, &a, err);
	jt_release(&daytona_run_code_table, &a);
	return rc;
}

static void run_main(struct http_ws *ws, void *arg)
{
	struct run *r = arg;
	struct err err = {0};

	r->ws = ws;
	r->refused = 1008;
	r->ping_ms = clock_mono_ms() + PING_MS;
	if (run_start(r, &err) == 0)
		while (!r->ended && run_step(r, &err) == 0)
			continue;
	interp_close(r->interp);
	if (!r->ended && http_stopping(ws))
		http_ws_close(ws, 1001, "the daemon is shutting down");
	else if (!r->ended && err.code != ERR_CANCELLED)
		http_ws_close(ws, r->refused, err.msg);
	free(r);
}

int daytona_toolbox_ExecuteInterpreterCode(struct http_req *req, struct err *err)
{
	auto_sandbox struct sandbox s = {0};
	struct run *r;

	if (!http_wants_upgrade(req))
		return err_set(err, ERR_INVALID, "Upgrade: a WebSocket is needed here");
	if (sandbox_get(api_core(req), api_who(req), toolbox_id(req), &s, err) < 0)
		return -1;
	r = calloc(1, sizeof(*r));
	if (!r)
		return err_set(err, ERR_NOMEM, "out of memory");
	r->core = api_core(req);
	r->who = *api_who(req);
	snprintf(r->sandbox, sizeof(r->sandbox), "%s", s.id);
	if (http_upgrade(req, http_ws_offered(req, 0), run_main, r, err) < 0) {
		free(r);
		return -1;
	}
	return 0;
}
