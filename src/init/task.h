/*
 * task.h - the tasks of caisson-init: processes that outlive the connection that asked for them.
 *
 *   QUEUED --its turn in the session--> RUNNING --process ended, output drained--> ENDED
 *   QUEUED --session ended, killed----------------------------------------------> ENDED
 *
 * The loop owns all of it. A task is known by its id until it is removed, until a day has passed
 * since its end and the last of its streams, or until the table is full and it is the oldest that
 * has ended. Connections that wait for a task (readers, writers, killers) carry a struct task_op,
 * which ends with either of them.
 */
#ifndef CAISSON_INIT_TASK_H
#define CAISSON_INIT_TASK_H

#include "init/init.h"
#include "init/ring.h"
#include "wire/task_msg.h"

/* ---- ceilings and deadlines ---- */
#define TASKS_MAX	 1024
#define TASK_STEP_MAX	 65536	      /* bytes read of one stream before others get their turn */
#define TASK_DRAIN_MAX	 (1u << 20)   /* more than a pipe or terminal can have held at the end */
#define TASK_FRAME_MAX	 (32u << 10)  /* the socket takes it whole or not at all */
#define TASK_STATUS_MS	 1000	      /* for a session to go on after its command was killed */
#define TASK_CLOSE_MS	 1000	      /* between TERM and KILL when a session is removed */
#define TASK_POLL_MS	 20	      /* for the rest of a tree that is being killed */
#define TASK_OPEN_MS	 10	      /* for the shell to open an input that is to end */
#define TASK_TIMEOUT_MAX (1ull << 50) /* ms; beyond is none */
#define TASK_MEMORY_MS	 10000	      /* the memory limit is asked again */
#define TASK_REPLY_MAX	 (12u << 10)  /* a record and what goes with it */
#define TASK_HOLD_SHARE	 8	      /* of the logs: input and commands that wait */
#define TASK_HOLD_MIN	 (2u << 20)   /* but no less than this */
#define TASK_LOGS_SHARE	 8	      /* of the memory limit: logs have at most this part */

/* Of a session: its program and its status. */
enum task_fd { TASK_FD_IN, TASK_FD_OUT, TASK_FD_ERR };

struct session;
struct task_op;

#define LOOP_TAG_TASK (1ull << 32)

struct task {
	struct task *prev, *next; /* in the order of their making */
	uint64_t seq;		  /* of the same */
	uint32_t slot;
	char *id, *parent, *label, *cwd;
	uint32_t kind, tflags, uid, gid;
	uint8_t state, how, cause;
	bool removed;  /* no longer found; freed when its tree is dead */
	bool killing;  /* TERM was sent, or KILL at killed_at */
	bool eof;      /* input ends after the writes that wait */
	uint8_t why;   /* enum task_cause + 1 of a kill before the end, or 0 */
	uint32_t code; /* once ended */
	uint32_t pid;
	uint16_t cols, rows;
	int64_t created_ms, started_ms, ended_ms; /* wall */
	uint64_t user_us, sys_us, maxrss_kib;
	/* monotonic, 0: none */
	int64_t timeout_at, kill_at, killed_at, poll_at, eof_at, forget_at;
	struct exec exec;   /* of a command: of no process */
	int fd[3];	    /* ours: input, output, errors; a terminal's master is the output */
	uint32_t events[3]; /* epoll interest */
	struct ring ring[2];
	uint64_t final[2];	 /* totals when it ended: those who follow leave there */
	struct task_op *write;	 /* those that wait with input, oldest first */
	struct session *session; /* of TASK_SESSION */
	/* of TASK_COMMAND */
	struct task *shell;  /* its session; NULL once that is gone */
	struct task *queued; /* the next in the queue */
	char *program;	     /* until its turn */
	size_t held;	     /* of the ceiling, for it */
	int64_t timeout_ms;
	uint32_t serial; /* names its FIFOs and its mark */
	int hold;	 /* a reading end of its input, until the shell has one */
};

/* ---- task.c: the table ---- */
struct task *task_new(struct init *in, const char *id, const char *parent, const char *label,
		      struct err *err);
struct task *task_find(const char *id); /* NULL; not those being removed */
struct task *task_first(void);
struct task *task_by_tag(uint64_t tag, enum task_fd *ret_which);
uint64_t task_tag(const struct task *t, enum task_fd which);
bool task_id_taken(const char *id); /* by one that is being removed, too */
void task_free(struct init *in, struct task *t);
void task_rec(const struct task *t, struct task_rec *ret);
int task_reply(struct init *in, struct conn *c, const struct task *t, int existed, const int *fds,
	       size_t nfds);
/* ERR_NOT_FOUND, ERR_GONE with the protocol's tags. */
int task_unknown(const char *id, struct err *err);
int task_over(const struct task *t, struct err *err);
int64_t tasks_due(void); /* the nearest deadline, 0: none */
void tasks_expire(struct init *in);
void task_due(int64_t at_ms); /* a deadline was set */
/* Account for bytes held until a task takes them; false over the ceiling. */
bool task_hold(size_t n);
void task_release(size_t n);

/* ---- task_start.c ---- */
void task_start_run(struct init *in, struct conn *c, const struct agent_req *r);
int task_began(struct task *t, const struct spawn *s, struct err *err);

/* ---- task_io.c: streams ---- */
void task_event(struct init *in, uint64_t tag);
void task_watch(struct init *in, struct task *t, enum task_fd which, uint32_t events);
void task_close(struct init *in, struct task *t, enum task_fd which);
void task_drain(struct init *in, struct task *t); /* what was there when its process ended */
void task_log(struct task *t, size_t stream, const uint8_t *p, size_t n);
void task_input(struct init *in, struct task *t); /* move waiting writes */
bool task_streams_open(const struct task *t);
void task_discard(struct task *t); /* all it has written */
size_t task_logs_ceiling(void);	   /* bytes of all rings */

/* ---- task_end.c: signals, kills, ends ---- */
bool task_exited(struct init *in, pid_t pid, int status, const struct rusage *ru);
void task_keep(struct task *t); /* for a day, once its streams have ended, too */
void task_ended(struct init *in, struct task *t, uint8_t how, uint32_t code, uint8_t cause);
/* These two may free the task at once. */
void task_kill(struct init *in, struct task *t, int64_t grace_ms, uint8_t why);
void task_remove(struct init *in, struct task *t);
void task_timers(struct init *in, struct task *t, int64_t now);
void task_signal(const struct task *t, int sig, bool tree);
void tasks_stopping(void); /* TERM is on its way to all */

/* ---- task_ops.c: connections that wait ---- */
void task_request(struct init *in, struct conn *c, const struct agent_req *r);
bool task_verb(uint16_t verb);
void task_op_resume(struct init *in, struct conn *c); /* its socket takes more */
void task_op_free(struct conn *c);
void task_ops_wake(struct init *in, const struct task *t); /* new output, an end */
void task_ops_dead(struct init *in, const struct task *t); /* its tree is */
void task_ops_gone(struct init *in, const struct task *t); /* it is about to be freed */
void task_writes_fail(struct init *in, struct task *t, const struct err *err);

/* ---- session.c: shells and their queue ---- */
int session_open(struct init *in, struct task *t, const struct agent_req *r, const struct user *u,
		 struct err *err);
void session_exec(struct init *in, struct conn *c, const struct agent_req *r);
void session_event(struct init *in, struct task *t, enum task_fd which);
void session_ended(struct init *in, struct task *t, int status);
void session_close(struct task *t);		      /* nothing of the queue runs any more */
void session_forget(struct init *in, struct task *t); /* frees its commands */
void session_drop(struct task *t);		      /* a command leaves queue or turn */
void session_free(struct task *t);
bool session_speaks(const struct task *t); /* a process it left behind may still write */

/* ---- command.c: one command of a session ---- */
int command_begin(struct init *in, struct task *t, struct err *err);
void command_finish(struct task *t); /* its FIFOs are of no more use */
void command_forget(struct task *t);
/* Its line for the shell, made when it is queued. */
int command_prepare(struct task *t, const char *what, struct err *err);
void command_program_drop(struct task *t);	    /* it will not run */
void command_signal(const struct task *t, int sig); /* its processes, never the shell */
void command_kill(struct task *t);   /* again and again; after TASK_STATUS_MS the shell as well */
bool command_opened(struct task *t); /* has the shell opened its input? */

#endif
