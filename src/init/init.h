/*
 * init.h - the parts of caisson-init, pid 1 of a sandbox.
 *
 * One thread runs the loop (loop.c): it accepts, reads frames, spawns, reaps. Nothing it does may
 * block. File verbs run on short-lived worker threads (job.c) under the caller's ids. The loop
 * owns every struct conn; a worker gets the descriptor of one and a copy of its request.
 *
 *   conn:  REQUEST --file verb--> JOB ------------------------------------> free
 *          REQUEST --PUT--------> JOB --> PUT --COMMIT--> JOB ------------> free
 *          REQUEST --SPAWN------> EXEC --exit--> (DRAIN) -----------------> free
 *          REQUEST --TERM-------> TERM --all gone or grace over-----------> free
 *          REQUEST --TASK_*-----> TASK --task.h says----------> (DRAIN) --> free
 *          REQUEST --other, fault: reply--> (DRAIN while it does not fit)-> free
 *
 * Memory is paid per sandbox: fixed tables live in .bss and are touched from the low end only,
 * heap is used while a request needs it.
 */
#ifndef CAISSON_INIT_INIT_H
#define CAISSON_INIT_INIT_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "base/err.h"
#include "wire/agent_msg.h"

/* ---- fixed descriptors, given by whoever starts us ---- */
#define INIT_FD_LISTEN 3
#define INIT_FD_STATUS 4
#define INIT_FD_CGROUP 5

/* ---- ceilings and deadlines ---- */
#define INIT_CONNS_MAX	   512
#define INIT_WORKERS_MAX   8
#define INIT_SEARCHES_MAX  4
#define INIT_WORKER_STACK  (512u << 10) /* address space; pages are paid when touched */
#define INIT_WORKER_IDLE_S 2
#define INIT_REQUEST_MS	   5000	 /* from accept to a whole request */
#define INIT_REPLY_MS	   20000 /* a reader that takes none of a reply for so long is dropped */
#define INIT_GRACE_MAX_MS  600000
#define INIT_GROUPS_MAX	   256
#define INIT_ETC_MAX	   (4u << 20) /* bytes read of /etc/passwd and /etc/group */
#define INIT_PIPE_SIZE	   (1 << 20)
#define INIT_OOM_ADJ	   "500" /* commands die of memory before we do */
/* As Docker's. */
#define INIT_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

/* ---- user.c: accounts of the image ---- */
struct user {
	uint32_t uid, gid;
	size_t ngroups; /* the primary group is the first */
	uint32_t groups[INIT_GROUPS_MAX];
	char name[AGENT_USER_MAX];
	char home[1024], shell[1024];
};
/*
 * Docker's forms, strictly: "" name uid name:group uid:gid. A name must exist, a number and root
 * need not. A numeric user is never taken for a name. ERR_INVALID otherwise.
 */
int user_find(const char *text, struct user *ret, struct err *err);
/* Owner and group of SETATTR: a name or a number; "" gives (uint32_t)-1, which chown leaves. */
int user_owner(const char *text, uint32_t *ret, struct err *err);
int user_group(const char *text, uint32_t *ret, struct err *err);
/* The calling thread takes the user's file ids and groups, and with them loses its capabilities
 * over files; user_leave gives them back. */
int user_enter(const struct user *u, struct err *err);
void user_leave(void);

/* ---- conn.c, loop.c ---- */
enum conn_state {
	CONN_FREE,
	CONN_REQUEST,
	CONN_JOB,
	CONN_PUT,
	CONN_EXEC,
	CONN_TERM,
	CONN_TASK,
	CONN_DRAIN
};

struct put; /* a file being written: put.c */

struct exec {
	pid_t pid;
	uint32_t seq; /* names its cgroup leaf and its marker */
	bool leaf;
	int master; /* of the terminal, or -1 */
};

struct conn {
	enum conn_state state;
	int fd;
	uint32_t events; /* epoll interest */
	uint8_t *in, *out;
	size_t in_len, in_cap, out_len, out_pos;
	int64_t deadline_ms; /* 0: none */
	int64_t term_end_ms; /* CONN_TERM: end of the grace */
	bool full;	     /* CONN_TASK: the socket took none of the last frame */
	struct task_op *op;  /* CONN_TASK */
	struct exec exec;
	struct put *put; /* CONN_PUT */
};

struct init {
	int epoll, signals, wake; /* wake: eventfd of finished jobs, made with the first */
	int oom;		  /* our own oom_score_adj, or -1 */
	char oom_own[8];	  /* its text */
	bool listening;
	size_t conns_high; /* slots ever used */
	struct conn conn[INIT_CONNS_MAX];
};

void loop_run(struct init *in);
enum loop_tag { LOOP_TAG_LISTEN, LOOP_TAG_SIGNAL, LOOP_TAG_WAKE, LOOP_TAG_CONN };
/* fresh: fd is not in the set yet. */
void loop_watch(struct init *in, int fd, uint64_t tag, uint32_t events, bool fresh);
uint64_t conn_tag(const struct init *in, const struct conn *c);

struct conn *conn_new(struct init *in, int fd); /* NULL when full; fd stays the caller's */
void conn_free(struct init *in, struct conn *c);
void conn_readable(struct init *in, struct conn *c);
void conn_writable(struct init *in, struct conn *c);
void conn_expired(struct init *in, struct conn *c);
/* Send one frame with descriptors; what does not fit is queued. last: free the conn after it.
 * -1 when the peer is gone or too slow (the caller decides; a last conn is freed). */
int conn_send(struct init *in, struct conn *c, uint16_t type, const void *payload, size_t len,
	      const int *fds, size_t nfds, bool last);
void conn_fail(struct init *in, struct conn *c, const struct err *err); /* ERR, then free */
/* Of CONN_TASK: one frame of head and body. 1 taken, 0 not now (task_op_resume follows), -1 gone.
 */
int conn_stream(struct init *in, struct conn *c, uint16_t type, const void *head, size_t nhead,
		const void *body, size_t nbody);
bool conn_full(const struct conn *c);

/* ---- request.c: what each verb does on the loop ---- */
void request_run(struct init *in, struct conn *c, uint16_t verb, void *payload, size_t len);
void request_term_check(struct init *in, struct conn *c);
/* Fill out with the ERR reply. */
void reply_err(struct wire_out *o, const struct err *err);

/* ---- note.c: the last failures, for the operator; fd is the daemon's connection ---- */
void note_failure(int fd, const struct err *err);
void note_request(struct init *in, struct conn *c);

/* ---- spawn.c, child.c, tty.c ---- */
#define SPAWN_SESSION (1u << 31) /* of ours: with SPAWN_SHELL, a shell that reads its program */
void spawn_run(struct init *in, struct conn *c, const struct agent_req *r);
int spawn_check(const struct agent_req *r, bool session, struct err *err);
const char *spawn_env(const struct agent_strv *env, const char *key);
/*
 * The process of r with further flags, born in a leaf of its own where that can be; fd as in
 * struct spawn, they stay the caller's. NULL on failure; the answers are good until the next call.
 */
const struct spawn *spawn_process(struct init *in, const struct agent_req *r, uint32_t flags,
				  const struct user *u, const int fd[3], struct exec *ret,
				  struct err *err);

enum spawn_step { STEP_NONE, STEP_TTY, STEP_IDS, STEP_CWD, STEP_SHELL, STEP_EXEC };

/* Shared between the loop and the child, which runs on our memory until it has exec'ed. */
struct spawn {
	const char *const *argv;
	const char **env;
	const char *path_env; /* PATH of env */
	const char *cwd;      /* "" for home */
	const struct user *user;
	uint32_t flags;
	int in, out, err; /* -1: keep 0 (/dev/null); a terminal has all three alike */
	int leaf;	  /* directory of the cgroup to be born in, or -1 */
	uint32_t seq;
	/* answers */
	bool in_leaf;
	enum spawn_step fail;
	int errnum;
	bool fell_back;
	/* The command without its shell (plain.c), or NULL. */
	const char **plain_argv, **plain_env;
	size_t plain_nenv;
	bool bash;	   /* the shell that was found */
	char pwd_key[4];   /* "PWD=" in front of at, as a variable of the command */
	char at[PATH_MAX]; /* working directory */
	char try_key[2];   /* the same with "_=" */
	char try[PATH_MAX];
};
/* Plain commands read across these borders. */
_Static_assert(offsetof(struct spawn, at) == offsetof(struct spawn, pwd_key) + 4, "PWD= and at");
_Static_assert(offsetof(struct spawn, try) == offsetof(struct spawn, try_key) + 2, "_= and try");
extern const char *const child_shells[]; /* in the order they are tried; NULL ends */

/* ---- plain.c ---- */
/* s->env is complete. Sets plain_argv when the request may do without a shell; the heap block the
 * words are in is the caller's, NULL when there is none. */
void *plain_build(struct spawn *s, const struct agent_req *r);
/* In the child, where the shell would be started: returns when a shell has to do it. */
void plain_exec(struct spawn *s);
/* On the child's stack, in our memory: raw calls, no locks, no heap. Does not return. */
_Noreturn void child_run(struct spawn *s);

#define TTY_COLS 80
#define TTY_ROWS 24
int tty_open(const struct user *u, uint16_t cols, uint16_t rows, int *ret_master, int *ret_slave,
	     struct err *err);
int tty_resize(int master, uint16_t cols, uint16_t rows);

/* ---- tree.c: all processes of one exec ---- */
/*
 * Where the kernel lets us, each exec is born in a cgroup v2 leaf of its own, and a kill is
 * cgroup.kill. Else the tree is found by a marker that children inherit and cannot shed upwards:
 * the hard limit of RLIMIT_LOCKS, which the kernel has not used since 2.4. See tree.c.
 */
int tree_make(uint32_t seq);  /* the leaf's directory; -1: none to be had, the marker has to do */
void tree_mark(uint32_t seq); /* in the child */
/*
 * Parts of a tree: a process may lower the last TREE_SUBS bits of its mark, and is with all that
 * it starts from then on a part of its own, which the mark names.
 */
#define TREE_SUBS    20
#define TREE_SUB_MAX ((1u << TREE_SUBS) - 1)
uint64_t tree_mark_of(uint32_t seq, uint32_t sub);
void tree_sub_signal(uint64_t mark, pid_t spare, int sig); /* all but spare */
bool tree_empty(const struct exec *e);
void tree_kill(const struct exec *e);
void tree_signal(const struct exec *e, int sig);
void tree_retire(const struct exec *e); /* remove the leaf now or when it empties */
void tree_sweep(void);			/* after orphans ended */

/* ---- reap.c ---- */
void reap_orphans(struct init *in); /* all that ended; reports the execs among them */
void reap_all(struct init *in);	    /* the same, and what waits for an empty sandbox */
uint32_t reap_survivors(void);	    /* processes but ourselves */
uint64_t timeval_us(const struct timeval *tv);

/* ---- job.c: workers ---- */
struct job {
	struct job *next;
	uint32_t conn; /* index */
	int fd;
	struct agent_req req;
	struct put *put; /* of a COMMIT; set by a PUT that succeeded, whose conn lives on */
	uint8_t payload[];
};
/* Takes the request over. -1 when no worker could be had. */
int job_start(struct init *in, struct conn *c, uint16_t verb, const void *payload, size_t len,
	      struct err *err);
void job_collect(struct init *in);
bool job_verb(uint16_t verb);
void job_drop(struct init *in, struct put *put); /* put_free, not on this thread */
/* For the verbs: send a frame on the job's connection, waiting for a slow reader. */
int job_send(struct job *j, uint16_t type, const struct wire_out *o, const int *fds, size_t nfds,
	     struct err *err);

/* ---- fsop.c, list.c: file verbs; each sends its own reply ---- */
int fsop_run(struct job *j, struct err *err);
int list_run(struct job *j, struct err *err);
/* One info of the protocol; link is read from the O_PATH descriptor or name below dirfd. */
void info_put(struct wire_out *o, const char *name, const char *path, const struct stat *st,
	      const char *link);

/* ---- netinfo.c: likewise ---- */
int ports_run(struct job *j, struct err *err);
int traffic_run(struct job *j, struct err *err);

#endif
