/*
 * git_remote.c - what needs the network, or says where it goes: clone, pull, push, remotes, and
 * credentials that are to be stored.
 */
#include <string.h>

#include "core/git_int.h"

#define CLEAN_TRIES  40 /* a killed git may still be writing */
#define CLEAN_MS     50
#define DEFAULT_USER "git" /* servers that know tokens don't look at the name */

/* ---- credentials of a call ---- */

static int auth_check(const struct git_auth *a, struct err *err)
{
	const struct {
		const char *field, *text;
	} rows[] = {{"username", a->username}, {"password", a->password}};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		if (!rows[i].text)
			continue;
		if (strlen(rows[i].text) >= GIT_SECRET_MAX)
			return err_set(err, ERR_INVALID, "%s: must be at most %d bytes",
				       rows[i].field, GIT_SECRET_MAX - 1);
		if (git_check_line(rows[i].field, rows[i].text, err) < 0)
			return -1;
	}
	return 0;
}

static const char *filled(const char *text)
{
	return text && *text ? text : NULL;
}

/* What is offered to the host of url: the call's words before those in the URL. */
static struct git_secret secret_of(const struct git_auth *a, const struct git_url *url)
{
	struct git_secret s = {.scope = url->scope,
			       .username = filled(a->username),
			       .password = filled(a->password)};

	if (!s.password)
		s.password = url->password;
	if (!s.username)
		s.username = filled(url->user);
	/* A token alone may stand in either place. */
	if (!s.password && s.username)
		s.password = "";
	if (!s.username)
		s.username = DEFAULT_USER;
	return s;
}

/* ---- clone ---- */

enum dest_state { DEST_ABSENT, DEST_EMPTY, DEST_OTHER };

static int entry_seen(void *arg, const struct agent_info *i, struct err *err)
{
	(void)i;
	*(bool *)arg = true;
	return err_set(err, ERR_CANCELLED, "seen");
}

static enum dest_state dest_look(const struct git_call *g, const char *dest)
{
	struct agent_info info = {0};
	bool any = false, more = false, dir;
	struct err err = {0};

	if (file_stat(g->core, g->who, g->sandbox, dest, &info, &err) < 0)
		return err.code == ERR_NOT_FOUND ? DEST_ABSENT : DEST_OTHER;
	dir = info.type == 'd';
	agent_info_done(&info);
	if (!dir ||
	    (file_list(g->core, g->who, g->sandbox, dest, 1, entry_seen, &any, &more, &err) < 0 &&
	     !any))
		return DEST_OTHER;
	return any ? DEST_OTHER : DEST_EMPTY;
}

/* git tidies up behind its own failures, not behind being killed, nor when we go on after it. */
static void dest_clean(const struct git_call *g, const char *dest, enum dest_state before)
{
	for (int i = 0; before != DEST_OTHER && i < CLEAN_TRIES; i++) {
		enum dest_state now = dest_look(g, dest);

		if (now == before || (now == DEST_ABSENT && before == DEST_EMPTY))
			break;
		if (i)
			usleep(CLEAN_MS * 1000);
		file_remove(g->core, g->who, g->sandbox, dest, true, NULL);
	}
	if (before == DEST_EMPTY && dest_look(g, dest) == DEST_ABSENT)
		file_mkdir(g->core, g->who, g->sandbox, dest, 0755, NULL);
}

static bool has_commit(const struct git_call *g, const char *dest, const char *commit)
{
	auto_free char *name = NULL;
	auto_git_out struct git_out o = {0};
	const char *argv[] = {"cat-file", "-e", NULL, NULL};
	const struct git_cmd cmd = {.argv = argv, .cwd = dest};

	if (asprintf(&name, "%s^{commit}", commit) < 0) {
		name = NULL;
		return false;
	}
	argv[2] = name;
	return git_exec(g, &cmd, &o, NULL) == 0 && o.code == 0;
}

/* A commit that the clone didn't bring (too shallow, on no branch) is asked for by its name. */
static int clone_commit(const struct git_call *g, const char *dest, const struct git_clone_spec *s,
			const char *depth, const struct git_secret *secret, struct err *err)
{
	const char *const fetch[] = {
		"fetch",  "--quiet", "--no-tags", depth ? depth : "--no-auto-gc",
		"origin", s->commit, NULL};
	const char *const checkout[] = {"checkout", "--quiet", "--detach", s->commit, "--", NULL};
	const struct git_cmd get = {
		.argv = fetch, .cwd = dest, .secret = secret, .timeout_ms = GIT_NETWORK_MS};
	const struct git_cmd put = {.argv = checkout, .cwd = dest, .timeout_ms = GIT_NETWORK_MS};

	if (!has_commit(g, dest, s->commit) && git_run(g, &get, NULL, err) < 0)
		return -1;
	return git_run(g, &put, NULL, err);
}

static int clone_run(const struct git_call *g, const char *dest, const struct git_url *url,
		     const struct git_clone_spec *s, struct err *err)
{
	struct git_secret secret = secret_of(&s->auth, url);
	const char *argv[10] = {"clone", "--quiet"};
	const char *const files[] = {url->clean, dest, NULL};
	const struct git_cmd cmd = {.argv = argv,
				    .files = files,
				    .cwd = "",
				    .secret = &secret,
				    .timeout_ms = GIT_NETWORK_MS};
	auto_free char *depth = NULL, *branch = NULL;
	size_t n = 2;

	secret.insecure_tls = s->insecure_tls;
	if (s->depth && asprintf(&depth, "--depth=%lld", (long long)s->depth) < 0)
		return err_set(err, ERR_NOMEM, "out of memory");
	if (s->branch && asprintf(&branch, "--branch=%s", s->branch) < 0)
		return err_set(err, ERR_NOMEM, "out of memory");
	if (depth)
		argv[n++] = depth;
	if (branch)
		argv[n++] = branch;
	if (s->commit)
		argv[n] = "--no-checkout";
	if (git_run(g, &cmd, NULL, err) < 0)
		return -1;
	return s->commit ? clone_commit(g, dest, s, depth, &secret, err) : 0;
}

int git_clone(const struct git_call *g, const struct git_clone_spec *s, struct err *err)
{
	auto_git_url struct git_url url = {0};
	auto_free char *dest = NULL;
	enum dest_state before;

	if (git_url_split("url", s->url, &url, err) < 0 || auth_check(&s->auth, err) < 0 ||
	    (s->branch && git_check_rev("branch", s->branch, err) < 0) ||
	    (s->commit && git_check_hash("commit_id", s->commit, err) < 0))
		return -1;
	if (s->depth < 0)
		return err_set(err, ERR_INVALID, "depth: must be 0 or more");
	dest = git_path(g, err);
	if (!dest)
		return -1;
	before = dest_look(g, dest);
	if (clone_run(g, dest, &url, s, err) == 0)
		return 0;
	dest_clean(g, dest, before);
	return -1;
}

/* ---- pull, push ---- */

/* Where the remote is; fills url, and with it the secret. */
static int remote_secret(const struct git_call *g, const char *remote, bool push,
			 const struct git_auth *a, struct git_url *url, struct git_secret *ret,
			 struct err *err)
{
	const char *const argv[] = {"remote",
				    "get-url",
				    push ? "--push" : "--",
				    push ? "--" : remote,
				    push ? remote : NULL,
				    NULL};
	const struct git_cmd cmd = {.argv = argv, .plain = true};
	auto_git_out struct git_out o = {0};
	auto_free char *text = NULL;

	*ret = (struct git_secret){0};
	if (!filled(a->username) && !filled(a->password))
		return 0;
	if (git_run(g, &cmd, &o, err) < 0)
		return -1;
	text = git_out_line(&o, err);
	if (!text || git_url_split("remote", text, url, err) < 0)
		return -1;
	*ret = secret_of(a, url);
	return 0;
}

/* A value of the repository's configuration, heap; "" when absent. */
static char *branch_setting(const struct git_call *g, const char *branch, const char *what,
			    struct err *err)
{
	auto_free char *key = NULL;
	const char *argv[] = {"config", "--get", NULL, NULL};
	const struct git_cmd cmd = {.argv = argv, .plain = true};
	auto_git_out struct git_out o = {0};

	if (asprintf(&key, "branch.%s.%s", branch, what) < 0) {
		key = NULL;
		err_set(err, ERR_NOMEM, "out of memory");
		return NULL;
	}
	argv[2] = key;
	if (git_exec(g, &cmd, &o, err) < 0)
		return NULL;
	return git_out_line(&o, err);
}

/* What to fetch: *ret_ref stays NULL where the configuration of the branch says it. */
static int pull_source(const struct git_call *g, const struct git_pull_spec *s, char **ret_remote,
		       char **ret_ref, struct err *err)
{
	auto_free char *head = git_head_branch(g, err), *merge = NULL, *remote = NULL;

	if (!head)
		return -1;
	if (!*head && !s->branch)
		return err_tagged(err, ERR_NOT_FOUND, "GIT_BRANCH_NOT_FOUND",
				  "branch: HEAD is on no branch, so it must be given");
	if (*head) {
		merge = branch_setting(g, head, "merge", err);
		remote = merge ? branch_setting(g, head, "remote", err) : NULL;
		if (!remote)
			return -1;
	}
	if (!s->branch && !s->remote && merge && *merge && *remote) {
		*ret_remote = TAKE_PTR(remote);
		return 0;
	}
	*ret_remote = strdup(s->remote ? s->remote : remote && *remote ? remote : "origin");
	if (asprintf(ret_ref, "refs/heads/%s", s->branch ? s->branch : head) < 0)
		*ret_ref = NULL;
	return *ret_remote && *ret_ref ? 0 : err_set(err, ERR_NOMEM, "out of memory");
}

int git_pull(const struct git_call *g, const struct git_pull_spec *s, struct err *err)
{
	static const char *const merge[] = {"merge", "--quiet", "--no-edit", "FETCH_HEAD", NULL};
	const struct git_cmd put = {.argv = merge};
	auto_free char *remote = NULL, *ref = NULL;
	auto_git_url struct git_url url = {0};
	const char *argv[] = {"fetch", "--quiet", "--", NULL, NULL, NULL};
	struct git_secret secret;
	const struct git_cmd get = {.argv = argv, .secret = &secret, .timeout_ms = GIT_NETWORK_MS};

	if ((s->remote && git_check_remote("remote", s->remote, err) < 0) ||
	    (s->branch && git_check_branch("branch", s->branch, err) < 0) ||
	    auth_check(&s->auth, err) < 0 || pull_source(g, s, &remote, &ref, err) < 0 ||
	    remote_secret(g, remote, false, &s->auth, &url, &secret, err) < 0)
		return -1;
	argv[3] = remote;
	argv[4] = ref;
	if (git_run(g, &get, NULL, err) < 0)
		return -1;
	return git_run(g, &put, NULL, err);
}

/* The branch to push must exist here; git's own words for a missing one are about refspecs. */
static int push_branch(const struct git_call *g, const struct git_push_spec *s, char **ret,
		       struct err *err)
{
	auto_free char *head = NULL, *ref = NULL;
	const char *argv[] = {"rev-parse", "--verify", "--quiet", NULL, NULL};
	const struct git_cmd cmd = {.argv = argv};
	auto_git_out struct git_out o = {0};

	head = s->branch ? strdup(s->branch) : git_head_branch(g, err);
	if (!head)
		return -1;
	if (!*head)
		return err_tagged(err, ERR_NOT_FOUND, "GIT_BRANCH_NOT_FOUND",
				  "branch: HEAD is on no branch, so it must be given");
	if (asprintf(&ref, "refs/heads/%s", head) < 0) {
		ref = NULL;
		return err_set(err, ERR_NOMEM, "out of memory");
	}
	argv[3] = ref;
	if (git_exec(g, &cmd, &o, err) < 0)
		return -1;
	if (o.code == 1)
		return err_tagged(err, ERR_NOT_FOUND, "GIT_BRANCH_NOT_FOUND",
				  "branch: %s does not exist, or has no commit yet", head);
	if (o.code != 0)
		return git_failed(&cmd, &o, err);
	*ret = TAKE_PTR(head);
	return 0;
}

int git_push(const struct git_call *g, const struct git_push_spec *s, struct err *err)
{
	auto_free char *branch = NULL, *set = NULL, *refspec = NULL;
	auto_git_url struct git_url url = {0};
	const char *argv[] = {"push", "--quiet", s->set_upstream ? "--set-upstream" : "--quiet",
			      "--",   NULL,	 NULL,
			      NULL};
	struct git_secret secret;
	const struct git_cmd cmd = {.argv = argv, .secret = &secret, .timeout_ms = GIT_NETWORK_MS};

	if ((s->remote && git_check_remote("remote", s->remote, err) < 0) ||
	    (s->branch && git_check_branch("branch", s->branch, err) < 0) ||
	    auth_check(&s->auth, err) < 0 || push_branch(g, s, &branch, err) < 0)
		return -1;
	set = s->remote ? strdup(s->remote) : branch_setting(g, branch, "remote", err);
	if (!set)
		return -1;
	argv[4] = *set ? set : "origin";
	if (asprintf(&refspec, "refs/heads/%s:refs/heads/%s", branch, branch) < 0) {
		refspec = NULL;
		return err_set(err, ERR_NOMEM, "out of memory");
	}
	argv[5] = refspec;
	if (remote_secret(g, argv[4], true, &s->auth, &url, &secret, err) < 0)
		return -1;
	return git_run(g, &cmd, NULL, err);
}

/* ---- remotes ---- */

static int remote_write(const struct git_call *g, const char *verb, const struct git_remote_spec *s,
			struct err *err)
{
	const char *const argv[] = {"remote", verb, "--", s->name, s->url, NULL};
	const struct git_cmd cmd = {.argv = argv};

	return git_run(g, &cmd, NULL, err);
}

static int remote_exists(const struct git_call *g, const char *name, bool *ret, struct err *err)
{
	struct git_remotes all = {0};

	if (git_remotes(g, &all, err) < 0)
		return -1;
	*ret = false;
	for (size_t i = 0; i < all.n; i++)
		*ret = *ret || strcmp(all.remote[i].name, name) == 0;
	git_remotes_done(&all);
	return 0;
}

static int remote_fetch(const struct git_call *g, const char *name, struct err *err)
{
	const char *const argv[] = {"fetch", "--quiet", "--", name, NULL};
	const struct git_cmd cmd = {.argv = argv, .timeout_ms = GIT_NETWORK_MS};

	return git_run(g, &cmd, NULL, err);
}

int git_remote_add(const struct git_call *g, const struct git_remote_spec *s, struct err *err)
{
	const char *const undo[] = {"remote", "remove", s->name, NULL};
	const struct git_cmd undo_cmd = {.argv = undo};
	auto_git_url struct git_url url = {0};
	bool there = false;

	if (git_check_remote("name", s->name, err) < 0 ||
	    git_url_split("url", s->url, &url, err) < 0)
		return -1;
	if (url.password)
		return err_set(err, ERR_INVALID,
			       "url: must not hold a password, which would be stored: give it to "
			       "pull and push, or to git/credentials");
	if (remote_exists(g, s->name, &there, err) < 0)
		return -1;
	if (there && !s->overwrite)
		return err_set(err, ERR_CONFLICT, "name: remote %s exists already", s->name);
	if (remote_write(g, there ? "set-url" : "add", s, err) < 0)
		return -1;
	if (!s->fetch || remote_fetch(g, s->name, err) == 0)
		return 0;
	if (!there)
		git_run(g, &undo_cmd, NULL, NULL);
	return -1;
}

/* ---- stored credentials ---- */

static int login_check(const struct git_login *l, struct err *err)
{
	const struct git_auth a = {l->username, l->password};

	if (l->protocol && strcmp(l->protocol, "https") != 0 && strcmp(l->protocol, "http") != 0)
		return err_set(err, ERR_INVALID, "protocol: must be https or http");
	if (l->host && (!*l->host || l->host[strcspn(l->host, "/@ \t")]))
		return err_set(err, ERR_INVALID, "host: must be a host, with a port if need be");
	if (l->host && git_check_line("host", l->host, err) < 0)
		return -1;
	return auth_check(&a, err);
}

/* The helper that keeps them must be among those git asks. */
static int login_helper(const struct git_call *g, struct err *err)
{
	static const char *const get[] = {"config",  "--global", "--get-all", "credential.helper",
					  "^store$", NULL};
	static const char *const add[] = {"config", "--global", "--add", "credential.helper",
					  "store",  NULL};
	const struct git_cmd ask = {.argv = get, .cwd = "/", .plain = true};
	const struct git_cmd set = {.argv = add, .cwd = "/", .plain = true};
	auto_git_out struct git_out o = {0};

	if (git_exec(g, &ask, &o, err) < 0)
		return -1;
	return o.code == 0 ? 0 : git_run(g, &set, NULL, err);
}

int git_login(const struct git_call *g, const struct git_login *l, struct err *err)
{
	static const char *const store[] = {"credential-store", "store", NULL};
	auto_buf struct buf text = BUF_INIT(4 * GIT_SECRET_MAX);
	const struct git_secret secret = {.password = l->password};
	struct git_cmd cmd = {.argv = store, .cwd = "/", .secret = &secret, .plain = true};

	if (login_check(l, err) < 0 || login_helper(g, err) < 0)
		return -1;
	if (buf_addf(&text, err, "protocol=%s\nhost=%s\nusername=%s\npassword=%s\n\n",
		     l->protocol ? l->protocol : "https", l->host ? l->host : "github.com",
		     l->username, l->password) < 0)
		return -1;
	cmd.input = buf_str(&text);
	return git_run(g, &cmd, NULL, err);
}
