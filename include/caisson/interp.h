/*
 * interp.h - the code interpreter: Python contexts in a sandbox that keep their state.
 *
 * Calls as in core.h. A context is a task of the sandbox's agent (task.h), so it outlives the
 * daemon and ends with a stop; its id is kept as process.h says. Runs in one context queue in the
 * order they came. The default context (id NULL or "") is hidden, starts at its first run and
 * anew after its process has died; another that died says so until it is deleted: ERR_GONE. An
 * image without python3 is ERR_UNPROCESSABLE.
 */
#ifndef CAISSON_INTERP_H
#define CAISSON_INTERP_H

#include "caisson/core.h"

#define INTERP_CODE_MAX	    (8u << 20) /* bytes of one run's code */
#define INTERP_CONTEXTS_MAX 64	       /* of one sandbox */

struct interp_context {
	char id[ID_LEN];
	char cwd[1024];
	int64_t created_ms;
	bool active; /* its process lives */
};
/* cwd NULL: the working directory. */
int interp_create(struct core *c, const struct caller *who, const char *sandbox, const char *cwd,
		  struct interp_context *ret, struct err *err);
/* All but the default one, oldest first; free(). */
int interp_list(struct core *c, const struct caller *who, const char *sandbox,
		struct interp_context **ret, size_t *ret_n, struct err *err);
/* With all its processes. */
int interp_delete(struct core *c, const struct caller *who, const char *sandbox, const char *id,
		  struct err *err);
/* What runs in it gets a KeyboardInterrupt; nothing happens when nothing runs. */
int interp_interrupt(struct core *c, const struct caller *who, const char *sandbox, const char *id,
		     struct err *err);

/* ---- one run ---- */

struct interp_spec {
	const char *sandbox, *context;
	const char *code;
	const struct kv *env;	 /* for this run only; may be NULL */
	int64_t timeout_ms;	 /* of the run, not of its waiting; 0 none */
	bool (*gone)(void *arg); /* asked now and then while it waits; may be NULL */
	void *arg;
};
struct interp;
/* Blocks until the context is free, then the code runs. */
struct interp *interp_open(struct core *c, const struct caller *who, const struct interp_spec *spec,
			   struct err *err);
int interp_fd(const struct interp *i); /* poll it for reading, then interp_next; at least each
					  second */

enum interp_event_kind {
	INTERP_NONE,   /* nothing whole yet */
	INTERP_OUTPUT, /* bytes, characters may be cut anywhere */
	INTERP_LOST,   /* so many bytes were printed while nobody read */
	INTERP_ERROR,  /* the code raised */
	INTERP_END,
};
enum interp_end {
	INTERP_COMPLETED,
	INTERP_INTERRUPTED,
	INTERP_TIMED_OUT, /* interrupted, or killed when that did not help */
	INTERP_DIED,	  /* the context's process ended under the code */
};
struct interp_event {
	enum interp_event_kind kind;
	int stream;    /* 1 or 2 */
	const char *p; /* OUTPUT; valid until the next call */
	uint64_t n;
	struct {
		const char *p;
		size_t n;
	} name, text, traceback; /* ERROR; text also of INTERP_DIED */
	enum interp_end end;
};
int interp_next(struct interp *i, struct interp_event *ret, struct err *err);
/* The reader is there, though its client takes nothing; said at least every 50 s. */
void interp_alive(struct interp *i);
void interp_close(struct interp *i); /* before the end: the code runs on, unread */

#endif
