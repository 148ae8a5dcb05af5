/*
 * git_remote.c - the git routes of contract §3.11 about other repositories and credentials.
 */
#include "api/daytona/git.h"

#define SECRET_ROWS                                                                                \
	GIT_STR("username", 0, username, 0, GIT_SECRET_MAX - 1),                                   \
		GIT_STR("password", 0, password, 0, GIT_SECRET_MAX - 1)

static const struct jt_field clone_fields[] = {
	GIT_STR("url", JT_REQUIRED, url, 1, GIT_URL_MAX - 1),
	GIT_PATH(JT_REQUIRED),
	GIT_STR("branch", 0, branch, 0, GIT_NAME_MAX - 1),
	GIT_STR("commit_id", 0, commit, 0, 64),
	SECRET_ROWS,
	GIT_BOOL("insecure_skip_tls", insecure_tls),
	{"depth", JT_INT, 0, GIT_AT(depth), 0, INT32_MAX, NULL},
};
const struct jt_table git_clone_table = {"GitCloneRequest", clone_fields, ARRAY_LEN(clone_fields)};

static int do_clone(struct http_req *req, const struct git_call *g, const struct git_args *a,
		    struct err *err)
{
	const struct git_clone_spec s = {.url = a->url,
					 .branch = git_text(a->branch),
					 .commit = git_text(a->commit),
					 .auth = {a->username, a->password},
					 .insecure_tls = a->insecure_tls,
					 .depth = a->depth};

	(void)req;
	return git_clone(g, &s, err);
}

int daytona_toolbox_CloneRepository(struct http_req *req, struct err *err)
{
	return git_handle(req, &git_clone_table, 200, do_clone, err);
}

static const struct jt_field pull_fields[] = {
	GIT_PATH(JT_REQUIRED),
	SECRET_ROWS,
	GIT_STR("branch", 0, branch, 0, GIT_NAME_MAX - 1),
	GIT_STR("remote", 0, remote, 0, GIT_NAME_MAX - 1),
};
const struct jt_table git_pull_table = {"GitPullRequest", pull_fields, ARRAY_LEN(pull_fields)};

static int do_pull(struct http_req *req, const struct git_call *g, const struct git_args *a,
		   struct err *err)
{
	const struct git_pull_spec s = {.remote = git_text(a->remote),
					.branch = git_text(a->branch),
					.auth = {a->username, a->password}};

	(void)req;
	return git_pull(g, &s, err);
}

int daytona_toolbox_PullChanges(struct http_req *req, struct err *err)
{
	return git_handle(req, &git_pull_table, 200, do_pull, err);
}

static const struct jt_field push_fields[] = {
	GIT_PATH(JT_REQUIRED),
	SECRET_ROWS,
	GIT_STR("branch", 0, branch, 0, GIT_NAME_MAX - 1),
	GIT_STR("remote", 0, remote, 0, GIT_NAME_MAX - 1),
	GIT_BOOL("set_upstream", set_upstream),
};
const struct jt_table git_push_table = {"GitPushRequest", push_fields, ARRAY_LEN(push_fields)};

static int do_push(struct http_req *req, const struct git_call *g, const struct git_args *a,
		   struct err *err)
{
	const struct git_push_spec s = {.remote = git_text(a->remote),
					.branch = git_text(a->branch),
					.auth = {a->username, a->password},
					.set_upstream = a->set_upstream};

	(void)req;
	return git_push(g, &s, err);
}

int daytona_toolbox_PushChanges(struct http_req *req, struct err *err)
{
	return git_handle(req, &git_push_table, 200, do_push, err);
}

/* ---- remotes ---- */

int daytona_toolbox_ListRemotes(struct http_req *req, struct err *err)
{
	auto_buf struct buf b = BUF_INIT(API_REPLY_MAX);
	struct git_remotes all = {0};
	struct git_args a = {0};
	struct git_call g;
	struct jw w;

	if (git_query(req, &git_path_table, &a, &g, err) < 0 || git_remotes(&g, &all, err) < 0)
		return -1;
	jw_init(&w, &b);
	jw_open(&w, '{');
	jw_key(&w, "remotes");
	jw_open(&w, '[');
	for (size_t i = 0; i < all.n; i++) {
		jw_open(&w, '{');
		jw_kstr(&w, "name", all.remote[i].name);
		jw_kstr(&w, "url", all.remote[i].url);
		jw_close(&w, '}');
	}
	jw_close(&w, ']');
	jw_close(&w, '}');
	git_remotes_done(&all);
	return api_reply(req, 200, &w, err);
}

static const struct jt_field remote_fields[] = {
	GIT_PATH(JT_REQUIRED),
	GIT_STR("name", JT_REQUIRED, name, 1, GIT_NAME_MAX - 1),
	GIT_STR("url", JT_REQUIRED, url, 1, GIT_URL_MAX - 1),
	GIT_BOOL("fetch", fetch),
	GIT_BOOL("overwrite", overwrite),
};
const struct jt_table git_remote_table = {"GitAddRemoteRequest", remote_fields,
					  ARRAY_LEN(remote_fields)};

static int do_remote(struct http_req *req, const struct git_call *g, const struct git_args *a,
		     struct err *err)
{
	const struct git_remote_spec s = {a->name, a->url, a->fetch, a->overwrite};

	(void)req;
	return git_remote_add(g, &s, err);
}

int daytona_toolbox_AddRemote(struct http_req *req, struct err *err)
{
	return git_handle(req, &git_remote_table, 201, do_remote, err);
}

/* ---- stored credentials ---- */

static const struct jt_field login_fields[] = {
	GIT_STR("username", JT_REQUIRED, username, 1, GIT_SECRET_MAX - 1),
	GIT_STR("password", JT_REQUIRED, password, 1, GIT_SECRET_MAX - 1),
	GIT_STR("host", 0, host, 0, GIT_NAME_MAX - 1),
	GIT_STR("protocol", 0, protocol, 0, 16),
};
const struct jt_table git_login_table = {"GitAuthenticateRequest", login_fields,
					 ARRAY_LEN(login_fields)};

static int do_login(struct http_req *req, const struct git_call *g, const struct git_args *a,
		    struct err *err)
{
	const struct git_login l = {git_text(a->protocol), git_text(a->host), a->username,
				    a->password};

	(void)req;
	return git_login(g, &l, err);
}

int daytona_toolbox_Authenticate(struct http_req *req, struct err *err)
{
	return git_handle(req, &git_login_table, 200, do_login, err);
}
