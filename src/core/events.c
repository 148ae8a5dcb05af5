/*
 * events.c - who listens to the sandboxes of an organization, and telling them.
 *
 * A listener's function runs on the publisher's thread with no lock held. core_unsubscribe waits
 * until no call is under way, so its arg may be freed afterwards.
 */
#include <string.h>

#include "base/log.h"
#include "core/int.h"

#define SUBS_MAX 4096

void subs_init(struct core *c)
{
	pthread_mutex_init(&c->subs_lock, NULL);
	cond_init_mono(&c->subs_quiet);
}

void subs_done(struct core *c)
{
	while (c->subs) {
		struct core_sub *next = c->subs->next;

		free(c->subs);
		c->subs = next;
	}
	pthread_mutex_destroy(&c->subs_lock);
	pthread_cond_destroy(&c->subs_quiet);
}

struct core_sub *core_subscribe(struct core *c, const struct caller *who,
				void (*fn)(void *arg, const struct core_event *ev), void *arg,
				struct err *err)
{
	struct core_sub *s = calloc(1, sizeof(*s));

	if (!s) {
		err_set(err, ERR_NOMEM, "out of memory");
		return NULL;
	}
	memcpy(s->org_id, who->org_id, sizeof(s->org_id));
	s->fn = fn;
	s->arg = arg;
	pthread_mutex_lock(&c->subs_lock);
	if (c->nsubs >= SUBS_MAX) {
		pthread_mutex_unlock(&c->subs_lock);
		free(s);
		err_set(err, ERR_LIMIT, "limit of %d event listeners reached; close some",
			SUBS_MAX);
		return NULL;
	}
	s->next = c->subs;
	c->subs = s;
	__atomic_add_fetch(&c->nsubs, 1, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&c->subs_lock);
	return s;
}

void core_unsubscribe(struct core *c, struct core_sub *s)
{
	struct core_sub **at;

	if (!s)
		return;
	pthread_mutex_lock(&c->subs_lock);
	s->gone = true;
	while (s->calls)
		cond_wait_ms(&c->subs_quiet, &c->subs_lock, 1000);
	at = &c->subs;
	while (*at != s)
		at = &(*at)->next;
	*at = s->next;
	__atomic_sub_fetch(&c->nsubs, 1, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&c->subs_lock);
	free(s);
}

/* Call each listener of the organization. One being called can't leave the list. */
static void publish(struct core *c, const struct core_event *ev)
{
	struct core_sub *s;

	pthread_mutex_lock(&c->subs_lock);
	for (s = c->subs; s; s = s->next) {
		if (s->gone || strcmp(s->org_id, ev->sandbox->org_id) != 0)
			continue;
		s->calls++;
		pthread_mutex_unlock(&c->subs_lock);
		s->fn(s->arg, ev);
		pthread_mutex_lock(&c->subs_lock);
		if (--s->calls == 0 && s->gone)
			pthread_cond_broadcast(&c->subs_quiet);
	}
	pthread_mutex_unlock(&c->subs_lock);
}

static bool anybody(struct core *c)
{
	return __atomic_load_n(&c->nsubs, __ATOMIC_ACQUIRE) > 0;
}

void publish_created(struct core *c, const struct sandbox *s)
{
	struct core_event ev = {.kind = EV_SANDBOX_CREATED, .sandbox = s, .old_state = s->state};

	if (anybody(c))
		publish(c, &ev);
}

void publish_state(struct core *c, const char *id, enum sandbox_state old, enum sandbox_state now)
{
	auto_row struct sandbox_row row = {0};
	struct core_event ev = {.kind = EV_SANDBOX_STATE, .sandbox = &row.s, .old_state = old};

	/* A destroyed row isn't found any more: whoever destroys it publishes by itself. */
	if (!anybody(c) || store_sandbox_get(c->st, NULL, id, &row, NULL) != 1)
		return;
	row.s.state = now; /* it may have moved on: this event is of this edge */
	publish(c, &ev);
}

void publish_destroyed(struct core *c, struct sandbox *s)
{
	struct core_event ev = {.kind = EV_SANDBOX_STATE, .sandbox = s, .old_state = SB_DESTROYING};

	s->state = SB_DESTROYED;
	if (anybody(c))
		publish(c, &ev);
}

void publish_oom(struct core *c, const char *id, const struct history_item *item)
{
	auto_row struct sandbox_row row = {0};
	struct core_event ev = {.kind = EV_SANDBOX_OOM, .sandbox = &row.s, .text = item->text};
	struct err err = {0};

	if (store_event_add(c->st, id, item, &err) < 0)
		log_warn("event of %s: %s", id, err.msg);
	if (anybody(c) && store_sandbox_get(c->st, NULL, id, &row, NULL) == 1) {
		ev.old_state = row.s.state;
		publish(c, &ev);
	}
}
