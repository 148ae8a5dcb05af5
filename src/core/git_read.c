/*
 * git_read.c - what a repository holds: status, history, branches, remotes, configuration.
 */
#include <string.h>

#include "core/git_int.h"

/* Reading in the background must not make a commit of the user's fail on a lock. */
static int read_env(struct kv *env, struct err *err)
{
	return kv_set(env, "GIT_OPTIONAL_LOCKS", "0", err);
}

static int read_run(const struct git_call *g, const char *const *argv, struct git_out *ret,
		    struct err *err)
{
	auto_kv struct kv env = {0};
	const struct git_cmd cmd = {.argv = argv, .env = &env};

	return read_env(&env, err) < 0 ? -1 : git_run(g, &cmd, ret, err);
}

/* Hand the output over as text of len bytes with a NUL behind it. */
static char *text_take(struct git_out *o, size_t *ret_len, struct err *err)
{
	char *text;

	*ret_len = o->out.len;
	text = buf_take(&o->out);
	if (!text)
		err_set(err, ERR_NOMEM, "out of memory");
	return text;
}

int git_status(const struct git_call *g, struct git_status *ret, struct err *err)
{
	static const char *const argv[] = {"status", "--porcelain=v2", "--branch",
					   "-z",     "--find-renames", "--untracked-files=all",
					   NULL};
	auto_git_out struct git_out o = {0};
	char *text;
	size_t n;

	if (read_run(g, argv, &o, err) < 0)
		return -1;
	text = text_take(&o, &n, err);
	return text ? git_parse_status(text, n, ret, err) : -1;
}

/* Whether a history failed only because nothing was committed yet. */
static bool is_unborn(const struct git_call *g, const struct err *why)
{
	auto_free char *head = NULL;

	if (!why->tag || strcmp(why->tag, "GIT_BRANCH_NOT_FOUND") != 0)
		return false;
	head = git_head_branch(g, NULL);
	return head && *head;
}

int git_history(const struct git_call *g, int64_t skip, int64_t limit, struct git_history *ret,
		struct err *err)
{
	char max[40], from[40];
	const char *const argv[] = {"log",
				    "-z",
				    "--no-color",
				    "--no-show-signature",
				    "--encoding=UTF-8",
				    "--format=%H%n%an%n%ae%n%aI%n%B",
				    max,
				    from,
				    "HEAD",
				    "--",
				    NULL};
	auto_git_out struct git_out o = {0};
	struct err why = {0};
	char *text;
	size_t n;

	if (limit < 1 || limit > GIT_HISTORY_MAX)
		return err_set(err, ERR_INVALID, "limit: must be 1 to %d", GIT_HISTORY_MAX);
	snprintf(max, sizeof(max), "--max-count=%lld", (long long)limit + 1);
	snprintf(from, sizeof(from), "--skip=%lld", (long long)skip);
	if (read_run(g, argv, &o, &why) < 0) {
		*ret = (struct git_history){0};
		if (is_unborn(g, &why))
			return 0;
		*err = why;
		return -1;
	}
	text = text_take(&o, &n, err);
	if (!text || git_parse_history(text, n, ret, err) < 0)
		return -1;
	ret->more = ret->n > (size_t)limit;
	if (ret->more)
		ret->n = (size_t)limit;
	return 0;
}

char *git_head_branch(const struct git_call *g, struct err *err)
{
	static const char *const argv[] = {"symbolic-ref", "--quiet", "--short", "HEAD", NULL};
	const struct git_cmd cmd = {.argv = argv};
	auto_git_out struct git_out o = {0};

	if (git_exec(g, &cmd, &o, err) < 0)
		return NULL;
	if (o.code > 1) {
		git_failed(&cmd, &o, err);
		return NULL;
	}
	return git_out_line(&o, err);
}

int git_branches(const struct git_call *g, struct git_branches *ret, struct err *err)
{
	static const char *const argv[] = {"for-each-ref", "--format=%(HEAD)%(refname)",
					   "refs/heads/", NULL};
	auto_git_out struct git_out o = {0};
	auto_free char *head = NULL;
	char *text;
	size_t n;

	if (read_run(g, argv, &o, err) < 0)
		return -1;
	head = git_head_branch(g, err);
	text = head ? text_take(&o, &n, err) : NULL;
	if (!text || git_parse_branches(text, n, ret, err) < 0)
		return -1;
	if (!ret->current[0]) {
		ret->head = TAKE_PTR(head);
		ret->current = ret->head;
	}
	return 0;
}

int git_remotes(const struct git_call *g, struct git_remotes *ret, struct err *err)
{
	static const char *const argv[] = {"config", "--null", "--get-regexp",
					   "^remote\\..*\\.url$", NULL};
	static const char *const check[] = {"rev-parse", "--git-dir", NULL};
	const struct git_cmd cmd = {.argv = argv, .plain = true};
	auto_git_out struct git_out o = {0};
	char *text;
	size_t n;

	/* Outside of a repository there is a configuration too, so that is asked first. */
	if (read_run(g, check, NULL, err) < 0 || git_exec(g, &cmd, &o, err) < 0)
		return -1;
	if (o.code > 1)
		return git_failed(&cmd, &o, err);
	text = text_take(&o, &n, err);
	return text ? git_parse_remotes(text, n, ret, err) : -1;
}

/* ---- configuration ---- */

/* Where to ask: the repository when one is named, else a place where none is found. */
static const char *config_place(const struct git_call *g)
{
	return g->path && *g->path ? NULL : "/";
}

static int config_check(const struct git_call *g, const char *scope, struct err *err)
{
	if (git_check_scope(scope, err) < 0)
		return -1;
	if (scope && strcmp(scope, "local") == 0 && !(g->path && *g->path))
		return err_set(err, ERR_INVALID, "path: is required for scope local");
	return 0;
}

static const char *scope_option(const char *scope)
{
	static const char *const rows[][2] = {
		{"global", "--global"}, {"local", "--local"}, {"system", "--system"}};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (scope && strcmp(scope, rows[i][0]) == 0)
			return rows[i][1];
	return NULL;
}

int git_config_get(const struct git_call *g, const char *scope, const char *key, char **ret,
		   struct err *err)
{
	const char *option = scope_option(scope);
	const char *const all[] = {"config", "--includes", "--get", key, NULL};
	const char *const one[] = {"config", option, "--includes", "--get", key, NULL};
	const struct git_cmd cmd = {
		.argv = option ? one : all, .cwd = config_place(g), .plain = true};
	auto_git_out struct git_out o = {0};

	if (config_check(g, scope, err) < 0 || git_check_key(key, err) < 0 ||
	    git_exec(g, &cmd, &o, err) < 0)
		return -1;
	if (o.code > 1)
		return git_failed(&cmd, &o, err);
	*ret = NULL;
	if (o.code == 1)
		return 0;
	*ret = git_out_line(&o, err);
	return *ret ? 0 : -1;
}

int git_config_set(const struct git_call *g, const char *scope, const char *key, const char *value,
		   struct err *err)
{
	const char *option = scope_option(scope ? scope : "global");
	const char *const argv[] = {"config", option, "--replace-all", "--", key, value, NULL};
	const struct git_cmd cmd = {.argv = argv, .cwd = config_place(g), .plain = true};

	if (config_check(g, scope, err) < 0 || git_check_key(key, err) < 0)
		return -1;
	return git_run(g, &cmd, NULL, err);
}

int git_config_user(const struct git_call *g, const char *scope, const char *name,
		    const char *email, struct err *err)
{
	if (git_check_line("name", name, err) < 0 || git_check_line("email", email, err) < 0 ||
	    git_config_set(g, scope, "user.name", name, err) < 0)
		return -1;
	return git_config_set(g, scope, "user.email", email, err);
}
