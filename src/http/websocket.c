/*
 * websocket.c - WebSockets for handlers: the upgrade, whole messages, pings, the closing dance.
 *
 * Never reads past the message it is after, so polling the descriptor tells the truth; only what
 * came glued to the upgrade request is kept aside. One thread at a time sends, whole frames; the
 * others wait for their turn as long as their deadlines let them. A frame cut short by a deadline
 * leaves the stream without meaning: the socket is dead from then on.
 */
#include "http/ws_private.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"

#define WS_PING_MS    30000 /* silence before a ping */
#define WS_GONE_MS    90000 /* silence that means the peer is gone */
#define WS_SEND_MS    60000 /* longest send when the caller names no deadline */
#define WS_REPLY_MS   5000  /* for answers to control frames */
#define WS_SNDBUF     (256 << 10)
#define WS_UNSENT_MAX (64 << 10) /* leaves room for a piece and a close */
#define WS_READY_STEP 5

/* ---- sending ---- */

int ws_send_frame(struct http_ws *ws, uint8_t op, const void *p, size_t n, int64_t deadline_ms,
		  struct err *err)
{
	struct ws_head h = {.fin = true, .op = op, .len = n};
	uint8_t head[WS_HEAD_MAX];
	struct iovec iov[2] = {{.iov_base = head}, {.iov_base = (void *)p, .iov_len = n}};
	struct msghdr msg = {.msg_iov = iov, .msg_iovlen = 2};
	size_t left;

	iov[0].iov_len = ws_head_write(&h, head);
	left = iov[0].iov_len + n;
	while (left) {
		ssize_t put = sendmsg(ws->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (put < 0 && errno == EINTR)
			continue;
		if (put < 0 && errno != EAGAIN)
			return err_errno(err, ERR_GONE, errno, "send to the client");
		if (put < 0) {
			if (fd_wait(ws->fd, POLLOUT, -1, deadline_ms, err) < 0)
				return -1;
			continue;
		}
		left -= (size_t)put;
		for (size_t i = 0; i < 2; i++) {
			size_t cut = MIN((size_t)put, iov[i].iov_len);

			iov[i].iov_base = (char *)iov[i].iov_base + cut;
			iov[i].iov_len -= cut;
			put -= (ssize_t)cut;
		}
	}
	return 0;
}

int ws_sender_enter(struct http_ws *ws, int64_t until_ms)
{
	struct timespec ts = {until_ms / 1000, until_ms % 1000 * 1000000};
	int rc = 0;

	pthread_mutex_lock(&ws->send_lock);
	while (ws->sending && rc == 0)
		rc = until_ms ? pthread_cond_timedwait(&ws->sent, &ws->send_lock, &ts) : ETIMEDOUT;
	if (rc == 0)
		ws->sending = true;
	pthread_mutex_unlock(&ws->send_lock);
	return rc ? -1 : 0;
}

void ws_sender_leave(struct http_ws *ws)
{
	pthread_mutex_lock(&ws->send_lock);
	ws->sending = false;
	pthread_cond_signal(&ws->sent);
	pthread_mutex_unlock(&ws->send_lock);
}

static int ws_send_op(struct http_ws *ws, uint8_t op, const void *p, size_t n, int64_t deadline_ms,
		      struct err *err)
{
	int64_t until = deadline_ms ? deadline_ms : clock_mono_ms() + WS_SEND_MS;
	int rc = 0;

	if (ws_sender_enter(ws, until) < 0)
		return err_set(err, ERR_TIMEOUT, "another message is still being sent");
	if (atomic_load(&ws->dead) || atomic_load(&ws->close_sent)) {
		rc = err_set(err, ERR_GONE, "the connection is closed");
	} else {
		if (op == WS_OP_CLOSE)
			atomic_store(&ws->close_sent, true);
		rc = ws_send_frame(ws, op, p, n, until, err);
		if (rc < 0) {
			atomic_store(&ws->dead, true);
			shutdown(ws->fd, SHUT_RDWR);
		}
	}
	ws_sender_leave(ws);
	return rc;
}

int http_ws_send(struct http_ws *ws, enum http_ws_op op, const void *p, size_t n,
		 int64_t deadline_ms, struct err *err)
{
	if (op >= WS_CLOSE && n > WS_CONTROL_MAX)
		return err_set(err, ERR_INVALID, "control message: at most %d bytes",
			       WS_CONTROL_MAX);
	return ws_send_op(ws, (uint8_t)op, p, n, deadline_ms, err);
}

int http_ws_ready(struct http_ws *ws, int64_t deadline_ms, struct err *err)
{
	struct pollfd p = {.fd = ws->fd, .events = POLLRDHUP};
	int unsent = 0, room = WS_SNDBUF;

	if (!ws->sndbuf_set)
		setsockopt(ws->fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
	ws->sndbuf_set = true;
	/* Not by POLLOUT: it tells when there is any room, not when there is enough. Behind TLS
	 * the descriptor is no TCP socket and the answer none. */
	while (ioctl(ws->fd, SIOCOUTQNSD, &unsent) == 0 && unsent > WS_UNSENT_MAX) {
		if (atomic_load(&ws->dead))
			return err_set(err, ERR_GONE, "the connection is closed");
		if (deadline_ms && clock_mono_ms() >= deadline_ms)
			return err_set(err, ERR_TIMEOUT, "the client does not read");
		if (poll(&p, 1, WS_READY_STEP) > 0)
			return err_set(err, ERR_GONE, "the client hung up");
	}
	return 0;
}

void http_ws_close(struct http_ws *ws, uint16_t code, const char *reason)
{
	char body[WS_CONTROL_MAX] = {(char)(code >> 8), (char)code};
	size_t n = reason ? strnlen(reason, sizeof(body) - 2) : 0;

	if (n)
		memcpy(body + 2, reason, n);
	/* A reason cut in the middle of a character would be a protocol error. */
	while (n && !ws_utf8_valid(body + 2, n))
		n--;
	ws_send_op(ws, WS_OP_CLOSE, body, n + 2, clock_mono_ms() + WS_REPLY_MS, NULL);
}

/* ---- receiving ---- */

/* Up to n bytes that are there now: 0 none, -1 error or end. */
static ssize_t ws_read(struct http_ws *ws, void *p, size_t n, struct err *err)
{
	size_t early = ws->early_len - ws->early_at;
	ssize_t got;

	if (early) {
		n = MIN(n, early);
		memcpy(p, ws->early + ws->early_at, n);
		ws->early_at += n;
		return (ssize_t)n;
	}
	do {
		got = recv(ws->fd, p, n, MSG_DONTWAIT);
	} while (got < 0 && errno == EINTR);
	if (got > 0) {
		ws->heard_ms = clock_mono_ms();
		return got;
	}
	if (got < 0 && errno == EAGAIN)
		return 0;
	atomic_store(&ws->dead, true);
	return got == 0 ? err_set(err, ERR_GONE, "the client hung up")
			: err_errno(err, ERR_GONE, errno, "receive from the client");
}

static int ws_fail(struct http_ws *ws, uint16_t code, const struct err *why)
{
	http_ws_close(ws, code, why->msg);
	return -1;
}

/* Head bytes: 1 complete, 0 nothing there, -1. A masked frame has at least six bytes. */
static int head_take(struct http_ws *ws, size_t max, struct err *err)
{
	for (;;) {
		size_t want = ws->head_len < 6			? 6
			      : (ws->head_raw[1] & 0x7f) == 127 ? 14
			      : (ws->head_raw[1] & 0x7f) == 126 ? 8
								: 6;
		ssize_t n;
		int rc;

		if (ws->head_len >= want)
			break;
		n = ws_read(ws, ws->head_raw + ws->head_len, want - ws->head_len, err);
		if (n <= 0)
			return (int)n;
		ws->head_len += (size_t)n;
		rc = ws_head_parse(ws->head_raw, ws->head_len, true, &ws->head, err);
		if (rc < 0)
			return ws_fail(ws, WS_CLOSE_PROTOCOL, err);
	}
	ws->head_len = 0;
	ws->got = 0;
	ws->in_frame = true;
	if (ws->head.op >= WS_OP_CLOSE)
		return 1;
	if ((ws->head.op == WS_OP_CONTINUE) != (ws->msg_op != 0)) {
		err_set(err, ERR_INVALID, "frame: message fragments out of order");
		return ws_fail(ws, WS_CLOSE_PROTOCOL, err);
	}
	if (ws->head.len > max || ws->msg.len > max - ws->head.len) {
		err_set(err, ERR_TOO_LARGE, "message: at most %zu bytes", max);
		return ws_fail(ws, WS_CLOSE_TOO_BIG, err);
	}
	if (ws->head.op != WS_OP_CONTINUE)
		ws->msg_op = ws->head.op;
	return 1;
}

/* Payload bytes: 1 complete, 0 nothing there, -1. */
static int payload_take(struct http_ws *ws, struct err *err)
{
	while (ws->got < ws->head.len) {
		uint64_t left = ws->head.len - ws->got;
		size_t want = (size_t)MIN(left, (uint64_t)65536);
		char *to = (char *)ws->control + ws->got;
		ssize_t n;

		if (ws->head.op < WS_OP_CLOSE)
			to = buf_reserve(&ws->msg, want, err);
		if (!to)
			return ws_fail(ws, WS_CLOSE_INTERNAL, err);
		n = ws_read(ws, to, want, err);
		if (n <= 0)
			return (int)n;
		ws_mask(to, (size_t)n, ws->head.mask, ws->got);
		if (ws->head.op < WS_OP_CLOSE)
			buf_commit(&ws->msg, (size_t)n);
		ws->got += (uint64_t)n;
	}
	ws->in_frame = false;
	return 1;
}

/* The peer says goodbye: check it, answer it, hand its payload over. */
static int close_take(struct http_ws *ws, struct buf *b, struct err *err)
{
	size_t n = (size_t)ws->head.len;
	unsigned code = n >= 2 ? (unsigned)(ws->control[0] << 8 | ws->control[1]) : 0;

	ws->peer_closed = true;
	if (n == 1 || (n >= 2 && !ws_close_code_valid(code))) {
		err_set(err, ERR_INVALID, "frame: bad close code");
		return ws_fail(ws, WS_CLOSE_PROTOCOL, err);
	}
	if (n > 2 && !ws_utf8_valid(ws->control + 2, n - 2)) {
		err_set(err, ERR_INVALID, "frame: close reason is not UTF-8");
		return ws_fail(ws, WS_CLOSE_BAD_DATA, err);
	}
	ws_send_op(ws, WS_OP_CLOSE, ws->control, MIN(n, (size_t)2), clock_mono_ms() + WS_REPLY_MS,
		   NULL);
	buf_clear(b);
	return buf_add(b, ws->control, n, err) < 0 ? -1 : WS_CLOSE;
}

static int message_take(struct http_ws *ws, struct buf *b, struct err *err)
{
	int op = ws->msg_op;

	ws->msg_op = 0;
	if (op == WS_OP_TEXT && !ws_utf8_valid(ws->msg.data, ws->msg.len)) {
		err_set(err, ERR_INVALID, "message: text must be UTF-8");
		return ws_fail(ws, WS_CLOSE_BAD_DATA, err);
	}
	buf_clear(b);
	if (buf_add(b, ws->msg.data, ws->msg.len, err) < 0)
		return ws_fail(ws, WS_CLOSE_TOO_BIG, err);
	buf_clear(&ws->msg);
	return op;
}

/* A frame is whole: an opcode to return, 0 to go on, -1. */
static int frame_take(struct http_ws *ws, struct buf *b, struct err *err)
{
	if (ws->head.op == WS_OP_CLOSE)
		return close_take(ws, b, err);
	if (ws->head.op == WS_OP_PING) {
		ws_send_op(ws, WS_OP_PONG, ws->control, (size_t)ws->head.len,
			   clock_mono_ms() + WS_REPLY_MS, NULL);
		return 0;
	}
	if (ws->head.op == WS_OP_PONG || !ws->head.fin)
		return 0;
	return message_take(ws, b, err);
}

/* Wait for bytes: 1 there may be some, 0 the deadline, -1 shutting down or gone. */
static int ws_wait(struct http_ws *ws, int64_t deadline_ms, struct err *err)
{
	struct pollfd p[2] = {{.fd = ws->fd, .events = POLLIN},
			      {.fd = ws->srv->stop_fd, .events = POLLIN}};

	for (;;) {
		int64_t now = clock_mono_ms();
		int64_t ping_at = MAX(ws->heard_ms, ws->pinged_ms) + WS_PING_MS;
		int64_t until = deadline_ms ? MIN(deadline_ms, ping_at) : ping_at;
		/* Once our close is out, shutting down is no news. */
		int n = poll(p, atomic_load(&ws->close_sent) ? 1 : 2, clock_left_ms(until));

		if (n < 0 && errno != EINTR)
			return err_errno(err, ERR_INTERNAL, errno, "poll");
		if (n > 0 && p[0].revents)
			return 1;
		if (n > 0 && p[1].revents)
			return err_set(err, ERR_UNAVAILABLE, "the server is shutting down");
		now = clock_mono_ms();
		if (deadline_ms && now >= deadline_ms)
			return 0;
		if (now - ws->heard_ms > WS_GONE_MS) {
			atomic_store(&ws->dead, true);
			return err_set(err, ERR_GONE, "the client is silent");
		}
		if (now >= ping_at) {
			ws->pinged_ms = now;
			ws_send_op(ws, WS_OP_PING, "", 0, now + WS_REPLY_MS, NULL);
		}
	}
}

int http_ws_recv(struct http_ws *ws, struct buf *b, size_t max, int64_t deadline_ms,
		 struct err *err)
{
	struct err unread;

	/* The texts go to the peer too, thus are needed even when the caller does not care. */
	if (!err)
		err = &unread;
	if (ws->peer_closed)
		return err_set(err, ERR_GONE, "the connection is closed");
	for (;;) {
		int rc;

		if (atomic_load(&ws->dead))
			return err_set(err, ERR_GONE, "the connection is closed");
		ws->msg.max = max;
		rc = ws->in_frame ? 1 : head_take(ws, max, err);
		if (rc > 0)
			rc = payload_take(ws, err);
		if (rc > 0) {
			rc = frame_take(ws, b, err);
			if (rc)
				return rc;
			continue;
		}
		if (rc == 0)
			rc = ws_wait(ws, deadline_ms, err);
		if (rc <= 0)
			return rc;
	}
}

int http_ws_fd(struct http_ws *ws)
{
	return ws->fd;
}

int ws_stop_fd(struct http_ws *ws)
{
	return ws->srv->stop_fd;
}

bool http_stopping(struct http_ws *ws)
{
	return atomic_load(&ws->srv->stopping);
}
