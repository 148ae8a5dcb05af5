/*
 * lines.h - a stream of lines: events of the server as they come.
 */
#ifndef CAISSON_CLI_LINES_H
#define CAISSON_CLI_LINES_H

#include "base/buf.h"

#define LINES_MAX (16u << 20) /* bytes of one line */

/* One line without its end, NUL-terminated; -1 with err set stops. */
typedef int (*line_fn)(void *arg, char *line, struct err *err);

struct lines {
	struct buf rest; /* of a line that has no end yet */
	line_fn fn;
	void *arg;
};

void lines_init(struct lines *l, line_fn fn, void *arg);
void lines_done(struct lines *l);
/* A rest_write_fn, with a struct lines as its argument. */
int lines_add(void *lines, const void *p, size_t n, struct err *err);

#endif
