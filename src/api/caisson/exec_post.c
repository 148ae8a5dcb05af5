/*
 * exec_post.c - run a command: attached, detached, or once for a key.
 *
 *   no key, no detach    attached: JSON at the end, or events as they come; ends with its client
 *   detach               202 with the exec, which runs on
 *   Idempotency-Key      runs as detached, once; without detach the reply waits for its end
 */
#include "api/caisson/exec_rest.h"
#include "api/caisson/exec_ws.h"

#include <openssl/sha.h>
#include <string.h>

#include "base/base64.h"
#include "base/clock.h"

#define INPUT_MAX (8 << 20)
#define FEED_MS	  3600000 /* for a command to read its input */

struct exec_request {
	struct exec_start start;
	const char *input, *encoding;
	bool detach;
	int64_t max_output;
};

/* offsetof needs the type as a token */
#define AT(member)	 offsetof(struct exec_request, member)
#define START_AT(member) offsetof(struct exec_request, start.member)

static const struct jt_field request_fields[] = {
	EXEC_START_ROWS(START_AT),
	{"input", JT_STR, 0, AT(input), 0, INPUT_MAX, NULL},
	{"encoding", JT_STR, 0, AT(encoding), 1, 16, NULL},
	{"detach", JT_BOOL, 0, AT(detach), 0, 0, NULL},
	{"maxOutput", JT_INT, 0, AT(max_output), 0, 1 << 30, NULL},
};
const struct jt_table native_request_table = {"ExecRequest", request_fields,
					      ARRAY_LEN(request_fields)};

/* A request being served. */
struct post {
	struct http_req *req;
	struct exec_request a;
	struct exec_spec spec;
	const char *shell[2];
	struct buf input; /* decoded */
	bool base64;
	enum exec_form form;
	struct exec_key key;
	char sandbox[ID_LEN];
};

static int post_fill(struct post *p, struct err *err)
{
	const struct exec_request *a = &p->a;

	if (exec_start_spec(&a->start, p->sandbox, p->shell, &p->spec, err) < 0)
		return -1;
	p->spec.linger_ms = EXEC_LINGER_MS;
	if (a->encoding && strcmp(a->encoding, "base64") != 0 && strcmp(a->encoding, "text") != 0)
		return err_set(err, ERR_INVALID, "encoding: must be text or base64");
	p->base64 = a->encoding && strcmp(a->encoding, "base64") == 0;
	if (!a->input)
		return 0;
	if (p->base64 && base64_decode(a->input, strlen(a->input), &p->input, err) < 0)
		return err_wrap(err, "input");
	if (!p->base64 && buf_adds(&p->input, a->input, err) < 0)
		return -1;
	p->spec.input = buf_str(&p->input);
	p->spec.input_len = p->input.len;
	return 0;
}

/* ---- attached ---- */

static int run_attached(struct post *p, struct err *err)
{
	auto_buf struct buf b = BUF_INIT(API_REPLY_MAX);
	auto_keep struct exec_keep k = {0};
	struct exec_result r = {0};
	struct jw w;

	if (p->a.start.tty || p->a.start.has_stdin)
		return err_set(err, ERR_INVALID,
			       "%s: needs detach, an Idempotency-Key, or the WebSocket",
			       p->a.start.tty ? "tty" : "stdin");
	if (p->form != FORM_JSON)
		return exec_attach(p->req, &p->spec, p->form, p->base64, err);
	exec_keep_init(&k, p->req, p->base64, (uint64_t)p->a.max_output);
	if (exec_run(api_core(p->req), api_who(p->req), &p->spec, exec_keep_sink, &k,
		     http_client_fd(p->req), &r, err) < 0)
		return -1;
	jw_init(&w, &b);
	jw_open(&w, '{');
	jw_kstr(&w, "state", "ended");
	exec_put_end(&w, &r);
	exec_keep_put(&w, &k);
	jw_close(&w, '}');
	return api_reply(p->req, 200, &w, err);
}

/* ---- detached ---- */

/*
 * The whole input goes in before the reply. One that could not be given leaves a process that
 * would wait for the rest for ever: it is ended, and a repeated key says so.
 */
static int feed(struct post *p, const char *id, struct err *err)
{
	const struct process_ref ref = {.sandbox = p->sandbox, .kind = PROCESS_EXEC, .id = id};
	auto_task struct task_info t = {0};
	struct err why = {0};

	if (process_write(api_core(p->req), api_who(p->req), &ref, p->spec.input, p->spec.input_len,
			  true, http_client_fd(p->req), clock_mono_ms() + FEED_MS, &why) == 0)
		return 0;
	/* It may end without reading all, as any process may. */
	if (why.code == ERR_GONE && !(why.tag && strcmp(why.tag, "SANDBOX_STOPPED") == 0))
		return 0;
	process_kill(api_core(p->req), api_who(p->req), &ref, 0, &t, NULL);
	if (err)
		*err = why;
	return err_wrap(err, "input");
}

static int reply_exec(struct post *p, int status, const struct exec_detached *d, struct err *err)
{
	auto_buf struct buf b = BUF_INIT(API_REPLY_MAX);
	struct jw w;

	jw_init(&w, &b);
	if (!d->lost) {
		exec_put(&w, api_core(p->req), p->sandbox, &d->info);
		return api_reply(p->req, status, &w, err);
	}
	jw_open(&w, '{');
	jw_kstr(&w, "id", d->id);
	exec_put_lost(&w, p->sandbox);
	jw_close(&w, '}');
	return api_reply(p->req, 200, &w, err);
}

static int reply_end(struct post *p, struct process_log *log, struct err *err)
{
	auto_buf struct buf b = BUF_INIT(API_REPLY_MAX);
	auto_keep struct exec_keep k = {0};
	auto_task struct task_info end = {0};
	struct exec_result r = {0};
	struct jw w;

	exec_keep_init(&k, p->req, p->base64, (uint64_t)p->a.max_output);
	if (exec_keep_log(&k, log, &end, err) < 0 || process_log_result(log, &end, &r, err) < 0)
		return -1;
	jw_init(&w, &b);
	jw_open(&w, '{');
	jw_kstr(&w, "id", end.id);
	jw_kstr(&w, "state", "ended");
	exec_put_end(&w, &r);
	exec_keep_put(&w, &k);
	jw_close(&w, '}');
	return api_reply(p->req, 200, &w, err);
}

/* The reply waits for the end; a client that hangs up leaves the exec running. */
static int reply_wait(struct post *p, const char *id, struct err *err)
{
	const struct process_ref ref = {.sandbox = p->sandbox, .kind = PROCESS_EXEC, .id = id};
	const struct process_from from = {.streams = TASK_OUT | TASK_ERR, .follow = true};
	struct process_log *log =
		process_log_open(api_core(p->req), api_who(p->req), &ref, &from, err);
	int rc;

	if (!log)
		return -1;
	if (p->form != FORM_JSON)
		return exec_follow(p->req, log, p->sandbox, p->form, p->base64, err);
	rc = reply_end(p, log, err);
	process_log_close(log);
	return rc;
}

static int run_detached(struct post *p, struct err *err)
{
	auto_detached struct exec_detached d = {0};
	bool input = p->spec.input != NULL;

	if (exec_detach(api_core(p->req), api_who(p->req), &p->spec, p->a.start.has_stdin || input,
			&p->key, &d, err) < 0)
		return -1;
	if (input && !d.existed && feed(p, d.id, err) < 0)
		return -1;
	if (d.existed)
		http_reply_header(p->req, "Idempotency-Replayed", "true");
	if (p->a.detach || d.lost)
		return reply_exec(p, d.existed ? 200 : 202, &d, err);
	return reply_wait(p, d.id, err);
}

static int post_run(struct post *p, struct err *err)
{
	const struct buf *b = http_body(p->req);
	auto_sandbox struct sandbox s = {0};

	if (sandbox_get(api_core(p->req), api_who(p->req), http_param(p->req, "id"), &s, err) < 0)
		return -1;
	memcpy(p->sandbox, s.id, ID_LEN);
	api_target(p->req, s.id);
	if (post_fill(p, err) < 0)
		return -1;
	p->form = exec_form_of(p->req);
	p->key.key = http_header(p->req, "Idempotency-Key");
	if (!p->key.key && !p->a.detach)
		return run_attached(p, err);
	if (p->key.key)
		SHA256((const unsigned char *)buf_str(b), b ? b->len : 0, p->key.digest);
	return run_detached(p, err);
}

int caisson_native_startExec(struct http_req *req, struct err *err)
{
	auto_jt_doc struct jt_doc doc = {NULL};
	struct post p = {
		.req = req, .a.start = {.cols = 80, .rows = 24}, .input = BUF_INIT(INPUT_MAX)};
	int rc = api_body(req, &native_request_table, &p.a, &doc, err);

	if (rc == 0)
		rc = post_run(&p, err);
	jt_release(&native_request_table, &p.a);
	buf_done(&p.input);
	return rc;
}
