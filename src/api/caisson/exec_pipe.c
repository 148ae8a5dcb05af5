/*
 * exec_pipe.c - an attached exec over plain HTTP: events out of the pipes of the process.
 *
 * Output is read when the last of it was sent, so a slow client slows the process and nothing is
 * lost. A client that hangs up ends it, five seconds later.
 */
#include "api/caisson/exec_rest.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>

#include "base/clock.h"

#define CHUNK	 (64 << 10)
#define KILL_MS	 3000 /* from the kill to the report of the end */
#define TAIL_MAX (16u << 20)

enum { P_CONN, P_OUT, P_ERR, P_IN, P_CLIENT, P_N };

struct pipe_src {
	struct exec_handle *handle;
	struct agent_proc *proc;
	struct caller who;
	char *input; /* owned */
	size_t left, at;
	uint64_t total[2];
	int64_t deadline_ms; /* of the command, then of its death; 0 none */
	bool timed_out, exited;
	struct agent_exit exit;
	char chunk[CHUNK];
};

static void pipe_free(void *arg)
{
	struct pipe_src *s = arg;

	if (s->exited || s->timed_out)
		exec_free(s->handle);
	else
		exec_linger(s->handle, EXEC_LINGER_MS);
	free(s->input);
	free(s);
}

static void fd_end(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

/* At most max bytes of one stream as an event: how many, 0 none now. */
static size_t pipe_read(struct pipe_src *s, struct exec_events *e, int stream, int *fd, size_t max)
{
	ssize_t n;

	if (*fd < 0)
		return 0;
	do
		n = read(*fd, s->chunk, MIN(max, sizeof(s->chunk)));
	while (n < 0 && errno == EINTR);
	if (n < 0 && errno == EAGAIN)
		return 0;
	if (n <= 0) {
		fd_end(fd);
		return 0;
	}
	exec_event_output(e, stream, s->total[stream == 2], s->chunk, (size_t)n);
	s->total[stream == 2] += (uint64_t)n;
	return (size_t)n;
}

static void pipe_write(struct pipe_src *s)
{
	ssize_t n = 0;

	if (s->left) {
		n = write(s->proc->in, s->input + s->at, MIN(s->left, (size_t)CHUNK));
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		/* Nobody reads any more: not an error of the command's. */
		s->at += n > 0 ? (size_t)n : 0;
		s->left = n > 0 ? s->left - (size_t)n : 0;
	}
	if (!s->left)
		fd_end(&s->proc->in);
}

/* What a stream holds at the exit, and no more of what others write meanwhile. */
static void pipe_tail(struct pipe_src *s, struct exec_events *e, int stream, int *fd)
{
	int have = 0;
	size_t left, n;

	if (*fd < 0 || ioctl(*fd, FIONREAD, &have) < 0 || have <= 0)
		return;
	for (left = MIN((size_t)have, (size_t)TAIL_MAX); left; left -= n) {
		n = pipe_read(s, e, stream, fd, left);
		if (!n)
			break;
	}
}

static int pipe_end(struct pipe_src *s, struct exec_events *e)
{
	struct exec_result r = {0};
	struct jw *w;

	pipe_tail(s, e, 1, &s->proc->out);
	pipe_tail(s, e, 2, &s->proc->err);
	exec_event_flush(e);
	exec_end(s->handle, s->exited ? &s->exit : NULL, s->timed_out, &r);
	w = exec_event_begin(e, "exit");
	exec_put_end(w, &r);
	jw_key(w, "stdoutBytes");
	jw_uint(w, s->total[0]);
	jw_key(w, "stderrBytes");
	jw_uint(w, s->total[1]);
	exec_event_end(e);
	return 2;
}

/* The time of the command, or of its death, ran out: 1 then the latter. */
static bool pipe_expired(struct pipe_src *s)
{
	if (!s->deadline_ms || clock_mono_ms() < s->deadline_ms)
		return false;
	if (s->timed_out)
		return true;
	s->timed_out = true;
	agent_proc_kill(s->proc, NULL);
	s->deadline_ms = clock_mono_ms() + KILL_MS;
	return false;
}

/* As exec_events_src.next. Output first, then the exit: so the end is never told too early. */
static int pipe_turn(struct pipe_src *s, struct exec_events *e, const struct pollfd *p,
		     struct err *err)
{
	size_t got = 0;
	int end;

	if (p[P_OUT].revents)
		got += pipe_read(s, e, 1, &s->proc->out, CHUNK);
	if (p[P_ERR].revents)
		got += pipe_read(s, e, 2, &s->proc->err, CHUNK);
	if (p[P_IN].revents)
		pipe_write(s);
	if (p[P_CLIENT].revents)
		return err_set(err, ERR_CANCELLED, "client hung up");
	if (!p[P_CONN].revents)
		return got > 0;
	end = agent_proc_exit(s->proc, &s->exit, err);
	if (end < 0) {
		exec_cut(s->handle, &s->who, err);
		return -1;
	}
	s->exited = end > 0;
	return end ? pipe_end(s, e) : got > 0;
}

static int pipe_next(void *arg, struct exec_events *e, int64_t deadline_ms, struct err *err)
{
	struct pipe_src *s = arg;

	for (;;) {
		struct pollfd p[P_N] = {
			[P_CONN] = {s->proc->conn, POLLIN, 0},
			[P_OUT] = {s->proc->out, POLLIN, 0},
			[P_ERR] = {s->proc->err, POLLIN, 0},
			[P_IN] = {s->proc->in, POLLOUT, 0},
			[P_CLIENT] = {exec_events_client(e), POLLRDHUP, 0},
		};
		int64_t until = s->deadline_ms ? MIN(deadline_ms, s->deadline_ms) : deadline_ms;
		int got = 0;

		if (poll(p, P_N, clock_left_ms(until)) > 0)
			got = pipe_turn(s, e, p, err);
		if (pipe_expired(s) && got == 0)
			return pipe_end(s, e);
		if (got || clock_mono_ms() >= deadline_ms)
			return got;
	}
}

static const struct exec_events_src pipe_src_ops = {pipe_next, pipe_free};

static struct pipe_src *pipe_open(struct http_req *req, const struct exec_spec *spec,
				  struct err *err)
{
	struct pipe_src *s = calloc(1, sizeof(*s));

	if (!s) {
		err_set(err, ERR_NOMEM, "out of memory");
		return NULL;
	}
	s->who = *api_who(req);
	s->left = spec->input ? spec->input_len : 0;
	s->input = s->left ? malloc(s->left) : NULL;
	if (s->left && !s->input)
		err_set(err, ERR_NOMEM, "out of memory");
	else
		s->handle = exec_open(api_core(req), api_who(req), spec, spec->input != NULL, err);
	if (!s->handle) {
		free(s->input);
		free(s);
		return NULL;
	}
	if (s->left)
		memcpy(s->input, spec->input, s->left);
	s->proc = exec_proc(s->handle);
	if (spec->timeout_ms)
		s->deadline_ms = clock_mono_ms() + spec->timeout_ms;
	return s;
}

int exec_attach(struct http_req *req, const struct exec_spec *spec, enum exec_form form,
		bool base64, struct err *err)
{
	struct exec_events *e = exec_events_new(req, form, base64, err);
	struct pipe_src *s = e ? pipe_open(req, spec, err) : NULL;
	struct jw *w;

	if (!s) {
		exec_events_free(e);
		return -1;
	}
	w = exec_event_begin(e, "start");
	jw_kint(w, "pid", s->proc->pid);
	jw_kstr(w, "cwd", s->proc->cwd);
	exec_event_end(e);
	return exec_events_reply(req, e, &pipe_src_ops, s, err);
}
