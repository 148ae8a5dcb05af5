/*
 * lsp_server.c - a language server's process and the thread that speaks with it.
 *
 * The thread ends when the process does, when it breaks the protocol, or when it is told to stop;
 * whatever the way, the process tree is dead then and every waiting call has its answer. What the
 * server prints on its error stream is read, and its last line kept for the report of a crash.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "core/exec.h"
#include "core/lsp_int.h"
#include "lsp/frame.h"
#include "lsp/say.h"

#define STACK	  (256 * 1024)
#define READ_MAX  LSP_FEED_MAX
#define SAID_MAX  2048
#define SAID_SHOW 200
#define EXIT_MS	  3000 /* from the end of its output, or from exit, to the end of the process */

enum { P_CONN, P_OUT, P_ERR, P_IN, P_WAKE, P_N };

/* What the thread alone holds. */
struct talk {
	struct lsp_server *s;
	struct lsp_frames frames;
	char said[SAID_MAX]; /* the last of the error stream */
	size_t nsaid;
	int64_t deadline_ms; /* by when the process must be gone; 0 none */
	bool exited;
	struct agent_exit exit;
};

/* ---- the set ---- */

void lsp_servers_init(struct lsp_servers *s)
{
	pthread_mutex_init(&s->lock, NULL);
	pthread_mutex_init(&s->json, NULL);
	cond_init_mono(&s->quiet);
}

bool lsp_servers_end(struct lsp_servers *all, int64_t wait_ms)
{
	int64_t end = clock_mono_ms() + wait_ms, left;
	bool quiet;

	pthread_mutex_lock(&all->lock);
	all->closing = true;
	for (struct lsp_server *s = all->first; s; s = s->next) {
		pthread_mutex_lock(&s->lock);
		s->stop = true;
		pthread_mutex_unlock(&s->lock);
		lsp_server_wake(s);
	}
	while (all->threads && (left = end - clock_mono_ms()) > 0)
		cond_wait_ms(&all->quiet, &all->lock, left);
	quiet = all->threads == 0;
	pthread_mutex_unlock(&all->lock);
	return quiet;
}

void lsp_servers_done(struct lsp_servers *all)
{
	while (all->first) {
		struct lsp_server *s = all->first;

		all->first = s->next;
		lsp_server_put(s);
	}
	pthread_mutex_destroy(&all->lock);
	pthread_mutex_destroy(&all->json);
	pthread_cond_destroy(&all->quiet);
}

/* ---- one server ---- */

struct lsp_server *lsp_server_new(struct core *c, const char *sandbox,
				  const struct lsp_language *lang, const char *project,
				  struct err *err)
{
	struct lsp_server *s = calloc(1, sizeof(*s));

	if (!s) {
		err_set(err, ERR_NOMEM, "out of memory");
		return NULL;
	}
	s->refs = 1;
	s->core = c;
	s->lang = lang;
	snprintf(s->id, sizeof(s->id), "%s", sandbox);
	pthread_mutex_init(&s->lock, NULL);
	cond_init_mono(&s->change);
	buf_init(&s->out, LSP_OUT_MAX);
	s->project = strdup(project);
	s->root_uri = lsp_uri_of(project, err);
	s->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (s->project && s->root_uri && s->wake >= 0)
		return s;
	lsp_server_put(s);
	err_set(err, ERR_NOMEM, "out of memory or descriptors");
	return NULL;
}

void lsp_server_put(struct lsp_server *s)
{
	bool last;

	if (!s)
		return;
	pthread_mutex_lock(&s->core->lsp.lock);
	last = --s->refs == 0;
	pthread_mutex_unlock(&s->core->lsp.lock);
	if (!last)
		return;
	exec_free(s->exec);
	if (s->wake >= 0)
		close(s->wake);
	lsp_docs_free(s);
	lsp_symfiles_free(s);
	buf_done(&s->out);
	pthread_mutex_destroy(&s->lock);
	pthread_cond_destroy(&s->change);
	free(s->project);
	free(s->root_uri);
	free(s);
}

int lsp_server_ended(struct lsp_server *s, struct err *err)
{
	return err_tagged(err, ERR_INVALID, "LSP_SERVER_NOT_INITIALIZED",
			  "the %s language server of %.200s %.200s; start it again", s->lang->name,
			  s->project, s->why);
}

/* ---- the thread ---- */

static void close_stream(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

/* Bytes read, 0 for none now or at the end, when the stream is closed. */
static size_t read_stream(int *fd, char *chunk, size_t cap)
{
	ssize_t got = read(*fd, chunk, cap);

	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (got <= 0) {
		close_stream(fd);
		return 0;
	}
	return (size_t)got;
}

static int hear_out(struct talk *t, struct err *err)
{
	struct agent_proc *p = exec_proc(t->s->exec);
	char chunk[READ_MAX];
	size_t got = read_stream(&p->out, chunk, sizeof(chunk)), n;
	const char *body;
	int rc;

	if (p->out < 0) {
		t->deadline_ms = clock_mono_ms() + EXIT_MS;
		return 0;
	}
	if (!got)
		return 0;
	if (lsp_frames_feed(&t->frames, chunk, got, err) < 0)
		return -1;
	while ((rc = lsp_frames_next(&t->frames, &body, &n, err)) > 0)
		if (lsp_server_hear(t->s, body, n, err) < 0)
			return -1;
	return rc;
}

static void hear_err(struct talk *t)
{
	struct agent_proc *p = exec_proc(t->s->exec);
	char chunk[SAID_MAX / 2];
	size_t got = read_stream(&p->err, chunk, sizeof(chunk));

	if (t->nsaid + got > SAID_MAX) {
		memmove(t->said, t->said + SAID_MAX / 2, t->nsaid - SAID_MAX / 2);
		t->nsaid -= SAID_MAX / 2;
	}
	memcpy(t->said + t->nsaid, chunk, got);
	t->nsaid += got;
}

/* What is queued, as far as the pipe takes it now. */
static void say_some(struct talk *t)
{
	struct lsp_server *s = t->s;
	struct agent_proc *p = exec_proc(s->exec);
	ssize_t put;

	pthread_mutex_lock(&s->lock);
	put = write(p->in, s->out.data + s->sent, MIN(s->out.len - s->sent, (size_t)READ_MAX));
	if (put > 0)
		s->sent += (size_t)put;
	else if (put < 0 && errno != EAGAIN && errno != EINTR)
		close_stream(&p->in); /* it reads no more; its exit comes next */
	if (s->sent == s->out.len || p->in < 0) {
		s->sent = 0;
		buf_done(&s->out); /* a text may have been large */
		buf_init(&s->out, LSP_OUT_MAX);
	}
	pthread_mutex_unlock(&s->lock);
}

/* 1: the process is gone, 0, -1: it must go. */
static int talk_turn(struct talk *t, const struct pollfd *pfd, struct err *err)
{
	struct agent_proc *p = exec_proc(t->s->exec);
	uint64_t n;
	int got;

	if (pfd[P_WAKE].revents && read(t->s->wake, &n, sizeof(n)) < 0)
		n = 0; /* another turn took it */
	if (pfd[P_OUT].revents && hear_out(t, err) < 0)
		return -1;
	if (pfd[P_ERR].revents)
		hear_err(t);
	if (pfd[P_IN].revents)
		say_some(t);
	if (!pfd[P_CONN].revents)
		return 0;
	got = agent_proc_exit(p, &t->exit, err);
	t->exited = got > 0;
	return got;
}

static int talk_loop(struct talk *t, struct err *err)
{
	struct lsp_server *s = t->s;
	struct agent_proc *p = exec_proc(s->exec);

	for (;;) {
		struct pollfd pfd[P_N] = {[P_CONN] = {p->conn, POLLIN, 0},
					  [P_OUT] = {p->out, POLLIN, 0},
					  [P_ERR] = {p->err, POLLIN, 0},
					  [P_IN] = {-1, POLLOUT, 0},
					  [P_WAKE] = {s->wake, POLLIN, 0}};
		bool stop;
		int got;

		pthread_mutex_lock(&s->lock);
		stop = s->stop;
		if (s->out.len > s->sent)
			pfd[P_IN].fd = p->in;
		pthread_mutex_unlock(&s->lock);
		if (stop)
			return err_set(err, ERR_GONE, "was stopped");
		if (t->deadline_ms && clock_mono_ms() >= t->deadline_ms)
			return err_set(err, ERR_UPSTREAM, "closed its output");
		if (poll(pfd, P_N, clock_left_ms(t->deadline_ms)) < 0 && errno != EINTR)
			return err_errno(err, ERR_INTERNAL, errno, "poll");
		got = talk_turn(t, pfd, err);
		if (got != 0)
			return got;
	}
}

/* The last line of the error stream, for people. */
static void said_line(const struct talk *t, char out[SAID_SHOW])
{
	size_t end = t->nsaid, at, n = 0;

	while (end && (t->said[end - 1] == '\n' || t->said[end - 1] == '\r'))
		end--;
	for (at = end; at && t->said[at - 1] != '\n';)
		at--;
	while (at < end && n + 1 < SAID_SHOW) {
		unsigned char ch = (unsigned char)t->said[at++];

		out[n++] = ch < 32 || ch > 126 ? ' ' : (char)ch;
	}
	out[n] = '\0';
}

/* How it ended, in words that follow "the server of x". */
static void tell_end(struct talk *t, const struct err *err, char *out, size_t cap)
{
	struct exec_result r = {0};
	char said[SAID_SHOW];

	said_line(t, said);
	if (!t->exited) {
		snprintf(out, cap, "%s%.200s",
			 err->code == ERR_GONE && strcmp(err->msg, "was stopped") != 0
				 ? "ended with its sandbox: "
				 : "",
			 err->msg);
		return;
	}
	exec_end(t->s->exec, &t->exit, false, &r);
	if (r.cause == EXEC_OOM)
		snprintf(out, cap, "was killed: the sandbox's memory of %llu bytes is used up",
			 (unsigned long long)r.oom_limit);
	else if (r.signal)
		snprintf(out, cap, "was killed by signal %d", r.signal);
	else
		snprintf(out, cap, "ended with exit code %d%s%s", r.exit_code, said[0] ? ": " : "",
			 said);
}

static void talk_end(struct talk *t, const struct err *err)
{
	struct lsp_server *s = t->s;
	struct err why = {0};
	char text[ERR_MSG_MAX];

	tell_end(t, err, text, sizeof(text));
	exec_free(TAKE_PTR(s->exec)); /* kills what still runs */
	pthread_mutex_lock(&s->lock);
	s->state = LSP_ENDED;
	snprintf(s->why, sizeof(s->why), "%s", text);
	err_tagged(&why, s->stop ? ERR_INVALID : ERR_UPSTREAM,
		   s->stop ? "LSP_SERVER_NOT_INITIALIZED" : "LSP_SERVER_CRASHED",
		   "the %s language server of %.200s %.200s", s->lang->name, s->project, text);
	lsp_calls_fail(s, &why);
	buf_done(&s->out);
	pthread_cond_broadcast(&s->change);
	pthread_mutex_unlock(&s->lock);
}

static void *talk_thread(void *arg)
{
	struct lsp_server *s = arg;
	struct lsp_servers *all = &s->core->lsp;
	struct talk *t = calloc(1, sizeof(*t));
	struct talk none = {.s = s};
	struct err err = {0};

	if (t) {
		t->s = s;
		lsp_frames_init(&t->frames);
		talk_loop(t, &err);
		lsp_frames_done(&t->frames);
	} else {
		err_set(&err, ERR_NOMEM, "found no memory");
	}
	talk_end(t ? t : &none, &err);
	free(t);
	lsp_server_put(s);
	pthread_mutex_lock(&all->lock);
	all->threads--;
	pthread_cond_broadcast(&all->quiet);
	pthread_mutex_unlock(&all->lock);
	return NULL;
}

int lsp_server_run(struct lsp_server *s, struct exec_handle *exec, struct err *err)
{
	struct lsp_servers *all = &s->core->lsp;
	pthread_attr_t a;
	pthread_t thread;
	bool closing;
	int rc = EAGAIN;

	s->exec = exec;
	pthread_attr_init(&a);
	pthread_attr_setstacksize(&a, STACK);
	pthread_attr_setdetachstate(&a, PTHREAD_CREATE_DETACHED);
	pthread_mutex_lock(&all->lock);
	closing = all->closing;
	if (!closing)
		rc = pthread_create(&thread, &a, talk_thread, s);
	if (rc == 0) {
		all->threads++;
		s->refs++;
		s->runs = true;
	}
	pthread_mutex_unlock(&all->lock);
	pthread_attr_destroy(&a);
	if (closing)
		return err_set(err, ERR_UNAVAILABLE, "the daemon is shutting down");
	return rc == 0 ? 0 : err_errno(err, ERR_NOMEM, rc, "start a thread");
}
