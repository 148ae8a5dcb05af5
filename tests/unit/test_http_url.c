/*
 * test_http_url.c - request targets are decoded strictly.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "http/url.h"

static int decode(const char *in, bool plus, char out[256])
{
	memcpy(out, in, strlen(in) + 1);
	return url_decode(out, strlen(in), plus, "url", NULL);
}

static void good_escapes_decode(void **state)
{
	static const struct {
		const char *in, *out;
		bool plus;
	} row[] = {
		{"", "", false},
		{"abc", "abc", false},
		{"%61b%63", "abc", false},
		{"a%2Fb%2fc", "a/b/c", false},
		{"h%C3%A9llo", "h\xc3\xa9llo", false},
		{"a+b", "a+b", false},
		{"a+b%2B", "a b+", true},
		{"%25", "%", false},
		{"%2525", "%25", false},
	};
	char out[256];

	(void)state;
	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		assert_int_equal(decode(row[i].in, row[i].plus, out), strlen(row[i].out));
		assert_string_equal(out, row[i].out);
	}
}

static void bad_escapes_are_refused(void **state)
{
	static const char *const row[] = {"%",	   "%1",  "%zz", "a%g0", "%0",	 "%00",
					  "a%00b", "%-1", "% 1", "%%41", "abc%", "abc%4"};
	char out[256];

	(void)state;
	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++)
		assert_int_equal(decode(row[i], false, out), -1);
}

static void query_pairs_are_found_in_order(void **state)
{
	char text[] = "a=1&b=&c&a=2&&x%20y=p+q%26r&=v";
	struct url_query q;

	(void)state;
	assert_int_equal(url_query_parse(text, &q, NULL), 0);
	assert_int_equal(q.n, 6);
	assert_string_equal(url_query_get(&q, "a", 0), "1");
	assert_string_equal(url_query_get(&q, "a", 1), "2");
	assert_null(url_query_get(&q, "a", 2));
	assert_string_equal(url_query_get(&q, "b", 0), "");
	assert_string_equal(url_query_get(&q, "c", 0), "");
	assert_string_equal(url_query_get(&q, "x y", 0), "p q&r");
	assert_null(url_query_get(&q, "nope", 0));
	url_query_done(&q);
}

static void bad_queries_are_refused(void **state)
{
	char escape[] = "a=%4", nul[] = "a=x%00y", many[2 * URL_QUERY_MAX + 8];
	struct url_query q;
	size_t n = 0;

	(void)state;
	assert_int_equal(url_query_parse(escape, &q, NULL), -1);
	assert_int_equal(url_query_parse(nul, &q, NULL), -1);
	for (int i = 0; i <= URL_QUERY_MAX; i++) {
		many[n++] = 'a';
		many[n++] = '&';
	}
	many[n] = '\0';
	assert_int_equal(url_query_parse(many, &q, NULL), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(good_escapes_decode),
		cmocka_unit_test(bad_escapes_are_refused),
		cmocka_unit_test(query_pairs_are_found_in_order),
		cmocka_unit_test(bad_queries_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
