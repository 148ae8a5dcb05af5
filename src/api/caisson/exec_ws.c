/*
 * exec_ws.c - an attached exec over a WebSocket, for the command line.
 *
 * The client's first message is text, an ExecSpec. Then binary messages carry data behind a byte
 * of channel (0 stdin, 1 stdout, 2 stderr), text messages carry control: {"type":"signal",
 * "signal":"SIGINT"}, {"type":"resize","cols":80,"rows":24}, {"type":"eof"}. The server ends with
 * {"type":"exit","exitCode":n,"cause":"…"} and close 1000, or {"type":"error",…} and close 1008.
 *
 * Nothing is buffered but one message of input: output is read only when the last of it was sent,
 * input only when the last of it was taken. The client's hang-up ends the process tree.
 */
#include "api/caisson/exec_ws.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"

#define START_MS     10000 /* for the client's first message */
#define MESSAGE_MAX  (1u << 20)
#define SEND_MS	     86400000 /* a pager may hold output for long */
#define CHUNK	     (64 << 10)
#define DRAIN_MAX    (1 << 20) /* more than a pipe or terminal holds */
#define TTY_DRAIN_MS 100       /* the kernel moves a terminal's last bytes behind the exit's back */
#define PING_MS	     30000     /* keeps what lies between from forgetting a quiet connection */
#define TICK_MS	     1000      /* how often the end of the server is looked for */

struct attach {
	struct http_ws *ws;
	struct core *core;
	struct caller who;
	char sandbox[CORE_NAME_MAX];
	struct exec_handle *handle;
	struct agent_proc *proc;
	bool tty;
	struct buf input; /* taken from the client, not yet by the process */
	bool eof;	  /* close stdin once input is written */
	int64_t deadline_ms, ping_ms;
	bool timed_out, exited;
	struct agent_exit exit;
	char chunk[CHUNK + 1]; /* channel byte and output */
};

static int attach_signal(struct attach *a, const struct exec_msg *m)
{
	struct err ignored = {0};

	/* A signal that comes too late is no fault. */
	agent_proc_signal(a->proc, m->sig, !a->tty, &ignored);
	return 0;
}

static int attach_message(struct attach *a, const struct exec_msg *m, struct err *err)
{
	struct err ignored = {0};

	switch (m->kind) {
	case MSG_INPUT:
		return a->proc->in < 0 ? 0 : buf_add(&a->input, m->p, m->n, err);
	case MSG_EOF:
		a->eof = true;
		return 0;
	case MSG_RESIZE:
		if (a->tty)
			agent_proc_resize(a->proc, m->cols, m->rows, &ignored);
		return 0;
	case MSG_SIGNAL:
		return attach_signal(a, m);
	default:
		return 0;
	}
}

/* One message, if a whole one is there: 1 when something was read, 0 when not, -1 at the end. */
static int attach_recv(struct attach *a, struct err *err)
{
	auto_buf struct buf b = BUF_INIT(MESSAGE_MAX);
	struct exec_msg m;
	int op = http_ws_recv(a->ws, &b, MESSAGE_MAX, clock_mono_ms(), err);

	if (op == 0)
		return 0;
	if (op < 0)
		return -1;
	if (op == WS_CLOSE)
		return err_set(err, ERR_CANCELLED, "the client closed");
	if (op == WS_TEXT ? exec_msg_text(buf_str(&b), b.len, &m, err) < 0
			  : exec_msg_binary(buf_str(&b), b.len, &m, err) < 0)
		return -1;
	return attach_message(a, &m, err) < 0 ? -1 : 1;
}

static void close_in(struct attach *a)
{
	/* A terminal has one descriptor for both ways; its end of file is a character. */
	if (a->tty && a->proc->out >= 0) {
		if (write(a->proc->out, "\x04", 1) < 0)
			return;
	} else if (a->proc->in >= 0) {
		close(a->proc->in);
		a->proc->in = -1;
	}
}

static int in_fd(const struct attach *a)
{
	return a->tty ? a->proc->out : a->proc->in;
}

static void attach_write(struct attach *a)
{
	ssize_t n = 0;

	if (a->input.len && in_fd(a) >= 0) {
		n = write(in_fd(a), a->input.data, a->input.len);
		if (n > 0)
			buf_eat(&a->input, (size_t)n);
		if (n < 0 && errno != EAGAIN && errno != EINTR) {
			buf_clear(&a->input); /* nobody reads any more */
			a->eof = !a->tty;
		}
	}
	if (a->eof && !a->input.len) {
		a->eof = false;
		close_in(a);
	}
}

/* Bytes sent, 0 when nothing was there or the stream ended (then *fd is -1), -1 on error. */
static ssize_t attach_read(struct attach *a, int *fd, char channel, struct err *err)
{
	ssize_t n;

	if (*fd < 0)
		return 0;
	n = read(*fd, a->chunk + 1, CHUNK);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n <= 0) {
		/* A terminal whose last user left says EIO. */
		close(*fd);
		*fd = -1;
		if (a->tty)
			a->proc->in = -1;
		return 0;
	}
	a->chunk[0] = channel;
	if (http_ws_send(a->ws, WS_BINARY, a->chunk, (size_t)n + 1, clock_mono_ms() + SEND_MS,
			 err) < 0)
		return -1;
	return n;
}

static int attach_output(struct attach *a, ssize_t *ret_n, struct err *err)
{
	ssize_t out = attach_read(a, &a->proc->out, CH_STDOUT, err);
	ssize_t more = out < 0 ? -1 : attach_read(a, &a->proc->err, CH_STDERR, err);

	if (more < 0)
		return -1;
	*ret_n = out + more;
	return 0;
}

/* What was written before the exit is still in the pipes; what survivors write later is not ours.
 */
static int attach_drain(struct attach *a, struct err *err)
{
	ssize_t n = 0;

	for (size_t total = 0; total < DRAIN_MAX; total += (size_t)n) {
		struct pollfd p[] = {{a->proc->out, POLLIN, 0}, {a->proc->err, POLLIN, 0}};

		if (a->proc->out < 0 && a->proc->err < 0)
			return 0;
		if (poll(p, 2, a->tty ? TTY_DRAIN_MS : 0) == 0)
			return 0;
		if (attach_output(a, &n, err) < 0)
			return -1;
	}
	return 0;
}

static void attach_ping(struct attach *a)
{
	struct err ignored = {0};
	int64_t now = clock_mono_ms();

	if (now < a->ping_ms)
		return;
	a->ping_ms = now + PING_MS;
	http_ws_send(a->ws, WS_PING, "", 0, now + START_MS, &ignored);
}

static void attach_expire(struct attach *a)
{
	struct err ignored = {0};

	if (a->timed_out || !a->deadline_ms || clock_mono_ms() < a->deadline_ms)
		return;
	a->timed_out = true;
	agent_proc_kill(a->proc, &ignored);
}

static int attach_wait(struct attach *a)
{
	bool want_in = a->input.len > 0;
	int64_t until = clock_mono_ms() + TICK_MS;
	struct pollfd p[] = {
		{a->proc->conn, POLLIN, 0},
		{a->proc->out, (short)(POLLIN | (a->tty && want_in ? POLLOUT : 0)), 0},
		{a->proc->err, POLLIN, 0},
		{a->tty ? -1 : a->proc->in, (short)(want_in ? POLLOUT : 0), 0},
		{http_ws_fd(a->ws), (short)(want_in ? POLLRDHUP : POLLIN), 0},
	};

	if (!a->timed_out && a->deadline_ms && a->deadline_ms < until)
		until = a->deadline_ms;
	poll(p, ARRAY_LEN(p), clock_left_ms(until));
	return p[4].revents & (POLLERR | POLLHUP | POLLRDHUP) && want_in ? -1 : 0;
}

static int attach_step(struct attach *a, struct err *err)
{
	ssize_t n;
	int r;

	if (attach_wait(a) < 0)
		return err_set(err, ERR_CANCELLED, "the client hung up");
	if (http_stopping(a->ws))
		return err_set(err, ERR_UNAVAILABLE, "the daemon is shutting down");
	attach_ping(a);
	attach_expire(a);
	while (!a->input.len && (r = attach_recv(a, err)) != 0)
		if (r < 0)
			return -1;
	attach_write(a);
	if (attach_output(a, &n, err) < 0)
		return -1;
	r = agent_proc_exit(a->proc, &a->exit, err);
	if (r < 0)
		return -1;
	a->exited = r > 0;
	return a->exited ? attach_drain(a, err) : 0;
}

static void attach_finish(struct attach *a, struct err *why)
{
	auto_buf struct buf b = BUF_INIT(MESSAGE_MAX);
	struct exec_result r = {0};
	struct err ignored = {0};
	bool ok = a->exited;

	if (ok) {
		exec_end(a->handle, &a->exit, a->timed_out, &r);
		exec_msg_exit(&b, &r, &ignored);
	} else {
		if (a->handle)
			exec_cut(a->handle, &a->who, why);
		exec_msg_error(&b, why, &ignored);
	}
	if (why->code == ERR_CANCELLED)
		return;
	http_ws_send(a->ws, WS_TEXT, buf_str(&b), b.len, clock_mono_ms() + START_MS, &ignored);
	http_ws_close(a->ws,
		      ok		     ? 1000
		      : http_stopping(a->ws) ? 1001
					     : 1008,
		      ok ? "" : err_code_name(why->code));
}

static int attach_open(struct attach *a, const struct exec_start *s, struct err *err)
{
	const char *shell[2];
	struct exec_spec spec;

	if (exec_start_spec(s, a->sandbox, shell, &spec, err) < 0)
		return -1;
	a->handle = exec_open(a->core, &a->who, &spec, s->has_stdin, err);
	if (!a->handle)
		return -1;
	a->proc = exec_proc(a->handle);
	a->tty = s->tty;
	a->ping_ms = clock_mono_ms() + PING_MS;
	if (spec.timeout_ms)
		a->deadline_ms = clock_mono_ms() + spec.timeout_ms;
	return 0;
}

static int attach_start(struct attach *a, struct err *err)
{
	struct exec_start s = {.cols = 80, .rows = 24};
	auto_buf struct buf b = BUF_INIT(MESSAGE_MAX);
	auto_jt_doc struct jt_doc doc = {NULL};
	int op = http_ws_recv(a->ws, &b, MESSAGE_MAX, clock_mono_ms() + START_MS, err), r = -1;

	if (op < 0)
		return -1;
	if (op == WS_CLOSE)
		return err_set(err, ERR_CANCELLED, "the client closed");
	if (op != WS_TEXT)
		return err_set(err, ERR_INVALID, "the first message must be text, within %d s",
			       START_MS / 1000);
	if (jt_parse(&doc, buf_str(&b), b.len, err) == 0 &&
	    jt_decode(&doc, &native_exec_table, &s, err) == 0)
		r = attach_open(a, &s, err);
	jt_release(&native_exec_table, &s);
	return r;
}

static void attach_main(struct http_ws *ws, void *arg)
{
	struct attach *a = arg;
	struct err err = {0};

	a->ws = ws;
	if (attach_start(a, &err) == 0)
		while (!a->exited && attach_step(a, &err) == 0)
			continue;
	attach_finish(a, &err);
	if (a->handle)
		exec_free(a->handle);
	buf_done(&a->input);
	free(a);
}

int caisson_native_execSandbox(struct http_req *req, struct err *err)
{
	auto_sandbox struct sandbox s = {0};
	struct attach *a;

	if (!http_wants_upgrade(req))
		return err_set(err, ERR_INVALID, "Upgrade: a WebSocket is needed here");
	if (sandbox_get(api_core(req), api_who(req), http_param(req, "id"), &s, err) < 0)
		return -1;
	api_target(req, s.id);
	a = calloc(1, sizeof(*a));
	if (!a)
		return err_set(err, ERR_NOMEM, "out of memory");
	a->core = api_core(req);
	a->who = *api_who(req);
	snprintf(a->sandbox, sizeof(a->sandbox), "%s", s.id);
	buf_init(&a->input, MESSAGE_MAX);
	if (http_upgrade(req, http_ws_offered(req, 0), attach_main, a, err) < 0) {
		free(a);
		return -1;
	}
	return 0;
}
