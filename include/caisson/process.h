/*
 * process.h - what runs on in a sandbox under an id: sessions and their commands, terminals,
 * detached execs, interpreters' contexts.
 *
 * Calls as in core.h. State and output live in the sandbox's agent (task.h), so they outlive the
 * daemon; the ids are in the records too, with the start of the sandbox they belong to. A stop
 * ends everything: an id of before it is ERR_GONE and says so, an unknown one ERR_NOT_FOUND.
 * Activity is each call, and every moment a client waits for output or is attached.
 */
#ifndef CAISSON_PROCESS_H
#define CAISSON_PROCESS_H

#include "caisson/core.h"
#include "caisson/task.h"

#define PROCESS_ID_MAX 255 /* bytes of an id that clients choose */

/* In the records: never renumber. */
enum process_kind {
	PROCESS_EXEC = 1,
	PROCESS_SESSION = 2,
	PROCESS_PTY = 3,
	PROCESS_CONTEXT = 4, /* of the interpreter */
};

/* ---- ids, for areas of the core that start tasks by themselves ---- */

/*
 * Remember an id before its task is started; task is its id in the agent (a UUID, new for each
 * try). ERR_CONFLICT when the id is taken in this start or the sandbox was stopped meanwhile.
 */
int process_note(struct core *c, const char *sandbox, enum process_kind kind, const char *id,
		 const char *task, struct err *err);
/* The task of an id: 1 it belongs to the sandbox's current start, 0 unknown; ERR_GONE: an earlier
 * start's. ret_task may be NULL. sandbox is the id of one the caller may see, in any state. */
int process_check(struct core *c, const char *sandbox, enum process_kind kind, const char *id,
		  char ret_task[ID_LEN], struct err *err);
/* The id is free again. Nothing happens when it names another task by now. */
int process_forget(struct core *c, const char *sandbox, enum process_kind kind, const char *id,
		   const char *task, struct err *err);

#endif
