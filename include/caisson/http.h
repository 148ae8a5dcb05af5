/*
 * http.h - the server as handlers see it; src/http is the only user of libmicrohttpd.
 *
 * A dialect is a prefix, a generated route table and three hooks. For each request the server
 * finds the route, calls enter (authentication), reads the body under the route's ceiling, calls
 * the handler, and turns a -1 into the dialect's error body. leave runs once a reply is decided
 * (audit). Handlers run on the connection's thread and may block. One thread owns a request.
 */
#ifndef CAISSON_HTTP_H
#define CAISSON_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"

struct http_req;
struct http_server;

typedef int (*http_handler)(struct http_req *req, struct err *err);

enum http_body_kind {
	HTTP_BODY_NONE,	  /* a body is drained and ignored */
	HTTP_BODY_WHOLE,  /* http_body() holds it */
	HTTP_BODY_STREAM, /* the handler sets a sink; the sink's end replies */
};

struct http_route {
	const char *method; /* "*" any */
	const char *path; /* below the prefix: "/sandbox/{sandboxIdOrName}/start"; a last {x*} takes
			     the rest */
	const char *op;	  /* operationId */
	http_handler fn;  /* NULL: not built, 501 */
	enum http_body_kind body;
	uint32_t body_max; /* 0: the server's default, 1 MiB */
	uint16_t tag;	   /* dialect's own: permission, audit action row, … */
};

struct http_dialect {
	const char *name;
	const char *prefix; /* "/api"; the longest prefix wins */
	const struct http_route *route;
	size_t nroutes;
	int (*enter)(struct http_req *req, const struct http_route *rt, struct err *err);
	void (*leave)(struct http_req *req, const struct http_route *rt, int status,
		      const struct err *err);
	/* Write the error body (JSON text) for err into out. */
	void (*error)(struct http_req *req, int status, const struct err *err, struct buf *out);
	void (*ctx_free)(void *ctx); /* frees what http_set_ctx holds */
};

/* An OpenAPI document, served at /openapi/<name>.json and listed at /openapi.json. */
struct http_spec {
	const char *name;
	const char *text;
	size_t len;
};

struct http_config {
	int listen_fd; /* bound, listening; ownership taken */
	const struct http_dialect *const *dialect;
	size_t ndialects;
	void *app;		/* http_app(): the core */
	const char *public_url; /* links in replies; NULL: the request's Host */
	const char
		*trusted_proxies; /* comma list of addresses whose X-Forwarded-* count; NULL none */
	const char *tls_cert, *tls_key; /* PEM text or NULL */
	unsigned max_connections;	/* default 2048 */
	unsigned max_per_address;	/* default 512; loopback and trusted proxies are spared */
	unsigned idle_timeout_s;	/* default 75 */
	const struct http_spec *spec;	/* api_specs of routes.h; NULL: none */
	size_t nspecs;
};

struct http_server *http_start(const struct http_config *cfg, struct err *err);
/* Stop accepting; give running requests at most grace_ms; close streams; free. */
void http_stop(struct http_server *s, unsigned grace_ms);

/* ---- the request ---- */
void *http_app(struct http_req *req);
void http_set_ctx(struct http_req *req, void *ctx); /* dialect's per-request data */
void *http_ctx(struct http_req *req);
const char *http_method(struct http_req *req);
const char *http_path(struct http_req *req);			/* decoded, with prefix */
const char *http_param(struct http_req *req, const char *name); /* path parameter; never NULL */
/* Query value (decoded) or NULL; i-th of a repeated key, comma lists are not split here. */
const char *http_query(struct http_req *req, const char *name);
const char *http_query_nth(struct http_req *req, const char *name, size_t i);
const char *http_header(struct http_req *req, const char *name); /* NULL absent */
const struct buf *http_body(struct http_req *req);
const char *http_remote(struct http_req *req); /* client's address as text, proxies applied */
int http_client_fd(struct http_req *req);      /* for hang-up detection */
const char *http_request_id(struct http_req *req);
/*
 * Say how many bytes of memory this request holds by now, for as long as its reply is not sent;
 * http_held sums up over all requests, so that who collects much can stop in time.
 */
void http_hold(struct http_req *req, uint64_t bytes);
uint64_t http_held(struct http_req *req);
/* "http://host:port" without trailing slash: public URL or the Host used. */
const char *http_base_url(struct http_req *req);

/* ---- the reply: exactly one of these per request ---- */
void http_reply_header(struct http_req *req, const char *name, const char *value);
int http_reply(struct http_req *req, int status, const char *type, const void *p, size_t n,
	       struct err *err); /* copies */
/* text is malloc'ed and taken; content type application/json. */
int http_reply_json(struct http_req *req, int status, char *text, struct err *err);
int http_reply_empty(struct http_req *req, int status, struct err *err);
/* len bytes of fd from off; fd is taken. A file that turns out shorter cuts the connection. */
int http_reply_fd(struct http_req *req, int status, const char *type, int fd, uint64_t off,
		  uint64_t len, struct err *err);
/* pull returns bytes put into p (blocks), 0 at the end, -1 to cut the connection. size -1: chunked.
 */
typedef ssize_t (*http_pull_fn)(void *arg, void *p, size_t cap);
int http_reply_stream(struct http_req *req, int status, const char *type, int64_t size,
		      http_pull_fn pull, void (*free_fn)(void *arg), void *arg, struct err *err);

/* ---- streamed request bodies ---- */
struct http_sink {
	/* -1 stops taking bytes: the rest is drained (bounded) and the error is the reply. */
	int (*data)(void *arg, const void *p, size_t n, struct err *err);
	int (*end)(void *arg, struct http_req *req, struct err *err); /* all bytes came: reply */
	void (*free)(void *arg);
};
void http_set_sink(struct http_req *req, const struct http_sink *sink, void *arg);

/* multipart/form-data as a stream; feed it from a sink. */
struct http_multipart;
struct http_multipart_ops {
	/* A part begins; filename "" when absent. */
	int (*part)(void *arg, const char *name, const char *filename, const char *type,
		    struct err *err);
	int (*data)(void *arg, const void *p, size_t n, struct err *err);
	int (*part_end)(void *arg, struct err *err);
};
/* NULL with ERR_INVALID when the content type has no usable boundary. */
struct http_multipart *http_multipart_new(const char *content_type,
					  const struct http_multipart_ops *ops, void *arg,
					  struct err *err);
int http_multipart_feed(struct http_multipart *m, const void *p, size_t n, struct err *err);
int http_multipart_end(struct http_multipart *m, struct err *err); /* closing boundary seen? */
void http_multipart_free(struct http_multipart *m);

/* ---- WebSocket ---- */
struct http_ws;
enum http_ws_op { WS_TEXT = 1, WS_BINARY = 2, WS_CLOSE = 8, WS_PING = 9, WS_PONG = 10 };
/*
 * Accept the upgrade: subprotocol (or NULL) must be one the client offered. fn runs on its own
 * thread with the socket; when it returns the connection is closed. arg belongs to fn.
 */
typedef void (*http_ws_fn)(struct http_ws *ws, void *arg);
int http_upgrade(struct http_req *req, const char *subprotocol, http_ws_fn fn, void *arg,
		 struct err *err);
bool http_wants_upgrade(struct http_req *req);
const char *http_ws_offered(struct http_req *req, size_t i); /* i-th offered subprotocol or NULL */
int http_ws_fd(struct http_ws *ws);			     /* poll it for reading */
/*
 * Next whole message (fragments joined, pings answered) of at most max bytes into b. Returns the
 * opcode, WS_CLOSE when the peer closed (b: its payload), 0 when deadline_ms passed, -1 on error.
 */
int http_ws_recv(struct http_ws *ws, struct buf *b, size_t max, int64_t deadline_ms,
		 struct err *err);
int http_ws_send(struct http_ws *ws, enum http_ws_op op, const void *p, size_t n,
		 int64_t deadline_ms, struct err *err); /* safe from several threads */
/*
 * Wait until the client has taken what was sent but for a rest, so that a message of at most
 * HTTP_WS_PIECE bytes and a close go out without waiting. ERR_TIMEOUT: it does not read.
 */
#define HTTP_WS_PIECE (32u << 10)
int http_ws_ready(struct http_ws *ws, int64_t deadline_ms, struct err *err);
void http_ws_close(struct http_ws *ws, uint16_t code, const char *reason);
bool http_stopping(struct http_ws *ws); /* the server is shutting down: end with 1001 */

/*
 * ---- Socket.IO over a WebSocket: Engine.IO 4, one namespace, text, server to client only ----
 *
 *   server 0{open} ─► client 40{"token":…} ─► server 40{"sid":…} ─► 42[event, payload] …
 *                                        └──► server 44{"message":…}, end
 *
 * The server pings; a client that does not answer in time is dropped, and so is one that lets
 * its queue of events grow past a bound.
 */
struct sio_conn;

struct sio_ops {
	/*
	 * The client's token ("" when it gave none); -1 refuses it with err->msg. On success the
	 * caller keeps conn for sio_emit until disconnect. Runs on the connection's thread.
	 */
	int (*connect)(void *arg, struct sio_conn *conn, const char *token, struct err *err);
	/* After it returns no sio_emit may be under way or begin. Only after a connect. */
	void (*disconnect)(void *arg, struct sio_conn *conn);
};

/* Serve until the client leaves or the server stops; the body of an http_ws_fn. */
void sio_serve(struct http_ws *ws, const struct sio_ops *ops, void *arg);

/*
 * Queue an event; json is the payload's text. Any thread, never blocks. A client whose queue is
 * full is dropped. false: the event will not arrive.
 */
bool sio_emit(struct sio_conn *c, const char *event, const char *json);
/* Drop what is queued and close: the client has no right to it any more. From any thread. */
void sio_revoke(struct sio_conn *c);

#endif
