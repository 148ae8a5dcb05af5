/*
 * git.c - the git routes of contract §3.11 that need no network.
 */
#include "api/daytona/git.h"

#include <string.h>

#define HISTORY_DEFAULT 1000

static struct git_call git_call_of(struct http_req *req, const struct git_args *a)
{
	return (struct git_call){.core = api_core(req),
				 .who = api_who(req),
				 .sandbox = toolbox_id(req),
				 .path = a->path,
				 .client = http_client_fd(req)};
}

int git_query(struct http_req *req, const struct jt_table *t, struct git_args *a,
	      struct git_call *ret, struct err *err)
{
	if (api_query(req, t, a, err) < 0)
		return -1;
	*ret = git_call_of(req, a);
	return 0;
}

const char *git_text(const char *text)
{
	return text && *text ? text : NULL;
}

int git_handle(struct http_req *req, const struct jt_table *t, int status, git_step do_it,
	       struct err *err)
{
	auto_jt_doc struct jt_doc doc = {NULL};
	struct git_args a = {0};
	int r = api_body(req, t, &a, &doc, err);

	if (r == 0) {
		struct git_call g = git_call_of(req, &a);

		r = do_it(req, &g, &a, err);
	}
	jt_release(t, &a);
	if (r != 0)
		return r < 0 ? -1 : 0;
	return http_reply_empty(req, status, err);
}

/* ---- reads ---- */

static const struct jt_field path_fields[] = {GIT_PATH(JT_REQUIRED)};
const struct jt_table git_path_table = {"", path_fields, ARRAY_LEN(path_fields)};

static const char *const state_names[] = {
	[GIT_UNMODIFIED] = "Unmodified", [GIT_UNTRACKED] = "Untracked",
	[GIT_MODIFIED] = "Modified",	 [GIT_ADDED] = "Added",
	[GIT_DELETED] = "Deleted",	 [GIT_RENAMED] = "Renamed",
	[GIT_COPIED] = "Copied",	 [GIT_UNMERGED] = "Updated but unmerged",
};

static void put_file(struct jw *w, const struct git_file *f)
{
	jw_open(w, '{');
	jw_kstr(w, "name", f->name);
	jw_kstr(w, "extra", f->extra);
	jw_kstr(w, "staging", state_names[f->staging]);
	jw_kstr(w, "worktree", state_names[f->worktree]);
	jw_close(w, '}');
}

void git_put_status(struct jw *w, const struct git_status *s)
{
	jw_open(w, '{');
	jw_kstr(w, "currentBranch", s->branch);
	jw_kbool(w, "detached", s->detached);
	jw_kstr(w, "upstream", s->upstream);
	jw_kbool(w, "branchPublished", s->published);
	jw_kint(w, "ahead", s->ahead);
	jw_kint(w, "behind", s->behind);
	jw_key(w, "fileStatus");
	jw_open(w, '[');
	for (size_t i = 0; i < s->n; i++)
		put_file(w, &s->file[i]);
	jw_close(w, ']');
	jw_close(w, '}');
}

int daytona_toolbox_GetStatus(struct http_req *req, struct err *err)
{
	auto_buf struct buf b = BUF_INIT(API_REPLY_MAX);
	struct git_status s = {0};
	struct git_args a = {0};
	struct git_call g;
	struct jw w;

	if (git_query(req, &git_path_table, &a, &g, err) < 0 || git_status(&g, &s, err) < 0)
		return -1;
	jw_init(&w, &b);
	git_put_status(&w, &s);
	git_status_done(&s);
	return api_reply(req, 200, &w, err);
}

static const struct jt_field history_fields[] = {
	GIT_PATH(JT_REQUIRED),
	{"skip", JT_INT, 0, GIT_AT(skip), 0, INT32_MAX, NULL},
	{"limit", JT_INT, 0, GIT_AT(limit), 1, GIT_HISTORY_MAX, NULL},
};
static const struct jt_table history_table = {"", history_fields, ARRAY_LEN(history_fields)};

static void put_commit(struct jw *w, const struct git_commit *c)
{
	jw_open(w, '{');
	jw_kstr(w, "hash", c->hash);
	jw_kstr(w, "author", c->author);
	jw_kstr(w, "email", c->email);
	jw_kstr(w, "message", c->message);
	jw_kstr(w, "timestamp", c->time);
	jw_close(w, '}');
}

int daytona_toolbox_GetCommitHistory(struct http_req *req, struct err *err)
{
	auto_buf struct buf b = BUF_INIT(API_REPLY_MAX);
	struct git_args a = {.limit = HISTORY_DEFAULT};
	struct git_history h = {0};
	struct git_call g;
	struct jw w;

	if (git_query(req, &history_table, &a, &g, err) < 0 ||
	    git_history(&g, a.skip, a.limit, &h, err) < 0)
		return -1;
	jw_init(&w, &b);
	jw_open(&w, '[');
	for (size_t i = 0; i < h.n; i++)
		put_commit(&w, &h.commit[i]);
	jw_close(&w, ']');
	/* The contract's reply is a bare array, so a cut one can only say so in a header. */
	if (h.more)
		http_reply_header(req, "X-Caisson-Truncated", "true");
	git_history_done(&h);
	return api_reply(req, 200, &w, err);
}

int daytona_toolbox_ListBranches(struct http_req *req, struct err *err)
{
	auto_buf struct buf b = BUF_INIT(API_REPLY_MAX);
	struct git_branches all = {0};
	struct git_args a = {0};
	struct git_call g;
	struct jw w;

	if (git_query(req, &git_path_table, &a, &g, err) < 0 || git_branches(&g, &all, err) < 0)
		return -1;
	jw_init(&w, &b);
	jw_open(&w, '{');
	jw_key(&w, "branches");
	jw_open(&w, '[');
	for (size_t i = 0; i < all.n; i++)
		jw_str(&w, all.name[i]);
	jw_close(&w, ']');
	jw_kstr(&w, "current", all.current);
	jw_close(&w, '}');
	git_branches_done(&all);
	return api_reply(req, 200, &w, err);
}

static const struct jt_field get_config_fields[] = {
	GIT_STR("key", JT_REQUIRED, key, 1, GIT_NAME_MAX - 1),
	GIT_STR("path", 0, path, 0, TOOLBOX_PATH_MAX - 1),
	GIT_STR("scope", 0, scope, 0, 16),
};
static const struct jt_table get_config_table = {"", get_config_fields,
						 ARRAY_LEN(get_config_fields)};

int daytona_toolbox_GetGitConfig(struct http_req *req, struct err *err)
{
	auto_buf struct buf b = BUF_INIT(API_REPLY_MAX);
	auto_free char *value = NULL;
	struct git_args a = {0};
	struct git_call g;
	struct jw w;

	if (git_query(req, &get_config_table, &a, &g, err) < 0 ||
	    git_config_get(&g, git_text(a.scope), a.key, &value, err) < 0)
		return -1;
	jw_init(&w, &b);
	jw_open(&w, '{');
	jw_key(&w, "value");
	if (value)
		jw_str(&w, value);
	else
		jw_raw(&w, "null");
	jw_close(&w, '}');
	return api_reply(req, 200, &w, err);
}

/* ---- changes: a table, a step and a handler each ---- */

static const struct jt_field init_fields[] = {
	GIT_PATH(JT_REQUIRED),
	GIT_BOOL("bare", bare),
	GIT_STR("initial_branch", 0, branch, 0, GIT_NAME_MAX - 1),
};
const struct jt_table git_init_table = {"GitInitRequest", init_fields, ARRAY_LEN(init_fields)};

static int do_init(struct http_req *req, const struct git_call *g, const struct git_args *a,
		   struct err *err)
{
	(void)req;
	return git_init(g, a->bare, git_text(a->branch), err);
}

int daytona_toolbox_InitRepository(struct http_req *req, struct err *err)
{
	return git_handle(req, &git_init_table, 201, do_init, err);
}

static const struct jt_field add_fields[] = {
	GIT_PATH(JT_REQUIRED),
	{"files", JT_STRS, JT_REQUIRED, GIT_AT(files), 0, GIT_FILES_MAX, NULL},
};
const struct jt_table git_add_table = {"GitAddRequest", add_fields, ARRAY_LEN(add_fields)};

static int do_add(struct http_req *req, const struct git_call *g, const struct git_args *a,
		  struct err *err)
{
	(void)req;
	return git_add(g, a->files.v, err);
}

int daytona_toolbox_AddFiles(struct http_req *req, struct err *err)
{
	return git_handle(req, &git_add_table, 200, do_add, err);
}

static const struct jt_field commit_fields[] = {
	GIT_PATH(JT_REQUIRED),
	GIT_STR("message", JT_REQUIRED, message, 1, GIT_MESSAGE_MAX),
	GIT_STR("author", JT_REQUIRED, author, 1, GIT_NAME_MAX - 1),
	GIT_STR("email", JT_REQUIRED, email, 1, GIT_NAME_MAX - 1),
	GIT_BOOL("allow_empty", allow_empty),
};
const struct jt_table git_commit_table = {"GitCommitRequest", commit_fields,
					  ARRAY_LEN(commit_fields)};

static int do_commit(struct http_req *req, const struct git_call *g, const struct git_args *a,
		     struct err *err)
{
	const struct git_commit_spec s = {a->message, a->author, a->email, a->allow_empty};
	auto_buf struct buf b = BUF_INIT(API_REPLY_MAX);
	char hash[GIT_HASH_MAX];
	struct jw w;

	if (git_commit(g, &s, hash, err) < 0)
		return -1;
	jw_init(&w, &b);
	jw_open(&w, '{');
	jw_kstr(&w, "hash", hash);
	jw_close(&w, '}');
	return api_reply(req, 200, &w, err) < 0 ? -1 : 1;
}

int daytona_toolbox_CommitChanges(struct http_req *req, struct err *err)
{
	return git_handle(req, &git_commit_table, 200, do_commit, err);
}

static const struct jt_field branch_fields[] = {
	GIT_PATH(JT_REQUIRED),
	GIT_STR("name", JT_REQUIRED, name, 1, GIT_NAME_MAX - 1),
};
const struct jt_table git_branch_table = {"GitBranchRequest", branch_fields,
					  ARRAY_LEN(branch_fields)};

static int do_branch(struct http_req *req, const struct git_call *g, const struct git_args *a,
		     struct err *err)
{
	(void)req;
	return git_branch_create(g, a->name, err);
}

int daytona_toolbox_CreateBranch(struct http_req *req, struct err *err)
{
	return git_handle(req, &git_branch_table, 201, do_branch, err);
}

static int do_branch_delete(struct http_req *req, const struct git_call *g,
			    const struct git_args *a, struct err *err)
{
	(void)req;
	return git_branch_delete(g, a->name, err);
}

int daytona_toolbox_DeleteBranch(struct http_req *req, struct err *err)
{
	return git_handle(req, &git_branch_table, 204, do_branch_delete, err);
}

static const struct jt_field checkout_fields[] = {
	GIT_PATH(JT_REQUIRED),
	GIT_STR("branch", JT_REQUIRED, branch, 1, GIT_NAME_MAX - 1),
};
const struct jt_table git_checkout_table = {"GitCheckoutRequest", checkout_fields,
					    ARRAY_LEN(checkout_fields)};

static int do_checkout(struct http_req *req, const struct git_call *g, const struct git_args *a,
		       struct err *err)
{
	(void)req;
	return git_checkout(g, a->branch, err);
}

int daytona_toolbox_CheckoutBranch(struct http_req *req, struct err *err)
{
	return git_handle(req, &git_checkout_table, 200, do_checkout, err);
}

static const struct jt_field reset_fields[] = {
	GIT_PATH(JT_REQUIRED),
	GIT_STR("mode", 0, mode, 0, 16),
	GIT_STR("target", 0, target, 0, GIT_NAME_MAX - 1),
	{"files", JT_STRS, 0, GIT_AT(files), 0, GIT_FILES_MAX, NULL},
};
const struct jt_table git_reset_table = {"GitResetRequest", reset_fields, ARRAY_LEN(reset_fields)};

static int do_reset(struct http_req *req, const struct git_call *g, const struct git_args *a,
		    struct err *err)
{
	const struct git_reset_spec s = {git_text(a->mode), git_text(a->target),
					 a->files.n ? a->files.v : NULL};

	(void)req;
	return git_reset(g, &s, err);
}

int daytona_toolbox_ResetChanges(struct http_req *req, struct err *err)
{
	return git_handle(req, &git_reset_table, 200, do_reset, err);
}

static const struct jt_field restore_fields[] = {
	GIT_PATH(JT_REQUIRED),
	{"files", JT_STRS, JT_REQUIRED, GIT_AT(files), 0, GIT_FILES_MAX, NULL},
	GIT_BOOL("staged", staged),
	GIT_BOOL("worktree", worktree),
	GIT_STR("source", 0, source, 0, GIT_NAME_MAX - 1),
};
const struct jt_table git_restore_table = {"GitRestoreRequest", restore_fields,
					   ARRAY_LEN(restore_fields)};

static int do_restore(struct http_req *req, const struct git_call *g, const struct git_args *a,
		      struct err *err)
{
	const struct git_restore_spec s = {a->files.v, git_text(a->source), a->staged, a->worktree};

	(void)req;
	return git_restore(g, &s, err);
}

int daytona_toolbox_RestoreFiles(struct http_req *req, struct err *err)
{
	return git_handle(req, &git_restore_table, 200, do_restore, err);
}

static const struct jt_field set_config_fields[] = {
	GIT_STR("key", JT_REQUIRED, key, 1, GIT_NAME_MAX - 1),
	GIT_STR("value", JT_REQUIRED, value, 0, 65536),
	GIT_STR("scope", 0, scope, 0, 16),
	GIT_STR("path", 0, path, 0, TOOLBOX_PATH_MAX - 1),
};
const struct jt_table git_set_config_table = {"GitSetConfigRequest", set_config_fields,
					      ARRAY_LEN(set_config_fields)};

static int do_set_config(struct http_req *req, const struct git_call *g, const struct git_args *a,
			 struct err *err)
{
	(void)req;
	return git_config_set(g, git_text(a->scope), a->key, a->value, err);
}

int daytona_toolbox_SetGitConfig(struct http_req *req, struct err *err)
{
	return git_handle(req, &git_set_config_table, 200, do_set_config, err);
}

static const struct jt_field user_fields[] = {
	GIT_STR("name", JT_REQUIRED, name, 1, GIT_NAME_MAX - 1),
	GIT_STR("email", JT_REQUIRED, email, 1, GIT_NAME_MAX - 1),
	GIT_STR("scope", 0, scope, 0, 16),
	GIT_STR("path", 0, path, 0, TOOLBOX_PATH_MAX - 1),
};
const struct jt_table git_user_table = {"GitConfigureUserRequest", user_fields,
					ARRAY_LEN(user_fields)};

static int do_user(struct http_req *req, const struct git_call *g, const struct git_args *a,
		   struct err *err)
{
	(void)req;
	return git_config_user(g, git_text(a->scope), a->name, a->email, err);
}

int daytona_toolbox_ConfigureUser(struct http_req *req, struct err *err)
{
	return git_handle(req, &git_user_table, 200, do_user, err);
}
