/*
 * task_read.c - readers of output, and the list of tasks: both send as their socket takes it.
 *
 * A reader is two offsets and a socket. It is sent straight from the rings in frames that a socket
 * takes whole, so a slow one costs nothing; what the rings dropped in the meantime it is told as a
 * gap. Bytes of both streams go out in the order they were read.
 */
#include "init/task_op.h"

#include <string.h>
#include <sys/epoll.h>

/* ---- reading ---- */

/* Of a task that is followed the end is where it was when the task ended. */
static void read_bounds(struct task_op *op)
{
	for (int i = 0; i < 2; i++)
		if (op->read.follow)
			op->read.to[i] = op->t->state == TASK_ENDED ? op->t->final[i] : UINT64_MAX;
}

static bool read_wants(const struct task_op *op, int i)
{
	return op->read.streams >> (i + 1) & 1 && op->read.at[i] < op->read.to[i];
}

/* 1 sent, 0 none or full, -1 gone. */
static int gap_send(struct init *in, struct conn *c, int i)
{
	struct task_op *op = c->op;
	uint64_t to = MIN(op->t->ring[i].first, op->read.to[i]);
	uint8_t raw[32];
	struct wire_out o = wire_out_on(raw, sizeof(raw));
	int rc;

	wire_put_u8(&o, (uint8_t)(i + 1));
	wire_put_u64(&o, op->read.at[i]);
	wire_put_u64(&o, to);
	rc = conn_stream(in, c, AGENT_GAP, raw, o.len, NULL, 0);
	if (rc > 0)
		op->read.at[i] = to;
	return rc;
}

static int data_send(struct init *in, struct conn *c, int i, const uint8_t *p, size_t n)
{
	struct task_op *op = c->op;
	uint8_t raw[32];
	struct wire_out o = wire_out_on(raw, sizeof(raw));
	int rc;

	n = MIN(n, (size_t)TASK_FRAME_MAX);
	n = (size_t)MIN((uint64_t)n, op->read.to[i] - op->read.at[i]);
	wire_put_u8(&o, (uint8_t)(i + 1));
	wire_put_u64(&o, op->read.at[i]);
	wire_put_u32(&o, (uint32_t)n);
	rc = conn_stream(in, c, AGENT_DATA, raw, o.len, p, n);
	if (rc > 0)
		op->read.at[i] += n;
	return rc;
}

/* The stream whose next byte was read first; -1 when there is nothing. */
static int read_next(const struct task_op *op, const uint8_t **ret, size_t *ret_n)
{
	uint64_t best = UINT64_MAX;
	int found = -1;

	for (int i = 0; i < 2; i++) {
		const uint8_t *p;
		uint64_t order;
		size_t n;

		if (!read_wants(op, i))
			continue;
		n = ring_peek(&op->t->ring[i], op->read.at[i], &p, &order);
		if (n && order < best) {
			best = order;
			found = i;
			*ret = p;
			*ret_n = n;
		}
	}
	return found;
}

static int read_step(struct init *in, struct conn *c)
{
	const struct task_op *op = c->op;
	const uint8_t *p;
	size_t n;
	int i;

	for (i = 0; i < 2; i++)
		if (read_wants(op, i) && op->read.at[i] < op->t->ring[i].first)
			return gap_send(in, c, i);
	i = read_next(op, &p, &n);
	return i < 0 ? 0 : data_send(in, c, i, p, n);
}

static bool read_done(const struct task_op *op)
{
	if (op->read.follow && op->t->state != TASK_ENDED)
		return false;
	return !read_wants(op, 0) && !read_wants(op, 1);
}

void task_read_pump(struct init *in, struct conn *c)
{
	int rc;

	read_bounds(c->op);
	do
		rc = read_step(in, c);
	while (rc > 0);
	if (rc < 0)
		conn_free(in, c);
	else if (!conn_full(c) && read_done(c->op))
		task_op_done(in, c, c->op->t);
}

static int read_offset(const struct ring *r, uint64_t from, const char *name, uint64_t *ret,
		       struct err *err)
{
	*ret = from == UINT64_MAX ? r->total : from;
	if (*ret <= r->total)
		return 0;
	return err_set(err, ERR_INVALID, "%s: is beyond the %llu bytes there are", name,
		       (unsigned long long)r->total);
}

void task_read_run(struct init *in, struct conn *c, const struct agent_req *r, struct task *t)
{
	uint64_t at[2];
	struct task_op *op;
	struct err err;

	if (read_offset(&t->ring[0], r->out_from, "out", &at[0], &err) < 0 ||
	    read_offset(&t->ring[1], r->err_from, "err", &at[1], &err) < 0) {
		conn_fail(in, c, &err);
		return;
	}
	op = task_op_new(in, c, OP_READ, t);
	if (!op)
		return;
	op->read.streams = r->streams;
	op->read.follow = r->follow;
	for (int i = 0; i < 2; i++) {
		op->read.at[i] = at[i];
		op->read.to[i] = t->ring[i].total;
	}
	task_read_pump(in, c);
}

/* ---- listing ---- */

static const struct task *list_next(const struct task_op *op)
{
	for (const struct task *t = task_first(); t; t = t->next) {
		if (t->seq <= op->list.seq || t->removed)
			continue;
		if (op->list.kind && t->kind != op->list.kind)
			continue;
		if (op->list.parent[0] && strcmp(t->parent, op->list.parent) != 0)
			continue;
		return t;
	}
	return NULL;
}

/* One frame with as many as fit. */
static int list_step(struct init *in, struct conn *c)
{
	static uint8_t raw[TASK_FRAME_MAX];
	struct wire_out o = wire_out_on(raw, sizeof(raw));
	struct task_op *op = c->op;
	uint64_t before = op->list.seq;
	const struct task *t;
	uint8_t head[4];
	struct wire_out h = wire_out_on(head, sizeof(head));
	uint32_t n = 0;
	int rc;

	while ((t = list_next(op))) {
		struct task_rec rec;

		task_rec(t, &rec);
		if (task_rec_size(&rec) > sizeof(raw) - o.len)
			break;
		task_rec_put(&o, &rec);
		op->list.seq = t->seq;
		n++;
	}
	if (!n)
		return 0;
	wire_put_u32(&h, n);
	rc = conn_stream(in, c, AGENT_TASKS, head, h.len, raw, o.len);
	if (rc == 0)
		op->list.seq = before;
	return rc;
}

void task_list_pump(struct init *in, struct conn *c)
{
	int rc;

	do
		rc = list_step(in, c);
	while (rc > 0);
	if (rc < 0)
		conn_free(in, c);
	else if (!conn_full(c))
		task_op_done(in, c, NULL);
}

void task_list_run(struct init *in, struct conn *c, const struct agent_req *r)
{
	struct task_op *op;
	struct err err;

	if (strlen(r->parent) > TASK_ID_MAX) {
		err_set(&err, ERR_INVALID, "parent: is over %d bytes", TASK_ID_MAX);
		conn_fail(in, c, &err);
		return;
	}
	op = task_op_new(in, c, OP_LIST, NULL);
	if (!op)
		return;
	op->list.kind = r->kind;
	memcpy(op->list.parent, r->parent, strlen(r->parent) + 1);
	task_list_pump(in, c);
}
