/*
 * ws_private.h - a WebSocket between its two files: websocket.c sends and receives, upgrade.c
 * begins and ends it.
 */
#ifndef CAISSON_HTTP_WS_PRIVATE_H
#define CAISSON_HTTP_WS_PRIVATE_H

#include "http/internal.h"
#include "wire/ws.h"

struct http_ws {
	struct http_ws *prev, *next; /* server.lock */
	struct http_server *srv;
	struct MHD_UpgradeResponseHandle *urh;
	http_ws_fn fn;
	void *arg;
	int fd;
	char reqid[HTTP_REQID_MAX + 1];
	pthread_mutex_t send_lock;
	pthread_cond_t sent;
	bool sending;		 /* send_lock: a thread has the turn */
	_Atomic bool dead;	 /* no more bytes either way */
	_Atomic bool close_sent; /* set by who has the turn */
	bool sndbuf_set;	 /* of the thread that sends much */
	/* The rest belongs to the thread that receives. */
	bool peer_closed;
	char *early; /* bytes that came with the request */
	size_t early_at, early_len;
	uint8_t head_raw[WS_HEAD_MAX];
	size_t head_len;
	bool in_frame;
	struct ws_head head;
	uint64_t got; /* payload bytes of the frame so far */
	uint8_t control[WS_CONTROL_MAX];
	struct buf msg; /* data frames of the message so far */
	uint8_t msg_op; /* 0 between messages */
	int64_t heard_ms, pinged_ms;
};

/* The turn to send; until_ms 0 does not wait. -1 when it did not come. */
int ws_sender_enter(struct http_ws *ws, int64_t until_ms);
void ws_sender_leave(struct http_ws *ws);
/* A whole frame by who has the turn. */
int ws_send_frame(struct http_ws *ws, uint8_t op, const void *p, size_t n, int64_t deadline_ms,
		  struct err *err);

#endif
