/*
 * turn.c - see turn.h.
 */
#include "core/turn.h"

#include <stdio.h>
#include <string.h>

#include "core/pool.h"

#define TURN_SLICE_MS 100

void turns_init(struct turns *t)
{
	pthread_mutex_init(&t->lock, NULL);
	cond_init_mono(&t->change);
	t->first = NULL;
}

void turns_done(struct turns *t)
{
	pthread_mutex_destroy(&t->lock);
	pthread_cond_destroy(&t->change);
}

static bool turn_first(const struct turns *t, const struct turn *me)
{
	const struct turn *p = t->first;

	while (p != me && strcmp(p->key, me->key) != 0)
		p = p->next;
	return p == me;
}

int turn_take(struct turns *t, struct turn *me, const char *key, turn_gone_fn gone, void *arg,
	      struct err *err)
{
	struct turn **at;
	bool left = false;

	me->next = NULL;
	snprintf(me->key, sizeof(me->key), "%s", key);
	pthread_mutex_lock(&t->lock);
	for (at = &t->first; *at; at = &(*at)->next)
		continue;
	*at = me;
	while (!left && !turn_first(t, me)) {
		cond_wait_ms(&t->change, &t->lock, TURN_SLICE_MS);
		if (!gone || turn_first(t, me))
			continue;
		pthread_mutex_unlock(&t->lock);
		left = gone(arg);
		pthread_mutex_lock(&t->lock);
	}
	pthread_mutex_unlock(&t->lock);
	if (!left)
		return 0;
	turn_leave(t, me);
	return err_set(err, ERR_CANCELLED, "the client went while it was queued");
}

void turn_leave(struct turns *t, struct turn *me)
{
	struct turn **at;

	pthread_mutex_lock(&t->lock);
	for (at = &t->first; *at != me; at = &(*at)->next)
		continue;
	*at = me->next;
	pthread_cond_broadcast(&t->change);
	pthread_mutex_unlock(&t->lock);
}
