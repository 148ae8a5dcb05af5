/*
 * cmd_logs.c - `caisson logs`: what happened to a sandbox, oldest first, and why.
 */
#include "cli/opt.h"
#include "cli/rest.h"
#include "cli/table.h"

#define LOGS_PAGE "500"

/* All pages into one array; the server keeps a bounded number. */
static int events_all(struct cli *c, const char *name, json_t *items, struct err *err)
{
	char cursor[32] = "0";
	json_t *next;

	do {
		auto_buf struct buf url = BUF_INIT(REST_URL_MAX);
		auto_json json_t *page = NULL;
		if (url_of(&url, "/caisson/sandboxes/", name, "/events", err) < 0 ||
		    url_query(&url, "limit", LOGS_PAGE, err) < 0 ||
		    url_query(&url, "cursor", cursor, err) < 0 ||
		    rest_call(c, "GET", buf_str(&url), NULL, &page, err) < 0)
			return -1;
		json_array_extend(items, json_object_get(page, "items"));
		next = json_object_get(page, "nextCursor");
		if (next)
			snprintf(cursor, sizeof(cursor), "%lld",
				 (long long)json_integer_value(next));
	} while (next);
	return 0;
}

static void print_event(const json_t *it)
{
	const char *state = json_text(it, "state");
	text_print(stdout, json_text(it, "at"));
	printf("  ");
	text_print(stdout, *state ? state : json_text(it, "kind"));
	if (*json_text(it, "reason")) {
		printf(": ");
		text_print(stdout, json_text(it, "reason"));
	}
	fputc('\n', stdout);
}

int cmd_logs(struct cli *c, int argc, char **argv, struct err *err)
{
	auto_json json_t *items = json_array();
	json_t *it;
	size_t i;
	int left = opt_parse(c, argc, argv, NULL, err);
	if (left < 0 || c->help)
		return left < 0 ? CLI_USAGE : CLI_OK;
	if (left != 1) {
		err_set(err, ERR_INVALID, "takes one sandbox, by id or name");
		return CLI_USAGE;
	}
	if (events_all(c, argv[0], items, err) < 0)
		return CLI_FAILED;
	if (c->json)
		return json_print(items);
	json_array_foreach(items, i, it) print_event(it);
	return CLI_OK;
}
