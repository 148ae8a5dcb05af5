/*
 * ws.h - WebSocket frames (RFC 6455) as bytes: heads, masks, UTF-8, close codes, handshake key.
 *
 * Pure: no I/O, no memory of its own. Both ends use it: the server reads masked frames and sends
 * plain ones, a client the other way round. Extensions are never negotiated, so any reserved bit
 * is an error.
 */
#ifndef CAISSON_WIRE_WS_H
#define CAISSON_WIRE_WS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define WS_HEAD_MAX    14
#define WS_CONTROL_MAX 125 /* payload of a ping, pong or close */
#define WS_KEY_LEN     25  /* 24 characters and a NUL */
#define WS_ACCEPT_LEN  29  /* 28 characters and a NUL */

enum ws_opcode {
	WS_OP_CONTINUE = 0,
	WS_OP_TEXT = 1,
	WS_OP_BINARY = 2,
	WS_OP_CLOSE = 8,
	WS_OP_PING = 9,
	WS_OP_PONG = 10,
};

enum ws_close_code {
	WS_CLOSE_NORMAL = 1000,
	WS_CLOSE_AWAY = 1001,
	WS_CLOSE_PROTOCOL = 1002,
	WS_CLOSE_NO_CODE = 1005, /* never on the wire */
	WS_CLOSE_BAD_DATA = 1007,
	WS_CLOSE_POLICY = 1008,
	WS_CLOSE_TOO_BIG = 1009,
	WS_CLOSE_INTERNAL = 1011,
};

struct ws_head {
	bool fin;
	bool masked;
	uint8_t op;
	uint8_t mask[4];
	uint64_t len; /* of the payload */
};

/*
 * Read a frame head from n bytes. Returns its length, 0 when more bytes are needed, -1 with
 * ERR_INVALID for a frame no peer may send. want_mask: whether the peer must mask.
 */
int ws_head_parse(const void *p, size_t n, bool want_mask, struct ws_head *ret, struct err *err);
/* Write a head of at most WS_HEAD_MAX bytes; returns its length. */
size_t ws_head_write(const struct ws_head *h, uint8_t out[WS_HEAD_MAX]);
/* Mask or unmask n bytes that start off bytes into the payload. */
void ws_mask(void *p, size_t n, const uint8_t mask[4], uint64_t off);

/* Whether all n bytes are UTF-8 text (no surrogates, no overlong forms). */
bool ws_utf8_valid(const void *p, size_t n);
/* Whether a peer may send this close code. */
bool ws_close_code_valid(unsigned code);

/* A fresh Sec-WebSocket-Key from 16 random bytes. */
void ws_key_encode(const uint8_t raw[16], char out[WS_KEY_LEN]);
bool ws_key_valid(const char *key);
/* The Sec-WebSocket-Accept for a key. */
void ws_accept_of(const char *key, char out[WS_ACCEPT_LEN]);

#endif
