/*
 * sandbox_delete.c - delete: a durable mark at once, the cleaning behind it.
 *
 * The mark is legal in every state (E1). Cleaning waits for the operation under way, whose next
 * edge fails; one that hangs is cut short by killing the box. What the runner can't remove is
 * tried again with growing pauses; after a restart the marks are the queue.
 */
#include <string.h>

#include "base/clock.h"
#include "base/crash.h"
#include "base/log.h"
#include "core/int.h"

#define MARK_TRIES	 16
#define REAP_PATIENCE_MS 1000
#define REAP_PAUSE_MS	 100
#define REAP_PAUSE_MAX	 30000

static void reap_again(struct core *c, struct slot *slot)
{
	int64_t pause;

	pthread_mutex_lock(&c->slots.lock);
	pause = REAP_PAUSE_MS << MIN(slot->tries, 10u);
	slot->tries++;
	pthread_mutex_unlock(&c->slots.lock);
	pool_submit(&c->reapers, &slot->reap, MIN(pause, (int64_t)REAP_PAUSE_MAX));
}

/* The box is gone: the last edge, and the slot holds nothing any more. */
static void reap_finish(struct core *c, struct slot *slot)
{
	auto_row struct sandbox_row row = {0};
	struct store_edge e = {
		.id = slot->id, .from = SB_DESTROYING, .to = SB_DESTROYED, .desired = SB_DESTROYED};
	struct err err = {0};
	int got = store_sandbox_get(c->st, NULL, slot->id, &row, &err);
	int moved = got > 0 ? state_move(c, &e, &err) : got;

	if (moved < 0) {
		log_warn("delete %s: %s", slot->id, err.msg);
		slot_end(c, slot);
		reap_again(c, slot);
		return;
	}
	if (moved > 0) {
		if (!row.s.warm)
			live_drop(c);
		publish_destroyed(c, &row.s);
	}
	pthread_mutex_lock(&c->slots.lock);
	slot->keep = slot->dirty = slot->reaping = false;
	slot->pid = 0;
	pthread_mutex_unlock(&c->slots.lock);
	slot_end(c, slot);
}

static void reap_job(struct job *j)
{
	struct slot *slot = container_of(j, struct slot, reap);
	struct core *c = slot->core;
	struct err err = {0};

	/* "reaping" keeps the slot in memory from here to reap_finish. */
	if (!slot_begin(c, slot->id, -1, clock_mono_ms() + REAP_PATIENCE_MS, &err)) {
		c->run->ops->kill(c->run, slot->id, NULL);
		if (!slot_begin(c, slot->id, -1, clock_mono_ms() + REAP_PATIENCE_MS, &err)) {
			reap_again(c, slot);
			return;
		}
	}
	crash_at("delete.before_remove");
	if (c->run->ops->remove(c->run, slot->id, &err) < 0) {
		log_warn("delete %s: %s; will try again", slot->id, err.msg);
		slot_end(c, slot);
		reap_again(c, slot);
		return;
	}
	crash_at("delete.after_remove");
	reap_finish(c, slot);
}

void delete_queue(struct core *c, const char *id, int64_t delay_ms)
{
	struct slot *slot = slot_get(c, id);
	bool queue;

	pthread_mutex_lock(&c->slots.lock);
	queue = !slot->reaping;
	slot->reaping = true;
	slot->halting = true;
	slot->tries = 0;
	slot->reap.fn = reap_job;
	pthread_mutex_unlock(&c->slots.lock);
	if (queue)
		pool_submit(&c->reapers, &slot->reap, delay_ms);
	slot_put(c, slot);
}

/* From the state the row was read in: 1 marked, 0 it has another state by now, -1. */
static int mark_row(struct core *c, const struct sandbox_row *row, int64_t now_ms, struct err *err)
{
	struct store_edge e = {.id = row->s.id,
			       .from = row->s.state,
			       .to = SB_DESTROYING,
			       .desired = SB_DESTROYED,
			       .reason = row->s.error_reason,
			       .now_ms = now_ms};
	int got = state_move(c, &e, err);

	if (got <= 0)
		return got;
	crash_at("delete.after_mark");
	delete_queue(c, row->s.id, 0);
	return 1;
}

int delete_mark(struct core *c, const char *id, struct err *err)
{
	/* The state may change under us; each change is one of few, so tries are bounded. */
	for (int i = 0; i < MARK_TRIES; i++) {
		auto_row struct sandbox_row row = {0};
		int got = store_sandbox_get(c->st, NULL, id, &row, err);

		if (got <= 0)
			return got; /* not there any more: as good as deleted */
		if (row.s.state == SB_DESTROYING)
			return 0;
		got = mark_row(c, &row, clock_wall_ms(), err);
		if (got != 0)
			return got < 0 ? -1 : 0;
	}
	return err_set(err, ERR_CONFLICT, "sandbox %s changes its state too quickly; try again",
		       id);
}

/* The row as the mark left it (store_sandbox.c, edge_out); it may be gone already. */
static void marked_reply(struct core *c, struct sandbox_row *row, int64_t now_ms,
			 struct sandbox *ret)
{
	char name[sizeof(row->s.name)];

	snprintf(name, sizeof(name), "DESTROYED_%.*s_%lld", (int)sizeof(name) - 32, row->s.name,
		 (long long)now_ms);
	*ret = row->s;
	row->s = (struct sandbox){0};
	memcpy(ret->name, name, sizeof(name));
	ret->state = SB_DESTROYING;
	ret->desired = SB_DESTROYED;
	ret->recoverable = false;
	ret->updated_ms = now_ms;
	ret->last_activity_ms = slot_active(c, ret->id, ret->last_activity_ms);
}

int sandbox_delete(struct core *c, const struct caller *who, const char *id_or_name,
		   struct sandbox *ret, struct err *err)
{
	auto_row struct sandbox_row row = {0};
	struct err none = {0};
	int64_t now = clock_wall_ms();
	int marked = 0;

	if (row_need(c, who, id_or_name, &row, err) < 0)
		return -1;
	if (row.s.state != SB_DESTROYING)
		marked = mark_row(c, &row, now, err);
	if (marked < 0 || (marked == 0 && delete_mark(c, row.s.id, err) < 0))
		return -1;
	if (marked > 0) {
		marked_reply(c, &row, now, ret);
		return 0;
	}
	if (sandbox_get(c, who, row.s.id, ret, &none) == 0)
		return 0;
	*ret = row.s;
	row.s = (struct sandbox){0};
	ret->state = ret->desired = SB_DESTROYED;
	return 0;
}
