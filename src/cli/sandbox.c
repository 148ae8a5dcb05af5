/*
 * sandbox.c - create, wait, delete.
 */
#include "cli/sandbox.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/rest.h"
#include "cli/table.h"

void create_args_done(struct create_args *a)
{
	kv_done(&a->env);
	kv_done(&a->labels);
}

bool cli_progress(const struct cli *c)
{
	return !c->quiet && isatty(STDERR_FILENO);
}

static void put_text(json_t *o, const char *key, const char *value)
{
	if (value)
		json_object_set_new(o, key, json_string(value));
}

static void put_number(json_t *o, const char *key, int64_t value)
{
	if (value != OPT_UNSET)
		json_object_set_new(o, key, json_integer(value));
}

static void put_minutes(json_t *o, const char *key, int64_t ms)
{
	if (ms != OPT_UNSET)
		json_object_set_new(o, key, json_integer(ms / 60000));
}

static void put_kv(json_t *o, const char *key, const struct kv *kv)
{
	json_t *m = json_object();
	for (size_t i = 0; i < kv->n; i++)
		put_text(m, kv->pair[i].key, kv->pair[i].value);
	json_object_set_new(o, key, m);
}

static json_t *create_body(const struct create_args *a)
{
	json_t *o = json_object();
	put_text(o, "name", a->name);
	put_text(o, "snapshot", a->snapshot);
	put_text(o, "user", a->user);
	put_text(o, "target", a->target);
	put_kv(o, "env", &a->env);
	put_kv(o, "labels", &a->labels);
	put_number(o, "cpu", a->cpu);
	put_number(o, "memory", a->memory);
	put_number(o, "disk", a->disk);
	put_minutes(o, "autoStopInterval", a->auto_stop);
	put_minutes(o, "autoArchiveInterval", a->auto_archive);
	put_minutes(o, "autoDeleteInterval", a->auto_delete);
	put_minutes(o, "ttlMinutes", a->ttl);
	if (a->is_public)
		json_object_set_new(o, "public", json_true());
	if (a->block_network)
		json_object_set_new(o, "networkBlockAll", json_true());
	return o;
}

static bool state_is_final(const char *state)
{
	static const char *const end[] = {"started",   "stopped", "error",    "build_failed",
					  "destroyed", "paused",  "archived", "unknown"};
	for (size_t i = 0; i < ARRAY_LEN(end); i++)
		if (!strcmp(state, end[i]))
			return true;
	return false;
}

/* Deleted by the stop that was asked for. */
static bool ends_by_stop(const json_t *sb, const char *want)
{
	const json_t *after = json_object_get(sb, "autoDeleteInterval");
	return !strcmp(want, "stopped") && json_is_integer(after) && !json_integer_value(after);
}

/* One more look at the sandbox. One that is gone counts as destroyed. */
static int refresh(struct cli *c, json_t **sb, const char *want, struct err *err)
{
	json_t *fresh = NULL;
	if (rest_sandbox(c, json_text(*sb, "id"), &fresh, err) == 0) {
		json_decref(*sb);
		*sb = fresh;
		return 0;
	}
	if (err->code != ERR_NOT_FOUND || (strcmp(want, "destroyed") && !ends_by_stop(*sb, want)))
		return -1;
	*err = (struct err){0};
	json_object_set_new(*sb, "state", json_string("destroyed"));
	return 0;
}

int sandbox_wait(struct cli *c, json_t **sb, const char *want, int64_t wait_ms, struct err *err)
{
	int64_t deadline = clock_mono_ms() + (wait_ms == OPT_UNSET ? SANDBOX_WAIT_MS : wait_ms);
	long pause_ms = 20;
	for (;;) {
		const char *state = json_text(*sb, "state");
		if (!strcmp(state, want))
			return 0;
		if (!strncmp(state, "destroy", 7) && ends_by_stop(*sb, want)) {
			json_object_set_new(*sb, "state", json_string("destroyed"));
			return 0;
		}
		if (state_is_final(state)) {
			const char *why = json_text(*sb, "errorReason");
			return err_set(err, ERR_CONFLICT, "%s is %s%s%s", json_text(*sb, "name"),
				       state, *why ? ": " : "", why);
		}
		if (clock_left_ms(deadline) == 0)
			return err_set(err, ERR_TIMEOUT, "%s is still %s after the time to wait",
				       json_text(*sb, "name"), state);
		struct timespec t = {.tv_nsec = pause_ms * 1000000L};
		nanosleep(&t, NULL);
		pause_ms = MIN(pause_ms * 3 / 2, 500L);
		if (refresh(c, sb, want, err) < 0)
			return -1;
	}
}

int sandbox_create(struct cli *c, const struct create_args *a, json_t **ret, struct err *err)
{
	auto_json json_t *body = create_body(a), *sb = NULL;
	if (rest_call(c, "POST", "/sandbox", body, &sb, err) < 0)
		return -1;
	if (!*json_text(sb, "id"))
		return err_set(err, ERR_INTERNAL, "the server's reply names no sandbox");
	int rc = a->no_wait ? 0 : sandbox_wait(c, &sb, "started", a->wait_ms, err);
	*ret = TAKE_PTR(sb);
	return rc;
}

int sandbox_delete(struct cli *c, const char *id, struct err *err)
{
	auto_buf struct buf url = BUF_INIT(REST_URL_MAX);
	if (url_of(&url, "/sandbox/", id, "", err) < 0)
		return -1;
	return rest_call(c, "DELETE", buf_str(&url), NULL, NULL, err);
}
