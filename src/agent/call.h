/*
 * call.h - one exchange with a sandbox's agent; private to src/agent.
 *
 * Whatever arrives is hostile: frames have a ceiling, descriptors a number and a kind, waits a
 * deadline. A breach is ERR_AGENT.
 */
#ifndef CAISSON_AGENT_CALL_H
#define CAISSON_AGENT_CALL_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/fd.h"
#include "caisson/agent.h"
#include "wire/agent_msg.h"

struct agent_reply {
	uint16_t type;
	uint8_t *p; /* payload, heap */
	size_t len;
	int fds[FD_PASS_MAX];
	size_t nfds;
};

void agent_reply_done(struct agent_reply *r);
#define auto_reply auto_call(agent_reply_done)

/* Connect; the socket is non-blocking. */
int agent_call_open(const char *path, int64_t deadline_ms, struct err *err);
int agent_call_send(int sock, const struct agent_req *r, int64_t deadline_ms, struct err *err);
/* The next frame. An AGENT_ERR becomes err; ret is empty on failure. */
int agent_call_recv(int sock, struct agent_reply *ret, int64_t deadline_ms, struct err *err);
/* The one AGENT_OK with nfds descriptors that answers r. */
int agent_call_answer(int sock, const struct agent_req *r, size_t nfds, struct agent_reply *ret,
		      int64_t deadline_ms, struct err *err);
/* Open, send, receive one AGENT_OK with nfds descriptors, close. */
int agent_call(const char *path, const struct agent_req *r, size_t nfds, struct agent_reply *ret,
	       int64_t deadline_ms, struct err *err);

/* The payload of an AGENT_ERR as err; returns -1. Its bytes are changed. */
int agent_reply_error(void *p, size_t len, struct err *err);
struct agent_strv agent_strv_of(const char *const *v); /* NULL-terminated, or NULL */

/* Strings of *ret point into the reply. */
void agent_info_get(struct wire_in *in, struct agent_info *ret);

/* The rest of a FIND that was sent on sock; max as sent. For agent_find, and to be fuzzed. */
int agent_find_replies(int sock, uint32_t max, int client, agent_match_fn fn, void *arg,
		       bool *ret_more, struct err *err);

/* Kind checks; on success the descriptor is non-blocking. mode: O_RDONLY, O_WRONLY, O_RDWR. */
int agent_fd_pipe(int fd, int mode, struct err *err);
int agent_fd_terminal(int fd, struct err *err);
int agent_fd_file(int fd, int mode, struct err *err);

/* note.c: lines of NOTES, cut up in place, as *ret_n records to be free()d. */
struct agent_note;
int agent_notes_parse(char *text, struct agent_note **ret, size_t *ret_n, struct err *err);

#endif
