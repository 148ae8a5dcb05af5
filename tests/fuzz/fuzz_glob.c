/*
 * fuzz_glob.c - any pattern on any name: an answer in bounded time, the one a plain recursive
 * matcher gives for patterns of stars and letters.
 */
#include <stdlib.h>
#include <string.h>

#include "base/glob.h"
#include "lib/fuzz_replay.h"

#define PATTERN_MAX  64
#define NAME_MAX_LEN 255
#define ORACLE_MAX   24
#define ORACLE_STARS 4 /* it is exponential in them */

static bool plain_match(const char *p, const char *s)
{
	if (!*p)
		return !*s;
	if (*p == '*')
		return plain_match(p + 1, s) || (*s && plain_match(p, s + 1));
	return *p == *s && plain_match(p + 1, s + 1);
}

static bool is_plain(const char *p)
{
	int stars = 0;

	for (; *p; p++) {
		stars += *p == '*';
		if (*p != '*' && (*p < 'a' || *p > 'z'))
			return false;
	}
	return stars <= ORACLE_STARS;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char pattern[PATTERN_MAX + 1], name[NAME_MAX_LEN + 1];
	size_t np = size ? data[0] % (PATTERN_MAX + 1) : 0, nn;
	bool hit;

	if (!size)
		return 0;
	data++;
	size--;
	np = np < size ? np : size;
	nn = size - np < NAME_MAX_LEN ? size - np : NAME_MAX_LEN;
	memcpy(pattern, data, np);
	pattern[np] = '\0';
	memcpy(name, data + np, nn);
	name[nn] = '\0';
	hit = glob_match(pattern, name);
	if (hit && !glob_valid(pattern))
		abort();
	if (strlen(name) <= ORACLE_MAX && strlen(pattern) <= ORACLE_MAX && is_plain(pattern) &&
	    is_plain(name) && !strchr(name, '*') && hit != plain_match(pattern, name))
		abort();
	return 0;
}
