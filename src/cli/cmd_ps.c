/*
 * cmd_ps.c - `caisson ps` and `caisson kill`: execs that run on without their caller.
 */
#include "cli/opt.h"
#include "cli/rest.h"
#include "cli/table.h"

struct args {
	const char *signal;
};

const struct opt opts_kill[] = {
	{0, "signal", "NAME", "send this signal, and do not wait for an end", OPT_STR,
	 offsetof(struct args, signal)},
	{.kind = OPT_END},
};

static void print_execs(const json_t *items)
{
	static const char *const head[] = {"ID",  "STATE",  "CAUSE",  "EXIT",
					   "AGE", "STDOUT", "STDERR", NULL};
	auto_table struct table t = table_on(head);
	json_t *it;
	size_t i;
	json_array_foreach(items, i, it)
	{
		char cell[TEXT_SHORT] = "";
		const json_t *code = json_object_get(it, "exitCode");
		table_add(&t, json_text(it, "id"));
		table_add(&t, json_text(it, "state"));
		table_add(&t, json_text(it, "cause"));
		if (json_is_integer(code))
			snprintf(cell, sizeof(cell), "%lld", (long long)json_integer_value(code));
		table_add(&t, cell);
		text_age(json_text(it, "startedAt"), cell);
		table_add(&t, cell);
		text_bytes((uint64_t)json_number(json_object_get(it, "stdout"), "total"), cell);
		table_add(&t, cell);
		text_bytes((uint64_t)json_number(json_object_get(it, "stderr"), "total"), cell);
		table_add(&t, cell);
	}
	table_print(&t, stdout);
}

int cmd_ps(struct cli *c, int argc, char **argv, struct err *err)
{
	auto_buf struct buf url = BUF_INIT(REST_URL_MAX);
	auto_json json_t *reply = NULL;
	int left = opt_parse(c, argc, argv, NULL, err);
	if (left < 0 || c->help)
		return left < 0 ? CLI_USAGE : CLI_OK;
	if (left != 1)
		return cli_usage(err, "takes one sandbox, by id or name");
	if (url_of(&url, "/caisson/sandboxes/", argv[0], "/execs", err) < 0 ||
	    rest_call(c, "GET", buf_str(&url), NULL, &reply, err) < 0)
		return CLI_FAILED;
	if (c->json)
		return json_print(json_object_get(reply, "items"));
	print_execs(json_object_get(reply, "items"));
	return CLI_OK;
}

int cmd_kill(struct cli *c, int argc, char **argv, struct err *err)
{
	auto_buf struct buf url = BUF_INIT(REST_URL_MAX);
	auto_json json_t *body = json_object(), *reply = NULL;
	struct args a = {0};
	int left = opt_parse(c, argc, argv, &a, err);
	if (left < 0 || c->help)
		return left < 0 ? CLI_USAGE : CLI_OK;
	if (left != 2)
		return cli_usage(err, "takes a sandbox and the id of an exec");
	if (a.signal)
		json_object_set_new(body, "signal", json_string(a.signal));
	if (url_of(&url, "/caisson/sandboxes/", argv[0], "/exec", err) < 0 ||
	    url_of(&url, "/", argv[1], a.signal ? "/signal" : "/kill", err) < 0 ||
	    rest_call(c, "POST", buf_str(&url), body, &reply, err) < 0)
		return CLI_FAILED;
	return c->json && !a.signal ? json_print(reply) : CLI_OK;
}
