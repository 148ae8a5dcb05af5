/*
 * sandbox_create.c - from a request to a started sandbox.
 *
 * The row is durable, in state creating, before anything is made; the box follows on a thread of
 * the pool. A create that fails leaves a row in error with the reason and nothing else (E3); one
 * whose client hung up goes on and ends in started or error (E5). A parked sandbox is claimed in
 * the transaction that would have made the row.
 */
#include <string.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/crash.h"
#include "base/log.h"
#include "core/int.h"

#define AUTO_STOP_MIN	 15
#define AUTO_ARCHIVE_MIN 10080
#define AUTO_ARCHIVE_MAX 43200
#define DEFAULT_CPU	 1
#define DEFAULT_MEMORY	 1
#define DEFAULT_DISK	 3

/* ---- ceilings of the daemon ---- */

int live_take(struct core *c, struct err *err)
{
	unsigned max = c->cfg.max_sandboxes, live;
	bool stopping;

	pthread_mutex_lock(&c->state_lock);
	stopping = c->stopping;
	live = c->live;
	if (!stopping && (!max || live < max))
		c->live++;
	pthread_mutex_unlock(&c->state_lock);
	if (stopping)
		return err_set(err, ERR_UNAVAILABLE, "the daemon is shutting down");
	if (max && live >= max)
		return err_set(err, ERR_LIMIT,
			       "limit of %u sandboxes of this daemon reached (%u in use); delete "
			       "some, or start caissond with a higher --max-sandboxes",
			       max, live);
	return 0;
}

void live_drop(struct core *c)
{
	pthread_mutex_lock(&c->state_lock);
	if (c->live)
		c->live--;
	pthread_mutex_unlock(&c->state_lock);
}

static int disk_check(struct core *c, struct err *err)
{
	struct runner_host h;

	if (!c->cfg.disk_low_bytes)
		return 0;
	if (host_now(c, &h, err) < 0)
		return -1;
	if (h.disk_free < c->cfg.disk_low_bytes)
		return err_set(err, ERR_UNAVAILABLE,
			       "the host has %llu MiB of disk free, creates need %llu MiB; delete "
			       "sandboxes or images, or start caissond with a lower --disk-low",
			       (unsigned long long)(h.disk_free >> 20),
			       (unsigned long long)(c->cfg.disk_low_bytes >> 20));
	return 0;
}

/* ---- the row ---- */

static int64_t given(int64_t value, int64_t otherwise)
{
	return value == SPEC_UNSET ? otherwise : value;
}

static char *text_copy(const char *s)
{
	return s && s[0] ? strdup(s) : NULL;
}

static void fill_timers(struct sandbox *s, const struct sandbox_spec *spec, int64_t now)
{
	s->auto_pause_min = given(spec->auto_pause_min, 0);
	s->auto_stop_min = given(spec->auto_stop_min, s->auto_pause_min > 0 ? 0 : AUTO_STOP_MIN);
	s->auto_archive_min = given(spec->auto_archive_min, AUTO_ARCHIVE_MIN);
	if (s->auto_archive_min == 0)
		s->auto_archive_min = AUTO_ARCHIVE_MAX;
	s->auto_delete_min = given(spec->auto_delete_min, -1);
	if (s->auto_delete_min < 0)
		s->auto_delete_min = -1;
	if (given(spec->ttl_min, 0) > 0)
		s->auto_destroy_ms = now + spec->ttl_min * 60000;
}

static void fill_size(struct sandbox *s, const struct sandbox_spec *spec,
		      const struct snapshot *snap)
{
	if (snap->id[0]) {
		s->cpu = snap->cpu;
		s->memory_mib = snap->memory_gib * 1024;
		s->disk_gib = snap->disk_gib;
		return;
	}
	s->cpu = (unsigned)given(spec->cpu, DEFAULT_CPU);
	s->memory_mib = (unsigned)given(spec->memory_mib, DEFAULT_MEMORY * 1024);
	s->disk_gib = (unsigned)given(spec->disk_gib, DEFAULT_DISK);
}

static int fill_row(struct core *c, const struct caller *who, const struct sandbox_spec *spec,
		    const struct snapshot *snap, const struct image *img, struct sandbox_row *row,
		    struct err *err)
{
	struct sandbox *s = &row->s;
	const char *user = spec->user && spec->user[0] ? spec->user : img->user;

	id_new(s->id);
	memcpy(s->org_id, who->org_id, ID_LEN);
	snprintf(s->name, sizeof(s->name), "%s", spec->name && spec->name[0] ? spec->name : s->id);
	snprintf(s->snapshot, sizeof(s->snapshot), "%s", snap->name);
	snprintf(s->snapshot_id, sizeof(s->snapshot_id), "%s", snap->id);
	snprintf(s->user, sizeof(s->user), "%s", user[0] ? user : "root");
	snprintf(s->region, sizeof(s->region), "%s", c->cfg.region);
	snprintf(s->workdir, sizeof(s->workdir), "%s", img->workdir);
	memcpy(row->layer, img->layer, sizeof(row->layer));
	s->is_public = spec->is_public;
	s->network_block_all = spec->network_block_all;
	s->no_new_privs = spec->no_new_privs;
	s->network_allow_list = text_copy(spec->network_allow_list);
	s->domain_allow_list = text_copy(spec->domain_allow_list);
	s->state = SB_CREATING;
	s->desired = SB_STARTED;
	s->created_ms = s->updated_ms = s->last_activity_ms = clock_wall_ms();
	fill_timers(s, spec, s->created_ms);
	fill_size(s, spec, snap);
	if (spec->env && kv_copy(&s->env, spec->env, err) < 0)
		return -1;
	return spec->labels ? kv_copy(&s->labels, spec->labels, err) : 0;
}

/* ---- the box ---- */

static uint32_t nofile_limit(void)
{
	struct rlimit rl;

	if (getrlimit(RLIMIT_NOFILE, &rl) == 0 && rl.rlim_max < CORE_NOFILE)
		return (uint32_t)rl.rlim_max;
	return CORE_NOFILE;
}

int core_box_start(struct core *c, const struct sandbox_row *row, bool fresh,
		   struct runner_started *ret, struct err *err)
{
	const char *layer[] = {row->layer};
	char host[64], path[108];
	struct runner_start rs = {
		.id = row->s.id,
		.fresh = fresh,
		.layer = layer,
		.nlayers = 1,
		.mem_bytes = (uint64_t)row->s.memory_mib << 20,
		.disk_bytes = (uint64_t)row->s.disk_gib * CORE_GIB,
		.cpu_milli = row->s.cpu * 1000,
		.pids_max = CORE_PIDS_MAX,
		.nofile = nofile_limit(),
		.flags = (row->s.network_block_all ? PRIV_START_NET_BLOCK : 0) |
			 (row->s.no_new_privs ? PRIV_START_NO_NEW_PRIVS : 0),
		.hostname = host,
	};
	int64_t deadline = clock_mono_ms() + CORE_START_MAX_MS;
	int64_t began = clock_mono_us(), started;

	hostname_of(row->s.name, host);
	if (c->run->ops->start(c->run, &rs, ret, err) < 0)
		return err_wrap(err, "start");
	started = clock_mono_us();
	crash_at("start.after_box");
	if (!ret->serves && (c->run->ops->agent_path(c->run, row->s.id, path, err) < 0 ||
			     agent_hello(path, deadline, err) < 0)) {
		/* Only a kill: the upper of a sandbox that ran before must stay. */
		c->run->ops->kill(c->run, row->s.id, NULL);
		return err_wrap(err, "agent");
	}
	log_debug("box of %s: runner %lld us, agent %lld us", row->s.id,
		  (long long)(started - began), (long long)(clock_mono_us() - started));
	return 0;
}

static void create_failed(struct core *c, const char *id, const struct err *why)
{
	struct store_edge e = {.id = id,
			       .from = SB_CREATING,
			       .to = SB_ERROR,
			       .desired = -1,
			       .reason = why->msg,
			       .recoverable = true};
	struct err gone = {0};

	if (c->run->ops->remove(c->run, id, &gone) < 0)
		log_warn("clean up after %s: %s", id, gone.msg);
	state_move(c, &e, NULL);
}

/* On the pool: row is CREATING and the slot is ours. Afterwards row is as it became. */
static int create_run(struct core *c, struct slot *slot, struct sandbox_row *row, struct err *err)
{
	struct runner_started rs = {0};
	struct store_edge e = {
		.id = slot->id, .from = SB_CREATING, .to = SB_STARTED, .desired = -1};
	int moved;

	if (core_box_start(c, row, true, &rs, err) < 0) {
		create_failed(c, slot->id, err);
		return -1;
	}
	crash_at("create.after_start");
	slot_started(c, slot, rs.pid);
	e.ip4 = rs.ip4;
	e.ip6 = rs.ip6;
	e.now_ms = clock_wall_ms();
	moved = state_move(c, &e, err);
	crash_at("create.after_edge");
	if (moved <= 0)
		return moved; /* 0: a delete was faster and cleans up */
	row->s.state = SB_STARTED;
	row->s.updated_ms = row->s.last_activity_ms = e.now_ms;
	memcpy(row->s.ip4, rs.ip4, sizeof(row->s.ip4));
	memcpy(row->s.ip6, rs.ip6, sizeof(row->s.ip6));
	return 0;
}

void op_create(struct op *op)
{
	auto_row struct sandbox_row row = {0};
	int got;

	if (op->row) {
		op->rc = create_run(op->core, op->slot, op->row, &op->err);
		return;
	}
	/* Done over after a crash: the row is all that is known. */
	got = store_sandbox_get(op->core->st, NULL, op->slot->id, &row, &op->err);
	if (got > 0 && row.s.state == SB_CREATING)
		got = create_run(op->core, op->slot, &row, &op->err);
	op->rc = got < 0 ? -1 : 0;
}

/* ---- the call ---- */

/* Hold the reply until the creation ends; its outcome is in the row, also a failure. */
static int create_wait(struct core *c, const struct caller *who, const char *id, int client,
		       struct sandbox *ret, struct err *err)
{
	int64_t deadline = clock_mono_ms() + c->cfg.hold_ms;
	struct slot *s = slot_begin(c, id, client, deadline, NULL);

	if (s)
		slot_end(c, s);
	return sandbox_get(c, who, id, ret, err);
}

struct create_ask {
	const struct caller *who;
	const struct sandbox_spec *spec;
	struct store_idem idem;
	int client;
	bool made; /* a row was made or claimed: it counts until it is destroyed */
};

static int create_refused(struct core *c, const struct create_ask *ask, int how, const char *id,
			  struct sandbox *ret, struct err *err)
{
	const char *name = ask->spec->name;

	switch (how) {
	case CREATE_REPLAY:
		if (create_wait(c, ask->who, id, ask->client, ret, err) == 0)
			return 0;
		if (err && err->code == ERR_NOT_FOUND)
			err_set(err, ERR_GONE, "sandbox %s of this Idempotency-Key was deleted",
				id);
		return -1;
	case CREATE_KEY_REUSED:
		return err_set(err, ERR_CONFLICT,
			       "Idempotency-Key: used before with another body, for sandbox %s",
			       id);
	case CREATE_NAME_TAKEN:
		return err_set(err, ERR_CONFLICT, "name: sandbox %s is already named %.128s", id,
			       name ? name : "");
	default:
		return -1;
	}
}

/* row is handed over to the operation once it is a record. */
static int create_new(struct core *c, struct create_ask *ask, struct sandbox_row *row,
		      struct sandbox *ret, struct err *err)
{
	int64_t deadline = clock_mono_ms() + c->cfg.hold_ms;
	char id[ID_LEN], other[ID_LEN];
	struct sandbox_row made = {0};
	struct slot *slot;
	struct op *op;
	int how;

	memcpy(id, row->s.id, ID_LEN);
	/* Nobody knows the id yet: this can't wait. */
	slot = slot_begin(c, id, -1, 0, err);
	op = op_new_row(c, slot, op_create, row, err);
	how = op ? store_sandbox_insert(c->st, op->row, &ask->idem, other, err) : -1;
	if (how != CREATE_NEW) {
		op_forget(op);
		slot_end(c, slot);
		return create_refused(c, ask, how, other, ret, err);
	}
	ask->made = true;
	crash_at("create.after_insert");
	publish_created(c, &op->row->s);
	op_start(op);
	/* The row says how it went: a failed creation is a sandbox in error, not a failed call. */
	if (op_wait_row(op, ask->client, deadline, &made) && made.s.state == SB_STARTED) {
		*ret = made.s;
		return 0;
	}
	sandbox_row_done(&made);
	return sandbox_get(c, ask->who, id, ret, err);
}

static int create_counted(struct core *c, struct create_ask *ask, struct sandbox *ret,
			  struct err *err)
{
	const struct sandbox_spec *spec = ask->spec;
	auto_row struct sandbox_row row = {0};
	struct origin o;
	char id[ID_LEN];
	int how;

	if (images_resolve(c, ask->who->org_id, spec, &o, err) < 0 ||
	    fill_row(c, ask->who, spec, &o.snap, &o.img, &row, err) < 0)
		return -1;
	if (spec->name && spec->name[0])
		return create_new(c, ask, &row, ret, err);
	how = warm_claim(c, &row, &ask->idem, id, err);
	if (how == CREATE_NO_WARM)
		return create_new(c, ask, &row, ret, err);
	if (how != CREATE_NEW)
		return create_refused(c, ask, how, id, ret, err);
	ask->made = true;
	return sandbox_get(c, ask->who, id, ret, err);
}

int sandbox_create(struct core *c, const struct caller *who, const struct sandbox_spec *spec,
		   int client, struct sandbox *ret, struct err *err)
{
	struct create_ask ask = {.who = who,
				 .spec = spec,
				 .idem = {spec->idempotency_key, spec->body_digest},
				 .client = client};
	char why[160];
	int rc;

	if (valid_spec(spec, err) < 0 || valid_limits(&c->org, spec, err) < 0)
		return -1;
	if (spec->target && spec->target[0] && strcmp(spec->target, c->cfg.region) != 0)
		return err_set(err, ERR_NOT_FOUND, "target: no region %.64s; this daemon has %s",
			       spec->target, c->cfg.region);
	if (!core_ready(c, why, sizeof(why)))
		return err_set(err, ERR_UNAVAILABLE, "not ready: %s", why);
	if (disk_check(c, err) < 0 || live_take(c, err) < 0)
		return -1;
	rc = create_counted(c, &ask, ret, err);
	if (!ask.made)
		live_drop(c);
	return rc;
}
