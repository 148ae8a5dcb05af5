/*
 * task_io.c - streams of tasks: output goes into the rings as it comes, input as it is taken.
 *
 * Output is always read, whoever follows it, so a process never waits for a reader; what the rings
 * cannot keep is counted. All rings together have a ceiling, a part of the sandbox's memory: room
 * is made in the tasks that ended first, then in the one that holds most.
 */
#include "init/task.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"

#define LOSE_STEP 4096

void task_watch(struct init *in, struct task *t, enum task_fd which, uint32_t events)
{
	if (t->events[which] == events || t->fd[which] < 0)
		return;
	if (events)
		loop_watch(in, t->fd[which], task_tag(t, which), events, t->events[which] == 0);
	else
		epoll_ctl(in->epoll, EPOLL_CTL_DEL, t->fd[which], NULL);
	t->events[which] = events;
}

void task_close(struct init *in, struct task *t, enum task_fd which)
{
	if (t->fd[which] < 0)
		return;
	task_watch(in, t, which, 0);
	close(t->fd[which]);
	t->fd[which] = -1;
	if (which != TASK_FD_IN)
		task_keep(t);
}

/* Held pipes are nobody's log: their writer does not depend on us. */
bool task_streams_open(const struct task *t)
{
	return !(t->tflags & TASK_PIPES) && (t->fd[TASK_FD_OUT] >= 0 || t->fd[TASK_FD_ERR] >= 0);
}

/* ---- the ceiling of all logs ---- */

static uint64_t memory_total(void)
{
	char text[256];
	auto_close int fd = open("/proc/meminfo", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	const char *p;

	if (n <= 0)
		return 0;
	text[n] = '\0';
	p = strstr(text, "MemTotal:");
	return p ? strtoull(p + strlen("MemTotal:"), NULL, 10) * 1024 : 0;
}

size_t task_logs_ceiling(void)
{
	static int64_t asked_ms;
	static size_t ceiling = TASK_LOGS_MAX;
	int64_t now = clock_mono_ms();
	uint64_t total;

	if (asked_ms && now - asked_ms < TASK_MEMORY_MS)
		return ceiling;
	asked_ms = now;
	total = memory_total();
	ceiling = TASK_LOGS_MAX;
	if (total && total / TASK_LOGS_SHARE < ceiling)
		ceiling = (size_t)(total / TASK_LOGS_SHARE);
	return ceiling;
}

static size_t task_mem(const struct task *t)
{
	return t->ring[0].mem + t->ring[1].mem;
}

static struct task *logs_victim(void)
{
	struct task *ended = NULL, *big = NULL;

	for (struct task *t = task_first(); t; t = t->next) {
		if (!task_mem(t))
			continue;
		if (t->state == TASK_ENDED && (!ended || t->ended_ms < ended->ended_ms))
			ended = t;
		if (!big || task_mem(t) > task_mem(big))
			big = t;
	}
	return ended ? ended : big;
}

static void logs_make_room(size_t need)
{
	size_t ceiling = task_logs_ceiling();

	while (rings_mem && rings_mem + need > ceiling) {
		struct task *t = logs_victim();

		ring_drop(&t->ring[t->ring[1].mem > t->ring[0].mem]);
	}
}

/* ---- output ---- */

static uint8_t *log_room(struct task *t, size_t stream, size_t want, size_t *ret_room)
{
	uint64_t order = t->ring[0].total + t->ring[1].total;
	size_t need = ring_need(&t->ring[stream], order, want);

	if (need)
		logs_make_room(need);
	return ring_room(&t->ring[stream], order, want, ret_room);
}

void task_log(struct task *t, size_t stream, const uint8_t *p, size_t n)
{
	while (n) {
		size_t room;
		uint8_t *at = log_room(t, stream, n, &room);

		if (!at) {
			ring_lost(&t->ring[stream], n);
			return;
		}
		memcpy(at, p, room);
		ring_commit(&t->ring[stream], room);
		p += room;
		n -= room;
	}
}

/* Without memory the bytes still have to go, or their writer would stand still. */
static ssize_t stream_lose(struct task *t, int fd, size_t stream)
{
	uint8_t sink[LOSE_STEP];
	ssize_t n = read(fd, sink, sizeof(sink));

	if (n > 0)
		ring_lost(&t->ring[stream], (size_t)n);
	return n;
}

/* Most likely nothing is there: asking must not take memory. */
static ssize_t stream_probe(struct task *t, int fd, size_t stream)
{
	uint8_t few[512];
	ssize_t n = read(fd, few, sizeof(few));

	if (n > 0)
		task_log(t, stream, few, (size_t)n);
	return n;
}

static ssize_t stream_read(struct task *t, enum task_fd which)
{
	size_t stream = which == TASK_FD_ERR, room;
	int fd = t->fd[which], waits = 0;
	uint8_t *at;
	ssize_t n;

	/* Of a terminal the number is not all: some is on its way between the two ends. */
	if (ioctl(fd, FIONREAD, &waits) < 0 || waits < 1)
		return stream_probe(t, fd, stream);
	at = log_room(t, stream, MIN((size_t)waits, (size_t)TASK_STEP_MAX), &room);
	if (!at)
		return stream_lose(t, fd, stream);
	n = read(fd, at, room);
	if (n > 0)
		ring_commit(&t->ring[stream], (size_t)n);
	return n;
}

/*
 * At most max bytes; a stream at its end is closed. A FIFO of a running command is not: that all
 * its writers have closed it does not mean that the shell will not open it.
 */
static void stream_step(struct init *in, struct task *t, enum task_fd which, size_t max)
{
	size_t got = 0;
	ssize_t n;

	while (t->fd[which] >= 0 && got < max) {
		n = stream_read(t, which);
		if (n > 0) {
			got += (size_t)n;
			continue;
		}
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (t->kind == TASK_COMMAND && t->state == TASK_RUNNING)
			task_watch(in, t, which, 0);
		else
			task_close(in, t, which);
		return;
	}
}

void task_discard(struct task *t)
{
	ring_lost(&t->ring[0], 0);
	ring_lost(&t->ring[1], 0);
}

void task_drain(struct init *in, struct task *t)
{
	if (t->tflags & TASK_PIPES)
		return;
	stream_step(in, t, TASK_FD_OUT, TASK_DRAIN_MAX);
	stream_step(in, t, TASK_FD_ERR, TASK_DRAIN_MAX);
}

void task_event(struct init *in, uint64_t tag)
{
	enum task_fd which;
	struct task *t = task_by_tag(tag, &which);

	/* A slot freed and taken again within this batch only sees a spurious wake-up. */
	if (!t)
		return;
	if (t->kind == TASK_SESSION) {
		session_event(in, t, which);
		return;
	}
	if (which == TASK_FD_IN) {
		task_input(in, t);
		return;
	}
	if (which > TASK_FD_ERR)
		return;
	stream_step(in, t, which, TASK_STEP_MAX);
	if (t->removed && t->state == TASK_ENDED)
		task_discard(t);
	else
		task_ops_wake(in, t);
}
