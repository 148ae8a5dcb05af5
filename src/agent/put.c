/*
 * put.c - the daemon's side of PUT, COMMIT and LINK. See caisson/agent.h.
 */
#include "caisson/agent.h"

#include <fcntl.h>
#include <string.h>

#include "base/clock.h"
#include "agent/call.h"

#define COMMIT_MS 600000 /* a large file that can't be renamed is copied */

void agent_put_done(struct agent_put *p)
{
	if (p->fd >= 0)
		close(p->fd);
	if (p->conn >= 0)
		close(p->conn);
	p->fd = p->conn = -1;
}

static int put_fault(struct err *err)
{
	return err_set(err, ERR_AGENT, "the sandbox's agent answered put wrongly");
}

/*
 * A sandbox may be older than this daemon, and its agent not know the verb: that answer has no tag,
 * which every answer about a file has. Then the file is written as it used to be, in place.
 */
static bool verb_is_unknown(const struct err *err)
{
	return err->code == ERR_INVALID && !err->tag;
}

static int put_in_place(const char *path, const char *user, const char *file, uint32_t flags,
			mode_t mode, struct agent_put *ret, struct err *err)
{
	uint32_t open_flags = AGENT_OPEN_WRITE | AGENT_OPEN_CREATE | AGENT_OPEN_TRUNC |
			      (flags & AGENT_PUT_PARENTS ? AGENT_OPEN_PARENTS : 0);
	int fd = agent_open(path, user, file, open_flags, mode, NULL, err);

	if (fd < 0)
		return -1;
	*ret = (struct agent_put){.conn = -1, .fd = fd, .existed = true};
	return 0;
}

static int put_begin(const char *path, const struct agent_req *req, struct agent_put *ret,
		     struct err *err)
{
	int64_t deadline_ms = clock_mono_ms() + AGENT_CALL_MS;
	auto_close int sock = agent_call_open(path, deadline_ms, err);
	auto_reply struct agent_reply r = {.nfds = 0};
	struct wire_in in;
	bool existed;

	if (sock < 0 || agent_call_send(sock, req, deadline_ms, err) < 0 ||
	    agent_call_recv(sock, &r, deadline_ms, err) < 0)
		return -1;
	in = wire_in_on(r.p, r.len);
	existed = wire_get_bool(&in);
	if (r.type != AGENT_OK || r.nfds != 1 || !wire_in_end(&in))
		return put_fault(err);
	if (agent_fd_file(r.fds[0], O_RDWR, err) < 0)
		return -1;
	r.nfds = 0;
	*ret = (struct agent_put){.conn = TAKE_FD(sock), .fd = r.fds[0], .existed = existed};
	return 0;
}

int agent_put(const char *path, const char *user, const char *file, uint32_t flags, mode_t mode,
	      struct agent_put *ret, struct err *err)
{
	struct agent_req req = {
		.verb = AGENT_PUT, .user = user, .path = file, .flags = flags, .mode = mode};
	struct err why = {0};

	if (put_begin(path, &req, ret, &why) == 0)
		return 0;
	if (verb_is_unknown(&why))
		return put_in_place(path, user, file, flags, mode, ret, err);
	if (err)
		*err = why;
	return -1;
}

static int put_finish(struct agent_put *p, const struct agent_req *req, bool *ret_atomic,
		      struct err *err)
{
	int64_t deadline_ms = clock_mono_ms() + COMMIT_MS;
	auto_reply struct agent_reply r = {.nfds = 0};
	struct wire_in in;
	bool atomic;

	if (agent_call_send(p->conn, req, deadline_ms, err) < 0 ||
	    agent_call_recv(p->conn, &r, deadline_ms, err) < 0)
		return -1;
	in = wire_in_on(r.p, r.len);
	atomic = wire_get_bool(&in);
	wire_get_u64(&in); /* its size, which we wrote */
	if (r.type != AGENT_OK || r.nfds || !wire_in_end(&in))
		return put_fault(err);
	*ret_atomic = atomic;
	return 0;
}

int agent_put_commit(struct agent_put *p, const int64_t *mtime_ns, bool *ret_atomic,
		     struct err *err)
{
	struct agent_req req = {.verb = AGENT_COMMIT,
				.has_mtime = mtime_ns != NULL,
				.mtime_ns = mtime_ns ? (uint64_t)*mtime_ns : 0};
	bool atomic = false;
	int rc;

	/* A writer's descriptor would make the kernel refuse to run the file it just became. */
	close(TAKE_FD(p->fd));
	if (p->conn < 0) {
		if (ret_atomic)
			*ret_atomic = false;
		return 0;
	}
	rc = put_finish(p, &req, &atomic, err);
	agent_put_done(p);
	if (rc == 0 && ret_atomic)
		*ret_atomic = atomic;
	return rc;
}

int agent_link(const char *path, const char *user, const char *target, const char *name, bool hard,
	       struct err *err)
{
	struct agent_req req = {
		.verb = AGENT_LINK, .user = user, .path = target, .to = name, .hard = hard};
	auto_reply struct agent_reply r = {.nfds = 0};

	if (agent_call(path, &req, 0, &r, clock_mono_ms() + AGENT_CALL_MS, err) < 0)
		return -1;
	return r.len ? put_fault(err) : 0;
}
