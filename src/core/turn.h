/*
 * turn.h - first come, first served: who holds a key works on what it names, others queue.
 *
 * Turns are short-lived records of waiting threads, so their number is that of the connections.
 */
#ifndef CAISSON_CORE_TURN_H
#define CAISSON_CORE_TURN_H

#include <pthread.h>
#include <stdbool.h>

#include "base/err.h"

#define TURN_KEY_MAX 320

/* Has the one who waits gone? Called every TURN_SLICE_MS at most, without a lock. */
typedef bool (*turn_gone_fn)(void *arg);

struct turn {
	struct turn *next;
	char key[TURN_KEY_MAX];
};

/* The list under lock, in the order they came; the first of each key holds it. */
struct turns {
	pthread_mutex_t lock;
	pthread_cond_t change;
	struct turn *first;
};

void turns_init(struct turns *t);
void turns_done(struct turns *t);
/* Queue up under key and wait; gone may be NULL. ERR_CANCELLED when it says so. */
int turn_take(struct turns *t, struct turn *me, const char *key, turn_gone_fn gone, void *arg,
	      struct err *err);
void turn_leave(struct turns *t, struct turn *me);

#endif
