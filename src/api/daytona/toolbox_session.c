/*
 * toolbox_session.c - sessions and their commands (contract §3.7); logs are in session_log.c.
 */
#include "api/daytona/session.h"

#include <string.h>

#include "base/clock.h"

#define TIMEOUT_MAX_S 86400
#define COMMAND_MAX   (512 << 10)
#define INPUT_MAX     (1 << 20)
#define INPUT_MS      30000 /* for a command to take what was typed */

struct create_session_args {
	const char *id;
};
static const struct jt_field create_session_fields[] = {
	{"sessionId", JT_STR, JT_REQUIRED, offsetof(struct create_session_args, id), 1,
	 PROCESS_ID_MAX, NULL},
};
const struct jt_table daytona_session_table = {"CreateSessionRequest", create_session_fields,
					       ARRAY_LEN(create_session_fields)};

struct session_args {
	const char *command;
	bool run_async, async, suppress_echo;
	int64_t timeout_s;
};

#define AT(member) offsetof(struct session_args, member) /* offsetof needs the type as a token */

static const struct jt_field session_exec_fields[] = {
	{"command", JT_STR, JT_REQUIRED, AT(command), 1, COMMAND_MAX, NULL},
	{"runAsync", JT_BOOL, 0, AT(run_async), 0, 0, NULL},
	{"async", JT_BOOL, 0, AT(async), 0, 0, NULL},
	{"suppressInputEcho", JT_BOOL, 0, AT(suppress_echo), 0, 0, NULL},
	{"timeout", JT_INT, 0, AT(timeout_s), 0, TIMEOUT_MAX_S, NULL},
};
const struct jt_table daytona_session_exec_table = {"SessionExecuteRequest", session_exec_fields,
						    ARRAY_LEN(session_exec_fields)};

struct input_args {
	const char *data;
};
static const struct jt_field session_input_fields[] = {
	{"data", JT_STR, JT_REQUIRED, offsetof(struct input_args, data), 0, INPUT_MAX, NULL},
};
const struct jt_table daytona_session_input_table = {"SessionInputRequest", session_input_fields,
						     ARRAY_LEN(session_input_fields)};

static const char *session_id(struct http_req *req)
{
	return http_param(req, "sessionId");
}

static struct process_ref command_ref(struct http_req *req)
{
	return (struct process_ref){.sandbox = toolbox_id(req),
				    .kind = PROCESS_SESSION,
				    .id = session_id(req),
				    .command = http_param(req, "commandId")};
}

int daytona_toolbox_CreateSession(struct http_req *req, struct err *err)
{
	auto_jt_doc struct jt_doc doc = {NULL};
	struct create_session_args a = {0};

	if (api_body(req, &daytona_session_table, &a, &doc, err) < 0 ||
	    session_create(api_core(req), api_who(req), toolbox_id(req), a.id, err) < 0)
		return -1;
	return http_reply_empty(req, 201, err);
}

int daytona_toolbox_DeleteSession(struct http_req *req, struct err *err)
{
	if (session_delete(api_core(req), api_who(req), toolbox_id(req), session_id(req), err) < 0)
		return -1;
	return http_reply_empty(req, 204, err);
}

/* ---- looking ---- */

static void put_command(struct jw *w, const struct task_info *t)
{
	jw_open(w, '{');
	jw_kstr(w, "id", t->id);
	jw_kstr(w, "command", t->label ? t->label : "");
	if (t->state == TASK_ENDED)
		jw_kint(w, "exitCode", t->signaled ? 128 + (int)t->code : (int)t->code);
	jw_close(w, '}');
}

static void put_session(struct jw *w, const struct session_view *v)
{
	jw_open(w, '{');
	jw_kstr(w, "sessionId", v->id);
	jw_key(w, "commands");
	jw_open(w, '[');
	for (size_t i = 0; i < v->n; i++)
		put_command(w, &v->cmd[i]);
	jw_close(w, ']');
	jw_close(w, '}');
}

/* id NULL: all of them. */
static int reply_sessions(struct http_req *req, const char *id, struct err *err)
{
	auto_buf struct buf b = BUF_INIT(API_REPLY_MAX);
	struct session_view *v = NULL;
	size_t n = 0;
	struct jw w;

	if (session_list(api_core(req), api_who(req), toolbox_id(req), id, &v, &n, err) < 0)
		return -1;
	jw_init(&w, &b);
	if (!id)
		jw_open(&w, '[');
	for (size_t i = 0; i < n; i++)
		put_session(&w, &v[i]);
	if (!id)
		jw_close(&w, ']');
	session_views_free(v, n);
	return api_reply(req, 200, &w, err);
}

int daytona_toolbox_ListSessions(struct http_req *req, struct err *err)
{
	return reply_sessions(req, NULL, err);
}

int daytona_toolbox_GetSession(struct http_req *req, struct err *err)
{
	return reply_sessions(req, session_id(req), err);
}

int daytona_toolbox_GetEntrypointSession(struct http_req *req, struct err *err)
{
	auto_buf struct buf b = BUF_INIT(API_REPLY_MAX);
	struct session_view v = {.id = SESSION_ENTRYPOINT};
	auto_sandbox struct sandbox s = {0};
	struct jw w;

	if (sandbox_get(api_core(req), api_who(req), toolbox_id(req), &s, err) < 0)
		return -1;
	jw_init(&w, &b);
	put_session(&w, &v);
	return api_reply(req, 200, &w, err);
}

int daytona_toolbox_GetSessionCommand(struct http_req *req, struct err *err)
{
	auto_buf struct buf b = BUF_INIT(API_REPLY_MAX);
	const struct process_ref ref = command_ref(req);
	auto_task struct task_info t = {0};
	struct jw w;

	if (process_get(api_core(req), api_who(req), &ref, &t, err) < 0)
		return -1;
	jw_init(&w, &b);
	put_command(&w, &t);
	return api_reply(req, 200, &w, err);
}

/* ---- commands ---- */

static int reply_queued(struct http_req *req, const char *id, struct err *err)
{
	auto_buf struct buf b = BUF_INIT(API_REPLY_MAX);
	struct jw w;

	jw_init(&w, &b);
	jw_open(&w, '{');
	jw_kstr(&w, "cmdId", id);
	jw_close(&w, '}');
	return api_reply(req, 202, &w, err);
}

static int reply_end(struct http_req *req, const struct log_parts *l, const struct task_info *end,
		     const struct exec_result *r, struct err *err)
{
	auto_buf struct buf b = BUF_INIT(API_REPLY_MAX);
	struct exec_result shown = *r;
	struct jw w;

	/* A command has the directory of its session, which is nothing to be told about. */
	shown.cwd_fell_back = false;
	shown.total_out = l->total;
	shown.total_err = 0;
	jw_init(&w, &b);
	jw_open(&w, '{');
	jw_kstr(&w, "cmdId", end->id);
	log_parts_put(&w, l);
	exec_put_result(&w, &shown, l->cut);
	jw_close(&w, '}');
	return api_reply(req, 200, &w, err);
}

/* The log is followed to the end of the command; a client that hangs up leaves it running. */
static int run_wait(struct http_req *req, struct process_log *log, const struct session_args *a,
		    struct err *err)
{
	auto_task struct task_info end = {0};
	auto_parts struct log_parts l = {0};
	struct exec_result r = {0};

	log_parts_init(&l, req, log_format_of(req) == LOG_MARKED);
	if (log_parts_read(&l, log, &end, err) < 0)
		return -1;
	if (end.cause == TASK_LOST)
		return err_tagged(err, ERR_GONE, "SESSION_ENDED",
				  "session %.255s ended before the command's turn",
				  session_id(req));
	if (process_log_result(log, &end, &r, err) < 0 ||
	    exec_check_timeout(&r, a->timeout_s, err) < 0)
		return -1;
	return reply_end(req, &l, &end, &r, err);
}

static int session_execute(struct http_req *req, const struct session_args *a, struct err *err)
{
	bool async = a->run_async || a->async;
	const struct session_exec x = {.text = a->command,
				       .input = async,
				       .echo = async && !a->suppress_echo,
				       .timeout_ms = a->timeout_s * 1000};
	auto_task struct task_info t = {0};
	struct process_log *log;
	int rc;

	if (async) {
		if (session_exec(api_core(req), api_who(req), toolbox_id(req), session_id(req), &x,
				 &t, err) < 0)
			return -1;
		return reply_queued(req, t.id, err);
	}
	log = session_run(api_core(req), api_who(req), toolbox_id(req), session_id(req), &x, err);
	if (!log)
		return -1;
	rc = run_wait(req, log, a, err);
	process_log_close(log);
	return rc;
}

int daytona_toolbox_SessionExecuteCommand(struct http_req *req, struct err *err)
{
	auto_jt_doc struct jt_doc doc = {NULL};
	struct session_args a = {0};

	if (api_body(req, &daytona_session_exec_table, &a, &doc, err) < 0)
		return -1;
	return session_execute(req, &a, err);
}

int daytona_toolbox_SendInput(struct http_req *req, struct err *err)
{
	auto_jt_doc struct jt_doc doc = {NULL};
	auto_buf struct buf b = BUF_INIT(INPUT_MAX + 1);
	const struct process_ref ref = command_ref(req);
	struct input_args a = {0};

	if (api_body(req, &daytona_session_input_table, &a, &doc, err) < 0 ||
	    buf_adds(&b, a.data, err) < 0)
		return -1;
	if ((!b.len || b.data[b.len - 1] != '\n') && buf_add(&b, "\n", 1, err) < 0)
		return -1;
	if (process_write(api_core(req), api_who(req), &ref, b.data, b.len, false,
			  http_client_fd(req), clock_mono_ms() + INPUT_MS, err) < 0)
		return -1;
	return http_reply_empty(req, 204, err);
}
