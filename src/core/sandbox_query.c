/*
 * sandbox_query.c - reading sandboxes: one, pages of many, live figures.
 *
 * Nothing here waits for an operation on a sandbox: rows are read as they are.
 */
#include <string.h>

#include "base/clock.h"
#include "core/int.h"

#define METRICS_MIN_US 100000 /* the shortest time a CPU percentage is taken over */
#define LIST_DEFAULT   100
#define LIST_MAX       200

int row_need(struct core *c, const struct caller *who, const char *id_or_name,
	     struct sandbox_row *ret, struct err *err)
{
	int got = store_sandbox_get(c->st, who->org_id, id_or_name, ret, err);

	if (got < 0)
		return -1;
	if (got == 0)
		return err_set(err, ERR_NOT_FOUND, "sandbox %.160s not found", id_or_name);
	ret->s.last_activity_ms = slot_active(c, ret->s.id, ret->s.last_activity_ms);
	return 0;
}

int row_started(struct core *c, const struct caller *who, const char *id_or_name,
		struct sandbox_row *ret, struct err *err)
{
	auto_row struct sandbox_row row = {0};
	const char *name;

	if (row_need(c, who, id_or_name, &row, err) < 0)
		return -1;
	if (row.s.state == SB_STARTED) {
		*ret = row;
		row = (struct sandbox_row){0};
		return 0;
	}
	name = sandbox_state_name(row.s.state);
	if (row.s.state == SB_STOPPED || row.s.state == SB_ERROR)
		return err_tagged(err, ERR_CONFLICT, "SANDBOX_NOT_STARTED",
				  "sandbox %s is %s; start it first", row.s.id, name);
	return err_tagged(err, ERR_CONFLICT, "SANDBOX_NOT_STARTED",
			  "sandbox %s is %s; try again when it is started", row.s.id, name);
}

int sandbox_get(struct core *c, const struct caller *who, const char *id_or_name,
		struct sandbox *ret, struct err *err)
{
	struct sandbox_row row;

	if (row_need(c, who, id_or_name, &row, err) < 0)
		return -1;
	*ret = row.s;
	return 0;
}

int sandbox_list(struct core *c, const struct caller *who, const struct sandbox_query *q,
		 struct sandbox_page *ret, struct err *err)
{
	struct sandbox_query query = *q;
	struct sandbox_page page;

	if (query.limit == 0)
		query.limit = LIST_DEFAULT;
	if (query.limit > LIST_MAX)
		return err_set(err, ERR_INVALID, "limit: must be 1 to %d", LIST_MAX);
	if ((unsigned)query.sort > SORT_CREATED)
		return err_set(err, ERR_INVALID, "sort: unknown order");
	if (query.cursor && !query.cursor[0])
		query.cursor = NULL;
	if (store_sandbox_list(c->st, who->org_id, &query, &page, err) < 0)
		return -1;
	for (size_t i = 0; i < page.n; i++)
		page.item[i].last_activity_ms =
			slot_active(c, page.item[i].id, page.item[i].last_activity_ms);
	*ret = page;
	return 0;
}

/* Percent of the limit since the last look; a look too early gives the average since start. */
static double cpu_pct(struct core *c, struct slot *s, const struct runner_stats *st)
{
	int64_t now = clock_mono_us(), span;
	uint64_t used;

	pthread_mutex_lock(&c->slots.lock);
	span = s->cpu_at_us ? now - s->cpu_at_us : 0;
	used = st->cpu_us >= s->cpu_us ? st->cpu_us - s->cpu_us : 0;
	if (!s->cpu_at_us || span >= METRICS_MIN_US) {
		s->cpu_at_us = now;
		s->cpu_us = st->cpu_us;
	}
	pthread_mutex_unlock(&c->slots.lock);
	if (span < METRICS_MIN_US || !st->cpu_milli)
		return 0;
	return (double)used * 100.0 / ((double)span * st->cpu_milli / 1000.0);
}

int sandbox_metrics(struct core *c, const struct caller *who, const char *id,
		    struct sandbox_metrics *ret, struct err *err)
{
	auto_row struct sandbox_row row = {0};
	struct sandbox_metrics m = {0};
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
	if (c->run->ops->agent_path(c->run, row.s.id, path, NULL) == 0) {
		uint64_t total = 0, used = 0, avail = 0;

		/* What a sandbox has written isn't metered: free is what the host can still give
		 * of the limit, and used is the rest of it. */
		m.disk_free = m.disk_total;
		if (agent_statfs(path, "/", &total, &used, &avail, NULL) == 0)
			m.disk_free = MIN(avail, m.disk_total);
		m.disk_used = m.disk_total - m.disk_free;
	}
	*ret = m;
	return 0;
}
