/*
 * proc.c - the daemon's side of SPAWN and of the connection of a running exec.
 */
#include "caisson/agent.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "agent/call.h"

#define CONTROL_MS 1000 /* to take a frame of a few bytes, or the rest of one */

void agent_proc_done(struct agent_proc *p)
{
	int fds[] = {p->conn, p->in == p->out ? -1 : p->in, p->out, p->err};

	fd_close_all(fds, ARRAY_LEN(fds));
	p->conn = p->in = p->out = p->err = -1;
}

/* Put the descriptors where they belong and check each. The reply keeps owning them. */
static int streams_take(struct agent_reply *r, uint32_t flags, struct agent_proc *p,
			struct err *err)
{
	size_t want = 1, at = 0;

	if (!(flags & SPAWN_TTY))
		want = 1 + !!(flags & SPAWN_STDIN) + !(flags & SPAWN_MERGE);
	if (r->nfds != want)
		return err_set(err, ERR_AGENT, "the sandbox's agent passed %zu streams, not %zu",
			       r->nfds, want);
	if (flags & SPAWN_TTY) {
		p->in = p->out = r->fds[0];
		return agent_fd_terminal(p->out, err);
	}
	if (flags & SPAWN_STDIN)
		p->in = r->fds[at++];
	p->out = r->fds[at++];
	if (!(flags & SPAWN_MERGE))
		p->err = r->fds[at];
	if (p->in >= 0 && agent_fd_pipe(p->in, O_WRONLY, err) < 0)
		return -1;
	if (agent_fd_pipe(p->out, O_RDONLY, err) < 0)
		return -1;
	return p->err >= 0 ? agent_fd_pipe(p->err, O_RDONLY, err) : 0;
}

static int spawned_take(struct agent_reply *r, uint32_t flags, struct agent_proc *ret,
			struct err *err)
{
	struct wire_in in = wire_in_on(r->p, r->len);
	struct agent_proc p = AGENT_PROC_INIT;

	p.pid = wire_get_u32(&in);
	p.uid = wire_get_u32(&in);
	p.gid = wire_get_u32(&in);
	wire_get_str(&in, p.cwd, sizeof(p.cwd));
	p.cwd_fell_back = wire_get_bool(&in);
	if (r->type != AGENT_SPAWNED || !wire_in_end(&in))
		return err_set(err, ERR_AGENT, "the sandbox's agent answered spawn wrongly");
	if (streams_take(r, flags, &p, err) < 0)
		return -1;
	r->nfds = 0;
	*ret = p;
	return 0;
}

int agent_spawn(const char *path, const struct agent_spawn *s, struct agent_proc *ret,
		int64_t deadline_ms, struct err *err)
{
	struct agent_req req = {.verb = AGENT_SPAWN,
				.argv = agent_strv_of(s->argv),
				.env = agent_strv_of(s->env),
				.cwd = s->cwd,
				.user = s->user,
				.flags = s->flags,
				.cols = s->cols,
				.rows = s->rows};
	auto_close int conn = agent_call_open(path, deadline_ms, err);
	auto_reply struct agent_reply r = {.nfds = 0};

	if (conn < 0 || agent_call_send(conn, &req, deadline_ms, err) < 0 ||
	    agent_call_recv(conn, &r, deadline_ms, err) < 0)
		return -1;
	if (spawned_take(&r, s->flags, ret, err) < 0)
		return -1;
	ret->conn = TAKE_FD(conn);
	return 0;
}

/*
 * The honest agent's frame is a few bytes in one send, so a part of one gets no patience: a
 * connection left half-read would poll readable for ever.
 */
int agent_proc_exit(struct agent_proc *p, struct agent_exit *ret, struct err *err)
{
	auto_reply struct agent_reply r = {.nfds = 0};
	struct agent_exit e = {0};
	struct wire_in in;
	uint8_t how;
	char peek;

	if (recv(p->conn, &peek, 1, MSG_PEEK | MSG_DONTWAIT) < 0 &&
	    (errno == EAGAIN || errno == EINTR))
		return 0;
	if (agent_call_recv(p->conn, &r, clock_mono_ms() + CONTROL_MS, err) < 0)
		return -1;
	in = wire_in_on(r.p, r.len);
	how = wire_get_u8(&in);
	e.signaled = how == AGENT_EXIT_SIGNAL;
	e.code = wire_get_u32(&in);
	e.user_us = wire_get_u64(&in);
	e.sys_us = wire_get_u64(&in);
	e.maxrss_kib = wire_get_u64(&in);
	if (r.type != AGENT_EXITED || r.nfds || !wire_in_end(&in) || how > AGENT_EXIT_SIGNAL ||
	    e.code > 255)
		return err_set(err, ERR_AGENT, "the sandbox's agent sent a malformed exit");
	*ret = e;
	return 1;
}

static int proc_control(struct agent_proc *p, const struct agent_req *req, struct err *err)
{
	return agent_call_send(p->conn, req, clock_mono_ms() + CONTROL_MS, err);
}

int agent_proc_signal(struct agent_proc *p, int sig, bool tree, struct err *err)
{
	struct agent_req req = {.verb = AGENT_SIGNAL, .sig = (uint32_t)sig, .tree = tree};

	if (sig < 1 || sig > 64)
		return err_set(err, ERR_INVALID, "signal: must be from 1 to 64");
	return proc_control(p, &req, err);
}

int agent_proc_resize(struct agent_proc *p, uint16_t cols, uint16_t rows, struct err *err)
{
	struct agent_req req = {.verb = AGENT_RESIZE, .cols = cols, .rows = rows};

	return proc_control(p, &req, err);
}

int agent_proc_kill(struct agent_proc *p, struct err *err)
{
	struct agent_req req = {.verb = AGENT_KILL};

	return proc_control(p, &req, err);
}
