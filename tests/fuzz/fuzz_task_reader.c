/*
 * fuzz_task_reader.c - any bytes as the output of a task: chunks lie within what came, streams go
 * on where they stopped, records have values of their ranges.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "agent/task_int.h"
#include "base/clock.h"
#include "lib/fuzz_replay.h"

#define FUZZ_BYTES_MAX 65536 /* a socket's buffer takes them at once */

static void chunk_check(const struct task_chunk *c, enum task_read kind, uint64_t next[2])
{
	unsigned sum = 0;

	if (c->stream < 1 || c->stream > 2 || c->n == 0)
		abort();
	if (next[c->stream - 1] != TASK_TAIL && next[c->stream - 1] != c->offset)
		abort();
	next[c->stream - 1] = c->offset + c->n;
	for (uint64_t i = 0; kind == TASK_READ_DATA && i < c->n; i++)
		sum += c->p[i];
	if (sum == 1)
		__asm__ volatile("" : : "r"(sum));
}

static void info_check(struct task_info *t)
{
	if (t->out_first > t->out_total || t->err_first > t->err_total || t->code > 255 ||
	    t->kind < TASK_DETACHED || t->kind > TASK_INTERPRETER || t->state < TASK_QUEUED ||
	    t->state > TASK_ENDED)
		abort();
	task_info_done(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint64_t next[2] = {0, TASK_TAIL};
	struct task_info end = {.label = NULL};
	struct task_reader *r;
	struct task_chunk c;
	struct err err;
	int sp[2], rc;

	if (size > FUZZ_BYTES_MAX)
		return 0;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sp) < 0)
		abort();
	if (size && send(sp[0], data, size, 0) != (ssize_t)size)
		abort();
	shutdown(sp[0], SHUT_WR);
	r = task_reader_on(sp[1], TASK_OUT | TASK_ERR, next[0], next[1], &err);
	if (!r)
		abort();
	while ((rc = task_reader_next(r, &c, &end, -1, clock_mono_ms() + 1000, &err)) > 0) {
		if (rc == TASK_READ_END)
			break;
		chunk_check(&c, (enum task_read)rc, next);
	}
	if (rc == TASK_READ_END)
		info_check(&end);
	task_reader_close(r);
	close(sp[0]);
	return 0;
}
