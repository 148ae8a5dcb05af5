/*
 * cmd_git.c - `caisson git …`: the git of a sandbox, through its toolbox.
 *
 * -C names the repository inside, the working directory unless given. A password comes from the
 * environment or standard input, never from the command line, which others can read.
 */
#include <stdlib.h>
#include <string.h>

#include "cli/opt.h"
#include "cli/table.h"
#include "cli/toolbox.h"

struct args {
	const char *dir, *branch, *commit, *username, *remote, *message, *author;
	int64_t depth;
	bool all, del, upstream, bare, insecure, allow_empty, password_stdin;
};

#define A(field) offsetof(struct args, field)
/* clang-format off */
#define DIR_OPT	   {'C', "dir", "DIR", "the repository; \".\" unless given", OPT_STR, A(dir)}
#define REMOTE_OPT {0, "remote", "NAME", "the remote", OPT_STR, A(remote)}
#define BRANCH_OPT {'b', "branch", "NAME", "the branch", OPT_STR, A(branch)}
#define AUTH_OPTS                                                                                  \
	{'u', "username", "NAME", "user; the password is CAISSON_GIT_PASSWORD", OPT_STR,           \
	 A(username)},                                                                             \
	{0, "password-stdin", NULL, "read the password from standard input", OPT_FLAG,             \
	 A(password_stdin)}

const struct opt opts_git_dir[] = {DIR_OPT, {.kind = OPT_END}};
const struct opt opts_git_clone[] = {
	BRANCH_OPT,
	{0, "commit", "HASH", "check this commit out", OPT_STR, A(commit)},
	{0, "depth", "N", "so many commits of history only", OPT_INT, A(depth)},
	{0, "insecure", NULL, "do not check the server's certificate", OPT_FLAG, A(insecure)},
	AUTH_OPTS,
	{.kind = OPT_END},
};
const struct opt opts_git_commit[] = {
	DIR_OPT,
	{'m', "message", "TEXT", "what is told about it", OPT_STR, A(message)},
	{0, "author", "NAME <MAIL>", "who made it", OPT_STR, A(author)},
	{0, "allow-empty", NULL, "though nothing changed", OPT_FLAG, A(allow_empty)},
	{.kind = OPT_END},
};
const struct opt opts_git_sync[] = {DIR_OPT, REMOTE_OPT, BRANCH_OPT, AUTH_OPTS, {.kind = OPT_END}};
const struct opt opts_git_push[] = {
	DIR_OPT, REMOTE_OPT, BRANCH_OPT,
	{0, "set-upstream", NULL, "remember where it went", OPT_FLAG, A(upstream)},
	AUTH_OPTS,
	{.kind = OPT_END},
};
const struct opt opts_git_branch[] = {
	DIR_OPT,
	{'d', "delete", NULL, "delete the branch", OPT_FLAG, A(del)},
	{.kind = OPT_END},
};
const struct opt opts_git_init[] = {
	{'b', "branch", "NAME", "its first branch", OPT_STR, A(branch)},
	{0, "bare", NULL, "without a work tree", OPT_FLAG, A(bare)},
	{.kind = OPT_END},
};
/* clang-format on */

/* One command under way: arguments read, toolbox open. */
struct git {
	struct args a;
	struct toolbox t;
	char **argv; /* behind the sandbox */
	int argc;
	char password[1024];
};

static const char *repo(const struct git *g)
{
	return g->a.dir ? g->a.dir : ".";
}

static void git_done(struct git *g)
{
	explicit_bzero(g->password, sizeof(g->password));
	toolbox_done(&g->t);
}

/* 1: go on. Else the exit code is *ret. */
static int begin(struct git *g, struct cli *c, int argc, char **argv, int least, int most, int *ret,
		 struct err *err)
{
	*g = (struct git){0};
	int left = opt_parse(c, argc, argv, &g->a, err);
	*ret = left >= 0 && c->help ? CLI_OK : CLI_USAGE;
	if (left < 0 || c->help)
		return 0;
	if (left < 1 + least || left > 1 + most) {
		err_set(err, ERR_INVALID, "takes %s", c->cmd->args);
		return 0;
	}
	g->argv = argv + 1;
	g->argc = left - 1;
	*ret = CLI_FAILED;
	/* A clone takes as long as the network does. */
	if (toolbox_open(&g->t, c, argv[0], err) < 0)
		return 0;
	g->t.patience_s = 0;
	return 1;
}

static int add_auth(struct git *g, struct err *err)
{
	const char *env = getenv("CAISSON_GIT_PASSWORD");
	if (g->a.password_stdin) {
		if (!fgets(g->password, sizeof(g->password), stdin))
			return err_set(err, ERR_INVALID, "--password-stdin: there is none");
		g->password[strcspn(g->password, "\r\n")] = '\0';
		env = g->password;
	}
	toolbox_text(&g->t, "username", g->a.username);
	if (g->a.username)
		toolbox_text(&g->t, "password", env);
	return 0;
}

/* The call, and its reply as JSON where that is wanted. */
static int finish(struct git *g, const char *method, struct err *err)
{
	auto_json json_t *reply = NULL;
	if (toolbox_call(&g->t, method, &reply, err) < 0)
		return CLI_FAILED;
	return g->t.c->json ? json_print(reply) : CLI_OK;
}

int cmd_git_clone(struct cli *c, int argc, char **argv, struct err *err)
{
	auto_call(git_done) struct git g;
	int code;
	char name[256], *dot;
	if (!begin(&g, c, argc, argv, 1, 2, &code, err))
		return code;
	/* As git names it: the last word of the address, without ".git". */
	const char *last = strrchr(g.argv[0], '/');
	snprintf(name, sizeof(name), "%s", last ? last + 1 : g.argv[0]);
	if ((dot = strrchr(name, '.')) && !strcmp(dot, ".git"))
		*dot = '\0';
	toolbox_begin(&g.t, "/git/clone");
	toolbox_text(&g.t, "url", g.argv[0]);
	toolbox_text(&g.t, "path", g.argc > 1 ? g.argv[1] : name);
	toolbox_text(&g.t, "branch", g.a.branch);
	toolbox_text(&g.t, "commit_id", g.a.commit);
	toolbox_int(&g.t, "depth", g.a.depth);
	toolbox_flag(&g.t, "insecure_skip_tls", g.a.insecure);
	return add_auth(&g, err) < 0 ? CLI_USAGE : finish(&g, "POST", err);
}

static int sync_with(struct cli *c, int argc, char **argv, const char *route, struct err *err)
{
	auto_call(git_done) struct git g;
	int code;
	if (!begin(&g, c, argc, argv, 0, 0, &code, err))
		return code;
	toolbox_begin(&g.t, route);
	toolbox_text(&g.t, "path", repo(&g));
	toolbox_text(&g.t, "remote", g.a.remote);
	toolbox_text(&g.t, "branch", g.a.branch);
	toolbox_flag(&g.t, "set_upstream", g.a.upstream);
	return add_auth(&g, err) < 0 ? CLI_USAGE : finish(&g, "POST", err);
}

int cmd_git_pull(struct cli *c, int argc, char **argv, struct err *err)
{
	return sync_with(c, argc, argv, "/git/pull", err);
}

int cmd_git_push(struct cli *c, int argc, char **argv, struct err *err)
{
	return sync_with(c, argc, argv, "/git/push", err);
}

int cmd_git_add(struct cli *c, int argc, char **argv, struct err *err)
{
	auto_call(git_done) struct git g;
	int code;
	if (!begin(&g, c, argc, argv, 1, INT16_MAX, &code, err))
		return code;
	toolbox_begin(&g.t, "/git/add");
	toolbox_text(&g.t, "path", repo(&g));
	toolbox_texts(&g.t, "files", g.argv, g.argc);
	return finish(&g, "POST", err);
}

int cmd_git_checkout(struct cli *c, int argc, char **argv, struct err *err)
{
	auto_call(git_done) struct git g;
	int code;
	if (!begin(&g, c, argc, argv, 1, 1, &code, err))
		return code;
	toolbox_begin(&g.t, "/git/checkout");
	toolbox_text(&g.t, "path", repo(&g));
	toolbox_text(&g.t, "branch", g.argv[0]);
	return finish(&g, "POST", err);
}

int cmd_git_init(struct cli *c, int argc, char **argv, struct err *err)
{
	auto_call(git_done) struct git g;
	int code;
	if (!begin(&g, c, argc, argv, 0, 1, &code, err))
		return code;
	toolbox_begin(&g.t, "/git/init");
	toolbox_text(&g.t, "path", g.argc ? g.argv[0] : ".");
	toolbox_text(&g.t, "initial_branch", g.a.branch);
	toolbox_flag(&g.t, "bare", g.a.bare);
	return finish(&g, "POST", err);
}

/* "Ada <ada@example.com>" into its two parts, in place. */
static int split_author(char *text, char **mail)
{
	char *open = strchr(text, '<'), *close = open ? strchr(open, '>') : NULL;
	if (!close || close[1] || close == open + 1)
		return -1;
	*close = '\0';
	*mail = open + 1;
	while (open > text && open[-1] == ' ')
		open--;
	*open = '\0';
	return *text ? 0 : -1;
}

/* Who commits, when nobody is named: what the repository, or the sandbox, is configured to. */
static int ask_config(struct git *g, const char *key, json_t **ret, struct err *err)
{
	static const char *const scope[] = {"local", "global"};
	for (size_t i = 0; i < ARRAY_LEN(scope); i++) {
		json_decref(*ret);
		*ret = NULL;
		toolbox_begin(&g->t, "/git/config");
		toolbox_query(&g->t, "key", key);
		toolbox_query(&g->t, "scope", scope[i]);
		toolbox_query(&g->t, "path", repo(g));
		if (toolbox_call(&g->t, "GET", ret, err) < 0)
			return -1;
		if (*json_text(*ret, "value"))
			return 0;
	}
	return err_set(err, ERR_INVALID, "say --author \"NAME <MAIL>\": %s is not configured", key);
}

int cmd_git_commit(struct cli *c, int argc, char **argv, struct err *err)
{
	auto_call(git_done) struct git g;
	auto_json json_t *name = NULL, *mail = NULL, *reply = NULL;
	auto_free char *author = NULL;
	char *address = NULL;
	int code;
	if (!begin(&g, c, argc, argv, 0, 0, &code, err))
		return code;
	if (g.a.author && (!(author = strdup(g.a.author)) || split_author(author, &address) < 0))
		return cli_usage(err, "--author: say NAME <MAIL>");
	if (!g.a.message)
		return cli_usage(err, "say what it is about: -m TEXT");
	if (!author && (ask_config(&g, "user.name", &name, err) < 0 ||
			ask_config(&g, "user.email", &mail, err) < 0))
		return CLI_FAILED;
	toolbox_begin(&g.t, "/git/commit");
	toolbox_text(&g.t, "path", repo(&g));
	toolbox_text(&g.t, "message", g.a.message);
	toolbox_text(&g.t, "author", author ? author : json_text(name, "value"));
	toolbox_text(&g.t, "email", author ? address : json_text(mail, "value"));
	toolbox_flag(&g.t, "allow_empty", g.a.allow_empty);
	if (toolbox_call(&g.t, "POST", &reply, err) < 0)
		return CLI_FAILED;
	if (c->json)
		return json_print(reply);
	text_print(stdout, json_text(reply, "hash"));
	putchar('\n');
	return CLI_OK;
}

static int list_branches(struct git *g, struct err *err)
{
	auto_json json_t *reply = NULL;
	json_t *it;
	size_t i;
	toolbox_begin(&g->t, "/git/branches");
	toolbox_query(&g->t, "path", repo(g));
	if (toolbox_call(&g->t, "GET", &reply, err) < 0)
		return CLI_FAILED;
	if (g->t.c->json)
		return json_print(reply);
	const char *current = json_text(reply, "current");
	json_array_foreach(json_object_get(reply, "branches"), i, it)
	{
		const char *name = json_string_value(it);
		printf("%c ", name && !strcmp(name, current) ? '*' : ' ');
		text_print(stdout, name ? name : "?");
		putchar('\n');
	}
	return CLI_OK;
}

int cmd_git_branch(struct cli *c, int argc, char **argv, struct err *err)
{
	auto_call(git_done) struct git g;
	int code;
	if (!begin(&g, c, argc, argv, 0, 1, &code, err))
		return code;
	if (!g.argc && g.a.del)
		return cli_usage(err, "-d: name the branch");
	if (!g.argc)
		return list_branches(&g, err);
	toolbox_begin(&g.t, "/git/branches");
	toolbox_text(&g.t, "path", repo(&g));
	toolbox_text(&g.t, "name", g.argv[0]);
	return finish(&g, g.a.del ? "DELETE" : "POST", err);
}

static void print_head(const json_t *s)
{
	printf("%s ", json_is_true(json_object_get(s, "detached")) ? "at" : "on");
	text_print(stdout, json_text(s, "currentBranch"));
	if (*json_text(s, "upstream")) {
		printf(", %lld ahead and %lld behind ", (long long)json_number(s, "ahead"),
		       (long long)json_number(s, "behind"));
		text_print(stdout, json_text(s, "upstream"));
	}
	putchar('\n');
}

int cmd_git_status(struct cli *c, int argc, char **argv, struct err *err)
{
	static const char *const head[] = {"STAGED", "WORK TREE", "FILE", "WAS", NULL};
	auto_call(git_done) struct git g;
	auto_json json_t *s = NULL;
	json_t *it;
	size_t i;
	int code;
	if (!begin(&g, c, argc, argv, 0, 0, &code, err))
		return code;
	toolbox_begin(&g.t, "/git/status");
	toolbox_query(&g.t, "path", repo(&g));
	if (toolbox_call(&g.t, "GET", &s, err) < 0)
		return CLI_FAILED;
	if (c->json)
		return json_print(s);
	print_head(s);
	auto_table struct table t = table_on(head);
	json_array_foreach(json_object_get(s, "fileStatus"), i, it)
	{
		table_add(&t, json_text(it, "staging"));
		table_add(&t, json_text(it, "worktree"));
		table_add(&t, json_text(it, "name"));
		table_add(&t, json_text(it, "extra"));
	}
	if (t.rows)
		table_print(&t, stdout);
	return CLI_OK;
}

int cmd_git_log(struct cli *c, int argc, char **argv, struct err *err)
{
	static const char *const head[] = {"COMMIT", "TIME", "AUTHOR", "SUBJECT", NULL};
	auto_call(git_done) struct git g;
	auto_json json_t *list = NULL;
	json_t *it;
	size_t i;
	int code;
	if (!begin(&g, c, argc, argv, 0, 0, &code, err))
		return code;
	toolbox_begin(&g.t, "/git/history");
	toolbox_query(&g.t, "path", repo(&g));
	if (toolbox_call(&g.t, "GET", &list, err) < 0)
		return CLI_FAILED;
	if (c->json)
		return json_print(list);
	auto_table struct table t = table_on(head);
	json_array_foreach(list, i, it)
	{
		char cell[256];
		snprintf(cell, sizeof(cell), "%.12s", json_text(it, "hash"));
		table_add(&t, cell);
		table_add(&t, json_text(it, "timestamp"));
		table_add(&t, json_text(it, "author"));
		const char *m = json_text(it, "message");
		snprintf(cell, sizeof(cell), "%.*s", (int)strcspn(m, "\r\n"), m);
		table_add(&t, cell);
	}
	table_print(&t, stdout);
	return CLI_OK;
}
