/*
 * url.h - request targets as untrusted bytes: percent-escapes, query pairs.
 *
 * Decoding is strict: a '%' without two hexadecimal digits and an encoded NUL are ERR_INVALID.
 */
#ifndef CAISSON_HTTP_URL_H
#define CAISSON_HTTP_URL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

#define URL_MAX	      16384 /* bytes of a request target */
#define URL_SHOWN     256   /* bytes of a longer one that its error body repeats */
#define URL_QUERY_MAX 512   /* pairs */

/*
 * Decode n bytes in place and end them with a NUL: s must have room for n + 1. plus: '+' is a
 * space, as in queries. Returns the new length; what names the text in the error.
 */
int url_decode(char *s, size_t n, bool plus, const char *what, struct err *err);

struct url_pair {
	const char *key, *value; /* into the text given to url_query_parse */
};

struct url_query {
	struct url_pair *pair;
	size_t n;
};

/* Split and decode a query in place; s ends with a NUL and must outlive q. */
int url_query_parse(char *s, struct url_query *q, struct err *err);
void url_query_done(struct url_query *q);
/* i-th value of key or NULL. */
const char *url_query_get(const struct url_query *q, const char *key, size_t i);

#endif
