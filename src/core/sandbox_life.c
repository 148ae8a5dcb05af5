/*
 * sandbox_life.c - start, stop, recover, and boxes that end by themselves.
 *
 * Calls wait for the operation under way on the same sandbox and then look again: a start during
 * a stop starts it afterwards, a stop during a start stops it afterwards (E1).
 */
#include <string.h>

#include "base/clock.h"
#include "base/crash.h"
#include "base/log.h"
#include "core/int.h"

#define KILL_TRIES    3
#define KILL_PAUSE_MS 100

/* ---- on the pool ---- */

static void start_failed(struct core *c, const char *id, const struct err *why)
{
	struct store_edge e = {.id = id,
			       .from = SB_STARTING,
			       .to = SB_ERROR,
			       .desired = -1,
			       .reason = why->msg,
			       .recoverable = true};

	state_move(c, &e, NULL);
}

static int start_run(struct core *c, struct slot *slot, struct err *err)
{
	auto_row struct sandbox_row row = {0};
	struct runner_started rs = {0};
	struct store_edge e = {
		.id = slot->id, .from = SB_STARTING, .to = SB_STARTED, .desired = -1};
	int got = store_sandbox_get(c->st, NULL, slot->id, &row, err);
	bool fresh;

	if (got <= 0 || row.s.state != SB_STARTING)
		return got < 0 ? -1 : 0;
	/* One that never ran has no files to keep; what its creation left is cleared first. */
	fresh = row.s.ip4[0] == '\0';
	if (fresh)
		c->run->ops->remove(c->run, slot->id, NULL);
	got = core_box_start(c, &row, fresh, &rs, err);
	/* A box that an earlier stop couldn't kill still runs: that comes first, then. */
	if (got < 0 && err->code == ERR_CONFLICT && c->run->ops->kill(c->run, slot->id, NULL) == 0)
		got = core_box_start(c, &row, fresh, &rs, err);
	if (got < 0) {
		start_failed(c, slot->id, err);
		return -1;
	}
	slot_started(c, slot, rs.pid);
	e.ip4 = rs.ip4;
	e.ip6 = rs.ip6;
	got = state_move(c, &e, err);
	crash_at("start.after_edge");
	return got < 0 ? -1 : 0;
}

void op_begin_start(struct op *op)
{
	op->rc = start_run(op->core, op->slot, &op->err);
}

static int box_kill(struct core *c, const char *id, struct err *err)
{
	for (int i = 0;; i++) {
		if (c->run->ops->kill(c->run, id, err) == 0)
			return 0;
		if (i == KILL_TRIES - 1)
			return err_wrap(err, "stop");
		usleep(KILL_PAUSE_MS * 1000);
	}
}

/* The box is dead: the row follows, or goes when the sandbox is ephemeral. */
static int stop_finish(struct core *c, struct slot *slot, const struct store_edge *e,
		       bool ephemeral, struct err *err)
{
	slot_stopped(c, slot);
	if (ephemeral)
		return delete_mark(c, slot->id, err);
	return state_move(c, e, err) < 0 ? -1 : 0;
}

static int stop_run(struct core *c, struct slot *slot, bool force, struct err *err)
{
	auto_row struct sandbox_row row = {0};
	struct store_edge e = {
		.id = slot->id, .from = SB_STOPPING, .to = SB_STOPPED, .desired = SB_STOPPED};
	int got = store_sandbox_get(c->st, NULL, slot->id, &row, err);
	char path[108];

	if (got <= 0 || row.s.state != SB_STOPPING)
		return got < 0 ? -1 : 0;
	/* An agent that doesn't answer, or pid 1 deaf to TERM, costs at most the grace (E13). */
	if (!force && c->run->ops->agent_path(c->run, slot->id, path, NULL) == 0)
		agent_term(path, c->cfg.stop_grace_ms, NULL);
	crash_at("stop.after_term");
	if (box_kill(c, slot->id, err) < 0) {
		e.to = SB_ERROR;
		e.reason = err->msg;
		e.recoverable = true;
		slot_halt(c, slot, false);
		state_move(c, &e, NULL);
		return -1;
	}
	crash_at("stop.after_kill");
	return stop_finish(c, slot, &e, row.s.auto_delete_min == 0, err);
}

void op_stop(struct op *op)
{
	op->rc = stop_run(op->core, op->slot, op->force, &op->err);
}

/* ---- the calls ---- */

int stop_submit(struct core *c, struct slot *taken, bool force, struct op **ret, struct err *err)
{
	struct store_edge e = {
		.id = taken->id, .from = SB_STARTED, .to = SB_STOPPING, .desired = SB_STOPPED};
	struct op *op = op_new(c, taken, op_stop, err);
	int moved;

	if (!op)
		return -1;
	slot_halt(c, taken, true);
	moved = state_move(c, &e, err);
	if (moved <= 0) {
		slot_halt(c, taken, false);
		op_forget(op);
		return moved < 0 ? -1
				 : err_tagged(err, ERR_CONFLICT, "STATE_CHANGE_IN_PROGRESS",
					      "sandbox %s: its state changed meanwhile; try again",
					      taken->id);
	}
	crash_at("stop.after_mark");
	op->force = force;
	op_start(op);
	*ret = op;
	return 0;
}

/* The row after an operation; one that was destroyed meanwhile is shown as such. */
static int life_reply(struct core *c, const struct caller *who, struct sandbox_row *was,
		      struct sandbox *ret, struct err *err)
{
	struct err none = {0};

	if (sandbox_get(c, who, was->s.id, ret, &none) == 0)
		return 0;
	if (none.code != ERR_NOT_FOUND) {
		if (err)
			*err = none;
		return -1;
	}
	*ret = was->s;
	was->s = (struct sandbox){0};
	ret->state = SB_DESTROYED;
	ret->desired = SB_DESTROYED;
	return 0;
}

/* Take the sandbox for an operation and read its row anew. */
static struct slot *life_begin(struct core *c, const struct caller *who, int client,
			       struct sandbox_row *row, struct err *err)
{
	int64_t deadline = clock_mono_ms() + c->cfg.hold_ms;
	struct sandbox_row again = {0};
	struct slot *slot = slot_begin(c, row->s.id, client, deadline, err);

	if (!slot)
		return NULL;
	if (row_need(c, who, row->s.id, &again, err) < 0) {
		slot_end(c, slot);
		return NULL;
	}
	sandbox_row_done(row);
	*row = again;
	return slot;
}

static int state_refused(const struct sandbox_row *row, const char *what, struct err *err)
{
	if (row->s.state == SB_DESTROYING)
		return err_tagged(err, ERR_CONFLICT, "STATE_CHANGE_IN_PROGRESS",
				  "sandbox %s is being deleted", row->s.id);
	/* The contract's answer to a call in a wrong state is 400. */
	return err_tagged(err, ERR_INVALID, "WRONG_STATE", "state: sandbox %s is %s, %s%s%.200s",
			  row->s.id, sandbox_state_name(row->s.state), what,
			  row->s.state == SB_ERROR ? "; reason: " : "", row->s.error_reason);
}

int sandbox_stop(struct core *c, const struct caller *who, const char *id_or_name, bool force,
		 int client, struct sandbox *ret, struct err *err)
{
	int64_t deadline = clock_mono_ms() + c->cfg.hold_ms;
	auto_row struct sandbox_row row = {0};
	enum sandbox_state asked_in;
	struct slot *slot;
	struct op *op;
	int rc = 0;

	if (row_need(c, who, id_or_name, &row, err) < 0)
		return -1;
	asked_in = row.s.state;
	slot = life_begin(c, who, client, &row, err);
	if (!slot)
		return -1;
	if (row.s.state == SB_STARTED) {
		if (stop_submit(c, slot, force, &op, err) < 0) {
			slot_end(c, slot);
			return -1;
		}
		if (op_wait(op, client, deadline, &rc, err) && rc < 0)
			return -1;
		return life_reply(c, who, &row, ret, err);
	}
	slot_end(c, slot);
	/* Somebody else's stop brought it where this one wanted it. */
	if (row.s.state == SB_STOPPED && asked_in != SB_STOPPED)
		return life_reply(c, who, &row, ret, err);
	return state_refused(&row, "stop needs a started one", err);
}

static int start_submit(struct core *c, const struct caller *who, struct slot *slot,
			struct sandbox_row *row, int client, struct sandbox *ret, struct err *err)
{
	int64_t deadline = clock_mono_ms() + c->cfg.hold_ms;
	struct store_edge e = {
		.id = slot->id, .from = row->s.state, .to = SB_STARTING, .desired = SB_STARTED};
	struct op *op = op_new(c, slot, op_begin_start, err);
	int rc = op ? state_move(c, &e, err) : -1;

	if (rc <= 0) {
		op_forget(op);
		slot_end(c, slot);
		return rc < 0 ? -1
			      : err_tagged(err, ERR_CONFLICT, "STATE_CHANGE_IN_PROGRESS",
					   "sandbox %s: its state changed meanwhile; try again",
					   row->s.id);
	}
	crash_at("start.after_mark");
	op_start(op);
	/* A failed start is told by the row: state error with its reason. */
	op_wait(op, client, deadline, &rc, NULL);
	return life_reply(c, who, row, ret, err);
}

int sandbox_start(struct core *c, const struct caller *who, const char *id_or_name, int client,
		  struct sandbox *ret, struct err *err)
{
	auto_row struct sandbox_row row = {0};
	struct slot *slot;

	if (row_need(c, who, id_or_name, &row, err) < 0)
		return -1;
	slot = life_begin(c, who, client, &row, err);
	if (!slot)
		return -1;
	if (row.s.state == SB_STOPPED)
		return start_submit(c, who, slot, &row, client, ret, err);
	slot_end(c, slot);
	if (row.s.state == SB_STARTED)
		return life_reply(c, who, &row, ret, err);
	return state_refused(&row, "start needs a stopped one", err);
}

static int recover_stopped(struct core *c, struct slot *slot, const struct sandbox_row *row,
			   struct err *err)
{
	struct store_edge e = {
		.id = slot->id, .from = SB_ERROR, .to = SB_STOPPED, .desired = SB_STOPPED};
	int rc = box_kill(c, slot->id, err);

	if (rc == 0)
		rc = stop_finish(c, slot, &e, row->s.auto_delete_min == 0, err);
	slot_end(c, slot);
	return rc;
}

int sandbox_recover(struct core *c, const struct caller *who, const char *id_or_name, bool start,
		    int client, struct sandbox *ret, struct err *err)
{
	auto_row struct sandbox_row row = {0};
	struct slot *slot;

	if (row_need(c, who, id_or_name, &row, err) < 0)
		return -1;
	slot = life_begin(c, who, client, &row, err);
	if (!slot)
		return -1;
	if (row.s.state != SB_ERROR || !row.s.recoverable) {
		slot_end(c, slot);
		return state_refused(&row, "recover needs one in error that is recoverable", err);
	}
	if (start)
		return start_submit(c, who, slot, &row, client, ret, err);
	if (recover_stopped(c, slot, &row, err) < 0)
		return -1;
	return life_reply(c, who, &row, ret, err);
}

/* ---- boxes that ended by themselves ---- */

struct exited {
	struct job job;
	struct core *core;
	uint32_t pid;
	char id[ID_LEN];
};

static void exited_row(struct core *c, struct slot *slot, uint32_t pid, struct err *err)
{
	auto_row struct sandbox_row row = {0};
	struct store_edge e = {.id = slot->id,
			       .from = SB_STARTED,
			       .to = SB_STOPPED,
			       .desired = SB_STOPPED,
			       .reason = "the sandbox's first process ended by itself"};
	bool ours;

	pthread_mutex_lock(&c->slots.lock);
	ours = slot->pid == pid;
	pthread_mutex_unlock(&c->slots.lock);
	/* Another pid: it was started again since. */
	if (!ours || store_sandbox_get(c->st, NULL, slot->id, &row, err) <= 0 ||
	    row.s.state != SB_STARTED)
		return;
	if (c->run->ops->kill(c->run, slot->id, err) < 0)
		log_warn("clean up after %s: %s", slot->id, err->msg);
	if (stop_finish(c, slot, &e, row.s.auto_delete_min == 0 || row.s.warm, err) < 0)
		log_warn("sandbox %s ended: %s", slot->id, err->msg);
}

static void exited_job(struct job *j)
{
	struct exited *x = container_of(j, struct exited, job);
	struct err err = {0};
	struct slot *slot = slot_begin(x->core, x->id, -1, 0, &err);

	exited_row(x->core, slot, x->pid, &err);
	slot_end(x->core, slot);
	free(x);
}

void box_exited(struct core *c, const char *id, uint32_t pid)
{
	struct exited *x;
	struct slot *s = slot_get(c, id);
	bool expected;

	pthread_mutex_lock(&c->slots.lock);
	expected = s->halting; /* a stop or a delete is at it, and does all there is to do */
	pthread_mutex_unlock(&c->slots.lock);
	slot_put(c, s);
	if (expected)
		return;
	x = calloc(1, sizeof(*x));
	if (!x)
		return; /* recovery at the next start finds it */
	x->core = c;
	x->pid = pid;
	snprintf(x->id, sizeof(x->id), "%s", id);
	x->job.fn = exited_job;
	pool_submit(&c->ops, &x->job, 0);
}
