/*
 * task_ops.c - requests about tasks, and the connections that wait for one.
 */
#include "init/task_op.h"

#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/clock.h"

bool task_verb(uint16_t verb)
{
	return verb >= AGENT_TASK_START && verb <= AGENT_TASK_ATTACH;
}

/* ---- waiting ---- */

struct task_op *task_op_new(struct init *in, struct conn *c, enum task_op_kind kind, struct task *t)
{
	struct task_op *op = calloc(1, sizeof(*op));
	struct err err;

	if (!op) {
		err_set(&err, ERR_NOMEM, "out of memory");
		conn_fail(in, c, &err);
		return NULL;
	}
	op->kind = kind;
	op->t = t;
	op->c = c;
	c->op = op;
	c->state = CONN_TASK;
	c->deadline_ms = 0;
	return op;
}

void task_op_free(struct conn *c)
{
	struct task_op *op = c->op;

	if (!op)
		return;
	if (op->kind == OP_WRITE)
		task_write_forget(op);
	free(op);
	c->op = NULL;
}

void task_op_done(struct init *in, struct conn *c, const struct task *t)
{
	task_op_free(c);
	if (t)
		task_reply(in, c, t, -1, NULL, 0);
	else
		conn_send(in, c, AGENT_OK, "", 0, NULL, 0, true);
}

void task_op_fail(struct init *in, struct conn *c, const struct err *err)
{
	task_op_free(c);
	conn_fail(in, c, err);
}

void task_op_resume(struct init *in, struct conn *c)
{
	switch (c->op->kind) {
	case OP_READ:
		task_read_pump(in, c);
		break;
	case OP_LIST:
		task_list_pump(in, c);
		break;
	default:
		break;
	}
}

static struct conn *op_conn(struct init *in, size_t i, const struct task *t)
{
	struct conn *c = &in->conn[i];

	return c->state == CONN_TASK && c->op && c->op->t == t ? c : NULL;
}

void task_ops_wake(struct init *in, const struct task *t)
{
	for (size_t i = 0; i < in->conns_high; i++) {
		struct conn *c = op_conn(in, i, t);

		if (c && c->op->kind == OP_READ && !conn_full(c))
			task_read_pump(in, c);
	}
}

void task_ops_dead(struct init *in, const struct task *t)
{
	for (size_t i = 0; i < in->conns_high; i++) {
		struct conn *c = op_conn(in, i, t);

		if (c && c->op->kind == OP_KILL)
			task_op_done(in, c, t);
		else if (c && c->op->kind == OP_REMOVE)
			task_op_done(in, c, NULL);
	}
}

void task_ops_gone(struct init *in, const struct task *t)
{
	struct err err;

	task_ops_dead(in, t);
	for (size_t i = 0; i < in->conns_high; i++) {
		struct conn *c = op_conn(in, i, t);

		if (!c)
			continue;
		task_unknown(t->id, &err);
		task_op_fail(in, c, &err);
	}
}

/* ---- requests ---- */

static void run_get(struct init *in, struct conn *c, const struct agent_req *r, struct task *t)
{
	(void)r;
	task_reply(in, c, t, -1, NULL, 0);
}

static void run_signal(struct init *in, struct conn *c, const struct agent_req *r, struct task *t)
{
	struct err err;

	if (t->state == TASK_ENDED) {
		task_over(t, &err);
		conn_fail(in, c, &err);
		return;
	}
	if (r->sig < 1 || r->sig > 64 || t->state == TASK_QUEUED) {
		if (t->state == TASK_QUEUED)
			err_set(&err, ERR_CONFLICT, "process %s has not begun", t->id);
		else
			err_set(&err, ERR_INVALID, "signal: must be from 1 to 64");
		conn_fail(in, c, &err);
		return;
	}
	task_signal(t, (int)r->sig, r->tree);
	conn_send(in, c, AGENT_OK, "", 0, NULL, 0, true);
}

static void run_resize(struct init *in, struct conn *c, const struct agent_req *r, struct task *t)
{
	struct err err = {.code = ERR_NONE};

	if (t->kind != TASK_PTY)
		err_set(&err, ERR_CONFLICT, "process %s has no terminal", t->id);
	else if (t->state == TASK_ENDED)
		task_over(t, &err);
	if (err.code) {
		conn_fail(in, c, &err);
		return;
	}
	tty_resize(t->fd[TASK_FD_OUT], r->cols, r->rows);
	t->cols = r->cols ? r->cols : t->cols;
	t->rows = r->rows ? r->rows : t->rows;
	task_reply(in, c, t, -1, NULL, 0);
}

static void run_kill(struct init *in, struct conn *c, const struct agent_req *r, struct task *t)
{
	int64_t grace_ms = MIN(r->grace_ms, (uint32_t)INIT_GRACE_MAX_MS);

	if (!task_op_new(in, c, OP_KILL, t))
		return;
	task_kill(in, t, grace_ms, TASK_KILLED);
}

static void run_remove(struct init *in, struct conn *c, const struct agent_req *r, struct task *t)
{
	(void)r;
	if (!task_op_new(in, c, OP_REMOVE, t))
		return;
	task_remove(in, t);
}

static void run_attach(struct init *in, struct conn *c, const struct agent_req *r, struct task *t)
{
	struct err err;

	(void)r;
	if (!(t->tflags & TASK_PIPES)) {
		err_set(&err, ERR_CONFLICT, "process %s has no pipes to attach to", t->id);
		conn_fail(in, c, &err);
		return;
	}
	if (t->fd[TASK_FD_IN] < 0 || t->fd[TASK_FD_OUT] < 0) {
		task_over(t, &err);
		conn_fail(in, c, &err);
		return;
	}
	task_reply(in, c, t, -1, t->fd, 2);
}

static const struct {
	uint16_t verb;
	void (*run)(struct init *in, struct conn *c, const struct agent_req *r, struct task *t);
} task_rows[] = {
	{AGENT_TASK_GET, run_get},	    {AGENT_TASK_READ, task_read_run},
	{AGENT_TASK_WRITE, task_write_run}, {AGENT_TASK_SIGNAL, run_signal},
	{AGENT_TASK_RESIZE, run_resize},    {AGENT_TASK_KILL, run_kill},
	{AGENT_TASK_REMOVE, run_remove},    {AGENT_TASK_ATTACH, run_attach},
};

/* Verbs about one task that is there. */
static void request_known(struct init *in, struct conn *c, const struct agent_req *r)
{
	struct task *t = task_find(r->id);
	struct err err;

	if (!t) {
		task_unknown(r->id, &err);
		conn_fail(in, c, &err);
		return;
	}
	for (size_t i = 0; i < ARRAY_LEN(task_rows); i++) {
		if (task_rows[i].verb != r->verb)
			continue;
		task_rows[i].run(in, c, r, t);
		return;
	}
}

void task_request(struct init *in, struct conn *c, const struct agent_req *r)
{
	switch (r->verb) {
	case AGENT_TASK_START:
		task_start_run(in, c, r);
		break;
	case AGENT_TASK_EXEC:
		session_exec(in, c, r);
		break;
	case AGENT_TASK_LIST:
		task_list_run(in, c, r);
		break;
	default:
		request_known(in, c, r);
		break;
	}
}
