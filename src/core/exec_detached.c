/*
 * exec_detached.c - commands that run on without their caller, and that run once.
 *
 * A keyed one is noted with its key before it is started: key, digest and id are on the disk when
 * the agent is asked. A repeated call finds them and
 *
 *   the sandbox stopped since       lost: what became of it is not known, it is never run again
 *   the agent knows the id          its record
 *   the agent has had it before     gone: deleted, or a day past its end
 *   else                            this process died between note and start: it is started now
 *
 * The agent refuses to start an id twice, so two that start it now are one.
 */
#include <string.h>

#include "base/clock.h"
#include "base/crash.h"
#include "core/proc.h"

#define IDEM_KEY_MAX	 255
#define TTY_LABEL	 "/exec"       /* of one on a terminal: no terminal's id has a slash */
#define UNSTARTED_MAX_MS (3600 * 1000) /* older than this a note without a start is lost */

void exec_detached_done(struct exec_detached *d)
{
	task_info_done(&d->info);
}

static int key_valid(const struct exec_key *key, struct err *err)
{
	size_t n = key->key ? strlen(key->key) : 1;

	if (n >= 1 && n <= IDEM_KEY_MAX)
		return 0;
	return err_set(err, ERR_INVALID, "Idempotency-Key: must be 1 to %d characters",
		       IDEM_KEY_MAX);
}

/* ---- what is started ---- */

struct start {
	const struct exec_spec *spec;
	bool want_stdin;
	char cwd[AGENT_PATH_MAX];
	const char **env; /* owned */
	struct task_spec ts;
};

static int start_fill(struct process_at *at, const char *id, struct start *st, struct err *err)
{
	const struct exec_spec *spec = st->spec;

	st->env = spawn_env(&at->row, spec->env, err);
	if (!st->env)
		return -1;
	st->ts = (struct task_spec){
		.id = id,
		.label = spec->tty ? TTY_LABEL : NULL,
		.kind = spec->tty ? TASK_PTY : TASK_DETACHED,
		.tflags = st->want_stdin && !spec->tty ? TASK_STDIN : 0,
		.timeout_ms = spec->timeout_ms,
		.spawn = {.argv = spec->argv,
			  .env = st->env,
			  .user = spec->user && spec->user[0] ? spec->user : at->row.s.user,
			  .flags = (spec->shell ? SPAWN_SHELL : 0) |
				   (spec->cwd ? 0 : SPAWN_CWD_FALLBACK),
			  .cols = spec->cols,
			  .rows = spec->rows}};
	if (!spec->cwd) {
		st->ts.spawn.cwd = at->row.s.workdir[0] ? at->row.s.workdir : NULL;
		return 0;
	}
	if (path_of(at->core, &at->row, at->agent, spec->cwd, st->cwd, err) < 0)
		return process_failed(at, err);
	st->ts.spawn.cwd = st->cwd;
	return 0;
}

static int run_plain(struct process_at *at, struct start *st, struct exec_detached *ret,
		     struct err *err)
{
	auto_process struct process_row p = {0};
	struct task_info t = {0};

	process_row_init(at, PROCESS_EXEC, "", &p);
	memcpy(p.id, p.task, ID_LEN);
	if (start_fill(at, p.id, st, err) < 0 || process_start(at, &p, NULL, &st->ts, &t, err) < 0)
		return -1;
	memcpy(ret->id, p.id, ID_LEN);
	ret->info = t;
	return 0;
}

/* ---- keyed ---- */

static int key_reused(const struct exec_key_row *k, struct err *err)
{
	return err_tagged(err, ERR_CONFLICT, "IDEMPOTENCY_KEY_REUSED",
			  "Idempotency-Key: it was used with another body, for exec %s",
			  k->exec_id);
}

static int key_forgotten(const struct exec_key_row *k, struct err *err)
{
	return err_tagged(err, ERR_GONE, "PROCESS_NOT_FOUND",
			  "exec %s ran, and was deleted or has ended more than a day ago",
			  k->exec_id);
}

/* The agent is asked; what it says is that the exec was started. */
static int key_start(struct process_at *at, struct start *st, const struct exec_key *key,
		     const char *id, struct exec_detached *ret, struct err *err)
{
	struct task_info t = {0};
	bool existed = false;

	if (start_fill(at, id, st, err) < 0)
		return -1;
	if (agent_task_start(at->agent, &st->ts, &t, &existed, err) < 0)
		return process_failed(at, err);
	crash_at("exec.after_start");
	store_exec_key_started(at->core->st, at->row.s.id, key->key, NULL);
	ret->info = t;
	ret->existed = ret->existed || existed;
	return 0;
}

static int key_again(struct process_at *at, struct start *st, const struct exec_key *key,
		     const struct exec_key_row *k, struct exec_detached *ret, struct err *err)
{
	auto_process struct process_row p = {0};
	struct err why = {0};
	int got;

	if (!k->same)
		return key_reused(k, err);
	memcpy(ret->id, k->exec_id, ID_LEN);
	ret->existed = true;
	got = store_process_get(at->core->st, at->row.s.id, PROCESS_EXEC, k->exec_id, &p, err);
	if (got <= 0)
		return got < 0 ? -1 : key_forgotten(k, err);
	ret->lost = at->row.s.state != SB_STARTED || p.start != at->row.starts;
	if (ret->lost)
		return 0;
	if (!k->started && clock_wall_ms() - k->created_ms < UNSTARTED_MAX_MS)
		return key_start(at, st, key, k->exec_id, ret, err);
	if (agent_task_get(at->agent, k->exec_id, &ret->info, &why) == 0)
		return 0;
	if (why.code == ERR_NOT_FOUND)
		return key_forgotten(k, err);
	process_failed(at, &why);
	if (err)
		*err = why;
	return -1;
}

static int key_first(struct process_at *at, struct start *st, const struct exec_key *key,
		     struct exec_detached *ret, struct err *err)
{
	auto_process struct process_row p = {0};
	struct exec_key_row k = {0};
	int got;

	process_row_init(at, PROCESS_EXEC, "", &p);
	memcpy(p.id, p.task, ID_LEN);
	memcpy(ret->id, p.id, ID_LEN);
	got = store_exec_key(at->core->st, &p, key->key, key->digest, &k, err);
	if (got < 0)
		return -1;
	if (got == 0)
		return err_tagged(err, ERR_CONFLICT, "SANDBOX_NOT_STARTED",
				  "sandbox %s was stopped meanwhile", at->row.s.id);
	if (got == 2)
		return key_again(at, st, key, &k, ret, err);
	crash_at("exec.after_key");
	return key_start(at, st, key, p.id, ret, err);
}

/* A known key is answered in any state of the sandbox. */
static int run_keyed(struct core *c, const struct caller *who, struct start *st,
		     const struct exec_key *key, struct exec_detached *ret, struct err *err)
{
	auto_at struct process_at at = {.core = c, .who = who};
	struct exec_key_row k = {0};
	int got;

	if (row_need(c, who, st->spec->sandbox, &at.row, err) < 0)
		return -1;
	got = store_exec_key_get(c->st, at.row.s.id, key->key, key->digest, &k, err);
	if (got < 0)
		return -1;
	if (got && at.row.s.state == SB_STARTED &&
	    c->run->ops->agent_path(c->run, at.row.s.id, at.agent, err) < 0)
		return -1;
	if (got)
		return key_again(&at, st, key, &k, ret, err);
	process_at_done(&at);
	at.row = (struct sandbox_row){0};
	if (process_begin(c, who, st->spec->sandbox, &at, err) < 0)
		return -1;
	return key_first(&at, st, key, ret, err);
}

int exec_detach(struct core *c, const struct caller *who, const struct exec_spec *spec,
		bool want_stdin, const struct exec_key *key, struct exec_detached *ret,
		struct err *err)
{
	struct start st = {.spec = spec, .want_stdin = want_stdin};
	struct exec_detached d = {0};
	int rc = -1;

	if (exec_spec_valid(spec, err) < 0 || (key && key_valid(key, err) < 0))
		return -1;
	if (key && key->key) {
		rc = run_keyed(c, who, &st, key, &d, err);
	} else {
		auto_at struct process_at at = {0};

		if (process_begin(c, who, spec->sandbox, &at, err) == 0)
			rc = run_plain(&at, &st, &d, err);
	}
	free(st.env);
	if (rc == 0)
		*ret = d;
	else
		exec_detached_done(&d);
	return rc;
}

/* ---- others ---- */

struct listing {
	task_fn fn;
	void *arg;
};

static int list_terminal(void *arg, const struct task_info *t, struct err *err)
{
	struct listing *l = arg;

	return t->label && strcmp(t->label, TTY_LABEL) == 0 ? l->fn(l->arg, t, err) : 0;
}

int exec_list(struct core *c, const struct caller *who, const char *sandbox, task_fn fn, void *arg,
	      struct err *err)
{
	struct listing list = {fn, arg};
	auto_at struct process_at at = {0};

	if (process_begin(c, who, sandbox, &at, err) < 0)
		return -1;
	if (agent_task_list(at.agent, TASK_DETACHED, NULL, fn, arg, err) < 0 ||
	    agent_task_list(at.agent, TASK_PTY, NULL, list_terminal, &list, err) < 0)
		return process_failed(&at, err);
	return 0;
}

int exec_remove(struct core *c, const struct caller *who, const char *sandbox, const char *id,
		struct err *err)
{
	auto_at struct process_at at = {0};
	struct err why = {0};

	if (process_find(c, who, sandbox, PROCESS_EXEC, id, &at, err) < 0)
		return -1;
	/* The row goes first: a repeated key must not find the way free to start it again. */
	if (process_forget(c, at.row.s.id, PROCESS_EXEC, id, at.p.task, err) < 0)
		return -1;
	if (agent_task_remove(at.agent, id, &why) == 0 || why.code == ERR_NOT_FOUND)
		return 0;
	process_failed(&at, &why);
	if (err)
		*err = why;
	return -1;
}

/* ---- nobody is there any more ---- */

struct leave {
	struct job job;
	struct exec_handle *handle;
};

/* Also when the pool ends before its time: as the end of the process would. */
static void leave_run(struct job *j)
{
	struct leave *l = container_of(j, struct leave, job);

	exec_free(l->handle);
	free(l);
}

void exec_linger(struct exec_handle *h, unsigned grace_ms)
{
	struct leave *l = calloc(1, sizeof(*l));

	if (!l) {
		exec_free(h);
		return;
	}
	l->job.fn = l->job.drop = leave_run;
	l->handle = h;
	pool_submit(&h->core->ops, &l->job, grace_ms);
}
