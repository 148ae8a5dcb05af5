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
const char *process_word(enum process_kind kind);

#endif
