/*
 * conn.c - connections of the daemon: one operation each, never waited for.
 *
 * A whole request normally arrives in one read into a buffer shared by all; only what comes in
 * pieces gets memory of its own, up to the ceiling of the protocol and for a few seconds. A reply
 * that the socket does not take at once is queued and has to move before its deadline.
 */
#include "init/task.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"

#define CONN_SCRATCH 8192 /* the usual request fits */
#define CONN_REPLY   TASK_REPLY_MAX
#define CONN_HEAD    64 /* bytes of a streamed frame before its body */

struct conn *conn_new(struct init *in, int fd)
{
	struct conn *c = NULL;

	for (size_t i = 0; i < INIT_CONNS_MAX && !c; i++)
		if (in->conn[i].state == CONN_FREE)
			c = &in->conn[i];
	if (!c)
		return NULL;
	*c = (struct conn){.state = CONN_REQUEST,
			   .fd = fd,
			   .deadline_ms = clock_mono_ms() + INIT_REQUEST_MS,
			   .exec = {.master = -1}};
	if ((size_t)(c - in->conn) >= in->conns_high)
		in->conns_high = (size_t)(c - in->conn) + 1;
	return c;
}

/* Ends an exec's tree too: a conn that goes before the exit takes its processes with it. */
void conn_free(struct init *in, struct conn *c)
{
	if (c->state == CONN_EXEC && c->exec.pid) {
		tree_kill(&c->exec);
		tree_retire(&c->exec);
	}
	if (c->put)
		job_drop(in, c->put);
	task_op_free(c);
	if (c->exec.master >= 0)
		close(c->exec.master);
	if (c->fd >= 0)
		close(c->fd);
	free(c->in);
	free(c->out);
	*c = (struct conn){.state = CONN_FREE, .fd = -1, .exec = {.master = -1}};
	while (in->conns_high && in->conn[in->conns_high - 1].state == CONN_FREE)
		in->conns_high--;
}

static void conn_watch(struct init *in, struct conn *c, uint32_t events)
{
	if (c->events == events)
		return;
	loop_watch(in, c->fd, conn_tag(in, c), events, c->events == 0);
	c->events = events;
}

static void conn_bad(struct init *in, struct conn *c, const char *what)
{
	struct err err;

	err_set(&err, ERR_INVALID, "agent request: %s", what);
	conn_fail(in, c, &err);
}

/* Run the whole frames in p; returns the bytes used, or -1 when c is gone or not ours now. */
static ssize_t conn_frames(struct init *in, struct conn *c, uint8_t *p, size_t len)
{
	size_t at = 0;

	while (len - at >= WIRE_FRAME_HEAD) {
		enum conn_state state = c->state;
		struct wire_frame f;

		if (wire_frame_get(p + at, AGENT_REQUEST_MAX, &f) < 0 || f.flags) {
			conn_bad(in, c, "frame over the limit");
			return -1;
		}
		if (len - at - WIRE_FRAME_HEAD < f.len)
			break;
		request_run(in, c, f.type, p + at + WIRE_FRAME_HEAD, f.len);
		at += WIRE_FRAME_HEAD + f.len;
		/* More frames may follow a spawn only; one who waits has nothing to say. */
		if (c->state == CONN_TASK && at < len)
			conn_free(in, c);
		if (c->state != CONN_EXEC && c->state != CONN_REQUEST)
			return -1;
		if (state == CONN_EXEC && c->state != CONN_EXEC)
			return -1;
	}
	return (ssize_t)at;
}

/* Keep what is left of a partial frame. */
static int conn_keep(struct conn *c, const uint8_t *p, size_t len)
{
	struct wire_frame f = {0};
	size_t need = WIRE_FRAME_HEAD;

	if (len >= WIRE_FRAME_HEAD && wire_frame_get(p, AGENT_REQUEST_MAX, &f) == 0)
		need += f.len;
	if (need < len)
		need = len;
	if (c->in_cap < need) {
		uint8_t *bigger = malloc(need);

		if (!bigger)
			return -1;
		memcpy(bigger, p, len);
		free(c->in);
		c->in = bigger;
		c->in_cap = need;
	} else if (len) {
		memmove(c->in, p, len);
	}
	c->in_len = len;
	return 0;
}

/* The peer of a waiting operation has nothing more to say: bytes are a fault, the end an end. */
static void conn_waiting_readable(struct init *in, struct conn *c)
{
	char more;

	if (recv(c->fd, &more, 1, MSG_DONTWAIT) < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	conn_free(in, c);
}

static void conn_waits(struct init *in, struct conn *c)
{
	free(c->in);
	c->in = NULL;
	c->in_cap = c->in_len = 0;
	conn_watch(in, c, conn_full(c) ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

void conn_readable(struct init *in, struct conn *c)
{
	static uint8_t scratch[CONN_SCRATCH];
	uint8_t *p = c->in ? c->in : scratch;
	size_t cap = c->in ? c->in_cap : sizeof(scratch);
	ssize_t got, used;

	if (c->state == CONN_TASK) {
		conn_waiting_readable(in, c);
		return;
	}
	if (c->in_len >= cap) {
		conn_bad(in, c, "more bytes than its frame");
		return;
	}
	got = recv(c->fd, p + c->in_len, cap - c->in_len, MSG_DONTWAIT);
	if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
		conn_watch(in, c, EPOLLIN);
		return;
	}
	if (got <= 0) {
		conn_free(in, c);
		return;
	}
	got += (ssize_t)c->in_len;
	used = conn_frames(in, c, p, (size_t)got);
	if (used < 0) {
		if (c->state == CONN_TERM)
			conn_watch(in, c, EPOLLIN);
		else if (c->state == CONN_TASK)
			conn_waits(in, c);
		return;
	}
	if (used == got && c->in) {
		free(c->in);
		c->in = NULL;
		c->in_cap = c->in_len = 0;
	} else if (used < got && conn_keep(c, p + used, (size_t)(got - used)) < 0) {
		conn_free(in, c);
		return;
	}
	conn_watch(in, c, c->out ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

static void conn_drained(struct init *in, struct conn *c)
{
	free(c->out);
	c->out = NULL;
	c->out_len = c->out_pos = 0;
	if (c->state == CONN_DRAIN) {
		conn_free(in, c);
		return;
	}
	c->deadline_ms = 0;
	conn_watch(in, c, EPOLLIN);
	if (c->state == CONN_TASK)
		task_op_resume(in, c);
}

void conn_writable(struct init *in, struct conn *c)
{
	ssize_t put;

	if (!c->out && c->full) {
		c->full = false;
		conn_drained(in, c);
		return;
	}
	if (!c->out)
		return;
	put = send(c->fd, c->out + c->out_pos, c->out_len - c->out_pos,
		   MSG_NOSIGNAL | MSG_DONTWAIT);
	if (put < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (put < 0) {
		conn_free(in, c);
		return;
	}
	c->out_pos += (size_t)put;
	c->deadline_ms = c->state == CONN_TASK ? 0 : clock_mono_ms() + INIT_REPLY_MS;
	if (c->out_pos == c->out_len)
		conn_drained(in, c);
}

void conn_expired(struct init *in, struct conn *c)
{
	if (c->state == CONN_TERM) {
		request_term_check(in, c);
		return;
	}
	conn_free(in, c);
}

/* Queue what the socket would not take. */
static int conn_queue(struct init *in, struct conn *c, const uint8_t *p, size_t len)
{
	uint8_t *out = realloc(c->out, c->out_len + len);

	if (!out)
		return -1;
	memcpy(out + c->out_len, p, len);
	c->out = out;
	c->out_len += len;
	/* One who reads along may pause as long as it likes: it holds one frame, no more. */
	if (!c->deadline_ms && c->state != CONN_TASK)
		c->deadline_ms = clock_mono_ms() + INIT_REPLY_MS;
	conn_watch(in, c,
		   c->state == CONN_EXEC || c->state == CONN_TASK ? EPOLLIN | EPOLLOUT : EPOLLOUT);
	return 0;
}

bool conn_full(const struct conn *c)
{
	return c->out || c->full;
}

int conn_stream(struct init *in, struct conn *c, uint16_t type, const void *head, size_t nhead,
		const void *body, size_t nbody)
{
	uint8_t start[WIRE_FRAME_HEAD + CONN_HEAD];
	struct wire_frame f = {.len = (uint32_t)(nhead + nbody), .type = type};
	struct iovec iov[2] = {{start, WIRE_FRAME_HEAD + nhead}, {(void *)(uintptr_t)body, nbody}};
	struct msghdr msg = {.msg_iov = iov, .msg_iovlen = 2};
	ssize_t put;

	if (conn_full(c))
		return 0;
	wire_frame_put(start, &f);
	memcpy(start + WIRE_FRAME_HEAD, head, nhead);
	put = sendmsg(c->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
	if (put < 0 && (errno == EAGAIN || errno == EINTR)) {
		c->full = true;
		conn_watch(in, c, EPOLLIN | EPOLLOUT);
		return 0;
	}
	if (put < 0)
		return -1;
	for (size_t i = 0; i < 2; i++) {
		size_t sent = MIN((size_t)put, iov[i].iov_len);

		put -= (ssize_t)sent;
		if (sent < iov[i].iov_len &&
		    conn_queue(in, c, (uint8_t *)iov[i].iov_base + sent, iov[i].iov_len - sent) < 0)
			return -1;
	}
	return 1;
}

static ssize_t conn_push(struct conn *c, const uint8_t *p, size_t len, const int *fds, size_t nfds)
{
	struct err err;

	if (!nfds)
		return send(c->fd, p, len, MSG_NOSIGNAL | MSG_DONTWAIT);
	/* A deadline in the past: the whole frame now or not at all. It is small and first. */
	return fd_send(c->fd, p, len, fds, nfds, 1, &err) < 0 ? -1 : (ssize_t)len;
}

int conn_send(struct init *in, struct conn *c, uint16_t type, const void *payload, size_t len,
	      const int *fds, size_t nfds, bool last)
{
	static uint8_t frame[WIRE_FRAME_HEAD + CONN_REPLY];
	struct wire_frame f = {.len = (uint32_t)len, .type = type};
	size_t whole = WIRE_FRAME_HEAD + len, at = 0;
	ssize_t put = 0;

	if (len > CONN_REPLY)
		return -1;
	wire_frame_put(frame, &f);
	memcpy(frame + WIRE_FRAME_HEAD, payload, len);
	if (last)
		c->state = CONN_DRAIN;
	if (!c->out) {
		put = conn_push(c, frame, whole, fds, nfds);
		if (put < 0 && (errno != EAGAIN || nfds))
			goto gone;
		at = put > 0 ? (size_t)put : 0;
	}
	if (at < whole && conn_queue(in, c, frame + at, whole - at) < 0)
		goto gone;
	if (last && at == whole)
		conn_free(in, c);
	return 0;
gone:
	if (last)
		conn_free(in, c);
	return -1;
}

void conn_fail(struct init *in, struct conn *c, const struct err *err)
{
	uint8_t raw[1024];
	struct wire_out o = wire_out_on(raw, sizeof(raw));

	note_failure(c->fd, err);
	reply_err(&o, err);
	conn_send(in, c, AGENT_ERR, raw, o.len, NULL, 0, true);
}
