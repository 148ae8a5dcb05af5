/*
 * pool.c - see pool.h.
 */
#include "core/pool.h"

#include <errno.h>
#include <stddef.h>
#include <time.h>

#include "base/clock.h"
#include "base/scope.h"

#define POOL_STACK   (512 * 1024)
#define POOL_IDLE_MS 10000 /* a thread without work for this long ends */
#define POOL_LATE_MS 60000 /* most one wait for a late job takes */

void cond_init_mono(pthread_cond_t *c)
{
	pthread_condattr_t a;

	pthread_condattr_init(&a);
	pthread_condattr_setclock(&a, CLOCK_MONOTONIC);
	pthread_cond_init(c, &a);
	pthread_condattr_destroy(&a);
}

bool cond_wait_ms(pthread_cond_t *c, pthread_mutex_t *m, int64_t ms)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	ts.tv_sec += ms / 1000;
	ts.tv_nsec += ms % 1000 * 1000000;
	if (ts.tv_nsec >= 1000000000) {
		ts.tv_sec++;
		ts.tv_nsec -= 1000000000;
	}
	return pthread_cond_timedwait(c, m, &ts) != ETIMEDOUT;
}

void pool_init(struct pool *p, unsigned max_threads)
{
	*p = (struct pool){.max = max_threads};
	p->ready_tail = &p->ready;
	pthread_mutex_init(&p->lock, NULL);
	cond_init_mono(&p->work);
	cond_init_mono(&p->quiet);
}

void pool_done(struct pool *p)
{
	pthread_mutex_destroy(&p->lock);
	pthread_cond_destroy(&p->work);
	pthread_cond_destroy(&p->quiet);
}

static void pool_push(struct pool *p, struct job *j)
{
	j->next = NULL;
	*p->ready_tail = j;
	p->ready_tail = &j->next;
	p->nready++;
}

static void pool_push_late(struct pool *p, struct job *j)
{
	struct job **at = &p->late;

	while (*at && (*at)->due_ms <= j->due_ms)
		at = &(*at)->next;
	j->next = *at;
	*at = j;
}

/* Move what is due; returns ms until the next late job, or POOL_LATE_MS. */
static int64_t pool_due(struct pool *p)
{
	int64_t now = p->late ? clock_mono_ms() : 0;

	while (p->late && p->late->due_ms <= now) {
		struct job *j = p->late;

		p->late = j->next;
		pool_push(p, j);
	}
	return p->late ? MIN(p->late->due_ms - now, (int64_t)POOL_LATE_MS) : POOL_LATE_MS;
}

static struct job *pool_pop(struct pool *p)
{
	struct job *j = p->ready;

	if (!j)
		return NULL;
	p->nready--;
	p->ready = j->next;
	if (!p->ready)
		p->ready_tail = &p->ready;
	return j;
}

/* NULL: the thread is to end. */
static struct job *pool_wait(struct pool *p)
{
	for (;;) {
		int64_t next = pool_due(p);
		struct job *j = pool_pop(p);
		bool woken;

		if (j || p->stop)
			return j;
		p->idle++;
		woken = cond_wait_ms(&p->work, &p->lock, p->late ? next : POOL_IDLE_MS);
		p->idle--;
		/* The last thread stays while a late job needs it. */
		if (!woken && !p->ready && (!p->late || p->idle))
			return NULL;
	}
}

static void *pool_thread(void *arg)
{
	struct pool *p = arg;
	struct job *j;

	pthread_mutex_lock(&p->lock);
	while ((j = pool_wait(p))) {
		pthread_mutex_unlock(&p->lock);
		j->fn(j);
		pthread_mutex_lock(&p->lock);
	}
	p->threads--;
	pthread_cond_broadcast(&p->quiet);
	pthread_mutex_unlock(&p->lock);
	return NULL;
}

static int pool_thread_add(struct pool *p)
{
	pthread_attr_t a;
	pthread_t t;
	int rc;

	pthread_attr_init(&a);
	pthread_attr_setstacksize(&a, POOL_STACK);
	pthread_attr_setdetachstate(&a, PTHREAD_CREATE_DETACHED);
	rc = pthread_create(&t, &a, pool_thread, p);
	pthread_attr_destroy(&a);
	if (rc == 0)
		p->threads++;
	return rc;
}

void pool_submit(struct pool *p, struct job *j, int64_t delay_ms)
{
	struct job *own = NULL;

	pthread_mutex_lock(&p->lock);
	j->due_ms = delay_ms > 0 ? clock_mono_ms() + delay_ms : 0;
	if (delay_ms > 0)
		pool_push_late(p, j);
	else
		pool_push(p, j);
	/* An idle thread that was signalled counts as idle until it runs: one more job than idle
	 * threads needs one more thread, or it would wait behind whatever the first one does. */
	if (p->idle)
		pthread_cond_signal(&p->work);
	if (MAX(p->nready, 1u) > p->idle && p->threads < p->max && pool_thread_add(p) != 0 &&
	    p->threads == 0)
		own = pool_pop(p);
	pthread_mutex_unlock(&p->lock);
	if (own)
		own->fn(own);
}

bool pool_stop(struct pool *p, int64_t wait_ms)
{
	int64_t end = clock_mono_ms() + wait_ms;
	struct job *late, *next;
	bool quiet;

	pthread_mutex_lock(&p->lock);
	p->stop = true;
	late = p->late;
	p->late = NULL;
	pthread_cond_broadcast(&p->work);
	while (p->threads && clock_mono_ms() < end)
		cond_wait_ms(&p->quiet, &p->lock, 100);
	quiet = p->threads == 0;
	pthread_mutex_unlock(&p->lock);
	for (; late; late = next) {
		next = late->next;
		if (late->drop)
			late->drop(late);
	}
	return quiet;
}
