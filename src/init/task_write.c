/*
 * task_write.c - input of tasks: one write after another, each answered when it was taken.
 */
#include "init/task_op.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"

#define TTY_EOF 4 /* ^D; a terminal has no other end */

void task_write_forget(struct task_op *op)
{
	struct task_op **at = &op->t->write;

	while (*at && *at != op)
		at = &(*at)->next;
	if (*at)
		*at = op->next;
	task_release(op->write.held);
	free(op->write.p);
}

static void write_done(struct init *in, struct task_op *op)
{
	uint8_t raw[8];
	struct wire_out o = wire_out_on(raw, sizeof(raw));
	struct conn *c = op->c;

	wire_put_u64(&o, op->write.n);
	task_op_free(c);
	conn_send(in, c, AGENT_OK, raw, o.len, NULL, 0, true);
}

void task_writes_fail(struct init *in, struct task *t, const struct err *err)
{
	while (t->write)
		task_op_fail(in, t->write->c, err);
}

static void input_broken(struct init *in, struct task *t)
{
	struct err err;

	task_close(in, t, TASK_FD_IN);
	err_tagged(&err, ERR_GONE, "INPUT_CLOSED", "process %s reads its input no more", t->id);
	task_writes_fail(in, t, &err);
}

/* 1 when the first write is done, 0 when it has to wait, -1 when nobody reads. */
static int write_step(struct init *in, struct task *t)
{
	struct task_op *op = t->write;
	ssize_t n;

	while (op->write.pos < op->write.n) {
		const uint8_t *p = op->write.p + op->write.pos;

		n = write(t->fd[TASK_FD_IN], p, op->write.n - op->write.pos);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno != EAGAIN)
			return -1;
		if (n <= 0)
			return 0;
		if (t->tflags & TASK_ECHO)
			task_log(t, 0, p, (size_t)n);
		op->write.pos += (size_t)n;
	}
	if (op->write.eof && t->kind != TASK_PTY) {
		t->eof = true;
	}
	write_done(in, op);
	return 1;
}

/* A FIFO closed before the shell has opened it would leave the shell waiting for a writer. */
static void input_end(struct init *in, struct task *t)
{
	if (t->kind != TASK_COMMAND || command_opened(t)) {
		task_close(in, t, TASK_FD_IN);
		return;
	}
	t->eof_at = clock_mono_ms() + TASK_OPEN_MS;
	task_due(t->eof_at);
}

void task_input(struct init *in, struct task *t)
{
	bool echo = t->write && t->tflags & TASK_ECHO;
	int rc = 1;

	if (t->state == TASK_QUEUED)
		return;
	if (t->kind == TASK_COMMAND && t->write)
		command_opened(t);
	while (t->write && t->fd[TASK_FD_IN] >= 0 && rc > 0)
		rc = write_step(in, t);
	if (rc > 0 && t->eof)
		input_end(in, t);
	if (rc < 0 || (t->write && t->fd[TASK_FD_IN] < 0))
		input_broken(in, t);
	task_watch(in, t, TASK_FD_IN, t->write ? EPOLLOUT : 0);
	if (echo)
		task_ops_wake(in, t);
}

static int write_check(const struct agent_req *r, const struct task *t, struct err *err)
{
	if (r->data.n > TASK_WRITE_MAX)
		return err_set(err, ERR_TOO_LARGE, "data: is over %u bytes", TASK_WRITE_MAX);
	if (t->state == TASK_ENDED)
		return task_over(t, err);
	if (t->kind == TASK_SESSION || t->tflags & TASK_PIPES ||
	    !(t->tflags & TASK_STDIN || t->kind == TASK_PTY))
		return err_tagged(err, ERR_CONFLICT, "INPUT_CLOSED", "process %s takes no input",
				  t->id);
	if (t->eof || (t->state == TASK_RUNNING && t->fd[TASK_FD_IN] < 0))
		return err_tagged(err, ERR_GONE, "INPUT_CLOSED",
				  "the input of process %s was closed", t->id);
	return 0;
}

void task_write_run(struct init *in, struct conn *c, const struct agent_req *r, struct task *t)
{
	bool eof_byte = r->eof && t->kind == TASK_PTY;
	struct task_op *op, **at = &t->write;
	struct err err;

	if (write_check(r, t, &err) < 0) {
		conn_fail(in, c, &err);
		return;
	}
	op = task_op_new(in, c, OP_WRITE, t);
	if (!op)
		return;
	op->write.eof = r->eof;
	op->write.p = task_hold(r->data.n + 1) ? malloc(r->data.n + 1) : NULL;
	if (!op->write.p) {
		err_set(&err, ERR_UNAVAILABLE, "input: too much of it waits in this sandbox");
		task_op_fail(in, c, &err);
		return;
	}
	op->write.held = r->data.n + 1;
	memcpy(op->write.p, r->data.p, r->data.n);
	op->write.p[r->data.n] = TTY_EOF;
	op->write.n = r->data.n + eof_byte;
	while (*at)
		at = &(*at)->next;
	*at = op;
	task_input(in, t);
}
