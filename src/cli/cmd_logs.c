/*
 * cmd_logs.c - `caisson logs`: what happened to a sandbox, oldest first, and why; or what a
 * detached exec has said, or what its agent failed at.
 */
#include <time.h>

#include "cli/exec_log.h"
#include "cli/opt.h"
#include "cli/rest.h"
#include "cli/table.h"

#define LOGS_PAGE "500"

struct args {
	bool follow, agent;
};

const struct opt opts_logs[] = {
	{0, "agent", NULL, "what its agent failed at, with the id of the request", OPT_FLAG,
	 offsetof(struct args, agent)},
	{'f', "follow", NULL, "go on as more comes", OPT_FLAG, offsetof(struct args, follow)},
	{.kind = OPT_END},
};

/* Pages behind *cursor into one array, and the cursor behind them; the server keeps a bounded
 * number. */
static int events_since(struct cli *c, const char *name, int64_t *cursor, json_t *items,
			struct err *err)
{
	json_t *next;

	do {
		char text[32];
		auto_buf struct buf url = BUF_INIT(REST_URL_MAX);
		auto_json json_t *page = NULL;
		snprintf(text, sizeof(text), "%lld", (long long)*cursor);
		if (url_of(&url, "/caisson/sandboxes/", name, "/events", err) < 0 ||
		    url_query(&url, "limit", LOGS_PAGE, err) < 0 ||
		    url_query(&url, "cursor", text, err) < 0 ||
		    rest_call(c, "GET", buf_str(&url), NULL, &page, err) < 0)
			return -1;
		json_t *list = json_object_get(page, "items");
		size_t n = json_array_size(list);
		json_array_extend(items, list);
		if (n)
			*cursor = json_number(json_array_get(list, n - 1), "id");
		next = json_object_get(page, "nextCursor");
	} while (json_is_integer(next));
	return 0;
}

static void print_failure(const json_t *it)
{
	text_print(stdout, json_text(it, "at"));
	printf("  [");
	text_print(stdout, json_text(it, "requestId"));
	printf("] ");
	text_print(stdout, json_text(it, "message"));
	fputc('\n', stdout);
}

static int print_failures(struct cli *c, const char *name, struct err *err)
{
	auto_buf struct buf url = BUF_INIT(REST_URL_MAX);
	auto_json json_t *page = NULL;
	json_t *items, *it;
	size_t i;
	if (url_of(&url, "/caisson/sandboxes/", name, "/failures", err) < 0 ||
	    rest_call(c, "GET", buf_str(&url), NULL, &page, err) < 0)
		return CLI_FAILED;
	items = json_object_get(page, "items");
	if (c->json)
		return json_print(items);
	json_array_foreach(items, i, it) print_failure(it);
	return CLI_OK;
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

static int print_events(const struct cli *c, const json_t *items)
{
	json_t *it;
	size_t i;
	json_array_foreach(items, i, it)
	{
		if (c->json) {
			json_dumpf(it, stdout, JSON_COMPACT | JSON_ENSURE_ASCII);
			putchar('\n');
		} else {
			print_event(it);
		}
	}
	return fflush(stdout);
}

/* Until the sandbox is gone, or our reader is. */
static int follow_events(struct cli *c, const char *name, struct err *err)
{
	static const struct timespec second = {.tv_sec = 1};
	int64_t cursor = 0;
	for (bool any = false;; any = true) {
		auto_json json_t *items = json_array();
		if (events_since(c, name, &cursor, items, err) < 0) {
			if (!any || err->code != ERR_NOT_FOUND)
				return CLI_FAILED;
			*err = (struct err){0};
			return CLI_OK;
		}
		if (print_events(c, items) != 0)
			return CLI_OK;
		nanosleep(&second, NULL);
	}
}

int cmd_logs(struct cli *c, int argc, char **argv, struct err *err)
{
	auto_json json_t *items = json_array();
	struct args a = {0};
	int64_t cursor = 0;
	int left = opt_parse(c, argc, argv, &a, err);
	if (left < 0 || c->help)
		return left < 0 ? CLI_USAGE : CLI_OK;
	if (left < 1 || left > 2)
		return cli_usage(err, "takes one sandbox, by id or name, and the id of an exec");
	if (a.agent)
		return print_failures(c, argv[0], err);
	if (left == 2)
		return exec_log_print(c, argv[0], argv[1], a.follow, err) < 0 ? CLI_FAILED : CLI_OK;
	if (a.follow)
		return follow_events(c, argv[0], err);
	if (events_since(c, argv[0], &cursor, items, err) < 0)
		return CLI_FAILED;
	if (c->json)
		return json_print(items);
	print_events(c, items);
	return CLI_OK;
}
