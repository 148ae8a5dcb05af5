/*
 * exec_ops.c - detached execs and commands of sessions: looking, waiting, input, signals, ends.
 */
#include "api/caisson/exec_rest.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"

#define WAIT_MAX_MS  3600000
#define WAIT_MS	     30000
#define GRACE_MAX_MS 60000
#define STDIN_MS     30000 /* for the process to take a part of its input */

struct process_ref exec_ref(struct http_req *req)
{
	const char *exec = http_param(req, "execId");
	bool session = !*exec;

	return (struct process_ref){.sandbox = http_param(req, "id"),
				    .kind = session ? PROCESS_SESSION : PROCESS_EXEC,
				    .id = session ? http_param(req, "sessionId") : exec,
				    .command = session ? http_param(req, "commandId") : NULL};
}

static int reply_task(struct http_req *req, const struct task_info *t, struct err *err)
{
	auto_buf struct buf b = BUF_INIT(API_REPLY_MAX);
	auto_sandbox struct sandbox s = {0};
	struct jw w;

	if (sandbox_get(api_core(req), api_who(req), http_param(req, "id"), &s, err) < 0)
		return -1;
	jw_init(&w, &b);
	exec_put(&w, api_core(req), s.id, t);
	return api_reply(req, 200, &w, err);
}

/* ---- looking ---- */

struct listing {
	struct jw w;
	struct core *core;
	const char *sandbox;
};

static int list_one(void *arg, const struct task_info *t, struct err *err)
{
	struct listing *l = arg;

	(void)err;
	exec_put(&l->w, l->core, l->sandbox, t);
	return 0;
}

int caisson_native_listExecs(struct http_req *req, struct err *err)
{
	auto_buf struct buf b = BUF_INIT(API_REPLY_MAX);
	auto_sandbox struct sandbox s = {0};
	struct listing l = {.core = api_core(req), .sandbox = s.id};

	if (sandbox_get(api_core(req), api_who(req), http_param(req, "id"), &s, err) < 0)
		return -1;
	jw_init(&l.w, &b);
	jw_open(&l.w, '{');
	jw_key(&l.w, "items");
	jw_open(&l.w, '[');
	if (exec_list(api_core(req), api_who(req), s.id, list_one, &l, err) < 0)
		return -1;
	jw_close(&l.w, ']');
	jw_close(&l.w, '}');
	return api_reply(req, 200, &l.w, err);
}

int caisson_native_getExec(struct http_req *req, struct err *err)
{
	const struct process_ref ref = exec_ref(req);
	auto_task struct task_info t = {0};

	if (process_get(api_core(req), api_who(req), &ref, &t, err) < 0)
		return -1;
	return reply_task(req, &t, err);
}

struct wait_args {
	int64_t timeout_ms;
};
static const struct jt_field wait_fields[] = {
	{"timeoutMs", JT_INT, 0, offsetof(struct wait_args, timeout_ms), 0, WAIT_MAX_MS, NULL},
};
static const struct jt_table wait_table = {"", wait_fields, ARRAY_LEN(wait_fields)};

/* Nothing of the output is wanted: the log is followed from its end. */
static int wait_end(struct http_req *req, struct process_log *log, int64_t deadline_ms,
		    struct task_info *ret, struct err *err)
{
	struct task_chunk c;
	int got;

	do
		got = process_log_next(log, &c, ret, http_client_fd(req), deadline_ms, err);
	while (got >= 0 && got != TASK_READ_END &&
	       (got != TASK_READ_NONE || clock_mono_ms() < deadline_ms));
	return got < 0 ? -1 : got == TASK_READ_END;
}

int caisson_native_waitExec(struct http_req *req, struct err *err)
{
	const struct process_from from = {
		.streams = TASK_OUT | TASK_ERR, .out = TASK_TAIL, .err = TASK_TAIL, .follow = true};
	const struct process_ref ref = exec_ref(req);
	auto_task struct task_info t = {0};
	struct wait_args a = {.timeout_ms = WAIT_MS};
	struct process_log *log;
	int ended;

	if (api_query(req, &wait_table, &a, err) < 0)
		return -1;
	log = process_log_open(api_core(req), api_who(req), &ref, &from, err);
	if (!log)
		return -1;
	ended = wait_end(req, log, clock_mono_ms() + a.timeout_ms, &t, err);
	process_log_close(log);
	if (ended < 0 || (!ended && process_get(api_core(req), api_who(req), &ref, &t, err) < 0))
		return -1;
	return reply_task(req, &t, err);
}

/* ---- changing ---- */

struct signal_args {
	const char *signal;
	bool tree;
};
static const struct jt_field signal_fields[] = {
	{"signal", JT_STR, JT_REQUIRED, offsetof(struct signal_args, signal), 1, 16, NULL},
	{"tree", JT_BOOL, 0, offsetof(struct signal_args, tree), 0, 0, NULL},
};
const struct jt_table native_signal_table = {"ExecSignal", signal_fields, ARRAY_LEN(signal_fields)};

int caisson_native_signalExec(struct http_req *req, struct err *err)
{
	const struct process_ref ref = exec_ref(req);
	auto_jt_doc struct jt_doc doc = {NULL};
	struct signal_args a = {.tree = true};
	int sig;

	if (api_body(req, &native_signal_table, &a, &doc, err) < 0)
		return -1;
	sig = exec_signal_of(a.signal, err);
	if (sig < 0 || process_signal(api_core(req), api_who(req), &ref, sig, a.tree, err) < 0)
		return -1;
	return http_reply_empty(req, 204, err);
}

struct resize_args {
	int64_t cols, rows;
};
static const struct jt_field resize_fields[] = {
	{"cols", JT_INT, JT_REQUIRED, offsetof(struct resize_args, cols), 1, 1000, NULL},
	{"rows", JT_INT, JT_REQUIRED, offsetof(struct resize_args, rows), 1, 1000, NULL},
};
const struct jt_table native_resize_table = {"ExecResize", resize_fields, ARRAY_LEN(resize_fields)};

int caisson_native_resizeExec(struct http_req *req, struct err *err)
{
	const struct process_ref ref = exec_ref(req);
	auto_jt_doc struct jt_doc doc = {NULL};
	auto_task struct task_info t = {0};
	struct resize_args a = {0};

	if (api_body(req, &native_resize_table, &a, &doc, err) < 0 ||
	    process_resize(api_core(req), api_who(req), &ref, (unsigned)a.cols, (unsigned)a.rows,
			   &t, err) < 0)
		return -1;
	return reply_task(req, &t, err);
}

struct kill_args {
	int64_t grace_ms;
};
static const struct jt_field kill_fields[] = {
	{"graceMs", JT_INT, 0, offsetof(struct kill_args, grace_ms), 0, GRACE_MAX_MS, NULL},
};
const struct jt_table native_kill_table = {"ExecKill", kill_fields, ARRAY_LEN(kill_fields)};

int caisson_native_killExec(struct http_req *req, struct err *err)
{
	const struct process_ref ref = exec_ref(req);
	auto_jt_doc struct jt_doc doc = {NULL};
	auto_task struct task_info t = {0};
	struct kill_args a = {0};

	if (api_body(req, &native_kill_table, &a, &doc, err) < 0 ||
	    process_kill(api_core(req), api_who(req), &ref, (unsigned)a.grace_ms, &t, err) < 0)
		return -1;
	return reply_task(req, &t, err);
}

int caisson_native_stopCommand(struct http_req *req, struct err *err)
{
	return caisson_native_killExec(req, err);
}

int caisson_native_deleteExec(struct http_req *req, struct err *err)
{
	if (exec_remove(api_core(req), api_who(req), http_param(req, "id"),
			http_param(req, "execId"), err) < 0)
		return -1;
	return http_reply_empty(req, 204, err);
}

/* ---- input ---- */

struct stdin_args {
	bool eof;
};
static const struct jt_field stdin_fields[] = {
	{"eof", JT_BOOL, 0, offsetof(struct stdin_args, eof), 0, 0, NULL},
};
static const struct jt_table stdin_table = {"", stdin_fields, ARRAY_LEN(stdin_fields)};

struct intake {
	struct process_log *log;
	int client;
	bool eof;
	uint64_t taken;
};

static void intake_free(void *arg)
{
	struct intake *in = arg;

	process_log_close(in->log);
	free(in);
}

/* The body waits while the process doesn't read: nothing is kept here. */
static int intake_data(void *arg, const void *p, size_t n, struct err *err)
{
	struct intake *in = arg;

	if (process_log_write(in->log, p, n, false, in->client, clock_mono_ms() + STDIN_MS, err) <
	    0)
		return err_wrap(err, "stdin, after %llu bytes", (unsigned long long)in->taken);
	in->taken += n;
	return 0;
}

static int intake_end(void *arg, struct http_req *req, struct err *err)
{
	auto_buf struct buf b = BUF_INIT(API_REPLY_MAX);
	struct intake *in = arg;
	struct jw w;

	if (in->eof && process_log_write(in->log, "", 0, true, in->client,
					 clock_mono_ms() + STDIN_MS, err) < 0)
		return -1;
	jw_init(&w, &b);
	jw_open(&w, '{');
	jw_key(&w, "written");
	jw_uint(&w, in->taken);
	jw_close(&w, '}');
	return api_reply(req, 200, &w, err);
}

static const struct http_sink intake_sink = {intake_data, intake_end, intake_free};

int caisson_native_writeExec(struct http_req *req, struct err *err)
{
	const struct process_ref ref = exec_ref(req);
	struct stdin_args a = {.eof = true};
	struct intake *in;

	if (api_query(req, &stdin_table, &a, err) < 0)
		return -1;
	in = calloc(1, sizeof(*in));
	if (!in)
		return err_set(err, ERR_NOMEM, "out of memory");
	in->eof = a.eof;
	in->client = http_client_fd(req);
	in->log = process_log_open(api_core(req), api_who(req), &ref, NULL, err);
	if (!in->log) {
		free(in);
		return -1;
	}
	http_set_sink(req, &intake_sink, in);
	return 0;
}
