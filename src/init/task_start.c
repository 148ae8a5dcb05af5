/*
 * task_start.c - TASK_START: a process whose streams stay with us.
 */
#include "init/task.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"

#define TASK_FLAGS (TASK_STDIN | TASK_ECHO | TASK_PIPES | TASK_NO_STDERR)

/* The child's ends; ours are in the task already. */
struct ends {
	int fd[3];
};

static void ends_done(struct ends *e)
{
	for (int i = 0; i < 3; i++)
		if (e->fd[i] >= 0 && (i == 0 || e->fd[i] != e->fd[i - 1]))
			close(e->fd[i]);
}
#define auto_ends auto_call(ends_done)

static int pipe_open(struct task *t, struct ends *e, enum task_fd which, struct err *err)
{
	bool input = which == TASK_FD_IN;
	int p[2];

	if (pipe2(p, O_CLOEXEC) < 0)
		return err_errno(err, ERR_NOMEM, errno, "make a pipe");
	e->fd[which] = p[input ? 0 : 1];
	t->fd[which] = p[input ? 1 : 0];
	fcntl(t->fd[which], F_SETFL, O_NONBLOCK);
	return 0;
}

/* The master twice, so that each direction has its own place in the loop. */
static int terminal_open(struct task *t, struct ends *e, const struct agent_req *r,
			 const struct user *u, struct err *err)
{
	int slave;

	t->cols = r->cols ? r->cols : TTY_COLS;
	t->rows = r->rows ? r->rows : TTY_ROWS;
	if (tty_open(u, t->cols, t->rows, &t->fd[TASK_FD_OUT], &slave, err) < 0)
		return -1;
	e->fd[0] = e->fd[1] = e->fd[2] = slave;
	t->fd[TASK_FD_IN] = fcntl(t->fd[TASK_FD_OUT], F_DUPFD_CLOEXEC, 0);
	if (t->fd[TASK_FD_IN] < 0)
		return err_errno(err, ERR_NOMEM, errno, "open a terminal");
	return 0;
}

static int streams_open(struct task *t, struct ends *e, const struct agent_req *r,
			const struct user *u, struct err *err)
{
	if (t->kind == TASK_PTY)
		return terminal_open(t, e, r, u, err);
	if ((t->tflags & (TASK_STDIN | TASK_PIPES)) && pipe_open(t, e, TASK_FD_IN, err) < 0)
		return -1;
	if (pipe_open(t, e, TASK_FD_OUT, err) < 0)
		return -1;
	if (t->tflags & TASK_NO_STDERR)
		return 0;
	if (t->tflags & TASK_PIPES || r->flags & SPAWN_MERGE) {
		e->fd[2] = e->fd[1];
		return 0;
	}
	return pipe_open(t, e, TASK_FD_ERR, err);
}

static int start_check(const struct agent_req *r, struct err *err)
{
	if (r->kind < TASK_DETACHED || r->kind > TASK_INTERPRETER || r->kind == TASK_COMMAND)
		return err_set(err, ERR_INVALID, "kind: %u is none that can be started", r->kind);
	if (r->tflags & ~(uint32_t)TASK_FLAGS)
		return err_set(err, ERR_INVALID, "tflags: unknown bits %#x", r->tflags);
	if (r->flags & (SPAWN_TTY | SPAWN_STDIN))
		return err_set(err, ERR_INVALID, "flags: the kind says what its streams are");
	if (r->kind != TASK_DETACHED && r->kind != TASK_INTERPRETER && r->tflags)
		return err_set(err, ERR_INVALID, "tflags: not of this kind");
	return spawn_check(r, r->kind == TASK_SESSION, err);
}

static int task_begin(struct init *in, struct task *t, const struct agent_req *r,
		      const struct user *u, struct err *err)
{
	uint32_t flags = t->kind == TASK_PTY ? SPAWN_TTY : 0;
	auto_ends struct ends e = {{-1, -1, -1}};
	const struct spawn *s;

	if (t->kind == TASK_SESSION)
		return session_open(in, t, r, u, err);
	if (streams_open(t, &e, r, u, err) < 0)
		return -1;
	s = spawn_process(in, r, flags, u, e.fd, &t->exec, err);
	return s ? task_began(t, s, err) : -1;
}

int task_began(struct task *t, const struct spawn *s, struct err *err)
{
	t->state = TASK_RUNNING;
	t->pid = (uint32_t)t->exec.pid;
	t->uid = s->user->uid;
	t->gid = s->user->gid;
	t->started_ms = clock_wall_ms();
	t->cwd = strdup(s->at);
	if (t->cwd)
		return 0;
	tree_kill(&t->exec);
	return err_set(err, ERR_NOMEM, "out of memory");
}

static struct task *task_make(struct init *in, const struct agent_req *r, struct err *err)
{
	static struct user user;
	struct task *t;

	if (start_check(r, err) < 0 || user_find(r->user, &user, err) < 0)
		return NULL;
	t = task_new(in, r->id, "", r->label, err);
	if (!t)
		return NULL;
	t->kind = r->kind;
	t->tflags = r->tflags;
	if (task_begin(in, t, r, &user, err) < 0) {
		task_free(in, t);
		return NULL;
	}
	if (r->timeout_ms && r->timeout_ms < TASK_TIMEOUT_MAX)
		t->timeout_at = clock_mono_ms() + (int64_t)r->timeout_ms;
	task_due(t->timeout_at);
	if (!(t->tflags & TASK_PIPES) && t->kind != TASK_SESSION) {
		task_watch(in, t, TASK_FD_OUT, EPOLLIN);
		task_watch(in, t, TASK_FD_ERR, EPOLLIN);
	}
	return t;
}

void task_start_run(struct init *in, struct conn *c, const struct agent_req *r)
{
	struct task *t = task_find(r->id);
	bool existed = t != NULL;
	struct err err;

	if (!t && task_id_taken(r->id))
		err_set(&err, ERR_CONFLICT, "process %s is being removed", r->id);
	else if (!t)
		t = task_make(in, r, &err);
	if (t)
		task_reply(in, c, t, existed, NULL, 0);
	else
		conn_fail(in, c, &err);
}
