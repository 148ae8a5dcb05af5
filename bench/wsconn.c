/*
 * wsconn.c - see wsconn.h. After an upgrade c->in holds bytes not yet taken, c->len of them.
 */
#include "wsconn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

static int put(struct conn *c, const void *p, size_t n)
{
	return send(c->fd, p, n, MSG_NOSIGNAL) == (ssize_t)n ? 0 : -1;
}

static int fill(struct conn *c, size_t want)
{
	while (c->len < want) {
		if (want > CONN_REPLY_MAX)
			return -1;
		ssize_t n = recv(c->fd, c->in + c->len, CONN_REPLY_MAX - c->len, 0);
		if (n <= 0)
			return -1;
		c->len += (size_t)n;
	}
	return 0;
}

int ws_upgrade(struct conn *c, const char *path)
{
	char head[4096], *end;
	int n = snprintf(head, sizeof(head),
			 "GET %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n"
			 "Upgrade: websocket\r\nConnection: Upgrade\r\n"
			 "Sec-WebSocket-Version: 13\r\n"
			 "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
			 path, c->host, c->key);
	c->len = 0;
	c->in[0] = '\0';
	if (n >= (int)sizeof(head) || put(c, head, (size_t)n) < 0)
		return -1;
	do {
		if (fill(c, c->len + 1) < 0)
			return -1;
		c->in[c->len] = '\0';
	} while (!(end = strstr(c->in, "\r\n\r\n")));
	c->status = (int)strtol(c->in + 9, NULL, 10);
	c->body = end + 4;
	if (c->status != 101)
		return -1;
	c->len -= (size_t)(end + 4 - c->in);
	memmove(c->in, end + 4, c->len);
	c->body = c->in;
	c->body_len = 0;
	return 0;
}

int ws_send(struct conn *c, enum ws_op op, const void *p, size_t n)
{
	/* A mask of zeros changes nothing. */
	uint8_t frame[65536 + 14] = {0x80 | (uint8_t)op};
	size_t at = 2;
	if (n > 65535)
		return -1;
	frame[1] = 0x80 | (uint8_t)(n < 126 ? n : 126);
	if (n >= 126) {
		frame[2] = (uint8_t)(n >> 8);
		frame[3] = (uint8_t)n;
		at = 4;
	}
	memset(frame + at, 0, 4);
	memcpy(frame + at + 4, p, n);
	return put(c, frame, at + 4 + n);
}

static int read_frame(struct conn *c)
{
	/* The frame of the call before, which c->body showed. */
	size_t at = (size_t)(c->body - c->in) + c->body_len;
	c->len -= at;
	memmove(c->in, c->in + at, c->len);
	c->body = c->in;
	c->body_len = 0;
	if (fill(c, 2) < 0)
		return -1;
	const uint8_t *p = (const uint8_t *)c->in;
	size_t n = p[1] & 127, head = n < 126 ? 2 : n == 126 ? 4 : 10;
	if (fill(c, head) < 0)
		return -1;
	if (n >= 126) {
		n = 0;
		for (size_t i = 2; i < head; i++)
			n = n << 8 | p[i];
	}
	if (fill(c, head + n) < 0)
		return -1;
	c->body = c->in + head;
	c->body_len = n;
	return p[0] & 15;
}

int ws_read(struct conn *c)
{
	int op;
	while ((op = read_frame(c)) == WS_PING)
		if (ws_send(c, 10, c->body, c->body_len) < 0)
			return -1;
	return op;
}
