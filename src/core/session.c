/*
 * session.c - sessions: long-lived shells in a sandbox, and the commands queued in them.
 *
 * The agent runs the shell and its queue; a command's id is that of its task. What a session is
 * called is noted in the records (process.c). An ended session takes no commands, but keeps its
 * logs until it is deleted.
 */
#include <string.h>

#include "base/clock.h"
#include "core/proc.h"

#define SESSION_GRACE_MS 500 /* from TERM to KILL of a deleted one */

static int id_usable(const char *id, struct err *err)
{
	if (strcmp(id, SESSION_ENTRYPOINT) == 0)
		return err_set(err, ERR_INVALID, "sessionId: %s is the sandbox's own session", id);
	return process_id_valid("sessionId", id, err);
}

int session_create(struct core *c, const struct caller *who, const char *sandbox, const char *id,
		   struct err *err)
{
	auto_at struct process_at at = {0};
	auto_process struct process_row old = {0}, p = {0};
	auto_task struct task_info t = {0};
	auto_free const char **env = NULL;
	struct task_spec ts = {.label = id, .kind = TASK_SESSION, .id = p.task};
	int room;

	if (id_usable(id, err) < 0 || process_begin(c, who, sandbox, &at, err) < 0)
		return -1;
	room = process_free(&at, PROCESS_SESSION, id, false, &old, err);
	if (room < 0)
		return -1;
	if (!room)
		return err_set(err, ERR_CONFLICT, "session %.255s exists already", id);
	env = spawn_env(&at.row, NULL, err);
	if (!env)
		return -1;
	ts.spawn = (struct agent_spawn){.env = env,
					.cwd = at.row.s.workdir[0] ? at.row.s.workdir : NULL,
					.user = at.row.s.user,
					.flags = SPAWN_CWD_FALLBACK};
	process_row_init(&at, PROCESS_SESSION, id, &p);
	return process_start(&at, &p, old.id[0] ? old.task : NULL, &ts, &t, err);
}

int session_delete(struct core *c, const struct caller *who, const char *sandbox, const char *id,
		   struct err *err)
{
	auto_at struct process_at at = {0};
	auto_task struct task_info t = {0};
	struct err why = {0};

	if (id_usable(id, err) < 0 ||
	    process_find(c, who, sandbox, PROCESS_SESSION, id, &at, err) < 0)
		return -1;
	if (agent_task_kill(at.agent, at.p.task, SESSION_GRACE_MS, &t, &why) < 0 ||
	    agent_task_remove(at.agent, at.p.task, &why) < 0) {
		/* One that ended long ago may be forgotten; one that was never started, too. */
		if (why.code != ERR_NOT_FOUND && why.code != ERR_GONE) {
			process_failed(&at, &why);
			if (err)
				*err = why;
			return -1;
		}
		agent_task_remove(at.agent, at.p.task, NULL);
	}
	return process_forget(c, at.row.s.id, PROCESS_SESSION, id, at.p.task, err);
}

/* ---- views ---- */

void session_views_free(struct session_view *v, size_t n)
{
	for (size_t i = 0; v && i < n; i++) {
		for (size_t k = 0; k < v[i].n; k++)
			task_info_done(&v[i].cmd[k]);
		free(v[i].cmd);
	}
	free(v);
}

static int view_add(struct session_view *v, const struct task_info *t, struct err *err)
{
	struct task_info *more;

	if ((v->n & (v->n - 1)) == 0) {
		more = realloc(v->cmd, (v->n ? 2 * v->n : 1) * sizeof(*more));
		if (!more)
			return err_set(err, ERR_NOMEM, "out of memory");
		v->cmd = more;
	}
	v->cmd[v->n] = *t;
	v->cmd[v->n].label = strdup(t->label ? t->label : "");
	if (!v->cmd[v->n].label)
		return err_set(err, ERR_NOMEM, "out of memory");
	v->n++;
	return 0;
}

/* Rows of sessions, and a view for each: row[i] is v[i]'s. */
struct views {
	struct process_row *row;
	struct session_view *v;
	size_t n;
};

static void views_done(struct views *l)
{
	for (size_t i = 0; l->row && i < l->n; i++)
		process_row_done(&l->row[i]);
	free(l->row);
	session_views_free(l->v, l->n);
}

static int views_take(void *arg, const struct task_info *t, struct err *err)
{
	struct views *l = arg;

	for (size_t i = 0; i < l->n; i++)
		if (strcmp(l->row[i].task, t->parent) == 0)
			return view_add(&l->v[i], t, err);
	return 0; /* of a session that was deleted, or is being made */
}

static int views_fill(struct process_at *at, struct views *l, const char *parent, struct err *err)
{
	l->v = calloc(l->n + 1, sizeof(*l->v));
	if (!l->v)
		return err_set(err, ERR_NOMEM, "out of memory");
	for (size_t i = 0; i < l->n; i++)
		snprintf(l->v[i].id, sizeof(l->v[i].id), "%s", l->row[i].id);
	if (l->n && agent_task_list(at->agent, TASK_COMMAND, parent, views_take, l, err) < 0)
		return process_failed(at, err);
	return 0;
}

static int views_one(struct process_at *at, struct views *l, struct err *err)
{
	auto_task struct task_info t = {0};

	if (agent_task_get(at->agent, at->p.task, &t, err) < 0)
		return process_failed(at, err);
	l->row = calloc(1, sizeof(*l->row));
	if (!l->row)
		return err_set(err, ERR_NOMEM, "out of memory");
	*l->row = at->p;
	at->p = (struct process_row){0};
	l->n = 1;
	return views_fill(at, l, l->row->task, err);
}

int session_list(struct core *c, const struct caller *who, const char *sandbox, const char *id,
		 struct session_view **ret, size_t *ret_n, struct err *err)
{
	auto_at struct process_at at = {0};
	struct views l = {0};
	int rc;

	if (id)
		rc = process_find(c, who, sandbox, PROCESS_SESSION, id, &at, err) < 0
			     ? -1
			     : views_one(&at, &l, err);
	else
		rc = process_begin(c, who, sandbox, &at, err) < 0 ||
				     store_process_list(c->st, at.row.s.id, PROCESS_SESSION,
							at.row.starts, &l.row, &l.n, err) < 0
			     ? -1
			     : views_fill(&at, &l, NULL, err);
	if (rc == 0) {
		*ret = l.v;
		*ret_n = l.n;
		l.v = NULL;
	}
	views_done(&l);
	return rc;
}

/* ---- commands ---- */

static int command_queue(struct core *c, const struct caller *who, const char *sandbox,
			 const char *id, const struct session_exec *x, struct process_at *at,
			 struct task_info *ret, struct err *err)
{
	char task[ID_LEN];

	if (x->text[strspn(x->text, " \t\r\n")] == '\0')
		return err_set(err, ERR_INVALID, "command: must not be blank");
	if (id_usable(id, err) < 0 ||
	    process_find(c, who, sandbox, PROCESS_SESSION, id, at, err) < 0)
		return -1;
	id_new(task);
	if (agent_task_exec(at->agent, at->p.task, task, x->text,
			    (x->input ? TASK_STDIN : 0) | (x->echo ? TASK_ECHO : 0), x->timeout_ms,
			    ret, err) == 0)
		return 0;
	/* The agent knows it by its task. */
	if (err && err->tag && strcmp(err->tag, "SESSION_ENDED") == 0)
		return err_tagged(err, ERR_GONE, "SESSION_ENDED", "session %.255s has ended", id);
	return process_failed(at, err);
}

int session_exec(struct core *c, const struct caller *who, const char *sandbox, const char *id,
		 const struct session_exec *x, struct task_info *ret, struct err *err)
{
	auto_at struct process_at at = {0};

	return command_queue(c, who, sandbox, id, x, &at, ret, err);
}

struct process_log *session_run(struct core *c, const struct caller *who, const char *sandbox,
				const char *id, const struct session_exec *x, struct err *err)
{
	const struct process_from from = {.streams = TASK_OUT | TASK_ERR, .follow = true};
	auto_at struct process_at at = {0};
	auto_task struct task_info t = {0};

	if (command_queue(c, who, sandbox, id, x, &at, &t, err) < 0)
		return NULL;
	return process_log_on(&at, &t, &from, err);
}
