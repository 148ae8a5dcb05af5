/*
 * cmd_watch.c - `caisson watch`: changes below a path of a sandbox, as they happen.
 */
#include <string.h>

#include "cli/lines.h"
#include "cli/opt.h"
#include "cli/rest.h"
#include "cli/table.h"

struct args {
	bool recursive;
};

const struct opt opts_watch[] = {
	{'r', "recursive", NULL, "also in all folders below", OPT_FLAG,
	 offsetof(struct args, recursive)},
	{.kind = OPT_END},
};

struct watch {
	struct cli *c;
	char event[32];
	bool over; /* the watched place is gone */
};

static void print_change(const char *event, const json_t *data)
{
	printf("%-8s ", event);
	if (*json_text(data, "from")) {
		text_print(stdout, json_text(data, "from"));
		fputs(" -> ", stdout);
	}
	text_print(stdout, json_text(data, "path"));
	puts(json_is_true(json_object_get(data, "isDir")) ? "/" : "");
}

static int on_data(struct watch *w, const char *text, struct err *err)
{
	auto_json json_t *data = json_loads(text, 0, NULL);
	if (!strcmp(w->event, "error"))
		return err_set(err, ERR_UNAVAILABLE, "%s", json_text(data, "message"));
	w->over |= !strcmp(w->event, "end");
	if (w->c->json) {
		json_object_set_new(data, "type", json_string(w->event));
		json_dumpf(data, stdout, JSON_COMPACT | JSON_ENSURE_ASCII);
		putchar('\n');
	} else if (!strcmp(w->event, "overflow")) {
		fputs("caisson: watch: changes were lost: look at everything again\n", stderr);
	} else if (!strcmp(w->event, "limit")) {
		fputs("caisson: watch: not all folders are watched: ", stderr);
		text_print(stderr, json_text(data, "path"));
		fputs(" has too many\n", stderr);
	} else if (!strcmp(w->event, "ready")) {
		/* For those who wait for it before they change something. */
		if (!w->c->quiet)
			fputs("caisson: watch: ready\n", stderr);
	} else if (!w->over) {
		print_change(w->event, data);
	}
	/* Our reader may be gone, as for "| head". */
	return fflush(stdout) == 0 ? 0 : err_set(err, ERR_CANCELLED, "write output");
}

/* Lines of server-sent events: "event: NAME", then "data: JSON". */
static int on_line(void *arg, char *line, struct err *err)
{
	struct watch *w = arg;
	if (!strncmp(line, "event: ", 7))
		snprintf(w->event, sizeof(w->event), "%s", line + 7);
	return strncmp(line, "data: ", 6) ? 0 : on_data(w, line + 6, err);
}

int cmd_watch(struct cli *c, int argc, char **argv, struct err *err)
{
	auto_buf struct buf url = BUF_INIT(REST_URL_MAX);
	auto_call(lines_done) struct lines lines;
	struct args a = {0};
	struct watch w = {.c = c};
	lines_init(&lines, on_line, &w);
	int left = opt_parse(c, argc, argv, &a, err);
	if (left < 0 || c->help)
		return left < 0 ? CLI_USAGE : CLI_OK;
	if (left < 1 || left > 2)
		return cli_usage(err, "takes a sandbox and a path");
	if (url_of(&url, "/caisson/sandboxes/", argv[0], "/watch", err) < 0 ||
	    url_query(&url, "path", left == 2 ? argv[1] : ".", err) < 0 ||
	    (a.recursive && url_query(&url, "recursive", "true", err) < 0))
		return CLI_FAILED;
	struct rest_stream s = {.write = lines_add, .arg = &lines, .size = -1};
	if (rest_stream(c, "GET", buf_str(&url), &s, NULL, err) == 0)
		return w.over ? CLI_OK
			      : (err_set(err, ERR_UNAVAILABLE, "the watch ended"), CLI_FAILED);
	if (err->code != ERR_CANCELLED)
		return CLI_FAILED;
	*err = (struct err){0};
	return CLI_OK;
}
