/*
 * boxes.c - the table of living boxes, and whose turn it is to work on one (priv.h).
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "priv/priv.h"

#define BOXES_WAIT_MS (BOX_START_MS + BOX_KILL_MS + 5000)

static struct box_entry **boxes_slot(struct boxes *t, const char *id)
{
	uint32_t h = 2166136261u;
	struct box_entry **e;

	for (const char *p = id; *p; p++)
		h = (h ^ (unsigned char)*p) * 16777619u;
	e = &t->bucket[h % BOXES_BUCKETS];
	while (*e && strcmp((*e)->id, id) != 0)
		e = &(*e)->next;
	return e;
}

void boxes_init(struct boxes *t)
{
	memset(t, 0, sizeof(*t));
	pthread_mutex_init(&t->lock, NULL);
	pthread_cond_init(&t->freed, NULL);
}

void boxes_done(struct boxes *t)
{
	for (size_t i = 0; i < BOXES_BUCKETS; i++) {
		while (t->bucket[i]) {
			struct box_entry *e = t->bucket[i];

			t->bucket[i] = e->next;
			if (e->box && e->box->pidfd >= 0)
				close(e->box->pidfd);
			free(e->box);
			free(e);
		}
	}
	pthread_mutex_destroy(&t->lock);
	pthread_cond_destroy(&t->freed);
}

static struct box_entry *entry_get(struct boxes *t, const char *id)
{
	struct box_entry **slot = boxes_slot(t, id);

	if (!*slot) {
		*slot = calloc(1, sizeof(**slot));
		if (*slot)
			memcpy((*slot)->id, id, ID_LEN);
	}
	return *slot;
}

static void entry_drop(struct boxes *t, struct box_entry *e)
{
	struct box_entry **slot = boxes_slot(t, e->id);

	if (e->box || e->busy || e->waiting)
		return;
	*slot = e->next;
	free(e);
}

struct box_entry *boxes_lock(struct boxes *t, const char *id, struct err *err)
{
	int64_t at = clock_wall_ms() + BOXES_WAIT_MS;
	struct timespec ts = {.tv_sec = at / 1000, .tv_nsec = (at % 1000) * 1000000};
	struct box_entry *e;
	int rc = 0;

	pthread_mutex_lock(&t->lock);
	e = entry_get(t, id);
	if (!e) {
		pthread_mutex_unlock(&t->lock);
		err_set(err, ERR_NOMEM, "out of memory");
		return NULL;
	}
	e->waiting++;
	while (e->busy && rc == 0)
		rc = pthread_cond_timedwait(&t->freed, &t->lock, &ts);
	e->waiting--;
	if (rc == 0)
		e->busy = true;
	else
		entry_drop(t, e);
	pthread_mutex_unlock(&t->lock);
	if (rc) {
		err_set(err, ERR_UNAVAILABLE, "%s is being worked on for too long", id);
		return NULL;
	}
	return e;
}

void boxes_unlock(struct boxes *t, struct box_entry *e, struct box *box)
{
	pthread_mutex_lock(&t->lock);
	t->live += (box != NULL) - (e->pid != 0);
	e->box = box;
	e->pid = box ? box->pid : 0;
	e->busy = false;
	pthread_cond_broadcast(&t->freed);
	entry_drop(t, e);
	pthread_mutex_unlock(&t->lock);
}

struct box *boxes_take(struct boxes *t, struct box_entry *e)
{
	struct box *b;

	pthread_mutex_lock(&t->lock);
	b = e->box;
	e->box = NULL;
	t->live -= e->pid != 0;
	e->pid = 0;
	pthread_mutex_unlock(&t->lock);
	return b;
}

void boxes_publish(struct boxes *t, struct box_entry *e, struct box *b)
{
	pthread_mutex_lock(&t->lock);
	t->live += e->pid == 0;
	e->box = b;
	e->pid = b->pid;
	pthread_mutex_unlock(&t->lock);
}

void boxes_set_flags(struct boxes *t, struct box_entry *e, uint32_t flags)
{
	pthread_mutex_lock(&t->lock);
	e->box->flags = flags;
	pthread_mutex_unlock(&t->lock);
}

bool boxes_find(struct boxes *t, const char *id, struct box *ret)
{
	struct box_entry *e;
	bool found;

	pthread_mutex_lock(&t->lock);
	e = *boxes_slot(t, id);
	found = e && e->box;
	if (found)
		*ret = *e->box;
	pthread_mutex_unlock(&t->lock);
	return found;
}

typedef bool (*boxes_match)(const struct box *b, const void *arg);

static bool boxes_scan(struct boxes *t, boxes_match match, const void *arg, struct box *ret)
{
	bool found = false;

	pthread_mutex_lock(&t->lock);
	for (size_t i = 0; i < BOXES_BUCKETS && !found; i++) {
		for (struct box_entry *e = t->bucket[i]; e && !found; e = e->next) {
			found = e->box && match(e->box, arg);
			if (found)
				*ret = *e->box;
		}
	}
	pthread_mutex_unlock(&t->lock);
	return found;
}

static bool match_cg(const struct box *b, const void *arg)
{
	return strcmp(b->cg, arg) == 0;
}

static bool match_pid(const struct box *b, const void *arg)
{
	return b->pid == *(const pid_t *)arg;
}

bool boxes_find_cg(struct boxes *t, const char *cg, struct box *ret)
{
	return boxes_scan(t, match_cg, cg, ret);
}

bool boxes_find_pid(struct boxes *t, pid_t pid, struct box *ret)
{
	return boxes_scan(t, match_pid, &pid, ret);
}

struct page_item {
	char id[ID_LEN];
	uint32_t pid;
};

static int page_order(const void *a, const void *b)
{
	return strcmp(((const struct page_item *)a)->id, ((const struct page_item *)b)->id);
}

static size_t page_collect(struct boxes *t, const char *after, struct page_item *item)
{
	size_t n = 0;

	for (size_t i = 0; i < BOXES_BUCKETS; i++) {
		for (struct box_entry *e = t->bucket[i]; e; e = e->next) {
			if (!e->pid || strcmp(e->id, after) <= 0)
				continue;
			memcpy(item[n].id, e->id, ID_LEN);
			item[n++].pid = (uint32_t)e->pid;
		}
	}
	return n;
}

size_t boxes_page(struct boxes *t, const char *after, char (*id)[ID_LEN], uint32_t *pid, size_t max)
{
	struct page_item *item;
	size_t n = 0;

	pthread_mutex_lock(&t->lock);
	item = calloc((size_t)t->live + 1, sizeof(*item));
	if (item)
		n = page_collect(t, after, item);
	pthread_mutex_unlock(&t->lock);
	if (item)
		qsort(item, n, sizeof(*item), page_order);
	n = MIN(n, max);
	for (size_t i = 0; i < n; i++) {
		memcpy(id[i], item[i].id, ID_LEN);
		pid[i] = item[i].pid;
	}
	free(item);
	return n;
}
