/*
 * git.h - what the two files of git routes share.
 */
#ifndef CAISSON_API_DAYTONA_GIT_H
#define CAISSON_API_DAYTONA_GIT_H

#include "api/daytona/toolbox.h"
#include "caisson/git.h"

#define GIT_FILES_MAX	10000
#define GIT_MESSAGE_MAX (1 << 20)

/* Every field of every git request; each table names those of its own. */
struct git_args {
	const char *path, *name, *branch, *message, *author, *email, *mode, *target, *source;
	const char *scope, *key, *value;
	const char *url, *commit, *username, *password, *remote, *host, *protocol;
	struct jt_strs files;
	bool allow_empty, bare, staged, worktree, fetch, overwrite, insecure_tls, set_upstream;
	int64_t depth, skip, limit;
};

#define GIT_AT(member) offsetof(struct git_args, member)
#define GIT_STR(name, flags, member, min, max)                                                     \
	{                                                                                          \
		name, JT_STR, flags, GIT_AT(member), min, max, NULL                                \
	}
#define GIT_BOOL(name, member)                                                                     \
	{                                                                                          \
		name, JT_BOOL, 0, GIT_AT(member), 0, 0, NULL                                       \
	}
#define GIT_PATH(flags) GIT_STR("path", flags, path, 1, TOOLBOX_PATH_MAX - 1)

/* Decode the query by t and make the call of the request at its path. */
int git_query(struct http_req *req, const struct jt_table *t, struct git_args *a,
	      struct git_call *ret, struct err *err);
/* The query of reads that need a path alone. */
extern const struct jt_table git_path_table;

/*
 * Decode the body by t, do it, and answer with status and no body. do_it returning 1 has answered
 * itself.
 */
typedef int (*git_step)(struct http_req *req, const struct git_call *g, const struct git_args *a,
			struct err *err);
int git_handle(struct http_req *req, const struct jt_table *t, int status, git_step do_it,
	       struct err *err);
/* "" as NULL: absent. */
const char *git_text(const char *text);

/* One GitStatus object. */
void git_put_status(struct jw *w, const struct git_status *s);

/* ---- tables, walked by a test against the OpenAPI document ---- */
extern const struct jt_table git_init_table, git_add_table, git_commit_table, git_branch_table,
	git_checkout_table, git_reset_table, git_restore_table, git_set_config_table,
	git_user_table, git_clone_table, git_pull_table, git_push_table, git_remote_table,
	git_login_table;

#endif
