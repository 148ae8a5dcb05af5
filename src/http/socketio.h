/*
 * socketio.h - the Socket.IO event stream over a WebSocket: Engine.IO 4, one namespace, text
 * packets, server to client only.
 *
 *   server 0{open} ─► client 40{"token":…} ─► server 40{"sid":…} ─► 42[event, payload] …
 *                                        └──► server 44{"message":…}, end
 *
 * The server pings; a client that does not answer in time is dropped, and so is one that lets
 * its queue of events grow past a bound.
 */
#ifndef CAISSON_HTTP_SOCKETIO_H
#define CAISSON_HTTP_SOCKETIO_H

#include "caisson/http.h"

#define SIO_PING_INTERVAL_MS 25000
#define SIO_PING_TIMEOUT_MS  20000
#define SIO_CONNECT_MS	     20000	/* until the connect packet */
#define SIO_QUEUE_MAX	     256	/* events waiting for one client */
#define SIO_QUEUE_BYTES	     (4u << 20) /* and their size */
#define SIO_MESSAGE_MAX	     65536	/* of a client's packet */

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

/*
 * The token of a connect packet ("40", "40{…}", "40/ns,{…}") into out; false when packet is no
 * connect to the default namespace.
 */
bool sio_connect_token(const char *packet, char *out, size_t cap);

#endif
