/*
 * sandbox_set.c - what may be changed on a sandbox in any live state: labels, visibility, timers,
 * environment, activity.
 */
#include <string.h>

#include "base/clock.h"
#include "core/int.h"

#define ARCHIVE_MAX_MIN 43200 /* what 0 stands for */
#define ENV_TRIES	64

static int row_again(struct core *c, const struct caller *who, int done, const char *id,
		     struct sandbox *ret, struct err *err)
{
	if (done < 0)
		return -1;
	if (done == 0)
		return err_set(err, ERR_NOT_FOUND, "sandbox %s not found", id);
	return sandbox_get(c, who, id, ret, err);
}

/* A sandbox on its way out takes no changes. */
static int row_live(struct core *c, const struct caller *who, const char *id_or_name,
		    struct sandbox_row *ret, struct err *err)
{
	if (row_need(c, who, id_or_name, ret, err) < 0)
		return -1;
	if (ret->s.state == SB_DESTROYING)
		return err_tagged(err, ERR_CONFLICT, "STATE_CHANGE_IN_PROGRESS",
				  "sandbox %s is being deleted", ret->s.id);
	return 0;
}

int sandbox_set_labels(struct core *c, const struct caller *who, const char *id_or_name,
		       const struct kv *labels, struct sandbox *ret, struct err *err)
{
	auto_row struct sandbox_row row = {0};
	int done;

	if (valid_labels("labels", labels, err) < 0 || row_live(c, who, id_or_name, &row, err) < 0)
		return -1;
	done = store_sandbox_labels(c->st, row.s.id, labels, clock_wall_ms(), err);
	return row_again(c, who, done, row.s.id, ret, err);
}

int sandbox_set_public(struct core *c, const struct caller *who, const char *id_or_name, bool on,
		       struct sandbox *ret, struct err *err)
{
	auto_row struct sandbox_row row = {0};
	int done;

	if (row_live(c, who, id_or_name, &row, err) < 0)
		return -1;
	done = store_sandbox_public(c->st, row.s.id, on, clock_wall_ms(), err);
	return row_again(c, who, done, row.s.id, ret, err);
}

static int timer_fits(const struct sandbox *s, enum sandbox_timer t, int64_t minutes,
		      struct err *err)
{
	if (t == TIMER_STOP && minutes > 0 && s->auto_pause_min > 0)
		return err_set(err, ERR_INVALID,
			       "autoStopInterval: must be 0 while autoPauseInterval is not 0");
	if (t == TIMER_PAUSE && minutes > 0 && s->auto_stop_min > 0)
		return err_set(err, ERR_INVALID,
			       "autoPauseInterval: must be 0 while autoStopInterval is not 0");
	if (t == TIMER_PAUSE && minutes > 0 && s->auto_delete_min == 0)
		return err_set(err, ERR_INVALID,
			       "autoPauseInterval: must be 0 for an ephemeral sandbox");
	return 0;
}

int sandbox_set_timer(struct core *c, const struct caller *who, const char *id_or_name,
		      enum sandbox_timer t, int64_t minutes, struct sandbox *ret, struct err *err)
{
	auto_row struct sandbox_row row = {0};
	int64_t now = clock_wall_ms(), value = minutes;
	int done;

	if ((unsigned)t > TIMER_TTL)
		return err_set(err, ERR_INVALID, "unknown timer");
	if (valid_timer(t, minutes, err) < 0 || row_live(c, who, id_or_name, &row, err) < 0 ||
	    timer_fits(&row.s, t, minutes, err) < 0)
		return -1;
	if (t == TIMER_DELETE && minutes < 0)
		value = -1;
	if (t == TIMER_ARCHIVE && minutes == 0)
		value = ARCHIVE_MAX_MIN;
	if (t == TIMER_TTL && minutes > 0)
		value = now + minutes * 60000;
	done = store_sandbox_timer(c->st, row.s.id, t, value, now, err);
	return row_again(c, who, done, row.s.id, ret, err);
}

int sandbox_touch(struct core *c, const struct caller *who, const char *id_or_name, struct err *err)
{
	auto_row struct sandbox_row row = {0};

	if (row_need(c, who, id_or_name, &row, err) < 0)
		return -1;
	slot_touch(c, row.s.id);
	return 0;
}

/* Names go first, then values, then comes what is set. */
static int env_apply(struct kv *env, const struct kv *was, const struct sandbox_env_change *ch,
		     struct err *err)
{
	const char *prefix = ch->unset_value_prefix;

	if (kv_copy(env, was, err) < 0)
		return -1;
	for (size_t i = 0; i < ch->nunset; i++)
		kv_unset(env, ch->unset[i]);
	for (size_t i = 0; prefix && prefix[0] && i < was->n; i++)
		if (strncmp(was->pair[i].value, prefix, strlen(prefix)) == 0)
			kv_unset(env, was->pair[i].key);
	return ch->set ? kv_merge(env, ch->set, err) : 0;
}

/* One try: 1 done, 0 when somebody else changed the environment meanwhile. */
static int env_change(struct core *c, const char *id, const struct kv *was,
		      const struct sandbox_env_change *ch, struct kv *env, struct err *err)
{
	if (env_apply(env, was, ch, err) < 0)
		return -1;
	/* The whole map, so that many small additions stay below the bounds too. */
	if (valid_env("env", env, err) < 0)
		return -1;
	return store_sandbox_env(c->st, id, was, env, clock_wall_ms(), err);
}

int sandbox_env(struct core *c, const struct caller *who, const char *id,
		const struct sandbox_env_change *change, struct kv *ret, struct err *err)
{
	auto_kv struct kv env = {0};
	int done = 0;

	for (int i = 0; done == 0 && i < ENV_TRIES; i++) {
		auto_row struct sandbox_row row = {0};

		if (row_live(c, who, id, &row, err) < 0)
			return -1;
		done = env_change(c, row.s.id, &row.s.env, change, &env, err);
		if (done > 0)
			slot_touch(c, row.s.id);
	}
	if (done <= 0)
		return done < 0 ? -1
				: err_set(err, ERR_CONFLICT,
					  "env: changed by others all the time; try again");
	if (ret) {
		*ret = env;
		env = (struct kv){0};
	}
	return 0;
}
