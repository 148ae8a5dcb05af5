/*
 * janitor.c - one background thread per host: fills the pools, renews or removes used cgroups.
 *
 * rmdir of a cgroup is slow and often busy just after its last process ended, so ends only note
 * the name; the janitor takes the notes in batches and tries again until the kernel agrees. What
 * ended boxes give back fills the pools too: while boxes come and go nothing is made anew above
 * three quarters of a pool.
 */
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/fd.h"
#include "box/host.h"

#define JANITOR_RETRY_MS 20
#define JANITOR_REST_MS	 10 /* without a claim for so long, pools are filled to the brim */

void host_cg_close(struct host_cg *cg)
{
	fd_close_all(cg->tasks, CG_V1_MAX);
}

static int host_cg_make(struct box_host *h, const struct cg_limits *l, struct host_cg *ret,
			struct err *err)
{
	struct host_cg cg = {.limits = *l, .tasks = {-1, -1, -1, -1}};

	if (cg_create(&h->cg, cg.name, err) < 0)
		return -1;
	if ((l->mem_bytes && cg_set_limits(&h->cg, cg.name, l, err) < 0) ||
	    cg_open_tasks(&h->cg, cg.name, cg.tasks, err) < 0) {
		host_cg_close(&cg);
		cg_remove(&h->cg, cg.name);
		return -1;
	}
	*ret = cg;
	return 0;
}

int host_cg_claim(struct box_host *h, struct host_cg *ret, struct err *err)
{
	struct cg_limits none = {.mem_bytes = 0};
	bool have = false;

	pthread_mutex_lock(&h->lock);
	h->claimed_ms = clock_mono_ms();
	if (h->ncg_ready) {
		*ret = h->cg_ready[--h->ncg_ready];
		have = true;
	}
	pthread_mutex_unlock(&h->lock);
	return have ? 0 : host_cg_make(h, &none, ret, err);
}

int host_dev_claim(struct box_host *h, struct err *err)
{
	int fd = -1;

	pthread_mutex_lock(&h->lock);
	if (h->ndev_ready)
		fd = h->dev_ready[--h->ndev_ready];
	pthread_mutex_unlock(&h->lock);
	return fd >= 0 ? fd : files_make_dev(err);
}

int host_room_claim(struct box_host *h, const char *id, struct err *err)
{
	struct rundir r = {.sock = -1};

	pthread_mutex_lock(&h->lock);
	if (h->nroom_ready)
		r = h->room_ready[--h->nroom_ready];
	pthread_mutex_unlock(&h->lock);
	box_rundir_remove(h, id);
	if (r.sock >= 0 && renameat(h->boxes, r.name, h->boxes, id) == 0)
		return r.sock;
	if (r.sock >= 0)
		close(r.sock);
	return box_rundir_make(h, id, err);
}

static unsigned pool_size(const struct box_host *h)
{
	return MIN(h->cfg.cgroup_pool, HOST_CG_POOL_MAX);
}

/* What comes back may fill a quarter more: its place has often been filled meanwhile. */
static unsigned pool_room(const struct box_host *h)
{
	return MIN(pool_size(h) + pool_size(h) / 4, HOST_CG_POOL_MAX);
}

void host_room_return(struct box_host *h, const char *id)
{
	struct rundir r = {.sock = -1};
	bool room;

	pthread_mutex_lock(&h->lock);
	room = !h->stop && h->adopted && h->nroom_ready < pool_room(h);
	snprintf(r.name, sizeof(r.name), ".pool-%u", ++h->next_room);
	pthread_mutex_unlock(&h->lock);
	if (room)
		r.sock = box_rundir_again(h, id, r.name, NULL);
	pthread_mutex_lock(&h->lock);
	room = r.sock >= 0 && !h->stop && h->nroom_ready < pool_room(h);
	if (room)
		h->room_ready[h->nroom_ready++] = r;
	pthread_mutex_unlock(&h->lock);
	if (room)
		return;
	if (r.sock >= 0)
		close(r.sock);
	box_rundir_remove(h, id);
	box_rundir_remove(h, r.name);
}

void host_cg_return(struct box_host *h, const char *name, const struct cg_limits *limits)
{
	bool queued = false;

	pthread_mutex_lock(&h->lock);
	if (h->ndying < HOST_DYING_MAX) {
		struct used_cg *u = &h->dying[h->ndying++];

		snprintf(u->name, sizeof(u->name), "%s", name);
		u->limits = limits ? *limits : (struct cg_limits){.mem_bytes = 0};
		queued = true;
	}
	h->wanted = true;
	pthread_cond_signal(&h->work);
	pthread_mutex_unlock(&h->lock);
	if (!queued)
		cg_remove(&h->cg, name);
}

void host_janitor_wake(struct box_host *h)
{
	pthread_mutex_lock(&h->lock);
	h->wanted = true;
	pthread_cond_signal(&h->work);
	pthread_mutex_unlock(&h->lock);
}

/* The janitor alone fills this pool, so there is room in it. */
static int cg_ready_add(struct box_host *h, const struct host_cg *cg)
{
	pthread_mutex_lock(&h->lock);
	h->cg_ready[h->ncg_ready++] = *cg;
	pthread_mutex_unlock(&h->lock);
	return 0;
}

/* One of each kind a round, until no pool wants more; -1 when the kernel gives no more. */
static int refill_cg(struct box_host *h)
{
	struct cg_limits guess;
	struct host_cg cg;

	pthread_mutex_lock(&h->lock);
	guess = h->cg_guess;
	pthread_mutex_unlock(&h->lock);
	if (host_cg_make(h, &guess, &cg, NULL) < 0)
		return -1;
	return cg_ready_add(h, &cg);
}

static int refill_dev(struct box_host *h)
{
	int fd = files_make_dev(NULL);

	if (fd < 0)
		return -1;
	pthread_mutex_lock(&h->lock);
	h->dev_ready[h->ndev_ready++] = fd;
	pthread_mutex_unlock(&h->lock);
	return 0;
}

static int refill_room(struct box_host *h)
{
	struct rundir r;
	bool full;

	pthread_mutex_lock(&h->lock);
	snprintf(r.name, sizeof(r.name), ".pool-%u", ++h->next_room);
	pthread_mutex_unlock(&h->lock);
	box_rundir_remove(h, r.name);
	r.sock = box_rundir_make(h, r.name, NULL);
	if (r.sock < 0)
		return -1;
	pthread_mutex_lock(&h->lock);
	full = h->nroom_ready >= HOST_CG_POOL_MAX; /* rooms come back meanwhile */
	if (!full)
		h->room_ready[h->nroom_ready++] = r;
	pthread_mutex_unlock(&h->lock);
	if (full) {
		close(r.sock);
		box_rundir_remove(h, r.name);
	}
	return 0;
}

static bool janitor_resting(const struct box_host *h)
{
	return clock_mono_ms() - h->claimed_ms >= JANITOR_REST_MS;
}

/* Returns whether the pool is full to the brim. */
static bool janitor_fill(struct box_host *h, const unsigned *have, bool come_back,
			 int (*make)(struct box_host *h))
{
	unsigned size = pool_size(h);

	for (;;) {
		unsigned want = size, n;
		bool stop;

		pthread_mutex_lock(&h->lock);
		if (come_back && !janitor_resting(h))
			want = size - size / 4;
		n = *have;
		stop = h->stop;
		pthread_mutex_unlock(&h->lock);
		if (stop || n >= want || make(h) < 0)
			return stop || n >= size;
	}
}

/* Returns whether there is nothing more to fill. */
static bool janitor_refill(struct box_host *h)
{
	bool full = true, rest;

	if (!h->adopted)
		return true;
	full &= janitor_fill(h, &h->ncg_ready, true, refill_cg);
	full &= janitor_fill(h, &h->nroom_ready, true, refill_room);
	janitor_fill(h, &h->ndev_ready, false, refill_dev);
	pthread_mutex_lock(&h->lock);
	rest = janitor_resting(h);
	pthread_mutex_unlock(&h->lock);
	full &= upper_refill(h->uppers, rest);
	return full;
}

/* True when the group is ready for another box. */
static bool cg_again(struct box_host *h, const struct used_cg *used)
{
	struct host_cg cg = {.limits = used->limits, .tasks = {-1, -1, -1, -1}};
	bool room;

	pthread_mutex_lock(&h->lock);
	room = h->adopted && !h->stop && h->ncg_ready < pool_room(h);
	pthread_mutex_unlock(&h->lock);
	if (!room || !used->limits.mem_bytes || cg_renew(&h->cg, used->name, cg.name) < 0)
		return false;
	if (cg_open_tasks(&h->cg, cg.name, cg.tasks, NULL) == 0)
		return cg_ready_add(h, &cg) == 0;
	host_cg_close(&cg);
	cg_remove(&h->cg, cg.name);
	return true;
}

/* Try each noted group once; those still busy are noted again. Returns how many are left. */
static unsigned janitor_bury(struct box_host *h)
{
	unsigned n, left;

	pthread_mutex_lock(&h->lock);
	n = h->ndying;
	pthread_mutex_unlock(&h->lock);
	for (unsigned i = 0; i < n; i++) {
		struct used_cg used;
		int busy;

		pthread_mutex_lock(&h->lock);
		used = h->dying[0];
		memmove(h->dying, h->dying + 1, --h->ndying * sizeof(used));
		pthread_mutex_unlock(&h->lock);
		busy = !cg_again(h, &used) && cg_remove(&h->cg, used.name);
		used.limits = (struct cg_limits){.mem_bytes = 0};
		pthread_mutex_lock(&h->lock);
		if (busy && h->ndying < HOST_DYING_MAX)
			h->dying[h->ndying++] = used;
		pthread_mutex_unlock(&h->lock);
	}
	pthread_mutex_lock(&h->lock);
	left = h->ndying;
	pthread_mutex_unlock(&h->lock);
	return left;
}

static void *janitor_main(void *arg)
{
	struct box_host *h = arg;
	unsigned left = 0;
	bool full;

	pthread_mutex_lock(&h->lock);
	while (!h->stop) {
		int64_t at = clock_wall_ms() + (left ? JANITOR_RETRY_MS : JANITOR_REST_MS);
		struct timespec ts = {.tv_sec = at / 1000, .tv_nsec = (at % 1000) * 1000000};

		if (!h->wanted && (left || !h->full))
			pthread_cond_timedwait(&h->work, &h->lock, &ts);
		while (!h->wanted && !left && h->full && !h->stop)
			pthread_cond_wait(&h->work, &h->lock);
		if (h->stop)
			break;
		h->wanted = false;
		h->working = true;
		pthread_mutex_unlock(&h->lock);
		left = janitor_bury(h);
		full = janitor_refill(h);
		pthread_mutex_lock(&h->lock);
		h->full = full;
		h->working = false;
		pthread_cond_broadcast(&h->done);
	}
	pthread_mutex_unlock(&h->lock);
	return NULL;
}

int host_janitor_start(struct box_host *h, struct err *err)
{
	h->dying = calloc(HOST_DYING_MAX, sizeof(*h->dying));
	if (!h->dying)
		return err_set(err, ERR_NOMEM, "out of memory");
	h->wanted = true;
	if (pthread_create(&h->janitor, NULL, janitor_main, h) != 0)
		return err_set(err, ERR_NOMEM, "start the janitor thread");
	h->janitor_runs = true;
	return 0;
}

/* Pool groups are empty and of no use to a successor: it makes its own. */
void host_janitor_stop(struct box_host *h)
{
	if (!h->janitor_runs)
		return;
	pthread_mutex_lock(&h->lock);
	h->stop = true;
	pthread_cond_signal(&h->work);
	pthread_mutex_unlock(&h->lock);
	pthread_join(h->janitor, NULL);
	h->janitor_runs = false;
	for (unsigned i = 0; i < h->ncg_ready; i++) {
		host_cg_close(&h->cg_ready[i]);
		cg_remove(&h->cg, h->cg_ready[i].name);
	}
	for (unsigned i = 0; i < h->ndying; i++)
		cg_remove(&h->cg, h->dying[i].name);
	for (unsigned i = 0; i < h->ndev_ready; i++)
		close(h->dev_ready[i]);
	for (unsigned i = 0; i < h->nroom_ready; i++) {
		close(h->room_ready[i].sock);
		box_rundir_remove(h, h->room_ready[i].name);
	}
}

void box_host_settle(struct box_host *h, int64_t deadline_ms)
{
	host_janitor_wake(h);
	pthread_mutex_lock(&h->lock);
	while (h->wanted || h->working || h->ndying || !h->full) {
		int64_t at = clock_wall_ms() + MIN(clock_left_ms(deadline_ms), 50);
		struct timespec ts = {.tv_sec = at / 1000, .tv_nsec = (at % 1000) * 1000000};

		if (clock_left_ms(deadline_ms) == 0)
			break;
		pthread_cond_timedwait(&h->done, &h->lock, &ts);
	}
	pthread_mutex_unlock(&h->lock);
	upper_settle(h->uppers, deadline_ms, NULL);
}
