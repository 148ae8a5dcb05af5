/*
 * wsock.h - a client's WebSocket: curl makes the connection (TLS too), we do the frames.
 *
 * Not thread-safe. Non-blocking after wsock_open: poll wsock_fd, then wsock_read and wsock_flush.
 * Messages come whole through a callback; pings are answered here.
 */
#ifndef CAISSON_CLI_WSOCK_H
#define CAISSON_CLI_WSOCK_H

#include "base/buf.h"
#include "cli/cli.h"
#include "wire/ws.h"

#define WSOCK_MESSAGE_MAX (4u << 20)
#define WSOCK_OUT_MAX	  (8u << 20) /* bytes waiting to be sent */
#define WSOCK_OPEN_MS	  30000

struct wsock {
	void *curl;
	int fd;
	struct buf in;	/* bytes not yet parsed */
	struct buf msg; /* message under way */
	struct buf out; /* frames not yet sent */
	int op;		/* opcode of the message under way, 0 none */
	bool closed;	/* the peer ended the connection */
};

/* path is below the API's base, or a full http(s) URL. A refusal gives the words of the server. */
int wsock_open(struct wsock *w, struct cli *c, const char *path, struct err *err);
void wsock_done(struct wsock *w);
#define auto_wsock auto_call(wsock_done)

/* Queue one message; goes out by wsock_flush. */
int wsock_send(struct wsock *w, enum ws_opcode op, const void *p, size_t n, struct err *err);
int wsock_flush(struct wsock *w, struct err *err);

/* op is WS_OP_TEXT, WS_OP_BINARY or WS_OP_CLOSE. -1 stops reading with err set. */
typedef int (*wsock_fn)(void *arg, enum ws_opcode op, const uint8_t *p, size_t n, struct err *err);
/* Takes what came, calls fn per message. Sets closed at the end of the stream. */
int wsock_read(struct wsock *w, wsock_fn fn, void *arg, struct err *err);

#endif
