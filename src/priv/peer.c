/*
 * peer.c - messages to the api process. Any thread may send; one lock keeps the socket and the
 * number of the api process together, so an answer never reaches a successor of who asked.
 */
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "priv/priv.h"

#define PEER_SMALL 2048
#define PEER_ANY   0 /* events go to whoever is there */

struct wire_out peer_message(uint8_t *buf, size_t cap, uint32_t seq, uint16_t verb,
			     const char *reqid)
{
	struct wire_out o = wire_out_on(buf, cap);

	wire_put_u32(&o, seq);
	wire_put_u16(&o, verb);
	wire_put_str(&o, reqid);
	return o;
}

void peer_send(struct priv *p, uint64_t peer, const struct wire_out *o)
{
	struct err err = {0};

	pthread_mutex_lock(&p->send);
	if (p->sock >= 0 && (peer == PEER_ANY || peer == p->peer)) {
		if (o->overflow)
			log_error("a message to the api process does not fit; dropped");
		else if (fd_send(p->sock, o->p, o->len, NULL, 0, clock_mono_ms() + PRIV_SEND_MS,
				 &err) < 0)
			log_warn("the api process takes no messages: %s", err.msg);
	}
	pthread_mutex_unlock(&p->send);
}

void peer_reply_err(struct priv *p, const struct job *j, const struct err *err)
{
	uint8_t buf[PEER_SMALL];
	struct wire_out o = peer_message(buf, sizeof(buf), j->seq, PRIV_ERR, j->reqid);

	wire_put_u16(&o, (uint16_t)err->code);
	wire_put_u32(&o, (uint32_t)err->errnum);
	wire_put_str(&o, err->msg);
	peer_send(p, j->peer, &o);
}

void peer_event_exited(struct priv *p, const char *id, pid_t pid)
{
	uint8_t buf[PEER_SMALL];
	struct wire_out o = peer_message(buf, sizeof(buf), 0, PRIV_EV_EXITED, log_request());

	wire_put_str(&o, id);
	wire_put_u32(&o, (uint32_t)pid);
	peer_send(p, PEER_ANY, &o);
}

void peer_event_oom(struct priv *p, const struct oom_event *ev)
{
	uint8_t buf[PEER_SMALL];
	struct wire_out o = peer_message(buf, sizeof(buf), 0, PRIV_EV_OOM, "");

	wire_put_str(&o, ev->id);
	wire_put_u32(&o, ev->pid);
	wire_put_str(&o, ev->comm);
	wire_put_u64(&o, ev->limit);
	wire_put_u64(&o, ev->peak);
	wire_put_u64(&o, ev->kills);
	peer_send(p, PEER_ANY, &o);
}

void peer_drop(struct priv *p)
{
	pthread_mutex_lock(&p->send);
	/* Out of the set first: copies of it in children being born would keep it there. */
	if (p->sock >= 0) {
		epoll_ctl(p->epoll, EPOLL_CTL_DEL, p->sock, NULL);
		close(p->sock);
	}
	p->sock = -1;
	p->peer++;
	pthread_mutex_unlock(&p->send);
}
