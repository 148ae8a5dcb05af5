/*
 * fuzz_agent_reply.c - any bytes from a sandbox's agent: the daemon's side takes or refuses them,
 * in bounded time, and never trusts a length.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/call.h"
#include "base/clock.h"
#include "caisson/agent.h"
#include "lib/fuzz_replay.h"

#define FUZZ_BYTES_MAX 65536 /* a socket's buffer takes them at once */

static void infos_read(const struct agent_reply *r)
{
	struct wire_in in = wire_in_on(r->p, r->len);
	struct agent_info i;

	wire_get_u32(&in);
	while (!in.bad && in.pos < in.len) {
		agent_info_get(&in, &i);
		if (strlen(i.name) + strlen(i.path) + strlen(i.link) > r->len)
			abort();
	}
}

static int event_look(void *arg, const struct agent_event *e, struct err *err)
{
	size_t *left = arg;
	size_t n = strlen(e->path) + strlen(e->from);

	(void)err;
	if (n > *left)
		abort();
	return 0;
}

static int match_look(void *arg, const struct agent_match *m, struct err *err)
{
	(void)err;
	if (strlen(m->path) + strlen(m->text) > *(size_t *)arg)
		abort();
	return 0;
}

/* The same bytes as the events of a watch, or the lines of a find. */
static void listings_read(const uint8_t *data, size_t size, bool find)
{
	bool over = false;
	int sp[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sp) < 0)
		abort();
	if (size && send(sp[0], data, size, 0) != (ssize_t)size)
		abort();
	close(sp[0]);
	if (find)
		agent_find_replies(sp[1], 1000, -1, match_look, &size, &over, NULL);
	while (!find && !over &&
	       agent_watch_next(sp[1], -1, clock_mono_ms() + 1000, event_look, &size, &over, NULL) >
		       0)
		continue;
	close(sp[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct agent_proc p = AGENT_PROC_INIT;
	struct agent_reply r;
	struct agent_exit e;
	struct err err;
	int sp[2];

	if (size > FUZZ_BYTES_MAX)
		return 0;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sp) < 0)
		abort();
	if (size && send(sp[0], data, size, 0) != (ssize_t)size)
		abort();
	shutdown(sp[0], SHUT_WR);
	p.conn = sp[1];
	if (size && data[0] & 1)
		agent_proc_exit(&p, &e, &err);
	listings_read(data, size, false);
	listings_read(data, size, true);
	while (agent_call_recv(sp[1], &r, clock_mono_ms() + 1000, &err) == 0) {
		infos_read(&r);
		agent_reply_done(&r);
	}
	close(sp[0]);
	close(sp[1]);
	return 0;
}
