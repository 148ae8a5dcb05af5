/*
 * git_run.c - one run of the image's git: options that hold for all, environment, output.
 *
 * A repository may be larger than the sandbox's memory: packs are mapped in small windows, one
 * thread packs, large files are streamed instead of held for deltas (E23). Nothing is left behind:
 * no background maintenance, no prompt, no editor, no pager.
 *
 * Credentials travel in two variables of the environment of this run. The helper that hands them
 * on is a text without secrets, bound to the remote's host, so that a redirect elsewhere gets
 * nothing; stored helpers are cut off, or they would keep what they see; hooks are off, since they
 * would inherit the environment.
 */
#include <errno.h>
#include <string.h>

#include "core/git_int.h"
#include "core/int.h"

#define GIT_ERR_MAX  (128u << 10)
#define GIT_ARGV_MAX 96

static const char helper[] = "!f() { test \"$1\" = get && printf 'username=%s\\npassword=%s\\n' "
			     "\"$CAISSON_GIT_USERNAME\" \"$CAISSON_GIT_PASSWORD\"; }; f";

static const char *const options[] = {
	"core.bigFileThreshold=16m",
	"core.packedGitLimit=64m",
	"core.packedGitWindowSize=8m",
	"core.deltaBaseCacheLimit=16m",
	"pack.threads=1",
	"pack.windowMemory=32m",
	"pack.deltaCacheSize=16m",
	"gc.auto=0",
	"color.ui=false",
	"core.quotePath=false",
	"advice.detachedHead=false",
};

static const char *const secret_options[] = {"credential.helper=", "core.hooksPath=/dev/null"};

static const struct {
	const char *name, *value;
} environment[] = {
	{"LC_ALL", "C.UTF-8"},	   {"LANGUAGE", "C"},	 {"GIT_TERMINAL_PROMPT", "0"},
	{"GIT_ASKPASS", ""},	   {"GIT_PAGER", "cat"}, {"GIT_EDITOR", ":"},
	{"GIT_TRACE_REDACT", "1"},
};

void git_out_done(struct git_out *o)
{
	buf_done(&o->out);
	buf_done(&o->err);
}

char *git_path(const struct git_call *g, struct err *err)
{
	char dir[AGENT_PATH_MAX], *path = NULL;

	if (valid_path(g->path, err) < 0)
		return NULL;
	if (g->path[0] == '/')
		path = strdup(g->path);
	else if (sandbox_workdir(g->core, g->who, g->sandbox, dir, sizeof(dir), err) < 0)
		return NULL;
	else if (asprintf(&path, "%s/%s", strcmp(dir, "/") ? dir : "", g->path) < 0)
		path = NULL;
	if (!path)
		err_set(err, ERR_NOMEM, "out of memory");
	return path;
}

/* ---- what is run ---- */

struct words {
	const char **v; /* heap; the strings are borrowed but for scoped */
	size_t n;
	char *scoped; /* heap */
};

static void words_done(struct words *w)
{
	free(w->v);
	free(w->scoped);
}

static void word_add(struct words *w, const char *text)
{
	w->v[w->n++] = text;
}

static void option_add(struct words *w, const char *text)
{
	word_add(w, "-c");
	word_add(w, text);
}

static int secret_add(struct words *w, const struct git_secret *s, struct err *err)
{
	if (s->insecure_tls)
		option_add(w, "http.sslVerify=false");
	if (!s->password || !s->scope)
		return 0;
	if (asprintf(&w->scoped, "credential.%s.helper=%s", s->scope, helper) < 0) {
		w->scoped = NULL;
		return err_set(err, ERR_NOMEM, "out of memory");
	}
	for (size_t i = 0; i < ARRAY_LEN(secret_options); i++)
		option_add(w, secret_options[i]);
	option_add(w, w->scoped);
	return 0;
}

static size_t count(const char *const *v)
{
	size_t n = 0;

	while (v && v[n])
		n++;
	return n;
}

static int words_build(const struct git_cmd *cmd, struct words *w, struct err *err)
{
	size_t nargv = count(cmd->argv), nfiles = count(cmd->files);

	w->v = calloc(GIT_ARGV_MAX + nargv + nfiles, sizeof(*w->v));
	if (!w->v)
		return err_set(err, ERR_NOMEM, "out of memory");
	word_add(w, "git");
	for (size_t i = 0; !cmd->plain && i < ARRAY_LEN(options); i++)
		option_add(w, options[i]);
	if (cmd->secret && secret_add(w, cmd->secret, err) < 0)
		return -1;
	for (size_t i = 0; i < nargv; i++)
		word_add(w, cmd->argv[i]);
	if (cmd->files)
		word_add(w, "--");
	for (size_t i = 0; i < nfiles; i++)
		word_add(w, cmd->files[i]);
	return 0;
}

static int env_build(const struct git_cmd *cmd, struct kv *env, struct err *err)
{
	const struct git_secret *s = cmd->secret;

	for (size_t i = 0; i < ARRAY_LEN(environment); i++)
		if (kv_set(env, environment[i].name, environment[i].value, err) < 0)
			return -1;
	if (cmd->files && kv_set(env, "GIT_LITERAL_PATHSPECS", "1", err) < 0)
		return -1;
	if (cmd->env && kv_merge(env, cmd->env, err) < 0)
		return -1;
	if (!s || !s->password || !s->scope)
		return 0;
	if (kv_set(env, "CAISSON_GIT_USERNAME", s->username, err) < 0)
		return -1;
	return kv_set(env, "CAISSON_GIT_PASSWORD", s->password, err);
}

/* ---- output ---- */

/* The last of what is said, since that is where the reason stands. */
static int keep_last(struct buf *b, const char *p, size_t n, struct err *err)
{
	if (n > GIT_ERR_MAX / 2) {
		p += n - GIT_ERR_MAX / 2;
		n = GIT_ERR_MAX / 2;
	}
	if (b->len + n > GIT_ERR_MAX)
		buf_eat(b, b->len - GIT_ERR_MAX / 2);
	return buf_add(b, p, n, err);
}

static int take_output(void *arg, int stream, const void *p, size_t n, struct err *err)
{
	struct git_out *o = arg;

	if (stream == 2)
		return keep_last(&o->err, p, n, err);
	if (buf_add(&o->out, p, n, NULL) < 0)
		return err_set(err, ERR_TOO_LARGE, "git printed more than %u MiB",
			       GIT_OUT_MAX >> 20);
	return 0;
}

/* An exec that did not come about: the directory and the program are the caller's matter. */
static int run_failed(const struct git_call *g, const struct git_cmd *cmd, struct err *err)
{
	const char *path = cmd->cwd ? cmd->cwd : g->path;
	int errnum = err ? err->errnum : 0;

	if (!err || !errnum)
		return -1;
	if (strncmp(err->msg, "run git", 7) == 0)
		return err_set(err, ERR_UNPROCESSABLE,
			       "git: is not installed in the image of this sandbox");
	if (strncmp(err->msg, "cwd: ", 5) != 0)
		return -1;
	if (errnum == EACCES)
		return err_tagged(err, ERR_FORBIDDEN, "FILE_ACCESS_DENIED",
				  "path: %.300s may not be entered by the sandbox's user", path);
	return err_tagged(err, ERR_NOT_FOUND, "GIT_REPO_NOT_FOUND",
			  "path: %.300s is no directory of the sandbox", path);
}

/* 0 when the exit code is git's own verdict. */
static int check_cause(const struct exec_result *r, const struct git_cmd *cmd, struct err *err)
{
	if (r->cause == EXEC_TIMEOUT)
		return err_set(err, ERR_TIMEOUT,
			       "git %s: ran longer than its time limit and was "
			       "killed",
			       cmd->argv[0]);
	if (r->cause == EXEC_OOM && r->exit_code != 0)
		return err_set(err, ERR_UNPROCESSABLE,
			       "git %s: the sandbox's memory of %llu bytes is used up",
			       cmd->argv[0], (unsigned long long)r->oom_limit);
	if (r->signal)
		return err_set(err, ERR_UNPROCESSABLE, "git %s: was killed by signal %d",
			       cmd->argv[0], r->signal);
	return 0;
}

int git_exec(const struct git_call *g, const struct git_cmd *cmd, struct git_out *ret,
	     struct err *err)
{
	const char *cwd = cmd->cwd ? cmd->cwd : g->path;
	__attribute__((cleanup(words_done))) struct words w = {0};
	auto_git_out struct git_out o = {.out = BUF_INIT(GIT_OUT_MAX),
					 .err = BUF_INIT(GIT_ERR_MAX + 1)};
	auto_kv struct kv env = {0};
	struct exec_result r = {0};
	struct exec_spec spec = {
		.sandbox = g->sandbox,
		.env = &env,
		.cwd = *cwd ? cwd : NULL,
		.timeout_ms = cmd->timeout_ms ? cmd->timeout_ms : GIT_LOCAL_MS,
		.input = cmd->input,
		.input_len = cmd->input ? strlen(cmd->input) : 0,
	};

	if (words_build(cmd, &w, err) < 0 || env_build(cmd, &env, err) < 0)
		return -1;
	spec.argv = w.v;
	if (exec_run(g->core, g->who, &spec, take_output, &o, g->client, &r, err) < 0)
		return run_failed(g, cmd, err);
	if (check_cause(&r, cmd, err) < 0)
		return -1;
	o.code = r.exit_code;
	*ret = o;
	o = (struct git_out){0};
	return 0;
}

int git_failed(const struct git_cmd *cmd, const struct git_out *o, struct err *err)
{
	return git_error_set(cmd->argv[0], buf_str(&o->err), buf_str(&o->out),
			     cmd->secret ? cmd->secret->password : NULL, err);
}

int git_run(const struct git_call *g, const struct git_cmd *cmd, struct git_out *ret,
	    struct err *err)
{
	auto_git_out struct git_out o = {0};

	if (git_exec(g, cmd, &o, err) < 0)
		return -1;
	if (o.code != 0)
		return git_failed(cmd, &o, err);
	if (ret) {
		*ret = o;
		o = (struct git_out){0};
	}
	return 0;
}

char *git_out_line(struct git_out *o, struct err *err)
{
	char *text = buf_take(&o->out);
	size_t n = text ? strlen(text) : 0;

	if (!text) {
		err_set(err, ERR_NOMEM, "out of memory");
		return NULL;
	}
	if (n && text[n - 1] == '\n')
		text[n - 1] = '\0';
	return text;
}
