/*
 * exec_msg.c - decoding and encoding of the messages of an attached exec.
 */
#include "api/caisson/exec_rest.h"
#include "api/caisson/exec_ws.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#define AT(member) offsetof(struct exec_start, member) /* offsetof needs the type as a token */

static const struct jt_field start_fields[] = {EXEC_START_ROWS(AT)};
const struct jt_table native_exec_table = {"ExecSpec", start_fields, ARRAY_LEN(start_fields)};

int exec_start_spec(const struct exec_start *s, const char *sandbox, const char *shell[2],
		    struct exec_spec *ret, struct err *err)
{
	if (!s->command == !s->argv.v)
		return err_set(err, ERR_INVALID, "argv: one of argv and command is required");
	shell[0] = s->command;
	shell[1] = NULL;
	*ret = (struct exec_spec){
		.sandbox = sandbox,
		.shell = s->command != NULL,
		.argv = s->command ? shell : s->argv.v,
		.env = &s->env,
		.cwd = s->cwd && *s->cwd ? s->cwd : NULL,
		.user = s->user && *s->user ? s->user : NULL,
		.timeout_ms = s->timeout_ms ? s->timeout_ms : s->timeout_s * 1000,
		.tty = s->tty,
		.cols = (uint16_t)s->cols,
		.rows = (uint16_t)s->rows,
	};
	return 0;
}

static const struct {
	int sig;
	const char *name;
} signals[] = {
	{SIGHUP, "SIGHUP"},   {SIGINT, "SIGINT"},   {SIGQUIT, "SIGQUIT"}, {SIGKILL, "SIGKILL"},
	{SIGUSR1, "SIGUSR1"}, {SIGUSR2, "SIGUSR2"}, {SIGTERM, "SIGTERM"}, {SIGCONT, "SIGCONT"},
	{SIGSTOP, "SIGSTOP"}, {SIGTSTP, "SIGTSTP"}, {SIGALRM, "SIGALRM"}, {SIGWINCH, "SIGWINCH"},
	{SIGPIPE, "SIGPIPE"},
};

struct control {
	const char *type, *signal;
	int64_t cols, rows;
};

static const struct jt_field control_fields[] = {
	{"type", JT_STR, JT_REQUIRED, offsetof(struct control, type), 1, 16, NULL},
	{"signal", JT_STR, 0, offsetof(struct control, signal), 1, 16, NULL},
	{"cols", JT_INT, 0, offsetof(struct control, cols), 1, 1000, NULL},
	{"rows", JT_INT, 0, offsetof(struct control, rows), 1, 1000, NULL},
};
static const struct jt_table control_table = {"", control_fields, ARRAY_LEN(control_fields)};

int exec_signal_of(const char *name, struct err *err)
{
	for (size_t i = 0; i < ARRAY_LEN(signals); i++)
		if (strcmp(name, signals[i].name) == 0)
			return signals[i].sig;
	return err_set(err, ERR_INVALID, "signal: unknown signal %.20s", name);
}

static int take_control(const struct control *c, struct exec_msg *ret, struct err *err)
{
	int sig;

	if (strcmp(c->type, "eof") == 0) {
		ret->kind = MSG_EOF;
		return 0;
	}
	if (strcmp(c->type, "resize") == 0 && c->cols && c->rows) {
		*ret = (struct exec_msg){
			.kind = MSG_RESIZE, .cols = (uint16_t)c->cols, .rows = (uint16_t)c->rows};
		return 0;
	}
	if (strcmp(c->type, "signal") != 0 || !c->signal)
		return err_set(err, ERR_INVALID, "type: unknown control message");
	sig = exec_signal_of(c->signal, err);
	if (sig < 0)
		return -1;
	*ret = (struct exec_msg){.kind = MSG_SIGNAL, .sig = sig};
	return 0;
}

int exec_msg_text(const char *p, size_t n, struct exec_msg *ret, struct err *err)
{
	auto_jt_doc struct jt_doc doc = {NULL};
	struct control c = {0};

	*ret = (struct exec_msg){0};
	if (jt_parse(&doc, p, n, err) < 0 || jt_decode(&doc, &control_table, &c, err) < 0)
		return -1;
	return take_control(&c, ret, err);
}

int exec_msg_binary(const char *p, size_t n, struct exec_msg *ret, struct err *err)
{
	const unsigned char *u = (const unsigned char *)p;

	*ret = (struct exec_msg){0};
	if (n >= 1 && u[0] == CH_STDIN) {
		ret->kind = n > 1 ? MSG_INPUT : MSG_EOF;
		ret->p = p + 1;
		ret->n = n - 1;
		return 0;
	}
	if (n == 5 && u[0] == CH_RESIZE) {
		ret->kind = MSG_RESIZE;
		ret->cols = (uint16_t)(u[1] << 8 | u[2]);
		ret->rows = (uint16_t)(u[3] << 8 | u[4]);
		return 0;
	}
	if (n == 2 && u[0] == CH_SIGNAL && u[1] > 0 && u[1] < 65) {
		ret->kind = MSG_SIGNAL;
		ret->sig = u[1];
		return 0;
	}
	return err_set(err, ERR_INVALID, "message: unknown channel or length");
}

static const char *const cause_names[] = {
	[EXEC_EXITED] = "exited",
	[EXEC_SIGNAL] = "signal",
	[EXEC_TIMEOUT] = "timeout",
	[EXEC_OOM] = "oom",
};

int exec_msg_exit(struct buf *b, const struct exec_result *r, struct err *err)
{
	char text[256];
	struct jw w;

	jw_init(&w, b);
	jw_open(&w, '{');
	jw_kstr(&w, "type", "exit");
	jw_kint(&w, "exitCode", r->exit_code);
	jw_kstr(&w, "cause", cause_names[r->cause]);
	if (r->signal)
		jw_kint(&w, "signal", r->signal);
	if (r->cause == EXEC_OOM) {
		snprintf(text, sizeof(text),
			 "out of memory: limit %llu bytes, peak %llu, the kernel killed %.64s",
			 (unsigned long long)r->oom_limit, (unsigned long long)r->oom_peak,
			 r->oom_victim[0] ? r->oom_victim : "a process");
		jw_kstr(&w, "message", text);
	}
	if (r->cwd_fell_back)
		jw_kstr(&w, "cwdFallback", r->cwd);
	jw_close(&w, '}');
	return jw_end(&w, err);
}

int exec_msg_error(struct buf *b, const struct err *why, struct err *err)
{
	struct jw w;

	jw_init(&w, b);
	jw_open(&w, '{');
	jw_kstr(&w, "type", "error");
	jw_key(&w, "error");
	jw_open(&w, '{');
	native_error_members(&w, err_http_status(why->code), why);
	jw_close(&w, '}');
	jw_close(&w, '}');
	return jw_end(&w, err);
}
