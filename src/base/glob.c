/*
 * glob.c - see glob.h.
 */
#include "base/glob.h"

#include <stddef.h>
#include <string.h>

/* Bytes of the character at s; a stray byte is one by itself. */
static size_t char_len(const char *s)
{
	unsigned char c = (unsigned char)*s;
	size_t want = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc0 ? 2 : 1, n = 1;

	while (n < want && ((unsigned char)s[n] & 0xc0) == 0x80)
		n++;
	return n;
}

/* One byte of a set, with its backslash; NULL at the pattern's end. */
static const char *set_byte(const char *p, unsigned char *ret)
{
	if (*p == '\\')
		p++;
	if (!*p)
		return NULL;
	*ret = (unsigned char)*p;
	return p + 1;
}

/* p is behind '['. Returns what is behind ']', or NULL when the set is malformed. */
static const char *set_match(const char *p, unsigned char c, bool *ret_hit)
{
	bool negate = *p == '!' || *p == '^', hit = false;
	unsigned char lo, hi;

	p += negate;
	if (*p == ']')
		return NULL;
	while (*p != ']') {
		p = set_byte(p, &lo);
		if (!p)
			return NULL;
		hi = lo;
		if (*p == '-' && p[1] != ']') {
			p = set_byte(p + 1, &hi);
			if (!p)
				return NULL;
		}
		hit = hit || (c >= lo && c <= hi);
	}
	*ret_hit = hit != negate;
	return p + 1;
}

bool glob_valid(const char *p)
{
	bool hit;

	while (p && *p) {
		if (*p == '[') {
			p = set_match(p + 1, 0, &hit);
			continue;
		}
		if (*p == '\\' && !*++p)
			return false;
		p++;
	}
	return p != NULL;
}

/* One pattern item other than '*' against the character at s: what is behind it, or NULL. */
static const char *item_match(const char *p, const char *s, size_t *ret_used)
{
	bool hit = false;

	*ret_used = 1;
	if (!*s)
		return NULL;
	if (*p == '?') {
		*ret_used = char_len(s);
		return p + 1;
	}
	if (*p == '[') {
		p = set_match(p + 1, (unsigned char)*s, &hit);
		return hit ? p : NULL;
	}
	if (*p == '\\' && !*++p)
		return NULL;
	return *p == *s ? p + 1 : NULL;
}

/* Only the last star ever has to be tried again: an earlier one has taken as little as it can. */
bool glob_match(const char *p, const char *s)
{
	const char *star = NULL, *from = NULL, *next;
	size_t used;

	if (!glob_valid(p))
		return false;
	while (*p || *s) {
		if (*p == '*') {
			star = ++p;
			from = s;
			continue;
		}
		next = *p ? item_match(p, s, &used) : NULL;
		if (next) {
			p = next;
			s += used;
		} else if (star && *from) {
			from += char_len(from);
			s = from;
			p = star;
		} else {
			return false;
		}
	}
	return true;
}
