/*
 * term.c - see term.h (contract §3.8).
 *
 * Two threads: one takes what the client types and waits until the terminal took it, the other
 * sends output. So a program that reads nothing doesn't stop its output, and a client that reads
 * nothing doesn't stop its input. Whoever ends first wakes the other: the output's end sends the
 * close, to which the peer answers; the input's end stops the log.
 */
#include "api/term.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"

#define INPUT_MAX  (64u << 10)
#define INPUT_MS   3600000 /* for a program to read what was typed */
#define SEND_MS	   10000
#define SLOW_MS	   5000 /* a client that takes nothing for so long while there is output */
#define TICK_MS	   1000
#define PING_MS	   30000
#define BYE_MS	   2000
#define REASON_MAX 60 /* of the 123 bytes of a close */
#define STACK	   (256u << 10)

struct term {
	struct http_ws *ws;
	struct process_log *log;
	struct term_opts opts;
	_Atomic bool ended; /* the output's thread has sent the close */
	_Atomic bool left;  /* the client has gone */
	uint64_t begun;	    /* offset of the first output */
	int64_t ping_ms;
};

static void send_text(struct term *t, struct buf *b)
{
	http_ws_send(t->ws, WS_TEXT, buf_str(b), b->len, clock_mono_ms() + SEND_MS, NULL);
}

static void control_begin(struct jw *w, struct buf *b, const char *status)
{
	jw_init(w, b);
	jw_open(w, '{');
	jw_kstr(w, "type", "control");
	jw_kstr(w, "status", status);
}

static void tell_connected(struct term *t)
{
	auto_buf struct buf b = BUF_INIT(1024);
	struct jw w;

	control_begin(&w, &b, "connected");
	if (t->opts.offsets) {
		jw_key(&w, "offset");
		jw_uint(&w, t->begun);
	}
	jw_close(&w, '}');
	send_text(t, &b);
}

static void tell_gap(struct term *t, const struct task_chunk *c)
{
	auto_buf struct buf b = BUF_INIT(1024);
	struct jw w;

	control_begin(&w, &b, "gap");
	jw_key(&w, "from");
	jw_uint(&w, c->offset);
	jw_key(&w, "to");
	jw_uint(&w, c->offset + c->n);
	jw_close(&w, '}');
	send_text(t, &b);
}

/* ---- the end ---- */

static void put_exit(struct jw *w, int code, const char *reason)
{
	jw_kint(w, "exitCode", code);
	if (reason[0])
		jw_kstr(w, "exitReason", reason);
}

static void tell_exit(struct term *t, int code, const char *reason)
{
	auto_buf struct buf b = BUF_INIT(4096), why = BUF_INIT(4096);
	struct jw w;

	control_begin(&w, &b, "exited");
	put_exit(&w, code, reason);
	jw_close(&w, '}');
	if (t->opts.exit_control)
		send_text(t, &b);
	jw_init(&w, &why);
	jw_open(&w, '{');
	put_exit(&w, code, reason);
	jw_close(&w, '}');
	http_ws_close(t->ws, code == 0 ? 1000 : 1011, buf_str(&why));
}

static void tell_end(struct term *t, const struct task_info *end)
{
	int code = end->signaled ? 128 + (int)end->code : (int)end->code;
	struct exec_result r = {0};
	char reason[REASON_MAX] = "";

	if (process_log_result(t->log, end, &r, NULL) == 0 && r.cause == EXEC_OOM)
		snprintf(reason, sizeof(reason), "out of memory: the kernel killed %.24s",
			 r.oom_victim);
	else if (end->signaled)
		snprintf(reason, sizeof(reason), "killed by signal %u", end->code);
	tell_exit(t, code, reason);
}

/* The sandbox went away under the terminal, or its agent broke its word. */
static void tell_failure(struct term *t, const struct err *err)
{
	char reason[REASON_MAX];

	if (http_stopping(t->ws)) {
		http_ws_close(t->ws, 1001, "the daemon is shutting down");
	} else if (err->code == ERR_GONE) {
		snprintf(reason, sizeof(reason), "the sandbox was stopped");
		tell_exit(t, 128 + SIGKILL, reason);
	} else if (err->code == ERR_TIMEOUT) {
		http_ws_close(t->ws, 1008, "too slow");
	} else {
		http_ws_close(t->ws, 1011, err->msg);
	}
}

/* ---- output ---- */

static int send_chunk(struct term *t, const struct task_chunk *c, struct err *err)
{
	for (uint64_t at = 0; at < c->n;) {
		size_t part = (size_t)MIN(c->n - at, (uint64_t)HTTP_WS_PIECE);

		if (http_ws_ready(t->ws, clock_mono_ms() + SLOW_MS, err) < 0 ||
		    http_ws_send(t->ws, WS_BINARY, c->p + at, part, clock_mono_ms() + SEND_MS,
				 err) < 0)
			return -1;
		at += part;
	}
	return 0;
}

static int take_gap(struct term *t, const struct task_chunk *c, struct err *err)
{
	if (!t->opts.offsets)
		return err_set(err, ERR_TIMEOUT, "the client is too slow");
	tell_gap(t, c);
	return 0;
}

static void keep_alive(struct term *t)
{
	int64_t now = clock_mono_ms();

	if (now < t->ping_ms)
		return;
	t->ping_ms = now + PING_MS;
	http_ws_send(t->ws, WS_PING, "", 0, now + TICK_MS, NULL);
}

/* 1 the terminal ended, 0 the client has gone, -1. */
static int output_run(struct term *t, struct task_info *end, struct err *err)
{
	struct task_chunk c;
	int got = 0;

	while (!atomic_load(&t->left) && got >= 0) {
		got = process_log_next(t->log, &c, end, -1, clock_mono_ms() + TICK_MS, err);
		if (got == TASK_READ_END)
			return 1;
		if (got == TASK_READ_DATA)
			got = send_chunk(t, &c, err);
		else if (got == TASK_READ_GAP)
			got = take_gap(t, &c, err);
		else if (got == TASK_READ_NONE && http_stopping(t->ws))
			got = err_set(err, ERR_UNAVAILABLE, "shutting down");
		keep_alive(t);
	}
	return got < 0 && !atomic_load(&t->left) ? -1 : 0;
}

static void *output_main(void *arg)
{
	auto_task struct task_info end = {0};
	struct term *t = arg;
	struct err err = {0};
	int rc;

	tell_connected(t);
	rc = output_run(t, &end, &err);
	if (rc > 0)
		tell_end(t, &end);
	else if (rc < 0)
		tell_failure(t, &err);
	atomic_store(&t->ended, true);
	return NULL;
}

/* ---- input ---- */

/* What comes after the terminal's end goes nowhere, and is no fault. */
static int input_take(struct term *t, const struct buf *b)
{
	struct err err = {0};

	if (process_log_write(t->log, b->data, b->len, false, http_ws_fd(t->ws),
			      clock_mono_ms() + INPUT_MS, &err) == 0)
		return 0;
	return err.code == ERR_CANCELLED ? -1 : 0;
}

static void input_run(struct term *t)
{
	auto_buf struct buf b = BUF_INIT(INPUT_MAX);
	int64_t bye = 0;
	int op;

	while ((op = http_ws_recv(t->ws, &b, INPUT_MAX, clock_mono_ms() + TICK_MS, NULL)) >= 0) {
		if (op == WS_CLOSE)
			return;
		if (atomic_load(&t->ended)) {
			bye = bye ? bye : clock_mono_ms() + BYE_MS;
			if (clock_mono_ms() >= bye)
				return;
			continue;
		}
		if ((op == WS_TEXT || op == WS_BINARY) && b.len && input_take(t, &b) < 0)
			return;
	}
}

static int output_spawn(struct term *t, pthread_t *ret)
{
	pthread_attr_t attr;
	int rc;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK);
	rc = pthread_create(ret, &attr, output_main, t);
	pthread_attr_destroy(&attr);
	return rc;
}

static void term_main(struct http_ws *ws, void *arg)
{
	struct term *t = arg;
	pthread_t output;

	t->ws = ws;
	t->ping_ms = clock_mono_ms() + PING_MS;
	if (output_spawn(t, &output) != 0) {
		http_ws_close(ws, 1011, "no thread for the terminal");
	} else {
		input_run(t);
		atomic_store(&t->left, true);
		process_log_stop(t->log);
		pthread_join(output, NULL);
	}
	process_log_close(t->log);
	free(t);
}

int term_upgrade(struct http_req *req, struct process_log *log, const struct term_opts *opts,
		 struct err *err)
{
	struct term *t = calloc(1, sizeof(*t));

	if (!t) {
		process_log_close(log);
		return err_set(err, ERR_NOMEM, "out of memory");
	}
	t->log = log;
	t->opts = *opts;
	t->begun = process_log_begin(log);
	if (http_upgrade(req, http_ws_offered(req, 0), term_main, t, err) == 0)
		return 0;
	process_log_close(log);
	free(t);
	return -1;
}
