/*
 * runner_priv.c - the runner behind the privileged protocol (wire/priv_proto.h).
 *
 * Callers write their request under a lock and wait for the reply of their sequence number; one
 * reader thread takes messages from the socket, hands replies over and calls the events. Event
 * functions run on the reader, so they must not call the runner. When the socket ends, every
 * waiter fails and events.lost is called once.
 *
 * Invariants: a call's slot is in the list from before its request is sent until its caller has
 * left; only the reader fills a slot, only under the lock.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "caisson/runner.h"
#include "wire/wire.h"

#define PRIV_SEND_MS 10000 /* the runner reads at once; longer means it is stuck */

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

static void reader_lost(struct runner_priv *r)
{
	pthread_mutex_lock(&r->lock);
	r->lost = true;
	for (struct priv_call *c = r->calls; c; c = c->next) {
		c->lost = c->lost || !c->done;
		c->done = true;
	}
	pthread_cond_broadcast(&r->cond);
	pthread_mutex_unlock(&r->lock);
	if (r->ev.lost)
		r->ev.lost(r->ev.arg);
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
static struct wire_out priv_begin(uint8_t *msg, size_t cap, struct priv_call *c,
				  struct runner_priv *r, uint16_t verb)
{
	struct wire_out o = wire_out_on(msg, cap);

	call_enter(r, c);
	wire_put_u32(&o, c->seq);
	wire_put_u16(&o, verb);
	wire_put_str(&o, log_request());
	return o;
}

/* Send, wait, leave. On success c->body (to be freed) holds the reply. */
static int priv_finish(struct runner_priv *r, struct priv_call *c, struct wire_out *o, int fd,
		       int64_t limit_ms, struct err *err)
{
	int rc;

	if (o->overflow) {
		call_leave(r, c);
		return err_set(err, ERR_INVALID, "request to the runner is over %u bytes",
			       PRIV_MSG_MAX);
	}
	pthread_mutex_lock(&r->send_lock);
	rc = fd_send(r->sock, o->p, o->len, &fd, fd >= 0 ? 1 : 0, clock_mono_ms() + PRIV_SEND_MS,
		     err);
	pthread_mutex_unlock(&r->send_lock);
	if (rc == 0)
		rc = call_wait(r, c, limit_ms, err);
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

static int reply_end(const struct wire_in *in, struct err *err)
{
	if (wire_in_end(in))
		return 0;
	return err_set(err, ERR_INTERNAL, "the runner sent a malformed reply");
}

static struct runner_priv *priv_of(struct runner *base)
{
	return container_of(base, struct runner_priv, base);
}

static int priv_start(struct runner *base, const struct runner_start *s, struct runner_started *ret,
		      struct err *err)
{
	struct runner_priv *r = priv_of(base);
	struct priv_call c = {0};
	auto_free uint8_t *body = NULL;
	uint8_t msg[8192];
	struct wire_out o = priv_begin(msg, sizeof(msg), &c, r, PRIV_START);
	struct runner_started got = {0};
	struct wire_in in;

	wire_put_str(&o, s->id);
	wire_put_u8(&o, s->fresh);
	wire_put_strv(&o, s->layer, s->nlayers);
	wire_put_u64(&o, s->mem_bytes);
	wire_put_u32(&o, s->cpu_milli);
	wire_put_u32(&o, s->pids_max);
	wire_put_u32(&o, s->nofile);
	wire_put_u64(&o, s->disk_bytes);
	wire_put_u32(&o, s->flags);
	wire_put_str(&o, s->hostname);
	if (priv_finish(r, &c, &o, -1, RUNNER_CALL_MS, err) < 0)
		return -1;
	body = c.body;
	in = wire_in_on(body, c.len);
	got.pid = wire_get_u32(&in);
	wire_get_str(&in, got.ip4, sizeof(got.ip4));
	wire_get_str(&in, got.ip6, sizeof(got.ip6));
	got.total_us = wire_get_u32(&in);
	if (reply_end(&in, err) < 0)
		return -1;
	*ret = got;
	return 0;
}

/* A verb with one string and, if flags is given, one number; the reply is empty. */
static int priv_simple(struct runner *base, uint16_t verb, const char *text, const uint32_t *flags,
		       struct err *err)
{
	struct runner_priv *r = priv_of(base);
	struct priv_call c = {0};
	auto_free uint8_t *body = NULL;
	uint8_t msg[512];
	struct wire_out o = priv_begin(msg, sizeof(msg), &c, r, verb);
	struct wire_in in;

	wire_put_str(&o, text);
	if (flags)
		wire_put_u32(&o, *flags);
	if (priv_finish(r, &c, &o, -1, RUNNER_CALL_MS, err) < 0)
		return -1;
	body = c.body;
	in = wire_in_on(body, c.len);
	return reply_end(&in, err);
}

static int priv_kill(struct runner *base, const char *id, struct err *err)
{
	return priv_simple(base, PRIV_KILL, id, NULL, err);
}

static int priv_remove(struct runner *base, const char *id, struct err *err)
{
	return priv_simple(base, PRIV_DELETE, id, NULL, err);
}

static int priv_net(struct runner *base, const char *id, uint32_t flags, struct err *err)
{
	return priv_simple(base, PRIV_NET, id, &flags, err);
}

static int priv_layer_remove(struct runner *base, const char *layer, struct err *err)
{
	return priv_simple(base, PRIV_LAYER_RM, layer, NULL, err);
}

static int priv_stats(struct runner *base, const char *id, struct runner_stats *ret,
		      struct err *err)
{
	struct runner_priv *r = priv_of(base);
	struct priv_call c = {0};
	auto_free uint8_t *body = NULL;
	uint8_t msg[512];
	struct wire_out o = priv_begin(msg, sizeof(msg), &c, r, PRIV_STATS);
	struct runner_stats got = {0};
	struct wire_in in;

	wire_put_str(&o, id);
	if (priv_finish(r, &c, &o, -1, RUNNER_CALL_MS, err) < 0)
		return -1;
	body = c.body;
	in = wire_in_on(body, c.len);
	got.cpu_us = wire_get_u64(&in);
	got.mem_bytes = wire_get_u64(&in);
	got.mem_peak = wire_get_u64(&in);
	got.mem_limit = wire_get_u64(&in);
	got.mem_cache = wire_get_u64(&in);
	got.oom_kills = wire_get_u64(&in);
	got.pids = wire_get_u32(&in);
	got.cpu_milli = wire_get_u32(&in);
	if (reply_end(&in, err) < 0)
		return -1;
	*ret = got;
	return 0;
}

static int list_decode(struct wire_in *in, struct runner_list *l, struct err *err)
{
	l->nlive = wire_get_count(in, WIRE_LIST_MAX, 8);
	l->live = calloc(l->nlive + 1, sizeof(*l->live));
	if (!l->live)
		return err_set(err, ERR_NOMEM, "out of memory");
	for (size_t i = 0; i < l->nlive; i++) {
		wire_get_str(in, l->live[i].id, ID_LEN);
		l->live[i].pid = wire_get_u32(in);
	}
	l->nuppers = wire_get_count(in, WIRE_LIST_MAX, 4);
	l->upper = calloc(l->nuppers + 1, sizeof(*l->upper));
	if (!l->upper)
		return err_set(err, ERR_NOMEM, "out of memory");
	for (size_t i = 0; i < l->nuppers; i++)
		wire_get_str(in, l->upper[i], ID_LEN);
	return reply_end(in, err);
}

static int priv_list(struct runner *base, struct runner_list *ret, struct err *err)
{
	struct runner_priv *r = priv_of(base);
	struct priv_call c = {0};
	auto_free uint8_t *body = NULL;
	uint8_t msg[128];
	struct wire_out o = priv_begin(msg, sizeof(msg), &c, r, PRIV_LIST);
	struct runner_list got = {0};
	struct wire_in in;

	if (priv_finish(r, &c, &o, -1, RUNNER_CALL_MS, err) < 0)
		return -1;
	body = c.body;
	in = wire_in_on(body, c.len);
	if (list_decode(&in, &got, err) < 0) {
		runner_list_done(&got);
		return -1;
	}
	*ret = got;
	return 0;
}

static int layer_call(struct runner_priv *r, struct priv_call *c, struct wire_out *o, int fd,
		      struct runner_layer *ret, struct err *err)
{
	auto_free uint8_t *body = NULL;
	struct runner_layer got = {0};
	struct wire_in in;

	if (priv_finish(r, c, o, fd, 0, err) < 0)
		return -1;
	body = c->body;
	in = wire_in_on(body, c->len);
	wire_get_str(&in, got.id, sizeof(got.id));
	got.bytes = wire_get_u64(&in);
	got.files = wire_get_u64(&in);
	if (reply_end(&in, err) < 0)
		return -1;
	*ret = got;
	return 0;
}

static int priv_import(struct runner *base, int tar_fd, uint64_t max_bytes,
		       runner_progress_fn progress, void *arg, struct runner_layer *ret,
		       struct err *err)
{
	struct runner_priv *r = priv_of(base);
	struct priv_call c = {.progress = progress, .arg = arg};
	uint8_t msg[128];
	struct wire_out o = priv_begin(msg, sizeof(msg), &c, r, PRIV_IMPORT);

	wire_put_u64(&o, max_bytes);
	return layer_call(r, &c, &o, tar_fd, ret, err);
}

static int priv_default(struct runner *base, runner_progress_fn progress, void *arg,
			struct runner_layer *ret, struct err *err)
{
	struct runner_priv *r = priv_of(base);
	struct priv_call c = {.progress = progress, .arg = arg};
	uint8_t msg[128];
	struct wire_out o = priv_begin(msg, sizeof(msg), &c, r, PRIV_DEFAULT);

	return layer_call(r, &c, &o, -1, ret, err);
}

static int priv_host(struct runner *base, struct runner_host *ret, struct err *err)
{
	struct runner_priv *r = priv_of(base);
	struct priv_call c = {0};
	auto_free uint8_t *body = NULL;
	uint8_t msg[128];
	struct wire_out o = priv_begin(msg, sizeof(msg), &c, r, PRIV_HOST);
	struct runner_host got = {0};
	struct wire_in in;

	if (priv_finish(r, &c, &o, -1, RUNNER_CALL_MS, err) < 0)
		return -1;
	body = c.body;
	in = wire_in_on(body, c.len);
	got.disk_total = wire_get_u64(&in);
	got.disk_free = wire_get_u64(&in);
	got.mem_total = wire_get_u64(&in);
	got.cpus = wire_get_u32(&in);
	got.live = wire_get_u32(&in);
	if (reply_end(&in, err) < 0)
		return -1;
	*ret = got;
	return 0;
}

static int priv_agent_path(struct runner *base, const char *id, char out[108], struct err *err)
{
	struct runner_priv *r = priv_of(base);

	if (!id_valid(id))
		return err_set(err, ERR_INTERNAL, "bad sandbox id");
	if (snprintf(out, 108, "%s/boxes/%s/agent.sock", r->run_dir, id) >= 108)
		return err_set(err, ERR_INTERNAL, "run directory's path is too long");
	return 0;
}

static void priv_free(struct runner *base)
{
	struct runner_priv *r = priv_of(base);

	/* The reader must not report an end that we cause. */
	r->ev.lost = NULL;
	shutdown(r->sock, SHUT_RDWR);
	pthread_join(r->reader, NULL);
	close(r->sock);
	pthread_cond_destroy(&r->cond);
	pthread_mutex_destroy(&r->lock);
	pthread_mutex_destroy(&r->send_lock);
	free(r);
}

static const struct runner_ops priv_ops = {
	.start = priv_start,
	.kill = priv_kill,
	.remove = priv_remove,
	.stats = priv_stats,
	.list = priv_list,
	.net = priv_net,
	.import = priv_import,
	.default_image = priv_default,
	.layer_remove = priv_layer_remove,
	.host = priv_host,
	.agent_path = priv_agent_path,
	.free = priv_free,
};

static int priv_hello(struct runner_priv *r, struct err *err)
{
	struct priv_call c = {0};
	auto_free uint8_t *body = NULL;
	uint8_t msg[128];
	struct wire_out o = priv_begin(msg, sizeof(msg), &c, r, PRIV_HELLO);
	char instance[32], run_dir[sizeof(r->run_dir)];
	struct wire_in in;

	wire_put_u32(&o, PRIV_PROTO_VERSION);
	if (priv_finish(r, &c, &o, -1, RUNNER_CALL_MS, err) < 0)
		return err_wrap(err, "greet the runner");
	body = c.body;
	in = wire_in_on(body, c.len);
	wire_get_str(&in, instance, sizeof(instance));
	wire_get_str(&in, run_dir, sizeof(run_dir));
	if (reply_end(&in, err) < 0)
		return -1;
	memcpy(r->run_dir, run_dir, sizeof(run_dir));
	return 0;
}

struct runner *runner_priv_open(int sock, const struct runner_events *ev, struct err *err)
{
	struct runner_priv *r = calloc(1, sizeof(*r));
	pthread_condattr_t attr;

	if (!r) {
		close(sock);
		err_set(err, ERR_NOMEM, "out of memory");
		return NULL;
	}
	r->base.ops = &priv_ops;
	r->sock = sock;
	r->ev = *ev;
	pthread_mutex_init(&r->lock, NULL);
	pthread_mutex_init(&r->send_lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&r->cond, &attr);
	pthread_condattr_destroy(&attr);
	if (fd_set_cloexec(sock, true, err) < 0 ||
	    pthread_create(&r->reader, NULL, reader_main, r) != 0) {
		close(sock);
		free(r);
		err_set(err, ERR_NOMEM, "start the runner's reader");
		return NULL;
	}
	if (priv_hello(r, err) < 0) {
		priv_free(&r->base);
		return NULL;
	}
	return &r->base;
}
