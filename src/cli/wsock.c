/*
 * wsock.c - the upgrade and the frames of a client's WebSocket.
 */
#include "cli/wsock.h"

#include <curl/curl.h>
#include <poll.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/id.h"
#include "cli/rest.h"

#define HEAD_MAX 32768 /* bytes of the server's reply to the upgrade */
#define READ_MAX 65536

void wsock_done(struct wsock *w)
{
	if (w->curl)
		curl_easy_cleanup(w->curl);
	w->curl = NULL;
	buf_done(&w->in);
	buf_done(&w->msg);
	buf_done(&w->out);
}

static int connect_to(struct wsock *w, const struct cli *c, const char *url, struct err *err)
{
	curl_socket_t fd = CURL_SOCKET_BAD;
	w->curl = curl_easy_init();
	if (!w->curl)
		return err_set(err, ERR_NOMEM, "out of memory");
	curl_easy_setopt(w->curl, CURLOPT_URL, url);
	rest_curl(c, w->curl);
	curl_easy_setopt(w->curl, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(w->curl, CURLOPT_SSL_ENABLE_ALPN, 0L);
	curl_easy_setopt(w->curl, CURLOPT_CONNECT_ONLY, 1L);
	curl_easy_setopt(w->curl, CURLOPT_TCP_KEEPALIVE, 1L);
	CURLcode rc = curl_easy_perform(w->curl);
	if (rc != CURLE_OK)
		return rest_curl_fault(c, (int)rc, err);
	if (curl_easy_getinfo(w->curl, CURLINFO_ACTIVESOCKET, &fd) != CURLE_OK ||
	    fd == CURL_SOCKET_BAD)
		return err_set(err, ERR_UNAVAILABLE, "%s: no socket", c->url);
	w->fd = (int)fd;
	return 0;
}

int wsock_flush(struct wsock *w, struct err *err)
{
	while (w->out.len) {
		size_t n = 0;
		CURLcode rc = curl_easy_send(w->curl, w->out.data, w->out.len, &n);
		if (rc == CURLE_AGAIN)
			return 0;
		if (rc != CURLE_OK)
			return err_set(err, ERR_UNAVAILABLE, "the connection broke: %s",
				       curl_easy_strerror(rc));
		buf_eat(&w->out, n);
	}
	return 0;
}

/* Send what is queued and wait for more bytes; used while the connection is being made. */
static int step(struct wsock *w, struct buf *in, int64_t deadline, struct err *err)
{
	size_t n = 0;
	if (wsock_flush(w, err) < 0)
		return -1;
	char *p = buf_reserve(in, 4096, err);
	if (!p)
		return -1;
	CURLcode rc = curl_easy_recv(w->curl, p, 4096, &n);
	if (rc == CURLE_AGAIN)
		return fd_wait(w->fd, (short)(POLLIN | (w->out.len ? POLLOUT : 0)), -1, deadline,
			       err) < 0
			       ? -1
			       : 0;
	if (rc != CURLE_OK || n == 0)
		return err_set(err, ERR_UNAVAILABLE, "the server closed the connection");
	buf_commit(in, n);
	return 0;
}

static long status_of(const char *head)
{
	long v = 0;
	if (strncmp(head, "HTTP/1.1 ", 9) == 0)
		v = strtol(head + 9, NULL, 10);
	return v;
}

/* Value of a header line into out; "" when absent. */
static void header_of(const char *head, const char *name, char *out, size_t cap)
{
	size_t n = strlen(name);
	*out = '\0';
	for (const char *p = strstr(head, "\r\n"); p; p = strstr(p, "\r\n")) {
		p += 2;
		if (strncasecmp(p, name, n) || p[n] != ':')
			continue;
		p += n + 1;
		p += strspn(p, " \t");
		snprintf(out, cap, "%.*s", (int)strcspn(p, "\r\n"), p);
		return;
	}
}

/* A refusal: read its body as far as it is announced, and tell it. */
static int refused(struct wsock *w, size_t body_at, int64_t deadline, struct err *err)
{
	char length[32];
	struct err ignored = {0};
	long status = status_of(buf_str(&w->in));
	header_of(buf_str(&w->in), "Content-Length", length, sizeof(length));
	size_t want = body_at + (size_t)strtoul(length, NULL, 10);
	while (w->in.len < want && step(w, &w->in, deadline, &ignored) == 0)
		;
	return rest_fault(status, buf_str(&w->in) + body_at, err);
}

static int upgrade(struct wsock *w, const struct cli *c, const char *url, struct err *err)
{
	int64_t deadline = clock_mono_ms() + WSOCK_OPEN_MS;
	uint8_t raw[16];
	char key[WS_KEY_LEN], want[WS_ACCEPT_LEN], got[64];
	const char *host = strstr(url, "://") + 3, *end;
	size_t host_len = strcspn(host, "/?");
	id_random(raw, sizeof(raw));
	ws_key_encode(raw, key);
	ws_accept_of(key, want);
	if (buf_addf(&w->out, err,
		     "GET %s HTTP/1.1\r\nHost: %.*s\r\nUpgrade: websocket\r\n"
		     "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
		     "Sec-WebSocket-Key: %s\r\nUser-Agent: caisson-cli/" CAISSON_VERSION "\r\n"
		     "X-Daytona-Source: caisson-cli\r\n",
		     host[host_len] ? host + host_len : "/", (int)host_len, host, key) < 0 ||
	    (c->key && buf_addf(&w->out, err, "Authorization: Bearer %s\r\n", c->key) < 0) ||
	    buf_adds(&w->out, "\r\n", err) < 0)
		return -1;
	while (!(end = strstr(buf_str(&w->in), "\r\n\r\n"))) {
		if (w->in.len > HEAD_MAX)
			return err_set(err, ERR_TOO_LARGE, "the server's reply has no end");
		if (step(w, &w->in, deadline, err) < 0)
			return -1;
	}
	size_t head = (size_t)(end - w->in.data) + 4;
	if (status_of(w->in.data) != 101)
		return refused(w, head, deadline, err);
	header_of(w->in.data, "Sec-WebSocket-Accept", got, sizeof(got));
	if (strcmp(got, want))
		return err_set(err, ERR_INTERNAL, "the server is no WebSocket server");
	buf_eat(&w->in, head);
	return 0;
}

int wsock_open(struct wsock *w, struct cli *c, const char *path, struct err *err)
{
	char url[REST_URL_MAX];
	*w = (struct wsock){.fd = -1};
	buf_init(&w->in, WSOCK_MESSAGE_MAX + READ_MAX);
	buf_init(&w->msg, WSOCK_MESSAGE_MAX);
	buf_init(&w->out, WSOCK_OUT_MAX);
	if (snprintf(url, sizeof(url), "%s%s", *path == '/' ? c->url : "", path) >=
	    (int)sizeof(url))
		return err_set(err, ERR_INVALID, "the URL is too long");
	if (connect_to(w, c, url, err) < 0)
		return -1;
	return upgrade(w, c, url, err);
}

int wsock_send(struct wsock *w, enum ws_opcode op, const void *p, size_t n, struct err *err)
{
	uint8_t head[WS_HEAD_MAX];
	struct ws_head h = {.fin = true, .masked = true, .op = (uint8_t)op, .len = n};
	id_random(h.mask, sizeof(h.mask));
	size_t used = ws_head_write(&h, head);
	if (buf_add(&w->out, head, used, err) < 0 || buf_add(&w->out, p, n, err) < 0)
		return -1;
	ws_mask(w->out.data + w->out.len - n, n, h.mask, 0);
	return wsock_flush(w, err);
}

static int take_frame(struct wsock *w, const struct ws_head *h, const uint8_t *p, wsock_fn fn,
		      void *arg, struct err *err)
{
	if (h->op == WS_OP_PING)
		return wsock_send(w, WS_OP_PONG, p, h->len, err);
	if (h->op == WS_OP_PONG)
		return 0;
	if (h->op == WS_OP_CLOSE) {
		w->closed = true;
		return fn(arg, WS_OP_CLOSE, p, h->len, err);
	}
	if ((h->op == WS_OP_CONTINUE) == (w->op == 0))
		return err_set(err, ERR_INTERNAL, "the server broke the frame order");
	if (h->op != WS_OP_CONTINUE)
		w->op = h->op;
	if (h->fin && !w->msg.len) {
		int op = w->op;
		w->op = 0;
		return fn(arg, (enum ws_opcode)op, p, h->len, err);
	}
	if (buf_add(&w->msg, p, h->len, err) < 0)
		return err_wrap(err, "message");
	if (!h->fin)
		return 0;
	int rc = fn(arg, (enum ws_opcode)w->op, (const uint8_t *)buf_str(&w->msg), w->msg.len, err);
	w->op = 0;
	buf_clear(&w->msg);
	return rc;
}

/* All whole frames of in. */
static int take_frames(struct wsock *w, wsock_fn fn, void *arg, struct err *err)
{
	size_t at = 0;
	int rc = 0;
	while (rc == 0 && !w->closed) {
		struct ws_head h;
		int n = ws_head_parse(buf_str(&w->in) + at, w->in.len - at, false, &h, err);
		if (n < 0)
			rc = -1;
		else if (n > 0 && h.len > WSOCK_MESSAGE_MAX)
			rc = err_set(err, ERR_TOO_LARGE, "the server sent too large a message");
		if (n <= 0 || rc < 0 || w->in.len - at - (size_t)n < h.len)
			break;
		const uint8_t *p = (const uint8_t *)w->in.data + at + n;
		at += (size_t)n + h.len;
		rc = take_frame(w, &h, p, fn, arg, err);
	}
	buf_eat(&w->in, at);
	return rc;
}

int wsock_read(struct wsock *w, wsock_fn fn, void *arg, struct err *err)
{
	/* Until curl says AGAIN: with TLS it may hold bytes that poll doesn't see. */
	while (!w->closed) {
		size_t n = 0;
		if (take_frames(w, fn, arg, err) < 0)
			return -1;
		char *p = w->closed ? NULL : buf_reserve(&w->in, READ_MAX, err);
		if (!p)
			return w->closed ? 0 : -1;
		CURLcode rc = curl_easy_recv(w->curl, p, READ_MAX, &n);
		if (rc == CURLE_AGAIN)
			return 0;
		if (rc != CURLE_OK || n == 0) {
			w->closed = true;
			return 0;
		}
		buf_commit(&w->in, n);
	}
	return 0;
}
