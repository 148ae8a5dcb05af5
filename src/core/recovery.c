/*
 * recovery.c - after a start of this process: make rows and boxes agree.
 *
 *   row          box lives                     box gone
 *   creating     agent answers: started        made anew (its create was never acknowledged)
 *                else made anew
 *   starting     agent answers: started        started again
 *                else started again
 *   started      stays                         stopped, with the reason
 *   stopping     stopped to its end            stopped
 *   stopped      killed                        -
 *   error        killed                        -
 *   destroying   removed                       removed
 *   none         removed                       its upper, if any, removed
 *
 * The decisions are made before the daemon serves; the work of most is done behind it, by the same
 * operations that calls use.
 */
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "core/int.h"

#define RECOVER_HELLO_MS 2000

struct census {
	struct runner_list list;
	struct store_brief *row;
	size_t nrows;
};

static int by_id(const void *a, const void *b)
{
	return strcmp(a, b); /* every record compared begins with its id */
}

static const struct runner_live *census_live(const struct census *s, const char *id)
{
	return s->list.nlive
		       ? bsearch(id, s->list.live, s->list.nlive, sizeof(*s->list.live), by_id)
		       : NULL;
}

static bool census_known(const struct census *s, const char *id)
{
	return s->nrows && bsearch(id, s->row, s->nrows, sizeof(*s->row), by_id);
}

/* ---- jobs behind the start ---- */

static bool box_answers(struct core *c, const char *id)
{
	char path[108];

	return c->run->ops->agent_path(c->run, id, path, NULL) == 0 &&
	       agent_hello(path, clock_mono_ms() + RECOVER_HELLO_MS, NULL) == 0;
}

/* A box that lives under a row in creating or starting; else the operation is done over. */
static void op_resume(struct op *op)
{
	auto_row struct sandbox_row row = {0};
	struct core *c = op->core;
	const char *id = op->slot->id;
	struct store_edge e = {.id = id, .to = SB_STARTED, .desired = -1};

	if (store_sandbox_get(c->st, NULL, id, &row, &op->err) != 1)
		return;
	e.from = row.s.state;
	if (e.from != SB_CREATING && e.from != SB_STARTING)
		return;
	/* Without the addresses, which only the runner's answer to a start tells, "has run before"
	 * would be lost: a creation whose answer was lost is made anew. */
	if (e.from == SB_STARTING && op->slot->pid && box_answers(c, id)) {
		slot_started(c, op->slot, op->slot->pid);
		op->rc = state_move(c, &e, &op->err) < 0 ? -1 : 0;
		return;
	}
	c->run->ops->kill(c->run, id, NULL);
	if (e.from == SB_CREATING) {
		c->run->ops->remove(c->run, id, NULL);
		op_create(op);
	} else {
		op_begin_start(op);
	}
}

static void resume(struct core *c, const char *id, uint32_t pid, void (*run)(struct op *))
{
	struct err err = {0};
	struct slot *slot = slot_begin(c, id, -1, 0, &err);
	struct op *op = op_new(c, slot, run, &err);

	slot->pid = pid;
	if (!op) {
		log_error("recover %s: %s", id, err.msg);
		slot_end(c, slot);
		return;
	}
	op->force = true;
	op_start(op);
	op_forget(op);
}

/* ---- decisions ---- */

static void adopt(struct core *c, const struct runner_live *live)
{
	struct slot *slot = slot_get(c, live->id);
	struct runner_stats st = {0};

	slot_started(c, slot, live->pid);
	/* What was killed before this process began isn't the fault of a later command, and what
	 * was computed isn't load of now. */
	if (c->run->ops->stats(c->run, live->id, &st, NULL) == 0) {
		pthread_mutex_lock(&c->slots.lock);
		slot->oom.kills = MAX(slot->oom.kills, st.oom_kills);
		slot->cpu_us = st.cpu_us;
		pthread_mutex_unlock(&c->slots.lock);
	}
	slot_put(c, slot);
}

static int lost(struct core *c, const struct store_brief *b, struct err *err)
{
	struct store_edge e = {.id = b->id,
			       .from = SB_STARTED,
			       .to = SB_STOPPED,
			       .desired = SB_STOPPED,
			       .reason = "it was not running any more when the daemon started"};
	auto_row struct sandbox_row row = {0};

	if (store_sandbox_get(c->st, NULL, b->id, &row, err) < 0)
		return -1;
	if (row.s.auto_delete_min == 0)
		return delete_mark(c, b->id, err);
	return state_move(c, &e, err) < 0 ? -1 : 0;
}

static int recover_row(struct core *c, const struct store_brief *b, const struct runner_live *live,
		       unsigned *parked, struct err *err)
{
	/* Parked ones that are whole stay, as many as the pool may hold now. */
	if (b->warm && (b->state != SB_STARTED || !live || ++*parked > c->cfg.warm_pool))
		return delete_mark(c, b->id, err);
	switch (b->state) {
	case SB_CREATING:
	case SB_STARTING:
		resume(c, b->id, live ? live->pid : 0, op_resume);
		return 0;
	case SB_STARTED:
		if (!live)
			return lost(c, b, err);
		adopt(c, live);
		return 0;
	case SB_STOPPING:
		resume(c, b->id, live ? live->pid : 0, op_stop);
		return 0;
	case SB_STOPPED:
	case SB_ERROR:
		return live ? c->run->ops->kill(c->run, b->id, err) : 0;
	case SB_DESTROYING:
		delete_queue(c, b->id, 0);
		return 0;
	default:
		return 0;
	}
}

static void recover_stray(struct core *c, const struct census *s, const char *id)
{
	struct err err = {0};

	if (census_known(s, id))
		return;
	log_info("recovery: removing %s, which has no record", id);
	if (c->run->ops->remove(c->run, id, &err) < 0)
		log_warn("remove %s: %s", id, err.msg);
}

static int recover_census(struct core *c, struct census *s, struct err *err)
{
	unsigned parked = 0;
	size_t n = 0;

	if (s->list.nlive)
		qsort(s->list.live, s->list.nlive, sizeof(*s->list.live), by_id);
	if (s->nrows)
		qsort(s->row, s->nrows, sizeof(*s->row), by_id);
	for (size_t i = 0; i < s->list.nlive; i++)
		recover_stray(c, s, s->list.live[i].id);
	for (size_t i = 0; i < s->list.nuppers; i++)
		if (!census_live(s, s->list.upper[i]))
			recover_stray(c, s, s->list.upper[i]);
	for (size_t i = 0; i < s->nrows; i++) {
		if (!s->row[i].warm)
			n++;
		if (recover_row(c, &s->row[i], census_live(s, s->row[i].id), &parked, err) < 0)
			return err_wrap(err, "recover %s", s->row[i].id);
	}
	pthread_mutex_lock(&c->state_lock);
	c->live += (unsigned)n;
	pthread_mutex_unlock(&c->state_lock);
	log_info("recovery: %zu records, %zu running", s->nrows, s->list.nlive);
	return 0;
}

int recover_all(struct core *c, struct err *err)
{
	struct census s = {0};
	int rc = -1;

	if (c->run->ops->list(c->run, &s.list, err) == 0 &&
	    store_sandbox_brief(c->st, &s.row, &s.nrows, err) == 0)
		rc = recover_census(c, &s, err);
	runner_list_done(&s.list);
	free(s.row);
	return rc;
}
