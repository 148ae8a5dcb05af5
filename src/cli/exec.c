/*
 * exec.c - the loop of an attached program: socket, standard input and signals in one poll.
 */
#include "cli/exec.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/fd.h"
#include "cli/exec_msg.h"
#include "cli/rest.h"
#include "cli/table.h"
#include "cli/term.h"
#include "cli/wsock.h"

#define STDIN_CHUNK   32768
#define STDIN_BACKLOG (1u << 20) /* stop reading standard input above this much unsent */
#define GIVE_UP_AFTER 3		 /* SIGINT or SIGTERM */

struct session {
	struct wsock ws;
	bool stdin_open; /* more input may come from us */
	bool ended;	 /* the program's end was told */
	bool tty;
	int interrupts;
	struct exec_end end;
};

static int send_text(struct session *s, char *text, struct err *err)
{
	if (!text)
		return 0;
	int rc = wsock_send(&s->ws, WS_OP_TEXT, text, strlen(text), err);
	free(text);
	return rc;
}

static int on_data(struct session *s, const uint8_t *p, size_t n, struct err *err)
{
	if (n < 1 || (p[0] != EXEC_STDOUT && p[0] != EXEC_STDERR))
		return err_set(err, ERR_INTERNAL, "the server sent an unknown channel");
	int fd = p[0] == EXEC_STDOUT ? STDOUT_FILENO : STDERR_FILENO;
	if (fd_write_all(fd, p + 1, n - 1, 0, err) == 0)
		return 0;
	if (err->errnum != EPIPE)
		return err_wrap(err, "write output");
	/* Our reader is gone, as for "| head": end as a program killed by SIGPIPE would. */
	*err = (struct err){0};
	s->ended = s->ws.closed = true;
	s->end.code = 128 + SIGPIPE;
	return 0;
}

static int on_message(void *arg, enum ws_opcode op, const uint8_t *p, size_t n, struct err *err)
{
	struct session *s = arg;
	if (op == WS_OP_BINARY)
		return on_data(s, p, n, err);
	if (op == WS_OP_TEXT) {
		int rc = exec_msg_read((const char *)p, n, &s->end, err);
		s->ended |= rc == 1;
		return MIN(rc, 0);
	}
	if (s->ended)
		return 0;
	int code = n >= 2 ? p[0] << 8 | p[1] : 0;
	return err_set(err, ERR_UNAVAILABLE, "the server ended the connection (%d%s%.*s)", code,
		       n > 2 ? ": " : "", (int)(n > 2 ? n - 2 : 0),
		       n > 2 ? (const char *)p + 2 : "");
}

static int on_stdin(struct session *s, struct err *err)
{
	uint8_t chunk[STDIN_CHUNK + 1];
	chunk[0] = EXEC_STDIN;
	ssize_t n = read(STDIN_FILENO, chunk + 1, STDIN_CHUNK);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n > 0)
		return wsock_send(&s->ws, WS_OP_BINARY, chunk, (size_t)n + 1, err);
	s->stdin_open = false;
	return wsock_send(&s->ws, WS_OP_TEXT, EXEC_MSG_EOF, strlen(EXEC_MSG_EOF), err);
}

static int on_signal(struct session *s, int sigfd, struct err *err)
{
	struct signalfd_siginfo si;
	if (read(sigfd, &si, sizeof(si)) != sizeof(si))
		return 0;
	int sig = (int)si.ssi_signo;
	if (sig == SIGWINCH) {
		int cols, rows;
		if (!s->tty)
			return 0;
		term_size(&cols, &rows);
		return send_text(s, exec_msg_resize(cols, rows), err);
	}
	if ((sig == SIGINT || sig == SIGTERM) && ++s->interrupts >= GIVE_UP_AFTER) {
		s->ended = s->ws.closed = true;
		s->end.code = 128 + sig;
		return 0;
	}
	return send_text(s, exec_msg_signal(sig), err);
}

/*
 * Sending failed: a program that ended without reading its input has told so already, and those
 * words are what counts.
 */
static int last_words(struct session *s, struct err *err)
{
	struct err later = {0};
	if (wsock_read(&s->ws, on_message, s, &later) == 0 && s->ended) {
		*err = (struct err){0};
		return 0;
	}
	return -1;
}

static int pump(struct session *s, int sigfd, struct err *err)
{
	while (!s->ws.closed) {
		bool want_in = s->stdin_open && s->ws.out.len < STDIN_BACKLOG;
		struct pollfd p[] = {
			{s->ws.fd, (short)(POLLIN | (s->ws.out.len ? POLLOUT : 0)), 0},
			{sigfd, POLLIN, 0},
			{want_in ? STDIN_FILENO : -1, POLLIN, 0},
		};
		if (poll(p, ARRAY_LEN(p), -1) < 0 && errno != EINTR)
			return err_errno(err, ERR_INTERNAL, errno, "poll");
		if (p[1].revents && on_signal(s, sigfd, err) < 0)
			return -1;
		if (p[0].revents && wsock_read(&s->ws, on_message, s, err) < 0)
			return -1;
		if (s->ended || s->ws.closed)
			break;
		if ((p[2].revents && on_stdin(s, err) < 0) || wsock_flush(&s->ws, err) < 0)
			return last_words(s, err);
	}
	return s->ended ? 0 : err_set(err, ERR_UNAVAILABLE, "the connection broke");
}

static int open_signals(sigset_t *old)
{
	static const int list[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH};
	sigset_t set;
	sigemptyset(&set);
	for (size_t i = 0; i < ARRAY_LEN(list); i++)
		sigaddset(&set, list[i]);
	sigprocmask(SIG_BLOCK, &set, old);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static int start(struct session *s, struct cli *c, const char *sandbox, const struct exec_args *a,
		 char **argv, struct err *err)
{
	int cols, rows;
	auto_buf struct buf url = BUF_INIT(REST_URL_MAX);
	if (url_of(&url, "/caisson/sandboxes/", sandbox, "/exec", err) < 0 ||
	    wsock_open(&s->ws, c, buf_str(&url), err) < 0)
		return -1;
	term_size(&cols, &rows);
	char *text = exec_msg_start(a, argv, cols, rows);
	if (!text)
		return err_set(err, ERR_INVALID, "an argument is not valid UTF-8");
	return send_text(s, text, err);
}

int exec_session(struct cli *c, const char *sandbox, const struct exec_args *a, char **argv,
		 struct err *err)
{
	auto_free struct session *s = calloc(1, sizeof(*s));
	struct term term = {0};
	sigset_t old;
	if (!s) {
		err_set(err, ERR_NOMEM, "out of memory");
		return CLI_OWN;
	}
	s->stdin_open = !a->no_stdin;
	s->tty = a->tty;
	fflush(stdout);
	auto_close int sigfd = open_signals(&old);
	int rc = sigfd < 0 ? err_errno(err, ERR_INTERNAL, errno, "signalfd")
			   : start(s, c, sandbox, a, argv, err);
	if (rc == 0) {
		if (a->tty)
			term_raw(&term);
		rc = pump(s, sigfd, err);
		term_restore(&term);
	}
	wsock_done(&s->ws);
	sigprocmask(SIG_SETMASK, &old, NULL);
	if (rc < 0)
		return s->end.code ? s->end.code : CLI_OWN;
	if (*s->end.note && !c->quiet) {
		fprintf(stderr, "caisson: %s: ", c->cmd->name);
		text_print(stderr, s->end.note);
		fputc('\n', stderr);
	}
	return s->end.code;
}
