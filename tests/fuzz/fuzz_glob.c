/*
 * fuzz_glob.c - any pattern on any name: an answer in bounded time, the one a plain
 * matcher of quadratic time gives for patterns of stars and letters.
 */
#include <stdlib.h>
#include <string.h>

#include "base/glob.h"
#include "lib/fuzz_replay.h"

#define PATTERN_MAX  64
#define NAME_MAX_LEN 255
#define ORACLE_MAX   24

static bool plain_match(const char *p, const char *s)
{
	bool row[ORACLE_MAX + 1] = {true}; /* row[i]: what was read of p matches the first i of s */
	size_t n = strlen(s);

	for (; *p; p++) {
		bool before = row[0];

		row[0] = before && *p == '*';
		for (size_t i = 1; i <= n; i++) {
			bool above = row[i];

			row[i] = *p == '*' ? above || row[i - 1] : before && *p == s[i - 1];
			before = above;
		}
	}
	return row[n];
}

static bool is_plain(const char *p)
{
	for (; *p; p++)
		if (*p != '*' && (*p < 'a' || *p > 'z'))
			return false;
	return true;
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
