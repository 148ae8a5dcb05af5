/*
 * task.h - the daemon's side of tasks: what runs on in a sandbox after its caller has gone.
 *
 * Calls as in agent.h: path is the agent's socket, replies are doubted, errors the agent reports
 * keep code and tag. The agent keeps record and output (rings of TASK_RING_MAX bytes a stream),
 * so a restarted daemon finds everything again. Errors of their own: an unknown id is
 * ERR_NOT_FOUND with the tag PROCESS_NOT_FOUND; a session or task that has ended takes neither
 * commands nor input: ERR_GONE with SESSION_ENDED or COMMAND_ALREADY_COMPLETED.
 */
#ifndef CAISSON_TASK_H
#define CAISSON_TASK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "caisson/agent.h"

struct task_info {
	char id[TASK_ID_MAX + 1], parent[TASK_ID_MAX + 1];
	char *label; /* heap; task_info_done */
	enum task_kind kind;
	enum task_state state;
	enum task_cause cause; /* once ended */
	bool signaled;
	uint32_t code; /* exit code or signal, once ended */
	uint32_t pid, uid, gid;
	char cwd[AGENT_PATH_MAX];
	uint16_t cols, rows;
	int64_t created_ms, started_ms, ended_ms; /* wall clock; 0 not yet */
	uint64_t out_first, out_total, err_first, err_total;
	uint64_t user_us, sys_us, maxrss_kib;
};
void task_info_done(struct task_info *t);
#define auto_task auto_call(task_info_done)

struct task_spec {
	const char *id, *label; /* label may be NULL */
	enum task_kind kind;	/* TASK_COMMAND goes through agent_task_exec */
	uint32_t tflags;	/* enum task_flag */
	int64_t timeout_ms; /* 0 none: then the tree is killed and the cause is TASK_TIMED_OUT */
	struct agent_spawn spawn; /* of a session only env, cwd and user count */
};
/* *ret_existed: the id was known, nothing was started. ret may be NULL. */
int agent_task_start(const char *path, const struct task_spec *s, struct task_info *ret,
		     bool *ret_existed, struct err *err);
/* Queue text in a session; commands run one after another, each a task of kind TASK_COMMAND. */
int agent_task_exec(const char *path, const char *session, const char *id, const char *text,
		    uint32_t tflags, int64_t timeout_ms, struct task_info *ret, struct err *err);
int agent_task_get(const char *path, const char *id, struct task_info *ret, struct err *err);
/* fn per task (borrowed); kind 0 and parent NULL: any. Returning -1 stops. */
typedef int (*task_fn)(void *arg, const struct task_info *t, struct err *err);
int agent_task_list(const char *path, enum task_kind kind, const char *parent, task_fn fn,
		    void *arg, struct err *err);
/* Blocks until the task took the bytes (back-pressure), deadline_ms or the client's hang-up. */
int agent_task_write(const char *path, const char *id, const void *p, size_t n, bool eof,
		     int client, int64_t deadline_ms, uint64_t *ret_written, struct err *err);
int agent_task_signal(const char *path, const char *id, int sig, bool tree, struct err *err);
int agent_task_resize(const char *path, const char *id, uint16_t cols, uint16_t rows,
		      struct task_info *ret, struct err *err);
int agent_task_kill(const char *path, const char *id, uint32_t grace_ms, struct task_info *ret,
		    struct err *err);
int agent_task_remove(const char *path, const char *id, struct err *err);
/* Of TASK_PIPES: its standard input and output; close them at will, the task lives on. */
int agent_task_attach(const char *path, const char *id, int *ret_in, int *ret_out, struct err *err);

/* ---- reading the log ---- */

#define TASK_OUT  (1u << 1)  /* stream 1; of a terminal everything */
#define TASK_ERR  (1u << 2)  /* stream 2 */
#define TASK_TAIL UINT64_MAX /* offset: only what comes from now on */

struct task_reader;
enum task_read { TASK_READ_NONE, TASK_READ_DATA, TASK_READ_GAP, TASK_READ_END };
struct task_chunk {
	int stream;	  /* 1 or 2 */
	uint64_t offset;  /* of p[0], or of the first dropped byte */
	const uint8_t *p; /* valid until the next call */
	uint64_t n;	  /* bytes, or dropped ones */
};
/*
 * Chunks come in the order the output was read inside, both streams mixed. follow: until the task
 * has ended and its output is drained; else what is there now. A reader that does not read slows
 * neither the task nor other readers; what the ring loses meanwhile it is told as a gap.
 */
struct task_reader *task_reader_open(const char *path, const char *id, uint32_t streams,
				     uint64_t out_from, uint64_t err_from, bool follow,
				     struct err *err);
int task_reader_fd(const struct task_reader *r); /* poll it for reading */
/*
 * TASK_READ_NONE when nothing whole came until deadline_ms (0: do not wait); TASK_READ_END fills
 * end (may be NULL) with the record as of the last byte. client's hang-up: ERR_CANCELLED.
 */
int task_reader_next(struct task_reader *r, struct task_chunk *ret, struct task_info *end,
		     int client, int64_t deadline_ms, struct err *err);
void task_reader_close(struct task_reader *r);

#endif
