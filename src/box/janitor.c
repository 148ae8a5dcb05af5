/*
 * janitor.c - one background thread per host: fills the pools and removes dead cgroups.
 *
 * rmdir of a cgroup is slow and often busy just after its last process ended, so ends only note
 * the name; the janitor takes the notes in batches and tries again until the kernel agrees.
 */
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "box/host.h"

#define JANITOR_RETRY_MS 20

int host_cg_claim(struct box_host *h, char ret[CG_NAME_LEN], struct err *err)
{
	bool have = false;

	pthread_mutex_lock(&h->lock);
	if (h->ncg_ready) {
		memcpy(ret, h->cg_ready[--h->ncg_ready], CG_NAME_LEN);
		have = true;
	}
	pthread_mutex_unlock(&h->lock);
	return have ? 0 : cg_create(&h->cg, ret, err);
}

void host_cg_bury(struct box_host *h, const char *name)
{
	bool queued = false;

	pthread_mutex_lock(&h->lock);
	if (h->ndying < HOST_DYING_MAX) {
		snprintf(h->dying[h->ndying++], CG_NAME_LEN, "%s", name);
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

static void janitor_refill(struct box_host *h)
{
	for (;;) {
		char name[CG_NAME_LEN];
		bool full;

		pthread_mutex_lock(&h->lock);
		full = h->stop || !h->adopted ||
		       h->ncg_ready >= MIN(h->cfg.cgroup_pool, HOST_CG_POOL_MAX);
		pthread_mutex_unlock(&h->lock);
		if (full || cg_create(&h->cg, name, NULL) < 0)
			break;
		pthread_mutex_lock(&h->lock);
		memcpy(h->cg_ready[h->ncg_ready++], name, CG_NAME_LEN);
		pthread_mutex_unlock(&h->lock);
	}
	if (h->adopted)
		upper_refill(h->uppers);
}

/* Try each noted group once; those still busy are noted again. Returns how many are left. */
static unsigned janitor_bury(struct box_host *h)
{
	unsigned n, left;

	pthread_mutex_lock(&h->lock);
	n = h->ndying;
	pthread_mutex_unlock(&h->lock);
	for (unsigned i = 0; i < n; i++) {
		char name[CG_NAME_LEN];
		int busy;

		pthread_mutex_lock(&h->lock);
		memcpy(name, h->dying[0], CG_NAME_LEN);
		memmove(h->dying[0], h->dying[1], (--h->ndying) * CG_NAME_LEN);
		pthread_mutex_unlock(&h->lock);
		busy = cg_remove(&h->cg, name);
		pthread_mutex_lock(&h->lock);
		if (busy && h->ndying < HOST_DYING_MAX)
			memcpy(h->dying[h->ndying++], name, CG_NAME_LEN);
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

	pthread_mutex_lock(&h->lock);
	while (!h->stop) {
		int64_t at = clock_wall_ms() + JANITOR_RETRY_MS;
		struct timespec ts = {.tv_sec = at / 1000, .tv_nsec = (at % 1000) * 1000000};

		if (!h->wanted && left)
			pthread_cond_timedwait(&h->work, &h->lock, &ts);
		while (!h->wanted && !left && !h->stop)
			pthread_cond_wait(&h->work, &h->lock);
		if (h->stop)
			break;
		h->wanted = false;
		h->working = true;
		pthread_mutex_unlock(&h->lock);
		janitor_refill(h);
		left = janitor_bury(h);
		pthread_mutex_lock(&h->lock);
		h->working = false;
		pthread_cond_broadcast(&h->done);
	}
	pthread_mutex_unlock(&h->lock);
	return NULL;
}

int host_janitor_start(struct box_host *h, struct err *err)
{
	h->dying = calloc(HOST_DYING_MAX, CG_NAME_LEN);
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
	for (unsigned i = 0; i < h->ncg_ready; i++)
		cg_remove(&h->cg, h->cg_ready[i]);
	for (unsigned i = 0; i < h->ndying; i++)
		cg_remove(&h->cg, h->dying[i]);
}

void box_host_settle(struct box_host *h, int64_t deadline_ms)
{
	host_janitor_wake(h);
	pthread_mutex_lock(&h->lock);
	while (h->wanted || h->working || h->ndying) {
		int64_t at = clock_wall_ms() + MIN(clock_left_ms(deadline_ms), 50);
		struct timespec ts = {.tv_sec = at / 1000, .tv_nsec = (at % 1000) * 1000000};

		if (clock_left_ms(deadline_ms) == 0)
			break;
		pthread_cond_timedwait(&h->done, &h->lock, &ts);
	}
	pthread_mutex_unlock(&h->lock);
	upper_settle(h->uppers, deadline_ms, NULL);
}
