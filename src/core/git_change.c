/*
 * git_change.c - changes without the network: init, add, commit, branches, checkout, reset,
 * restore. A revision is always followed by "--", so that it can't be taken for a file.
 */
#include <string.h>

#include "core/git_int.h"

static int change(const struct git_call *g, const char *const *argv, const char *const *files,
		  struct err *err)
{
	const struct git_cmd cmd = {.argv = argv, .files = files};

	return git_run(g, &cmd, NULL, err);
}

/* ---- init ---- */

static bool is_there(const struct git_call *g, const char *name)
{
	char path[AGENT_PATH_MAX];
	struct agent_info info = {0};
	bool found;

	snprintf(path, sizeof(path), "%.3000s/%s", g->path, name);
	found = file_stat(g->core, g->who, g->sandbox, path, &info, NULL) == 0;
	agent_info_done(&info);
	return found;
}

int git_init(const struct git_call *g, bool bare, const char *branch, struct err *err)
{
	auto_free char *path = NULL, *first = NULL;
	const char *argv[] = {"init", "--quiet", NULL, NULL, NULL};
	const char *files[] = {NULL, NULL};
	const struct git_cmd cmd = {.argv = argv, .files = files, .cwd = ""};
	size_t n = 2;

	if (branch && git_check_branch("initial_branch", branch, err) < 0)
		return -1;
	path = git_path(g, err);
	if (!path)
		return -1;
	if (is_there(g, ".git") || (is_there(g, "HEAD") && is_there(g, "objects")))
		return err_set(err, ERR_CONFLICT, "path: %.300s is a repository already", g->path);
	if (bare)
		argv[n++] = "--bare";
	if (branch && asprintf(&first, "--initial-branch=%s", branch) < 0)
		return err_set(err, ERR_NOMEM, "out of memory");
	if (branch)
		argv[n] = first;
	files[0] = path;
	return git_run(g, &cmd, NULL, err);
}

/* ---- add, commit ---- */

int git_add(const struct git_call *g, const char *const *files, struct err *err)
{
	static const char *const argv[] = {"add", NULL};

	return git_check_files(files, err) < 0 ? -1 : change(g, argv, files, err);
}

static int commit_env(const struct git_commit_spec *s, struct kv *env, struct err *err)
{
	const struct {
		const char *name, *value;
	} rows[] = {
		{"GIT_AUTHOR_NAME", s->author},
		{"GIT_AUTHOR_EMAIL", s->email},
		{"GIT_COMMITTER_NAME", s->author},
		{"GIT_COMMITTER_EMAIL", s->email},
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (kv_set(env, rows[i].name, rows[i].value, err) < 0)
			return -1;
	return 0;
}

static int commit_hash(const struct git_call *g, char ret[GIT_HASH_MAX], struct err *err)
{
	static const char *const argv[] = {"rev-parse", "--verify", "HEAD", NULL};
	const struct git_cmd cmd = {.argv = argv};
	auto_git_out struct git_out o = {0};
	auto_free char *hash = NULL;

	if (git_run(g, &cmd, &o, err) < 0)
		return -1;
	hash = git_out_line(&o, err);
	if (!hash || git_check_hash("hash", hash, err) < 0)
		return err_set(err, ERR_AGENT, "git in the sandbox printed a malformed hash");
	snprintf(ret, GIT_HASH_MAX, "%s", hash);
	return 0;
}

int git_commit(const struct git_call *g, const struct git_commit_spec *s,
	       char ret_hash[GIT_HASH_MAX], struct err *err)
{
	const char *const argv[] = {"commit",
				    "--quiet",
				    "--cleanup=whitespace",
				    "--file=-",
				    s->allow_empty ? "--allow-empty" : NULL,
				    NULL};
	auto_kv struct kv env = {0};
	const struct git_cmd cmd = {.argv = argv, .env = &env, .input = s->message};

	if (git_check_line("author", s->author, err) < 0 ||
	    git_check_line("email", s->email, err) < 0 || commit_env(s, &env, err) < 0)
		return -1;
	if (git_run(g, &cmd, NULL, err) < 0)
		return -1;
	return commit_hash(g, ret_hash, err);
}

/* ---- branches ---- */

int git_branch_create(const struct git_call *g, const char *name, struct err *err)
{
	const char *const argv[] = {"checkout", "--quiet", "--no-track", "-b", name, NULL};

	return git_check_branch("name", name, err) < 0 ? -1 : change(g, argv, NULL, err);
}

int git_branch_delete(const struct git_call *g, const char *name, struct err *err)
{
	const char *const argv[] = {"branch", "--quiet", "-D", "--", name, NULL};

	return git_check_branch("name", name, err) < 0 ? -1 : change(g, argv, NULL, err);
}

int git_checkout(const struct git_call *g, const char *branch, struct err *err)
{
	const char *const argv[] = {"checkout", "--quiet", branch, "--", NULL};

	return git_check_rev("branch", branch, err) < 0 ? -1 : change(g, argv, NULL, err);
}

/* ---- reset, restore ---- */

static const char *reset_option(const char *mode)
{
	static const char *const rows[][2] = {{"soft", "--soft"},
					      {"mixed", "--mixed"},
					      {"hard", "--hard"},
					      {"merge", "--merge"},
					      {"keep", "--keep"}};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (strcmp(mode, rows[i][0]) == 0)
			return rows[i][1];
	return NULL;
}

int git_reset(const struct git_call *g, const struct git_reset_spec *s, struct err *err)
{
	const char *mode = s->mode ? s->mode : "mixed", *option = reset_option(mode);
	const char *const whole[] = {"reset", "--quiet", option, s->target ? s->target : "HEAD",
				     "--",    NULL};
	const char *const some[] = {"reset", "--quiet", s->target ? s->target : "HEAD", NULL};

	if (!option)
		return err_set(err, ERR_INVALID,
			       "mode: must be one of soft, mixed, hard, merge, keep");
	if (s->target && git_check_rev("target", s->target, err) < 0)
		return -1;
	if (!s->files)
		return change(g, whole, NULL, err);
	if (strcmp(mode, "mixed") != 0)
		return err_set(err, ERR_INVALID, "mode: must be mixed where files are given");
	return git_check_files(s->files, err) < 0 ? -1 : change(g, some, s->files, err);
}

int git_restore(const struct git_call *g, const struct git_restore_spec *s, struct err *err)
{
	const char *argv[] = {"restore", "--quiet", NULL, NULL, NULL, NULL};
	auto_free char *source = NULL;
	size_t n = 2;

	if (git_check_files(s->files, err) < 0)
		return -1;
	if (s->source && git_check_rev("source", s->source, err) < 0)
		return -1;
	if (s->source && asprintf(&source, "--source=%s", s->source) < 0)
		return err_set(err, ERR_NOMEM, "out of memory");
	if (source)
		argv[n++] = source;
	if (s->staged)
		argv[n++] = "--staged";
	if (s->worktree)
		argv[n] = "--worktree";
	return change(g, argv, s->files, err);
}
