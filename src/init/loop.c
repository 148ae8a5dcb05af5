/*
 * loop.c - the one loop of pid 1. It waits in epoll and nowhere else.
 */
#include "init/task.h"

#include <errno.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"

#define LOOP_BATCH    16
#define LOOP_PAUSE_MS 100 /* without descriptors or slots: try the listener again */

uint64_t conn_tag(const struct init *in, const struct conn *c)
{
	return LOOP_TAG_CONN + (uint64_t)(c - in->conn);
}

void loop_watch(struct init *in, int fd, uint64_t tag, uint32_t events, bool fresh)
{
	struct epoll_event ev = {.events = events, .data.u64 = tag};

	epoll_ctl(in->epoll, fresh ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, fd, &ev);
}

static void listen_set(struct init *in, bool on)
{
	in->listening = on;
	loop_watch(in, INIT_FD_LISTEN, LOOP_TAG_LISTEN, on ? EPOLLIN : 0, false);
}

/* One too many is told so; silence would look like a hang. */
static void conn_refuse(int fd)
{
	uint8_t raw[WIRE_FRAME_HEAD + 256];
	struct wire_out o = wire_out_on(raw + WIRE_FRAME_HEAD, sizeof(raw) - WIRE_FRAME_HEAD);
	struct wire_frame f = {.type = AGENT_ERR};
	struct err err;

	err_set(&err, ERR_UNAVAILABLE, "%d operations at once in this sandbox", INIT_CONNS_MAX);
	note_failure(fd, &err);
	reply_err(&o, &err);
	f.len = (uint32_t)o.len;
	wire_frame_put(raw, &f);
	send(fd, raw, WIRE_FRAME_HEAD + o.len, MSG_NOSIGNAL | MSG_DONTWAIT);
	close(fd);
}

static void loop_accept(struct init *in)
{
	for (int i = 0; i < LOOP_BATCH; i++) {
		int fd = accept4(INIT_FD_LISTEN, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		struct conn *c;

		if (fd < 0) {
			if (errno == EMFILE || errno == ENFILE || errno == ENOMEM)
				listen_set(in, false);
			return;
		}
		c = conn_new(in, fd);
		if (!c) {
			conn_refuse(fd);
			continue;
		}
		/* The request is nearly always there already: saves a turn of the loop. */
		conn_readable(in, c);
	}
}

static void loop_children(struct init *in)
{
	struct signalfd_siginfo si[4];

	while (read(in->signals, si, sizeof(si)) == sizeof(si))
		continue;
	reap_all(in);
}

/* Milliseconds to the nearest deadline, or -1. */
static int loop_timeout(const struct init *in)
{
	int64_t nearest = 0;
	int left;

	for (size_t i = 0; i < in->conns_high; i++) {
		int64_t at = in->conn[i].deadline_ms;

		if (in->conn[i].state != CONN_FREE && at && (!nearest || at < nearest))
			nearest = at;
	}
	if (tasks_due() && (!nearest || tasks_due() < nearest))
		nearest = tasks_due();
	left = nearest ? clock_left_ms(nearest) : -1;
	if (!in->listening && (left < 0 || left > LOOP_PAUSE_MS))
		left = LOOP_PAUSE_MS;
	return left;
}

static void loop_expire(struct init *in)
{
	int64_t now = 0;

	for (size_t i = 0; i < in->conns_high; i++) {
		struct conn *c = &in->conn[i];

		if (c->state == CONN_FREE || !c->deadline_ms)
			continue;
		if (!now)
			now = clock_mono_ms();
		if (c->deadline_ms <= now)
			conn_expired(in, c);
	}
	tasks_expire(in);
}

static void loop_event(struct init *in, const struct epoll_event *ev)
{
	struct conn *c;

	if (ev->data.u64 == LOOP_TAG_LISTEN) {
		loop_accept(in);
		return;
	}
	if (ev->data.u64 == LOOP_TAG_SIGNAL) {
		loop_children(in);
		return;
	}
	if (ev->data.u64 == LOOP_TAG_WAKE) {
		job_collect(in);
		return;
	}
	if (ev->data.u64 & LOOP_TAG_TASK) {
		task_event(in, ev->data.u64);
		return;
	}
	c = &in->conn[ev->data.u64 - LOOP_TAG_CONN];
	/* A slot freed and taken again within this batch only sees a spurious wake-up. */
	if (c->state == CONN_FREE || c->state == CONN_JOB)
		return;
	if (ev->events & EPOLLOUT)
		conn_writable(in, c);
	else
		conn_readable(in, c);
}

void loop_run(struct init *in)
{
	loop_watch(in, in->signals, LOOP_TAG_SIGNAL, EPOLLIN, true);
	loop_watch(in, INIT_FD_LISTEN, LOOP_TAG_LISTEN, EPOLLIN, true);
	in->listening = true;
	(void)!write(INIT_FD_STATUS, "R", 1);
	close(INIT_FD_STATUS);
	for (;;) {
		struct epoll_event ev[LOOP_BATCH];
		int n = epoll_wait(in->epoll, ev, LOOP_BATCH, loop_timeout(in));

		for (int i = 0; i < n; i++)
			loop_event(in, &ev[i]);
		if (!in->listening)
			listen_set(in, true);
		loop_expire(in);
	}
}
