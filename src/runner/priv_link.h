/*
 * priv_link.h - calls over the privileged protocol, for src/runner alone.
 */
#ifndef CAISSON_RUNNER_PRIV_LINK_H
#define CAISSON_RUNNER_PRIV_LINK_H

#include <pthread.h>

#include "caisson/runner.h"
#include "wire/wire.h"

struct priv_call {
	struct priv_call *next;
	uint32_t seq;
	bool done;
	bool lost;
	uint16_t verb; /* PRIV_OK or PRIV_ERR */
	uint8_t *body; /* payload of the reply, malloc'ed */
	size_t len;
	runner_progress_fn progress;
	void *arg;
};

struct runner_priv {
	struct runner base;
	int sock;
	struct runner_events ev;
	char run_dir[72];
	pthread_t reader;
	pthread_mutex_t send_lock;
	pthread_mutex_t lock; /* guards what follows and every priv_call in the list */
	pthread_cond_t cond;
	struct priv_call *calls;
	uint32_t next_seq;
	bool lost;
};

/* Start the reader on r->sock; r->ev and r->base are set. */
int priv_link_start(struct runner_priv *r, struct err *err);
void priv_link_stop(struct runner_priv *r);
/* Enter the call and begin its request in msg; the caller appends the payload. */
struct wire_out priv_begin(uint8_t *msg, size_t cap, struct priv_call *c, struct runner_priv *r,
			   uint16_t verb);
/*
 * Send the request (fd rides along unless -1), wait at most limit_ms (0: as long as it takes) and
 * leave the call. On success c->body, to be freed by the caller, holds the reply's payload.
 */
int priv_finish(struct runner_priv *r, struct priv_call *c, struct wire_out *o, int fd,
		int64_t limit_ms, struct err *err);
/* 0 when the reply was read to its end without fault. */
int reply_end(const struct wire_in *in, struct err *err);

#endif
