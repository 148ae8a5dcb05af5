/*
 * opt.h - options of a sub-command as a table; help and completion read the same table.
 *
 * A row fills a field of the command's own struct. The options of opt_global are known to every
 * command. Pure but for help, which is printed on standard output.
 */
#ifndef CAISSON_CLI_OPT_H
#define CAISSON_CLI_OPT_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"
#include "base/kv.h"
#include "cli/cli.h"

#define OPT_LIST_MAX 64

enum opt_kind {
	OPT_END,
	OPT_FLAG, /* bool */
	OPT_STR,  /* const char * */
	OPT_INT,  /* int64_t, >= 0; OPT_UNSET when not given */
	OPT_SECS, /* int64_t in ms from "90", "1.5", "2m", "1h" */
	OPT_MINS, /* the same, but whole minutes, as the API has them */
	OPT_ENV,  /* struct kv, from KEY=VALUE or KEY (taken from our environment) */
	OPT_KV,	  /* struct kv, from KEY=VALUE */
	OPT_LIST, /* struct opt_list */
};

#define OPT_UNSET INT64_MIN

struct opt_list {
	const char *v[OPT_LIST_MAX];
	size_t n;
};

struct opt {
	char letter; /* 0: none */
	const char *name;
	const char *arg; /* name of the value; NULL for a flag */
	const char *help;
	enum opt_kind kind;
	size_t offset; /* into the command's struct */
};

/*
 * Read the options of c->cmd into args (a struct with the table's offsets; numbers are set to
 * OPT_UNSET first). Returns the number of arguments left, moved to argv[0…]; -1 with ERR_INVALID.
 * c->help is set when help was asked: then nothing else is done.
 */
int opt_parse(struct cli *c, int argc, char **argv, void *args, struct err *err);
/* "90", "1.5s", "2m", "1h" to ms. */
int opt_parse_secs(const char *text, int64_t *ret_ms, struct err *err);
int opt_parse_int(const char *text, int64_t *ret, struct err *err);
/* Whether word is an option of every command whose value is the next word. */
bool opt_takes_value(const char *word);
void opt_help(FILE *f, const struct cmd *cmd);
extern const struct opt opt_global[];
/* Of each sub-command; in the file of its subject. */
extern const struct opt opts_none[], opts_create[], opts_list[], opts_wait[], opts_stop[],
	opts_delete[], opts_exec[], opts_run[], opts_cp[], opts_key_create[], opts_logs[],
	opts_kill[], opts_watch[], opts_session_exec[], opts_session_logs[], opts_git_dir[],
	opts_git_clone[], opts_git_commit[], opts_git_sync[], opts_git_push[], opts_git_branch[],
	opts_git_init[];

#endif
