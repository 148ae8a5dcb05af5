/*
 * process_log.c - one process by reference: its record, input, signals, and its output.
 *
 * A reference is looked up for each call. A log holds what it found for as long as it is open, so
 * that what a client types costs one call to the agent and no look into the records.
 */
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "core/proc.h"

#define PTY_KEEP_MS (10 * 60 * 1000)

struct process_log {
	struct process_at at;
	struct caller who;
	struct task_info info;
	uint64_t begin; /* of its output */
	bool ended;	/* the end was told */
	struct task_reader *r;
};

/* The record of what ref names; at stays open for more. */
static int ref_open(struct core *c, const struct caller *who, const struct process_ref *ref,
		    struct process_at *at, struct task_info *ret, struct err *err)
{
	struct task_info t = {0};
	int rc;

	if (process_find(c, who, ref->sandbox, ref->kind, ref->id, at, err) < 0)
		return -1;
	if (ref->command && !id_valid(ref->command))
		return err_tagged(err, ERR_NOT_FOUND, "PROCESS_NOT_FOUND",
				  "command %.100s not found", ref->command);
	if (!at->p.task[0])
		return process_absent(ref->kind, ref->id, err);
	rc = agent_task_get(at->agent, ref->command ? ref->command : at->p.task, &t, err);
	if (rc == 0 && ref->command && strcmp(t.parent, at->p.task) != 0) {
		task_info_done(&t);
		return err_tagged(err, ERR_NOT_FOUND, "PROCESS_NOT_FOUND",
				  "command %.100s not found", ref->command);
	}
	if (rc < 0)
		return process_failed(at, err);
	*ret = t;
	return 0;
}

int process_get(struct core *c, const struct caller *who, const struct process_ref *ref,
		struct task_info *ret, struct err *err)
{
	auto_at struct process_at at = {0};

	return ref_open(c, who, ref, &at, ret, err);
}

/* In pieces the agent takes. */
static int task_feed(const struct process_at *at, const char *task, const char *p, size_t n,
		     bool eof, int client, int64_t deadline_ms, struct err *err)
{
	uint64_t put;

	do {
		size_t part = MIN(n, (size_t)TASK_WRITE_MAX);

		if (agent_task_write(at->agent, task, p, part, eof && part == n, client,
				     deadline_ms, &put, err) < 0)
			return process_failed(at, err);
		p += part;
		n -= part;
	} while (n);
	return 0;
}

int process_write(struct core *c, const struct caller *who, const struct process_ref *ref,
		  const void *p, size_t n, bool eof, int client, int64_t deadline_ms,
		  struct err *err)
{
	auto_at struct process_at at = {0};
	auto_task struct task_info t = {0};

	if (ref_open(c, who, ref, &at, &t, err) < 0 || process_count(&at, err) < 0)
		return -1;
	return task_feed(&at, t.id, p, n, eof, client, deadline_ms, err);
}

int process_signal(struct core *c, const struct caller *who, const struct process_ref *ref, int sig,
		   bool tree, struct err *err)
{
	auto_at struct process_at at = {0};
	auto_task struct task_info t = {0};

	if (sig < 1 || sig > 64)
		return err_set(err, ERR_INVALID, "signal: must be from 1 to 64");
	if (ref_open(c, who, ref, &at, &t, err) < 0)
		return -1;
	if (agent_task_signal(at.agent, t.id, sig, tree, err) < 0)
		return process_failed(&at, err);
	return 0;
}

int process_resize(struct core *c, const struct caller *who, const struct process_ref *ref,
		   unsigned cols, unsigned rows, struct task_info *ret, struct err *err)
{
	auto_at struct process_at at = {0};
	auto_task struct task_info t = {0};

	if (ref_open(c, who, ref, &at, &t, err) < 0)
		return -1;
	if (agent_task_resize(at.agent, t.id, (uint16_t)cols, (uint16_t)rows, ret, err) < 0)
		return process_failed(&at, err);
	return 0;
}

int process_kill(struct core *c, const struct caller *who, const struct process_ref *ref,
		 unsigned grace_ms, struct task_info *ret, struct err *err)
{
	auto_at struct process_at at = {0};
	auto_task struct task_info t = {0};

	if (ref_open(c, who, ref, &at, &t, err) < 0)
		return -1;
	if (agent_task_kill(at.agent, t.id, grace_ms, ret, err) < 0)
		return process_failed(&at, err);
	return 0;
}

/* ---- logs ---- */

struct process_log *process_log_on(struct process_at *at, struct task_info *t,
				   const struct process_from *from, struct err *err)
{
	struct process_log *l = calloc(1, sizeof(*l));

	if (!l) {
		err_set(err, ERR_NOMEM, "out of memory");
		return NULL;
	}
	/* The caller may go before the log does, the copy not. */
	l->who = *at->who;
	l->at = *at;
	l->at.who = &l->who;
	l->info = *t;
	if (from)
		l->begin = MIN(MAX(from->out, t->out_first), t->out_total);
	*at = (struct process_at){0};
	*t = (struct task_info){0};
	if (process_count(&l->at, err) == 0) {
		if (!from)
			return l;
		l->r = task_reader_open(l->at.agent, l->info.id, from->streams, from->out,
					from->err, from->follow, err);
		if (l->r)
			return l;
		process_failed(&l->at, err);
	}
	process_log_close(l);
	return NULL;
}

struct process_log *process_log_open(struct core *c, const struct caller *who,
				     const struct process_ref *ref, const struct process_from *from,
				     struct err *err)
{
	auto_at struct process_at at = {0};
	auto_task struct task_info t = {0};

	if (ref_open(c, who, ref, &at, &t, err) < 0)
		return NULL;
	return process_log_on(&at, &t, from, err);
}

/* A terminal that ended is of no more use than its last output is to who comes late. */
static void log_ended(struct process_log *l)
{
	if (!l->ended && l->at.p.kind == PROCESS_PTY)
		process_remove_later(l->at.core, l->at.row.s.id, l->info.id, PTY_KEEP_MS);
	l->ended = true;
}

int process_log_next(struct process_log *l, struct task_chunk *ret, struct task_info *end,
		     int client, int64_t deadline_ms, struct err *err)
{
	struct err why = {0};
	int got = task_reader_next(l->r, ret, end, client, deadline_ms, &why);

	if (got == TASK_READ_END)
		log_ended(l);
	if (got >= 0)
		return got;
	process_failed(&l->at, &why);
	if (err)
		*err = why;
	return -1;
}

int process_log_fd(const struct process_log *l)
{
	return task_reader_fd(l->r);
}

const struct task_info *process_log_info(const struct process_log *l)
{
	return &l->info;
}

uint64_t process_log_begin(const struct process_log *l)
{
	return l->begin;
}

int process_log_write(struct process_log *l, const void *p, size_t n, bool eof, int client,
		      int64_t deadline_ms, struct err *err)
{
	return task_feed(&l->at, l->info.id, p, n, eof, client, deadline_ms, err);
}

int process_log_result(struct process_log *l, const struct task_info *end, struct exec_result *ret,
		       struct err *err)
{
	return process_result(l->at.core, l->at.row.s.id, end, ret, err);
}

void process_log_stop(struct process_log *l)
{
	shutdown(task_reader_fd(l->r), SHUT_RDWR);
}

void process_log_close(struct process_log *l)
{
	if (!l)
		return;
	if (l->r)
		task_reader_close(l->r);
	process_at_done(&l->at);
	task_info_done(&l->info);
	free(l);
}
