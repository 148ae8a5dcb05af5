/*
 * term.h - a client at a terminal, over a WebSocket; for every dialect that has terminals.
 */
#ifndef CAISSON_API_TERM_H
#define CAISSON_API_TERM_H

#include "api/api.h"
#include "caisson/process.h"

struct term_opts {
	bool exit_control; /* tell the exit in a message of its own, too */
	bool offsets;	   /* tell where output begins, and gaps in it; else a gap ends it (1008) */
};
/*
 * Upgrade and serve: control messages are text, output is binary, input either. log, taken, is
 * read from where it was opened. Picks the first subprotocol that was offered.
 */
int term_upgrade(struct http_req *req, struct process_log *log, const struct term_opts *opts,
		 struct err *err);

#endif
