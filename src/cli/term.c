/*
 * term.c - raw mode and size of our terminal.
 */
#include "cli/term.h"

#include <sys/ioctl.h>
#include <unistd.h>

void term_raw(struct term *t)
{
	struct termios raw;
	t->raw = false;
	if (!isatty(STDIN_FILENO) || tcgetattr(STDIN_FILENO, &t->saved) < 0)
		return;
	raw = t->saved;
	cfmakeraw(&raw);
	t->raw = tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) == 0;
}

void term_restore(struct term *t)
{
	if (t->raw)
		tcsetattr(STDIN_FILENO, TCSADRAIN, &t->saved);
	t->raw = false;
}

void term_size(int *cols, int *rows)
{
	struct winsize w;
	*cols = 80;
	*rows = 24;
	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) < 0 && ioctl(STDIN_FILENO, TIOCGWINSZ, &w) < 0)
		return;
	if (w.ws_col && w.ws_row) {
		*cols = w.ws_col;
		*rows = w.ws_row;
	}
}
