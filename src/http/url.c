/*
 * url.c - see url.h.
 */
#include "http/url.h"

#include <stdlib.h>
#include <string.h>

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

int url_decode(char *s, size_t n, bool plus, const char *what, struct err *err)
{
	size_t out = 0;

	for (size_t i = 0; i < n; i++) {
		int high, low;

		if (s[i] == '\0')
			return err_set(err, ERR_INVALID, "%s: must not hold a NUL byte", what);
		if (s[i] == '+' && plus) {
			s[out++] = ' ';
			continue;
		}
		if (s[i] != '%') {
			s[out++] = s[i];
			continue;
		}
		high = i + 2 < n ? hex_digit(s[i + 1]) : -1;
		low = i + 2 < n ? hex_digit(s[i + 2]) : -1;
		if (high < 0 || low < 0)
			return err_set(err, ERR_INVALID, "%s: bad percent-escape", what);
		if (high == 0 && low == 0)
			return err_set(err, ERR_INVALID, "%s: must not hold an encoded NUL", what);
		s[out++] = (char)(high << 4 | low);
		i += 2;
	}
	s[out] = '\0';
	return (int)out;
}

/* One "key=value" of len bytes at s. */
static int pair_parse(char *s, size_t len, struct url_pair *ret, struct err *err)
{
	char *eq = memchr(s, '=', len);
	size_t key_len = eq ? (size_t)(eq - s) : len;

	ret->key = s;
	ret->value = s + key_len;
	/* Decode the value first: the key's NUL would land on the '='. */
	if (eq) {
		ret->value = eq + 1;
		if (url_decode(eq + 1, len - key_len - 1, true, "query", err) < 0)
			return -1;
	}
	if (url_decode(s, key_len, true, "query", err) < 0)
		return -1;
	if (!eq)
		ret->value = "";
	return 0;
}

int url_query_parse(char *s, struct url_query *q, struct err *err)
{
	size_t pairs = 1, n = 0;

	q->pair = NULL;
	q->n = 0;
	for (const char *p = s; *p; p++)
		pairs += *p == '&';
	if (!*s)
		return 0;
	if (pairs > URL_QUERY_MAX)
		return err_set(err, ERR_INVALID, "query: at most %d parameters", URL_QUERY_MAX);
	q->pair = calloc(pairs, sizeof(*q->pair));
	if (!q->pair)
		return err_set(err, ERR_NOMEM, "out of memory");
	while (s) {
		char *amp = strchr(s, '&');
		size_t len = amp ? (size_t)(amp - s) : strlen(s);

		if (len && pair_parse(s, len, &q->pair[n], err) < 0) {
			url_query_done(q);
			return -1;
		}
		n += len > 0;
		s = amp ? amp + 1 : NULL;
	}
	q->n = n;
	return 0;
}

void url_query_done(struct url_query *q)
{
	free(q->pair);
	q->pair = NULL;
	q->n = 0;
}

const char *url_query_get(const struct url_query *q, const char *key, size_t i)
{
	for (size_t k = 0; k < q->n; k++)
		if (strcmp(q->pair[k].key, key) == 0 && i-- == 0)
			return q->pair[k].value;
	return NULL;
}
