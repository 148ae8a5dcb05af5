/*
 * pty.c - terminals: a login shell on a terminal that outlives its clients.
 *
 * A terminal is found as long as its shell lives. The row stays behind, so that a resize of one
 * that has ended is told so, and its name may be taken again. A lazy one has a row without a task;
 * the first client takes the row over with the task it starts.
 */
#include <string.h>

#include "base/clock.h"
#include "core/proc.h"

#define PTY_LAZY_MAX  64
#define PTY_LINGER_MS 15000 /* readers may take the last output so long */
#define PTY_TERM      "xterm-256color"

/*
 * The user's own shell when it is one, else bash, else sh. As text for the agent's shell: only
 * inside can be seen what there is.
 */
static const char pty_shell[] = "s=$(getent passwd \"$(id -u)\" 2>/dev/null || grep "
				"\"^[^:]*:[^:]*:$(id -u):\" /etc/passwd)\n"
				"s=${s##*:}\n"
				"case ${s##*/} in zsh|bash|fish|ksh|ash|dash|sh) [ -x \"$s\" ] && "
				"exec \"$s\" -i -l;; esac\n"
				"[ -x /bin/bash ] && exec /bin/bash -i -l\n"
				"exec sh -i -l";

void pty_info_done(struct pty_info *p)
{
	kv_done(&p->env);
}

static int pty_gone(const char *id, struct err *err)
{
	return err_tagged(err, ERR_GONE, "SESSION_ENDED", "terminal %.255s has ended", id);
}

/* ---- starting ---- */

static int pty_start(struct process_at *at, struct process_row *p, const char *was,
		     struct task_info *ret, struct err *err)
{
	const char *const argv[] = {pty_shell, NULL};
	auto_free const char **env = NULL;
	auto_kv struct kv more = {0};
	struct task_spec ts = {.id = p->task, .label = p->id, .kind = TASK_PTY};

	if (kv_set(&more, "TERM", PTY_TERM, err) < 0 || kv_merge(&more, &p->env, err) < 0)
		return -1;
	env = spawn_env(&at->row, &more, err);
	if (!env)
		return -1;
	ts.spawn = (struct agent_spawn){.argv = argv,
					.env = env,
					.cwd = p->cwd && p->cwd[0] ? p->cwd : NULL,
					.user = at->row.s.user,
					.flags = SPAWN_SHELL | (p->cwd ? 0 : SPAWN_CWD_FALLBACK),
					.cols = (uint16_t)p->cols,
					.rows = (uint16_t)p->rows};
	if (!ts.spawn.cwd && at->row.s.workdir[0])
		ts.spawn.cwd = at->row.s.workdir;
	return process_start(at, p, was, &ts, ret, err);
}

static int pty_row(struct process_at *at, const struct pty_spec *s, struct process_row *p,
		   struct err *err)
{
	char cwd[AGENT_PATH_MAX];

	process_row_init(at, PROCESS_PTY, s->id, p);
	p->cols = s->cols;
	p->rows = s->rows;
	p->lazy = s->lazy;
	if (s->env && kv_copy(&p->env, s->env, err) < 0)
		return -1;
	if (!s->cwd)
		return 0;
	if (path_of(at->core, &at->row, at->agent, s->cwd, cwd, err) < 0)
		return process_failed(at, err);
	p->cwd = strdup(cwd);
	return p->cwd ? 0 : err_set(err, ERR_NOMEM, "out of memory");
}

static int pty_check(const struct pty_spec *s, struct err *err)
{
	if (process_id_valid("id", s->id, err) < 0)
		return -1;
	if (s->cwd && valid_path(s->cwd, err) < 0)
		return -1;
	return s->env ? valid_env("envs", s->env, err) : 0;
}

/* Those that wait for a client have no task that the agent would bound. */
static int lazy_room(struct process_at *at, struct err *err)
{
	struct process_row *row = NULL;
	size_t n = 0, waiting = 0;

	if (store_process_list(at->core->st, at->row.s.id, PROCESS_PTY, at->row.starts, &row, &n,
			       err) < 0)
		return -1;
	for (size_t i = 0; i < n; i++) {
		waiting += !row[i].task[0];
		process_row_done(&row[i]);
	}
	free(row);
	if (waiting < PTY_LAZY_MAX)
		return 0;
	return err_set(err, ERR_LIMIT,
		       "limit of %d terminals that wait for their first client reached; use or "
		       "delete some",
		       PTY_LAZY_MAX);
}

int pty_create(struct core *c, const struct caller *who, const char *sandbox,
	       const struct pty_spec *s, struct err *err)
{
	auto_at struct process_at at = {0};
	auto_process struct process_row old = {0}, p = {0};
	auto_task struct task_info t = {0};
	const char *was;
	int room, rc;

	if (pty_check(s, err) < 0 || process_begin(c, who, sandbox, &at, err) < 0)
		return -1;
	room = process_free(&at, PROCESS_PTY, s->id, true, &old, err);
	if (room < 0)
		return -1;
	if (!room)
		return err_set(err, ERR_CONFLICT, "terminal %.255s exists already", s->id);
	if (pty_row(&at, s, &p, err) < 0)
		return -1;
	was = old.id[0] ? old.task : NULL;
	if (s->lazy) {
		p.task[0] = '\0';
		return lazy_room(&at, err) < 0 ? -1 : process_put(c, &p, was, err);
	}
	rc = pty_start(&at, &p, was, &t, err);
	if (rc == 0 && old.task[0] && old.start == at.row.starts)
		process_remove_later(c, at.row.s.id, old.task, PTY_LINGER_MS);
	return rc;
}

/* The task of a terminal, which a lazy one gets now. */
static int pty_task(struct process_at *at, const char *id, struct task_info *ret, struct err *err)
{
	struct err why = {0};

	if (!at->p.task[0]) {
		id_new(at->p.task);
		if (pty_start(at, &at->p, "", ret, &why) == 0)
			return 0;
		if (why.code != ERR_CONFLICT) {
			if (err)
				*err = why;
			return -1;
		}
		/* Another client was first. */
		process_row_done(&at->p);
		if (store_process_get(at->core->st, at->row.s.id, PROCESS_PTY, id, &at->p, err) < 0)
			return -1;
		why = (struct err){0};
	}
	if (agent_task_get(at->agent, at->p.task, ret, &why) == 0)
		return 0;
	if (why.code == ERR_NOT_FOUND)
		return process_absent(PROCESS_PTY, id, err);
	process_failed(at, &why);
	if (err)
		*err = why;
	return -1;
}

struct process_log *pty_attach(struct core *c, const struct caller *who, const char *sandbox,
			       const char *id, uint64_t offset, struct err *err)
{
	struct process_from from = {.streams = TASK_OUT, .out = offset, .follow = true};
	auto_at struct process_at at = {0};
	auto_task struct task_info t = {0};

	if (process_find(c, who, sandbox, PROCESS_PTY, id, &at, err) < 0)
		return NULL;
	/* A shell that begins with this client has said nothing to anybody else. */
	if (!at.p.task[0])
		from.out = 0;
	if (pty_task(&at, id, &t, err) < 0)
		return NULL;
	if (t.state == TASK_ENDED && offset == TASK_TAIL) {
		process_absent(PROCESS_PTY, id, err);
		return NULL;
	}
	return process_log_on(&at, &t, &from, err);
}

/* ---- looking ---- */

/* t NULL: it waits for its first client. */
static int info_fill(struct process_at *at, const struct process_row *p, const struct task_info *t,
		     struct pty_info *ret, struct err *err)
{
	struct pty_info i = {.cols = t ? t->cols : p->cols,
			     .rows = t ? t->rows : p->rows,
			     .created_ms = p->created_ms,
			     .active = t != NULL,
			     .lazy = p->lazy};

	snprintf(i.id, sizeof(i.id), "%s", p->id);
	if (t)
		snprintf(i.cwd, sizeof(i.cwd), "%s", t->cwd);
	else if (p->cwd)
		snprintf(i.cwd, sizeof(i.cwd), "%s", p->cwd);
	else if (sandbox_workdir(at->core, at->who, at->row.s.id, i.cwd, sizeof(i.cwd), err) < 0)
		return -1;
	if (kv_copy(&i.env, &p->env, err) < 0)
		return -1;
	*ret = i;
	return 0;
}

/* 1 it lives or waits (then t is untouched), 0 it has ended, -1. */
static int pty_look(struct process_at *at, struct task_info *t, struct err *err)
{
	struct err why = {0};

	if (!at->p.task[0])
		return 1;
	if (agent_task_get(at->agent, at->p.task, t, &why) == 0)
		return t->state != TASK_ENDED;
	if (why.code == ERR_NOT_FOUND)
		return 0;
	process_failed(at, &why);
	if (err)
		*err = why;
	return -1;
}

int pty_get(struct core *c, const struct caller *who, const char *sandbox, const char *id,
	    struct pty_info *ret, struct err *err)
{
	auto_at struct process_at at = {0};
	auto_task struct task_info t = {0};
	int lives;

	if (process_find(c, who, sandbox, PROCESS_PTY, id, &at, err) < 0)
		return -1;
	lives = pty_look(&at, &t, err);
	if (lives <= 0)
		return lives < 0 ? -1 : process_absent(PROCESS_PTY, id, err);
	return info_fill(&at, &at.p, at.p.task[0] ? &t : NULL, ret, err);
}

struct pty_walk {
	struct process_at *at;
	struct process_row *row;
	struct task_info *task; /* of row i; id "" not seen */
	size_t n;
};

static int walk_take(void *arg, const struct task_info *t, struct err *err)
{
	struct pty_walk *w = arg;

	(void)err;
	for (size_t i = 0; i < w->n; i++) {
		if (strcmp(w->row[i].task, t->id) != 0 || w->task[i].id[0])
			continue;
		w->task[i] = *t;
		w->task[i].label = NULL;
	}
	return 0;
}

static int walk_tell(struct pty_walk *w, pty_fn fn, void *arg, struct err *err)
{
	for (size_t i = 0; i < w->n; i++) {
		auto_pty struct pty_info p = {0};
		bool waits = !w->row[i].task[0];

		if (!waits && (!w->task[i].id[0] || w->task[i].state == TASK_ENDED))
			continue;
		if (info_fill(w->at, &w->row[i], waits ? NULL : &w->task[i], &p, err) < 0 ||
		    fn(arg, &p, err) < 0)
			return -1;
	}
	return 0;
}

int pty_list(struct core *c, const struct caller *who, const char *sandbox, pty_fn fn, void *arg,
	     struct err *err)
{
	auto_at struct process_at at = {0};
	struct pty_walk w = {.at = &at};
	int rc = 0;

	if (process_begin(c, who, sandbox, &at, err) < 0 ||
	    store_process_list(c->st, at.row.s.id, PROCESS_PTY, at.row.starts, &w.row, &w.n, err) <
		    0)
		return -1;
	w.task = calloc(w.n + 1, sizeof(*w.task));
	if (!w.task)
		rc = err_set(err, ERR_NOMEM, "out of memory");
	else if (w.n && agent_task_list(at.agent, TASK_PTY, NULL, walk_take, &w, err) < 0)
		rc = process_failed(&at, err);
	if (rc == 0)
		rc = walk_tell(&w, fn, arg, err);
	for (size_t i = 0; i < w.n; i++)
		process_row_done(&w.row[i]);
	free(w.row);
	free(w.task);
	return rc;
}

/* ---- changing ---- */

/* A terminal that lives or waits for its first client. */
static int find_living(struct core *c, const struct caller *who, const char *sandbox,
		       const char *id, struct process_at *at, struct err *err)
{
	auto_task struct task_info t = {0};
	int lives;

	if (process_find(c, who, sandbox, PROCESS_PTY, id, at, err) < 0)
		return -1;
	lives = pty_look(at, &t, err);
	if (lives < 0)
		return -1;
	return lives ? 0 : pty_gone(id, err);
}

int pty_resize(struct core *c, const struct caller *who, const char *sandbox, const char *id,
	       unsigned cols, unsigned rows, struct pty_info *ret, struct err *err)
{
	auto_at struct process_at at = {0};
	auto_task struct task_info now = {0};

	if (find_living(c, who, sandbox, id, &at, err) < 0)
		return -1;
	if (!at.p.task[0]) {
		at.p.cols = cols;
		at.p.rows = rows;
		return process_put(c, &at.p, "", err) < 0 ? -1
							  : info_fill(&at, &at.p, NULL, ret, err);
	}
	if (agent_task_resize(at.agent, at.p.task, (uint16_t)cols, (uint16_t)rows, &now, err) < 0)
		return process_failed(&at, err);
	return info_fill(&at, &at.p, &now, ret, err);
}

int pty_kill(struct core *c, const struct caller *who, const char *sandbox, const char *id,
	     struct err *err)
{
	auto_at struct process_at at = {0};
	auto_task struct task_info now = {0};

	if (find_living(c, who, sandbox, id, &at, err) < 0)
		return -1;
	if (!at.p.task[0])
		return process_forget(c, at.row.s.id, PROCESS_PTY, id, "", err);
	if (agent_task_kill(at.agent, at.p.task, 0, &now, err) < 0)
		return process_failed(&at, err);
	process_remove_later(c, at.row.s.id, at.p.task, PTY_LINGER_MS);
	return 0;
}
