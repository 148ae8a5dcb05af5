/*
 * session.h - what the files about sessions of the Daytona dialect share.
 */
#ifndef CAISSON_API_DAYTONA_SESSION_H
#define CAISSON_API_DAYTONA_SESSION_H

#include "api/daytona/toolbox.h"
#include "caisson/process.h"

/* ---- tables of sessions and terminals, walked by a test against the OpenAPI documents ---- */
extern const struct jt_table daytona_session_table, daytona_session_exec_table,
	daytona_session_input_table, daytona_pty_create_table, daytona_pty_resize_table;

/* How a client wants logs (contract §3.7), by what it says of itself. */
enum log_format {
	LOG_CLEAN,  /* text without markers */
	LOG_MARKED, /* text with them */
	LOG_JSON,
};
enum log_format log_format_of(struct http_req *req);

/* ---- session_log.c: output in memory, under the same bounds as that of commands ---- */
struct log_parts {
	struct http_req *req;
	bool marked;
	int last;		  /* stream of the last byte of all */
	struct buf all, out, err; /* both streams in order, and each */
	uint64_t kept, max;
	uint64_t total; /* bytes there were, those dropped before they were read included */
	bool cut;
};
void log_parts_init(struct log_parts *l, struct http_req *req, bool marked);
void log_parts_done(struct log_parts *l);
#define auto_parts auto_call(log_parts_done)
/* Read a log to its end. end is the process as of then. */
int log_parts_read(struct log_parts *l, struct process_log *log, struct task_info *end,
		   struct err *err);
/* Members output, stdout and stderr. */
void log_parts_put(struct jw *w, const struct log_parts *l);

#endif
