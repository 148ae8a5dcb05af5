/*
 * test_log_split.c - marks of a session's log, cut at every place.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "wire/log_split.h"

struct seen {
	struct buf out, err;
	int calls, stop_after;
};

static int take(void *arg, int stream, const uint8_t *p, size_t n, struct err *err)
{
	struct seen *s = arg;
	assert_true(stream == 1 || stream == 2);
	assert_true(n > 0);
	if (s->stop_after && ++s->calls >= s->stop_after)
		return err_set(err, ERR_CANCELLED, "enough");
	return buf_add(stream == 1 ? &s->out : &s->err, p, n, err);
}

static struct seen seen_new(void)
{
	struct seen s = {0};
	buf_init(&s.out, 1 << 16);
	buf_init(&s.err, 1 << 16);
	return s;
}

static void check(const char *text, size_t n, size_t step, const char *out, const char *errs)
{
	struct log_split split = {0};
	struct seen s = seen_new();
	struct err err = {0};
	for (size_t at = 0; at < n; at += step)
		assert_int_equal(log_split_add(&split, (const uint8_t *)text + at,
					       n - at < step ? n - at : step, take, &s, &err),
				 0);
	assert_int_equal(log_split_end(&split, take, &s, &err), 0);
	assert_string_equal(buf_str(&s.out), out);
	assert_string_equal(buf_str(&s.err), errs);
	buf_done(&s.out);
	buf_done(&s.err);
}

static void marks_part_the_streams_wherever_they_are_cut(void **state)
{
	static const char text[] = "\1\1\1out\n\2\2\2err\n\1\1\1more\n\2\2\2\2\2\2end";
	(void)state;
	for (size_t step = 1; step <= sizeof(text); step++)
		check(text, sizeof(text) - 1, step, "out\nmore\n", "err\nend");
}

static void fewer_than_three_are_text(void **state)
{
	static const char text[] = "\1\1\1a\1b\2\2c\1\1\2d\1\2\1\2e\2\2\2f\1\1";
	(void)state;
	for (size_t step = 1; step <= sizeof(text); step++)
		check(text, sizeof(text) - 1, step, "a\1b\2\2c\1\1\2d\1\2\1\2e", "f\1\1");
}

static void bytes_before_any_mark_are_output(void **state)
{
	(void)state;
	check("plain\n", 6, 2, "plain\n", "");
	check("", 0, 1, "", "");
	check("\1\1", 2, 1, "\1\1", "");
}

static void a_taker_stops_it(void **state)
{
	struct log_split split = {0};
	struct seen s = seen_new();
	struct err err = {0};
	(void)state;
	s.stop_after = 2;
	assert_int_equal(
		log_split_add(&split, (const uint8_t *)"\1\1\1a\2\2\2b", 8, take, &s, &err), -1);
	assert_int_equal(err.code, ERR_CANCELLED);
	buf_done(&s.out);
	buf_done(&s.err);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(marks_part_the_streams_wherever_they_are_cut),
		cmocka_unit_test(fewer_than_three_are_text),
		cmocka_unit_test(bytes_before_any_mark_are_output),
		cmocka_unit_test(a_taker_stops_it),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
