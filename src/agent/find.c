/*
 * find.c - the daemon's side of FIND and SEARCH. See caisson/agent.h.
 */
#include "caisson/agent.h"

#include <poll.h>
#include <string.h>

#include "base/clock.h"
#include "agent/call.h"

#define FIND_QUIET_MS 90000  /* the agent gives a walk a minute, and may find nothing in it */
#define FIND_TOTAL_MS 300000 /* however it trickles */

/* One kind of listing: a frame's item is read by item, which gives it to the caller. */
struct finding {
	uint16_t frame;
	int (*item)(struct finding *f, struct wire_in *in, struct err *err);
	agent_match_fn match;
	agent_name_fn name;
	void *arg;
	uint32_t seen, max;
};

static int fault(struct err *err)
{
	return err_set(err, ERR_AGENT, "the sandbox's agent sent a malformed result");
}

static int match_item(struct finding *f, struct wire_in *in, struct err *err)
{
	struct agent_match m;

	m.path = agent_str_get(in);
	m.line = wire_get_u32(in);
	m.cut = wire_get_bool(in);
	m.text = agent_str_get(in);
	if (in->bad)
		return fault(err);
	return f->match(f->arg, &m, err);
}

static int name_item(struct finding *f, struct wire_in *in, struct err *err)
{
	const char *path = agent_str_get(in);

	if (in->bad)
		return fault(err);
	return f->name(f->arg, path, err);
}

static int frame_run(struct finding *f, const struct agent_reply *r, struct err *err)
{
	struct wire_in in = wire_in_on(r->p, r->len);
	uint32_t n = wire_get_u32(&in);

	if (n == 0 || n > f->max - f->seen)
		return fault(err);
	for (uint32_t i = 0; i < n; i++)
		if (f->item(f, &in, err) < 0)
			return -1;
	f->seen += n;
	return wire_in_end(&in) ? 0 : fault(err);
}

/* 1: that was the last frame. */
static int finding_step(struct finding *f, int sock, int client, int64_t end_ms, bool *ret_more,
			struct err *err)
{
	int64_t deadline_ms = MIN(clock_mono_ms() + FIND_QUIET_MS, end_ms);
	auto_reply struct agent_reply r = {.nfds = 0};
	struct wire_in in;
	bool more;

	if (fd_wait(sock, POLLIN, client, deadline_ms, err) < 0 ||
	    agent_call_recv(sock, &r, deadline_ms, err) < 0)
		return -1;
	if (r.type == f->frame && r.nfds == 0)
		return frame_run(f, &r, err);
	in = wire_in_on(r.p, r.len);
	more = wire_get_bool(&in);
	if (r.type != AGENT_OK || r.nfds || !wire_in_end(&in))
		return fault(err);
	*ret_more = more;
	return 1;
}

static int finding_read(struct finding *f, int sock, int client, bool *ret_more, struct err *err)
{
	int64_t end_ms = clock_mono_ms() + FIND_TOTAL_MS;
	bool more = false;
	int rc;

	while ((rc = finding_step(f, sock, client, end_ms, &more, err)) == 0)
		continue;
	if (rc < 0)
		return -1;
	if (ret_more)
		*ret_more = more;
	return 0;
}

static int finding_begin(const char *path, const struct agent_req *req, struct err *err)
{
	int64_t deadline_ms = clock_mono_ms() + AGENT_CALL_MS;
	auto_close int sock = agent_call_open(path, deadline_ms, err);

	if (sock < 0 || agent_call_send(sock, req, deadline_ms, err) < 0)
		return -1;
	return TAKE_FD(sock);
}

int agent_find_replies(int sock, uint32_t max, int client, agent_match_fn fn, void *arg,
		       bool *ret_more, struct err *err)
{
	struct finding f = {
		.frame = AGENT_MATCHES, .item = match_item, .match = fn, .arg = arg, .max = max};

	return finding_read(&f, sock, client, ret_more, err);
}

int agent_find(const char *path, const char *user, const char *file, const char *pattern,
	       uint32_t max, int client, agent_match_fn fn, void *arg, bool *ret_more,
	       struct err *err)
{
	struct agent_req req = {.verb = AGENT_FIND,
				.user = user,
				.path = file,
				.pattern = pattern,
				.max = MIN(max, (uint32_t)AGENT_FIND_MAX)};
	auto_close int sock = finding_begin(path, &req, err);

	if (sock < 0)
		return -1;
	return agent_find_replies(sock, req.max, client, fn, arg, ret_more, err);
}

int agent_search(const char *path, const char *user, const char *dir, const char *pattern,
		 uint32_t max, int client, agent_name_fn fn, void *arg, bool *ret_more,
		 struct err *err)
{
	struct agent_req req = {.verb = AGENT_SEARCH,
				.user = user,
				.path = dir,
				.pattern = pattern,
				.max = MIN(max, (uint32_t)AGENT_LIST_MAX)};
	struct finding f = {
		.frame = AGENT_NAMES, .item = name_item, .name = fn, .arg = arg, .max = req.max};
	auto_close int sock = finding_begin(path, &req, err);

	return sock < 0 ? -1 : finding_read(&f, sock, client, ret_more, err);
}
