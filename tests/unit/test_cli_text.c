/*
 * test_cli_text.c - texts of the command line: escaping, sizes, URLs, messages of an exec.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cli/exec_msg.h"
#include "cli/rest.h"
#include "cli/table.h"

static void names_cannot_drive_the_terminal(void **state)
{
	static const struct {
		const char *in, *out;
	} row[] = {
		{"plain", "plain"},
		{"\033[2Jx", "\\x1b[2Jx"},
		{"a\nb\r", "a\\x0ab\\x0d"},
		{"h\xc3\xa9", "h\xc3\xa9"},
		{"\xc2\x9b"
		 "31m",
		 "\\xc2\\x9b31m"}, /* C1 CSI */
		{"\xe2\x80\xae"
		 "x",
		 "\\xe2\\x80\\xaex"}, /* right-to-left override */
		{"\xff\xc3", "\\xff\\xc3"},
		{"\xed\xa0\x80", "\\xed\\xa0\\x80"}, /* surrogate */
		{"\xc0\xaf", "\\xc0\\xaf"},	     /* overlong */
		{"\x7f", "\\x7f"},
	};
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		auto_free char *got = text_escape(row[i].in);
		assert_string_equal(got, row[i].out);
	}
}

static void sizes_are_short(void **state)
{
	static const struct {
		uint64_t n;
		const char *out;
	} row[] = {{0, "0 B"},	      {1023, "1023 B"},		 {1024, "1.0 KiB"},
		   {1536, "1.5 KiB"}, {200ull << 20, "200 MiB"}, {UINT64_MAX, "16384 PiB"}};
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		char got[TEXT_SHORT];
		text_bytes(row[i].n, got);
		assert_string_equal(got, row[i].out);
	}
}

static void url_parts_are_escaped(void **state)
{
	auto_buf struct buf b = BUF_INIT(1000);
	struct err err = {0};
	(void)state;
	assert_int_equal(url_of(&b, "/sandbox/", "a/b c\xc3\xa9", "/start", &err), 0);
	assert_int_equal(url_query(&b, "path", "/x?&=", &err), 0);
	assert_int_equal(url_query(&b, "q", "1", &err), 0);
	assert_string_equal(buf_str(&b), "/sandbox/a%2Fb%20c%C3%A9/start?path=%2Fx%3F%26%3D&q=1");
	assert_int_equal(url_of(&b, "/sandbox/", "..", "", &err), -1);
	assert_int_equal(url_of(&b, "/sandbox/", "", "", &err), -1);
}

static void faults_keep_the_words_of_the_server(void **state)
{
	struct err err = {0};
	(void)state;
	rest_fault(409, "{\"message\": \"name is taken\"}", &err);
	assert_int_equal(err.code, ERR_CONFLICT);
	assert_string_equal(err.msg, "name is taken");
	rest_fault(400, "{\"message\": [\"a: b\", \"c\"]}", &err);
	assert_string_equal(err.msg, "a: b");
	rest_fault(502, "<html>", &err);
	assert_string_equal(err.msg, "the server answered 502");
	rest_fault(404, "{\"message\": \"no such route: GET /sandbox\"}", &err);
	assert_string_equal(err.msg, "no such route: GET /sandbox (does the URL end in /api?)");
	rest_fault(404, "<html>", &err);
	assert_string_equal(err.msg, "the server answered 404 (does the URL end in /api?)");
	rest_fault(404, "{\"message\": \"no sandbox x\"}", &err);
	assert_string_equal(err.msg, "no sandbox x");
}

static void start_message_holds_what_was_asked(void **state)
{
	struct exec_args a = {.cwd = "/tmp", .timeout_ms = 1500, .tty = true};
	char *argv[] = {"ls", "-l", NULL};
	struct err err = {0};
	(void)state;
	kv_set(&a.env, "A", "1", &err);
	auto_free char *text = exec_msg_start(&a, argv, 80, 24);
	auto_json json_t *o = json_loads(text, 0, NULL);
	assert_int_equal(json_array_size(json_object_get(o, "argv")), 2);
	assert_string_equal(json_text(o, "cwd"), "/tmp");
	assert_int_equal(json_number(o, "timeoutMs"), 1500);
	assert_int_equal(json_number(o, "cols"), 80);
	assert_true(json_is_true(json_object_get(o, "stdin")));
	kv_done(&a.env);
}

static void bytes_that_are_no_utf8_are_refused(void **state)
{
	struct exec_args a = {.timeout_ms = OPT_UNSET};
	char *argv[] = {"ls", "\xff", NULL};
	(void)state;
	assert_null(exec_msg_start(&a, argv, 80, 24));
	a.shell = true;
	assert_null(exec_msg_start(&a, argv, 80, 24));
}

static void end_messages_give_the_exit_code(void **state)
{
	static const struct {
		const char *text;
		int rc, code;
	} row[] = {
		{"{\"type\":\"exit\",\"exitCode\":3,\"cause\":\"exited\"}", 1, 3},
		{"{\"exitCode\":143,\"cause\":\"signal\",\"signal\":15}", 1, 143},
		{"{\"exitCode\":-1,\"cause\":\"exited\"}", 1, 1},
		{"{\"exitCode\":256,\"cause\":\"exited\"}", 1, 1},
		{"{\"exitCode\":137,\"cause\":\"timeout\"}", 1, CLI_TIMEOUT},
		{"{\"type\":\"started\"}", 0, 0},
		{"{\"type\":\"error\",\"message\":\"no\"}", -1, CLI_OWN},
		{"{\"error\":{\"message\":\"no\"}}", -1, CLI_OWN},
		{"{\"error\":{\"statusCode\":404,\"message\":\"no\"}}", -1, CLI_NO_PROGRAM},
		{"nonsense", 0, 0},
	};
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		struct exec_end end = {0};
		struct err err = {0};
		int rc = exec_msg_read(row[i].text, strlen(row[i].text), &end, &err);
		assert_int_equal(rc, row[i].rc);
		assert_int_equal(end.code, row[i].code);
		if (rc < 0)
			assert_string_equal(err.msg, "no");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_cannot_drive_the_terminal),
		cmocka_unit_test(sizes_are_short),
		cmocka_unit_test(url_parts_are_escaped),
		cmocka_unit_test(faults_keep_the_words_of_the_server),
		cmocka_unit_test(start_message_holds_what_was_asked),
		cmocka_unit_test(bytes_that_are_no_utf8_are_refused),
		cmocka_unit_test(end_messages_give_the_exit_code),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
