/*
 * git.h - repositories in a sandbox: the image's git, run as the sandbox's user.
 *
 * Every call runs git with an argument list, never through a shell, without terminal, prompt,
 * editor or background maintenance, and with ceilings on what git may map and cache, so that a
 * repository larger than the sandbox's memory works. Arguments can't become options.
 *
 * Credentials of a call live in the environment of that call's processes and nowhere else: not on
 * a command line, in a configuration or a stored URL, nor in texts of errors. They are offered to
 * the remote's own host only, hooks don't run beside them, and stored helpers don't learn them.
 *
 * Errors carry the tags of the contract (GIT_AUTH_FAILED, GIT_REPO_NOT_FOUND, …). ERR_INVALID
 * names the field. All calls block; client (a socket or -1) ends them by its hang-up.
 */
#ifndef CAISSON_GIT_H
#define CAISSON_GIT_H

#include "caisson/core.h"

#define GIT_URL_MAX	4096 /* bytes with the NUL, as are all of these */
#define GIT_NAME_MAX	256  /* of a branch, remote or revision */
#define GIT_SECRET_MAX	4096
#define GIT_HASH_MAX	72
#define GIT_HISTORY_MAX 10000

/* Where a call works. path: relative ones start at the working directory. */
struct git_call {
	struct core *core;
	const struct caller *who;
	const char *sandbox; /* id or name */
	const char *path;
	int client;
};

/* NULL or "" where absent; only http and https remotes use them. */
struct git_auth {
	const char *username, *password;
};

struct git_clone_spec {
	const char *url; /* user and password in it count when auth has none; they aren't stored */
	const char *branch, *commit; /* NULL: the remote's HEAD; commit: 4 to 64 hex digits */
	struct git_auth auth;
	bool insecure_tls; /* for this call only */
	int64_t depth;	   /* 0: whole history */
};
/* A clone that fails leaves nothing of what it made. */
int git_clone(const struct git_call *g, const struct git_clone_spec *s, struct err *err);

struct git_pull_spec {
	const char *remote, *branch; /* NULL: the upstream of the current branch, else origin */
	struct git_auth auth;
};
/* Fetch, then merge (fast-forward where possible). A conflict is left in the tree to be solved. */
int git_pull(const struct git_call *g, const struct git_pull_spec *s, struct err *err);

struct git_push_spec {
	const char *remote, *branch; /* NULL: the branch's remote or origin; the current branch */
	struct git_auth auth;
	bool set_upstream;
};
int git_push(const struct git_call *g, const struct git_push_spec *s, struct err *err);

/* ---- what is there ---- */

enum git_file_state {
	GIT_UNMODIFIED,
	GIT_UNTRACKED,
	GIT_MODIFIED,
	GIT_ADDED,
	GIT_DELETED,
	GIT_RENAMED,
	GIT_COPIED,
	GIT_UNMERGED,
};
struct git_file {
	const char *name, *extra; /* extra: the old name of a renamed or copied one, else "" */
	enum git_file_state staging, worktree;
};
struct git_status {
	const char *branch;	  /* "HEAD" when detached */
	const char *upstream;	  /* "origin/main", "" none */
	bool detached, published; /* published: the upstream exists as a tracking branch */
	int64_t ahead, behind;
	struct git_file *file;
	size_t n;
	char *text; /* holds all strings */
};
void git_status_done(struct git_status *s);
int git_status(const struct git_call *g, struct git_status *ret, struct err *err);

struct git_commit {
	const char *hash, *author, *email, *time, *message; /* time: RFC 3339 */
};
struct git_history {
	struct git_commit *commit;
	size_t n;
	bool more; /* the limit cut it */
	char *text;
};
void git_history_done(struct git_history *h);
int git_history(const struct git_call *g, int64_t skip, int64_t limit, struct git_history *ret,
		struct err *err); /* limit 1..GIT_HISTORY_MAX */

struct git_branches {
	const char **name;
	size_t n;
	const char *current; /* "" when detached; also of a branch without commits */
	char *text, *head;
};
void git_branches_done(struct git_branches *b);
int git_branches(const struct git_call *g, struct git_branches *ret, struct err *err);

struct git_remote {
	const char *name, *url;
};
struct git_remotes {
	struct git_remote *remote;
	size_t n;
	char *text;
};
void git_remotes_done(struct git_remotes *r);
int git_remotes(const struct git_call *g, struct git_remotes *ret, struct err *err);

/* ---- changes ---- */

int git_init(const struct git_call *g, bool bare, const char *branch, struct err *err);
/* Names as git_status gives them, folders, or "." for all; patterns aren't expanded. */
int git_add(const struct git_call *g, const char *const *files, struct err *err);

struct git_commit_spec {
	const char *message, *author, *email;
	bool allow_empty;
};
int git_commit(const struct git_call *g, const struct git_commit_spec *s,
	       char ret_hash[GIT_HASH_MAX], struct err *err);
/* Create a branch at HEAD and switch to it. */
int git_branch_create(const struct git_call *g, const char *name, struct err *err);
int git_branch_delete(const struct git_call *g, const char *name, struct err *err);
/* To a branch, a remote's branch of that name, a tag or a commit. */
int git_checkout(const struct git_call *g, const char *branch, struct err *err);

struct git_reset_spec {
	const char *mode, *target; /* soft, mixed, hard, merge or keep; NULL: mixed, HEAD */
	const char *const *files;  /* NULL: the whole tree; else mode must be NULL or mixed */
};
int git_reset(const struct git_call *g, const struct git_reset_spec *s, struct err *err);

struct git_restore_spec {
	const char *const *files;
	const char *source;    /* NULL: the index, or HEAD for the index */
	bool staged, worktree; /* neither: worktree */
};
int git_restore(const struct git_call *g, const struct git_restore_spec *s, struct err *err);

struct git_remote_spec {
	const char *name, *url; /* a URL with a password is refused: it would be stored */
	bool fetch, overwrite;
};
int git_remote_add(const struct git_call *g, const struct git_remote_spec *s, struct err *err);

/* scope: "global", "local" (needs path) or "system"; NULL: global to set, all of them to get. */
int git_config_set(const struct git_call *g, const char *scope, const char *key, const char *value,
		   struct err *err);
/* *ret: heap, NULL when the key isn't set. */
int git_config_get(const struct git_call *g, const char *scope, const char *key, char **ret,
		   struct err *err);
int git_config_user(const struct git_call *g, const char *scope, const char *name,
		    const char *email, struct err *err);

struct git_login {
	const char *protocol, *host, *username, *password; /* NULL: https, github.com */
};
/* Store credentials in plain text in the home directory, as the contract has it. */
int git_login(const struct git_call *g, const struct git_login *l, struct err *err);

#endif
