/*
 * buf.h - a growing byte buffer that is born with a ceiling.
 *
 * data is always NUL-terminated at data[len] once anything was added (and "" before). Adding
 * beyond max fails with ERR_TOO_LARGE and changes nothing. Not thread-safe; owned by one scope.
 */
#ifndef CAISSON_BASE_BUF_H
#define CAISSON_BASE_BUF_H

#include <stddef.h>

#include "base/err.h"

struct buf {
	char *data;
	size_t len;
	size_t cap;
	size_t max;
};

#define BUF_INIT(max_bytes)                                                                        \
	{                                                                                          \
		.data = NULL, .len = 0, .cap = 0, .max = (max_bytes)                               \
	}

void buf_init(struct buf *b, size_t max);
void buf_done(struct buf *b);
#define auto_buf auto_call(buf_done)

const char *buf_str(const struct buf *b); /* never NULL */
void buf_clear(struct buf *b);
int buf_add(struct buf *b, const void *p, size_t n, struct err *err);
int buf_adds(struct buf *b, const char *s, struct err *err);
int buf_addf(struct buf *b, struct err *err, const char *fmt, ...) PRINTF_LIKE(3, 4);
/* Room for n more bytes at the returned pointer; confirm with buf_commit. NULL with err set. */
char *buf_reserve(struct buf *b, size_t n, struct err *err);
void buf_commit(struct buf *b, size_t n);
/* Drop the first n bytes. */
void buf_eat(struct buf *b, size_t n);
/* Hand the heap string over; the buffer is empty afterwards. Never NULL unless out of memory. */
char *buf_take(struct buf *b);

#endif
