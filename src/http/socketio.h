/*
 * socketio.h - the bounds of an event stream (its API is in caisson/http.h) and its one parser.
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

/*
 * The token of a connect packet ("40", "40{…}", "40/ns,{…}") into out; false when packet is no
 * connect to the default namespace.
 */
bool sio_connect_token(const char *packet, char *out, size_t cap);

#endif
