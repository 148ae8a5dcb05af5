/*
 * git_int.h - what the files of git share: running it, the checks of arguments, its texts.
 */
#ifndef CAISSON_CORE_GIT_INT_H
#define CAISSON_CORE_GIT_INT_H

#include "base/buf.h"
#include "caisson/git.h"

#define GIT_OUT_MAX    (64u << 20) /* of one command's standard output */
#define GIT_LOCAL_MS   600000	   /* without network */
#define GIT_NETWORK_MS 3600000	   /* clone, fetch, push */

/* ---- git_check.c: arguments; each names its field ---- */
int git_check_branch(const char *field, const char *name, struct err *err);
/* Anything git resolves to a commit, such as HEAD~2; only what could be an option is refused. */
int git_check_rev(const char *field, const char *rev, struct err *err);
int git_check_remote(const char *field, const char *name, struct err *err);
int git_check_hash(const char *field, const char *hash, struct err *err);
int git_check_files(const char *const *files, struct err *err);
int git_check_key(const char *key, struct err *err);
int git_check_scope(const char *scope, struct err *err);
/* No control characters: one line of a protocol of lines. */
int git_check_line(const char *field, const char *text, struct err *err);

/* ---- git_url.c ---- */
struct git_url {
	char *clean;	       /* without user and password where the scheme is http or https */
	char *user, *password; /* decoded; NULL where absent */
	char *scope;	       /* "https://host:port" to offer credentials to; NULL otherwise */
};
void git_url_done(struct git_url *u);
#define auto_git_url auto_call(git_url_done)
int git_url_split(const char *field, const char *url, struct git_url *ret, struct err *err);

/* ---- git_parse.c: what git prints, as untrusted bytes; text (heap, n bytes) is taken ---- */
int git_parse_status(char *text, size_t n, struct git_status *ret, struct err *err);
int git_parse_history(char *text, size_t n, struct git_history *ret, struct err *err);
int git_parse_branches(char *text, size_t n, struct git_branches *ret, struct err *err);
int git_parse_remotes(char *text, size_t n, struct git_remotes *ret, struct err *err);

/* ---- git_error.c ---- */
/* What git printed, as an error of the contract; secret (or NULL) doesn't come through. -1. */
int git_error_set(const char *verb, const char *errors, const char *output, const char *secret,
		  struct err *err);

/* ---- git_read.c ---- */
/* The branch HEAD is on, also one without commits; "" when detached. Heap. */
char *git_head_branch(const struct git_call *g, struct err *err);

/* ---- git_run.c ---- */
/* The call's path as an absolute one, heap. */
char *git_path(const struct git_call *g, struct err *err);

struct git_secret {
	const char *username, *password; /* password NULL: none */
	const char *scope;		 /* of struct git_url */
	bool insecure_tls;
};

struct git_cmd {
	const char *const *argv;  /* behind "git" and our options; NULL-terminated */
	const char *const *files; /* NULL, or put behind argv and "--" */
	const char *cwd;	  /* NULL: the call's path; "": the working directory */
	const struct kv *env;
	const struct git_secret *secret; /* NULL: none */
	const char *input;
	int64_t timeout_ms; /* 0: GIT_LOCAL_MS */
	bool plain;	    /* without configuration of ours */
};

struct git_out {
	struct buf out, err; /* err: the last of it */
	int code;	     /* exit code */
};
void git_out_done(struct git_out *o);
#define auto_git_out auto_call(git_out_done)

/* Run to the end: the exit code is in ret; -1 when there is none. */
int git_exec(const struct git_call *g, const struct git_cmd *cmd, struct git_out *ret,
	     struct err *err);
/* The same, and a failure of git's is an error. ret may be NULL. */
int git_run(const struct git_call *g, const struct git_cmd *cmd, struct git_out *ret,
	    struct err *err);
/* An exit of git's as an error. */
int git_failed(const struct git_cmd *cmd, const struct git_out *o, struct err *err);
/* The output without its line end, heap. */
char *git_out_line(struct git_out *o, struct err *err);

#endif
