/*
 * exec_log.h - execs that run on without us: start one, and print what one has said.
 */
#ifndef CAISSON_CLI_EXEC_LOG_H
#define CAISSON_CLI_EXEC_LOG_H

#include "cli/exec.h"

/* Starts it and prints its id. Returns our exit code. */
int exec_detached(struct cli *c, const char *sandbox, const struct exec_args *a, char **argv,
		  struct err *err);
/*
 * Print the output of an exec on standard output and error; follow: until it has ended. Bytes that
 * are not kept any more are told on standard error. 1 when our reader went away.
 */
int exec_log_print(struct cli *c, const char *sandbox, const char *id, bool follow,
		   struct err *err);

#endif
