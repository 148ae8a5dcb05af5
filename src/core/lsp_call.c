/*
 * lsp_call.c - requests to a language server and the answers to them. The thread that hears an
 * answer decodes it into the caller's struct under the server's lock, so that a caller that gave up
 * is never written to.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>

#include "base/clock.h"
#include "core/lsp_int.h"
#include "lsp/msg.h"
#include "lsp/say.h"

void lsp_server_wake(struct lsp_server *s)
{
	uint64_t one = 1;

	/* EAGAIN: it is awake already. */
	while (write(s->wake, &one, sizeof(one)) < 0 && errno == EINTR)
		;
}

int lsp_call_begin(struct lsp_server *s, struct lsp_call *call, struct err *err)
{
	pthread_mutex_lock(&s->lock);
	if (s->state == LSP_ENDED) {
		lsp_server_ended(s, err);
		pthread_mutex_unlock(&s->lock);
		return -1;
	}
	call->id = s->next_id++;
	return 0;
}

static void call_unlink(struct lsp_server *s, const struct lsp_call *call)
{
	for (struct lsp_call **p = &s->calls; *p; p = &(*p)->next)
		if (*p == call) {
			*p = call->next;
			return;
		}
}

static bool client_gone(int client)
{
	struct pollfd p = {client, POLLRDHUP, 0};

	return client >= 0 && poll(&p, 1, 0) > 0;
}

/* The answer isn't wanted any more. Locked. */
static void call_cancel(struct lsp_server *s, struct lsp_call *call)
{
	call_unlink(s, call);
	if (s->state != LSP_ENDED)
		lsp_say_cancel(&s->out, call->id, NULL);
	lsp_server_wake(s);
}

int lsp_call_end(struct lsp_server *s, struct lsp_call *call, int rc, int client,
		 int64_t deadline_ms, struct err *err)
{
	if (rc == 0) {
		call->next = s->calls;
		s->calls = call;
		lsp_server_wake(s);
	}
	while (rc == 0 && !call->done) {
		int64_t left = deadline_ms - clock_mono_ms();

		if (left <= 0)
			rc = err_set(err, ERR_TIMEOUT,
				     "the %s language server did not answer in time",
				     s->lang->name);
		else if (client_gone(client))
			rc = err_set(err, ERR_CANCELLED, "client hung up");
		else
			cond_wait_ms(&s->change, &s->lock, MIN(left, (int64_t)CORE_WAIT_SLICE));
	}
	if (rc < 0)
		call_cancel(s, call);
	pthread_mutex_unlock(&s->lock);
	if (rc == 0 && call->rc < 0 && err)
		*err = call->err;
	return rc < 0 ? -1 : call->rc;
}

void lsp_calls_fail(struct lsp_server *s, const struct err *why)
{
	for (struct lsp_call *c = s->calls; c; c = c->next) {
		c->rc = -1;
		c->err = *why;
		c->done = true;
	}
	s->calls = NULL;
}

static void hear_answer(struct lsp_server *s, const struct lsp_msg *m)
{
	struct lsp_call *c = s->calls;

	while (c && c->id != m->id)
		c = c->next;
	if (!c)
		return; /* of a call that gave up */
	if (c->want == LSP_WANT_SYMBOLS)
		c->rc = lsp_msg_symbols(m, c->uri, c->ret, &c->err);
	else if (c->want == LSP_WANT_COMPLETIONS)
		c->rc = lsp_msg_completions(m, c->ret, &c->err);
	else
		c->rc = lsp_msg_check(m, &c->err);
	call_unlink(s, c);
	c->done = true;
	pthread_cond_broadcast(&s->change);
}

int lsp_server_hear(struct lsp_server *s, const char *p, size_t n, struct err *err)
{
	struct lsp_msg m;
	int rc;

	pthread_mutex_lock(&s->core->lsp.json);
	rc = lsp_msg_parse(p, n, &m, err);
	if (rc == 0) {
		pthread_mutex_lock(&s->lock);
		if (m.kind == LSP_RESPONSE)
			hear_answer(s, &m);
		else if (m.kind == LSP_REQUEST)
			rc = lsp_msg_answer(&m, s->root_uri, &s->out, err);
		pthread_mutex_unlock(&s->lock);
		lsp_msg_done(&m);
	}
	pthread_mutex_unlock(&s->core->lsp.json);
	return rc;
}
