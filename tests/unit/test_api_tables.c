/*
 * test_api_tables.c - every field table of the dialects against the OpenAPI documents: names,
 * types, ranges and required keys; and what the encoders write against the schema of the reply.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "api/caisson/exec_rest.h"
#include "api/caisson/exec_ws.h"
#include "api/daytona/session.h"
#include "api/daytona/git.h"
#include "api/daytona/lsp.h"
#include "api/daytona/toolbox.h"

#ifndef TEST_TOP
#define TEST_TOP "."
#endif

static json_t *load(const char *name)
{
	auto_buf struct buf path = BUF_INIT(4096);
	json_error_t je;
	json_t *doc;

	buf_addf(&path, NULL, "%s/openapi/%s.json", TEST_TOP, name);
	doc = json_load_file(buf_str(&path), 0, &je);
	if (!doc)
		fail_msg("%s: %s", buf_str(&path), je.text);
	return doc;
}

static json_t *schema_of(json_t *doc, const char *name)
{
	json_t *all = json_object_get(json_object_get(doc, "components"), "schemas");

	return json_object_get(all, name);
}

/* Follows one reference. */
static json_t *resolve(json_t *doc, json_t *s)
{
	const char *ref = json_string_value(json_object_get(s, "$ref"));

	return ref ? schema_of(doc, strrchr(ref, '/') + 1) : s;
}

static bool type_is(json_t *doc, json_t *s, const char *want)
{
	json_t *type, *item;
	size_t i;

	s = resolve(doc, s);
	type = json_object_get(s, "type");
	if (!type)
		return true; /* an enumeration or anything */
	if (json_is_string(type))
		return strcmp(json_string_value(type), want) == 0;
	json_array_foreach(type, i,
			   item) if (strcmp(json_string_value(item), want) == 0) return true;
	return false;
}

static bool is_required(json_t *schema, const char *name)
{
	json_t *item;
	size_t i;

	json_array_foreach(json_object_get(schema, "required"), i,
			   item) if (strcmp(json_string_value(item), name) == 0) return true;
	return false;
}

static bool fits(json_t *doc, json_t *s, enum jt_type type)
{
	switch (type) {
	case JT_STR:
	case JT_CHARS:
	case JT_TIME:
		return type_is(doc, s, "string");
	case JT_BOOL:
		return type_is(doc, s, "boolean");
	case JT_INT:
	case JT_UINT:
	case JT_U64:
	case JT_REAL:
	case JT_GIB:
		return type_is(doc, s, "integer") || type_is(doc, s, "number");
	case JT_KV:
		return type_is(doc, s, "object");
	case JT_STRS:
		return type_is(doc, s, "array");
	default:
		return true;
	}
}

/* A bound the document names is the table's. */
static void check_bound(const struct jt_table *t, const struct jt_field *f, json_t *s,
			const char *key, int64_t ours)
{
	json_t *v = json_object_get(s, key);

	if (v && json_integer_value(v) != ours)
		fail_msg("%s.%s: %s is %lld in the document, %lld in the table", t->schema, f->name,
			 key, (long long)json_integer_value(v), (long long)ours);
}

static void check_bounds(const struct jt_table *t, const struct jt_field *f, json_t *s)
{
	if (f->type == JT_STR) {
		check_bound(t, f, s, "minLength", f->min);
		check_bound(t, f, s, "maxLength", f->max);
	}
	if (f->type == JT_INT) {
		check_bound(t, f, s, "minimum", f->min);
		check_bound(t, f, s, "maximum", f->max);
	}
	if (f->type == JT_STRS) {
		check_bound(t, f, s, "minItems", f->min);
		check_bound(t, f, s, "maxItems", f->max);
	}
}

static const struct jt_field *row_named(const struct jt_table *t, const char *name)
{
	for (size_t i = 0; i < t->n; i++)
		if (strcmp(t->field[i].name, name) == 0)
			return &t->field[i];
	return NULL;
}

static const struct {
	const char *doc;
	const struct jt_table *table;
} decode_tables[] = {
	{"daytona-control", &daytona_create_table},
	{"daytona-control", &daytona_labels_table},
	{"daytona-control", &daytona_key_create_table},
	{"daytona-toolbox", &daytona_execute_table},
	{"daytona-toolbox", &daytona_code_run_table},
	{"daytona-toolbox", &daytona_env_table},
	{"daytona-toolbox", &daytona_context_table},
	{"daytona-toolbox", &daytona_run_code_table},
	{"daytona-toolbox", &daytona_paths_table},
	{"caisson", &native_exec_table},
	{"caisson", &native_upload_create_table},
	{"caisson", &native_request_table},
	{"caisson", &native_signal_table},
	{"caisson", &native_resize_table},
	{"caisson", &native_kill_table},
	{"daytona-toolbox", &daytona_session_table},
	{"daytona-toolbox", &daytona_session_exec_table},
	{"daytona-toolbox", &daytona_session_input_table},
	{"daytona-toolbox", &daytona_pty_create_table},
	{"daytona-toolbox", &daytona_pty_resize_table},
	{"daytona-toolbox", &git_init_table},
	{"daytona-toolbox", &git_add_table},
	{"daytona-toolbox", &git_commit_table},
	{"daytona-toolbox", &git_branch_table},
	{"daytona-toolbox", &git_checkout_table},
	{"daytona-toolbox", &git_reset_table},
	{"daytona-toolbox", &git_restore_table},
	{"daytona-toolbox", &git_set_config_table},
	{"daytona-toolbox", &git_user_table},
	{"daytona-toolbox", &git_clone_table},
	{"daytona-toolbox", &git_pull_table},
	{"daytona-toolbox", &git_push_table},
	{"daytona-toolbox", &git_remote_table},
	{"daytona-toolbox", &git_login_table},
	{"daytona-toolbox", &lsp_server_table},
	{"daytona-toolbox", &lsp_document_table},
	{"daytona-toolbox", &lsp_completion_table},
	{"daytona-toolbox", &lsp_position_table},
	{"daytona-toolbox", &lsp_context_table},
	{"daytona-toolbox", &daytona_replace_table},
	{"caisson", &native_upload_create_table},
};

static void request_tables_match_their_schemas(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(decode_tables); i++) {
		const struct jt_table *t = decode_tables[i].table;
		json_t *doc = load(decode_tables[i].doc), *schema = schema_of(doc, t->schema);
		json_t *props = json_object_get(schema, "properties"), *prop;
		const char *name;

		assert_non_null(props);
		for (size_t k = 0; k < t->n; k++) {
			const struct jt_field *f = &t->field[k];

			prop = json_object_get(props, f->name);
			if (!prop || !fits(doc, prop, f->type))
				fail_msg("%s.%s: not in the document, or of another type",
					 t->schema, f->name);
			if (is_required(schema, f->name) != !!(f->flags & JT_REQUIRED))
				fail_msg("%s.%s: required in one place only", t->schema, f->name);
			check_bounds(t, f, prop);
		}
		json_object_foreach(props, name, prop) if (!row_named(t, name) &&
							   strcmp(name, "queueTimeout") != 0)
			fail_msg("%s.%s: in the document only", t->schema, name);
		json_decref(doc);
	}
}

static void list_query_matches_its_parameters(void **state)
{
	json_t *doc = load("daytona-control"), *params, *p;
	size_t i, n = 0;

	(void)state;
	params = json_object_get(
		json_object_get(json_object_get(json_object_get(doc, "paths"), "/sandbox"), "get"),
		"parameters");
	json_array_foreach(params, i, p)
	{
		const char *name = json_string_value(json_object_get(p, "name"));

		if (strcmp(json_string_value(json_object_get(p, "in")), "query") != 0)
			continue;
		if (!row_named(&daytona_list_query_table, name))
			fail_msg("%s: no row", name);
		n++;
	}
	assert_int_equal(n, daytona_list_query_table.n);
	json_decref(doc);
}

/* ---- replies ---- */

static bool value_fits(json_t *doc, json_t *s, const json_t *v)
{
	switch (json_typeof(v)) {
	case JSON_STRING:
		return type_is(doc, s, "string");
	case JSON_INTEGER:
		return type_is(doc, s, "integer") || type_is(doc, s, "number");
	case JSON_REAL:
		return type_is(doc, s, "number");
	case JSON_TRUE:
	case JSON_FALSE:
		return type_is(doc, s, "boolean");
	case JSON_ARRAY:
		return type_is(doc, s, "array");
	case JSON_OBJECT:
		return type_is(doc, s, "object");
	default:
		return type_is(doc, s, "null");
	}
}

static void check_reply(const char *doc_name, const char *schema_name, const struct buf *text)
{
	json_t *doc = load(doc_name), *schema = schema_of(doc, schema_name);
	json_t *props = json_object_get(schema, "properties"), *v, *item;
	json_t *got = json_loadb(text->data, text->len, JSON_REJECT_DUPLICATES, NULL);
	const char *key;
	size_t i;

	assert_non_null(props);
	if (!got)
		fail_msg("%s: not JSON: %s", schema_name, buf_str(text));
	json_array_foreach(json_object_get(schema, "required"), i,
			   item) if (!json_object_get(got, json_string_value(item)))
		fail_msg("%s.%s: required and not sent", schema_name, json_string_value(item));
	json_object_foreach(got, key, v) if (!json_object_get(props, key) ||
					     !value_fits(doc, json_object_get(props, key), v))
		fail_msg("%s.%s: sent, but not in the document or of another type", schema_name,
			 key);
	json_decref(got);
	json_decref(doc);
}

static void sandbox_has_all_keys_in_every_state(void **state)
{
	(void)state;
	for (int st = 0; st < SB_STATE_MAX; st++) {
		struct sandbox s = {.state = (enum sandbox_state)st, .desired = SB_STARTED};
		auto_buf struct buf whole = BUF_INIT(1 << 20), item = BUF_INIT(1 << 20);
		struct jw w;

		if (st == SB_ERROR)
			snprintf(s.error_reason, sizeof(s.error_reason), "why");
		jw_init(&w, &whole);
		daytona_put_sandbox(&w, &s, "http://h:1");
		check_reply("daytona-control", "Sandbox", &whole);
		assert_non_null(strstr(whole.data, "\"toolboxProxyUrl\":\"http://h:1/toolbox\""));
		jw_init(&w, &item);
		daytona_put_sandbox_item(&w, &s, "http://h:1");
		check_reply("daytona-control", "SandboxListItem", &item);
		assert_null(strstr(item.data, "\"env\""));
	}
}

static void plain_tables_write_their_schemas(void **state)
{
	static const struct {
		const char *doc;
		const struct jt_table *table;
		size_t size;
		const char *more; /* what the handler adds */
	} rows[] = {
		{"daytona-control", &daytona_organization_table, sizeof(struct org), NULL},
		{"daytona-control", &daytona_user_table, sizeof(struct user), NULL},
		{"daytona-control", &daytona_snapshot_table, sizeof(struct snapshot), "size"},
		{"caisson", &native_image_table, sizeof(struct image), NULL},
		{"caisson", &native_history_table, sizeof(struct history_item), NULL},
		{"caisson", &native_failure_table, sizeof(struct agent_note), NULL},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		auto_buf struct buf b = BUF_INIT(1 << 20);
		auto_free void *zero = calloc(1, rows[i].size);
		struct jw w;

		jw_init(&w, &b);
		jw_open(&w, '{');
		jt_encode(&w, rows[i].table, zero);
		if (rows[i].more) {
			jw_key(&w, rows[i].more);
			jw_raw(&w, "null");
		}
		jw_close(&w, '}');
		check_reply(rows[i].doc, rows[i].table->schema, &b);
	}
}

static void exec_result_says_what_went_wrong(void **state)
{
	const struct exec_result oom = {.cause = EXEC_OOM,
					.oom_limit = 1,
					.oom_peak = 2,
					.oom_victim = "python3",
					.total_out = 9,
					.cwd_fell_back = true,
					.cwd = "/"};
	auto_buf struct buf b = BUF_INIT(1 << 20);
	struct jw w;

	(void)state;
	jw_init(&w, &b);
	jw_open(&w, '{');
	jw_kstr(&w, "result", "");
	exec_put_result(&w, &oom, true);
	jw_close(&w, '}');
	check_reply("daytona-toolbox", "ExecuteResponse", &b);
	/* A53: the shell's 0 must not hide that its child was killed. */
	assert_non_null(strstr(b.data, "\"exitCode\":137"));
	assert_non_null(strstr(b.data, "\"truncated\":true,\"totalBytes\":9"));
}

static void git_status_writes_its_schema(void **state)
{
	struct git_file file = {"new", "old", GIT_RENAMED, GIT_UNMODIFIED};
	const struct git_status s = {.branch = "main", .upstream = "", .file = &file, .n = 1};
	auto_buf struct buf b = BUF_INIT(1 << 20);
	struct jw w;

	(void)state;
	jw_init(&w, &b);
	git_put_status(&w, &s);
	check_reply("daytona-toolbox", "GitStatus", &b);
	assert_non_null(strstr(b.data, "\"extra\":\"old\",\"staging\":\"Renamed\""));
}

/* ---- artifacts and names ---- */

static void check_split(const char *in, const char *text, const char *charts)
{
	auto_buf struct buf a = BUF_INIT(1 << 20), b = BUF_INIT(1 << 20);
	struct jw wa, wb;

	jw_init(&wa, &a);
	jw_text_open(&wa);
	jw_init(&wb, &b);
	jw_open(&wb, '[');
	artifacts_split(in, strlen(in), &wa, &wb);
	jw_text_close(&wa);
	jw_close(&wb, ']');
	assert_string_equal(buf_str(&a), text);
	assert_string_equal(buf_str(&b), charts);
}

static void artifact_lines_leave_the_text(void **state)
{
#define MARK "dtn_artifact_k39fd2:"
	(void)state;
	check_split("a\nb\n", "\"a\\nb\\n\"", "[]");
	check_split("a\n" MARK "{\"type\":\"chart\",\"value\":{\"x\":1}}\nb\n", "\"a\\nb\\n\"",
		    "[{\"x\":1}]");
	check_split("a" MARK "{\"type\":\"chart\",\"value\":{}}\n" MARK
		    "{\"type\":\"chart\",\"value\":{\"y\":[]}}",
		    "\"a\"", "[{},{\"y\":[]}]");
	check_split("", "\"\"", "[]");
}

static void lines_that_only_look_like_artifacts_stay(void **state)
{
	(void)state;
	check_split(MARK "hello\n", "\"" MARK "hello\\n\"", "[]");
	check_split(MARK "{\"type\":\"x\",\"value\":{}}\n",
		    "\"" MARK "{\\\"type\\\":\\\"x\\\",\\\"value\\\":{}}\\n\"", "[]");
	check_split(MARK "{\"type\":\"chart\",\"value\":5}",
		    "\"" MARK "{\\\"type\\\":\\\"chart\\\",\\\"value\\\":5}\"", "[]");
	check_split(MARK, "\"" MARK "\"", "[]");
	check_split(MARK MARK "{\"type\":\"chart\",\"value\":{}}\n", "\"" MARK "\"", "[{}]");
}

static void b1_names_are_exact_in_headers(void **state)
{
	static const struct {
		const char *name;
		bool raw;
		const char *want;
	} rows[] = {
		{"a.txt", false, "; filename=\"a.txt\"; filename*=UTF-8''a.txt"},
		{"h\xc3\xa9 \"q\";\n.txt", false,
		 "; filename=\"h_ \\\"q\\\";%0A.txt\"; "
		 "filename*=UTF-8''h%C3%A9%20%22q%22%3B%0A.txt"},
		{"h\xc3\xa9", true, "; filename=\"h\xc3\xa9\"; filename*=UTF-8''h%C3%A9"},
		{"\xff", true, "; filename=\"_\"; filename*=UTF-8''%FF"},
		{"a\\b", true, "; filename=\"a\\\\b\"; filename*=UTF-8''a%5Cb"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		auto_buf struct buf b = BUF_INIT(4096);

		assert_int_equal(disposition_add(&b, rows[i].name, rows[i].raw, NULL), 0);
		assert_string_equal(buf_str(&b), rows[i].want);
	}
}

static void modes_are_octal(void **state)
{
	static const char *const bad[] = {"", "8", "0o755", "-1", "10000", "777777", "rwx", " 7"};
	struct err err = {0};
	mode_t m;

	(void)state;
	assert_int_equal(mode_parse("mode", "0755", &m, &err), 0);
	assert_int_equal(m, 0755);
	assert_int_equal(mode_parse("mode", "7777", &m, &err), 0);
	assert_int_equal(m, 07777);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		assert_int_equal(mode_parse("mode", bad[i], &m, &err), -1);
		assert_int_equal(err.code, ERR_INVALID);
	}
}

/* ---- messages of an attached exec ---- */

static int read_text(const char *text, struct exec_msg *m, struct err *err)
{
	return exec_msg_text(text, strlen(text), m, err);
}

static void exec_messages_are_read_strictly(void **state)
{
	struct exec_msg m;
	struct err err = {0};

	(void)state;
	assert_int_equal(exec_msg_binary("\0ab", 3, &m, &err), 0);
	assert_int_equal(m.kind, MSG_INPUT);
	assert_int_equal(m.n, 2);
	assert_int_equal(exec_msg_binary("\0", 1, &m, &err), 0);
	assert_int_equal(m.kind, MSG_EOF);
	assert_int_equal(exec_msg_binary("\3\0\x50\0\x18", 5, &m, &err), 0);
	assert_int_equal(m.cols, 80);
	assert_int_equal(m.rows, 24);
	assert_int_equal(exec_msg_binary("\4\2", 2, &m, &err), 0);
	assert_int_equal(m.sig, 2);
	assert_int_equal(exec_msg_binary("", 0, &m, &err), -1);
	assert_int_equal(exec_msg_binary("\4\0", 2, &m, &err), -1);
	assert_int_equal(exec_msg_binary("\4\x41", 2, &m, &err), -1);
	assert_int_equal(exec_msg_binary("\x09x", 2, &m, &err), -1);
	assert_int_equal(read_text("{\"type\":\"eof\"}", &m, &err), 0);
	assert_int_equal(m.kind, MSG_EOF);
	assert_int_equal(read_text("{\"type\":\"signal\",\"signal\":\"SIGINT\"}", &m, &err), 0);
	assert_int_equal(m.sig, 2);
	assert_int_equal(read_text("{\"type\":\"signal\",\"signal\":\"SIGX\"}", &m, &err), -1);
	assert_int_equal(read_text("{\"type\":\"resize\",\"cols\":1}", &m, &err), -1);
	assert_int_equal(read_text("{}", &m, &err), -1);
	assert_int_equal(read_text("x", &m, &err), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(request_tables_match_their_schemas),
		cmocka_unit_test(list_query_matches_its_parameters),
		cmocka_unit_test(sandbox_has_all_keys_in_every_state),
		cmocka_unit_test(plain_tables_write_their_schemas),
		cmocka_unit_test(exec_result_says_what_went_wrong),
		cmocka_unit_test(git_status_writes_its_schema),
		cmocka_unit_test(artifact_lines_leave_the_text),
		cmocka_unit_test(lines_that_only_look_like_artifacts_stay),
		cmocka_unit_test(b1_names_are_exact_in_headers),
		cmocka_unit_test(modes_are_octal),
		cmocka_unit_test(exec_messages_are_read_strictly),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
