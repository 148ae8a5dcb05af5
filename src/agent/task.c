/*
 * task.c - the daemon's side of tasks: calls with one reply. Reading is in task_reader.c.
 */
#include "caisson/task.h"

#include <fcntl.h>
#include <poll.h>
#include <string.h>

#include "agent/task_int.h"
#include "base/clock.h"

void task_info_done(struct task_info *t)
{
	free(t->label);
	t->label = NULL;
}

static int task_fault(struct err *err)
{
	return err_set(err, ERR_AGENT, "the sandbox's agent sent a malformed task");
}

/* ---- records ---- */

static bool text_fits(char *dst, size_t cap, const char *text)
{
	size_t n = strlen(text);

	if (n >= cap)
		return false;
	memcpy(dst, text, n + 1);
	return true;
}

int agent_task_info(struct wire_in *in, struct task_info *ret, struct err *err)
{
	struct task_rec r;

	task_rec_get(in, &r);
	if (in->bad)
		return task_fault(err);
	*ret = (struct task_info){
		.kind = (enum task_kind)r.kind,
		.state = (enum task_state)r.state,
		.cause = (enum task_cause)r.cause,
		.signaled = r.how == AGENT_EXIT_SIGNAL,
		.code = r.code,
		.pid = r.pid,
		.uid = r.uid,
		.gid = r.gid,
		.cols = r.cols,
		.rows = r.rows,
		.created_ms = (int64_t)r.created_ms,
		.started_ms = (int64_t)r.started_ms,
		.ended_ms = (int64_t)r.ended_ms,
		.out_first = r.out_first,
		.out_total = r.out_total,
		.err_first = r.err_first,
		.err_total = r.err_total,
		.user_us = r.user_us,
		.sys_us = r.sys_us,
		.maxrss_kib = r.maxrss_kib,
	};
	if (!text_fits(ret->id, sizeof(ret->id), r.id) ||
	    !text_fits(ret->parent, sizeof(ret->parent), r.parent) ||
	    !text_fits(ret->cwd, sizeof(ret->cwd), r.cwd))
		return task_fault(err);
	ret->label = strdup(r.label);
	return ret->label ? 0 : err_set(err, ERR_NOMEM, "out of memory");
}

/* The record, where ret is not NULL, and the byte behind it, where existed is not. */
static int record_take(struct agent_reply *r, struct task_info *ret, bool *existed, struct err *err)
{
	struct wire_in in = wire_in_on(r->p, r->len);
	auto_task struct task_info t = {.label = NULL};
	bool flag = false;

	if (agent_task_info(&in, &t, err) < 0)
		return -1;
	if (existed)
		flag = wire_get_bool(&in);
	if (!wire_in_end(&in))
		return task_fault(err);
	if (existed)
		*existed = flag;
	if (ret) {
		*ret = t;
		t.label = NULL;
	}
	return 0;
}

/* ---- calls ---- */

/* As agent_call, and the client's hang-up ends the wait. */
static int call_wait(const char *path, const struct agent_req *req, size_t nfds,
		     struct agent_reply *ret, int client, int64_t deadline_ms, struct err *err)
{
	auto_close int sock = agent_call_open(path, deadline_ms, err);

	if (sock < 0 || agent_call_send(sock, req, deadline_ms, err) < 0 ||
	    fd_wait(sock, POLLIN, client, deadline_ms, err) < 0)
		return -1;
	return agent_call_answer(sock, req, nfds, ret, deadline_ms, err);
}

static int record_call(const char *path, const struct agent_req *req, struct task_info *ret,
		       bool *existed, int64_t limit_ms, struct err *err)
{
	auto_reply struct agent_reply r = {.nfds = 0};

	if (call_wait(path, req, 0, &r, -1, clock_mono_ms() + limit_ms, err) < 0)
		return -1;
	return record_take(&r, ret, existed, err);
}

static int empty_call(const char *path, const struct agent_req *req, int64_t limit_ms,
		      struct err *err)
{
	auto_reply struct agent_reply r = {.nfds = 0};

	if (call_wait(path, req, 0, &r, -1, clock_mono_ms() + limit_ms, err) < 0)
		return -1;
	return r.len ? task_fault(err) : 0;
}

int agent_task_start(const char *path, const struct task_spec *s, struct task_info *ret,
		     bool *ret_existed, struct err *err)
{
	bool existed;
	struct agent_req req = {
		.verb = AGENT_TASK_START,
		.id = s->id,
		.label = s->label,
		.kind = (uint32_t)s->kind,
		.tflags = s->tflags,
		.timeout_ms = s->timeout_ms > 0 ? (uint64_t)s->timeout_ms : 0,
		.argv = agent_strv_of(s->spawn.argv),
		.env = agent_strv_of(s->spawn.env),
		.cwd = s->spawn.cwd,
		.user = s->spawn.user,
		.flags = s->spawn.flags,
		.cols = s->spawn.cols,
		.rows = s->spawn.rows,
	};

	return record_call(path, &req, ret, ret_existed ? ret_existed : &existed, AGENT_CALL_MS,
			   err);
}

int agent_task_exec(const char *path, const char *session, const char *id, const char *text,
		    uint32_t tflags, int64_t timeout_ms, struct task_info *ret, struct err *err)
{
	bool existed;
	struct agent_req req = {.verb = AGENT_TASK_EXEC,
				.parent = session,
				.id = id,
				.text = text,
				.tflags = tflags,
				.timeout_ms = timeout_ms > 0 ? (uint64_t)timeout_ms : 0};

	return record_call(path, &req, ret, &existed, AGENT_CALL_MS, err);
}

int agent_task_get(const char *path, const char *id, struct task_info *ret, struct err *err)
{
	struct agent_req req = {.verb = AGENT_TASK_GET, .id = id};

	return record_call(path, &req, ret, NULL, AGENT_CALL_MS, err);
}

int agent_task_signal(const char *path, const char *id, int sig, bool tree, struct err *err)
{
	struct agent_req req = {
		.verb = AGENT_TASK_SIGNAL, .id = id, .sig = (uint32_t)sig, .tree = tree};

	if (sig < 1 || sig > 64)
		return err_set(err, ERR_INVALID, "signal: must be from 1 to 64");
	return empty_call(path, &req, AGENT_CALL_MS, err);
}

int agent_task_resize(const char *path, const char *id, uint16_t cols, uint16_t rows,
		      struct task_info *ret, struct err *err)
{
	struct agent_req req = {.verb = AGENT_TASK_RESIZE, .id = id, .cols = cols, .rows = rows};

	return record_call(path, &req, ret, NULL, AGENT_CALL_MS, err);
}

int agent_task_kill(const char *path, const char *id, uint32_t grace_ms, struct task_info *ret,
		    struct err *err)
{
	struct agent_req req = {.verb = AGENT_TASK_KILL, .id = id, .grace_ms = grace_ms};

	return record_call(path, &req, ret, NULL, (int64_t)grace_ms + AGENT_CALL_MS, err);
}

int agent_task_remove(const char *path, const char *id, struct err *err)
{
	struct agent_req req = {.verb = AGENT_TASK_REMOVE, .id = id};

	return empty_call(path, &req, AGENT_CALL_MS, err);
}

int agent_task_attach(const char *path, const char *id, int *ret_in, int *ret_out, struct err *err)
{
	struct agent_req req = {.verb = AGENT_TASK_ATTACH, .id = id};
	auto_reply struct agent_reply r = {.nfds = 0};

	if (call_wait(path, &req, 2, &r, -1, clock_mono_ms() + AGENT_CALL_MS, err) < 0 ||
	    record_take(&r, NULL, NULL, err) < 0 || agent_fd_pipe(r.fds[0], O_WRONLY, err) < 0 ||
	    agent_fd_pipe(r.fds[1], O_RDONLY, err) < 0)
		return -1;
	*ret_in = r.fds[0];
	*ret_out = r.fds[1];
	r.nfds = 0;
	return 0;
}

/* ---- input ---- */

static int write_piece(const char *path, const struct agent_req *req, int client,
		       int64_t deadline_ms, struct err *err)
{
	auto_reply struct agent_reply r = {.nfds = 0};
	struct wire_in in;

	if (call_wait(path, req, 0, &r, client, deadline_ms, err) < 0)
		return -1;
	in = wire_in_on(r.p, r.len);
	wire_get_u64(&in);
	return wire_in_end(&in) ? 0 : task_fault(err);
}

int agent_task_write(const char *path, const char *id, const void *p, size_t n, bool eof,
		     int client, int64_t deadline_ms, uint64_t *ret_written, struct err *err)
{
	size_t at = 0;

	do {
		size_t piece = MIN(n - at, (size_t)TASK_WRITE_MAX);
		struct agent_req req = {.verb = AGENT_TASK_WRITE,
					.id = id,
					.eof = eof && at + piece == n,
					.data = {(const uint8_t *)p + at, piece}};

		if (write_piece(path, &req, client, deadline_ms, err) < 0)
			return -1;
		at += piece;
	} while (at < n);
	if (ret_written)
		*ret_written = n;
	return 0;
}

/* ---- listing ---- */

static int list_frame(struct agent_reply *r, task_fn fn, void *arg, struct err *err)
{
	struct wire_in in = wire_in_on(r->p, r->len);
	uint32_t n = wire_get_u32(&in);

	for (uint32_t i = 0; i < n; i++) {
		auto_task struct task_info t = {.label = NULL};

		if (agent_task_info(&in, &t, err) < 0 || fn(arg, &t, err) < 0)
			return -1;
	}
	return wire_in_end(&in) && n ? 0 : task_fault(err);
}

int agent_task_list(const char *path, enum task_kind kind, const char *parent, task_fn fn,
		    void *arg, struct err *err)
{
	int64_t deadline_ms = clock_mono_ms() + AGENT_CALL_MS;
	struct agent_req req = {.verb = AGENT_TASK_LIST, .kind = (uint32_t)kind, .parent = parent};
	auto_close int sock = agent_call_open(path, deadline_ms, err);

	if (sock < 0 || agent_call_send(sock, &req, deadline_ms, err) < 0)
		return -1;
	for (;;) {
		auto_reply struct agent_reply r = {.nfds = 0};

		if (agent_call_recv(sock, &r, deadline_ms, err) < 0)
			return -1;
		if (r.type == AGENT_OK && !r.nfds && !r.len)
			return 0;
		if (r.type != AGENT_TASKS || r.nfds)
			return task_fault(err);
		if (list_frame(&r, fn, arg, err) < 0)
			return -1;
	}
}
