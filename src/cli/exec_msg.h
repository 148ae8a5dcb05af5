/*
 * exec_msg.h - messages of the exec connection. Binary: one byte of channel, then data. Text: JSON.
 * Pure, for the tests.
 */
#ifndef CAISSON_CLI_EXEC_MSG_H
#define CAISSON_CLI_EXEC_MSG_H

#include <stddef.h>
#include <stdint.h>

#include "cli/exec.h"

enum exec_channel {
	EXEC_STDIN = 0,
	EXEC_STDOUT = 1,
	EXEC_STDERR = 2,
};

/* What to run, as all forms of a start take it; NULL when something is no UTF-8. */
json_t *exec_msg_request(const struct exec_args *a, char **argv);
/* First message; malloc'ed JSON, NULL when something is no UTF-8 or memory is out. */
char *exec_msg_start(const struct exec_args *a, char **argv, int cols, int rows);
char *exec_msg_signal(int sig); /* NULL for a signal that isn't forwarded */
char *exec_msg_resize(int cols, int rows);
#define EXEC_MSG_EOF "{\"type\":\"eof\"}"

struct exec_end {
	int code;	/* our exit code */
	char cause[16]; /* "exited", "signal", "timeout", "oom" */
	char note[256]; /* for people; "" when there is nothing to add */
};
/*
 * A text message of the server: 1 the program ended (ret filled), 0 of no meaning to us, -1 it
 * could not be run (ret->code tells, as a shell would).
 */
int exec_msg_read(const char *text, size_t n, struct exec_end *ret, struct err *err);

#endif
