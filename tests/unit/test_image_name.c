/*
 * test_image_name.c - names in archives: normal form, refusals, whiteouts.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "base/buf.h"
#include "caisson/image.h"
#include "image/name.h"

#define DEPTH 8

static void name_is_put_in_normal_form(void **state)
{
	static const struct {
		const char *raw, *path, *base;
		enum image_name_kind kind;
	} rows[] = {
		{"a", "a", "a", IMAGE_NAME_PLAIN},
		{"/a//b/./c/", "a/b/c", "c", IMAGE_NAME_PLAIN},
		{"././a", "a", "a", IMAGE_NAME_PLAIN},
		{"...", "...", "...", IMAGE_NAME_PLAIN},
		{"a/..b", "a/..b", "..b", IMAGE_NAME_PLAIN},
		{".", "", "", IMAGE_NAME_ROOT},
		{"./", "", "", IMAGE_NAME_ROOT},
		{"//", "", "", IMAGE_NAME_ROOT},
		{".wh.x", "x", "x", IMAGE_NAME_WHITEOUT},
		{"a/b/.wh.x", "a/b/x", "x", IMAGE_NAME_WHITEOUT},
		{"a/.wh..wh..opq", "a", "a", IMAGE_NAME_OPAQUE},
		{"a/b/.wh..wh..opq", "a/b", "b", IMAGE_NAME_OPAQUE},
		{"/.wh..wh..opq", "", "", IMAGE_NAME_OPAQUE},
		{".wh..wh.plnk", ".wh..wh.plnk", ".wh..wh.plnk", IMAGE_NAME_IGNORED},
		{"a/.wh..x", "a/.x", ".x", IMAGE_NAME_WHITEOUT},
		{"a/.whx", "a/.whx", ".whx", IMAGE_NAME_PLAIN},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct image_name n;
		struct err err = {0};

		assert_int_equal(image_name_parse(rows[i].raw, DEPTH, &n, &err), 0);
		assert_string_equal(n.path, rows[i].path);
		assert_string_equal(n.path + n.base, rows[i].base);
		assert_int_equal(n.kind, rows[i].kind);
	}
}

static void name_that_leads_nowhere_good_is_refused(void **state)
{
	static const char *const rows[] = {
		"",
		"..",
		"../x",
		"a/../b",
		"a/..",
		"/..",
		".wh.",
		".wh...",
		".wh..",
		"a/.wh.",
		"a/.wh./b",
		".wh.x/y",
		"a/.wh..wh..opq/b",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct image_name n;
		struct err err = {0};

		assert_int_equal(image_name_parse(rows[i], DEPTH, &n, &err), -1);
		assert_int_equal(err.code, ERR_INVALID);
	}
	assert_int_equal(image_name_parse(NULL, DEPTH, &(struct image_name){0}, NULL), -1);
}

static void name_longer_than_the_system_allows_is_refused(void **state)
{
	char raw[2 * PATH_MAX];
	struct image_name n;
	struct err err = {0};

	(void)state;
	memset(raw, 'a', sizeof(raw));
	raw[NAME_MAX] = '\0';
	assert_int_equal(image_name_parse(raw, DEPTH, &n, &err), 0);
	raw[NAME_MAX] = 'a';
	raw[NAME_MAX + 1] = '\0';
	assert_int_equal(image_name_parse(raw, DEPTH, &n, &err), -1);
	assert_int_equal(err.code, ERR_INVALID);
	raw[NAME_MAX + 1] = 'a';
	for (size_t i = 0; i < sizeof(raw); i += 128)
		raw[i] = '/';
	raw[PATH_MAX + 10] = '\0';
	assert_int_equal(image_name_parse(raw, 1000, &n, &err), -1);
	assert_int_equal(err.code, ERR_INVALID);
}

static void name_deeper_than_the_limit_names_the_limit(void **state)
{
	struct image_name n;
	struct err err = {0};

	(void)state;
	assert_int_equal(image_name_parse("1/2/3/4/5/6/7/8", DEPTH, &n, &err), 0);
	assert_int_equal(image_name_parse("1/2/3/4/5/6/7/8/9", DEPTH, &n, &err), -1);
	assert_int_equal(err.code, ERR_LIMIT);
	assert_non_null(strstr(err.msg, "at most 8"));
}

static void c8_only_a_plain_digest_is_a_layer_id(void **state)
{
	char id[80];

	(void)state;
	memset(id, 'a', sizeof(id));
	id[64] = '\0';
	assert_true(image_layer_id_valid(id));
	id[63] = '\0';
	assert_false(image_layer_id_valid(id));
	id[63] = 'A';
	assert_false(image_layer_id_valid(id));
	id[63] = '/';
	assert_false(image_layer_id_valid(id));
	id[63] = id[64] = 'a';
	id[65] = '\0';
	assert_false(image_layer_id_valid(id));
	assert_false(image_layer_id_valid(NULL));
	assert_false(image_layer_id_valid(""));
	assert_false(image_layer_id_valid("sha256:../../x"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(name_is_put_in_normal_form),
		cmocka_unit_test(name_that_leads_nowhere_good_is_refused),
		cmocka_unit_test(name_longer_than_the_system_allows_is_refused),
		cmocka_unit_test(name_deeper_than_the_limit_names_the_limit),
		cmocka_unit_test(c8_only_a_plain_digest_is_a_layer_id),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
