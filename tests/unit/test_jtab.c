/*
 * test_jtab.c - JSON in and out by tables, and what hostile texts come to.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "base/utf8.h"
#include "jtab/jtab.h"

struct thing {
	const char *name;
	bool on;
	int64_t count, when;
	struct kv env;
	struct jt_strs list;
	struct json_t *any;
};

#define AT(member) offsetof(struct thing, member)

static const struct jt_field fields[] = {
	{"name", JT_STR, JT_REQUIRED, AT(name), 1, 5, NULL},
	{"on", JT_BOOL, 0, AT(on), 0, 0, NULL},
	{"count", JT_INT, 0, AT(count), -1, 100, NULL},
	{"when", JT_TIME, 0, AT(when), 0, 0, NULL},
	{"env", JT_KV, 0, AT(env), 0, 3, NULL},
	{"list", JT_STRS, 0, AT(list), 0, 3, NULL},
	{"any", JT_JSON, 0, AT(any), 0, 0, NULL},
};
static const struct jt_table table = {"Thing", fields, ARRAY_LEN(fields)};

static int decode_n(const char *text, size_t n, struct thing *t, struct jt_doc *doc,
		    struct err *err)
{
	*t = (struct thing){.count = 7};
	if (jt_parse(doc, text, n, err) < 0)
		return -1;
	return jt_decode(doc, &table, t, err);
}

static void assert_refused(const char *text, const char *message)
{
	auto_jt_doc struct jt_doc doc = {NULL};
	struct err err = {0};
	struct thing t;

	assert_int_equal(decode_n(text, strlen(text), &t, &doc, &err), -1);
	assert_int_equal(err.code, ERR_INVALID);
	if (strcmp(err.msg, message) != 0)
		fail_msg("%s\n  gave   %s\n  wanted %s", text, err.msg, message);
	jt_release(&table, &t);
}

static void object_fills_the_struct(void **state)
{
	static const char text[] =
		"{\"name\":\"h\\u00e9\",\"on\":true,\"count\":-1,\"when\":\"2026-01-02T03:04:05Z\","
		"\"env\":{\"A\":\"1\",\"\":\"x\"},\"list\":[\"a\",\"b\"],\"any\":{\"k\":[1]},"
		"\"more\":0}";
	auto_jt_doc struct jt_doc doc = {NULL};
	struct err err = {0};
	struct thing t;

	(void)state;
	assert_int_equal(decode_n(text, strlen(text), &t, &doc, &err), 0);
	assert_string_equal(t.name, "h\xc3\xa9");
	assert_true(t.on);
	assert_int_equal(t.count, -1);
	assert_int_equal(t.when, 1767323045000);
	assert_string_equal(kv_get(&t.env, "A"), "1");
	assert_string_equal(kv_get(&t.env, ""), "x");
	assert_int_equal(t.list.n, 2);
	assert_string_equal(t.list.v[1], "b");
	assert_null(t.list.v[2]);
	assert_true(jt_is_object(t.any));
	jt_release(&table, &t);
	assert_null(t.list.v);
}

static void absent_and_null_leave_the_default(void **state)
{
	static const char text[] = "{\"name\":\"x\",\"count\":null,\"env\":null,\"on\":null}";
	auto_jt_doc struct jt_doc doc = {NULL};
	struct thing t;

	(void)state;
	assert_int_equal(decode_n(text, strlen(text), &t, &doc, NULL), 0);
	assert_int_equal(t.count, 7);
	assert_int_equal(t.env.n, 0);
	assert_null(t.list.v);
	jt_release(&table, &t);
}

static void empty_body_is_an_empty_object(void **state)
{
	(void)state;
	assert_refused("", "name: is required");
	assert_refused("{}", "name: is required");
	assert_refused("{\"name\":null}", "name: is required");
}

static void broken_rules_name_field_and_rule(void **state)
{
	(void)state;
	assert_refused("{\"name\":5}", "name: must be a string");
	assert_refused("{\"name\":\"\"}", "name: must not be empty");
	assert_refused("{\"name\":\"123456\"}", "name: must have a length from 1 to 5");
	assert_refused("{\"name\":\"x\",\"on\":1}", "on: must be true or false");
	assert_refused("{\"name\":\"x\",\"when\":\"tomorrow\"}",
		       "when: must be a time like 2026-01-02T03:04:05Z");
	assert_refused("{\"name\":\"x\",\"env\":[]}", "env: must be an object of strings");
	assert_refused("{\"name\":\"x\",\"env\":{\"A\":1}}", "env.A: must be a string");
	assert_refused("{\"name\":\"x\",\"env\":{\"A\":\"\",\"B\":\"\",\"C\":\"\",\"D\":\"\"}}",
		       "env: must have a number of entries from 0 to 3");
	assert_refused("{\"name\":\"x\",\"list\":\"a\"}", "list: must be an array of strings");
	assert_refused("{\"name\":\"x\",\"list\":[\"a\",null]}", "list[1]: must be a string");
	assert_refused("{\"name\":\"x\",\"list\":[\"\",\"\",\"\",\"\"]}",
		       "list: must have a number of items from 0 to 3");
	assert_refused("[]", "body: must be a JSON object");
	assert_refused("null", "body: must be a JSON object");
	assert_refused("\"x\"", "body: must be a JSON object");
	assert_refused("5", "body: must be a JSON object");
	assert_refused("{\"name\":\"a\\u0000b\"}",
		       "body: text must not hold a NUL character (line 1 column 18)");
	assert_refused("{\"a\\u0000b\":1}",
		       "body: text must not hold a NUL character (line 1 column 11)");
}

static void e10_numbers_are_strict_integers(void **state)
{
	(void)state;
	assert_refused("{\"name\":\"x\",\"count\":-2}", "count: must be an integer from -1 to 100");
	assert_refused("{\"name\":\"x\",\"count\":101}",
		       "count: must be an integer from -1 to 100");
	assert_refused("{\"name\":\"x\",\"count\":\"5\"}", "count: must be an integer");
	assert_refused("{\"name\":\"x\",\"count\":5.0}", "count: must be an integer");
	assert_refused("{\"name\":\"x\",\"count\":1e2}", "count: must be an integer");
	assert_refused("{\"name\":\"x\",\"count\":1e308}", "count: must be an integer");
	assert_refused("{\"name\":\"x\",\"count\":true}", "count: must be an integer");
	assert_refused("{\"name\":\"x\",\"count\":9223372036854775808}",
		       "count: must be an integer of at most 63 bits");
	assert_refused("{\"name\":\"x\",\"count\":-9223372036854775809}",
		       "count: must be an integer of at most 63 bits");
	assert_refused("{\"name\":\"x\",\"count\":1e999}",
		       "body: must be an integer of at most 63 bits");
}

static void hostile_texts_are_refused(void **state)
{
	static const char *const texts[] = {
		"{\"name\":\"x\",\"name\":\"y\"}", /* duplicate key */
		"{\"name\":\"a\\u0000b\"}",	   /* NUL in a string */
		"{\"a\\u0000b\":1}",		   /* and in a key */
		"{\"name\":\"\xff\"}",		   /* not UTF-8 */
		"{\"name\":\"\xed\xa0\x80\"}",	   /* surrogate */
		"{\"name\":\"\\ud800\"}",	   /* half a pair */
		"{\"name\":\"x\"} {}",		   /* something behind */
		"{\"name\":\"x\"",
		"{name:1}",
		"nul",
		"{\"name\":'x'}",
		"{\"name\":\"x\",}",
		"\xef\xbb\xbf{}",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		auto_jt_doc struct jt_doc doc = {NULL};
		struct err err = {0};

		assert_int_equal(jt_parse(&doc, texts[i], strlen(texts[i]), &err), -1);
		assert_int_equal(err.code, ERR_INVALID);
		assert_null(doc.root);
	}
}

static void depth_is_bounded_before_parsing(void **state)
{
	enum { DEEP = 500000 };
	auto_free char *text = malloc(DEEP);
	auto_jt_doc struct jt_doc doc = {NULL};
	struct err err = {0};

	(void)state;
	memset(text, '[', DEEP);
	assert_int_equal(jt_parse(&doc, text, DEEP, &err), -1);
	assert_string_equal(err.msg, "body: nested deeper than 64 levels");
	/* Brackets inside strings don't nest. */
	memset(text, '[', 200);
	memcpy(text, "{\"a\":\"\\\"", 8);
	memcpy(text + 200, "\"}", 2);
	assert_int_equal(jt_parse(&doc, text, 202, &err), 0);
}

static void labels_in_a_query_are_an_object_of_strings(void **state)
{
	auto_kv struct kv kv = {0};
	struct err err = {0};

	(void)state;
	assert_int_equal(jt_parse_kv("{\"a\":\"b\"}", "labels", 2, &kv, &err), 0);
	assert_string_equal(kv_get(&kv, "a"), "b");
	assert_int_equal(jt_parse_kv("a=b", "labels", 2, &kv, &err), -1);
	assert_string_equal(err.msg, "labels: must be a JSON object of strings");
	assert_int_equal(jt_parse_kv("{\"a\":1}", "labels", 2, &kv, &err), -1);
	assert_string_equal(err.msg, "labels.a: must be a string");
}

/* ---- writing ---- */

static void assert_written(const char *p, size_t n, size_t step, const char *want)
{
	auto_buf struct buf b = BUF_INIT(1 << 20);
	struct jw w;

	jw_init(&w, &b);
	jw_text_open(&w);
	for (size_t i = 0; i < n; i += step)
		jw_text_more(&w, p + i, MIN(step, n - i));
	jw_text_close(&w);
	assert_int_equal(jw_end(&w, NULL), 0);
	assert_string_equal(buf_str(&b), want);
}

static void a21_characters_survive_any_cut(void **state)
{
	static const char text[] = "a\xe2\x98\x95"
				   "caf\xc3\xa9\xf0\x9f\x98\x80\n\"\\\x01";

	(void)state;
	for (size_t step = 1; step <= sizeof(text); step++)
		assert_written(text, sizeof(text) - 1, step,
			       "\"a\xe2\x98\x95"
			       "caf\xc3\xa9\xf0\x9f\x98\x80\\n\\\"\\\\\\u0001\"");
}

static void bad_sequences_become_one_replacement_each(void **state)
{
#define FFFD "\xef\xbf\xbd"
	static const struct {
		const char *p;
		size_t n;
		const char *want;
	} rows[] = {
		{"a\xff"
		 "b",
		 3, "\"a" FFFD "b\""},
		{"\xe2\x98", 2, "\"" FFFD "\""},
		{"\xe2\x98x", 3, "\"" FFFD "x\""},
		{"\xe2\x98\xe2\x98\x95", 5, "\"" FFFD "\xe2\x98\x95\""},
		{"\xc0\xaf", 2, "\"" FFFD FFFD "\""},
		{"\xed\xa0\x80", 3, "\"" FFFD FFFD FFFD "\""},
		{"\xf4\x90\x80\x80", 4, "\"" FFFD FFFD FFFD FFFD "\""},
		{"\xf0\x9f\x98"
		 "a",
		 4, "\"" FFFD "a\""},
		{"\x80", 1, "\"" FFFD "\""},
		{"a\0b", 3, "\"a\\u0000b\""},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		for (size_t step = 1; step <= rows[i].n; step++)
			assert_written(rows[i].p, rows[i].n, step, rows[i].want);
}

static void commas_and_brackets_set_themselves(void **state)
{
	auto_buf struct buf b = BUF_INIT(1 << 20);
	auto_kv struct kv kv = {0};
	struct jw w;

	(void)state;
	kv_set(&kv, "k\"", "v", NULL);
	jw_init(&w, &b);
	jw_open(&w, '[');
	jw_open(&w, '{');
	jw_close(&w, '}');
	jw_open(&w, '{');
	jw_kstr(&w, "a", NULL);
	jw_kstr(&w, "b", "");
	jw_kint(&w, "c", INT64_MIN);
	jw_kbool(&w, "d", true);
	jw_key(&w, "e");
	jw_kv(&w, &kv);
	jw_key(&w, "f");
	jw_double(&w, 0.5);
	jw_key(&w, "g");
	jw_time(&w, 1767323045006);
	jw_close(&w, '}');
	jw_uint(&w, UINT64_MAX);
	jw_close(&w, ']');
	assert_int_equal(jw_end(&w, NULL), 0);
	assert_string_equal(buf_str(&b),
			    "[{},{\"b\":\"\",\"c\":-9223372036854775808,\"d\":true,"
			    "\"e\":{\"k\\\"\":\"v\"},\"f\":0.5,"
			    "\"g\":\"2026-01-02T03:04:05.006Z\"},18446744073709551615]");
}

static void ceiling_is_told_once_at_the_end(void **state)
{
	auto_buf struct buf b = BUF_INIT(8);
	struct err err = {0};
	struct jw w;

	(void)state;
	jw_init(&w, &b);
	jw_str(&w, "0123456789");
	jw_str(&w, "x");
	assert_int_equal(jw_end(&w, &err), -1);
	assert_int_equal(err.code, ERR_TOO_LARGE);
}

static void encode_leaves_out_or_nulls_by_flag(void **state)
{
	struct row {
		const char *s;
		char c[8];
		int64_t t;
		unsigned u;
	} r = {NULL, "", 0, 3};
	static const struct jt_field f[] = {
		{"s", JT_STR, JT_OMIT, offsetof(struct row, s), 0, 0, NULL},
		{"c", JT_CHARS, JT_NULL, offsetof(struct row, c), 0, 0, NULL},
		{"c2", JT_CHARS, 0, offsetof(struct row, c), 0, 0, NULL},
		{"t", JT_TIME, JT_NULL, offsetof(struct row, t), 0, 0, NULL},
		{"u", JT_UINT, 0, offsetof(struct row, u), 0, 0, NULL},
		{"l", JT_LIT, 0, 0, 0, 0, "[]"},
	};
	static const struct jt_table t = {"", f, ARRAY_LEN(f)};
	auto_buf struct buf b = BUF_INIT(1 << 20);
	struct jw w;

	(void)state;
	jw_init(&w, &b);
	jw_open(&w, '{');
	jt_encode(&w, &t, &r);
	jw_close(&w, '}');
	assert_string_equal(buf_str(&b), "{\"c\":null,\"c2\":\"\",\"t\":null,\"u\":3,\"l\":[]}");
}

static void utf8_floor_never_cuts_a_character(void **state)
{
	(void)state;
	assert_int_equal(utf8_floor("ab\xe2\x98\x95", 5), 5);
	assert_int_equal(utf8_floor("ab\xe2\x98\x95", 4), 2);
	assert_int_equal(utf8_floor("ab\xe2\x98\x95", 3), 2);
	assert_int_equal(utf8_floor("ab", 2), 2);
	assert_int_equal(utf8_floor("", 0), 0);
	assert_int_equal(utf8_floor("\x80\x80\x80\x80", 4), 4);
	assert_int_equal(utf8_floor("\xf0\x9f\x98", 3), 0);
	assert_int_equal(utf8_floor("a\xff", 2), 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(object_fills_the_struct),
		cmocka_unit_test(absent_and_null_leave_the_default),
		cmocka_unit_test(empty_body_is_an_empty_object),
		cmocka_unit_test(broken_rules_name_field_and_rule),
		cmocka_unit_test(e10_numbers_are_strict_integers),
		cmocka_unit_test(hostile_texts_are_refused),
		cmocka_unit_test(depth_is_bounded_before_parsing),
		cmocka_unit_test(labels_in_a_query_are_an_object_of_strings),
		cmocka_unit_test(a21_characters_survive_any_cut),
		cmocka_unit_test(bad_sequences_become_one_replacement_each),
		cmocka_unit_test(commas_and_brackets_set_themselves),
		cmocka_unit_test(ceiling_is_told_once_at_the_end),
		cmocka_unit_test(encode_leaves_out_or_nulls_by_flag),
		cmocka_unit_test(utf8_floor_never_cuts_a_character),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
