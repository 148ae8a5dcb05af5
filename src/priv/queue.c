/*
 * queue.c - jobs waiting for a thread; bounded, first in first out.
 */
#include <stdlib.h>
#include <unistd.h>

#include "priv/priv.h"

struct job *job_new(void)
{
	struct job *j = calloc(1, sizeof(*j));

	if (j)
		j->fd = -1;
	return j;
}

void job_free(struct job *j)
{
	if (!j)
		return;
	if (j->fd >= 0)
		close(j->fd);
	free(j->layers);
	free(j);
}

void queue_init(struct queue *q)
{
	*q = (struct queue){.first = NULL};
	q->last = &q->first;
	pthread_mutex_init(&q->lock, NULL);
	pthread_cond_init(&q->more, NULL);
}

void queue_done(struct queue *q)
{
	while (q->first) {
		struct job *j = q->first;

		q->first = j->next;
		job_free(j);
	}
	pthread_mutex_destroy(&q->lock);
	pthread_cond_destroy(&q->more);
}

bool queue_put(struct queue *q, struct job *j)
{
	bool ok;

	pthread_mutex_lock(&q->lock);
	/* Our own jobs (the ends of boxes) are bounded by the boxes and never turned away. */
	ok = !q->stop && (q->n < PRIV_JOBS_MAX || j->peer == 0);
	if (ok) {
		j->next = NULL;
		*q->last = j;
		q->last = &j->next;
		q->n++;
		pthread_cond_signal(&q->more);
	}
	pthread_mutex_unlock(&q->lock);
	return ok;
}

struct job *queue_take(struct queue *q)
{
	struct job *j;

	pthread_mutex_lock(&q->lock);
	while (!q->first && !q->stop)
		pthread_cond_wait(&q->more, &q->lock);
	j = q->first;
	if (j) {
		q->first = j->next;
		if (!q->first)
			q->last = &q->first;
		q->n--;
	}
	pthread_mutex_unlock(&q->lock);
	return j;
}

void queue_stop(struct queue *q)
{
	pthread_mutex_lock(&q->lock);
	q->stop = true;
	pthread_cond_broadcast(&q->more);
	pthread_mutex_unlock(&q->lock);
}
