/*
 * watch.c - changes of files as server-sent events.
 *
 *   event: ready     it stands; all later changes come
 *   event: create | write | remove | rename | chmod     data: {"path", "isDir", "from"?}
 *   event: overflow  changes were lost: look at everything again
 *   event: limit     folders below path are not watched: there are too many
 *   event: end       the watched place is gone          event: error   data: an error object
 */
#include "api/caisson/native.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "caisson/files.h"

#define WATCH_BEAT_MS  15000	  /* a comment, so that who left is noticed */
#define WATCH_TEXT_MAX (4u << 20) /* a frame of the agent as text */

/* Used by the connection's thread alone. */
struct stream {
	struct file_watch *watch;
	int client;
	struct buf text; /* to be sent */
	bool over;
};

static void stream_free(void *arg)
{
	struct stream *s = arg;

	file_watch_free(s->watch);
	buf_done(&s->text);
	free(s);
}

static int put_event(void *arg, const struct agent_event *e, struct err *err)
{
	static const char *const names[] = {
		[AGENT_EVENT_CREATE] = "create", [AGENT_EVENT_WRITE] = "write",
		[AGENT_EVENT_REMOVE] = "remove", [AGENT_EVENT_RENAME] = "rename",
		[AGENT_EVENT_CHMOD] = "chmod",	 [AGENT_EVENT_OVERFLOW] = "overflow",
		[AGENT_EVENT_LIMIT] = "limit",
	};
	struct stream *s = arg;
	struct jw w;

	if (buf_addf(&s->text, err, "event: %s\ndata: ", names[e->kind]) < 0)
		return -1;
	jw_init(&w, &s->text);
	jw_open(&w, '{');
	jw_kstr(&w, "path", e->path);
	jw_kbool(&w, "isDir", e->dir);
	jw_kstr(&w, "from", *e->from ? e->from : NULL);
	jw_close(&w, '}');
	return jw_end(&w, err) < 0 ? -1 : buf_adds(&s->text, "\n\n", err);
}

/* The last words; the reply has begun, so an error can only be an event. */
static void put_end(struct stream *s, const struct err *why)
{
	struct jw w;

	s->over = true;
	if (!why) {
		buf_adds(&s->text, "event: end\ndata: {}\n\n", NULL);
		return;
	}
	buf_adds(&s->text, "event: error\ndata: ", NULL);
	jw_init(&w, &s->text);
	jw_open(&w, '{');
	native_error_members(&w, err_http_status(why->code), why);
	jw_close(&w, '}');
	buf_adds(&s->text, "\n\n", NULL);
}

/* Fill text. -1: nobody is there to read it. */
static int stream_wait(struct stream *s)
{
	struct err err = {0};
	bool over = false;
	int got = file_watch_next(s->watch, s->client, clock_mono_ms() + WATCH_BEAT_MS, put_event,
				  s, &over, &err);

	if (got < 0 && err.code == ERR_CANCELLED)
		return -1;
	if (got < 0)
		put_end(s, &err);
	else if (over)
		put_end(s, NULL);
	else if (got == 0)
		buf_adds(&s->text, ":\n\n", NULL);
	return 0;
}

static ssize_t stream_pull(void *arg, void *p, size_t cap)
{
	struct stream *s = arg;
	size_t n;

	while (!s->text.len) {
		if (s->over)
			return 0;
		if (stream_wait(s) < 0)
			return -1;
	}
	n = MIN(cap, s->text.len);
	memcpy(p, s->text.data, n);
	buf_eat(&s->text, n);
	return (ssize_t)n;
}

struct watch_args {
	const char *path;
	bool recursive;
};
static const struct jt_field watch_fields[] = {
	{"path", JT_STR, JT_REQUIRED, offsetof(struct watch_args, path), 1, AGENT_PATH_MAX - 1,
	 NULL},
	{"recursive", JT_BOOL, 0, offsetof(struct watch_args, recursive), 0, 0, NULL},
};
static const struct jt_table watch_table = {"", watch_fields, ARRAY_LEN(watch_fields)};

int caisson_native_watchFiles(struct http_req *req, struct err *err)
{
	struct watch_args a = {0};
	struct stream *s;

	if (api_query(req, &watch_table, &a, err) < 0)
		return -1;
	s = calloc(1, sizeof(*s));
	if (!s)
		return err_set(err, ERR_NOMEM, "out of memory");
	buf_init(&s->text, WATCH_TEXT_MAX);
	s->client = http_client_fd(req);
	s->watch = file_watch_open(api_core(req), api_who(req), http_param(req, "id"), a.path,
				   a.recursive, err);
	if (!s->watch || buf_adds(&s->text, "event: ready\ndata: {}\n\n", err) < 0) {
		stream_free(s);
		return -1;
	}
	http_reply_header(req, "Cache-Control", "no-store");
	return http_reply_stream(req, 200, "text/event-stream", -1, stream_pull, stream_free, s,
				 err);
}
