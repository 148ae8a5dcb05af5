/*
 * test_http_refusal.c - which replies count as the library's own pages, and what becomes of them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "http/refusal.h"

#define PAGE                                                                                       \
	"<html><head><title>Request malformed</title></head><body>Your \"x\" is\n "                \
	"bad.</body></html>"

static size_t rewrite(const char *head, const char *page, char out[2048])
{
	size_t n = refusal_of_page(head, strlen(head), page, strlen(page), out, 2047);

	out[n] = '\0';
	return n;
}

static void page_becomes_json_with_its_sentence(void **state)
{
	char out[2048];

	(void)state;
	assert_true(rewrite("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n", PAGE, out) >
		    0);
	assert_memory_equal(out, "HTTP/1.1 400 Bad Request\r\n", 26);
	assert_non_null(strstr(out, "\r\nContent-Type: application/json\r\n"));
	assert_non_null(strstr(out, "\"statusCode\":400,\"error\":\"Bad Request\""));
	assert_non_null(strstr(out, "\"message\":\"Your 'x' is' bad.\"}"));
}

static void status_with_a_rule_of_ours_says_it(void **state)
{
	char out[2048];

	(void)state;
	assert_true(rewrite("HTTP/1.1 431 Too Large\r\n\r\n", PAGE, out) > 0);
	assert_non_null(strstr(out, "header: is longer than fits"));
}

static void everything_else_passes(void **state)
{
	static const char *const other[][2] = {
		{"HTTP/1.1 200 OK\r\n\r\n", PAGE},
		{"HTTP/1.1 400 Bad\r\nContent-Type: text/html\r\n\r\n", PAGE},
		{"HTTP/1.1 400 Bad\r\n\r\n", "{\"a\":1}                                   "},
		{"HTTP/1.1 4xx Bad\r\n\r\n", PAGE},
		{"HTTP/1.0 400 Bad\r\n\r\n", PAGE},
		{"H", PAGE},
		{"HTTP/1.1 400 Bad\r\n\r\n", "<html>"},
		{"", ""},
	};
	char out[2048];

	(void)state;
	for (size_t i = 0; i < sizeof(other) / sizeof(*other); i++)
		if (rewrite(other[i][0], other[i][1], out) != 0)
			fail_msg("row %zu: %s", i, out);
}

static void what_does_not_fit_passes(void **state)
{
	char out[64];

	(void)state;
	assert_int_equal(refusal_of_page("HTTP/1.1 400 Bad\r\n\r\n", 20, PAGE, strlen(PAGE), out,
					 sizeof(out)),
			 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(page_becomes_json_with_its_sentence),
		cmocka_unit_test(status_with_a_rule_of_ours_says_it),
		cmocka_unit_test(everything_else_passes),
		cmocka_unit_test(what_does_not_fit_passes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
