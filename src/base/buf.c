/*
 * buf.c - see buf.h.
 */
#include "base/buf.h"

#include <stdarg.h>
#include <string.h>

void buf_init(struct buf *b, size_t max)
{
	*b = (struct buf)BUF_INIT(max);
}

void buf_done(struct buf *b)
{
	free(b->data);
	b->data = NULL;
	b->len = b->cap = 0;
}

const char *buf_str(const struct buf *b)
{
	return b->data ? b->data : "";
}

void buf_clear(struct buf *b)
{
	b->len = 0;
	if (b->data)
		b->data[0] = '\0';
}

char *buf_reserve(struct buf *b, size_t n, struct err *err)
{
	size_t need, cap;
	char *p;

	if (n > b->max || b->len > b->max - n) {
		err_set(err, ERR_TOO_LARGE, "buffer limit of %zu bytes exceeded", b->max);
		return NULL;
	}
	need = b->len + n + 1;
	if (need <= b->cap)
		return b->data + b->len;
	cap = MAX(b->cap * 2, (size_t)256);
	if (cap < need)
		cap = need;
	p = realloc(b->data, cap);
	if (!p) {
		err_set(err, ERR_NOMEM, "out of memory for %zu bytes", cap);
		return NULL;
	}
	b->data = p;
	b->cap = cap;
	b->data[b->len] = '\0';
	return b->data + b->len;
}

void buf_commit(struct buf *b, size_t n)
{
	b->len += n;
	b->data[b->len] = '\0';
}

int buf_add(struct buf *b, const void *p, size_t n, struct err *err)
{
	char *dst = buf_reserve(b, n, err);

	if (!dst)
		return -1;
	if (n)
		memcpy(dst, p, n);
	buf_commit(b, n);
	return 0;
}

int buf_adds(struct buf *b, const char *s, struct err *err)
{
	return buf_add(b, s, strlen(s), err);
}

int buf_addf(struct buf *b, struct err *err, const char *fmt, ...)
{
	va_list ap;
	char *dst;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	if (n < 0)
		return err_set(err, ERR_INTERNAL, "bad format");
	dst = buf_reserve(b, (size_t)n, err);
	if (!dst)
		return -1;
	va_start(ap, fmt);
	vsnprintf(dst, (size_t)n + 1, fmt, ap);
	va_end(ap);
	buf_commit(b, (size_t)n);
	return 0;
}

void buf_eat(struct buf *b, size_t n)
{
	if (n >= b->len) {
		buf_clear(b);
		return;
	}
	memmove(b->data, b->data + n, b->len - n);
	b->len -= n;
	b->data[b->len] = '\0';
}

char *buf_take(struct buf *b)
{
	char *p = b->data ? b->data : calloc(1, 1);

	b->data = NULL;
	b->len = b->cap = 0;
	return p;
}
