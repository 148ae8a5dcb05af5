/*
 * utf8.c - see utf8.h. One bad sequence is what the Unicode standard calls the maximal subpart,
 * so that a broken character is replaced once, not once a byte.
 */
#include "base/utf8.h"

struct utf8_row {
	unsigned char first, last; /* lead bytes */
	unsigned char len;
	unsigned char lo, hi; /* the second byte; later ones are 80..bf */
};

static const struct utf8_row utf8_rows[] = {
	{0x00, 0x7f, 1, 0x00, 0x00}, {0xc2, 0xdf, 2, 0x80, 0xbf}, {0xe0, 0xe0, 3, 0xa0, 0xbf},
	{0xe1, 0xec, 3, 0x80, 0xbf}, {0xed, 0xed, 3, 0x80, 0x9f}, {0xee, 0xef, 3, 0x80, 0xbf},
	{0xf0, 0xf0, 4, 0x90, 0xbf}, {0xf1, 0xf3, 4, 0x80, 0xbf}, {0xf4, 0xf4, 4, 0x80, 0x8f},
};

static const struct utf8_row *row_of(unsigned char c)
{
	for (size_t i = 0; i < sizeof(utf8_rows) / sizeof(utf8_rows[0]); i++)
		if (c >= utf8_rows[i].first && c <= utf8_rows[i].last)
			return &utf8_rows[i];
	return NULL;
}

enum utf8_kind utf8_next(const char *p, size_t n, size_t *ret_len)
{
	const unsigned char *s = (const unsigned char *)p;
	const struct utf8_row *r = row_of(s[0]);
	unsigned char lo, hi;

	*ret_len = 1;
	if (!r)
		return UTF8_BAD;
	lo = r->lo;
	hi = r->hi;
	for (size_t i = 1; i < r->len; i++) {
		*ret_len = i;
		if (i == n)
			return UTF8_SHORT;
		if (s[i] < lo || s[i] > hi)
			return UTF8_BAD;
		lo = 0x80;
		hi = 0xbf;
	}
	*ret_len = r->len;
	return UTF8_OK;
}

bool utf8_valid(const char *p, size_t n)
{
	size_t len;

	for (size_t i = 0; i < n; i += len)
		if (utf8_next(p + i, n - i, &len) != UTF8_OK)
			return false;
	return true;
}

bool utf8_plain(const char *p, size_t n)
{
	if (!utf8_valid(p, n))
		return false;
	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)p[i], next = (unsigned char)p[i + (i + 1 < n)];

		if (c < 0x20 || c == 0x7f || (c == 0xc2 && next < 0xa0))
			return false;
	}
	return true;
}

size_t utf8_floor(const char *p, size_t n)
{
	size_t back = n < 3 ? n : 3, len;

	for (size_t k = 1; k <= back; k++) {
		if (((unsigned char)p[n - k] & 0xc0) == 0x80)
			continue;
		return utf8_next(p + n - k, k, &len) == UTF8_SHORT ? n - k : n;
	}
	return n;
}
