/*
 * op.c - one operation on a sandbox, run on a thread of the pool while the caller waits.
 *
 * The caller may stop waiting (the hold is over, its client hung up); the operation goes on. The
 * sandbox's slot is taken before and ended by the operation, so the next one can begin as soon as
 * the caller is told.
 */
#include <poll.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "core/int.h"

static void op_unref(struct op *op)
{
	unsigned left;

	pthread_mutex_lock(&op->lock);
	left = --op->refs;
	pthread_mutex_unlock(&op->lock);
	if (left)
		return;
	pthread_mutex_destroy(&op->lock);
	pthread_cond_destroy(&op->change);
	if (op->row)
		sandbox_row_done(op->row);
	free(op->row);
	free(op);
}

static void op_job(struct job *j)
{
	struct op *op = container_of(j, struct op, job);

	log_set_request(op->reqid);
	op->run(op);
	if (op->rc < 0)
		log_warn("sandbox %s: %s", op->slot->id, op->err.msg);
	slot_end(op->core, op->slot);
	pthread_mutex_lock(&op->lock);
	op->done = true;
	pthread_cond_broadcast(&op->change);
	pthread_mutex_unlock(&op->lock);
	log_set_request(NULL);
	op_unref(op);
}

struct op *op_new(struct core *c, struct slot *taken, void (*run)(struct op *), struct err *err)
{
	struct op *op = calloc(1, sizeof(*op));

	if (!op) {
		err_set(err, ERR_NOMEM, "out of memory");
		return NULL;
	}
	op->core = c;
	op->slot = taken;
	op->run = run;
	op->refs = 1;
	op->job.fn = op_job;
	pthread_mutex_init(&op->lock, NULL);
	cond_init_mono(&op->change);
	snprintf(op->reqid, sizeof(op->reqid), "%s", log_request());
	return op;
}

struct op *op_new_row(struct core *c, struct slot *taken, void (*run)(struct op *),
		      struct sandbox_row *row, struct err *err)
{
	struct op *op = op_new(c, taken, run, err);

	if (!op)
		return NULL;
	op->row = malloc(sizeof(*op->row));
	if (!op->row) {
		err_set(err, ERR_NOMEM, "out of memory");
		op_forget(op);
		return NULL;
	}
	*op->row = *row;
	*row = (struct sandbox_row){0};
	return op;
}

void op_start(struct op *op)
{
	op->refs++;
	pool_submit(&op->core->ops, &op->job, 0);
}

static bool op_client_gone(int client)
{
	struct pollfd p = {.fd = client, .events = POLLRDHUP};

	return client >= 0 && poll(&p, 1, 0) > 0;
}

/* Until done, the deadline or the hang-up; op->lock is held on return. */
static bool op_wait_locked(struct op *op, int client, int64_t deadline_ms)
{
	pthread_mutex_lock(&op->lock);
	while (!op->done) {
		int64_t left = deadline_ms - clock_mono_ms();

		if (left <= 0)
			break;
		cond_wait_ms(&op->change, &op->lock, MIN(left, (int64_t)CORE_WAIT_SLICE));
		if (!op->done && op_client_gone(client))
			break;
	}
	return op->done;
}

bool op_wait(struct op *op, int client, int64_t deadline_ms, int *ret_rc, struct err *err)
{
	bool done = op_wait_locked(op, client, deadline_ms);

	if (done) {
		*ret_rc = op->rc;
		if (op->rc < 0 && err)
			*err = op->err;
	}
	pthread_mutex_unlock(&op->lock);
	op_unref(op);
	return done;
}

bool op_wait_row(struct op *op, int client, int64_t deadline_ms, struct sandbox_row *ret)
{
	bool done = op_wait_locked(op, client, deadline_ms);

	if (done) {
		*ret = *op->row;
		*op->row = (struct sandbox_row){0};
	}
	pthread_mutex_unlock(&op->lock);
	op_unref(op);
	return done;
}

void op_forget(struct op *op)
{
	if (op)
		op_unref(op);
}
