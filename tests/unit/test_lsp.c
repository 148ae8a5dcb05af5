/*
 * test_lsp.c - frames and messages of language servers, as untrusted bytes, and what we say.
 * Whole servers are the business of tests/api/test_lsp.py.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "core/lsp_int.h"
#include "lsp/frame.h"
#include "lsp/msg.h"
#include "lsp/say.h"

/* ---- frames ---- */

static void frames_come_whole_however_they_are_cut(void **state)
{
	static const char wire[] = "Content-Length: 2\r\n\r\n{}"
				   "content-type: x; y\r\ncontent-length:\t7\r\n\r\n{\"a\":1}"
				   "Content-Length: 0\r\n\r\n";
	static const char *const want[] = {"{}", "{\"a\":1}", ""};
	struct err err;

	(void)state;
	for (size_t step = 1; step < sizeof(wire); step++) {
		struct lsp_frames f;
		size_t got = 0, n, at = 0;
		const char *body;
		int rc = 0;

		lsp_frames_init(&f);
		while (at < sizeof(wire) - 1) {
			size_t piece = MIN(step, sizeof(wire) - 1 - at);

			assert_int_equal(lsp_frames_feed(&f, wire + at, piece, &err), 0);
			at += piece;
			while ((rc = lsp_frames_next(&f, &body, &n, &err)) > 0) {
				assert_int_equal(n, strlen(want[got]));
				assert_memory_equal(body, want[got], n);
				got++;
			}
			assert_int_equal(rc, 0);
		}
		assert_int_equal(got, 3);
		lsp_frames_done(&f);
	}
}

static void malformed_heads_are_refused(void **state)
{
	static const char *const bad[] = {"\r\n\r\n",
					  "Content-Length: x\r\n\r\n",
					  "Content-Length:\r\n\r\n",
					  "Content-Length: -1\r\n\r\n",
					  "Content-Length: 1 2\r\n\r\n",
					  "Content-Length: 4194305\r\n\r\n",
					  "Content-Length: 99999999999999999999999\r\n\r\n",
					  "Content-Length: 1\r\nContent-Length: 1\r\n\r\n",
					  "nonsense\r\n\r\n",
					  "Content-Type: x\r\n\r\n"};
	const char *body;
	struct err err;
	size_t n;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct lsp_frames f;

		lsp_frames_init(&f);
		assert_int_equal(lsp_frames_feed(&f, bad[i], strlen(bad[i]), &err), 0);
		if (lsp_frames_next(&f, &body, &n, &err) != -1)
			fail_msg("taken: %s", bad[i]);
		assert_int_equal(err.code, ERR_UPSTREAM);
		lsp_frames_done(&f);
	}
}

static void a_head_without_end_is_refused(void **state)
{
	char line[] = "x: y\r\n";
	struct lsp_frames f;
	const char *body;
	struct err err;
	int rc = 0;
	size_t n;

	(void)state;
	lsp_frames_init(&f);
	for (int i = 0; i < 1000 && rc == 0; i++) {
		assert_int_equal(lsp_frames_feed(&f, line, sizeof(line) - 1, &err), 0);
		rc = lsp_frames_next(&f, &body, &n, &err);
	}
	assert_int_equal(rc, -1);
	assert_true(f.in.len <= LSP_HEAD_MAX + sizeof(line));
	lsp_frames_done(&f);
}

/* ---- messages ---- */

static struct lsp_msg parse(const char *text)
{
	struct lsp_msg m;
	struct err err;

	if (lsp_msg_parse(text, strlen(text), &m, &err) < 0)
		fail_msg("%s: %s", text, err.msg);
	return m;
}

static void kinds_of_messages_are_told_apart(void **state)
{
	struct lsp_msg m = parse("{\"id\":7,\"result\":null}");
	struct err err;

	(void)state;
	assert_true(m.kind == LSP_RESPONSE && m.id == 7);
	lsp_msg_done(&m);
	m = parse("{\"id\":\"7\",\"result\":1}");
	assert_true(m.kind == LSP_RESPONSE && m.id == -1);
	lsp_msg_done(&m);
	m = parse("{\"id\":\"a\",\"method\":\"x/y\"}");
	assert_int_equal(m.kind, LSP_REQUEST);
	assert_string_equal(m.method, "x/y");
	lsp_msg_done(&m);
	m = parse("{\"method\":\"x\"}");
	assert_int_equal(m.kind, LSP_NOTICE);
	lsp_msg_done(&m);
	assert_int_equal(lsp_msg_parse("[]", 2, &m, &err), -1);
	assert_int_equal(lsp_msg_parse("{", 1, &m, &err), -1);
	assert_int_equal(err.code, ERR_UPSTREAM);
}

static void both_forms_of_symbols_are_read(void **state)
{
	auto_lsp_msg struct lsp_msg m = parse(
		"{\"id\":1,\"result\":[{\"name\":\"f\",\"kind\":12,\"location\":{\"uri\":\"file:///"
		"a\","
		"\"range\":{\"start\":{\"line\":1,\"character\":2},\"end\":{\"line\":3,"
		"\"character\":4}}}},"
		"{\"name\":\"C\",\"kind\":5,\"range\":{\"start\":{\"line\":9,\"character\":0},"
		"\"end\":{}},"
		"\"children\":[{\"name\":\"m\",\"kind\":6,\"range\":{}}]},{\"kind\":1},7,null]}");
	struct lsp_symbols s;
	struct err err;

	(void)state;
	assert_int_equal(lsp_msg_symbols(&m, "file:///b", &s, &err), 0);
	assert_int_equal(s.n, 3);
	assert_string_equal(s.v[0].uri, "file:///a");
	assert_int_equal(s.v[0].end.line, 3);
	assert_int_equal(s.v[0].start.character, 2);
	assert_string_equal(s.v[1].uri, "file:///b");
	assert_int_equal(s.v[1].start.line, 9);
	assert_string_equal(s.v[2].name, "m");
	lsp_symbols_done(&s);
	/* Without a place there is no symbol of a workspace. */
	assert_int_equal(lsp_msg_symbols(&m, NULL, &s, &err), 0);
	assert_int_equal(s.n, 1);
	lsp_symbols_done(&s);
}

static void symbols_have_a_ceiling(void **state)
{
	const struct lsp_symbol one = {.name = (char *)"x"};
	struct lsp_symbols s = {0};
	struct err err;

	(void)state;
	for (int i = 0; i < LSP_SYMBOLS_MAX; i++)
		assert_int_equal(lsp_symbols_add(&s, &one, &err), 1);
	assert_false(s.more);
	assert_int_equal(lsp_symbols_add(&s, &one, &err), 0);
	assert_true(s.more && s.n == LSP_SYMBOLS_MAX);
	lsp_symbols_done(&s);
}

static void completions_in_all_their_forms(void **state)
{
	struct lsp_msg m =
		parse("{\"id\":1,\"result\":{\"isIncomplete\":true,\"items\":["
		      "{\"label\":\"a\",\"kind\":2,\"insertText\":\"A\",\"documentation\":"
		      "{\"kind\":\"markdown\",\"value\":\"doc\"}},"
		      "{\"label\":\"b\",\"documentation\":\"text\",\"textEdit\":{\"newText\":"
		      "\"B\"},\"kind\":-5},{\"nolabel\":1}]}}");
	struct lsp_completions c;
	struct err err;

	(void)state;
	assert_int_equal(lsp_msg_completions(&m, &c, &err), 0);
	assert_true(c.incomplete && c.n == 2);
	assert_string_equal(c.v[0].documentation, "doc");
	assert_string_equal(c.v[1].documentation, "text");
	assert_string_equal(c.v[1].insert, "B");
	assert_int_equal(c.v[1].kind, 0);
	assert_null(c.v[1].detail);
	lsp_completions_done(&c);
	lsp_msg_done(&m);
	m = parse("{\"id\":1,\"result\":[{\"label\":\"a\"}]}");
	assert_int_equal(lsp_msg_completions(&m, &c, &err), 0);
	assert_true(!c.incomplete && c.n == 1);
	lsp_completions_done(&c);
	lsp_msg_done(&m);
	m = parse("{\"id\":1,\"result\":null}");
	assert_int_equal(lsp_msg_completions(&m, &c, &err), 0);
	assert_int_equal(c.n, 0);
	lsp_completions_done(&c);
	lsp_msg_done(&m);
}

static void errors_of_a_server_are_told_on_one_line(void **state)
{
	auto_lsp_msg struct lsp_msg m =
		parse("{\"id\":1,\"error\":{\"code\":-1,\"message\":\"no\\n\\u001bluck\"}}");
	struct lsp_symbols s;
	struct err err;

	(void)state;
	assert_int_equal(lsp_msg_symbols(&m, "x", &s, &err), -1);
	assert_int_equal(err.code, ERR_UPSTREAM);
	assert_string_equal(err.msg, "the language server failed: no  luck");
}

static void requests_get_their_answers(void **state)
{
	static const struct {
		const char *ask, *answer;
	} rows[] = {
		{"{\"id\":3,\"method\":\"workspace/configuration\",\"params\":{\"items\":[1,2]}}",
		 "{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":[null,null]}"},
		{"{\"id\":\"x\",\"method\":\"client/registerCapability\"}",
		 "{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"result\":null}"},
		{"{\"id\":1,\"method\":\"workspace/applyEdit\"}",
		 "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"applied\":false}}"},
		{"{\"id\":[],\"method\":\"what\"}",
		 "{\"jsonrpc\":\"2.0\",\"id\":0,\"error\":{\"code\":-32601,\"message\":\"not known "
		 "here\"}}"},
	};
	struct err err;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		auto_lsp_msg struct lsp_msg m = parse(rows[i].ask);
		auto_buf struct buf out = BUF_INIT(4096);

		assert_int_equal(lsp_msg_answer(&m, "file:///p", &out, &err), 0);
		assert_string_equal(strstr(buf_str(&out), "{"), rows[i].answer);
	}
}

/* ---- what we say, languages, paths ---- */

static void what_is_said_is_framed_and_bounded(void **state)
{
	const struct lsp_text t = {"file:///x", "python", "a\"\xff", 3, 4};
	auto_buf struct buf out = BUF_INIT(200), none = BUF_INIT(10);
	struct err err;

	(void)state;
	assert_int_equal(lsp_say_change(&out, &t, &err), 0);
	assert_non_null(strstr(buf_str(&out), "\"text\":\"a\\\"\xef\xbf\xbd\""));
	assert_memory_equal(out.data, "Content-Length: ", 16);
	assert_int_equal(lsp_say_cancel(&none, 1, &err), -1);
	assert_int_equal(err.code, ERR_TOO_LARGE);
	assert_int_equal(none.len, 0);
}

static void languages_and_their_files(void **state)
{
	const struct lsp_language *py = lsp_language_get("python"),
				  *ts = lsp_language_get("typescript");

	(void)state;
	assert_non_null(py);
	assert_null(lsp_language_get("Python"));
	assert_true(lsp_language_has(py, "/a/b.py") && !lsp_language_has(py, "/a/.py.txt"));
	assert_true(lsp_language_has(ts, "x.tsx") && !lsp_language_has(ts, "x.py"));
	assert_string_equal(lsp_language_of(ts, "x.tsx"), "typescriptreact");
	assert_string_equal(lsp_language_of(ts, "Makefile"), "typescript");
}

static void paths_are_tidied_and_escaped(void **state)
{
	static const char *const rows[][2] = {{"/a//b/./c/", "/a/b/c"},
					      {"/", "/"},
					      {"/.", "/"},
					      {"//x", "/x"},
					      {"/a/../b", "/a/../b"},
					      {"/.a/...", "/.a/..."}};
	struct err err;
	char *uri;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char path[32];

		snprintf(path, sizeof(path), "%s", rows[i][0]);
		lsp_path_tidy(path);
		assert_string_equal(path, rows[i][1]);
	}
	uri = lsp_uri_of("/a b/\xc3\xbc#%?.py", &err);
	assert_string_equal(uri, "file:///a%20b/%C3%BC%23%25%3F.py");
	free(uri);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(frames_come_whole_however_they_are_cut),
		cmocka_unit_test(malformed_heads_are_refused),
		cmocka_unit_test(a_head_without_end_is_refused),
		cmocka_unit_test(kinds_of_messages_are_told_apart),
		cmocka_unit_test(both_forms_of_symbols_are_read),
		cmocka_unit_test(symbols_have_a_ceiling),
		cmocka_unit_test(completions_in_all_their_forms),
		cmocka_unit_test(errors_of_a_server_are_told_on_one_line),
		cmocka_unit_test(requests_get_their_answers),
		cmocka_unit_test(what_is_said_is_framed_and_bounded),
		cmocka_unit_test(languages_and_their_files),
		cmocka_unit_test(paths_are_tidied_and_escaped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
