/*
 * exec_ws.h - the messages of an attached exec and its state; see exec_ws.c.
 */
#ifndef CAISSON_API_CAISSON_EXEC_WS_H
#define CAISSON_API_CAISSON_EXEC_WS_H

#include "api/caisson/native.h"

enum exec_channel { CH_STDIN = 0, CH_STDOUT = 1, CH_STDERR = 2, CH_RESIZE = 3, CH_SIGNAL = 4 };

/* The client's first message. */
struct exec_start {
	const char *command, *cwd, *user;
	struct jt_strs argv;
	struct kv env;
	bool tty, has_stdin;
	int64_t cols, rows, timeout_ms, timeout_s;
};

/* A message from the client, of which only the members of its kind are set. */
enum exec_msg_kind { MSG_NONE, MSG_INPUT, MSG_EOF, MSG_RESIZE, MSG_SIGNAL };
struct exec_msg {
	enum exec_msg_kind kind;
	const char *p;
	size_t n;
	uint16_t cols, rows;
	int sig;
};
int exec_msg_binary(const char *p, size_t n, struct exec_msg *ret, struct err *err);
int exec_msg_text(const char *p, size_t n, struct exec_msg *ret, struct err *err);
/* The server's last texts, into b. */
int exec_msg_exit(struct buf *b, const struct exec_result *r, struct err *err);
int exec_msg_error(struct buf *b, const struct err *why, struct err *err);

#endif
