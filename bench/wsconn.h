/*
 * wsconn.h - WebSockets of the measuring client: upgrade a connection, send and read whole frames.
 */
#ifndef CAISSON_BENCH_WSCONN_H
#define CAISSON_BENCH_WSCONN_H

#include "conn.h"

enum ws_op { WS_TEXT = 1, WS_BINARY = 2, WS_CLOSE = 8, WS_PING = 9 };

/* -1 unless the server answers 101. */
int ws_upgrade(struct conn *c, const char *path);
int ws_send(struct conn *c, enum ws_op op, const void *p, size_t n);
/* One frame: its opcode, and its bytes, c->body_len at c->body; -1 at the end. */
int ws_read(struct conn *c);

#endif
