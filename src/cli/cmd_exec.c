/*
 * cmd_exec.c - `caisson exec` and `caisson run`.
 */
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "cli/exec.h"
#include "cli/exec_log.h"
#include "cli/rest.h"
#include "cli/sandbox.h"
#include "cli/table.h"

struct exec_cmd {
	struct exec_args exec;
};

const struct opt opts_exec[] = {
	EXEC_OPTS(struct exec_cmd, exec),
	{'e', "env", "KEY[=VALUE]", "environment (repeat)", OPT_ENV,
	 offsetof(struct exec_cmd, exec.env)},
	{'d', "detach", NULL, "do not wait; its id is printed, for logs, ps and kill", OPT_FLAG,
	 offsetof(struct exec_cmd, exec.detach)},
	{.kind = OPT_END},
};

struct run_cmd {
	struct create_args create;
	struct exec_args exec;
	bool keep;
};

const struct opt opts_run[] = {
	CREATE_OPTS(struct run_cmd, create),
	EXEC_OPTS(struct run_cmd, exec),
	{0, "wait", "TIME", "most to wait for the sandbox, 60 s unless given", OPT_SECS,
	 offsetof(struct run_cmd, create.wait_ms)},
	{0, "keep", NULL, "do not delete the sandbox; its id goes to standard error", OPT_FLAG,
	 offsetof(struct run_cmd, keep)},
	{.kind = OPT_END},
};

int cmd_exec(struct cli *c, int argc, char **argv, struct err *err)
{
	struct exec_cmd a = {0};
	int code = CLI_USAGE, left = opt_parse(c, argc, argv, &a, err);
	if (left >= 0 && c->help) {
		code = CLI_OK;
	} else if (left >= 0 && left < 2) {
		err_set(err, ERR_INVALID, "takes a sandbox and a program");
	} else if (left >= 0) {
		argv[left] = NULL;
		code = a.exec.detach ? exec_detached(c, argv[0], &a.exec, argv + 1, err)
				     : exec_session(c, argv[0], &a.exec, argv + 1, err);
	}
	kv_done(&a.exec.env);
	return code;
}

/* Held while the sandbox of a run exists, so that ^C can't leave it behind. */
static void hold_signals(sigset_t *old)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, old);
}

/* Also of a sandbox that never started. */
static void run_over(struct cli *c, const struct run_cmd *a, const char *id)
{
	struct err gone = {0};
	if (a->keep) {
		fputs("caisson: run: kept ", stderr);
		text_print(stderr, id);
		fputc('\n', stderr);
	} else if (sandbox_delete(c, id, &gone) < 0 && gone.code != ERR_NOT_FOUND) {
		fputs("caisson: run: ", stderr);
		text_print(stderr, id);
		fputs(" is left behind: ", stderr);
		text_print(stderr, gone.msg);
		fputc('\n', stderr);
	}
}

static int run_in_new(struct cli *c, const struct run_cmd *a, char **argv, struct err *err)
{
	auto_json json_t *sb = NULL;
	sigset_t old;
	hold_signals(&old);
	int code = CLI_OWN;
	if (sandbox_create(c, &a->create, &sb, err) == 0)
		code = exec_session(c, json_text(sb, "id"), &a->exec, argv, err);
	if (sb)
		run_over(c, a, json_text(sb, "id"));
	sigprocmask(SIG_SETMASK, &old, NULL);
	return code;
}

int cmd_run(struct cli *c, int argc, char **argv, struct err *err)
{
	struct run_cmd a = {0};
	int code = CLI_USAGE, left = opt_parse(c, argc, argv, &a, err);
	if (left >= 0 && c->help) {
		code = CLI_OK;
	} else if (left == 0) {
		err_set(err, ERR_INVALID, "takes a program");
	} else if (left > 0) {
		argv[left] = NULL;
		code = run_in_new(c, &a, argv, err);
	}
	kv_done(&a.exec.env);
	create_args_done(&a.create);
	return code;
}
