/*
 * process.c - ids of processes: which start of the sandbox they belong to, and finding one.
 *
 * Between the record and the agent's task an id can be in one of two half-way states: noted but
 * not started yet (or never, when this process died in between), and started while its row was
 * taken over by another call. The first is told by the agent not knowing the task; whoever starts
 * a task looks at the row again afterwards and takes the task back when it lost.
 */
#include <string.h>

#include "base/clock.h"
#include "base/crash.h"
#include "base/utf8.h"
#include "core/proc.h"

#define CUT_LOOKS    6
#define CUT_PAUSE_MS 20

static const char *const kind_words[] = {
	[PROCESS_EXEC] = "exec",
	[PROCESS_SESSION] = "session",
	[PROCESS_PTY] = "terminal",
	[PROCESS_CONTEXT] = "context",
};

static const char *process_word(enum process_kind kind)
{
	return kind_words[kind];
}

static int process_gone(enum process_kind kind, const char *id, const char *sandbox,
			struct err *err)
{
	return err_tagged(
		err, ERR_GONE, kind == PROCESS_SESSION ? "SESSION_ENDED" : "SANDBOX_STOPPED",
		"%s %.255s ended when sandbox %s was stopped", process_word(kind), id, sandbox);
}

/* 1 of this start, 0 unknown, -1 with ERR_GONE. */
static int row_judge(struct core *c, const struct sandbox_row *row, enum process_kind kind,
		     const char *id, struct process_row *ret, struct err *err)
{
	struct process_row p = {0};
	int got = store_process_get(c->st, row->s.id, kind, id, &p, err);

	if (got <= 0)
		return got;
	if (row->s.state == SB_STARTED && p.start == row->starts) {
		*ret = p;
		return 1;
	}
	process_row_done(&p);
	return process_gone(kind, id, row->s.id, err);
}

int process_put(struct core *c, const struct process_row *p, const char *was, struct err *err)
{
	int done = store_process_put(c->st, p, was, err);

	if (done < 0)
		return -1;
	return done ? 0
		    : err_set(err, ERR_CONFLICT,
			      "%s %.255s exists already, or the sandbox was stopped meanwhile",
			      process_word(p->kind), p->id);
}

int process_forget(struct core *c, const char *sandbox, enum process_kind kind, const char *id,
		   const char *task, struct err *err)
{
	return store_process_drop(c->st, sandbox, kind, id, task, err) < 0 ? -1 : 0;
}

/* ---- starting ---- */

int process_id_valid(const char *field, const char *id, struct err *err)
{
	size_t n = strlen(id);

	if (n < 1 || n > PROCESS_ID_MAX || !utf8_plain(id, n) || memchr(id, '/', n))
		return err_set(err, ERR_INVALID,
			       "%s: must be 1 to %d bytes of UTF-8 without '/' and control "
			       "characters",
			       field, PROCESS_ID_MAX);
	return 0;
}

void process_row_init(const struct process_at *at, enum process_kind kind, const char *id,
		      struct process_row *ret)
{
	*ret = (struct process_row){
		.kind = kind, .start = at->row.starts, .created_ms = clock_wall_ms()};
	memcpy(ret->sandbox, at->row.s.id, ID_LEN);
	snprintf(ret->id, sizeof(ret->id), "%s", id);
	id_new(ret->task);
}

/* Somebody deleted the id, or took it over, while its task was being started. */
static bool start_lost(struct process_at *at, const struct process_row *p)
{
	auto_process struct process_row now = {0};
	int got = store_process_get(at->core->st, p->sandbox, p->kind, p->id, &now, NULL);

	return got == 0 || (got > 0 && strcmp(now.task, p->task) != 0);
}

int process_start(struct process_at *at, struct process_row *p, const char *was,
		  const struct task_spec *s, struct task_info *ret, struct err *err)
{
	struct task_info t = {0};

	if (process_put(at->core, p, was, err) < 0)
		return -1;
	crash_at("process.after_note");
	if (agent_task_start(at->agent, s, &t, NULL, err) < 0) {
		store_process_drop(at->core->st, p->sandbox, p->kind, p->id, p->task, NULL);
		return process_failed(at, err);
	}
	crash_at("process.after_start");
	if (start_lost(at, p)) {
		agent_task_remove(at->agent, p->task, NULL);
		task_info_done(&t);
		return err_set(err, ERR_CONFLICT, "%s %.255s was deleted meanwhile",
			       process_word(p->kind), p->id);
	}
	*ret = t;
	return 0;
}

int process_free(struct process_at *at, enum process_kind kind, const char *id, bool ended_too,
		 struct process_row *ret, struct err *err)
{
	auto_task struct task_info t = {0};
	struct err why = {0};
	int got = store_process_get(at->core->st, at->row.s.id, kind, id, ret, err);

	if (got <= 0)
		return got < 0 ? -1 : 1;
	if (ret->start != at->row.starts)
		return 1;
	if (!ret->task[0])
		return 0;
	if (agent_task_get(at->agent, ret->task, &t, &why) == 0)
		return ended_too && t.state == TASK_ENDED;
	if (why.code == ERR_NOT_FOUND)
		return 1;
	process_failed(at, &why);
	if (err)
		*err = why;
	return -1;
}

struct removal {
	struct job job;
	struct core *core;
	char sandbox[ID_LEN], task[ID_LEN];
};

static void removal_run(struct job *j)
{
	struct removal *r = container_of(j, struct removal, job);
	char path[108];

	/* A sandbox that was stopped meanwhile took the task with it. */
	if (r->core->run->ops->agent_path(r->core->run, r->sandbox, path, NULL) == 0)
		agent_task_remove(path, r->task, NULL);
	free(r);
}

static void removal_drop(struct job *j)
{
	free(container_of(j, struct removal, job));
}

void process_remove_later(struct core *c, const char *sandbox, const char *task, int64_t delay_ms)
{
	struct removal *r = calloc(1, sizeof(*r));

	if (!r)
		return; /* the agent forgets it a day after its end */
	r->core = c;
	r->job.fn = removal_run;
	r->job.drop = removal_drop;
	snprintf(r->sandbox, sizeof(r->sandbox), "%s", sandbox);
	snprintf(r->task, sizeof(r->task), "%s", task);
	pool_submit(&c->ops, &r->job, delay_ms);
}

/* ---- references ---- */

int process_begin(struct core *c, const struct caller *who, const char *sandbox,
		  struct process_at *at, struct err *err)
{
	at->core = c;
	at->who = who;
	if (row_agent(c, who, sandbox, &at->row, at->agent, err) < 0)
		return -1;
	slot_touch(c, at->row.s.id);
	return 0;
}

int process_find(struct core *c, const struct caller *who, const char *sandbox,
		 enum process_kind kind, const char *id, struct process_at *at, struct err *err)
{
	auto_row struct sandbox_row again = {0};
	int got;

	at->core = c;
	at->who = who;
	if (row_need(c, who, sandbox, &at->row, err) < 0)
		return -1;
	got = row_judge(c, &at->row, kind, id, &at->p, err);
	if (got == 0 &&
	    (at->row.s.state == SB_STARTED || row_started(c, who, at->row.s.id, &again, err) == 0))
		return process_absent(kind, id, err);
	if (got <= 0)
		return -1;
	if (c->run->ops->agent_path(c->run, at->row.s.id, at->agent, err) < 0)
		return -1;
	slot_touch(c, at->row.s.id);
	return 0;
}

int process_absent(enum process_kind kind, const char *id, struct err *err)
{
	return err_tagged(err, ERR_NOT_FOUND, "PROCESS_NOT_FOUND", "%s %.255s not found",
			  process_word(kind), id);
}

void process_at_done(struct process_at *at)
{
	if (at->counted)
		slot_exec_end(at->core, at->slot);
	if (at->slot)
		slot_put(at->core, at->slot);
	at->counted = false;
	at->slot = NULL;
	sandbox_row_done(&at->row);
	process_row_done(&at->p);
}

int process_count(struct process_at *at, struct err *err)
{
	at->slot = slot_get(at->core, at->row.s.id);
	at->counted = slot_exec_begin(at->core, at->slot, err) == 0;
	return at->counted ? 0 : -1;
}

/* Stopped, or stopped and started again: "stopped"; gone: "deleted"; else NULL. */
static const char *sandbox_moved(const struct process_at *at)
{
	auto_row struct sandbox_row row = {0};
	int got = store_sandbox_get(at->core->st, NULL, at->row.s.id, &row, NULL);

	if (got < 0)
		return NULL;
	if (got == 0 || row.s.state == SB_DESTROYING)
		return "deleted";
	return row.s.state != SB_STARTED || row.starts != at->row.starts ? "stopped" : NULL;
}

int process_failed(const struct process_at *at, struct err *err)
{
	const char *how = NULL;

	if (!err || err->tag ||
	    (err->code != ERR_AGENT && err->code != ERR_UNAVAILABLE && err->code != ERR_GONE &&
	     err->code != ERR_NOT_FOUND))
		return -1;
	/* The news of a stop may be a moment behind the silence of the agent. */
	for (int i = 0; i < CUT_LOOKS && !how; i++) {
		if (i)
			usleep(CUT_PAUSE_MS * 1000);
		how = sandbox_moved(at);
	}
	if (how)
		err_tagged(err, ERR_GONE, "SANDBOX_STOPPED", "sandbox %s was %s meanwhile",
			   at->row.s.id, how);
	return -1;
}
