/*
 * file.c - the daemon's side of the file verbs and the other single calls. See caisson/agent.h.
 */
#include "caisson/agent.h"

#include <fcntl.h>
#include <string.h>

#include "base/clock.h"
#include "agent/call.h"

/* The grace is the agent's to keep; a frozen one may not add its own half minute to a stop. */
#define TERM_SLACK_MS 1000

#define PORTS_MAX 65536

#define LIST_TOTAL_MS 300000 /* a whole listing, however it trickles */

void agent_info_done(struct agent_info *i)
{
	free(i->name);
	free(i->path);
	free(i->link);
	*i = (struct agent_info){0};
}

void agent_info_get(struct wire_in *in, struct agent_info *ret)
{
	struct agent_info i = {0};

	i.name = (char *)(uintptr_t)agent_str_get(in);
	i.path = (char *)(uintptr_t)agent_str_get(in);
	i.type = (char)wire_get_u8(in);
	i.mode = wire_get_u32(in);
	i.uid = wire_get_u32(in);
	i.gid = wire_get_u32(in);
	i.size = wire_get_u64(in);
	i.mtime_ns = wire_get_i64(in);
	i.link = (char *)(uintptr_t)agent_str_get(in);
	if (!i.type || !strchr("fdlpscb", i.type) || i.mode > 07777)
		in->bad = true;
	*ret = i;
}

static int agent_fault(struct err *err, const char *what)
{
	return err_set(err, ERR_AGENT, "the sandbox's agent sent a malformed %s", what);
}

static int64_t call_deadline(void)
{
	return clock_mono_ms() + AGENT_CALL_MS;
}

/* A call whose reply is empty. */
static int call_void(const char *path, const struct agent_req *req, struct err *err)
{
	auto_reply struct agent_reply r = {.nfds = 0};

	if (agent_call(path, req, 0, &r, call_deadline(), err) < 0)
		return -1;
	return r.len ? agent_fault(err, "reply") : 0;
}

int agent_hello(const char *path, int64_t deadline_ms, struct err *err)
{
	struct agent_req req = {.verb = AGENT_HELLO};
	auto_reply struct agent_reply r = {.nfds = 0};
	struct wire_in in;
	uint32_t proto;

	if (agent_call(path, &req, 0, &r, deadline_ms, err) < 0)
		return -1;
	in = wire_in_on(r.p, r.len);
	proto = wire_get_u32(&in);
	wire_get_u32(&in); /* features: later daemons look at them */
	if (!wire_in_end(&in) || proto < 1)
		return agent_fault(err, "greeting");
	return 0;
}

/* Take strings of a reply over into heap copies. */
static int info_copy(const struct agent_info *from, struct agent_info *ret, struct err *err)
{
	struct agent_info i = *from;

	i.name = strdup(from->name);
	i.path = strdup(from->path);
	i.link = strdup(from->link);
	if (!i.name || !i.path || !i.link) {
		agent_info_done(&i);
		return err_set(err, ERR_NOMEM, "out of memory");
	}
	*ret = i;
	return 0;
}

static int reply_info(const struct agent_reply *r, struct agent_info *ret, struct err *err)
{
	struct wire_in in = wire_in_on(r->p, r->len);
	struct agent_info i;

	agent_info_get(&in, &i);
	if (!wire_in_end(&in))
		return agent_fault(err, "file description");
	return ret ? info_copy(&i, ret, err) : 0;
}

int agent_stat(const char *path, const char *user, const char *file, bool follow,
	       struct agent_info *ret, struct err *err)
{
	struct agent_req req = {.verb = AGENT_STAT, .user = user, .path = file, .follow = follow};
	auto_reply struct agent_reply r = {.nfds = 0};

	if (agent_call(path, &req, 0, &r, call_deadline(), err) < 0)
		return -1;
	return reply_info(&r, ret, err);
}

int agent_open(const char *path, const char *user, const char *file, uint32_t flags, mode_t mode,
	       struct agent_info *ret, struct err *err)
{
	struct agent_req req = {
		.verb = AGENT_OPEN, .user = user, .path = file, .flags = flags, .mode = mode};
	bool rd = flags & AGENT_OPEN_READ, wr = flags & AGENT_OPEN_WRITE;
	auto_reply struct agent_reply r = {.nfds = 0};

	if (agent_call(path, &req, 1, &r, call_deadline(), err) < 0)
		return -1;
	if (agent_fd_file(r.fds[0], rd && wr ? O_RDWR : wr ? O_WRONLY : O_RDONLY, err) < 0)
		return -1;
	if (reply_info(&r, ret, err) < 0)
		return -1;
	r.nfds = 0;
	return r.fds[0];
}

int agent_mkdir(const char *path, const char *user, const char *dir, mode_t mode, bool parents,
		struct err *err)
{
	struct agent_req req = {
		.verb = AGENT_MKDIR, .user = user, .path = dir, .mode = mode, .parents = parents};

	return call_void(path, &req, err);
}

int agent_rename(const char *path, const char *user, const char *from, const char *to,
		 struct err *err)
{
	struct agent_req req = {.verb = AGENT_RENAME, .user = user, .path = from, .to = to};

	return call_void(path, &req, err);
}

int agent_remove(const char *path, const char *user, const char *file, bool recursive,
		 struct err *err)
{
	struct agent_req req = {
		.verb = AGENT_REMOVE, .user = user, .path = file, .recursive = recursive};

	return call_void(path, &req, err);
}

int agent_setattr(const char *path, const char *user, const char *file, const mode_t *mode,
		  const char *owner, const char *group, struct err *err)
{
	struct agent_req req = {.verb = AGENT_SETATTR,
				.user = user,
				.path = file,
				.has_mode = mode != NULL,
				.mode = mode ? *mode : 0,
				.owner = owner,
				.group = group};

	return call_void(path, &req, err);
}

/* ---- listings ---- */

struct listing {
	agent_list_fn fn;
	void *arg;
	uint32_t seen, max;
};

static bool name_plain(const char *s)
{
	return *s && !strchr(s, '/') && strcmp(s, ".") != 0 && strcmp(s, "..") != 0;
}

static int entries_run(struct listing *l, const struct agent_reply *r, struct err *err)
{
	struct wire_in in = wire_in_on(r->p, r->len);
	uint32_t n = wire_get_u32(&in);

	if (n == 0 || n > l->max - l->seen)
		return agent_fault(err, "listing");
	for (uint32_t i = 0; i < n; i++) {
		struct agent_info info;

		agent_info_get(&in, &info);
		if (in.bad || !name_plain(info.name))
			return agent_fault(err, "listing");
		if (l->fn(l->arg, &info, err) < 0)
			return -1;
	}
	l->seen += n;
	return wire_in_end(&in) ? 0 : agent_fault(err, "listing");
}

/* 1: that was the last frame. */
static int listing_step(struct listing *l, int sock, bool *ret_more, int64_t end_ms,
			struct err *err)
{
	auto_reply struct agent_reply r = {.nfds = 0};
	struct wire_in in;
	bool more;

	if (agent_call_recv(sock, &r, MIN(call_deadline(), end_ms), err) < 0)
		return -1;
	if (r.type == AGENT_ENTRIES && r.nfds == 0)
		return entries_run(l, &r, err);
	in = wire_in_on(r.p, r.len);
	more = wire_get_bool(&in);
	if (r.type != AGENT_OK || r.nfds || !wire_in_end(&in))
		return agent_fault(err, "listing");
	*ret_more = more;
	return 1;
}

int agent_list(const char *path, const char *user, const char *dir, uint32_t depth, uint32_t max,
	       agent_list_fn fn, void *arg, bool *ret_more, struct err *err)
{
	struct agent_req req = {.verb = AGENT_LIST,
				.user = user,
				.path = dir,
				.depth = depth,
				.max = MIN(max, (uint32_t)AGENT_LIST_MAX)};
	struct listing l = {.fn = fn, .arg = arg, .max = req.max};
	int64_t end_ms = clock_mono_ms() + LIST_TOTAL_MS;
	auto_close int sock = agent_call_open(path, call_deadline(), err);
	bool more = false;
	int rc;

	if (sock < 0 || agent_call_send(sock, &req, call_deadline(), err) < 0)
		return -1;
	while ((rc = listing_step(&l, sock, &more, end_ms, err)) == 0)
		continue;
	if (rc < 0)
		return -1;
	if (ret_more)
		*ret_more = more;
	return 0;
}

/* ---- the sandbox ---- */

int agent_user(const char *path, const char *user, struct agent_user *ret, struct err *err)
{
	struct agent_req req = {.verb = AGENT_USER, .user = user};
	auto_reply struct agent_reply r = {.nfds = 0};
	struct agent_user u = {0};
	struct wire_in in;

	if (agent_call(path, &req, 0, &r, call_deadline(), err) < 0)
		return -1;
	in = wire_in_on(r.p, r.len);
	u.uid = wire_get_u32(&in);
	u.gid = wire_get_u32(&in);
	wire_get_str(&in, u.name, sizeof(u.name));
	wire_get_str(&in, u.home, sizeof(u.home));
	wire_get_str(&in, u.shell, sizeof(u.shell));
	if (!wire_in_end(&in) || u.home[0] != '/')
		return agent_fault(err, "user");
	*ret = u;
	return 0;
}

int agent_statfs(const char *path, const char *dir, uint64_t *ret_total, uint64_t *ret_used,
		 uint64_t *ret_avail, struct err *err)
{
	struct agent_req req = {.verb = AGENT_STATFS, .path = dir};
	auto_reply struct agent_reply r = {.nfds = 0};
	uint64_t total, used, avail;
	struct wire_in in;

	if (agent_call(path, &req, 0, &r, call_deadline(), err) < 0)
		return -1;
	in = wire_in_on(r.p, r.len);
	total = wire_get_u64(&in);
	used = wire_get_u64(&in);
	avail = wire_get_u64(&in);
	if (!wire_in_end(&in))
		return agent_fault(err, "disk figure");
	*ret_total = total;
	*ret_used = used;
	*ret_avail = avail;
	return 0;
}

int agent_ports(const char *path, uint16_t **ret, size_t *ret_n, struct err *err)
{
	struct agent_req req = {.verb = AGENT_PORTS};
	auto_reply struct agent_reply r = {.nfds = 0};
	auto_free uint16_t *port = NULL;
	struct wire_in in;
	size_t n;

	if (agent_call(path, &req, 0, &r, call_deadline(), err) < 0)
		return -1;
	in = wire_in_on(r.p, r.len);
	n = wire_get_count(&in, PORTS_MAX, sizeof(*port));
	port = calloc(n + 1, sizeof(*port));
	if (!port)
		return err_set(err, ERR_NOMEM, "out of memory");
	for (size_t i = 0; i < n; i++) {
		port[i] = wire_get_u16(&in);
		if (i && port[i] <= port[i - 1])
			in.bad = true;
	}
	if (!wire_in_end(&in))
		return agent_fault(err, "list of ports");
	*ret = TAKE_PTR(port);
	*ret_n = n;
	return 0;
}

int agent_traffic(const char *path, struct agent_traffic *ret, struct err *err)
{
	struct agent_req req = {.verb = AGENT_TRAFFIC};
	auto_reply struct agent_reply r = {.nfds = 0};
	struct agent_traffic t;
	struct wire_in in;

	if (agent_call(path, &req, 0, &r, call_deadline(), err) < 0)
		return -1;
	in = wire_in_on(r.p, r.len);
	t.rx_bytes = wire_get_u64(&in);
	t.rx_packets = wire_get_u64(&in);
	t.tx_bytes = wire_get_u64(&in);
	t.tx_packets = wire_get_u64(&in);
	if (!wire_in_end(&in))
		return agent_fault(err, "traffic figure");
	*ret = t;
	return 0;
}

int agent_term(const char *path, uint32_t grace_ms, struct err *err)
{
	struct agent_req req = {.verb = AGENT_TERM, .grace_ms = grace_ms};
	auto_reply struct agent_reply r = {.nfds = 0};
	struct wire_in in;
	uint32_t n;

	if (agent_call(path, &req, 0, &r, clock_mono_ms() + grace_ms + TERM_SLACK_MS, err) < 0)
		return -1;
	in = wire_in_on(r.p, r.len);
	n = wire_get_u32(&in);
	if (!wire_in_end(&in))
		return agent_fault(err, "answer to term");
	return (int)MIN(n, 1u << 30);
}
