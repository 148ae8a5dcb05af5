/*
 * exec_events.c - execs as they go on: server-sent events, or lines of JSON.
 *
 * An event is one JSON object; as a server-sent event its type stands before it, too. Output is
 * text, whole characters with the offset of their first byte, or base64 of exactly the bytes.
 */
#include "api/caisson/exec_rest.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/base64.h"
#include "base/clock.h"
#include "base/utf8.h"

#define EVENTS_MAX (4u << 20) /* bytes of events that wait for the client */
#define PING_MS	   15000

struct carry {
	char p[4];
	size_t n;
	uint64_t offset; /* of its first byte */
};

struct exec_events {
	enum exec_form form;
	bool base64, ended;
	int client;
	struct buf out;
	size_t sent;
	struct jw w;
	struct carry carry[2];
	const struct exec_events_src *src;
	void *arg;
};

enum exec_form exec_form_of(struct http_req *req)
{
	const char *accept = http_header(req, "Accept");

	if (accept && strcasestr(accept, "text/event-stream"))
		return FORM_SSE;
	return accept && strcasestr(accept, "application/x-ndjson") ? FORM_LINES : FORM_JSON;
}

struct exec_events *exec_events_new(struct http_req *req, enum exec_form form, bool base64,
				    struct err *err)
{
	struct exec_events *e = calloc(1, sizeof(*e));

	if (!e) {
		err_set(err, ERR_NOMEM, "out of memory");
		return NULL;
	}
	e->form = form;
	e->base64 = base64;
	e->client = http_client_fd(req);
	buf_init(&e->out, EVENTS_MAX);
	return e;
}

void exec_events_free(void *arg)
{
	struct exec_events *e = arg;

	if (!e)
		return;
	if (e->src && e->src->free)
		e->src->free(e->arg);
	buf_done(&e->out);
	free(e);
}

int exec_events_client(const struct exec_events *e)
{
	return e->client;
}

struct jw *exec_event_begin(struct exec_events *e, const char *type)
{
	if (e->form == FORM_SSE)
		buf_addf(&e->out, NULL, "event: %s\ndata: ", type);
	jw_init(&e->w, &e->out);
	jw_open(&e->w, '{');
	jw_kstr(&e->w, "type", type);
	return &e->w;
}

void exec_event_end(struct exec_events *e)
{
	jw_close(&e->w, '}');
	buf_adds(&e->out, e->form == FORM_SSE ? "\n\n" : "\n", NULL);
}

static void event_data(struct exec_events *e, int stream, uint64_t offset, const char *a, size_t na,
		       const char *p, size_t n)
{
	auto_buf struct buf text = BUF_INIT(BASE64_LEN(n) + 4);
	struct jw *w;

	if (!na && !n)
		return;
	w = exec_event_begin(e, stream == 2 ? "stderr" : "stdout");
	jw_key(w, "offset");
	jw_uint(w, offset);
	jw_key(w, "data");
	if (e->base64) {
		base64_encode(p, n, &text, NULL);
		jw_strn(w, buf_str(&text), text.len);
	} else {
		jw_text_open(w);
		jw_text_more(w, a, na);
		jw_text_more(w, p, n);
		jw_text_close(w);
	}
	exec_event_end(e);
}

void exec_event_output(struct exec_events *e, int stream, uint64_t offset, const void *p, size_t n)
{
	struct carry *c = &e->carry[stream == 2];
	const char *from = p;
	char both[8];
	size_t whole, len;

	if (e->base64) {
		event_data(e, stream, offset, NULL, 0, p, n);
		return;
	}
	/* The carried bytes with the first new ones: how many of these end the character? */
	while (c->n && n) {
		memcpy(both, c->p, c->n);
		both[c->n] = *from;
		if (utf8_next(both, c->n + 1, &len) != UTF8_SHORT || c->n + 1 >= sizeof(c->p))
			break;
		c->p[c->n++] = *from++;
		n--;
	}
	if (!n)
		return;
	whole = utf8_floor(from, n);
	if (n - whole >= sizeof(c->p))
		whole = n;
	event_data(e, stream, c->n ? c->offset : offset, c->p, c->n, from, whole);
	c->n = n - whole;
	c->offset = offset + (uint64_t)(from - (const char *)p) + whole;
	memcpy(c->p, from + whole, c->n);
}

void exec_event_flush(struct exec_events *e)
{
	for (int i = 0; i < 2; i++) {
		struct carry *c = &e->carry[i];

		event_data(e, i + 1, c->offset, NULL, 0, c->p, c->n);
		c->n = 0;
	}
}

void exec_event_error(struct exec_events *e, const struct err *why)
{
	struct jw *w = exec_event_begin(e, "error");

	jw_key(w, "error");
	jw_open(w, '{');
	native_error_members(w, err_http_status(why->code), why);
	jw_close(w, '}');
	exec_event_end(e);
}

/* ---- the reply ---- */

static void events_more(struct exec_events *e)
{
	struct err err = {0};
	int got = e->src->next(e->arg, e, clock_mono_ms() + PING_MS, &err);

	if (got == 0 && e->form == FORM_SSE)
		buf_adds(&e->out, ": still there\n\n", NULL);
	if (got < 0 && err.code != ERR_CANCELLED) {
		exec_event_flush(e);
		exec_event_error(e, &err);
	}
	if (got < 0 || got == 2)
		e->ended = true;
}

static ssize_t events_pull(void *arg, void *p, size_t cap)
{
	struct exec_events *e = arg;
	size_t n;

	while (e->sent == e->out.len) {
		buf_clear(&e->out);
		e->sent = 0;
		if (e->ended)
			return 0;
		events_more(e);
	}
	n = MIN(cap, e->out.len - e->sent);
	memcpy(p, e->out.data + e->sent, n);
	e->sent += n;
	return (ssize_t)n;
}

int exec_events_reply(struct http_req *req, struct exec_events *e,
		      const struct exec_events_src *src, void *arg, struct err *err)
{
	e->src = src;
	e->arg = arg;
	http_reply_header(req, "Cache-Control", "no-store");
	return http_reply_stream(req, 200,
				 e->form == FORM_SSE ? "text/event-stream" : "application/x-ndjson",
				 -1, events_pull, exec_events_free, e, err);
}

/* ---- of a log ---- */

struct log_src {
	struct process_log *log;
	char sandbox[CORE_NAME_MAX];
};

static void log_free(void *arg)
{
	struct log_src *s = arg;

	process_log_close(s->log);
	free(s);
}

static void event_gap(struct exec_events *e, const struct task_chunk *c)
{
	struct jw *w = exec_event_begin(e, "gap");

	jw_kstr(w, "stream", c->stream == 2 ? "stderr" : "stdout");
	jw_key(w, "from");
	jw_uint(w, c->offset);
	jw_key(w, "to");
	jw_uint(w, c->offset + c->n);
	exec_event_end(e);
}

static int event_exit(struct exec_events *e, struct log_src *s, const struct task_info *end,
		      struct err *err)
{
	struct exec_result r = {0};
	struct jw *w;

	if (end->state != TASK_ENDED) {
		/* It was not followed: what there is was told. */
		w = exec_event_begin(e, "running");
		jw_kstr(w, "id", end->id);
		exec_event_end(e);
		return 0;
	}
	if (process_log_result(s->log, end, &r, err) < 0)
		return -1;
	w = exec_event_begin(e, "exit");
	jw_kstr(w, "id", end->id);
	exec_put_end(w, &r);
	jw_key(w, "stdoutBytes");
	jw_uint(w, end->out_total);
	jw_key(w, "stderrBytes");
	jw_uint(w, end->err_total);
	exec_event_end(e);
	return 0;
}

static int log_next(void *arg, struct exec_events *e, int64_t deadline_ms, struct err *err)
{
	auto_task struct task_info end = {0};
	struct log_src *s = arg;
	struct task_chunk c;
	int got = process_log_next(s->log, &c, &end, e->client, deadline_ms, err);

	if (got == TASK_READ_DATA)
		exec_event_output(e, c.stream, c.offset, c.p, (size_t)c.n);
	if (got == TASK_READ_GAP) {
		exec_event_flush(e);
		event_gap(e, &c);
	}
	if (got == TASK_READ_END) {
		exec_event_flush(e);
		return event_exit(e, s, &end, err) < 0 ? -1 : 2;
	}
	return got < 0 ? -1 : got != TASK_READ_NONE;
}

static const struct exec_events_src log_src_ops = {log_next, log_free};

int exec_follow(struct http_req *req, struct process_log *log, const char *sandbox,
		enum exec_form form, bool base64, struct err *err)
{
	struct exec_events *e = exec_events_new(req, form, base64, err);
	struct log_src *s = e ? calloc(1, sizeof(*s)) : NULL;
	const struct task_info *t = process_log_info(log);
	struct jw *w;

	if (!s) {
		exec_events_free(e);
		process_log_close(log);
		return e ? err_set(err, ERR_NOMEM, "out of memory") : -1;
	}
	s->log = log;
	snprintf(s->sandbox, sizeof(s->sandbox), "%s", sandbox);
	w = exec_event_begin(e, "start");
	jw_kstr(w, "id", t->id);
	jw_kint(w, "pid", t->pid);
	jw_kstr(w, "cwd", t->cwd);
	exec_event_end(e);
	return exec_events_reply(req, e, &log_src_ops, s, err);
}
