/*
 * test_core_pool.c - the threads that do the work, and the small maps they share.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <string.h>

#include "base/clock.h"
#include "base/scope.h"
#include "unit/corebox.h"

struct task {
	struct job job;
	pthread_mutex_t *lock;
	pthread_cond_t *cond;
	int *done;
	bool *go; /* wait for it */
	int64_t at_ms;
};

static void task_run(struct job *j)
{
	struct task *t = container_of(j, struct task, job);

	pthread_mutex_lock(t->lock);
	while (t->go && !*t->go)
		pthread_cond_wait(t->cond, t->lock);
	t->at_ms = clock_mono_ms();
	++*t->done;
	pthread_cond_broadcast(t->cond);
	pthread_mutex_unlock(t->lock);
}

struct bench {
	struct pool pool;
	pthread_mutex_t lock;
	pthread_cond_t cond;
	int done;
	bool go;
};

static void bench_init(struct bench *b, unsigned max)
{
	memset(b, 0, sizeof(*b));
	pool_init(&b->pool, max);
	pthread_mutex_init(&b->lock, NULL);
	cond_init_mono(&b->cond);
}

static struct task task_of(struct bench *b, bool waits)
{
	return (struct task){.job.fn = task_run,
			     .lock = &b->lock,
			     .cond = &b->cond,
			     .done = &b->done,
			     .go = waits ? &b->go : NULL};
}

static bool bench_wait(struct bench *b, int done, int ms)
{
	int64_t end = clock_mono_ms() + ms;
	bool there;

	pthread_mutex_lock(&b->lock);
	while (b->done < done && clock_mono_ms() < end)
		cond_wait_ms(&b->cond, &b->lock, 50);
	there = b->done >= done;
	pthread_mutex_unlock(&b->lock);
	return there;
}

static void bench_go(struct bench *b)
{
	pthread_mutex_lock(&b->lock);
	b->go = true;
	pthread_cond_broadcast(&b->cond);
	pthread_mutex_unlock(&b->lock);
}

static void job_is_not_stuck_behind_one_that_blocks(void **state)
{
	struct bench b;
	struct task warm, blocks, quick;

	(void)state;
	bench_init(&b, 8);
	warm = task_of(&b, false);
	blocks = task_of(&b, true);
	quick = task_of(&b, false);
	pool_submit(&b.pool, &warm.job, 0);
	assert_true(bench_wait(&b, 1, 2000));
	usleep(5000); /* its thread is idle now, most likely; the test holds either way */
	pool_submit(&b.pool, &blocks.job, 0);
	pool_submit(&b.pool, &quick.job, 0);
	assert_true(bench_wait(&b, 2, 2000));
	bench_go(&b);
	assert_true(bench_wait(&b, 3, 2000));
	assert_true(pool_stop(&b.pool, 2000));
	pool_done(&b.pool);
}

static void threads_are_bounded_and_jobs_are_not_lost(void **state)
{
	enum { N = 100 };
	static struct task t[N];
	struct bench b;

	(void)state;
	bench_init(&b, 3);
	for (int i = 0; i < N; i++) {
		t[i] = task_of(&b, true);
		pool_submit(&b.pool, &t[i].job, 0);
	}
	pthread_mutex_lock(&b.pool.lock);
	assert_true(b.pool.threads <= 3);
	pthread_mutex_unlock(&b.pool.lock);
	bench_go(&b);
	assert_true(bench_wait(&b, N, 5000));
	assert_true(pool_stop(&b.pool, 2000));
	pool_done(&b.pool);
}

static void late_jobs_run_in_the_order_they_are_due(void **state)
{
	struct bench b;
	struct task t[3];
	int64_t began = clock_mono_ms();

	(void)state;
	bench_init(&b, 1);
	for (int i = 0; i < 3; i++) {
		t[i] = task_of(&b, false);
		pool_submit(&b.pool, &t[i].job, 150 - 50 * i);
	}
	assert_true(bench_wait(&b, 3, 3000));
	assert_true(t[2].at_ms - began >= 49);
	assert_true(t[1].at_ms - began >= 99);
	assert_true(t[0].at_ms - began >= 149);
	assert_true(t[2].at_ms <= t[1].at_ms && t[1].at_ms <= t[0].at_ms);
	assert_true(pool_stop(&b.pool, 2000));
	pool_done(&b.pool);
}

static void stop_runs_what_is_due_and_drops_what_is_late(void **state)
{
	struct bench b;
	struct task due, late;

	(void)state;
	bench_init(&b, 1);
	due = task_of(&b, false);
	late = task_of(&b, false);
	pool_submit(&b.pool, &late.job, 100000);
	pool_submit(&b.pool, &due.job, 0);
	assert_true(pool_stop(&b.pool, 2000));
	assert_int_equal(b.done, 1);
	pool_done(&b.pool);
}

static void stop_of_a_blocked_pool_is_bounded(void **state)
{
	struct bench b;
	struct task blocks;

	(void)state;
	bench_init(&b, 1);
	blocks = task_of(&b, true);
	pool_submit(&b.pool, &blocks.job, 0);
	assert_false(pool_stop(&b.pool, 100));
	bench_go(&b);
	assert_true(bench_wait(&b, 1, 2000));
	assert_true(pool_stop(&b.pool, 2000));
	pool_done(&b.pool);
}

/* ---- env: concurrent changes are all kept ---- */

struct setter {
	struct corebox *c;
	const char *id;
	pthread_t thread;
	int n;
};

static void *set_some(void *arg)
{
	struct setter *s = arg;

	for (int i = 0; i < 20; i++) {
		auto_kv struct kv set = {0};
		const struct sandbox_env_change change = {.set = &set};
		char key[16];

		snprintf(key, sizeof(key), "K%d_%d", s->n, i);
		kv_set(&set, key, "x", NULL);
		if (sandbox_env(s->c->core, &s->c->who, s->id, &change, NULL, NULL) < 0)
			abort();
	}
	return NULL;
}

static void concurrent_env_changes_are_all_kept(void **state)
{
	struct corebox c;
	struct setter s[4];
	struct sandbox got;
	char id[ID_LEN];

	(void)state;
	corebox_init(&c);
	corebox_open(&c);
	corebox_create(&c, "box", id);
	for (int i = 0; i < 4; i++) {
		s[i] = (struct setter){.c = &c, .id = id, .n = i};
		pthread_create(&s[i].thread, NULL, set_some, &s[i]);
	}
	for (int i = 0; i < 4; i++)
		pthread_join(s[i].thread, NULL);
	assert_int_equal(sandbox_get(c.core, &c.who, id, &got, NULL), 0);
	assert_int_equal(got.env.n, 80);
	sandbox_done(&got);
	corebox_done(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(job_is_not_stuck_behind_one_that_blocks),
		cmocka_unit_test(threads_are_bounded_and_jobs_are_not_lost),
		cmocka_unit_test(late_jobs_run_in_the_order_they_are_due),
		cmocka_unit_test(stop_runs_what_is_due_and_drops_what_is_late),
		cmocka_unit_test(stop_of_a_blocked_pool_is_bounded),
		cmocka_unit_test(concurrent_env_changes_are_all_kept),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
