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

/* One process: of a session, command names one of its commands (else NULL: its shell). */
struct process_ref {
	const char *sandbox; /* id or name */
	enum process_kind kind;
	const char *id, *command;
};
int process_get(struct core *c, const struct caller *who, const struct process_ref *ref,
		struct task_info *ret, struct err *err);
/* Blocks until the process took the bytes, deadline_ms or the client's hang-up. */
int process_write(struct core *c, const struct caller *who, const struct process_ref *ref,
		  const void *p, size_t n, bool eof, int client, int64_t deadline_ms,
		  struct err *err);
int process_signal(struct core *c, const struct caller *who, const struct process_ref *ref, int sig,
		   bool tree, struct err *err);
int process_resize(struct core *c, const struct caller *who, const struct process_ref *ref,
		   unsigned cols, unsigned rows, struct task_info *ret, struct err *err);
/* TERM, at most grace_ms, KILL, all of its tree; answers when it has ended. */
int process_kill(struct core *c, const struct caller *who, const struct process_ref *ref,
		 unsigned grace_ms, struct task_info *ret, struct err *err);
/* How an ended one ended: causes as of a command, memory exhaustion included. */
int process_result(struct core *c, const char *sandbox, const struct task_info *t,
		   struct exec_result *ret, struct err *err);

/* ---- output ---- */

struct process_from {
	uint32_t streams;  /* TASK_OUT | TASK_ERR */
	uint64_t out, err; /* offsets to begin at, TASK_TAIL */
	bool follow;	   /* until it has ended, else what is there */
};
/* While it is open the sandbox is active. One thread reads; the other calls are for any thread. */
struct process_log;
struct process_log *process_log_open(struct core *c, const struct caller *who,
				     const struct process_ref *ref, const struct process_from *from,
				     struct err *err);
/* As task_reader_next; an end by a stop of the sandbox is ERR_GONE with SANDBOX_STOPPED. */
int process_log_next(struct process_log *l, struct task_chunk *ret, struct task_info *end,
		     int client, int64_t deadline_ms, struct err *err);
int process_log_fd(const struct process_log *l); /* poll it for reading */
/* How the process stood when the log was opened. */
const struct task_info *process_log_info(const struct process_log *l);
/* Offset its output begins at: what was asked, and what is kept of it. */
uint64_t process_log_begin(const struct process_log *l);
int process_log_write(struct process_log *l, const void *p, size_t n, bool eof, int client,
		      int64_t deadline_ms, struct err *err);
int process_log_result(struct process_log *l, const struct task_info *end, struct exec_result *ret,
		       struct err *err);
void process_log_stop(struct process_log *l); /* the reading thread's next call ends */
void process_log_close(struct process_log *l);

/* ---- sessions ---- */

#define SESSION_ENTRYPOINT "entrypoint" /* what every sandbox has, and nobody makes */

int session_create(struct core *c, const struct caller *who, const char *sandbox, const char *id,
		   struct err *err);
int session_delete(struct core *c, const struct caller *who, const char *sandbox, const char *id,
		   struct err *err);

struct session_view {
	char id[PROCESS_ID_MAX + 1];
	struct task_info *cmd; /* oldest first */
	size_t n;
};
void session_views_free(struct session_view *v, size_t n);
/* id NULL: all. free by session_views_free. */
int session_list(struct core *c, const struct caller *who, const char *sandbox, const char *id,
		 struct session_view **ret, size_t *ret_n, struct err *err);

struct session_exec {
	const char *text;
	bool input;	    /* it may be written to; else its input is at the end */
	bool echo;	    /* what is written is in its log too */
	int64_t timeout_ms; /* 0 none */
};
/* Queue a command; it runs when those before it have ended. */
int session_exec(struct core *c, const struct caller *who, const char *sandbox, const char *id,
		 const struct session_exec *x, struct task_info *ret, struct err *err);
/* The same, and its output from the first byte to its end. */
struct process_log *session_run(struct core *c, const struct caller *who, const char *sandbox,
				const char *id, const struct session_exec *x, struct err *err);

/* ---- terminals ---- */

struct pty_spec {
	const char *id;
	const char *cwd; /* NULL: working directory */
	const struct kv *env;
	unsigned cols, rows;
	bool lazy; /* the shell begins with the first client */
};
struct pty_info {
	char id[PROCESS_ID_MAX + 1];
	char cwd[AGENT_PATH_MAX];
	struct kv env;
	unsigned cols, rows;
	int64_t created_ms;
	bool active, lazy;
};
void pty_info_done(struct pty_info *p);
#define auto_pty auto_call(pty_info_done)

int pty_create(struct core *c, const struct caller *who, const char *sandbox,
	       const struct pty_spec *s, struct err *err);
/* Terminals whose shell has ended are not found. */
int pty_get(struct core *c, const struct caller *who, const char *sandbox, const char *id,
	    struct pty_info *ret, struct err *err);
typedef int (*pty_fn)(void *arg, const struct pty_info *p, struct err *err);
int pty_list(struct core *c, const struct caller *who, const char *sandbox, pty_fn fn, void *arg,
	     struct err *err);
int pty_resize(struct core *c, const struct caller *who, const char *sandbox, const char *id,
	       unsigned cols, unsigned rows, struct pty_info *ret, struct err *err);
int pty_kill(struct core *c, const struct caller *who, const char *sandbox, const char *id,
	     struct err *err);
/* Its output from offset on (TASK_TAIL: from now); a lazy one's shell begins. */
struct process_log *pty_attach(struct core *c, const struct caller *who, const char *sandbox,
			       const char *id, uint64_t offset, struct err *err);

/* ---- execs that run on without their caller ---- */

struct exec_key {
	const char *key; /* NULL: none */
	uint8_t digest[32];
};
struct exec_detached {
	char id[ID_LEN];
	bool existed; /* the key was known: nothing was started */
	bool lost;    /* the key was known, and the sandbox stopped since: info is empty */
	struct task_info info;
};
void exec_detached_done(struct exec_detached *d);
#define auto_detached auto_call(exec_detached_done)
/*
 * Start spec detached (merge, input and input_len are not taken; want_stdin: it may be written
 * to). With a key the first call starts it and others of the same body find it again, also over a
 * crash of this process; another body is ERR_CONFLICT, a deleted exec ERR_GONE.
 */
int exec_detach(struct core *c, const struct caller *who, const struct exec_spec *spec,
		bool want_stdin, const struct exec_key *key, struct exec_detached *ret,
		struct err *err);
int exec_list(struct core *c, const struct caller *who, const char *sandbox, task_fn fn, void *arg,
	      struct err *err);
/* Killed when it runs; its id and output are forgotten. */
int exec_remove(struct core *c, const struct caller *who, const char *sandbox, const char *id,
		struct err *err);
/* Nobody is attached any more: an exec of exec_open ends after grace_ms, unless it does so by
 * itself. Takes h. */
void exec_linger(struct exec_handle *h, unsigned grace_ms);

/* ---- ids, for areas of the core that start tasks by themselves ---- */

/* The id is free again. Nothing happens when it names another task by now. */
int process_forget(struct core *c, const char *sandbox, enum process_kind kind, const char *id,
		   const char *task, struct err *err);

#endif
