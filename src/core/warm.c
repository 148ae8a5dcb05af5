/*
 * warm.c - started sandboxes of the default snapshot, parked for the next create.
 *
 * A parked one belongs to no organization. A create that asks for nothing a parked one can't have
 * (another snapshot or size, a name and with it a hostname, blocked network, other privileges)
 * claims one in its own transaction. One job refills, never beyond the target; what can't be made
 * is left alone for a growing while (E8).
 */
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "core/int.h"

#define WARM_PAUSE_MIN 1000
#define WARM_PAUSE_MAX 60000

int warm_claim(struct core *c, const struct sandbox_row *want, const struct store_idem *idem,
	       char ret_id[ID_LEN], struct err *err)
{
	struct sandbox_row row = *want; /* borrows */
	int rc;

	if (!c->cfg.warm_pool || strcmp(row.s.snapshot, DEFAULT_SNAPSHOT) != 0 ||
	    row.s.network_block_all || row.s.no_new_privs)
		return CREATE_NO_WARM;
	row.s.name[0] = '\0'; /* the parked one's id becomes its name */
	rc = store_sandbox_claim(c->st, &row, idem, ret_id, err);
	if (rc == CREATE_NEW) {
		auto_row struct sandbox_row made = {0};

		if (c->nsubs && store_sandbox_get(c->st, NULL, ret_id, &made, NULL) == 1)
			publish_created(c, &made.s);
	}
	if (rc == CREATE_NEW || rc == CREATE_NO_WARM)
		warm_refill(c);
	return rc;
}

static int warm_row(struct core *c, struct sandbox_row *row, struct err *err)
{
	struct sandbox_spec spec = {
		.cpu = SPEC_UNSET, .memory_mib = SPEC_UNSET, .disk_gib = SPEC_UNSET};
	struct sandbox *s = &row->s;
	struct origin o;

	if (images_resolve(c, c->org.id, &spec, &o, err) < 0)
		return -1;
	id_new(s->id);
	memcpy(s->name, s->id, ID_LEN);
	snprintf(s->snapshot, sizeof(s->snapshot), "%s", o.snap.name);
	memcpy(s->snapshot_id, o.snap.id, ID_LEN);
	memcpy(row->layer, o.img.layer, sizeof(row->layer));
	snprintf(s->user, sizeof(s->user), "%s", o.img.user);
	snprintf(s->workdir, sizeof(s->workdir), "%s", o.img.workdir);
	snprintf(s->region, sizeof(s->region), "%s", c->cfg.region);
	s->warm = true;
	s->cpu = o.snap.cpu;
	s->memory_mib = o.snap.memory_gib * 1024;
	s->disk_gib = o.snap.disk_gib;
	s->state = SB_CREATING;
	s->desired = SB_STARTED;
	s->auto_delete_min = -1;
	s->created_ms = s->updated_ms = s->last_activity_ms = clock_wall_ms();
	return 0;
}

static int warm_make(struct core *c, struct err *err)
{
	auto_row struct sandbox_row row = {0};
	struct store_idem idem = {0};
	struct op op = {.core = c, .run = op_create};
	char id[ID_LEN];

	if (warm_row(c, &row, err) < 0)
		return -1;
	op.slot = slot_begin(c, row.s.id, -1, 0, err);
	if (store_sandbox_insert(c->st, &row, &idem, id, err) != CREATE_NEW) {
		slot_end(c, op.slot);
		return -1;
	}
	op_create(&op);
	slot_end(c, op.slot);
	if (op.rc < 0) {
		*err = op.err;
		delete_mark(c, row.s.id, NULL);
	}
	return op.rc;
}

/* How long until the next try: 0 when the pool is full or the daemon stops. */
static int64_t warm_fill(struct core *c)
{
	int64_t pause = 0;

	for (;;) {
		struct err err = {0};
		unsigned n = 0;
		bool stop;

		pthread_mutex_lock(&c->state_lock);
		stop = c->stopping || !c->ready;
		pthread_mutex_unlock(&c->state_lock);
		if (stop || store_sandbox_parked(c->st, DEFAULT_SNAPSHOT, &n, NULL) < 0 ||
		    n >= c->cfg.warm_pool)
			return 0;
		if (warm_make(c, &err) == 0) {
			c->warm_wait_ms = 0;
			continue;
		}
		pause = c->warm_wait_ms ? MIN(c->warm_wait_ms * 2, (int64_t)WARM_PAUSE_MAX)
					: WARM_PAUSE_MIN;
		c->warm_wait_ms = pause;
		log_warn("warm pool: %s; next try in %lld ms", err.msg, (long long)pause);
		return pause;
	}
}

static void warm_job(struct job *j)
{
	struct core *c = container_of(j, struct core, warm_job);
	int64_t pause = warm_fill(c);
	bool again;

	pthread_mutex_lock(&c->state_lock);
	again = pause || c->refill;
	c->refill = false;
	c->filling = again;
	pthread_mutex_unlock(&c->state_lock);
	if (again)
		pool_submit(&c->ops, &c->warm_job, pause);
}

void warm_init(struct core *c)
{
	c->warm_job.fn = warm_job;
}

void warm_refill(struct core *c)
{
	bool start;

	if (!c->cfg.warm_pool)
		return;
	pthread_mutex_lock(&c->state_lock);
	start = !c->filling && !c->stopping;
	/* One that has just looked and found the pool full must look again. */
	c->refill = c->filling;
	if (start)
		c->filling = true;
	pthread_mutex_unlock(&c->state_lock);
	if (start)
		pool_submit(&c->ops, &c->warm_job, 0);
}
