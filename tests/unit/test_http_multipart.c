/*
 * test_http_multipart.c - multipart bodies, cut at every byte.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "caisson/http.h"

#define TYPE "multipart/form-data; boundary=XyZ"

/* What the parser told, as text: "name|filename|type|data;" for each part. */
struct seen {
	struct buf text;
	int refuse_part; /* number of the part whose data is refused, 0 none */
	int parts;
};

static int on_part(void *arg, const char *name, const char *filename, const char *type,
		   struct err *err)
{
	struct seen *s = arg;

	s->parts++;
	return buf_addf(&s->text, err, "%s|%s|%s|", name, filename, type);
}

static int on_data(void *arg, const void *p, size_t n, struct err *err)
{
	struct seen *s = arg;

	if (s->parts == s->refuse_part)
		return err_set(err, ERR_LIMIT, "disk is full");
	assert_true(n > 0);
	return buf_add(&s->text, p, n, err);
}

static int on_end(void *arg, struct err *err)
{
	return buf_adds(&((struct seen *)arg)->text, ";", err);
}

static const struct http_multipart_ops ops = {on_part, on_data, on_end};

/* Feed body cut into two at cut, then bytes one by one when cut is 0. */
static int parse(const char *body, size_t n, size_t cut, struct seen *s, struct err *err)
{
	struct http_multipart *m = http_multipart_new(TYPE, &ops, s, err);
	int rc = m ? 0 : -1;

	buf_clear(&s->text);
	s->parts = 0;
	if (rc == 0 && cut) {
		rc = http_multipart_feed(m, body, cut, err);
		if (rc == 0)
			rc = http_multipart_feed(m, body + cut, n - cut, err);
	}
	for (size_t i = 0; rc == 0 && !cut && i < n; i++)
		rc = http_multipart_feed(m, body + i, 1, err);
	if (rc == 0)
		rc = http_multipart_end(m, err);
	http_multipart_free(m);
	return rc;
}

static void check_all_cuts(const char *body, const char *want)
{
	struct seen s = {.text = BUF_INIT(1 << 20)};
	size_t n = strlen(body);

	for (size_t cut = 0; cut < n; cut++) {
		struct err err = {0};

		if (parse(body, n, cut, &s, &err) < 0)
			fail_msg("cut at %zu: %s", cut, err.msg);
		if (strcmp(buf_str(&s.text), want) != 0)
			fail_msg("cut at %zu: %s", cut, buf_str(&s.text));
	}
	buf_done(&s.text);
}

static void parts_survive_a_cut_at_every_byte(void **state)
{
	(void)state;
	check_all_cuts(
		"--XyZ\r\n"
		"Content-Disposition: form-data; name=\"files[0].path\"\r\n\r\n"
		"/tmp/a b\r\n"
		"--XyZ\r\n"
		"content-disposition: form-data; name=\"files[0].file\"; filename=\"q\\\"x\"\r\n"
		"Content-Type: text/plain\r\n\r\n"
		"line\r\n--Xy\r\n-\r\r\n\r\n--XyX\r\n"
		"\r\n--XyZ--\r\n",
		"files[0].path|||/tmp/a b;"
		"files[0].file|q\"x|text/plain|line\r\n--Xy\r\n-\r\r\n\r\n--XyX\r\n;");
}

static void preamble_padding_and_epilogue_are_ignored(void **state)
{
	(void)state;
	check_all_cuts("hello\r\nthere --XyZ\r\n--XyZ \t \r\n"
		       "Content-Disposition: form-data; name=a\r\n\r\n"
		       "\r\n--XyZ--\r\nbye\r\n--XyZ\r\n",
		       "a|||;");
}

static void empty_form_has_no_parts(void **state)
{
	(void)state;
	check_all_cuts("--XyZ--", "");
}

static void b1_extended_filename_is_decoded(void **state)
{
	(void)state;
	check_all_cuts("--XyZ\r\n"
		       "Content-Disposition: form-data; name=\"f\"; filename=\"plain\"; "
		       "filename*=UTF-8''h%C3%A9llo%20%22q%22%3B.txt\r\n\r\nx\r\n--XyZ--",
		       "f|h\xc3\xa9llo \"q\";.txt||x;");
}

static void binary_data_is_byte_exact(void **state)
{
	static const char head[] = "--XyZ\r\nContent-Disposition: form-data; name=\"f\"\r\n\r\n";
	static const char tail[] = "\r\n--XyZ--\r\n";
	struct seen s = {.text = BUF_INIT(1 << 20)};
	char body[8192];
	size_t n = sizeof(head) - 1;
	uint32_t x = 1;

	(void)state;
	memcpy(body, head, n);
	/* Mostly the bytes that delimiters are made of. */
	for (int i = 0; i < 4096; i++) {
		x = x * 1664525u + 1013904223u;
		body[n++] = "\r\n-XyZ\0a"[x >> 24 & 7];
	}
	memcpy(body + n, tail, sizeof(tail) - 1);
	/* A random delimiter would end the part; break it. */
	for (size_t i = sizeof(head); i + 7 < n; i++)
		if (memcmp(body + i, "\r\n--XyZ", 7) == 0)
			body[i] = 'a';
	for (size_t cut = 0; cut < n; cut += 7) {
		assert_int_equal(parse(body, n + sizeof(tail) - 1, cut, &s, NULL), 0);
		assert_int_equal(s.text.len, 4 + 4096 + 1);
		assert_memory_equal(s.text.data + 4, body + sizeof(head) - 1, 4096);
	}
	buf_done(&s.text);
}

static void broken_bodies_are_refused(void **state)
{
	static const char *const row[] = {
		"",
		"no boundary at all",
		"--XyZ\r\nContent-Disposition: form-data; name=a\r\n\r\ndata without end",
		"--XyZ\r\nContent-Disposition: form-data; name=a\r\n\r\nx\r\n--XyZ\r\n",
		"--XyZ\r\n\r\nno name\r\n--XyZ--",
		"--XyZ\r\nContent-Disposition: form-data\r\n\r\nx\r\n--XyZ--",
		"--XyZ\r\nContent-Disposition: attachment; name=a\r\n\r\nx\r\n--XyZ--",
		"--XyZ\r\nno colon\r\n\r\nx\r\n--XyZ--",
		"--XyZjunk\r\nContent-Disposition: form-data; name=a\r\n\r\nx\r\n--XyZ--",
		"--XyZ\r\nContent-Disposition: form-data; name=a\r\n"
		"Content-Transfer-Encoding: base64\r\n\r\neA==\r\n--XyZ--",
	};
	struct seen s = {.text = BUF_INIT(1 << 20)};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		struct err err = {0};

		if (parse(row[i], strlen(row[i]), 0, &s, &err) == 0)
			fail_msg("row %zu was accepted", i);
		assert_int_equal(err.code, ERR_INVALID);
	}
	buf_done(&s.text);
}

static void header_block_has_a_ceiling(void **state)
{
	struct seen s = {.text = BUF_INIT(1 << 20)};
	struct err err = {0};
	char body[20000] = "--XyZ\r\nX: ";

	(void)state;
	memset(body + 10, 'a', sizeof(body) - 10);
	assert_int_equal(parse(body, sizeof(body), 0, &s, &err), -1);
	assert_int_equal(err.code, ERR_TOO_LARGE);
	buf_done(&s.text);
}

static void handlers_refusal_is_the_result(void **state)
{
	static const char body[] = "--XyZ\r\nContent-Disposition: form-data; name=a\r\n\r\nx"
				   "\r\n--XyZ--";
	struct seen s = {.text = BUF_INIT(1 << 20), .refuse_part = 1};
	struct err err = {0};

	(void)state;
	assert_int_equal(parse(body, sizeof(body) - 1, 0, &s, &err), -1);
	assert_int_equal(err.code, ERR_LIMIT);
	buf_done(&s.text);
}

static void unusable_content_types_are_refused(void **state)
{
	static const char *const row[] = {
		"",
		"text/plain",
		"multipart/mixed; boundary=a",
		"multipart/form-data",
		"multipart/form-data; boundary=",
		"multipart/form-data; boundary=\"\"",
		"multipart/form-data; boundary=\"a b \"",
		"multipart/form-data; boundary=\"a\rb\"",
		"multipart/form-data; boundary="
		"0123456789012345678901234567890123456789012345678901234567890123456789x",
	};

	(void)state;
	assert_null(http_multipart_new(NULL, &ops, NULL, NULL));
	for (size_t i = 0; i < ARRAY_LEN(row); i++)
		assert_null(http_multipart_new(row[i], &ops, NULL, NULL));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parts_survive_a_cut_at_every_byte),
		cmocka_unit_test(preamble_padding_and_epilogue_are_ignored),
		cmocka_unit_test(empty_form_has_no_parts),
		cmocka_unit_test(b1_extended_filename_is_decoded),
		cmocka_unit_test(binary_data_is_byte_exact),
		cmocka_unit_test(broken_bodies_are_refused),
		cmocka_unit_test(header_block_has_a_ceiling),
		cmocka_unit_test(handlers_refusal_is_the_result),
		cmocka_unit_test(unusable_content_types_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
