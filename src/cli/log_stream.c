/*
 * log_stream.c - a log from a WebSocket to our standard output and error.
 */
#include "cli/log_stream.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "cli/rest.h"
#include "cli/wsock.h"
#include "wire/log_split.h"

struct printer {
	struct log_split split;
	bool reader_gone;
	int close_code; /* 0: none came */
	char reason[128];
};

static int print(void *arg, int stream, const uint8_t *p, size_t n, struct err *err)
{
	struct printer *k = arg;
	if (fd_write_all(stream == 2 ? STDERR_FILENO : STDOUT_FILENO, p, n, 0, err) == 0)
		return 0;
	k->reader_gone = err->errnum == EPIPE;
	return err_wrap(err, "write output");
}

static int on_message(void *arg, enum ws_opcode op, const uint8_t *p, size_t n, struct err *err)
{
	struct printer *k = arg;
	if (op != WS_OP_CLOSE)
		return log_split_add(&k->split, p, n, print, k, err);
	k->close_code = n >= 2 ? p[0] << 8 | p[1] : 1005;
	snprintf(k->reason, sizeof(k->reason), "%.*s", n > 2 ? (int)n - 2 : 0,
		 n > 2 ? (const char *)p + 2 : "");
	return log_split_end(&k->split, print, k, err);
}

static int pump(struct wsock *w, struct printer *k, struct err *err)
{
	while (!w->closed) {
		struct pollfd p = {w->fd, (short)(POLLIN | (w->out.len ? POLLOUT : 0)), 0};
		if (wsock_read(w, on_message, k, err) < 0 || wsock_flush(w, err) < 0)
			return -1;
		if (!w->closed && poll(&p, 1, -1) < 0 && errno != EINTR)
			return err_errno(err, ERR_INTERNAL, errno, "poll");
	}
	if (k->close_code == 1000 || k->close_code == 1001)
		return 0;
	if (!k->close_code)
		return err_set(err, ERR_UNAVAILABLE, "the connection broke");
	return err_set(err, ERR_UNAVAILABLE, "the server ended the log (%d%s%s)", k->close_code,
		       *k->reason ? ": " : "", k->reason);
}

int log_stream_print(struct cli *c, const char *url, bool follow, struct err *err)
{
	auto_wsock struct wsock w = {0};
	struct printer k = {0};
	auto_buf struct buf full = BUF_INIT(REST_URL_MAX);
	if (buf_adds(&full, url, err) < 0 ||
	    (follow && url_query(&full, "follow", "true", err) < 0))
		return -1;
	fflush(stdout);
	if (wsock_open(&w, c, buf_str(&full), err) < 0)
		return -1;
	if (pump(&w, &k, err) == 0)
		return 0;
	if (!k.reader_gone)
		return -1;
	*err = (struct err){0};
	return 1;
}
