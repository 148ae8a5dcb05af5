/*
 * exec_run.c - run a command to its end: output to a sink, input from memory.
 *
 * One poll over output, input, the agent's connection and the client. Output ends with the
 * command, not with the pipes: what it left in the background may hold them for hours, so after
 * the exit only what is in the pipes by then is read. Input is written when the pipe takes it,
 * between reads (A18). A time limit, a sink that refuses and a client that hangs up kill the tree.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>

#include "base/clock.h"
#include "base/fd.h"
#include "caisson/process.h"
#include "core/exec.h"

#define PUMP_READ     (64 * 1024)
#define PUMP_KILL_MS  3000 /* from the kill to the report of the exit */
#define PUMP_TTY_MS   50   /* a terminal's last bytes may come after the exit (A15) */
#define PUMP_TAIL_MAX (16u << 20)

enum { P_CONN, P_OUT, P_ERR, P_IN, P_CLIENT, P_N };

struct pump {
	struct exec_handle *h;
	exec_sink_fn sink;
	void *arg;
	int client;
	const char *input;
	size_t left;
	uint64_t total[3]; /* by stream */
	bool tty, timed_out, exited, killed, linger;
	int64_t deadline_ms; /* of the command, then of its death; 0 none */
	struct agent_exit exit;
};

static void pump_close(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static void pump_kill(struct pump *p)
{
	if (p->killed)
		return;
	p->killed = true;
	agent_proc_kill(&p->h->proc, NULL);
	p->deadline_ms = clock_mono_ms() + PUMP_KILL_MS;
}

/* One read of at most max bytes into the sink: bytes, 0 when there is nothing now, -1. */
static ssize_t pump_read(struct pump *p, int stream, int *fd, size_t max, struct err *err)
{
	char chunk[PUMP_READ];
	ssize_t got;

	if (*fd < 0)
		return 0;
	do
		got = read(*fd, chunk, MIN(max, sizeof(chunk)));
	while (got < 0 && errno == EINTR);
	if (got < 0 && errno == EAGAIN)
		return 0;
	/* EIO: every slave of the terminal is closed. */
	if (got <= 0) {
		pump_close(fd);
		return 0;
	}
	p->total[stream] += (uint64_t)got;
	if (p->sink && p->sink(p->arg, stream, chunk, (size_t)got, err) < 0)
		return -1;
	return got;
}

static void pump_write(struct pump *p)
{
	int *in = &p->h->proc.in;
	ssize_t put;

	if (p->left) {
		put = write(*in, p->input, MIN(p->left, (size_t)PUMP_READ));
		if (put < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (put > 0) {
			p->input += put;
			p->left -= (size_t)put;
		} else {
			p->left = 0; /* nobody reads any more: not an error of the command's */
		}
	}
	if (!p->left)
		pump_close(in);
}

/* What a stream holds at the exit, and no more of what others write meanwhile. */
static int pump_tail(struct pump *p, int stream, int *fd, struct err *err)
{
	int have = 0;
	size_t left;

	if (*fd < 0)
		return 0;
	if (p->tty)
		left = PUMP_TAIL_MAX;
	else if (ioctl(*fd, FIONREAD, &have) == 0 && have > 0)
		left = MIN((size_t)have, (size_t)PUMP_TAIL_MAX);
	else
		return 0;
	while (left && *fd >= 0) {
		ssize_t got = pump_read(p, stream, fd, left, err);

		if (got < 0)
			return -1;
		left -= (size_t)got;
		if (got == 0 && (!p->tty || *fd < 0 ||
				 fd_wait(*fd, POLLIN, -1, clock_mono_ms() + PUMP_TTY_MS, NULL) < 0))
			break;
	}
	return 0;
}

/* What poll said, in the order that loses nothing: output, then the exit. 1: the command ended. */
static int pump_turn(struct pump *p, const struct pollfd *pfd, struct err *err)
{
	struct agent_proc *proc = &p->h->proc;

	if (pfd[P_OUT].revents && pump_read(p, 1, &proc->out, PUMP_READ, err) < 0)
		return -1;
	if (pfd[P_ERR].revents && pump_read(p, 2, &proc->err, PUMP_READ, err) < 0)
		return -1;
	if (pfd[P_IN].revents)
		pump_write(p);
	if (pfd[P_CONN].revents) {
		int got = agent_proc_exit(proc, &p->exit, err);

		if (got != 0)
			return got;
	}
	if (pfd[P_CLIENT].revents)
		return err_set(err, ERR_CANCELLED, "client hung up");
	return 0;
}

/* 1 the command ended, 0 its death wasn't reported in time, -1. */
static int pump_loop(struct pump *p, struct err *err)
{
	struct agent_proc *proc = &p->h->proc;

	for (;;) {
		/* The master of a terminal is read as out; input for it isn't written here. */
		struct pollfd pfd[P_N] = {
			[P_CONN] = {proc->conn, POLLIN, 0},
			[P_OUT] = {proc->out, POLLIN, 0},
			[P_ERR] = {proc->err, POLLIN, 0},
			[P_IN] = {proc->in == proc->out ? -1 : proc->in, POLLOUT, 0},
			[P_CLIENT] = {p->killed ? -1 : p->client, POLLRDHUP, 0},
		};
		int n = poll(pfd, P_N, clock_left_ms(p->deadline_ms)), got;

		if (n < 0 && errno != EINTR)
			return err_errno(err, ERR_INTERNAL, errno, "poll");
		got = n > 0 ? pump_turn(p, pfd, err) : 0;
		if (got != 0)
			return got;
		/* Also with output ready: a command that never stops printing has a limit too. */
		if (!p->deadline_ms || clock_mono_ms() < p->deadline_ms)
			continue;
		if (p->killed)
			return 0;
		p->timed_out = true;
		pump_kill(p);
	}
}

static int pump_run(struct pump *p, struct err *err)
{
	struct agent_proc *proc = &p->h->proc;
	int got = pump_loop(p, err);

	if (got >= 0) {
		p->exited = got > 0;
		if (pump_tail(p, 1, &proc->out, err) < 0 || pump_tail(p, 2, &proc->err, err) < 0)
			got = -1;
	}
	if (got < 0 && !(p->linger && err->code == ERR_CANCELLED))
		pump_kill(p);
	return got < 0 ? -1 : 0;
}

int exec_run(struct core *c, const struct caller *who, const struct exec_spec *spec,
	     exec_sink_fn sink, void *arg, int client, struct exec_result *ret, struct err *err)
{
	struct pump p = {.sink = sink,
			 .arg = arg,
			 .client = client,
			 .input = spec->input,
			 .left = spec->input ? spec->input_len : 0,
			 .tty = spec->tty};
	struct exec_result r = {0};
	struct err why = {0};
	bool hung_up;
	int rc;

	p.h = exec_open(c, who, spec, spec->input != NULL && !spec->tty, err);
	if (!p.h)
		return -1;
	if (spec->timeout_ms)
		p.deadline_ms = clock_mono_ms() + spec->timeout_ms;
	p.linger = spec->linger_ms > 0;
	rc = pump_run(&p, &why);
	hung_up = rc < 0 && why.code == ERR_CANCELLED;
	if (rc < 0) {
		exec_cut(p.h, who, &why);
		if (err)
			*err = why;
	}
	if (rc == 0) {
		r.total_out = p.total[1];
		r.total_err = p.total[2];
		exec_end(p.h, p.exited ? &p.exit : NULL, p.timed_out, &r);
		*ret = r;
	}
	if (hung_up && spec->linger_ms)
		exec_linger(p.h, spec->linger_ms);
	else
		exec_free(p.h);
	return rc;
}
