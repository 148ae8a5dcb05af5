/*
 * exec.h - one program in a sandbox, attached to our standard streams.
 *
 * Ends when the program ends, whatever our standard input does (A51). Signals we get go to the
 * program; a third SIGINT or SIGTERM hangs up, which kills its whole tree.
 */
#ifndef CAISSON_CLI_EXEC_H
#define CAISSON_CLI_EXEC_H

#include <stdint.h>

#include "base/kv.h"
#include "cli/cli.h"
#include "cli/opt.h"

struct exec_args {
	const char *cwd, *user;
	struct kv env;
	int64_t timeout_ms;
	bool tty, shell, no_stdin, interactive, detach;
};

/* argv is the program and its arguments, NULL-terminated. Returns our exit code. */
int exec_session(struct cli *c, const char *sandbox, const struct exec_args *a, char **argv,
		 struct err *err);

/* clang-format off */
#define EXEC_OPTS(type, field)                                                                     \
	{'w', "cwd", "DIR", "working directory", OPT_STR, offsetof(type, field.cwd)},              \
	{'u', "user", "USER", "user: name, uid or uid:gid", OPT_STR, offsetof(type, field.user)},  \
	{0, "timeout", "TIME", "kill it after so long; exit code 124", OPT_SECS,                   \
	 offsetof(type, field.timeout_ms)},                                                        \
	{'t', "tty", NULL, "with a terminal", OPT_FLAG, offsetof(type, field.tty)},                \
	{'s', "shell", NULL, "the arguments are shell text", OPT_FLAG,                             \
	 offsetof(type, field.shell)},                                                             \
	{0, "no-stdin", NULL, "standard input is empty", OPT_FLAG, offsetof(type, field.no_stdin)},\
	{'i', "interactive", NULL, "taken for habit: standard input is always attached",           \
	 OPT_FLAG, offsetof(type, field.interactive)}
/* clang-format on */

#endif
