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

/* The rows of its table; at(member) is the offset in the struct that holds it. */
#define EXEC_START_ROWS(at)                                                                        \
	{"argv", JT_STRS, 0, at(argv), 1, AGENT_ARGS_MAX, NULL},                                   \
		{"command", JT_STR, 0, at(command), 1, 512 << 10, NULL},                           \
		{"cwd", JT_STR, 0, at(cwd), 0, AGENT_PATH_MAX - 1, NULL},                          \
		{"env", JT_KV, 0, at(env), 0, 1000, NULL},                                         \
		{"user", JT_STR, 0, at(user), 0, AGENT_USER_MAX - 1, NULL},                        \
		{"tty", JT_BOOL, 0, at(tty), 0, 0, NULL},                                          \
		{"cols", JT_INT, 0, at(cols), 1, 1000, NULL},                                      \
		{"rows", JT_INT, 0, at(rows), 1, 1000, NULL},                                      \
		{"stdin", JT_BOOL, 0, at(has_stdin), 0, 0, NULL},                                  \
		{"timeoutMs", JT_INT, 0, at(timeout_ms), 0, 86400000, NULL},                       \
	{                                                                                          \
		"timeout", JT_INT, 0, at(timeout_s), 0, 86400, NULL                                \
	}
/* What s asks for, borrowed from it; shell is room for a command, as long as ret is used. */
int exec_start_spec(const struct exec_start *s, const char *sandbox, const char *shell[2],
		    struct exec_spec *ret, struct err *err);

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
