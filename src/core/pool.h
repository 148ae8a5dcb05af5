/*
 * pool.h - threads that run jobs, made when needed and gone when idle; jobs may be put off.
 *
 * A job is embedded in what it works on and belongs to the pool from submit until fn is called.
 * Jobs run in the order they become due. The number of threads is bounded; jobs are as many as
 * their owners, who bound them.
 */
#ifndef CAISSON_CORE_POOL_H
#define CAISSON_CORE_POOL_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct job {
	struct job *next;
	int64_t due_ms; /* monotonic; 0 now */
	void (*fn)(struct job *j);
	void (*drop)(struct job *j); /* NULL, or called when the pool ends before its time */
};

/* Every field under lock. */
struct pool {
	pthread_mutex_t lock;
	pthread_cond_t work, quiet;
	struct job *ready, **ready_tail; /* first in, first out */
	struct job *late;		 /* sorted by due_ms */
	unsigned nready, threads, idle, max;
	bool stop;
};

void pool_init(struct pool *p, unsigned max_threads);
/* Never fails: with no thread to be had the caller's thread runs a due job itself. */
void pool_submit(struct pool *p, struct job *j, int64_t delay_ms);
/* Let running and due jobs end, drop late ones, end the threads; at most wait_ms. */
bool pool_stop(struct pool *p, int64_t wait_ms);
void pool_done(struct pool *p);

/* Condition on the monotonic clock, and a wait of at most ms. False: timed out. */
void cond_init_mono(pthread_cond_t *c);
bool cond_wait_ms(pthread_cond_t *c, pthread_mutex_t *m, int64_t ms);

#endif
