/*
 * test_base64.c - RFC 4648 both ways.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "base/base64.h"

static const struct {
	const char *bytes, *text;
} vectors[] = {
	{"", ""},
	{"f", "Zg=="},
	{"fo", "Zm8="},
	{"foo", "Zm9v"},
	{"foob", "Zm9vYg=="},
	{"fooba", "Zm9vYmE="},
	{"foobar", "Zm9vYmFy"},
};

static void vectors_of_the_rfc_go_both_ways(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(vectors); i++) {
		auto_buf struct buf text = BUF_INIT(100), bytes = BUF_INIT(100);
		const char *b = vectors[i].bytes, *t = vectors[i].text;

		assert_int_equal(base64_encode(b, strlen(b), &text, NULL), 0);
		assert_string_equal(buf_str(&text), t);
		assert_int_equal(text.len, BASE64_LEN(strlen(b)));
		assert_int_equal(base64_decode(t, strlen(t), &bytes, NULL), 0);
		assert_string_equal(buf_str(&bytes), b);
	}
}

static void both_alphabets_and_no_padding_are_taken(void **state)
{
	static const char *const same[] = {"+/8=", "-_8=", "-_8", "+/8"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(same); i++) {
		auto_buf struct buf b = BUF_INIT(100);

		assert_int_equal(base64_decode(same[i], strlen(same[i]), &b, NULL), 0);
		assert_int_equal(b.len, 2);
		assert_memory_equal(b.data, "\xfb\xff", 2);
	}
}

static void what_is_no_base64_is_refused(void **state)
{
	static const char *const bad[] = {"Z",	   "Zg=",      "Zg===",	   "=",
					  "====",  "Zh==",     "Zm9=",	   "Z g=",
					  "Zm9v=", "Zm9v====", "Zg==Zg==", "Zm9v\n"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		auto_buf struct buf b = BUF_INIT(100);
		struct err err = {0};

		assert_int_equal(base64_decode(bad[i], strlen(bad[i]), &b, &err), -1);
		assert_int_equal(err.code, ERR_INVALID);
	}
}

static void every_length_round_trips(void **state)
{
	uint8_t all[2000];

	(void)state;
	for (size_t i = 0; i < sizeof(all); i++)
		all[i] = (uint8_t)(i * 7 + i / 256);
	for (size_t n = 0; n < sizeof(all); n++) {
		auto_buf struct buf text = BUF_INIT(4000), bytes = BUF_INIT(4000);

		assert_int_equal(base64_encode(all, n, &text, NULL), 0);
		assert_int_equal(base64_decode(text.data, text.len, &bytes, NULL), 0);
		assert_int_equal(bytes.len, n);
		assert_memory_equal(buf_str(&bytes), all, n);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(vectors_of_the_rfc_go_both_ways),
		cmocka_unit_test(both_alphabets_and_no_padding_are_taken),
		cmocka_unit_test(what_is_no_base64_is_refused),
		cmocka_unit_test(every_length_round_trips),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
