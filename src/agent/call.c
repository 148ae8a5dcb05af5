/*
 * call.c - see call.h.
 */
#include "agent/call.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include "base/clock.h"
#include "base/log.h"

#define CALL_CONNECT_MAX_MS 60000 /* of a call without a deadline */

void agent_reply_done(struct agent_reply *r)
{
	free(r->p);
	r->p = NULL;
	fd_close_all(r->fds, r->nfds);
	r->nfds = 0;
}

/*
 * Bind the socket to a name that holds the request's id, so that the agent can tell whom a failure
 * was of. A name that somebody else has is done without.
 */
static void call_name(int sock)
{
	static unsigned counter;
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	size_t cap = sizeof(addr.sun_path) - 1;
	int n;

	if (!*log_request())
		return;
	n = snprintf(addr.sun_path + 1, cap, AGENT_REQID_NAME "%s/%x", log_request(),
		     __atomic_fetch_add(&counter, 1, __ATOMIC_RELAXED));
	/* Without a name the sandbox's notes lack the id, no more. */
	(void)!bind(sock, (struct sockaddr *)&addr,
		    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n));
}

int agent_call_open(const char *path, int64_t deadline_ms, struct err *err)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	int left = deadline_ms ? clock_left_ms(deadline_ms) : CALL_CONNECT_MAX_MS;
	struct timeval limit = {.tv_sec = left / 1000, .tv_usec = left % 1000 * 1000};
	auto_close int sock = -1;

	if (strlen(path) >= sizeof(addr.sun_path))
		return err_set(err, ERR_INTERNAL, "agent socket path is too long");
	if (left == 0)
		return err_set(err, ERR_TIMEOUT, "timed out before the call to the sandbox");
	memcpy(addr.sun_path, path, strlen(path) + 1);
	sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (sock < 0)
		return err_errno(err, ERR_NOMEM, errno, "make a socket");
	call_name(sock);
	/* A full backlog makes connect wait for this long: an agent that is stopped must not hold
	 * us, and a non-blocking connect could not be polled for. */
	setsockopt(sock, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	if (connect(sock, (struct sockaddr *)&addr, sizeof(addr)) < 0) {
		if (errno == EAGAIN || errno == EINTR)
			return err_set(err, ERR_TIMEOUT, "the sandbox's agent does not answer");
		if (errno == ENOENT || errno == ECONNREFUSED)
			return err_errno(err, ERR_GONE, errno, "the sandbox's agent is gone");
		return err_errno(err, ERR_INTERNAL, errno, "reach the sandbox's agent");
	}
	if (fd_set_nonblock(sock, err) < 0)
		return -1;
	return TAKE_FD(sock);
}

static size_t strv_size(const struct agent_strv *v)
{
	size_t n = 4;

	for (size_t i = 0; i < v->n; i++)
		n += 4 + strlen(v->v[i]);
	return n;
}

static size_t str_size(const char *s)
{
	return s ? strlen(s) + 4 : 4;
}

static size_t request_size(const struct agent_req *r)
{
	const char *const text[] = {r->user,	r->path, r->to,	    r->owner, r->group, r->cwd,
				    r->pattern, r->id,	 r->parent, r->label, r->text};
	size_t n = WIRE_FRAME_HEAD + 64 + 4 + r->data.n + strv_size(&r->argv) + strv_size(&r->env);

	for (size_t i = 0; i < ARRAY_LEN(text); i++)
		n += str_size(text[i]);
	return n;
}

struct agent_strv agent_strv_of(const char *const *v)
{
	struct agent_strv r = {.v = v};

	while (v && v[r.n])
		r.n++;
	return r;
}

int agent_call_send(int sock, const struct agent_req *r, int64_t deadline_ms, struct err *err)
{
	size_t cap = request_size(r);
	auto_free uint8_t *raw = malloc(cap);
	struct wire_out o = wire_out_on(raw + WIRE_FRAME_HEAD, cap - WIRE_FRAME_HEAD);
	struct wire_frame f = {.type = r->verb};

	if (!raw)
		return err_set(err, ERR_NOMEM, "out of memory");
	if (r->argv.n > AGENT_ARGS_MAX || r->env.n > AGENT_ARGS_MAX)
		return err_set(err, ERR_TOO_LARGE, "more than %d arguments or variables",
			       AGENT_ARGS_MAX);
	agent_req_put(&o, r);
	if (o.overflow || o.len > AGENT_REQUEST_MAX)
		return err_set(err, ERR_TOO_LARGE, "request to the sandbox is over %u bytes",
			       AGENT_REQUEST_MAX);
	f.len = (uint32_t)o.len;
	wire_frame_put(raw, &f);
	return fd_send(sock, raw, WIRE_FRAME_HEAD + o.len, NULL, 0, deadline_ms, err);
}

/* ---- replies ---- */

/* What an agent may claim; anything else would let a sandbox forge, say, a 401 of ours. */
static bool code_allowed(uint16_t code)
{
	static const enum err_code may[] = {
		ERR_INTERNAL, ERR_NOMEM, ERR_INVALID, ERR_FORBIDDEN, ERR_NOT_FOUND,  ERR_TIMEOUT,
		ERR_CONFLICT, ERR_GONE,	 ERR_LIMIT,   ERR_TOO_LARGE, ERR_UNAVAILABLE};

	for (size_t i = 0; i < ARRAY_LEN(may); i++)
		if (may[i] == code)
			return true;
	return false;
}

static const char *tag_known(const char *tag)
{
	static const char *const known[] = {"FILE_NOT_FOUND",
					    "FILE_ACCESS_DENIED",
					    "INVALID_FILE_PATH",
					    "SHELL_NOT_FOUND",
					    "PROCESS_NOT_FOUND",
					    "SESSION_ENDED",
					    "COMMAND_ALREADY_COMPLETED",
					    "INPUT_CLOSED"};

	for (size_t i = 0; i < ARRAY_LEN(known); i++)
		if (strcmp(known[i], tag) == 0)
			return known[i];
	return NULL;
}

int agent_reply_error(void *p, size_t len, struct err *err)
{
	struct wire_in in = wire_in_on(p, len);
	uint16_t code = wire_get_u16(&in);
	uint32_t errnum = wire_get_u32(&in);
	const char *tag = agent_str_get(&in);
	const char *msg = agent_str_get(&in);

	if (!wire_in_end(&in) || !code_allowed(code))
		return err_set(err, ERR_AGENT, "the sandbox's agent sent a malformed error");
	if (!err)
		return -1;
	err_set(err, (enum err_code)code, "%s", msg);
	err->errnum = errnum < 4096 ? (int)errnum : 0;
	err->tag = tag_known(tag);
	for (char *at = err->msg; *at; at++)
		if ((unsigned char)*at < 32 || *at == 127)
			*at = '?';
	return -1;
}

static int recv_fault(struct err *err)
{
	if (err && (err->code == ERR_GONE || err->errnum == ECONNRESET))
		return err_set(err, ERR_GONE, "the sandbox's agent hung up");
	return -1;
}

int agent_call_recv(int sock, struct agent_reply *ret, int64_t deadline_ms, struct err *err)
{
	auto_reply struct agent_reply r = {.nfds = 0};
	uint8_t head[WIRE_FRAME_HEAD];
	struct wire_frame f;
	struct err why = {.code = ERR_NONE};
	ssize_t got;

	if (!err)
		err = &why;
	got = fd_recv(sock, head, sizeof(head), r.fds, &r.nfds, deadline_ms, err);
	if (got < 0)
		return recv_fault(err);
	if (got == 0)
		return err_set(err, ERR_GONE, "the sandbox's agent hung up");
	if (fd_read_all(sock, head + got, sizeof(head) - (size_t)got, deadline_ms, err) < 0)
		return recv_fault(err);
	if (wire_frame_get(head, AGENT_REPLY_MAX, &f) < 0 || f.flags)
		return err_set(err, ERR_AGENT, "the sandbox's agent sent a frame over the limit");
	r.type = f.type;
	r.len = f.len;
	r.p = malloc(f.len + 1);
	if (!r.p)
		return err_set(err, ERR_NOMEM, "out of memory");
	if (fd_read_all(sock, r.p, r.len, deadline_ms, err) < 0)
		return recv_fault(err);
	if (r.type == AGENT_ERR && r.nfds)
		return err_set(err, ERR_AGENT, "the sandbox's agent sent a malformed error");
	if (r.type == AGENT_ERR)
		return agent_reply_error(r.p, r.len, err);
	*ret = r;
	r = (struct agent_reply){.nfds = 0};
	return 0;
}

int agent_call_answer(int sock, const struct agent_req *req, size_t nfds, struct agent_reply *ret,
		      int64_t deadline_ms, struct err *err)
{
	auto_reply struct agent_reply r = {.nfds = 0};

	if (agent_call_recv(sock, &r, deadline_ms, err) < 0)
		return -1;
	if (r.type != AGENT_OK || r.nfds != nfds)
		return err_set(err, ERR_AGENT, "the sandbox's agent answered %s wrongly",
			       agent_verb_name(req->verb));
	*ret = r;
	r = (struct agent_reply){.nfds = 0};
	return 0;
}

int agent_call(const char *path, const struct agent_req *req, size_t nfds, struct agent_reply *ret,
	       int64_t deadline_ms, struct err *err)
{
	auto_close int sock = agent_call_open(path, deadline_ms, err);

	if (sock < 0 || agent_call_send(sock, req, deadline_ms, err) < 0)
		return -1;
	return agent_call_answer(sock, req, nfds, ret, deadline_ms, err);
}
