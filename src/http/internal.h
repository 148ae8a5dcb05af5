/*
 * internal.h - what the files of src/http share: the server, a connection, a request.
 *
 * Threads: the acceptor (accept, caps, watchdog), libmicrohttpd's main thread (joins ended
 * connections), one thread a connection, one a WebSocket. A request belongs to its connection's
 * thread. server.lock guards the list of connections, the counts and every shutdown() of a
 * connection's socket: a connection leaves the list before its descriptor is closed, so the
 * watchdog can never hit a reused number. No lock is held across I/O.
 */
#ifndef CAISSON_HTTP_INTERNAL_H
#define CAISSON_HTTP_INTERNAL_H

#include <microhttpd.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>

#include "caisson/http.h"
#include "http/router.h"
#include "http/url.h"

#define HTTP_BODY_DEFAULT  (1u << 20)	/* ceiling of a whole body whose route names none */
#define HTTP_BODIES_MAX	   (512u << 20) /* bytes of whole bodies in memory, all requests */
#define HTTP_DRAIN_MAX	   (256u << 20) /* bytes of a refused body read before the reply */
#define HTTP_DRAIN_MS	   10000
#define HTTP_EARLY_MAX	   (1u << 20)  /* a longer body of a stranger is not read at all */
#define HTTP_LINGER_MAX	   (16u << 20) /* bytes thrown away after a reply that closes */
#define HTTP_LINGER_MS	   2000
#define HTTP_HEADERS_MAX   128
#define HTTP_STACK	   (512u << 10)
#define HTTP_POOL	   (48u << 10) /* memory of a connection, all of it touched */
#define HTTP_BODY_RATE_MS  60000       /* from then on a body must come */
#define HTTP_BODY_RATE_BPS 512	       /* at least this fast */
#define HTTP_REQID_MAX	   64
#define HTTP_ADDR_LEN	   INET6_ADDRSTRLEN
#define HTTP_TRUSTED_MAX   32
#define HTTP_OFFERED_MAX   16

/*
 *          request_line          request_begin          request_run
 *  IDLE ───────────────► HEAD ───────────────► BODY ───────────────► WORK ──► IDLE
 *
 * IDLE and HEAD together have idle_timeout, BODY has a lowest rate, WORK has no limit here.
 */
enum conn_state { CONN_IDLE, CONN_HEAD, CONN_BODY, CONN_WORK };

struct http_conn {
	struct http_conn *prev, *next; /* server.lock */
	struct http_server *srv;
	int fd;
	char addr[HTTP_ADDR_LEN];
	bool spared; /* the per-address cap does not count it */
	_Atomic int state;
	_Atomic int64_t since_ms; /* begin of IDLE or of BODY */
	_Atomic uint64_t body_bytes;
	bool linger;	       /* connection's thread: read on after the last reply */
	_Atomic bool upgraded; /* a WebSocket has it */
};

struct http_server {
	struct MHD_Daemon *mhd;
	struct router *router;
	const struct http_dialect **dialect; /* those of the configuration and the specs' */
	size_t ndialects;
	void *app;
	char *public_url;
	char trusted[HTTP_TRUSTED_MAX][HTTP_ADDR_LEN];
	size_t ntrusted;
	const struct http_spec *spec;
	size_t nspecs;
	unsigned max_connections, max_per_address;
	unsigned idle_timeout_s;
	bool tls;
	int listen_fd;
	int stop_fd; /* eventfd, readable for good once the server stops */
	pthread_t acceptor;
	_Atomic bool stopping;
	_Atomic uint64_t bodies; /* bytes of whole bodies in memory */
	_Atomic uint64_t held;	 /* sum of http_hold */
	pthread_mutex_t lock;
	pthread_cond_t changed;	 /* a connection or WebSocket ended */
	struct http_conn *conns; /* lock */
	size_t nconns;		 /* lock */
	struct http_ws *sockets; /* lock */
};

struct http_reply_head {
	char *name, *value;
};

enum req_phase { REQ_NEW, REQ_TAKE, REQ_DRAIN, REQ_REPLIED };

struct http_req {
	struct http_server *srv;
	struct http_conn *conn;
	struct MHD_Connection *mhd;
	enum req_phase phase;
	char *uri;		/* raw target; the query part is decoded in place */
	char *raw_path;		/* raw path, into uri */
	char *path;		/* decoded */
	struct url_query query; /* into uri */
	const char *method;
	struct route_match match;
	char *param[ROUTE_PARAMS_MAX]; /* decoded */
	char reqid[HTTP_REQID_MAX + 1];
	char remote[HTTP_ADDR_LEN];
	char *base_url;
	int64_t begun_us;
	bool entered, left;
	bool has_body, chunked;
	uint64_t length; /* of the body as declared */
	uint64_t seen;	 /* bytes of the body so far */
	int64_t drain_until_ms;
	struct buf body;
	struct http_sink sink;
	void *sink_arg;
	bool has_sink;
	void *ctx;
	/* The outcome: an error or a response. */
	struct err err;
	int fail_status; /* 0: no error; else the status of err */
	struct MHD_Response *resp;
	int status;
	uint64_t held; /* http_hold */
	struct http_reply_head *head;
	size_t nheads;
	struct http_ws *ws;		 /* accepted upgrade that has not begun */
	char *offered[HTTP_OFFERED_MAX]; /* subprotocols handed out */
};

/* conn.c */
int http_cond_init(pthread_cond_t *c); /* waits on it count monotonic time */
int conn_registry_init(struct http_server *s, struct err *err);
bool conn_admit(struct http_server *s, const char *addr, const char **ret_why);
bool addr_is_spared(const struct http_server *s, const char *addr);
void addr_text(const struct sockaddr *sa, char out[HTTP_ADDR_LEN]);
void conn_notify(void *cls, struct MHD_Connection *c, void **ctx,
		 enum MHD_ConnectionNotificationCode code);
void conn_set_state(struct http_conn *c, enum conn_state state);
void conn_sweep(struct http_server *s, int64_t now_ms);
void conn_linger(struct http_conn *c);
/* Reply and stop reading in the middle of a body: past libmicrohttpd, plain TCP only. */
void conn_send_raw(struct http_conn *c, int status, const char *head, const char *body, size_t n);

/* dispatch.c */
void *request_line(void *cls, const char *uri, struct MHD_Connection *c);
enum MHD_Result request_step(void *cls, struct MHD_Connection *c, const char *url,
			     const char *method, const char *version, const char *data,
			     size_t *size, void **ctx);
void request_completed(void *cls, struct MHD_Connection *c, void **ctx,
		       enum MHD_RequestTerminationCode why);

/* request.c */
struct http_req *req_new(struct http_server *s, const char *uri);
void req_free(struct http_req *req);
/* Target, headers and addresses, checked. Sets fail_status with err on -1. */
int req_parse(struct http_req *req, struct err *err);
int req_decode_params(struct http_req *req, struct err *err);
int req_fail(struct http_req *req, int status, const struct err *err);

/* response.c */
void reply_drop(struct http_req *req); /* forget a reply that was set */
void reply_heads_free(struct http_req *req);
void reply_leave(struct http_req *req); /* the dialect's leave hook, once */
/* The error body of req->err through the dialect. */
void reply_error_body(struct http_req *req, struct buf *out);
/* Queue what was decided; MHD_NO closes the connection. */
enum MHD_Result reply_queue(struct http_req *req);
int reply_set(struct http_req *req, int status, const char *type, struct MHD_Response *resp,
	      struct err *err);

/* websocket.c */
void ws_abandon(struct http_ws *ws); /* the upgrade never began: run fn on a dead socket */
int ws_stop_fd(struct http_ws *ws);  /* readable once the server stops */
void ws_stop_all(struct http_server *s);
void ws_kill_all(struct http_server *s);

/* spec.c */
extern const struct http_dialect spec_dialect;

#endif
