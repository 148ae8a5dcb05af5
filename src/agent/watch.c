/*
 * watch.c - the daemon's side of WATCH. See caisson/agent.h.
 */
#include "caisson/agent.h"

#include <poll.h>
#include <string.h>

#include "base/clock.h"
#include "agent/call.h"

#define WATCH_BEGIN_MS 90000 /* a large tree is read before it stands */
#define WATCH_FRAME_MS 30000 /* a frame that has begun must end */

static int watch_fault(struct err *err)
{
	return err_set(err, ERR_AGENT, "the sandbox's agent sent malformed events");
}

int agent_watch(const char *path, const char *user, const char *file, bool recursive,
		struct err *err)
{
	struct agent_req req = {
		.verb = AGENT_WATCH, .user = user, .path = file, .recursive = recursive};
	int64_t deadline_ms = clock_mono_ms() + WATCH_BEGIN_MS;
	auto_close int sock = agent_call_open(path, deadline_ms, err);
	auto_reply struct agent_reply r = {.nfds = 0};

	if (sock < 0 || agent_call_send(sock, &req, deadline_ms, err) < 0 ||
	    agent_call_recv(sock, &r, deadline_ms, err) < 0)
		return -1;
	if (r.type != AGENT_OK || r.nfds || r.len)
		return watch_fault(err);
	return TAKE_FD(sock);
}

static int events_run(const struct agent_reply *r, agent_event_fn fn, void *arg, struct err *err)
{
	struct wire_in in = wire_in_on(r->p, r->len);
	uint32_t n = wire_get_u32(&in);

	for (uint32_t i = 0; i < n; i++) {
		struct agent_event e;

		e.kind = wire_get_u8(&in);
		e.dir = wire_get_u8(&in) == 'd';
		e.path = agent_str_get(&in);
		e.from = agent_str_get(&in);
		if (in.bad || e.kind < AGENT_EVENT_CREATE || e.kind > AGENT_EVENT_LIMIT)
			return watch_fault(err);
		if (fn(arg, &e, err) < 0)
			return -1;
	}
	return wire_in_end(&in) ? 1 : watch_fault(err);
}

int agent_watch_next(int watch, int client, int64_t deadline_ms, agent_event_fn fn, void *arg,
		     bool *ret_over, struct err *err)
{
	auto_reply struct agent_reply r = {.nfds = 0};
	struct err why = {0};

	if (fd_wait(watch, POLLIN, client, deadline_ms, &why) < 0) {
		if (why.code == ERR_TIMEOUT)
			return 0;
		if (err)
			*err = why;
		return -1;
	}
	if (agent_call_recv(watch, &r, clock_mono_ms() + WATCH_FRAME_MS, err) < 0)
		return -1;
	if (r.type == AGENT_EVENTS && r.nfds == 0)
		return events_run(&r, fn, arg, err);
	if (r.type != AGENT_OK || r.nfds || r.len)
		return watch_fault(err);
	*ret_over = true;
	return 1;
}
