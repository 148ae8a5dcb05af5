/*
 * toolbox_exec.c - process/execute and process/code-run of contract §3.6.
 */
#include "api/daytona/toolbox.h"

#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

#define TIMEOUT_MAX_S 86400
#define COMMAND_MAX   (512 << 10) /* the agent takes at most 1 MiB of arguments and environment */
#define CODE_MAX      (8 << 20)
#define ENV_MAX	      1000
#define ARGV_MAX      1000

struct exec_args {
	const char *command, *cwd, *user;
	struct kv envs;
	int64_t timeout_s;
};

#define AT(member) offsetof(struct exec_args, member) /* offsetof needs the type as a token */

static const struct jt_field execute_fields[] = {
	{"command", JT_STR, JT_REQUIRED, AT(command), 1, COMMAND_MAX, NULL},
	{"cwd", JT_STR, 0, AT(cwd), 0, TOOLBOX_PATH_MAX - 1, NULL},
	{"envs", JT_KV, 0, AT(envs), 0, ENV_MAX, NULL},
	{"timeout", JT_INT, 0, AT(timeout_s), 0, TIMEOUT_MAX_S, NULL},
};
const struct jt_table daytona_execute_table = {"ExecuteRequest", execute_fields,
					       ARRAY_LEN(execute_fields)};

static uint64_t output_max(struct http_req *req)
{
	return core_settings(api_core(req))->output_max;
}

/* Each byte may become six in JSON. */
static size_t reply_max(struct http_req *req)
{
	return (size_t)output_max(req) * 6 + (1u << 20);
}

/* The core calls the environment env; the error must name the field that was sent. */
static int exec_failed(struct err *err)
{
	char text[ERR_MSG_MAX];

	if (err->code == ERR_INVALID && strncmp(err->msg, "env: ", 5) == 0) {
		snprintf(text, sizeof(text), "envs%.500s", err->msg + 3);
		snprintf(err->msg, sizeof(err->msg), "%s", text);
	}
	return -1;
}

static int execute(struct http_req *req, const struct exec_args *a, struct err *err)
{
	const char *const argv[] = {a->command, NULL};
	const struct exec_spec spec = {
		.sandbox = toolbox_id(req),
		.shell = true,
		.argv = argv,
		.env = &a->envs,
		.cwd = a->cwd && *a->cwd ? a->cwd : NULL,
		.timeout_ms = a->timeout_s * 1000,
		.merge = true,
	};
	auto_buf struct buf b = BUF_INIT(reply_max(req));
	struct exec_result r = {0};
	struct jw w;
	struct exec_output out = {.req = req, .w = &w, .max = output_max(req)};

	jw_init(&w, &b);
	jw_open(&w, '{');
	jw_key(&w, "result");
	jw_text_open(&w);
	if (exec_run(api_core(req), api_who(req), &spec, exec_output_sink, &out,
		     http_client_fd(req), &r, err) < 0 ||
	    exec_check_timeout(&r, a->timeout_s, err) < 0)
		return exec_failed(err);
	if (out.cut)
		w.ncarry = 0; /* a character the ceiling cut is left out, not replaced */
	jw_text_close(&w);
	exec_put_result(&w, &r, out.cut);
	jw_close(&w, '}');
	return api_reply(req, 200, &w, err);
}

int daytona_toolbox_ExecuteCommand(struct http_req *req, struct err *err)
{
	auto_jt_doc struct jt_doc doc = {NULL};
	struct exec_args a = {0};
	int r = api_body(req, &daytona_execute_table, &a, &doc, err);

	if (r == 0)
		r = execute(req, &a, err);
	jt_release(&daytona_execute_table, &a);
	return r;
}

/* ---- code-run ---- */

struct code_args {
	const char *code, *language, *cwd;
	struct jt_strs argv;
	struct kv envs;
	int64_t timeout_s;
};

#undef AT
#define AT(member) offsetof(struct code_args, member)

static const struct jt_field code_run_fields[] = {
	{"code", JT_STR, JT_REQUIRED, AT(code), 0, CODE_MAX, NULL},
	{"language", JT_STR, JT_REQUIRED, AT(language), 1, 64, NULL},
	{"argv", JT_STRS, 0, AT(argv), 0, ARGV_MAX, NULL},
	{"envs", JT_KV, 0, AT(envs), 0, ENV_MAX, NULL},
	{"timeout", JT_INT, 0, AT(timeout_s), 0, TIMEOUT_MAX_S, NULL},
};
const struct jt_table daytona_code_run_table = {"CodeRunRequest", code_run_fields,
						ARRAY_LEN(code_run_fields)};

/* The code always comes on standard input: its size is not bounded by that of arguments. */
static const struct {
	const char *name;
	const char *argv[6];
} languages[] = {
	{"python", {"python3", "-u", "-c", driver_python}},
	{"javascript", {"node", "-"}},
	{"typescript", {"node", "--enable-source-maps", "-e", driver_typescript, "--"}},
};

/* A NULL-terminated argv of the interpreter's words and the program's own; free() it. */
static const char **code_argv(const struct code_args *a, struct err *err)
{
	const char **argv = NULL;
	size_t i = 0, n = 0;

	while (i < ARRAY_LEN(languages) && strcmp(a->language, languages[i].name) != 0)
		i++;
	if (i == ARRAY_LEN(languages)) {
		err_set(err, ERR_INVALID,
			"language: must be one of python, javascript, typescript");
		return NULL;
	}
	argv = calloc(ARRAY_LEN(languages[i].argv) + a->argv.n + 1, sizeof(*argv));
	if (!argv) {
		err_set(err, ERR_NOMEM, "out of memory");
		return NULL;
	}
	for (; languages[i].argv[n]; n++)
		argv[n] = languages[i].argv[n];
	for (size_t k = 0; k < a->argv.n; k++)
		argv[n++] = a->argv.v[k];
	return argv;
}

/* Result and charts end in the same object, but are found in one pass: so two buffers. */
static int reply_code(struct http_req *req, const struct buf *raw, const struct exec_result *r,
		      bool cut, struct err *err)
{
	auto_buf struct buf b = BUF_INIT(reply_max(req)), charts = BUF_INIT(reply_max(req));
	struct jw w, wc;

	jw_init(&wc, &charts);
	jw_open(&wc, '[');
	jw_init(&w, &b);
	jw_open(&w, '{');
	jw_key(&w, "result");
	jw_text_open(&w);
	artifacts_split(buf_str(raw), raw->len, &w, &wc);
	if (cut)
		w.ncarry = 0;
	jw_text_close(&w);
	jw_close(&wc, ']');
	if (jw_end(&wc, err) < 0)
		return -1;
	jw_key(&w, "artifacts");
	jw_open(&w, '{');
	jw_key(&w, "charts");
	jw_rawn(&w, buf_str(&charts), charts.len);
	jw_close(&w, '}');
	exec_put_result(&w, r, cut);
	jw_close(&w, '}');
	return api_reply(req, 200, &w, err);
}

static int code_run(struct http_req *req, const struct code_args *a, struct err *err)
{
	auto_buf struct buf raw = BUF_INIT((size_t)output_max(req));
	auto_free const char **argv = code_argv(a, err);
	struct exec_output out = {.req = req, .raw = &raw, .max = output_max(req)};
	struct exec_result r = {0};
	const struct exec_spec spec = {
		.sandbox = toolbox_id(req),
		.argv = argv,
		.env = &a->envs,
		.timeout_ms = a->timeout_s * 1000,
		.merge = true,
		.input = a->code,
		.input_len = strlen(a->code),
	};

	if (!argv)
		return -1;
	if (exec_run(api_core(req), api_who(req), &spec, exec_output_sink, &out,
		     http_client_fd(req), &r, err) < 0 ||
	    exec_check_timeout(&r, a->timeout_s, err) < 0)
		return exec_failed(err);
	if (raw.len > EXEC_OUTPUT_SHARE && !exec_output_room(req, 6 * raw.len)) {
		raw.len = utf8_floor(raw.data, EXEC_OUTPUT_SHARE);
		out.cut = true;
	}
	http_hold(req, raw.cap + 6 * raw.len);
	return reply_code(req, &raw, &r, out.cut, err);
}

int daytona_toolbox_CodeRun(struct http_req *req, struct err *err)
{
	auto_jt_doc struct jt_doc doc = {NULL};
	struct code_args a = {0};
	int r = api_body(req, &daytona_code_run_table, &a, &doc, err);

	if (r == 0)
		r = code_run(req, &a, err);
	jt_release(&daytona_code_run_table, &a);
	return r;
}
