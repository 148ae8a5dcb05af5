/*
 * term.h - our own terminal: raw while a program inside uses it.
 */
#ifndef CAISSON_CLI_TERM_H
#define CAISSON_CLI_TERM_H

#include <stdbool.h>
#include <termios.h>

struct term {
	bool raw;
	struct termios saved;
};

/* Makes standard input raw when it is a terminal. */
void term_raw(struct term *t);
void term_restore(struct term *t);
/* Size of the terminal of standard output or input; 80 by 24 when there is none. */
void term_size(int *cols, int *rows);

#endif
