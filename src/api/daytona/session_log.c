/*
 * session_log.c - logs of session commands: collected, streamed as text, and over a WebSocket.
 *
 * The log is in the sandbox's agent; here each reader has its own place in it and nothing is kept
 * but the chunk under way. What the agent has dropped is told, never passed over in silence.
 */
#include "api/daytona/session.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/utf8.h"

#define PIECE	    (32u << 10) /* bytes of one message */
#define TICK_MS	    1000	/* how often the end of the server is looked for */
#define PING_MS	    30000
#define SLOW_MS	    60000 /* a client that takes nothing for so long is gone */
#define SAY_MAX	    200
#define JSON_FACTOR 14 /* bytes of memory for one of output: twice raw, twice six in JSON */

/* Three bytes before output whenever its stream changes. */
#define LOG_MARK_LEN 3

static const char *log_mark(int stream)
{
	return stream == 2 ? "\2\2\2" : "\1\1\1";
}

/* "0.167.0" and the like as one number; -1 when it is none. */
static long version_number(const char *text)
{
	long part[2] = {0, 0};
	char *end;

	part[0] = strtol(text, &end, 10);
	if (end == text || *end != '.' || part[0] < 0 || part[0] > 9999)
		return -1;
	part[1] = strtol(end + 1, NULL, 10);
	return part[1] < 0 || part[1] > 99999 ? -1 : part[0] * 100000 + part[1];
}

enum log_format log_format_of(struct http_req *req)
{
	const char *version = http_header(req, "X-Daytona-SDK-Version");
	const char *split = http_header(req, "X-Daytona-Split-Output");
	long n = version ? version_number(version) : -1;

	if (version && (strstr(version, "dev") || n >= 167))
		return LOG_JSON;
	if (n >= 27 || (split && strcmp(split, "true") == 0))
		return LOG_MARKED;
	return LOG_CLEAN;
}

/* ---- in memory ---- */

void log_parts_init(struct log_parts *l, struct http_req *req, bool marked)
{
	*l = (struct log_parts){.req = req, .marked = marked};
	l->max = core_settings(api_core(req))->output_max;
	buf_init(&l->all, (size_t)l->max * 2 + 64);
	buf_init(&l->out, (size_t)l->max + 64);
	buf_init(&l->err, (size_t)l->max + 64);
}

void log_parts_done(struct log_parts *l)
{
	buf_done(&l->all);
	buf_done(&l->out);
	buf_done(&l->err);
}

/* How much of n bytes may be kept. What comes after a cut is left out too: no gaps. */
static size_t parts_room(struct log_parts *l, size_t n)
{
	size_t room = (size_t)MIN(l->max - l->kept, (uint64_t)n);

	if (l->cut)
		return 0;
	if (l->kept + room > EXEC_OUTPUT_SHARE && !exec_output_room(l->req, JSON_FACTOR * room))
		room = 0;
	l->cut = room < n;
	return room;
}

static int parts_add(struct log_parts *l, int stream, const uint8_t *p, size_t n, struct err *err)
{
	size_t room = parts_room(l, n);

	if (!room)
		return 0;
	if (l->marked && stream != l->last &&
	    buf_add(&l->all, log_mark(stream), LOG_MARK_LEN, err) < 0)
		return -1;
	l->last = stream;
	if (buf_add(&l->all, p, room, err) < 0 ||
	    buf_add(stream == 2 ? &l->err : &l->out, p, room, err) < 0)
		return -1;
	l->kept += room;
	http_hold(l->req, JSON_FACTOR * l->kept);
	return 0;
}

int log_parts_read(struct log_parts *l, struct process_log *log, struct task_info *end,
		   struct err *err)
{
	int client = http_client_fd(l->req), got;
	struct task_chunk c;

	while ((got = process_log_next(log, &c, end, client, clock_mono_ms() + PING_MS, err)) >=
	       0) {
		if (got == TASK_READ_END)
			break;
		if (got == TASK_READ_GAP)
			l->cut = l->cut || l->kept > 0;
		if (got == TASK_READ_DATA && parts_add(l, c.stream, c.p, (size_t)c.n, err) < 0)
			return -1;
	}
	if (got < 0)
		return -1;
	l->total = end->out_total + end->err_total;
	l->cut = l->kept < l->total;
	return 0;
}

/* A character that was cut at the ceiling is left out, not replaced. */
static void put_text(struct jw *w, const char *key, const struct buf *b, bool cut)
{
	size_t n = b->len;
	size_t floor = cut && n ? utf8_floor(b->data, n) : n;

	jw_key(w, key);
	jw_strn(w, buf_str(b), n - floor < 4 ? floor : n);
}

void log_parts_put(struct jw *w, const struct log_parts *l)
{
	put_text(w, "output", &l->all, l->cut);
	put_text(w, "stdout", &l->out, l->cut);
	put_text(w, "stderr", &l->err, l->cut);
}

static int reply_text(struct http_req *req, const struct log_parts *l, struct err *err)
{
	char total[24];

	if (l->cut) {
		snprintf(total, sizeof(total), "%llu", (unsigned long long)l->total);
		http_reply_header(req, "X-Caisson-Truncated", "true");
		http_reply_header(req, "X-Caisson-Total-Bytes", total);
	}
	return http_reply(req, 200, "text/plain; charset=utf-8", buf_str(&l->all), l->all.len, err);
}

static int reply_now(struct http_req *req, struct process_log *log, enum log_format f,
		     struct err *err)
{
	auto_buf struct buf b = BUF_INIT(API_REPLY_MAX);
	auto_parts struct log_parts l = {0};
	auto_task struct task_info end = {0};
	struct jw w;

	log_parts_init(&l, req, f != LOG_CLEAN);
	if (log_parts_read(&l, log, &end, err) < 0)
		return -1;
	if (f != LOG_JSON)
		return reply_text(req, &l, err);
	jw_init(&w, &b);
	jw_open(&w, '{');
	log_parts_put(&w, &l);
	if (l.cut) {
		jw_kbool(&w, "truncated", true);
		jw_key(&w, "totalBytes");
		jw_uint(&w, l.total);
	}
	jw_close(&w, '}');
	return api_reply(req, 200, &w, err);
}

/* ---- streams ---- */

struct follow {
	struct process_log *log;
	int client; /* of a reply by HTTP */
	bool marked;
	int last;
	struct task_chunk chunk; /* what is left of it */
	char say[SAY_MAX];	 /* of a gap */
};

static void follow_free(void *arg)
{
	struct follow *f = arg;

	process_log_close(f->log);
	free(f);
}

static void follow_gap(struct follow *f)
{
	int n = snprintf(f->say, sizeof(f->say), "[%llu bytes of %s were dropped here]\n",
			 (unsigned long long)f->chunk.n,
			 f->chunk.stream == 2 ? "stderr" : "stdout");

	f->chunk = (struct task_chunk){.stream = 2, .p = (const uint8_t *)f->say, .n = (uint64_t)n};
}

/* The next piece with its marker: bytes, 0 at the end, -1, or -2 nothing by the deadline. */
static ssize_t follow_next(struct follow *f, char *p, size_t cap, int64_t deadline_ms,
			   struct err *err)
{
	size_t used = 0, n;
	int got;

	if (!f->chunk.n) {
		got = process_log_next(f->log, &f->chunk, NULL, f->client, deadline_ms, err);
		if (got < 0)
			return -1;
		if (got == TASK_READ_GAP)
			follow_gap(f);
		if (got == TASK_READ_END || got == TASK_READ_NONE)
			f->chunk.n = 0;
		if (got == TASK_READ_END)
			return 0;
		if (!f->chunk.n)
			return -2;
	}
	/* The server asks for far more; a mark is never cut, nor sent without what it marks. */
	if (cap <= LOG_MARK_LEN)
		return err_set(err, ERR_INTERNAL, "no room for a piece of log");
	if (f->marked && f->chunk.stream != f->last) {
		memcpy(p, log_mark(f->chunk.stream), LOG_MARK_LEN);
		used = LOG_MARK_LEN;
	}
	f->last = f->chunk.stream;
	n = (size_t)MIN((uint64_t)(cap - used), f->chunk.n);
	memcpy(p + used, f->chunk.p, n);
	f->chunk.p += n;
	f->chunk.n -= n;
	return (ssize_t)(used + n);
}

static ssize_t follow_pull(void *arg, void *p, size_t cap)
{
	struct follow *f = arg;
	struct err err = {0};
	ssize_t n;

	while ((n = follow_next(f, p, cap, clock_mono_ms() + PING_MS, &err)) == -2)
		continue;
	return n;
}

struct ws_follow {
	struct follow f;
	struct http_ws *ws;
	int64_t ping_ms;
	char piece[PIECE];
};

/* 0 go on, 1 the client has gone. */
static int ws_heed(struct ws_follow *s)
{
	auto_buf struct buf b = BUF_INIT(4096);
	int64_t now = clock_mono_ms();
	int op;

	if (now >= s->ping_ms) {
		s->ping_ms = now + PING_MS;
		http_ws_send(s->ws, WS_PING, "", 0, now + TICK_MS, NULL);
	}
	while ((op = http_ws_recv(s->ws, &b, b.max, now, NULL)) > 0)
		if (op == WS_CLOSE)
			return 1;
	return op < 0;
}

/* All that is there now: 0 wait for more, 1 the end, -1. */
static int ws_send_all(struct ws_follow *s, struct err *err)
{
	ssize_t n;

	while ((n = follow_next(&s->f, s->piece, sizeof(s->piece), clock_mono_ms(), err)) > 0) {
		if (http_ws_ready(s->ws, clock_mono_ms() + SLOW_MS, err) < 0 ||
		    http_ws_send(s->ws, WS_BINARY, s->piece, (size_t)n, clock_mono_ms() + SLOW_MS,
				 err) < 0)
			return -1;
	}
	return n == -2 ? 0 : n < 0 ? -1 : 1;
}

static void ws_wait(struct ws_follow *s)
{
	struct pollfd p[] = {{http_ws_fd(s->ws), POLLIN, 0}, {process_log_fd(s->f.log), POLLIN, 0}};

	poll(p, ARRAY_LEN(p), TICK_MS);
}

static void ws_main(struct http_ws *ws, void *arg)
{
	struct ws_follow *s = arg;
	struct err err = {0};
	int rc = 0;

	s->ws = ws;
	while ((rc = ws_send_all(s, &err)) == 0) {
		ws_wait(s);
		if (http_stopping(ws) || ws_heed(s))
			break;
	}
	if (rc > 0)
		http_ws_close(ws, 1000, "");
	else if (http_stopping(ws))
		http_ws_close(ws, 1001, "the daemon is shutting down");
	else if (rc < 0 && err.code == ERR_TIMEOUT)
		http_ws_close(ws, 1008, "too slow");
	else if (rc < 0)
		http_ws_close(ws, 1011, err.msg);
	process_log_close(s->f.log);
	free(s);
}

static int reply_ws(struct http_req *req, struct process_log *log, struct err *err)
{
	struct ws_follow *s = calloc(1, sizeof(*s));

	if (!s) {
		process_log_close(log);
		return err_set(err, ERR_NOMEM, "out of memory");
	}
	s->f = (struct follow){.log = log, .client = -1, .marked = true};
	s->ping_ms = clock_mono_ms() + PING_MS;
	if (http_upgrade(req, http_ws_offered(req, 0), ws_main, s, err) == 0)
		return 0;
	follow_free(s); /* f is its first member */
	return -1;
}

static int reply_follow(struct http_req *req, struct process_log *log, enum log_format format,
			struct err *err)
{
	struct follow *f = calloc(1, sizeof(*f));

	if (!f) {
		process_log_close(log);
		return err_set(err, ERR_NOMEM, "out of memory");
	}
	*f = (struct follow){
		.log = log, .client = http_client_fd(req), .marked = format != LOG_CLEAN};
	return http_reply_stream(req, 200, "text/plain; charset=utf-8", -1, follow_pull,
				 follow_free, f, err);
}

/* ---- the routes ---- */

struct logs_args {
	bool follow;
};
static const struct jt_field logs_fields[] = {
	{"follow", JT_BOOL, 0, offsetof(struct logs_args, follow), 0, 0, NULL},
};
static const struct jt_table logs_table = {"", logs_fields, ARRAY_LEN(logs_fields)};

int daytona_toolbox_GetSessionCommandLogs(struct http_req *req, struct err *err)
{
	const struct process_ref ref = {.sandbox = toolbox_id(req),
					.kind = PROCESS_SESSION,
					.id = http_param(req, "sessionId"),
					.command = http_param(req, "commandId")};
	struct process_from from = {.streams = TASK_OUT | TASK_ERR};
	struct logs_args a = {0};
	struct process_log *log;
	int rc;

	if (api_query(req, &logs_table, &a, err) < 0)
		return -1;
	from.follow = a.follow;
	log = process_log_open(api_core(req), api_who(req), &ref, &from, err);
	if (!log)
		return -1;
	if (http_wants_upgrade(req))
		return reply_ws(req, log, err);
	if (a.follow)
		return reply_follow(req, log, log_format_of(req), err);
	rc = reply_now(req, log, log_format_of(req), err);
	process_log_close(log);
	return rc;
}

static void ws_nothing(struct http_ws *ws, void *arg)
{
	(void)arg;
	http_ws_close(ws, 1000, "");
}

/* A sandbox has no entry point of its own: its session is there and has printed nothing. */
int daytona_toolbox_GetEntrypointLogs(struct http_req *req, struct err *err)
{
	static const char nothing[] = "{\"output\":\"\",\"stdout\":\"\",\"stderr\":\"\"}";
	auto_sandbox struct sandbox s = {0};

	if (sandbox_get(api_core(req), api_who(req), toolbox_id(req), &s, err) < 0)
		return -1;
	if (http_wants_upgrade(req))
		return http_upgrade(req, http_ws_offered(req, 0), ws_nothing, NULL, err);
	if (log_format_of(req) == LOG_JSON)
		return http_reply(req, 200, "application/json", nothing, strlen(nothing), err);
	return http_reply(req, 200, "text/plain; charset=utf-8", "", 0, err);
}
