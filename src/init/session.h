/*
 * session.h - the shell of a session and what waits for it; private to session.c and command.c.
 */
#ifndef CAISSON_INIT_SESSION_H
#define CAISSON_INIT_SESSION_H

#include "init/task.h"

struct session {
	bool closed;	 /* takes no more */
	uint32_t serial; /* of the latest command */
	struct task *running, *first, *last;
	/* What of the program the shell's pipe has not taken. */
	char *program;
	size_t len, pos, held;
	/* The status as it comes in: "<serial> <code>\n". */
	char line[32];
	size_t line_len;
};

/* Takes over text (heap), the shell's program from here on, and what is held for it. */
void session_feed(struct init *in, struct task *shell, char *text, size_t held);
/* The number that a command's processes carry. */
uint64_t command_mark(const struct task *t);
/* text in single quotes at out, which has room for 4 bytes each and 2; returns the end. */
char *shell_quote(char *out, const char *text);

#endif
