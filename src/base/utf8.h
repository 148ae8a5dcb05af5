/*
 * utf8.h - well-formed UTF-8 by the Unicode table (no surrogates, no over-long forms).
 */
#ifndef CAISSON_BASE_UTF8_H
#define CAISSON_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>

enum utf8_kind {
	UTF8_OK,    /* *ret_len bytes are one character */
	UTF8_BAD,   /* *ret_len bytes are one bad sequence (the longest cut-off start of one) */
	UTF8_SHORT, /* the bytes end inside a character that is well-formed so far */
};

/* Look at the first character of p[0..n), n > 0. */
enum utf8_kind utf8_next(const char *p, size_t n, size_t *ret_len);
bool utf8_valid(const char *p, size_t n);
/* The same, and no control character: C0, DEL, or C1, which terminals obey too. */
bool utf8_plain(const char *p, size_t n);
/* The longest length <= n of p that doesn't cut a character in two. */
size_t utf8_floor(const char *p, size_t n);

#endif
