/*
 * priv_link.c - request and reply over the privileged protocol (wire/priv_proto.h).
 *
 * Callers write their request under a lock and wait for the reply of their sequence number; one
 * reader thread takes messages from the socket, hands replies over and calls the events. Event
 * functions run on the reader, so they must not call the runner. When the socket ends, every
 * waiter fails and events.lost is called once.
 *
 * Invariants: a call's slot is in the list from before its request is sent until its caller has
 * left; only the reader fills a slot, only under the lock.
 */
#include "runner/priv_link.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"

#define PRIV_SEND_MS 10000 /* the runner reads at once; longer means it is stuck */

/* ---- the reader ---- */

static struct priv_call *call_find(struct runner_priv *r, uint32_t seq)
{
	for (struct priv_call *c = r->calls; c; c = c->next)
		if (c->seq == seq && !c->done)
			return c;
	return NULL;
}

static void reader_event(struct runner_priv *r, uint16_t verb, struct wire_in *in)
{
	char id[ID_LEN], comm[64];
	uint32_t pid, seq;
	uint64_t a, b, c;
	struct priv_call *call;

	switch (verb) {
	case PRIV_EV_EXITED:
		wire_get_str(in, id, sizeof(id));
		pid = wire_get_u32(in);
		if (wire_in_end(in) && r->ev.exited)
			r->ev.exited(r->ev.arg, id, pid);
		return;
	case PRIV_EV_OOM:
		wire_get_str(in, id, sizeof(id));
		pid = wire_get_u32(in);
		wire_get_str(in, comm, sizeof(comm));
		a = wire_get_u64(in);
		b = wire_get_u64(in);
		c = wire_get_u64(in);
		if (wire_in_end(in) && r->ev.oom)
			r->ev.oom(r->ev.arg, id, pid, comm, a, b, c);
		return;
	case PRIV_EV_PROGRESS:
		seq = wire_get_u32(in);
		a = wire_get_u64(in);
		b = wire_get_u64(in);
		pthread_mutex_lock(&r->lock);
		call = wire_in_end(in) ? call_find(r, seq) : NULL;
		if (call && call->progress)
			call->progress(call->arg, a, b);
		pthread_mutex_unlock(&r->lock);
		return;
	default:
		log_warn("runner sent an unknown event %u", verb);
	}
}

static void reader_reply(struct runner_priv *r, uint32_t seq, uint16_t verb, struct wire_in *in)
{
	size_t len = in->len - in->pos;
	uint8_t *body = malloc(len + 1);
	struct priv_call *c;

	if (body)
		memcpy(body, in->p + in->pos, len);
	pthread_mutex_lock(&r->lock);
	c = call_find(r, seq);
	if (c) {
		c->verb = verb;
		c->body = TAKE_PTR(body);
		c->len = len;
		c->lost = !c->body;
		c->done = true;
		pthread_cond_broadcast(&r->cond);
	}
	pthread_mutex_unlock(&r->lock);
	free(body);
}

/*
 * The event comes first: it ends the api process, and no call may return before that and be taken
 * for a failed start or stop of a sandbox that the next runner adopts.
 */
static void reader_lost(struct runner_priv *r)
{
	if (r->ev.lost)
		r->ev.lost(r->ev.arg);
	pthread_mutex_lock(&r->lock);
	r->lost = true;
	for (struct priv_call *c = r->calls; c; c = c->next) {
		c->lost = c->lost || !c->done;
		c->done = true;
	}
	pthread_cond_broadcast(&r->cond);
	pthread_mutex_unlock(&r->lock);
}

static void *reader_main(void *arg)
{
	struct runner_priv *r = arg;
	uint8_t *msg = malloc(PRIV_MSG_MAX);
	char reqid[LOG_REQID_LEN];

	while (msg) {
		int fds[FD_PASS_MAX];
		size_t nfds = 0;
		ssize_t n = fd_recv(r->sock, msg, PRIV_MSG_MAX, fds, &nfds, 0, NULL);
		struct wire_in in = wire_in_on(msg, n > 0 ? (size_t)n : 0);
		uint32_t seq;
		uint16_t verb;

		if (n <= 0)
			break;
		fd_close_all(fds, nfds);
		seq = wire_get_u32(&in);
		verb = wire_get_u16(&in);
		wire_get_str(&in, reqid, sizeof(reqid));
		if (in.bad)
			break;
		if (seq)
			reader_reply(r, seq, verb, &in);
		else
			reader_event(r, verb, &in);
	}
	free(msg);
	reader_lost(r);
	return NULL;
}

/* ---- calls ---- */

static void call_enter(struct runner_priv *r, struct priv_call *c)
{
	pthread_mutex_lock(&r->lock);
	if (++r->next_seq == 0)
		r->next_seq = 1;
	c->seq = r->next_seq;
	c->done = c->lost = r->lost;
	c->next = r->calls;
	r->calls = c;
	pthread_mutex_unlock(&r->lock);
}

static void call_leave(struct runner_priv *r, struct priv_call *c)
{
	pthread_mutex_lock(&r->lock);
	for (struct priv_call **at = &r->calls; *at; at = &(*at)->next) {
		if (*at != c)
			continue;
		*at = c->next;
		break;
	}
	pthread_mutex_unlock(&r->lock);
}

static int call_wait(struct runner_priv *r, struct priv_call *c, int64_t limit_ms, struct err *err)
{
	struct timespec until;
	int rc = 0;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += limit_ms / 1000;
	pthread_mutex_lock(&r->lock);
	while (!c->done && rc != ETIMEDOUT)
		rc = limit_ms ? pthread_cond_timedwait(&r->cond, &r->lock, &until)
			      : pthread_cond_wait(&r->cond, &r->lock);
	rc = c->done ? 0 : -1;
	pthread_mutex_unlock(&r->lock);
	if (rc < 0)
		return err_set(err, ERR_UNAVAILABLE, "the runner did not answer in %lld s",
			       (long long)limit_ms / 1000);
	if (c->lost)
		return err_set(err, ERR_UNAVAILABLE, "the runner is gone");
	return 0;
}

static int call_error(const struct priv_call *c, struct err *err)
{
	struct wire_in in = wire_in_on(c->body, c->len);
	unsigned code = wire_get_u16(&in);
	int errnum = (int)wire_get_u32(&in);
	char msg[ERR_MSG_MAX];

	wire_get_str(&in, msg, sizeof(msg));
	if (!wire_in_end(&in) || code == ERR_NONE || code >= ERR_CODE_MAX)
		return err_set(err, ERR_INTERNAL, "the runner sent a malformed error");
	err_set(err, (enum err_code)code, "%s", msg);
	if (err)
		err->errnum = errnum;
	return -1;
}

/* Request head; the caller appends its payload and calls priv_call. */
struct wire_out priv_begin(uint8_t *msg, size_t cap, struct priv_call *c, struct runner_priv *r,
			   uint16_t verb)
{
	struct wire_out o = wire_out_on(msg, cap);

	call_enter(r, c);
	wire_put_u32(&o, c->seq);
	wire_put_u16(&o, verb);
	wire_put_str(&o, log_request());
	return o;
}

/* Send, wait, leave. On success c->body (to be freed) holds the reply. */
int priv_finish(struct runner_priv *r, struct priv_call *c, struct wire_out *o, int fd,
		int64_t limit_ms, struct err *err)
{
	struct err sent = {0};
	int rc;

	if (o->overflow) {
		call_leave(r, c);
		return err_set(err, ERR_INVALID, "request to the runner is over %u bytes",
			       PRIV_MSG_MAX);
	}
	pthread_mutex_lock(&r->send_lock);
	rc = fd_send(r->sock, o->p, o->len, &fd, fd >= 0 ? 1 : 0, clock_mono_ms() + PRIV_SEND_MS,
		     &sent);
	pthread_mutex_unlock(&r->send_lock);
	/* A send that finds nobody waits for the reader to say so, for the same reason. */
	if (rc == 0 || sent.errnum == EPIPE || sent.errnum == ECONNRESET)
		rc = call_wait(r, c, limit_ms, err);
	else if (err)
		*err = sent;
	call_leave(r, c);
	if (rc == 0 && c->verb == PRIV_ERR)
		rc = call_error(c, err);
	else if (rc == 0 && c->verb != PRIV_OK)
		rc = err_set(err, ERR_INTERNAL, "the runner answered with verb %u", c->verb);
	if (rc < 0) {
		free(c->body);
		c->body = NULL;
	}
	return rc;
}

int reply_end(const struct wire_in *in, struct err *err)
{
	if (wire_in_end(in))
		return 0;
	return err_set(err, ERR_INTERNAL, "the runner sent a malformed reply");
}

int priv_link_start(struct runner_priv *r, struct err *err)
{
	pthread_condattr_t attr;

	pthread_mutex_init(&r->lock, NULL);
	pthread_mutex_init(&r->send_lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&r->cond, &attr);
	pthread_condattr_destroy(&attr);
	if (pthread_create(&r->reader, NULL, reader_main, r) != 0)
		return err_set(err, ERR_NOMEM, "start the runner's reader");
	return 0;
}

void priv_link_stop(struct runner_priv *r)
{
	/* The reader must not report an end that we cause. */
	r->ev.lost = NULL;
	shutdown(r->sock, SHUT_RDWR);
	pthread_join(r->reader, NULL);
	pthread_cond_destroy(&r->cond);
	pthread_mutex_destroy(&r->lock);
	pthread_mutex_destroy(&r->send_lock);
}
