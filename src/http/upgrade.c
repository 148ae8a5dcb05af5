/*
 * upgrade.c - WebSockets from the upgrade request to the last byte.
 *
 * libmicrohttpd lets go of the socket only when we say so, thus every path that began must reach
 * MHD_UPGRADE_ACTION_CLOSE. fn runs exactly once for each accepted upgrade: on its own thread, or
 * on a dead socket when the upgrade never came about, so that it can free what it owns.
 */
#include "http/ws_private.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"

#define WS_BYE_MS 2000 /* for the peer's half of the closing */

static void ws_enlist(struct http_ws *ws)
{
	struct http_server *s = ws->srv;

	pthread_mutex_lock(&s->lock);
	ws->next = s->sockets;
	if (ws->next)
		ws->next->prev = ws;
	s->sockets = ws;
	pthread_mutex_unlock(&s->lock);
}

static void ws_delist(struct http_ws *ws)
{
	struct http_server *s = ws->srv;

	pthread_mutex_lock(&s->lock);
	if (ws->prev)
		ws->prev->next = ws->next;
	else
		s->sockets = ws->next;
	if (ws->next)
		ws->next->prev = ws->prev;
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->lock);
}

static void ws_free(struct http_ws *ws)
{
	pthread_mutex_destroy(&ws->send_lock);
	pthread_cond_destroy(&ws->sent);
	buf_done(&ws->msg);
	free(ws->early);
	free(ws);
}

void ws_abandon(struct http_ws *ws)
{
	atomic_store(&ws->dead, true);
	ws->fd = -1;
	ws->fn(ws, ws->arg);
	ws_free(ws);
}

/*
 * Give the socket back. It leaves the list only afterwards: a stopping server waits for the list,
 * and must not take libmicrohttpd down under this call.
 */
static void ws_release(struct http_ws *ws)
{
	atomic_store(&ws->dead, true);
	pthread_mutex_lock(&ws->srv->lock);
	ws->fd = -1;
	pthread_mutex_unlock(&ws->srv->lock);
	MHD_upgrade_action(ws->urh, MHD_UPGRADE_ACTION_CLOSE);
	ws_delist(ws);
}

/* Say goodbye and let the peer have its say, so that nothing we sent is lost to a reset. */
static void ws_finish(struct http_ws *ws)
{
	struct buf junk = BUF_INIT(1u << 20);
	int64_t until = clock_mono_ms() + WS_BYE_MS;

	if (!atomic_load(&ws->close_sent))
		http_ws_close(ws, http_stopping(ws) ? WS_CLOSE_AWAY : WS_CLOSE_NORMAL, NULL);
	while (!ws->peer_closed && clock_mono_ms() < until) {
		int rc = http_ws_recv(ws, &junk, junk.max, until, NULL);

		if (rc < 0 || rc == WS_CLOSE)
			break;
	}
	buf_done(&junk);
	ws_release(ws);
	ws_free(ws);
}

static void *ws_thread(void *arg)
{
	struct http_ws *ws = arg;

	log_set_request(ws->reqid);
	ws->fn(ws, ws->arg);
	ws_finish(ws);
	return NULL;
}

static int ws_spawn(struct http_ws *ws)
{
	pthread_attr_t attr;
	pthread_t id;
	int rc;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, HTTP_STACK);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	rc = pthread_create(&id, &attr, ws_thread, ws);
	pthread_attr_destroy(&attr);
	return rc;
}

static void ws_begin(void *cls, struct MHD_Connection *c, void *ctx, const char *early,
		     size_t early_len, MHD_socket sock, struct MHD_UpgradeResponseHandle *urh)
{
	struct http_ws *ws = cls;
	struct http_req *req = ctx;

	(void)c;
	req->ws = NULL;
	atomic_store(&req->conn->upgraded, true);
	ws->fd = sock;
	ws->urh = urh;
	ws->heard_ms = ws->pinged_ms = clock_mono_ms();
	fd_set_nonblock(sock, NULL);
	/* libmicrohttpd takes it back at the upgrade: each second small message would wait 40 ms
	 * for the first one's acknowledgement. Not of TLS, whose end this is not. */
	setsockopt(sock, IPPROTO_TCP, 1 /* TCP_NODELAY */, &(int){1}, sizeof(int));
	if (early_len) {
		ws->early = malloc(early_len);
		if (ws->early)
			memcpy(ws->early, early, early_len);
		ws->early_len = ws->early ? early_len : 0;
	}
	ws_enlist(ws);
	if ((!early_len || ws->early) && ws_spawn(ws) == 0)
		return;
	log_warn("no thread for a WebSocket");
	ws_release(ws);
	ws_abandon(ws);
}

/* Whether a comma list of tokens holds one. */
static bool list_has(const char *list, const char *token)
{
	size_t len = strlen(token);

	while (list && *list) {
		list += strspn(list, ", \t");
		if (strncasecmp(list, token, len) == 0 && strcspn(list, ", \t") == len)
			return true;
		list += strcspn(list, ",");
	}
	return false;
}

bool http_wants_upgrade(struct http_req *req)
{
	return list_has(http_header(req, "Upgrade"), "websocket") &&
	       list_has(http_header(req, "Connection"), "upgrade");
}

/* Offers may come in one header field or in several; a walk counts through all of them. */
struct offer_scan {
	size_t want, seen;
	const char *at;
	size_t len;
};

static enum MHD_Result offer_scan_one(void *cls, enum MHD_ValueKind kind, const char *key,
				      const char *value)
{
	struct offer_scan *o = cls;

	(void)kind;
	if (strcasecmp(key, "Sec-WebSocket-Protocol") != 0)
		return MHD_YES;
	while (*value) {
		value += strspn(value, ", \t");
		if (!*value)
			break;
		o->at = value;
		o->len = strcspn(value, ", \t");
		if (o->seen++ == o->want)
			return MHD_NO;
		value += o->len;
	}
	o->at = NULL;
	return MHD_YES;
}

const char *http_ws_offered(struct http_req *req, size_t i)
{
	struct offer_scan o = {.want = i};

	if (i >= HTTP_OFFERED_MAX)
		return NULL;
	if (req->offered[i])
		return req->offered[i];
	MHD_get_connection_values(req->mhd, MHD_HEADER_KIND, offer_scan_one, &o);
	if (o.at)
		req->offered[i] = strndup(o.at, o.len);
	return req->offered[i];
}

static int upgrade_check(struct http_req *req, const char *subprotocol, struct err *err)
{
	const char *version = http_header(req, "Sec-WebSocket-Version"), *offer = NULL;

	if (!http_wants_upgrade(req)) {
		err_set(err, ERR_INVALID, "this is a WebSocket: send an upgrade request");
		return req->fail_status = 426, -1;
	}
	if (!version || strcmp(version, "13") != 0) {
		err_set(err, ERR_INVALID, "Sec-WebSocket-Version: must be 13");
		return req->fail_status = 426, -1;
	}
	if (!ws_key_valid(http_header(req, "Sec-WebSocket-Key")))
		return err_set(err, ERR_INVALID, "Sec-WebSocket-Key: must be 24 base64 characters");
	for (size_t i = 0; subprotocol && (offer = http_ws_offered(req, i)); i++)
		if (strcmp(offer, subprotocol) == 0)
			return 0;
	return subprotocol ? err_set(err, ERR_INTERNAL, "subprotocol was not offered") : 0;
}

int http_upgrade(struct http_req *req, const char *subprotocol, http_ws_fn fn, void *arg,
		 struct err *err)
{
	char accept[WS_ACCEPT_LEN];
	struct MHD_Response *resp;
	struct http_ws *ws;

	if (upgrade_check(req, subprotocol, err) < 0)
		return -1;
	ws = calloc(1, sizeof(*ws));
	if (!ws)
		return err_set(err, ERR_NOMEM, "out of memory");
	ws->srv = req->srv;
	ws->fn = fn;
	ws->arg = arg;
	ws->fd = -1;
	snprintf(ws->reqid, sizeof(ws->reqid), "%s", req->reqid);
	pthread_mutex_init(&ws->send_lock, NULL);
	http_cond_init(&ws->sent);
	buf_init(&ws->msg, 0);
	resp = MHD_create_response_for_upgrade(ws_begin, ws);
	if (reply_set(req, 101, NULL, resp, err) < 0) {
		ws_free(ws);
		return -1;
	}
	ws_accept_of(http_header(req, "Sec-WebSocket-Key"), accept);
	MHD_add_response_header(resp, "Upgrade", "websocket");
	MHD_add_response_header(resp, "Sec-WebSocket-Accept", accept);
	if (subprotocol)
		MHD_add_response_header(resp, "Sec-WebSocket-Protocol", subprotocol);
	req->ws = ws;
	return 0;
}

void ws_stop_all(struct http_server *s)
{
	pthread_mutex_lock(&s->lock);
	for (struct http_ws *ws = s->sockets; ws; ws = ws->next) {
		static const char away[] = {(char)(WS_CLOSE_AWAY >> 8), (char)WS_CLOSE_AWAY};

		/* No waiting under the lock: a busy sender means the socket is simply cut. */
		if (ws_sender_enter(ws, 0) == 0) {
			if (!atomic_load(&ws->close_sent) && !atomic_load(&ws->dead)) {
				atomic_store(&ws->close_sent, true);
				ws_send_frame(ws, WS_OP_CLOSE, away, sizeof(away), 1, NULL);
			}
			ws_sender_leave(ws);
		}
		if (ws->fd >= 0)
			shutdown(ws->fd, SHUT_RD);
	}
	pthread_mutex_unlock(&s->lock);
}

void ws_kill_all(struct http_server *s)
{
	pthread_mutex_lock(&s->lock);
	for (struct http_ws *ws = s->sockets; ws; ws = ws->next)
		if (ws->fd >= 0)
			shutdown(ws->fd, SHUT_RDWR);
	pthread_mutex_unlock(&s->lock);
}
