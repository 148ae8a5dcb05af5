/*
 * cmd_key.c - `caisson key create`, `list` and `delete`.
 */
#include <string.h>

#include "base/clock.h"
#include "cli/opt.h"
#include "cli/rest.h"
#include "cli/table.h"

#define PERMISSIONS_SHOWN 2

struct args {
	struct opt_list permissions;
	int64_t expires_ms;
};

const struct opt opts_key_create[] = {
	{'p', "permission", "NAME", "what it may do (repeat; default: all a sandbox needs)",
	 OPT_LIST, offsetof(struct args, permissions)},
	{0, "expires", "TIME", "end of its life, from now", OPT_SECS,
	 offsetof(struct args, expires_ms)},
	{.kind = OPT_END},
};

static json_t *key_body(const char *name, const struct args *a)
{
	static const char *const usual[] = {"write:sandboxes", "delete:sandboxes"};
	json_t *o = json_object(), *p = json_array();
	for (size_t i = 0; i < a->permissions.n; i++)
		json_array_append_new(p, json_string(a->permissions.v[i]));
	for (size_t i = 0; !a->permissions.n && i < ARRAY_LEN(usual); i++)
		json_array_append_new(p, json_string(usual[i]));
	json_object_set_new(o, "name", json_string(name));
	json_object_set_new(o, "permissions", p);
	if (a->expires_ms != OPT_UNSET) {
		char iso[CLOCK_ISO_LEN];
		clock_iso(clock_wall_ms() + a->expires_ms, iso);
		json_object_set_new(o, "expiresAt", json_string(iso));
	}
	return o;
}

int cmd_key_create(struct cli *c, int argc, char **argv, struct err *err)
{
	struct args a = {0};
	int left = opt_parse(c, argc, argv, &a, err);
	if (left < 0 || c->help)
		return left < 0 ? CLI_USAGE : CLI_OK;
	if (left != 1) {
		err_set(err, ERR_INVALID, "takes one name");
		return CLI_USAGE;
	}
	auto_json json_t *body = key_body(argv[0], &a), *key = NULL;
	if (rest_call(c, "POST", "/api-keys", body, &key, err) < 0)
		return CLI_FAILED;
	if (c->json)
		return json_print(key);
	printf("%s\n", json_text(key, "value"));
	return CLI_OK;
}

static void add_age(struct table *t, const char *iso)
{
	char cell[TEXT_SHORT];
	text_age(iso, cell);
	table_add(t, cell);
}

/* The first ones and how many more; --json tells them all. */
static void permissions_short(const json_t *list, char *out, size_t cap)
{
	json_t *p;
	size_t i, n = 0;
	*out = '\0';
	json_array_foreach(list, i, p)
	{
		if (i == PERMISSIONS_SHOWN)
			break;
		snprintf(out + n, cap - n, "%s%.40s", i ? "," : "",
			 json_is_string(p) ? json_string_value(p) : "?");
		n = strlen(out);
	}
	if (json_array_size(list) > PERMISSIONS_SHOWN)
		snprintf(out + n, cap - n, " +%zu", json_array_size(list) - PERMISSIONS_SHOWN);
}

int cmd_key_list(struct cli *c, int argc, char **argv, struct err *err)
{
	static const char *const head[] = {"NAME",	"KEY",	   "PERMISSIONS", "AGE",
					   "LAST USED", "EXPIRES", NULL};
	auto_json json_t *all = NULL;
	auto_table struct table t = table_on(head);
	json_t *it;
	size_t i;
	if (opt_parse(c, argc, argv, NULL, err) < 0)
		return CLI_USAGE;
	if (c->help)
		return CLI_OK;
	if (rest_call(c, "GET", "/api-keys", NULL, &all, err) < 0)
		return CLI_FAILED;
	if (c->json)
		return json_print(all);
	json_array_foreach(all, i, it)
	{
		char perms[128];
		permissions_short(json_object_get(it, "permissions"), perms, sizeof(perms));
		table_add(&t, json_text(it, "name"));
		table_add(&t, json_text(it, "value"));
		table_add(&t, perms);
		add_age(&t, json_text(it, "createdAt"));
		add_age(&t, json_text(it, "lastUsedAt"));
		table_add(&t, json_text(it, "expiresAt"));
	}
	table_print(&t, stdout);
	return CLI_OK;
}

int cmd_key_delete(struct cli *c, int argc, char **argv, struct err *err)
{
	return rest_delete_each(c, argc, argv, "/api-keys/", "key", err);
}
