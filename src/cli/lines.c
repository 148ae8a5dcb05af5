/*
 * lines.c - cutting a stream at its line ends.
 */
#include "cli/lines.h"

#include <string.h>

void lines_init(struct lines *l, line_fn fn, void *arg)
{
	*l = (struct lines){.fn = fn, .arg = arg};
	buf_init(&l->rest, LINES_MAX);
}

void lines_done(struct lines *l)
{
	buf_done(&l->rest);
}

int lines_add(void *lines, const void *p, size_t n, struct err *err)
{
	struct lines *l = lines;
	const char *at = p;
	while (n) {
		const char *end = memchr(at, '\n', n);
		size_t take = end ? (size_t)(end - at) : n;
		if (buf_add(&l->rest, at, take, err) < 0)
			return err_wrap(err, "a line of the server");
		if (!end)
			return 0;
		size_t len = l->rest.len;
		char *line = len ? l->rest.data : (char[]){""};
		buf_str(&l->rest);
		if (len && line[len - 1] == '\r')
			line[len - 1] = '\0';
		if (l->fn(l->arg, line, err) < 0)
			return -1;
		buf_clear(&l->rest);
		at += take + 1;
		n -= take + 1;
	}
	return 0;
}
