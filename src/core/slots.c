/*
 * slots.c - what this process knows about sandboxes beyond their rows.
 *
 * A slot exists while somebody refers to it or it holds something worth keeping; the table is
 * bounded by the sandboxes there are. "busy" is the lock of one sandbox's operations: it is held
 * over I/O, but only by who works on that sandbox, and never by a read (a frozen sandbox blocks
 * nobody else, E25).
 */
#include <poll.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "core/int.h"

void slots_init(struct slots *s)
{
	memset(s, 0, sizeof(*s));
	pthread_mutex_init(&s->lock, NULL);
	cond_init_mono(&s->change);
}

static void slot_free(struct slot *s)
{
	free(s->home);
	free(s->home_user);
	free(s);
}

void slots_done(struct slots *s)
{
	for (size_t i = 0; i < SLOT_BUCKETS; i++) {
		while (s->bucket[i]) {
			struct slot *next = s->bucket[i]->next;

			slot_free(s->bucket[i]);
			s->bucket[i] = next;
		}
	}
	pthread_mutex_destroy(&s->lock);
	pthread_cond_destroy(&s->change);
}

/* Ids are random: their first hex digits spread well. */
static struct slot **slot_bucket(struct slots *s, const char *id)
{
	unsigned h = 5381;

	for (int i = 0; i < 8 && id[i]; i++)
		h = h * 33 + (unsigned char)id[i];
	return &s->bucket[h % SLOT_BUCKETS];
}

static struct slot *slot_find(struct slots *s, const char *id)
{
	struct slot *at = *slot_bucket(s, id);

	while (at && strcmp(at->id, id) != 0)
		at = at->next;
	return at;
}

static void reap_unset(struct job *j)
{
	(void)j;
}

static struct slot *slot_ref(struct core *c, const char *id)
{
	struct slot **bucket = slot_bucket(&c->slots, id);
	struct slot *s = slot_find(&c->slots, id);

	if (!s) {
		s = calloc(1, sizeof(*s));
		/* 300 bytes: without them the process can't do anything sensible any more. */
		if (!s)
			abort();
		snprintf(s->id, sizeof(s->id), "%s", id);
		s->core = c;
		s->reap.fn = reap_unset;
		s->next = *bucket;
		*bucket = s;
	}
	s->refs++;
	return s;
}

static void slot_unref(struct core *c, struct slot *s)
{
	struct slot **at;

	if (--s->refs || s->keep || s->dirty || s->running || s->reaping)
		return;
	at = slot_bucket(&c->slots, s->id);
	while (*at != s)
		at = &(*at)->next;
	*at = s->next;
	slot_free(s);
}

struct slot *slot_get(struct core *c, const char *id)
{
	struct slot *s;

	pthread_mutex_lock(&c->slots.lock);
	s = slot_ref(c, id);
	pthread_mutex_unlock(&c->slots.lock);
	return s;
}

void slot_put(struct core *c, struct slot *s)
{
	pthread_mutex_lock(&c->slots.lock);
	slot_unref(c, s);
	pthread_mutex_unlock(&c->slots.lock);
}

static bool client_gone(int client)
{
	struct pollfd p = {.fd = client, .events = POLLRDHUP};

	return client >= 0 && poll(&p, 1, 0) > 0;
}

struct slot *slot_begin(struct core *c, const char *id, int client, int64_t deadline_ms,
			struct err *err)
{
	struct slot *s;
	int rc = 0;

	pthread_mutex_lock(&c->slots.lock);
	s = slot_ref(c, id);
	while (s->busy && rc == 0) {
		cond_wait_ms(&c->slots.change, &c->slots.lock, CORE_WAIT_SLICE);
		if (!s->busy)
			break;
		if (client_gone(client))
			rc = err_set(err, ERR_CANCELLED, "client hung up");
		else if (deadline_ms && clock_mono_ms() >= deadline_ms)
			rc = err_tagged(err, ERR_CONFLICT, "STATE_CHANGE_IN_PROGRESS",
					"sandbox %s: a state change is in progress; try again", id);
	}
	if (rc == 0)
		s->busy = true;
	else
		slot_unref(c, s);
	pthread_mutex_unlock(&c->slots.lock);
	return rc == 0 ? s : NULL;
}

bool slot_try(struct core *c, struct slot *s)
{
	bool got;

	pthread_mutex_lock(&c->slots.lock);
	got = !s->busy;
	if (got) {
		s->busy = true;
		s->refs++;
	}
	pthread_mutex_unlock(&c->slots.lock);
	return got;
}

void slot_end(struct core *c, struct slot *s)
{
	pthread_mutex_lock(&c->slots.lock);
	s->busy = false;
	pthread_cond_broadcast(&c->slots.change);
	slot_unref(c, s);
	pthread_mutex_unlock(&c->slots.lock);
}

/* ---- activity ---- */

static void slot_active_now(struct slot *s)
{
	s->active_ms = clock_wall_ms();
	s->dirty = true;
}

void slot_touch(struct core *c, const char *id)
{
	struct slot *s;

	pthread_mutex_lock(&c->slots.lock);
	s = slot_ref(c, id);
	slot_active_now(s);
	slot_unref(c, s);
	pthread_mutex_unlock(&c->slots.lock);
}

int64_t slot_active(struct core *c, const char *id, int64_t row_ms)
{
	struct slot *s;

	pthread_mutex_lock(&c->slots.lock);
	s = slot_find(&c->slots, id);
	if (s && s->running)
		row_ms = clock_wall_ms();
	else if (s && s->active_ms > row_ms)
		row_ms = s->active_ms;
	pthread_mutex_unlock(&c->slots.lock);
	return row_ms;
}

struct active {
	char id[ID_LEN];
	int64_t ms;
};

struct actives {
	struct active *p;
	size_t n, cap;
};

static int actives_add(struct actives *l, struct slot *s)
{
	if (l->n == l->cap) {
		struct active *more = realloc(l->p, (l->cap * 2 + 64) * sizeof(*more));

		if (!more)
			return -1;
		l->p = more;
		l->cap = l->cap * 2 + 64;
	}
	/* A running command is activity (E11): it counts as of now. */
	if (s->running)
		s->active_ms = clock_wall_ms();
	memcpy(l->p[l->n].id, s->id, ID_LEN);
	l->p[l->n++].ms = s->active_ms;
	s->dirty = false;
	return 0;
}

static struct actives slots_dirty(struct core *c)
{
	struct actives l = {0};
	int rc = 0;

	pthread_mutex_lock(&c->slots.lock);
	for (size_t i = 0; i < SLOT_BUCKETS && rc == 0; i++)
		for (struct slot *s = c->slots.bucket[i]; s && rc == 0; s = s->next)
			if (s->dirty || s->running)
				rc = actives_add(&l, s); /* the rest at the next flush */
	pthread_mutex_unlock(&c->slots.lock);
	return l;
}

void slots_flush(struct core *c)
{
	struct actives l = slots_dirty(c);

	for (size_t i = 0; i < l.n; i++) {
		struct err err = {0};

		if (store_sandbox_touch(c->st, l.p[i].id, l.p[i].ms, &err) < 0)
			log_warn("activity of %s: %s", l.p[i].id, err.msg);
		slot_put(c, slot_get(c, l.p[i].id)); /* frees a slot that held only this */
	}
	free(l.p);
}

/* ---- commands, stops ---- */

int slot_exec_begin(struct core *c, struct slot *s, struct err *err)
{
	bool halting;

	pthread_mutex_lock(&c->slots.lock);
	halting = s->halting;
	if (!halting) {
		s->running++;
		slot_active_now(s);
	}
	pthread_mutex_unlock(&c->slots.lock);
	if (halting)
		return err_tagged(err, ERR_CONFLICT, "SANDBOX_NOT_STARTED",
				  "sandbox %s is stopping", s->id);
	return 0;
}

void slot_exec_end(struct core *c, struct slot *s)
{
	pthread_mutex_lock(&c->slots.lock);
	s->running--;
	slot_active_now(s);
	pthread_mutex_unlock(&c->slots.lock);
}

bool slot_halt_idle(struct core *c, struct slot *s, int64_t before_ms)
{
	bool idle;

	pthread_mutex_lock(&c->slots.lock);
	idle = s->running == 0 && s->active_ms <= before_ms;
	if (idle)
		s->halting = true;
	pthread_mutex_unlock(&c->slots.lock);
	return idle;
}

void slot_halt(struct core *c, struct slot *s, bool on)
{
	pthread_mutex_lock(&c->slots.lock);
	s->halting = on;
	pthread_mutex_unlock(&c->slots.lock);
}

void slot_started(struct core *c, struct slot *s, uint32_t pid)
{
	pthread_mutex_lock(&c->slots.lock);
	s->pid = pid;
	s->keep = true;
	s->halting = false;
	memset(&s->oom, 0, sizeof(s->oom));
	s->cpu_us = 0;
	s->cpu_at_us = clock_mono_us();
	s->cpu_pct = 0;
	free(s->home);
	free(s->home_user);
	s->home = s->home_user = NULL;
	pthread_mutex_unlock(&c->slots.lock);
}

void slot_stopped(struct core *c, struct slot *s)
{
	pthread_mutex_lock(&c->slots.lock);
	s->pid = 0;
	s->keep = false;
	s->halting = false;
	pthread_mutex_unlock(&c->slots.lock);
}
