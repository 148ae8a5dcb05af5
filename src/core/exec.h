/*
 * exec.h - what the files about commands and files in a sandbox share.
 */
#ifndef CAISSON_CORE_EXEC_H
#define CAISSON_CORE_EXEC_H

#include "core/int.h"

struct exec_handle {
	struct core *core;
	struct slot *slot;
	struct agent_proc proc;
	struct slot_oom before; /* memory exhaustion seen before the spawn */
	int64_t began_us;
	bool counted; /* among the slot's running commands */
};

/* path as the agent takes it: absolute, relative ones below the working directory. */
int path_of(struct core *c, const struct sandbox_row *row, const char *agent, const char *path,
	    char out[AGENT_PATH_MAX], struct err *err);
/* The environment of a process: what names the sandbox, the sandbox's own, then more (or NULL).
 * free() it. */
const char **spawn_env(const struct sandbox_row *row, const struct kv *more, struct err *err);
int exec_spec_valid(const struct exec_spec *s, struct err *err);
/* An agent call failed: when the sandbox isn't started any more, that is the error. Returns -1. */
int agent_failed(struct core *c, const struct caller *who, const char *id, struct err *err);
void box_oom(struct core *c, const char *id, const char *comm, uint64_t limit, uint64_t peak,
	     uint64_t kills, uint32_t pid); /* an event of the runner */

#endif
