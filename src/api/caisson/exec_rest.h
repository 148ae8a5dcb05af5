/*
 * exec_rest.h - what the files about execs over plain HTTP share.
 */
#ifndef CAISSON_API_CAISSON_EXEC_REST_H
#define CAISSON_API_CAISSON_EXEC_REST_H

#include "api/caisson/native.h"
#include "caisson/process.h"

/* How the client wants it, by its Accept header. */
enum exec_form { FORM_JSON, FORM_SSE, FORM_LINES };
enum exec_form exec_form_of(struct http_req *req);

/* The exec, or the session's command, that the path names. */
struct process_ref exec_ref(struct http_req *req);

/* ---- exec_json.c: objects (all without braces but exec_put) ---- */
void exec_put(struct jw *w, struct core *c, const char *sandbox, const struct task_info *t);
/* exitCode, cause, signal, oom, cwdFallback. */
void exec_put_end(struct jw *w, const struct exec_result *r);
void exec_put_lost(struct jw *w, const char *sandbox);

/* Output of two streams kept for a JSON reply, each up to max bytes. */
struct exec_keep {
	struct http_req *req;
	bool base64;
	uint64_t max;
	struct buf b[2];
	uint64_t total[2], first[2]; /* bytes there were; offset of the first kept */
	bool cut;
};
void exec_keep_init(struct exec_keep *k, struct http_req *req, bool base64, uint64_t max);
void exec_keep_done(struct exec_keep *k);
#define auto_keep auto_call(exec_keep_done)
int exec_keep_sink(void *arg, int stream, const void *p, size_t n, struct err *err);
int exec_keep_log(struct exec_keep *k, struct process_log *log, struct task_info *end,
		  struct err *err);
/* stdout, stderr, encoding, their bytes, and truncated. */
void exec_keep_put(struct jw *w, const struct exec_keep *k);

/* ---- exec_events.c: server-sent events, or lines of JSON ---- */
struct exec_events;
struct exec_events_src {
	/* Add events: 1 added some, 0 nothing by the deadline, 2 the end, -1. */
	int (*next)(void *arg, struct exec_events *e, int64_t deadline_ms, struct err *err);
	void (*free)(void *arg);
};
/* Reply with what src tells; arg is taken. The first events may be added before it. */
struct exec_events *exec_events_new(struct http_req *req, enum exec_form form, bool base64,
				    struct err *err);
int exec_events_reply(struct http_req *req, struct exec_events *e,
		      const struct exec_events_src *src, void *arg, struct err *err);
void exec_events_free(void *e);
/* One event with members between begin and end. */
struct jw *exec_event_begin(struct exec_events *e, const char *type);
void exec_event_end(struct exec_events *e);
/* Output at an offset; text that ends inside a character waits for the rest of it. */
void exec_event_output(struct exec_events *e, int stream, uint64_t offset, const void *p, size_t n);
void exec_event_flush(struct exec_events *e);
void exec_event_error(struct exec_events *e, const struct err *why);
int exec_events_client(const struct exec_events *e);

/* The events of a log, to the end of its process. log is taken. */
int exec_follow(struct http_req *req, struct process_log *log, const char *sandbox,
		enum exec_form form, bool base64, struct err *err);
/* ---- exec_pipe.c: an attached exec, whose output waits for its reader ---- */
#define EXEC_LINGER_MS 5000 /* from the hang-up to the kill */
int exec_attach(struct http_req *req, const struct exec_spec *spec, enum exec_form form,
		bool base64, struct err *err);

/* ---- exec_msg.c ---- */
int exec_signal_of(const char *name, struct err *err); /* "SIGTERM"; -1 */

extern const struct jt_table native_request_table, native_signal_table, native_resize_table,
	native_kill_table;

#endif
