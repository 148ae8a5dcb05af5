/*
 * agent.h - the daemon's side of caisson-init: one connection per call, every reply doubted.
 *
 * path is the agent's socket (runner_ops.agent_path). The agent is hostile: sizes, kinds and
 * times are checked, descriptors are fstat'ed (pipe, terminal or regular file as expected), made
 * non-blocking and CLOEXEC. A protocol fault is ERR_AGENT; errors the agent reports keep their
 * code, errno and one of the known tags. client (or -1) is the HTTP client's socket: its hang-up
 * ends waiting with ERR_CANCELLED. Thread-safe: nothing is shared between calls.
 */
#ifndef CAISSON_AGENT_H
#define CAISSON_AGENT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "wire/agent_proto.h"

#define AGENT_CALL_MS  30000 /* one file operation */
#define AGENT_PATH_MAX 4096

struct agent_info {
	char *name, *path, *link; /* heap; agent_info_done */
	char type;		  /* 'f' 'd' 'l' 'p' 's' 'c' 'b' */
	uint32_t mode, uid, gid;
	uint64_t size;
	int64_t mtime_ns;
};
void agent_info_done(struct agent_info *i);

/* HELLO under a deadline: the sandbox is ready. */
int agent_hello(const char *path, int64_t deadline_ms, struct err *err);

struct agent_spawn {
	const char *const *argv; /* NULL-terminated; with SPAWN_SHELL argv[0] is the text */
	const char *const *env;	 /* "K=V", NULL-terminated, or NULL */
	const char *cwd;	 /* NULL: home of the user */
	const char *user;
	uint32_t flags; /* enum agent_spawn_flag */
	uint16_t cols, rows;
};

struct agent_proc {
	int conn;	  /* the control connection; closing it before exit kills the tree */
	int in, out, err; /* -1 where absent; with a tty in == out is the master (one fd: out) */
	uint32_t pid, uid, gid; /* inside the sandbox */
	char cwd[AGENT_PATH_MAX];
	bool cwd_fell_back;
};
#define AGENT_PROC_INIT                                                                            \
	{                                                                                          \
		.conn = -1, .in = -1, .out = -1, .err = -1                                         \
	}
void agent_proc_done(struct agent_proc *p);

struct agent_exit {
	bool signaled;
	uint32_t code; /* exit code, or the signal's number */
	uint64_t user_us, sys_us, maxrss_kib;
};

int agent_spawn(const char *path, const struct agent_spawn *s, struct agent_proc *ret,
		int64_t deadline_ms, struct err *err);
/* After p->conn polls readable: 1 with *ret filled, 0 for nothing whole yet, -1 on error. */
int agent_proc_exit(struct agent_proc *p, struct agent_exit *ret, struct err *err);
int agent_proc_signal(struct agent_proc *p, int sig, bool tree, struct err *err);
int agent_proc_resize(struct agent_proc *p, uint16_t cols, uint16_t rows, struct err *err);
int agent_proc_kill(struct agent_proc *p, struct err *err); /* the whole tree */

int agent_stat(const char *path, const char *user, const char *file, bool follow,
	       struct agent_info *ret, struct err *err);
/* fn is called per entry (info borrowed); returning -1 stops. *ret_more: the ceiling was hit. */
typedef int (*agent_list_fn)(void *arg, const struct agent_info *i, struct err *err);
int agent_list(const char *path, const char *user, const char *dir, uint32_t depth, uint32_t max,
	       agent_list_fn fn, void *arg, bool *ret_more, struct err *err);
/* Returns a descriptor of a regular file. flags: enum agent_open_flag. ret may be NULL. */
int agent_open(const char *path, const char *user, const char *file, uint32_t flags, mode_t mode,
	       struct agent_info *ret, struct err *err);
int agent_mkdir(const char *path, const char *user, const char *dir, mode_t mode, bool parents,
		struct err *err);
int agent_rename(const char *path, const char *user, const char *from, const char *to,
		 struct err *err);
int agent_remove(const char *path, const char *user, const char *file, bool recursive,
		 struct err *err);
int agent_setattr(const char *path, const char *user, const char *file, const mode_t *mode,
		  const char *owner, const char *group, struct err *err);

/*
 * Lines that hold pattern, in the file or below the directory; binary files are left out. fn as
 * for agent_list. *ret_more: the ceiling of max, of time or of depth was hit.
 */
struct agent_match {
	const char *path, *text; /* text without its newline, any bytes but NUL */
	uint32_t line;		 /* from 1 */
	bool cut;		 /* text is not the whole line */
};
typedef int (*agent_match_fn)(void *arg, const struct agent_match *m, struct err *err);
int agent_find(const char *path, const char *user, const char *file, const char *pattern,
	       uint32_t max, int client, agent_match_fn fn, void *arg, bool *ret_more,
	       struct err *err);
/* Paths below the directory whose last name fits the shell pattern. */
typedef int (*agent_name_fn)(void *arg, const char *file, struct err *err);
int agent_search(const char *path, const char *user, const char *dir, const char *pattern,
		 uint32_t max, int client, agent_name_fn fn, void *arg, bool *ret_more,
		 struct err *err);

/*
 * A file being written: nobody sees it until agent_put_commit, and agent_put_done before that
 * leaves nothing behind. fd is regular, empty, open for reading and writing.
 */
struct agent_put {
	int conn, fd;
	bool existed; /* there is a file to be replaced */
};
#define AGENT_PUT_INIT                                                                             \
	{                                                                                          \
		.conn = -1, .fd = -1                                                               \
	}
/* flags: enum agent_put_flag; mode: of a new file. */
int agent_put(const char *path, const char *user, const char *file, uint32_t flags, mode_t mode,
	      struct agent_put *ret, struct err *err);
/*
 * mtime_ns NULL: now. *ret_atomic false: the file could not be replaced and was written in place.
 * Ends p in any case.
 */
int agent_put_commit(struct agent_put *p, const int64_t *mtime_ns, bool *ret_atomic,
		     struct err *err);
void agent_put_done(struct agent_put *p);
/* A symlink to the text target, or a hard link to the file target; replaces a file at name. */
int agent_link(const char *path, const char *user, const char *target, const char *name, bool hard,
	       struct err *err);

struct agent_event {
	uint8_t kind; /* enum agent_event_kind */
	bool dir;
	const char *path, *from; /* from: "" unless kind is CREATE by a rename seen */
};
typedef int (*agent_event_fn)(void *arg, const struct agent_event *e, struct err *err);
/* Returns a descriptor to wait for and to close: events below the place, from now on. */
int agent_watch(const char *path, const char *user, const char *file, bool recursive,
		struct err *err);
/* Give fn what came by the deadline: 1 something did, 0 nothing, -1; *ret_over: the place is gone
 * and nothing more will come. */
int agent_watch_next(int watch, int client, int64_t deadline_ms, agent_event_fn fn, void *arg,
		     bool *ret_over, struct err *err);

struct agent_user {
	uint32_t uid, gid;
	char name[AGENT_USER_MAX], home[AGENT_PATH_MAX], shell[AGENT_PATH_MAX];
};
int agent_user(const char *path, const char *user, struct agent_user *ret, struct err *err);
int agent_statfs(const char *path, const char *dir, uint64_t *ret_total, uint64_t *ret_used,
		 uint64_t *ret_avail, struct err *err);
/* One failure that the agent told the daemon; all of it is the agent's word. */
struct agent_note {
	int64_t at_ms;	  /* wall; 0: it didn't say */
	char request[24]; /* request id, "" unknown */
	char text[200];
};
/* The last ones, oldest first. free() *ret. */
int agent_notes(const char *path, struct agent_note **ret, size_t *ret_n, struct err *err);

/* Listening TCP ports, ascending: *ret_n in *ret, to be free()d. */
int agent_ports(const char *path, uint16_t **ret, size_t *ret_n, struct err *err);
struct agent_traffic {
	uint64_t rx_bytes, rx_packets, tx_bytes, tx_packets; /* since start, but loopback's */
};
int agent_traffic(const char *path, struct agent_traffic *ret, struct err *err);
/* TERM to everything inside, wait at most grace_ms. Returns survivors. */
int agent_term(const char *path, uint32_t grace_ms, struct err *err);

#endif
