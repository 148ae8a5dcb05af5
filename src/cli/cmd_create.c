/*
 * cmd_create.c - `caisson create`.
 */
#include "cli/rest.h"
#include "cli/sandbox.h"
#include "cli/table.h"

struct args {
	struct create_args create;
};

#define A(field) offsetof(struct args, create.field)
const struct opt opts_create[] = {
	CREATE_OPTS(struct args, create),
	{0, "public", NULL, "previews need no key", OPT_FLAG, A(is_public)},
	{0, "auto-stop", "MINUTES", "stop after so long without use (0: never)", OPT_MINS,
	 A(auto_stop)},
	{0, "auto-archive", "MINUTES", "archive after so long stopped", OPT_MINS, A(auto_archive)},
	{0, "auto-delete", "MINUTES", "delete after so long stopped (0: when it stops)", OPT_MINS,
	 A(auto_delete)},
	{0, "ttl", "MINUTES", "delete after so long in any case", OPT_MINS, A(ttl)},
	{0, "no-wait", NULL, "do not wait until it is started", OPT_FLAG, A(no_wait)},
	{0, "wait", "TIME", "most to wait, 60 s unless given", OPT_SECS, A(wait_ms)},
	{.kind = OPT_END},
};

int cmd_create(struct cli *c, int argc, char **argv, struct err *err)
{
	struct args a = {0};
	auto_json json_t *sb = NULL;
	int code = CLI_USAGE, left = opt_parse(c, argc, argv, &a, err);
	if (left > 0)
		err_set(err, ERR_INVALID, "takes no argument; name it with --name");
	else if (left == 0 && c->help)
		code = CLI_OK;
	else if (left == 0 && sandbox_create(c, &a.create, &sb, err) < 0)
		code = CLI_FAILED;
	else if (left == 0 && c->json)
		code = json_print(sb);
	else if (left == 0)
		code = printf("%s\n", json_text(sb, "id")) < 0 ? CLI_FAILED : CLI_OK;
	create_args_done(&a.create);
	return code;
}
