/*
 * toolbox.c - building one call after the other. Faults of building are kept and told by the call,
 * so that callers read as the list of what they send.
 */
#include "cli/toolbox.h"

#include <string.h>

#include "cli/opt.h"

int toolbox_open(struct toolbox *t, struct cli *c, const char *sandbox, struct err *err)
{
	auto_json json_t *sb = NULL;
	*t = (struct toolbox){.c = c, .patience_s = REST_PATIENCE_S};
	buf_init(&t->base, REST_URL_MAX);
	buf_init(&t->url, REST_URL_MAX);
	if (rest_sandbox(c, sandbox, &sb, err) < 0)
		return -1;
	return rest_toolbox(c, sb, &t->base, err);
}

void toolbox_done(struct toolbox *t)
{
	buf_done(&t->base);
	buf_done(&t->url);
	json_decref(t->body);
	t->body = NULL;
}

void toolbox_begin(struct toolbox *t, const char *path)
{
	struct err err = {0};
	buf_clear(&t->url);
	json_decref(t->body);
	t->body = NULL;
	t->failed =
		buf_adds(&t->url, buf_str(&t->base), &err) < 0 || buf_adds(&t->url, path, &err) < 0;
}

void toolbox_segment(struct toolbox *t, const char *name, const char *suffix)
{
	struct err err = {0};
	t->failed |= url_of(&t->url, "/", name, suffix, &err) < 0;
}

void toolbox_query(struct toolbox *t, const char *key, const char *value)
{
	struct err err = {0};
	if (value)
		t->failed |= url_query(&t->url, key, value, &err) < 0;
}

static void put(struct toolbox *t, const char *key, json_t *value)
{
	if (!t->body)
		t->body = json_object();
	t->failed |= !value || json_object_set_new(t->body, key, value) < 0;
}

void toolbox_text(struct toolbox *t, const char *key, const char *value)
{
	if (value)
		put(t, key, json_string(value));
}

void toolbox_flag(struct toolbox *t, const char *key, bool value)
{
	if (value)
		put(t, key, json_true());
}

void toolbox_int(struct toolbox *t, const char *key, int64_t value)
{
	if (value != OPT_UNSET)
		put(t, key, json_integer(value));
}

void toolbox_texts(struct toolbox *t, const char *key, char **value, int n)
{
	json_t *list = json_array();
	for (int i = 0; i < n; i++)
		t->failed |= json_array_append_new(list, json_string(value[i])) < 0;
	put(t, key, list);
}

int toolbox_call(struct toolbox *t, const char *method, json_t **ret, struct err *err)
{
	if (t->failed)
		return err_set(err, ERR_INVALID, "an argument is empty, too long or not UTF-8");
	return rest_call_for(t->c, method, buf_str(&t->url), t->body, t->patience_s, ret, err);
}
