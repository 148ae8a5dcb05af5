/*
 * timers.c - what happens by the clock: auto-stop, auto-delete, ttl, writing activity, ageing.
 *
 * Auto-stop rule (E11): a sandbox is active at a call to it (commands, files, last-activity), at a
 * change of its state, and all the time a command runs that a client waits for. What a command
 * left running in the background is not activity. Before a sandbox is stopped the rule is checked
 * again with new commands held off. Auto-pause and auto-archive are stored only.
 */
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "core/int.h"

#define DUE_MAX	     256 /* sandboxes of one kind in one round */
#define AGE_EVERY_MS (10ll * 60 * 1000)

static void audit_own(struct core *c, const char *action, const char *id)
{
	struct caller who = {0};
	struct audit_entry e = {
		.action = action, .target_type = "sandbox", .target_id = id, .status = 200};

	memcpy(who.org_id, c->org.id, ID_LEN);
	snprintf(who.source, sizeof(who.source), "system");
	audit_write(c, &who, &e);
}

static void due_stop(struct core *c, const char *id, int64_t now_ms)
{
	auto_row struct sandbox_row row = {0};
	struct err err = {0};
	struct slot *ref = slot_get(c, id);
	struct op *op;

	/* Somebody works on it: that is activity too. */
	if (!slot_try(c, ref)) {
		slot_put(c, ref);
		return;
	}
	slot_put(c, ref);
	if (store_sandbox_get(c->st, NULL, id, &row, &err) != 1 || row.s.state != SB_STARTED ||
	    row.s.auto_stop_min <= 0 ||
	    row.s.last_activity_ms + row.s.auto_stop_min * 60000 > now_ms ||
	    !slot_halt_idle(c, ref, now_ms - row.s.auto_stop_min * 60000) ||
	    stop_submit(c, ref, false, &op, &err) < 0) {
		slot_end(c, ref);
		return;
	}
	op_forget(op);
	audit_own(c, "auto_stop", id);
}

static void due_delete(struct core *c, const char *action, const char *id)
{
	struct err err = {0};

	if (delete_mark(c, id, &err) < 0)
		log_warn("%s of %s: %s", action, id, err.msg);
	else
		audit_own(c, action, id);
}

static void tick_due(struct core *c, enum store_due what, int64_t now_ms)
{
	static const char *const action[] = {
		[DUE_STOP] = "auto_stop", [DUE_DELETE] = "auto_delete", [DUE_TTL] = "ttl_expire"};
	char(*id)[ID_LEN] = calloc(DUE_MAX, sizeof(*id));
	struct err err = {0};
	size_t n = 0;

	if (!id)
		return;
	if (store_sandbox_due(c->st, what, now_ms, id, DUE_MAX, &n, &err) < 0)
		log_warn("%s: %s", action[what], err.msg);
	for (size_t i = 0; i < n; i++) {
		if (what == DUE_STOP)
			due_stop(c, id[i], now_ms);
		else
			due_delete(c, action[what], id[i]);
	}
	free(id);
}

void core_tick(struct core *c, int64_t now_ms)
{
	struct err err = {0};

	slots_flush(c);
	uploads_age(c, now_ms);
	for (int what = DUE_STOP; what <= DUE_TTL; what++)
		tick_due(c, (enum store_due)what, now_ms);
	if (now_ms - c->aged_ms >= AGE_EVERY_MS) {
		if (store_age(c->st, now_ms, &err) < 0)
			log_warn("ageing: %s", err.msg);
		c->aged_ms = now_ms;
	}
	host_now(c, NULL, NULL);
	warm_refill(c);
}

static void *timers_thread(void *arg)
{
	struct core *c = arg;

	pthread_mutex_lock(&c->state_lock);
	while (!c->stopping) {
		int64_t next = clock_mono_ms() + CORE_TICK_MS, left;

		while (!c->stopping && (left = next - clock_mono_ms()) > 0)
			cond_wait_ms(&c->state_change, &c->state_lock, left);
		if (c->stopping)
			break;
		pthread_mutex_unlock(&c->state_lock);
		core_tick(c, clock_wall_ms());
		pthread_mutex_lock(&c->state_lock);
	}
	pthread_mutex_unlock(&c->state_lock);
	return NULL;
}

int timers_start(struct core *c, struct err *err)
{
	int rc = pthread_create(&c->timer, NULL, timers_thread, c);

	if (rc)
		return err_errno(err, ERR_NOMEM, rc, "start the timers");
	c->timer_on = true;
	return 0;
}

void timers_stop(struct core *c)
{
	if (c->timer_on)
		pthread_join(c->timer, NULL);
	c->timer_on = false;
}
