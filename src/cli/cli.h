/*
 * cli.h - what the sub-commands of `caisson` share: settings, the command table, exit codes.
 *
 * A sub-command parses its options from one table, makes REST calls and prints. It returns the
 * exit code of the program; an error it met is in err and is printed once, by main.
 */
#ifndef CAISSON_CLI_CLI_H
#define CAISSON_CLI_CLI_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

enum cli_exit {
	CLI_OK = 0,
	CLI_FAILED = 1,	   /* the daemon said no, or could not be reached */
	CLI_USAGE = 2,	   /* the command line is wrong */
	CLI_TIMEOUT = 124, /* exec and run: the time limit ended the program */
	CLI_NOT_RUNNABLE = 126,
	CLI_NO_PROGRAM = 127,
	CLI_OWN = 125, /* exec and run: the fault is ours, not the program's */
};

struct opt;
struct cli;

struct cmd {
	const char *name; /* "image import" for a second level */
	const char *args; /* "NAME TARBALL|DIR" */
	const char *help; /* one line */
	const struct opt *opts;
	bool stop_at_arg; /* options end at the first argument: a program's own follow */
	int (*run)(struct cli *c, int argc, char **argv, struct err *err);
};

struct cli {
	const char *url;    /* base of the control API, no slash at its end */
	const char *key;    /* NULL: none known */
	const char *cacert; /* certificates to trust (PEM); NULL: the system's */
	bool json;
	bool quiet;
	bool help; /* help was asked and printed */
	const struct cmd *cmd;
	void *curl;	/* one easy handle, kept alive between calls */
	char *url_heap; /* owner of url and key */
	char *key_heap;
	bool key_local; /* read from this machine's daemon, so for no other address */
};

/* The command line is wrong: an exit code, with what to say in err. */
static inline int cli_usage(struct err *err, const char *text)
{
	err_set(err, ERR_INVALID, "%s", text);
	return CLI_USAGE;
}

extern const struct cmd cli_commands[];
extern const size_t cli_ncommands;

/* Sub-commands; each is in the file of its subject. */
int cmd_create(struct cli *c, int argc, char **argv, struct err *err);
int cmd_list(struct cli *c, int argc, char **argv, struct err *err);
int cmd_get(struct cli *c, int argc, char **argv, struct err *err);
int cmd_logs(struct cli *c, int argc, char **argv, struct err *err);
int cmd_start(struct cli *c, int argc, char **argv, struct err *err);
int cmd_stop(struct cli *c, int argc, char **argv, struct err *err);
int cmd_delete(struct cli *c, int argc, char **argv, struct err *err);
int cmd_exec(struct cli *c, int argc, char **argv, struct err *err);
int cmd_run(struct cli *c, int argc, char **argv, struct err *err);
int cmd_cp(struct cli *c, int argc, char **argv, struct err *err);
int cmd_session_create(struct cli *c, int argc, char **argv, struct err *err);
int cmd_session_list(struct cli *c, int argc, char **argv, struct err *err);
int cmd_session_exec(struct cli *c, int argc, char **argv, struct err *err);
int cmd_session_logs(struct cli *c, int argc, char **argv, struct err *err);
int cmd_session_input(struct cli *c, int argc, char **argv, struct err *err);
int cmd_session_delete(struct cli *c, int argc, char **argv, struct err *err);
int cmd_git_clone(struct cli *c, int argc, char **argv, struct err *err);
int cmd_git_status(struct cli *c, int argc, char **argv, struct err *err);
int cmd_git_add(struct cli *c, int argc, char **argv, struct err *err);
int cmd_git_commit(struct cli *c, int argc, char **argv, struct err *err);
int cmd_git_push(struct cli *c, int argc, char **argv, struct err *err);
int cmd_git_pull(struct cli *c, int argc, char **argv, struct err *err);
int cmd_git_branch(struct cli *c, int argc, char **argv, struct err *err);
int cmd_git_checkout(struct cli *c, int argc, char **argv, struct err *err);
int cmd_git_init(struct cli *c, int argc, char **argv, struct err *err);
int cmd_git_log(struct cli *c, int argc, char **argv, struct err *err);
int cmd_ps(struct cli *c, int argc, char **argv, struct err *err);
int cmd_kill(struct cli *c, int argc, char **argv, struct err *err);
int cmd_watch(struct cli *c, int argc, char **argv, struct err *err);
int cmd_ports(struct cli *c, int argc, char **argv, struct err *err);
int cmd_image_import(struct cli *c, int argc, char **argv, struct err *err);
int cmd_image_list(struct cli *c, int argc, char **argv, struct err *err);
int cmd_image_delete(struct cli *c, int argc, char **argv, struct err *err);
int cmd_key_create(struct cli *c, int argc, char **argv, struct err *err);
int cmd_key_list(struct cli *c, int argc, char **argv, struct err *err);
int cmd_key_delete(struct cli *c, int argc, char **argv, struct err *err);
int cmd_version(struct cli *c, int argc, char **argv, struct err *err);
int cmd_completion(struct cli *c, int argc, char **argv, struct err *err);
/* Help of the command these one or two words name, or of all of a group; how many there were. */
int help_print(int argc, char **argv);
int cmd_help(struct cli *c, int argc, char **argv, struct err *err);

#endif
