/*
 * socketio.c - see socketio.h. The connection's thread does all reading and writing; emitters
 * only append to the queue and ring its eventfd.
 */
#include "http/socketio.h"

#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/clock.h"
#include "base/id.h"
#include "base/log.h"
#include "http/internal.h"
#include "wire/ws.h"

#define SIO_SEND_MS   10000
#define SIO_TOKEN_MAX 4096

struct sio_event {
	struct sio_event *next;
	size_t len;
	char text[];
};

struct sio_conn {
	struct http_ws *ws;
	int wake; /* eventfd */
	pthread_mutex_t lock;
	struct sio_event *first, **tail;  /* lock */
	size_t count, bytes;		  /* lock */
	bool overflowed, revoked, closed; /* lock */
	int64_t ping_at_ms, pong_by_ms;	  /* pong_by 0: none is due */
	bool joined;
};

/* ---- the little JSON a connect packet needs ---- */

/* Skip a string that begins at its quote; NULL when it does not end. */
static const char *string_skip(const char *p)
{
	for (p++; *p && *p != '"'; p++)
		if (*p == '\\' && !*++p)
			return NULL;
	return *p ? p + 1 : NULL;
}

/* Skip a value without recursion: depth is only counted, so nesting costs nothing. */
static const char *value_skip(const char *p)
{
	size_t depth = 0;

	while (p && *p) {
		if (*p == '"') {
			p = string_skip(p);
			continue;
		}
		if (*p == '{' || *p == '[')
			depth++;
		else if ((*p == '}' || *p == ']') && depth)
			depth--;
		else if (!depth && (*p == ',' || *p == '}' || *p == ']'))
			return p;
		p++;
	}
	return NULL;
}

static const char *blanks_skip(const char *p)
{
	return p + strspn(p, " \t\r\n");
}

/* The plain text of the string at p. Tokens need no escapes, so one that has any is refused. */
static bool string_take(const char *p, char *out, size_t cap)
{
	size_t n = strcspn(p + 1, "\"\\");

	if (p[1 + n] != '"' || n >= cap)
		return false;
	memcpy(out, p + 1, n);
	out[n] = '\0';
	return true;
}

bool sio_connect_token(const char *packet, char *out, size_t cap)
{
	const char *p = packet;

	out[0] = '\0';
	if (strncmp(p, "40", 2) != 0)
		return false;
	p += 2;
	if (*p == '/') {
		if (strncmp(p, "/,", 2) != 0)
			return false;
		p += 2;
	}
	if (!*p)
		return true;
	if (*p != '{')
		return false;
	for (p = blanks_skip(p + 1); p && *p == '"';) {
		const char *value = string_skip(p);
		bool hit = strncmp(p, "\"token\"", 7) == 0;

		value = value ? blanks_skip(value) : NULL;
		if (!value || *value != ':')
			return false;
		value = blanks_skip(value + 1);
		if (hit && *value == '"' && !string_take(value, out, cap))
			return false;
		p = value_skip(value);
		if (p && *p == ',')
			p = blanks_skip(p + 1);
	}
	return p && *p == '}';
}

/* ---- the queue ---- */

static void queue_clear(struct sio_conn *c)
{
	while (c->first) {
		struct sio_event *e = c->first;

		c->first = e->next;
		free(e);
	}
	c->tail = &c->first;
	c->count = c->bytes = 0;
}

bool sio_emit(struct sio_conn *c, const char *event, const char *json)
{
	size_t cap = strlen(event) + strlen(json) + 16;
	struct sio_event *e = malloc(sizeof(*e) + cap);
	uint64_t one = 1;
	bool ok = false;

	if (!e)
		return false;
	e->next = NULL;
	e->len = (size_t)snprintf(e->text, cap, "42[\"%s\",%s]", event, json);
	pthread_mutex_lock(&c->lock);
	if (c->count >= SIO_QUEUE_MAX || c->bytes + e->len > SIO_QUEUE_BYTES)
		c->overflowed = true;
	ok = !c->closed && !c->overflowed && !c->revoked;
	if (ok) {
		*c->tail = e;
		c->tail = &e->next;
		c->count++;
		c->bytes += e->len;
	}
	pthread_mutex_unlock(&c->lock);
	if (!ok)
		free(e);
	(void)!write(c->wake, &one, sizeof(one));
	return ok;
}

void sio_revoke(struct sio_conn *c)
{
	uint64_t one = 1;

	pthread_mutex_lock(&c->lock);
	c->revoked = true;
	pthread_mutex_unlock(&c->lock);
	(void)!write(c->wake, &one, sizeof(one));
}

static int sio_send(struct sio_conn *c, const char *text, struct err *err)
{
	return http_ws_send(c->ws, WS_TEXT, text, strlen(text), clock_mono_ms() + SIO_SEND_MS, err);
}

/* Send what is queued. -1: the client is gone or too slow. */
static int queue_send(struct sio_conn *c, struct err *err)
{
	uint64_t rung;

	(void)!read(c->wake, &rung, sizeof(rung));
	for (;;) {
		struct sio_event *e;
		bool overflowed, revoked;
		int rc;

		pthread_mutex_lock(&c->lock);
		overflowed = c->overflowed;
		revoked = c->revoked;
		e = overflowed || revoked ? NULL : c->first;
		if (e) {
			c->first = e->next;
			if (!c->first)
				c->tail = &c->first;
			c->count--;
			c->bytes -= e->len;
		}
		pthread_mutex_unlock(&c->lock);
		if (revoked) {
			http_ws_close(c->ws, WS_CLOSE_POLICY, "the key is not valid any more");
			return err_set(err, ERR_UNAUTHORIZED, "the key is not valid any more");
		}
		if (overflowed) {
			http_ws_close(c->ws, WS_CLOSE_POLICY, "too slow for the events");
			return err_set(err, ERR_GONE, "client is too slow for its events");
		}
		if (!e)
			return 0;
		rc = http_ws_send(c->ws, WS_TEXT, e->text, e->len, clock_mono_ms() + SIO_SEND_MS,
				  err);
		free(e);
		if (rc < 0)
			return -1;
	}
}

/* ---- packets ---- */

static int open_send(struct sio_conn *c, struct err *err)
{
	char sid[33], text[256];

	id_hex(sid, 10);
	snprintf(text, sizeof(text),
		 "0{\"sid\":\"%s\",\"upgrades\":[],\"pingInterval\":%d,\"pingTimeout\":%d,"
		 "\"maxPayload\":%d}",
		 sid, SIO_PING_INTERVAL_MS, SIO_PING_TIMEOUT_MS, SIO_MESSAGE_MAX);
	return sio_send(c, text, err);
}

static void refuse(struct sio_conn *c, const char *why)
{
	char text[ERR_MSG_MAX + 64];
	size_t n = (size_t)snprintf(text, sizeof(text), "44{\"message\":\"");

	for (; *why && n + 8 < sizeof(text); why++) {
		unsigned char ch = (unsigned char)*why;

		/* Plain ASCII is enough for a refusal and cannot be cut in two. */
		text[n++] = ch < 32 || ch > 126 || ch == '"' || ch == '\\' ? '\'' : (char)ch;
	}
	snprintf(text + n, sizeof(text) - n, "\"}");
	sio_send(c, text, NULL);
	http_ws_close(c->ws, WS_CLOSE_NORMAL, NULL);
}

static int join(struct sio_conn *c, const char *packet, const struct sio_ops *ops, void *arg,
		struct err *err)
{
	char token[SIO_TOKEN_MAX], sid[33], text[64];

	if (!sio_connect_token(packet, token, sizeof(token))) {
		refuse(c, "connect to the default namespace with a token");
		return err_set(err, ERR_INVALID, "bad connect packet");
	}
	if (ops->connect(arg, c, token, err) < 0) {
		refuse(c, err->msg);
		return -1;
	}
	c->joined = true;
	id_hex(sid, 10);
	snprintf(text, sizeof(text), "40{\"sid\":\"%s\"}", sid);
	return sio_send(c, text, err);
}

/* One packet of the client. -1 ends the connection. */
static int packet_take(struct sio_conn *c, const struct buf *b, const struct sio_ops *ops,
		       void *arg, struct err *err)
{
	const char *p = buf_str(b);

	switch (*p) {
	case '1':
		return err_set(err, ERR_GONE, "client closed");
	case '2': {
		char pong[32];

		snprintf(pong, sizeof(pong), "3%.20s", p + 1);
		return sio_send(c, pong, err);
	}
	case '3':
		c->pong_by_ms = 0;
		return 0;
	case '4':
		break;
	default:
		http_ws_close(c->ws, WS_CLOSE_PROTOCOL, "unknown packet");
		return err_set(err, ERR_INVALID, "unknown packet");
	}
	if (p[1] == '1')
		return err_set(err, ERR_GONE, "client disconnected");
	if (p[1] == '0' && !c->joined)
		return join(c, p, ops, arg, err);
	/* Events of clients mean nothing here. */
	return 0;
}

static int messages_take(struct sio_conn *c, const struct sio_ops *ops, void *arg, struct err *err)
{
	struct buf b = BUF_INIT(SIO_MESSAGE_MAX);
	int rc;

	do {
		rc = http_ws_recv(c->ws, &b, SIO_MESSAGE_MAX, clock_mono_ms(), err);
		if (rc == WS_CLOSE)
			rc = err_set(err, ERR_GONE, "client closed");
		else if (rc == WS_TEXT)
			rc = packet_take(c, &b, ops, arg, err) < 0 ? -1 : 1;
	} while (rc > 0);
	buf_done(&b);
	return rc;
}

static int timers_run(struct sio_conn *c, int64_t connect_by_ms, struct err *err)
{
	int64_t now = clock_mono_ms();

	if (!c->joined && now >= connect_by_ms)
		return err_set(err, ERR_TIMEOUT, "no connect packet came");
	if (c->pong_by_ms && now >= c->pong_by_ms)
		return err_set(err, ERR_TIMEOUT, "client does not answer pings");
	if (now < c->ping_at_ms)
		return 0;
	c->ping_at_ms = now + SIO_PING_INTERVAL_MS;
	if (!c->pong_by_ms)
		c->pong_by_ms = now + SIO_PING_TIMEOUT_MS;
	return sio_send(c, "2", err);
}

static int sio_loop(struct sio_conn *c, const struct sio_ops *ops, void *arg, struct err *err)
{
	int64_t connect_by_ms = clock_mono_ms() + SIO_CONNECT_MS;

	c->ping_at_ms = clock_mono_ms() + SIO_PING_INTERVAL_MS;
	/* The first packets may have come with the upgrade itself, where no poll sees them. */
	if (open_send(c, err) < 0 || messages_take(c, ops, arg, err) < 0)
		return -1;
	for (;;) {
		struct pollfd p[] = {{.fd = http_ws_fd(c->ws), .events = POLLIN},
				     {.fd = c->wake, .events = POLLIN},
				     {.fd = ws_stop_fd(c->ws), .events = POLLIN}};
		int64_t until = MIN(c->ping_at_ms, c->joined ? INT64_MAX : connect_by_ms);

		if (c->pong_by_ms)
			until = MIN(until, c->pong_by_ms);
		poll(p, ARRAY_LEN(p), clock_left_ms(until));
		if (p[2].revents)
			return err_set(err, ERR_UNAVAILABLE, "the server is shutting down");
		if (p[1].revents && queue_send(c, err) < 0)
			return -1;
		if (p[0].revents && messages_take(c, ops, arg, err) < 0)
			return -1;
		if (timers_run(c, connect_by_ms, err) < 0)
			return -1;
	}
}

void sio_serve(struct http_ws *ws, const struct sio_ops *ops, void *arg)
{
	struct sio_conn c = {.ws = ws, .wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
	struct err err = {0};

	c.tail = &c.first;
	pthread_mutex_init(&c.lock, NULL);
	if (c.wake >= 0 && http_ws_fd(ws) >= 0) {
		sio_loop(&c, ops, arg, &err);
		log_debug("event socket ends: %s", err.msg);
	}
	pthread_mutex_lock(&c.lock);
	c.closed = true;
	pthread_mutex_unlock(&c.lock);
	if (c.joined && ops->disconnect)
		ops->disconnect(arg, &c);
	queue_clear(&c);
	if (c.wake >= 0)
		close(c.wake);
	pthread_mutex_destroy(&c.lock);
}
