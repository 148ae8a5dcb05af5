/*
 * cmd_list.c - `caisson list` and `get`.
 */
#include <string.h>

#include "cli/opt.h"
#include "cli/rest.h"
#include "cli/table.h"

#define LIST_PAGE   "200"
#define GONE_PREFIX "DESTROYED_" /* then the former name, "_" and something unlike others */
#define LIST_MAX    100000	 /* rows, unless --limit says fewer */

struct args {
	struct kv labels;
	struct opt_list states;
	const char *name;
	int64_t limit;
	bool all, names;
};

#define A(field) offsetof(struct args, field)
const struct opt opts_list[] = {
	{'l', "label", "KEY=VALUE", "only with this label (repeat)", OPT_KV, A(labels)},
	{'s', "state", "STATE", "only in this state (repeat)", OPT_LIST, A(states)},
	{'n', "name", "PREFIX", "only names that start so", OPT_STR, A(name)},
	{0, "limit", "N", "at most so many", OPT_INT, A(limit)},
	{'a', "all", NULL, "also failed ones that were deleted", OPT_FLAG, A(all)},
	{0, "names", NULL, "print only names", OPT_FLAG, A(names)},
	{.kind = OPT_END},
};

static int list_url(const struct args *a, const char *cursor, struct buf *url, struct err *err)
{
	int rc = buf_adds(url, "/sandbox?limit=" LIST_PAGE, err);
	if (rc == 0 && *cursor)
		rc = url_query(url, "cursor", cursor, err);
	if (rc == 0 && a->name)
		rc = url_query(url, "name", a->name, err);
	if (rc == 0 && a->all)
		rc = url_query(url, "includeErroredDeleted", "true", err);
	for (size_t i = 0; rc == 0 && i < a->states.n; i++)
		rc = url_query(url, "states", a->states.v[i], err);
	if (rc == 0 && a->labels.n) {
		auto_json json_t *o = json_object();
		for (size_t i = 0; i < a->labels.n; i++)
			json_object_set_new(o, a->labels.pair[i].key,
					    json_string(a->labels.pair[i].value));
		auto_free char *text = json_dumps(o, JSON_COMPACT);
		rc = text ? url_query(url, "labels", text, err)
			  : err_set(err, ERR_INVALID, "the label is not valid UTF-8");
	}
	return rc;
}

/* All pages into one array. */
static int list_all(struct cli *c, const struct args *a, json_t *items, struct err *err)
{
	size_t max = a->limit == OPT_UNSET ? LIST_MAX : (size_t)a->limit;
	char cursor[1024] = "";
	do {
		auto_buf struct buf url = BUF_INIT(REST_URL_MAX);
		auto_json json_t *page = NULL;
		if (list_url(a, cursor, &url, err) < 0 ||
		    rest_call(c, "GET", buf_str(&url), NULL, &page, err) < 0)
			return -1;
		json_t *it;
		size_t i;
		json_array_foreach(json_object_get(page, "items"), i,
				   it) if (json_array_size(items) < max)
			json_array_append(items, it);
		snprintf(cursor, sizeof(cursor), "%s", json_text(page, "nextCursor"));
	} while (*cursor && json_array_size(items) < max);
	return 0;
}

/* A sandbox on its way out gave its name free; people are shown the one it had. */
static void name_of(const json_t *sb, char out[256])
{
	const char *name = json_text(sb, "name"), *tail = strrchr(name, '_');
	bool former = !strncmp(name, GONE_PREFIX, strlen(GONE_PREFIX));
	const char *start = former ? name + strlen(GONE_PREFIX) : name;
	int n = former && tail > start ? (int)MIN((size_t)(tail - start), 255u) : 255;
	snprintf(out, 256, "%.*s", n, start);
}

/* For completion and loops: only what still answers to its name. */
static void print_names(const json_t *items)
{
	json_t *it;
	size_t i;
	json_array_foreach(items, i, it)
	{
		if (!strncmp(json_text(it, "state"), "destroy", 7))
			continue;
		text_print(stdout, json_text(it, "name"));
		fputc('\n', stdout);
	}
}

static void print_table(const json_t *items)
{
	static const char *const head[] = {"NAME",   "ID",   "STATE", "SNAPSHOT", "CPU",
					   "MEMORY", "DISK", "AGE",   NULL};
	auto_table struct table t = table_on(head);
	char cell[TEXT_SHORT], name[256];
	json_t *it;
	size_t i;
	json_array_foreach(items, i, it)
	{
		name_of(it, name);
		table_add(&t, name);
		table_add(&t, json_text(it, "id"));
		table_add(&t, json_text(it, "state"));
		table_add(&t, json_text(it, "snapshot"));
		snprintf(cell, sizeof(cell), "%g", json_number_value(json_object_get(it, "cpu")));
		table_add(&t, cell);
		snprintf(cell, sizeof(cell), "%g GiB",
			 json_number_value(json_object_get(it, "memory")));
		table_add(&t, cell);
		snprintf(cell, sizeof(cell), "%lld GiB", (long long)json_number(it, "disk"));
		table_add(&t, cell);
		text_age(json_text(it, "createdAt"), cell);
		table_add(&t, cell);
	}
	table_print(&t, stdout);
}

int cmd_list(struct cli *c, int argc, char **argv, struct err *err)
{
	struct args a = {0};
	auto_json json_t *items = json_array();
	int code = CLI_USAGE, left = opt_parse(c, argc, argv, &a, err);
	if (left > 0)
		err_set(err, ERR_INVALID, "takes no argument");
	else if (left == 0 && c->help)
		code = CLI_OK;
	else if (left == 0)
		code = list_all(c, &a, items, err) < 0 ? CLI_FAILED : CLI_OK;
	if (code == CLI_OK && !c->help && c->json)
		code = json_print(items);
	else if (code == CLI_OK && !c->help && a.names)
		print_names(items);
	else if (code == CLI_OK && !c->help)
		print_table(items);
	kv_done(&a.labels);
	return code;
}

static void print_value(const char *key, const json_t *v)
{
	auto_free char *text = NULL;
	if (!v || json_is_null(v))
		return;
	if (!json_is_string(v))
		text = json_dumps(v, JSON_ENCODE_ANY | JSON_ENSURE_ASCII);
	printf("%-20s ", key);
	text_print(stdout, text ? text : json_string_value(v) ? json_string_value(v) : "");
	fputc('\n', stdout);
}

static int one(struct cli *c, int argc, char **argv, json_t **ret, struct err *err)
{
	int left = opt_parse(c, argc, argv, NULL, err);
	if (left < 0 || c->help)
		return left < 0 ? CLI_USAGE : CLI_OK;
	if (left != 1) {
		err_set(err, ERR_INVALID, "takes one sandbox, by id or name");
		return CLI_USAGE;
	}
	return rest_sandbox(c, argv[0], ret, err) < 0 ? CLI_FAILED : CLI_OK;
}

static void print_keys(const json_t *sb, const char *const *key)
{
	for (; *key; key++)
		print_value(*key, json_object_get(sb, *key));
}

int cmd_get(struct cli *c, int argc, char **argv, struct err *err)
{
	static const char *const keys[] = {"id",
					   "name",
					   "state",
					   "errorReason",
					   "snapshot",
					   "user",
					   "target",
					   "cpu",
					   "memory",
					   "disk",
					   "env",
					   "labels",
					   "public",
					   "networkBlockAll",
					   "autoStopInterval",
					   "autoArchiveInterval",
					   "autoDeleteInterval",
					   "autoDestroyAt",
					   "createdAt",
					   "updatedAt",
					   "lastActivityAt",
					   "toolboxProxyUrl",
					   NULL};
	auto_json json_t *sb = NULL;
	int code = one(c, argc, argv, &sb, err);
	if (code != CLI_OK || !sb)
		return code;
	if (c->json)
		return json_print(sb);
	print_keys(sb, keys);
	return CLI_OK;
}
