/*
 * Shell patterns on one name.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/glob.h"
#include "base/scope.h"

static void names_match_as_the_shell_has_it(void **state)
{
	static const struct {
		const char *pattern, *name;
		bool match;
	} rows[] = {
		{"*", "", true},
		{"*", "x", true},
		{"", "", true},
		{"", "x", false},
		{"*.c", "a.c", true},
		{"*.c", ".c", true},
		{"*.c", "a.cc", false},
		{"a*b*c", "axxbyyc", true},
		{"a*b*c", "acb", false},
		{"**x**", "x", true},
		{"?", "a", true},
		{"?", "", false},
		{"?", "ab", false},
		{"?", "\u65e5", true},
		{"??", "\u65e5", false},
		{"[abc]", "b", true},
		{"[abc]", "d", false},
		{"[!abc]", "d", true},
		{"[^abc]", "a", false},
		{"[a-c]x", "bx", true},
		{"[a-]", "-", true},
		{"[\\]]", "]", true},
		{"\\*", "*", true},
		{"\\*", "x", false},
		{"[", "[", false},
		{"[]", "]", false},
		{"a\\", "a\\", false},
		{"*[x]*", "aaxaa", true},
		{"*.tar.gz", "a.tar.tar.gz", true},
		{"h*\xff", "h\xff", true},
		{".*", ".hidden", true},
		{"*", ".hidden", true},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (glob_match(rows[i].pattern, rows[i].name) != rows[i].match)
			fail_msg("%s on %s", rows[i].pattern, rows[i].name);
}

static void broken_patterns_are_told(void **state)
{
	static const char *const bad[] = {"[", "a[b", "[]", "[!]", "[a-", "x\\", "[\\"};
	static const char *const good[] = {"", "[a]", "[!a]", "\\[", "]", "a-b", "[a-z]*?"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_false(glob_valid(bad[i]));
	for (size_t i = 0; i < ARRAY_LEN(good); i++)
		assert_true(glob_valid(good[i]));
}

static void many_stars_take_no_time(void **state)
{
	char pattern[201], name[2001];
	int64_t began = clock_mono_ms();

	(void)state;
	for (size_t i = 0; i < 200; i += 2)
		memcpy(pattern + i, "*a", 2);
	pattern[200] = '\0';
	memset(name, 'a', 2000);
	name[2000] = '\0';
	name[1999] = 'b';
	assert_false(glob_match(pattern, name));
	assert_true(clock_mono_ms() - began < 1000);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_match_as_the_shell_has_it),
		cmocka_unit_test(broken_patterns_are_told),
		cmocka_unit_test(many_stars_take_no_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
