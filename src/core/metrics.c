/*
 * metrics.c - what a sandbox uses at this moment.
 *
 * A read asks about one sandbox: its cgroup through the runner, disk and network through its
 * agent. History is not kept here. What the agent says may be false; nothing is decided by it.
 */
#include "base/clock.h"
#include "core/int.h"

#define METRICS_MIN_US 100000 /* the shortest time a CPU percentage is taken over */

/* Percent of the limit since the last look, the first time since the start. A look too early gets
 * what the one before it got. */
static double cpu_pct(struct core *c, struct slot *s, const struct runner_stats *st)
{
	int64_t now = clock_mono_us(), span;
	uint64_t used;
	double pct;

	pthread_mutex_lock(&c->slots.lock);
	span = now - s->cpu_at_us;
	used = st->cpu_us >= s->cpu_us ? st->cpu_us - s->cpu_us : 0;
	if (span >= METRICS_MIN_US && st->cpu_milli) {
		s->cpu_pct = (double)used * 100.0 / ((double)span * st->cpu_milli / 1000.0);
		s->cpu_at_us = now;
		s->cpu_us = st->cpu_us;
	}
	pct = s->cpu_pct;
	pthread_mutex_unlock(&c->slots.lock);
	return pct;
}

/* What a sandbox has written isn't metered: free is what the host can still give of the limit, and
 * used is the rest of it. */
static void metrics_inside(const char *agent, struct sandbox_metrics *m)
{
	uint64_t total = 0, used = 0, avail = 0;

	m->disk_free = m->disk_total;
	if (agent_statfs(agent, "/", &total, &used, &avail, NULL) == 0)
		m->disk_free = MIN(avail, m->disk_total);
	m->disk_used = m->disk_total - m->disk_free;
	agent_traffic(agent, &m->net, NULL);
}

int sandbox_metrics(struct core *c, const struct caller *who, const char *id,
		    struct sandbox_metrics *ret, struct err *err)
{
	auto_row struct sandbox_row row = {0};
	struct sandbox_metrics m = {.at_ms = clock_wall_ms()};
	char path[108];
	struct slot *s;
	int rc;

	if (row_started(c, who, id, &row, err) < 0)
		return -1;
	rc = c->run->ops->stats(c->run, row.s.id, &m.s, err);
	if (rc < 0) {
		/* The cgroup may go away under a look at it (E28): that is a state, not a fault. */
		if (err && (err->code == ERR_NOT_FOUND || err->code == ERR_GONE))
			err_tagged(err, ERR_CONFLICT, "SANDBOX_NOT_STARTED",
				   "sandbox %s has just ended", row.s.id);
		return -1;
	}
	s = slot_get(c, row.s.id);
	m.cpu_used_pct = cpu_pct(c, s, &m.s);
	slot_put(c, s);
	m.disk_total = (uint64_t)row.s.disk_gib * CORE_GIB;
	if (c->run->ops->agent_path(c->run, row.s.id, path, NULL) == 0)
		metrics_inside(path, &m);
	*ret = m;
	return 0;
}
