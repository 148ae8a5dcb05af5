/*
 * exec_output.c - output of detached execs and of commands of sessions: followed from an offset,
 * or a range of one stream as it is; and terminals from an offset.
 */
#include "api/caisson/exec_rest.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "api/term.h"
#include "base/clock.h"

#define RANGE_MS 30000

struct output_args {
	int64_t out, err, max_output;
	bool follow;
	const char *encoding;
};

#define AT(member) offsetof(struct output_args, member) /* offsetof needs the type as a token */

static const struct jt_field output_fields[] = {
	{"stdout", JT_INT, 0, AT(out), 0, INT64_MAX, NULL},
	{"stderr", JT_INT, 0, AT(err), 0, INT64_MAX, NULL},
	{"follow", JT_BOOL, 0, AT(follow), 0, 0, NULL},
	{"encoding", JT_STR, 0, AT(encoding), 1, 16, NULL},
	{"maxOutput", JT_INT, 0, AT(max_output), 0, 1 << 30, NULL},
};
static const struct jt_table output_table = {"", output_fields, ARRAY_LEN(output_fields)};

static int reply_kept(struct http_req *req, struct process_log *log, const struct output_args *a,
		      bool base64, struct err *err)
{
	auto_buf struct buf b = BUF_INIT(API_REPLY_MAX);
	auto_keep struct exec_keep k = {0};
	auto_task struct task_info end = {0};
	struct exec_result r = {0};
	struct jw w;

	exec_keep_init(&k, req, base64, (uint64_t)a->max_output);
	if (exec_keep_log(&k, log, &end, err) < 0)
		return -1;
	jw_init(&w, &b);
	jw_open(&w, '{');
	jw_kstr(&w, "id", end.id);
	jw_kstr(&w, "state", end.state == TASK_ENDED ? "ended" : "running");
	if (end.state == TASK_ENDED) {
		if (process_log_result(log, &end, &r, err) < 0)
			return -1;
		exec_put_end(&w, &r);
	}
	exec_keep_put(&w, &k);
	jw_close(&w, '}');
	return api_reply(req, 200, &w, err);
}

int caisson_native_readExec(struct http_req *req, struct err *err)
{
	const struct process_ref ref = exec_ref(req);
	struct process_from from = {.streams = TASK_OUT | TASK_ERR};
	struct output_args a = {0};
	struct process_log *log;
	bool base64;
	int rc;

	if (api_query(req, &output_table, &a, err) < 0)
		return -1;
	base64 = a.encoding && strcmp(a.encoding, "base64") == 0;
	if (a.encoding && !base64 && strcmp(a.encoding, "text") != 0)
		return err_set(err, ERR_INVALID, "encoding: must be text or base64");
	from.out = (uint64_t)a.out;
	from.err = (uint64_t)a.err;
	from.follow = a.follow;
	log = process_log_open(api_core(req), api_who(req), &ref, &from, err);
	if (!log)
		return -1;
	if (exec_form_of(req) != FORM_JSON)
		return exec_follow(req, log, ref.sandbox, exec_form_of(req), base64, err);
	rc = reply_kept(req, log, &a, base64, err);
	process_log_close(log);
	return rc;
}

/* ---- a range of one stream ---- */

struct range_args {
	int64_t offset, length;
};
static const struct jt_field range_fields[] = {
	{"offset", JT_INT, 0, offsetof(struct range_args, offset), 0, INT64_MAX, NULL},
	{"length", JT_INT, 0, offsetof(struct range_args, length), 1, INT64_MAX, NULL},
};
static const struct jt_table range_table = {"", range_fields, ARRAY_LEN(range_fields)};

struct range {
	struct process_log *log;
	int client;
	uint64_t left;
	struct task_chunk chunk; /* what is left of it */
};

static void range_free(void *arg)
{
	struct range *r = arg;

	process_log_close(r->log);
	free(r);
}

/* Bytes that were dropped between the head of the reply and now end it: they can't be told. */
static ssize_t range_pull(void *arg, void *p, size_t cap)
{
	struct range *r = arg;
	struct err err = {0};
	size_t n;

	if (!r->left)
		return 0;
	while (!r->chunk.n) {
		int got = process_log_next(r->log, &r->chunk, NULL, r->client,
					   clock_mono_ms() + RANGE_MS, &err);

		if (got != TASK_READ_DATA)
			return -1;
	}
	n = (size_t)MIN(MIN(r->chunk.n, r->left), (uint64_t)cap);
	memcpy(p, r->chunk.p, n);
	r->chunk.p += n;
	r->chunk.n -= n;
	r->left -= n;
	return (ssize_t)n;
}

static void range_header(struct http_req *req, const char *name, uint64_t v)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRIu64, v);
	http_reply_header(req, name, text);
}

static int range_check(const char *stream, uint64_t offset, uint64_t first, uint64_t total,
		       struct err *err)
{
	if (offset < first)
		return err_tagged(err, ERR_GONE, "OUTPUT_DROPPED",
				  "%s: bytes before %" PRIu64 " were dropped; %" PRIu64
				  " to %" PRIu64 " are available",
				  stream, first, first, total);
	if (offset > total)
		return err_set(err, ERR_INVALID,
			       "offset: must be at most %" PRIu64 ", the bytes there are", total);
	return 0;
}

static int range_reply(struct http_req *req, struct process_log *log, const struct range_args *a,
		       bool errors, struct err *err)
{
	const struct task_info *t = process_log_info(log);
	uint64_t first = errors ? t->err_first : t->out_first;
	uint64_t total = errors ? t->err_total : t->out_total;
	uint64_t offset = (uint64_t)a->offset;
	struct range *r;

	range_header(req, "X-Caisson-First", first);
	range_header(req, "X-Caisson-Total", total);
	if (range_check(errors ? "stderr" : "stdout", offset, first, total, err) < 0 ||
	    !(r = calloc(1, sizeof(*r)))) {
		process_log_close(log);
		return err->code ? -1 : err_set(err, ERR_NOMEM, "out of memory");
	}
	r->log = log;
	r->client = http_client_fd(req);
	r->left = total - offset;
	if (a->length)
		r->left = MIN(r->left, (uint64_t)a->length);
	return http_reply_stream(req, 200, "application/octet-stream", (int64_t)r->left, range_pull,
				 range_free, r, err);
}

int caisson_native_readExecStream(struct http_req *req, struct err *err)
{
	const struct process_ref ref = exec_ref(req);
	const char *stream = http_param(req, "stream");
	bool errors = strcmp(stream, "stderr") == 0;
	struct process_from from = {.streams = errors ? TASK_ERR : TASK_OUT};
	struct range_args a = {0};
	struct process_log *log;

	if (!errors && strcmp(stream, "stdout") != 0)
		return err_set(err, ERR_NOT_FOUND, "stream: must be stdout or stderr");
	if (api_query(req, &range_table, &a, err) < 0)
		return -1;
	*(errors ? &from.err : &from.out) = (uint64_t)a.offset;
	log = process_log_open(api_core(req), api_who(req), &ref, &from, err);
	return log ? range_reply(req, log, &a, errors, err) : -1;
}

int caisson_native_readCommand(struct http_req *req, struct err *err)
{
	return caisson_native_readExec(req, err);
}

int caisson_native_readCommandStream(struct http_req *req, struct err *err)
{
	return caisson_native_readExecStream(req, err);
}

/* ---- terminals ---- */

struct terminal_args {
	int64_t offset;
};
static const struct jt_field terminal_fields[] = {
	{"offset", JT_INT, 0, offsetof(struct terminal_args, offset), 0, INT64_MAX, NULL},
};
static const struct jt_table terminal_table = {"", terminal_fields, ARRAY_LEN(terminal_fields)};

int caisson_native_connectTerminal(struct http_req *req, struct err *err)
{
	const struct term_opts opts = {.exit_control = true, .offsets = true};
	struct terminal_args a = {.offset = -1};
	struct process_log *log;

	if (!http_wants_upgrade(req))
		return err_set(err, ERR_INVALID, "Upgrade: a WebSocket is needed here");
	if (api_query(req, &terminal_table, &a, err) < 0)
		return -1;
	log = pty_attach(api_core(req), api_who(req), http_param(req, "id"),
			 http_param(req, "terminalId"),
			 a.offset < 0 ? TASK_TAIL : (uint64_t)a.offset, err);
	return log ? term_upgrade(req, log, &opts, err) : -1;
}
