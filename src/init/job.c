/*
 * job.c - worker threads for the file verbs, so that a slow disk or reader never blocks pid 1.
 *
 * Workers are made on demand, at most INIT_WORKERS_MAX, and go after a short idle time, for their
 * stacks are paid by every sandbox. The lock guards struct pool. A job is owned by the queue, then
 * by its worker, then by the done list, from which the loop frees it. The worker owns the
 * connection's descriptor; the loop keeps the slot until the job is collected, so the number of
 * jobs has the ceiling of the connections.
 */
#include "init/files.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"

static struct pool {
	pthread_mutex_t lock;
	pthread_cond_t more;
	struct job *first, *last, *done;
	size_t workers, idle;
	size_t searches; /* workers that run one */
	size_t watches;	 /* threads of their own */
	int wake;
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER, .more = PTHREAD_COND_INITIALIZER};

bool job_verb(uint16_t verb)
{
	return (verb >= AGENT_STAT && verb <= AGENT_SETATTR) || verb == AGENT_STATFS ||
	       verb == AGENT_PORTS || verb == AGENT_TRAFFIC ||
	       (verb >= AGENT_FIND && verb <= AGENT_LINK && verb != AGENT_COMMIT);
}

/* They may take a minute each; others must not wait for them. */
static bool job_is_search(const struct job *j)
{
	return j->req.verb == AGENT_FIND || j->req.verb == AGENT_SEARCH;
}

bool job_gone(const struct job *j)
{
	struct pollfd p = {.fd = j->fd, .events = POLLRDHUP};

	return poll(&p, 1, 0) > 0 && p.revents & (POLLRDHUP | POLLHUP | POLLERR);
}

int job_send(struct job *j, uint16_t type, const struct wire_out *o, const int *fds, size_t nfds,
	     struct err *err)
{
	struct wire_frame f = {.len = (uint32_t)o->len, .type = type};
	uint8_t head[WIRE_FRAME_HEAD];
	int64_t deadline_ms = clock_mono_ms() + INIT_REPLY_MS;

	if (o->overflow)
		return err_set(err, ERR_TOO_LARGE, "reply over the limit");
	wire_frame_put(head, &f);
	if (fd_send(j->fd, head, sizeof(head), fds, nfds, deadline_ms, err) < 0)
		return -1;
	return fd_write_all(j->fd, o->p, o->len, deadline_ms, err);
}

/* The codes the toolbox dialect knows for files, from what the kernel or a check said. */
static void err_tag_file(struct err *err)
{
	if (err->tag)
		return;
	if (err->code == ERR_NOT_FOUND)
		err->tag = "FILE_NOT_FOUND";
	else if (err->code == ERR_FORBIDDEN)
		err->tag = "FILE_ACCESS_DENIED";
	else if (err->code == ERR_INVALID)
		err->tag = "INVALID_FILE_PATH";
}

static void job_run(struct job *j)
{
	uint8_t raw[1024];
	struct wire_out o = wire_out_on(raw, sizeof(raw));
	struct err err = {.code = ERR_NONE};

	if (j->fd < 0) {
		put_free(TAKE_PTR(j->put));
		return;
	}
	if (fsop_run(j, &err) < 0) {
		err_tag_file(&err);
		note_failure(j->fd, &err);
		reply_err(&o, &err);
		job_send(j, AGENT_ERR, &o, NULL, 0, NULL);
	} else if (j->req.verb == AGENT_PUT) {
		return; /* COMMIT or the hang-up comes to the loop */
	}
	put_free(TAKE_PTR(j->put));
	/* The daemon sees the end before the slot is free: it may come back at once. */
	close(j->fd);
	j->fd = -1;
}

/* The first that may run now leaves the queue. */
static struct job *queue_take(void)
{
	struct job **at = &pool.first, *prev = NULL, *j;

	while (*at && pool.searches >= INIT_SEARCHES_MAX && job_is_search(*at)) {
		prev = *at;
		at = &prev->next;
	}
	j = *at;
	if (!j)
		return NULL;
	*at = j->next;
	if (pool.last == j)
		pool.last = prev;
	pool.searches += job_is_search(j);
	return j;
}

static struct job *job_next(void)
{
	struct timespec until;
	struct job *j;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += INIT_WORKER_IDLE_S;
	pool.idle++;
	while (!(j = queue_take()))
		if (pthread_cond_timedwait(&pool.more, &pool.lock, &until) == ETIMEDOUT)
			break;
	pool.idle--;
	return j ? j : queue_take();
}

/* Called with the lock held. */
static void job_finish(struct job *j)
{
	uint64_t one = 1;

	j->next = pool.done;
	pool.done = j;
	(void)!write(pool.wake, &one, sizeof(one));
}

static void *watch_main(void *arg)
{
	struct job *j = arg;

	job_run(j);
	pthread_mutex_lock(&pool.lock);
	pool.watches--;
	job_finish(j);
	pthread_mutex_unlock(&pool.lock);
	return NULL;
}

static void *worker_main(void *arg)
{
	struct job *j;

	(void)arg;
	pthread_mutex_lock(&pool.lock);
	while ((j = job_next())) {
		pthread_mutex_unlock(&pool.lock);
		job_run(j);
		pthread_mutex_lock(&pool.lock);
		/* Then this worker is the one that takes a search that waited. */
		pool.searches -= job_is_search(j);
		job_finish(j);
	}
	pool.workers--;
	pthread_mutex_unlock(&pool.lock);
	return NULL;
}

static int thread_add(void *(*run)(void *), void *arg)
{
	pthread_attr_t attr;
	pthread_t thread;
	int rc;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, INIT_WORKER_STACK);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	rc = pthread_create(&thread, &attr, run, arg);
	pthread_attr_destroy(&attr);
	return rc ? -1 : 0;
}

/* Called with the lock held. */
static int worker_add(void)
{
	if (thread_add(worker_main, NULL) < 0)
		return -1;
	pool.workers++;
	return 0;
}

static int watch_start(struct job *j)
{
	int rc = -1;

	pthread_mutex_lock(&pool.lock);
	if (pool.watches < WATCH_MAX)
		rc = thread_add(watch_main, j);
	pool.watches += rc == 0;
	pthread_mutex_unlock(&pool.lock);
	return rc;
}

static int job_queue(struct job *j)
{
	size_t waiting = 1;
	int rc = 0;

	pthread_mutex_lock(&pool.lock);
	for (struct job *q = pool.first; q; q = q->next)
		waiting++;
	if (waiting > pool.idle && pool.workers < INIT_WORKERS_MAX && worker_add() < 0 &&
	    !pool.workers)
		rc = -1;
	if (rc == 0) {
		if (pool.last)
			pool.last->next = j;
		else
			pool.first = j;
		pool.last = j;
		pthread_cond_signal(&pool.more);
	}
	pthread_mutex_unlock(&pool.lock);
	return rc;
}

static int pool_wake(struct init *in, struct err *err)
{
	if (in->wake >= 0)
		return 0;
	in->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (in->wake < 0)
		return err_errno(err, ERR_NOMEM, errno, "make an event descriptor");
	pool.wake = in->wake;
	loop_watch(in, in->wake, LOOP_TAG_WAKE, EPOLLIN, true);
	return 0;
}

static void job_free(struct job *j)
{
	agent_req_done(&j->req);
	free(j);
}

int job_start(struct init *in, struct conn *c, uint16_t verb, const void *payload, size_t len,
	      struct err *err)
{
	struct job *j;

	if (pool_wake(in, err) < 0)
		return -1;
	j = malloc(sizeof(*j) + len);
	if (!j)
		return err_set(err, ERR_NOMEM, "out of memory");
	*j = (struct job){.conn = (uint32_t)(c - in->conn), .fd = c->fd};
	memcpy(j->payload, payload, len);
	if (agent_req_get(verb, j->payload, len, &j->req) < 0) {
		free(j);
		return err_set(err, ERR_INVALID, "agent request %u: malformed", verb);
	}
	if (c->events)
		epoll_ctl(in->epoll, EPOLL_CTL_DEL, c->fd, NULL);
	c->events = 0;
	j->put = c->put;
	if (verb == AGENT_WATCH ? watch_start(j) < 0 : job_queue(j) < 0) {
		job_free(j);
		if (verb == AGENT_WATCH)
			return err_set(err, ERR_LIMIT, "watches: at most %d in one sandbox",
				       WATCH_MAX);
		return err_set(err, ERR_LIMIT,
			       "processes: none left for a file operation, end some or raise it");
	}
	c->state = CONN_JOB;
	c->fd = -1;
	c->put = NULL;
	c->deadline_ms = 0;
	return 0;
}

void job_drop(struct init *in, struct put *put)
{
	struct job *j = malloc(sizeof(*j));

	if (!j || pool_wake(in, NULL) < 0) {
		free(j);
		put_free(put);
		return;
	}
	*j = (struct job){.conn = UINT32_MAX, .fd = -1, .put = put};
	if (job_queue(j) < 0) {
		put_free(put);
		job_free(j);
	}
}

/* The connection of a PUT goes on; what came on it meanwhile is read as any other. */
static void job_return(struct init *in, struct job *j)
{
	struct conn *c = &in->conn[j->conn];

	c->fd = j->fd;
	c->put = j->put;
	c->state = CONN_PUT;
	c->events = EPOLLIN;
	loop_watch(in, c->fd, conn_tag(in, c), EPOLLIN, true);
}

void job_collect(struct init *in)
{
	struct job *j, *next;
	uint64_t n;

	(void)!read(in->wake, &n, sizeof(n));
	pthread_mutex_lock(&pool.lock);
	j = pool.done;
	pool.done = NULL;
	pthread_mutex_unlock(&pool.lock);
	for (; j; j = next) {
		next = j->next;
		if (j->put)
			job_return(in, j);
		else if (j->conn != UINT32_MAX)
			conn_free(in, &in->conn[j->conn]);
		job_free(j);
	}
}
