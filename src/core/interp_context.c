/*
 * interp_context.c - contexts of the interpreter: each one a task that runs share/interpreter.
 */
#include "core/interp_int.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"

bool interp_is_default(const char *context)
{
	return !context || !context[0] || strcmp(context, INTERP_DEFAULT) == 0;
}

/* ---- how one ends ---- */

void interp_death(struct process_at *at, const struct task_info *t, char out[INTERP_TEXT_MAX])
{
	struct exec_result r = {0};
	int n;

	/* The warden passes on how the worker ended, a signal as a shell does. */
	if (process_result(at->core, at->row.s.id, t, &r, NULL) < 0)
		n = snprintf(out, INTERP_TEXT_MAX, "its process has ended");
	else if (r.cause == EXEC_OOM)
		n = snprintf(out, INTERP_TEXT_MAX,
			     "out of memory: limit %llu bytes, peak %llu, the kernel killed %.64s",
			     (unsigned long long)r.oom_limit, (unsigned long long)r.oom_peak,
			     r.oom_victim[0] ? r.oom_victim : "a process");
	else if (r.exit_code > 128)
		n = snprintf(out, INTERP_TEXT_MAX, "its process was ended by signal %d",
			     r.exit_code - 128);
	else
		n = snprintf(out, INTERP_TEXT_MAX, "its process exited with code %d", r.exit_code);
	(void)n;
}

void interp_drop(struct process_at *at, const char *task)
{
	agent_task_kill(at->agent, task, 0, NULL, NULL);
	agent_task_remove(at->agent, task, NULL);
}

static int context_ended(struct process_at *at, const struct task_info *t, struct err *err)
{
	char how[INTERP_TEXT_MAX];

	interp_death(at, t, how);
	return err_tagged(err, ERR_GONE, "CONTEXT_ENDED", "context %s has ended: %s", at->p.id,
			  how);
}

/* ---- starting ---- */

static int link_open(struct process_at *at, const char *task, struct interp_link *l,
		     struct err *err)
{
	if (agent_task_attach(at->agent, task, &l->in, &l->out, err) < 0)
		return process_failed(at, err);
	return 0;
}

/* What the agent or Python itself says of an image that has no fit one. */
static int start_refused(struct err *err)
{
	char said[ERR_MSG_MAX];

	/* It may be over before it can be spoken to. */
	if (err && err->tag && strcmp(err->tag, "COMMAND_ALREADY_COMPLETED") == 0)
		return err_tagged(err, ERR_UNPROCESSABLE, "INTERPRETER_UNAVAILABLE",
				  "python3 of the image ended at once");
	if (!err || (err->code != ERR_NOT_FOUND && err->code != ERR_GONE) || err->tag)
		return -1;
	if (err->code == ERR_NOT_FOUND)
		return err_tagged(err, ERR_UNPROCESSABLE, "INTERPRETER_UNAVAILABLE",
				  "the image has no python3; the interpreter needs 3.8 or newer");
	snprintf(said, sizeof(said), "%s", err->msg);
	return err_tagged(err, ERR_UNPROCESSABLE, "INTERPRETER_UNAVAILABLE", "%s", said);
}

int interp_start(struct process_at *at, struct process_row *p, const char *was,
		 struct interp_link *l, struct task_info *ret, struct err *err)
{
	char size[24];
	const char *const argv[] = {"python3", "-c", interp_boot, size, NULL};
	auto_free const char **env = spawn_env(&at->row, NULL, err);
	struct task_spec ts = {.id = p->task,
			       .label = p->id,
			       .kind = TASK_INTERPRETER,
			       .tflags = TASK_PIPES | TASK_STDIN};

	if (!env)
		return -1;
	snprintf(size, sizeof(size), "%zu", (size_t)(interp_runner_end - interp_runner));
	ts.spawn = (struct agent_spawn){.argv = argv,
					.env = env,
					.cwd = p->cwd,
					.user = at->row.s.user,
					.flags = p->cwd ? 0 : SPAWN_CWD_FALLBACK};
	if (!p->cwd && at->row.s.workdir[0])
		ts.spawn.cwd = at->row.s.workdir;
	if (process_start(at, p, was, &ts, ret, err) < 0)
		return start_refused(err);
	if (link_open(at, p->task, l, err) == 0 &&
	    interp_link_attach(l, true, NULL, NULL, err) == 0)
		return 0;
	task_info_done(ret);
	interp_drop(at, p->task);
	process_forget(at->core, at->row.s.id, PROCESS_CONTEXT, p->id, p->task, NULL);
	if (process_failed(at, err) < 0)
		start_refused(err);
	return -1;
}

int interp_attach(struct process_at *at, struct interp_link *l, turn_gone_fn gone, void *arg,
		  struct err *err)
{
	auto_task struct task_info t = {0}, now = {0};

	if (agent_task_get(at->agent, at->p.task, &t, err) < 0) {
		process_failed(at, err);
		if (err && err->code == ERR_NOT_FOUND)
			err_tagged(err, ERR_GONE, "CONTEXT_ENDED", "context %s has ended",
				   at->p.id);
		return -1;
	}
	if (t.state == TASK_ENDED)
		return context_ended(at, &t, err);
	if (link_open(at, at->p.task, l, err) < 0)
		return -1;
	if (interp_link_attach(l, false, gone, arg, err) == 0)
		return 0;
	if (err && err->code == ERR_GONE && agent_task_get(at->agent, at->p.task, &now, NULL) == 0)
		return context_ended(at, &now, err);
	return process_failed(at, err);
}

/* ---- the calls ---- */

static int contexts_count(struct process_at *at, size_t *ret, struct err *err)
{
	struct process_row *row = NULL;

	if (store_process_list(at->core->st, at->row.s.id, PROCESS_CONTEXT, at->row.starts, &row,
			       ret, err) < 0)
		return -1;
	for (size_t i = 0; i < *ret; i++)
		process_row_done(&row[i]);
	free(row);
	return 0;
}

static void context_fill(struct interp_context *c, const struct process_row *p,
			 const struct task_info *t)
{
	*c = (struct interp_context){.created_ms = p->created_ms,
				     .active = t && t->state == TASK_RUNNING};
	snprintf(c->id, sizeof(c->id), "%.*s", ID_LEN - 1, p->id);
	snprintf(c->cwd, sizeof(c->cwd), "%.1023s", t ? t->cwd : p->cwd ? p->cwd : "");
}

int interp_create(struct core *c, const struct caller *who, const char *sandbox, const char *cwd,
		  struct interp_context *ret, struct err *err)
{
	auto_at struct process_at at = {0};
	auto_process struct process_row p = {0};
	auto_task struct task_info t = {0};
	auto_call(interp_link_done) struct interp_link l;
	char path[AGENT_PATH_MAX], id[ID_LEN];
	size_t n;

	interp_link_init(&l);
	if ((cwd && valid_path(cwd, err) < 0) || process_begin(c, who, sandbox, &at, err) < 0 ||
	    contexts_count(&at, &n, err) < 0)
		return -1;
	if (n >= INTERP_CONTEXTS_MAX)
		return err_set(err, ERR_LIMIT,
			       "contexts: this sandbox has %zu of %d, delete some first", n,
			       INTERP_CONTEXTS_MAX);
	id_new(id);
	process_row_init(&at, PROCESS_CONTEXT, id, &p);
	if (cwd) {
		if (path_of(c, &at.row, at.agent, cwd, path, err) < 0)
			return process_failed(&at, err);
		p.cwd = strdup(path);
		if (!p.cwd)
			return err_set(err, ERR_NOMEM, "out of memory");
	}
	if (interp_start(&at, &p, NULL, &l, &t, err) < 0)
		return -1;
	context_fill(ret, &p, &t);
	return 0;
}

struct context_walk {
	struct process_row *row;
	size_t n;
	struct interp_context *out; /* one for each row */
};

static int walk_task(void *arg, const struct task_info *t, struct err *err)
{
	struct context_walk *w = arg;

	(void)err;
	for (size_t i = 0; i < w->n; i++)
		if (strcmp(w->row[i].task, t->id) == 0)
			context_fill(&w->out[i], &w->row[i], t);
	return 0;
}

static int context_older(const void *a, const void *b)
{
	const struct interp_context *x = a, *y = b;

	return (x->created_ms > y->created_ms) - (x->created_ms < y->created_ms);
}

/* Rows to contexts, without the default one. */
static int walk_run(struct process_at *at, struct context_walk *w, size_t *ret_n, struct err *err)
{
	size_t n = 0;

	w->out = calloc(w->n + 1, sizeof(*w->out));
	if (!w->out)
		return err_set(err, ERR_NOMEM, "out of memory");
	for (size_t i = 0; i < w->n; i++)
		context_fill(&w->out[i], &w->row[i], NULL);
	if (w->n && agent_task_list(at->agent, TASK_INTERPRETER, NULL, walk_task, w, err) < 0)
		return process_failed(at, err);
	for (size_t i = 0; i < w->n; i++)
		if (!interp_is_default(w->row[i].id))
			w->out[n++] = w->out[i];
	qsort(w->out, n, sizeof(*w->out), context_older);
	*ret_n = n;
	return 0;
}

int interp_list(struct core *c, const struct caller *who, const char *sandbox,
		struct interp_context **ret, size_t *ret_n, struct err *err)
{
	auto_at struct process_at at = {0};
	struct context_walk w = {0};
	int rc;

	if (process_begin(c, who, sandbox, &at, err) < 0 ||
	    store_process_list(c->st, at.row.s.id, PROCESS_CONTEXT, at.row.starts, &w.row, &w.n,
			       err) < 0)
		return -1;
	rc = walk_run(&at, &w, ret_n, err);
	for (size_t i = 0; i < w.n; i++)
		process_row_done(&w.row[i]);
	free(w.row);
	if (rc == 0)
		*ret = TAKE_PTR(w.out);
	free(w.out);
	return rc;
}

int interp_delete(struct core *c, const struct caller *who, const char *sandbox, const char *id,
		  struct err *err)
{
	auto_at struct process_at at = {0};

	if (interp_is_default(id))
		return err_set(err, ERR_INVALID, "id: the default context can't be deleted");
	if (process_find(c, who, sandbox, PROCESS_CONTEXT, id, &at, err) < 0)
		return -1;
	interp_drop(&at, at.p.task);
	return process_forget(c, at.row.s.id, PROCESS_CONTEXT, id, at.p.task, err);
}

int interp_interrupt(struct core *c, const struct caller *who, const char *sandbox, const char *id,
		     struct err *err)
{
	auto_at struct process_at at = {0};
	auto_task struct task_info t = {0};
	struct err why = {0};
	bool plain = interp_is_default(id);

	if (process_find(c, who, sandbox, PROCESS_CONTEXT, plain ? INTERP_DEFAULT : id, &at, &why) <
		    0 ||
	    agent_task_get(at.agent, at.p.task, &t, &why) < 0) {
		/* The default one need not be there yet. */
		if (plain && at.row.s.state == SB_STARTED &&
		    (why.code == ERR_NOT_FOUND || why.code == ERR_GONE))
			return 0;
		if (err)
			*err = why;
		return -1;
	}
	if (t.state == TASK_ENDED)
		return plain ? 0 : context_ended(&at, &t, err);
	if (agent_task_signal(at.agent, at.p.task, SIGINT, false, err) < 0)
		return process_failed(&at, err);
	return 0;
}
