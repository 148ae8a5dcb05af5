/*
 * cmd_state.c - `caisson start`, `stop` and `delete`: one verb on many sandboxes. A failure of one
 * does not spare the others; the exit code tells.
 */
#include <string.h>

#include "cli/opt.h"
#include "cli/rest.h"
#include "cli/sandbox.h"
#include "cli/table.h"

struct args {
	int64_t wait_ms;
	bool no_wait, force, wait, ignore_missing;
};

#define A(field) offsetof(struct args, field)
#define WAIT_OPT                                                                                   \
	{                                                                                          \
		0, "wait", "TIME", "most to wait, 60 s unless given", OPT_SECS, A(wait_ms)         \
	}
#define NO_WAIT_OPT                                                                                \
	{                                                                                          \
		0, "no-wait", NULL, "do not wait for the new state", OPT_FLAG, A(no_wait)          \
	}

const struct opt opts_wait[] = {NO_WAIT_OPT, WAIT_OPT, {.kind = OPT_END}};
const struct opt opts_stop[] = {
	{'f', "force", NULL, "kill at once", OPT_FLAG, A(force)},
	NO_WAIT_OPT,
	WAIT_OPT,
	{.kind = OPT_END},
};
const struct opt opts_delete[] = {
	{'f', "force", NULL, "a sandbox that is not there is no error", OPT_FLAG,
	 A(ignore_missing)},
	{'w', "wait", NULL, "wait until nothing is left", OPT_FLAG, A(wait)},
	{.kind = OPT_END},
};

struct verb {
	const char *method, *suffix, *want;
};

static int act(struct cli *c, const struct verb *v, const struct args *a, const char *name,
	       json_t **ret, struct err *err)
{
	auto_buf struct buf url = BUF_INIT(REST_URL_MAX);
	auto_json json_t *sb = NULL;
	if (url_of(&url, "/sandbox/", name, v->suffix, err) < 0)
		return -1;
	if (a->force && url_query(&url, "force", "true", err) < 0)
		return -1;
	if (rest_call(c, v->method, buf_str(&url), NULL, &sb, err) < 0)
		return -1;
	bool wait = strcmp(v->method, "DELETE") ? !a->no_wait : a->wait;
	if (wait && *json_text(sb, "id") && sandbox_wait(c, &sb, v->want, a->wait_ms, err) < 0)
		return -1;
	*ret = TAKE_PTR(sb);
	return 0;
}

/* Says what went wrong with one of several; main prints the last. */
static void complain(const struct cli *c, const char *name, struct err *err, struct err *last)
{
	if (last->code != ERR_NONE) {
		fprintf(stderr, "caisson: %s: ", c->cmd->name);
		text_print(stderr, last->msg);
		fputc('\n', stderr);
	}
	err_wrap(err, "%s", name);
	*last = *err;
}

static bool gone_by_stop(const struct verb *v, const json_t *sb)
{
	return !strcmp(v->want, "stopped") && !strcmp(json_text(sb, "state"), "destroyed");
}

static int each(struct cli *c, const struct verb *v, int argc, char **argv, struct err *err)
{
	struct args a = {.wait_ms = OPT_UNSET};
	int left = opt_parse(c, argc, argv, &a, err);
	if (left < 0 || c->help)
		return left < 0 ? CLI_USAGE : CLI_OK;
	if (left == 0) {
		err_set(err, ERR_INVALID, "name at least one sandbox");
		return CLI_USAGE;
	}
	auto_json json_t *all = json_array();
	int code = CLI_OK;
	for (int i = 0; i < left; i++) {
		struct err e = {0};
		json_t *sb = NULL;
		if (act(c, v, &a, argv[i], &sb, &e) == 0) {
			if (!c->json && !c->quiet) {
				text_print(stdout, argv[i]);
				puts(gone_by_stop(v, sb) ? " was deleted, as it is ephemeral" : "");
			}
			json_array_append_new(all, sb);
		} else if (e.code != ERR_NOT_FOUND || !a.ignore_missing) {
			complain(c, argv[i], &e, err);
			code = CLI_FAILED;
		}
	}
	if (c->json)
		json_print(all);
	return code;
}

int cmd_start(struct cli *c, int argc, char **argv, struct err *err)
{
	static const struct verb v = {"POST", "/start", "started"};
	return each(c, &v, argc, argv, err);
}

int cmd_stop(struct cli *c, int argc, char **argv, struct err *err)
{
	static const struct verb v = {"POST", "/stop", "stopped"};
	return each(c, &v, argc, argv, err);
}

int cmd_delete(struct cli *c, int argc, char **argv, struct err *err)
{
	static const struct verb v = {"DELETE", "", "destroyed"};
	return each(c, &v, argc, argv, err);
}
