/*
 * proc.h - what the files about sessions, terminals and detached execs share.
 */
#ifndef CAISSON_CORE_PROC_H
#define CAISSON_CORE_PROC_H

#include "caisson/process.h"
#include "core/exec.h"

#define PROCESS_CALL_MS AGENT_CALL_MS

/* A started sandbox, its agent, and mostly one process in it. */
struct process_at {
	struct core *core;
	const struct caller *who; /* borrowed */
	struct sandbox_row row;
	struct process_row p; /* process_find: the id's row */
	char agent[108];
	struct slot *slot;
	bool counted; /* among the slot's running commands */
};
void process_at_done(struct process_at *at);
#define auto_at auto_call(process_at_done)

int process_begin(struct core *c, const struct caller *who, const char *sandbox,
		  struct process_at *at, struct err *err);
int process_find(struct core *c, const struct caller *who, const char *sandbox,
		 enum process_kind kind, const char *id, struct process_at *at, struct err *err);
/* From here to the end of at the sandbox is active. */
int process_count(struct process_at *at, struct err *err);
/* A call to the agent failed: when the sandbox was stopped or deleted meanwhile, that is the
 * error. Returns -1. */
int process_failed(const struct process_at *at, struct err *err);
int process_absent(enum process_kind kind, const char *id, struct err *err);
int process_put(struct core *c, const struct process_row *p, const char *was, struct err *err);
int process_id_valid(const char *field, const char *id, struct err *err);
/*
 * Note p (in at's start; was as of store_process_put), start s as its task, and look whether the
 * id is still ours. ret is the task's record. On failure nothing of it is left.
 */
int process_start(struct process_at *at, struct process_row *p, const char *was,
		  const struct task_spec *s, struct task_info *ret, struct err *err);
/* The row of a new process of at's start. */
void process_row_init(const struct process_at *at, enum process_kind kind, const char *id,
		      struct process_row *ret);
/*
 * Whether an id may be taken: 1 free, or its task has gone (then ret is its row), 0 it lives.
 * ended_too: one that has ended is free as well.
 */
int process_free(struct process_at *at, enum process_kind kind, const char *id, bool ended_too,
		 struct process_row *ret, struct err *err);
/* A log of what at and t are about; both are emptied. */
struct process_log *process_log_on(struct process_at *at, struct task_info *t,
				   const struct process_from *from, struct err *err);
/* Forget a task in the agent after a moment, so that who reads its end still can. */
void process_remove_later(struct core *c, const char *sandbox, const char *task, int64_t delay_ms);

#endif
