/*
 * Signatures of links to files: the vectors every implementation agrees on.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "caisson/files.h"

#define KEY "testsigningkey1234567890abcdefgh"

static void the_vectors_come_out(void **state)
{
	static const struct {
		const char *verb, *path, *expires, *signature;
	} rows[] = {
		{"GET", "/home/user/report.pdf", "1781234567",
		 "v1_QXoy36mypac2FAv33L7jnN44GEUx8KrdwT0vuKgKiQg"},
		{"GET", "/home/user/report.pdf", "0",
		 "v1_lpj67Q-1iHxBviass5MZhGs36X80uk3DgCaRjjmyPrk"},
		{"POST", "/tmp/incoming/data.bin", "1781234567",
		 "v1_CziiRdFkC9asB7q1mi0-fDvvwkpTxcI7yR8N35ht9Vw"},
		{"GET", "/path with spaces/f.txt", "1900000000",
		 "v1_GynMaKcifGfdmrBJHusa_ucAXowjZ_g4KP6lcMJ4WXE"},
	};
	char got[SIGNATURE_LEN];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		signature_make(KEY, rows[i].verb, rows[i].path, rows[i].expires, got);
		assert_string_equal(got, rows[i].signature);
	}
}

static void each_part_counts(void **state)
{
	static const char *const rows[][4] = {
		{"k", "GET", "/a", "1"}, {"k", "POST", "/a", "1"}, {"k", "GET", "/b", "1"},
		{"k", "GET", "/a", "2"}, {"K", "GET", "/a", "1"},
	};
	char got[ARRAY_LEN(rows)][SIGNATURE_LEN];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		signature_make(rows[i][0], rows[i][1], rows[i][2], rows[i][3], got[i]);
		assert_int_equal(strlen(got[i]), 46);
		for (size_t k = 0; k < i; k++)
			assert_string_not_equal(got[i], got[k]);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_vectors_come_out),
		cmocka_unit_test(each_part_counts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
