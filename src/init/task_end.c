/*
 * task_end.c - how tasks end: by themselves, at their time limit, by a kill.
 *
 * An end is told only when the output that was there is in the rings. A kill is done when the
 * whole tree is dead, not only the process that led it.
 */
#include "init/task.h"

#include <signal.h>
#include <sys/wait.h>

#include "base/clock.h"

/* One that is being killed looks at once whether the rest is dead, too. */
static void task_settle(struct task *t)
{
	if (!t->killing)
		return;
	t->poll_at = clock_mono_ms();
	task_due(t->poll_at);
}

/* A command is kept as long as its session. */
void task_keep(struct task *t)
{
	if (t->state != TASK_ENDED || task_streams_open(t) ||
	    (t->kind == TASK_COMMAND && !t->removed))
		return;
	t->forget_at = clock_mono_ms() + (t->removed ? 0 : TASK_KEEP_MS);
	task_due(t->forget_at);
}

void task_ended(struct init *in, struct task *t, uint8_t how, uint32_t code, uint8_t cause)
{
	struct err err;

	t->state = TASK_ENDED;
	t->how = how;
	t->code = code;
	t->cause = t->why ? t->why - 1 : cause;
	t->ended_ms = clock_wall_ms();
	t->timeout_at = 0;
	command_program_drop(t);
	for (int i = 0; i < 2; i++)
		t->final[i] = t->ring[i].total;
	task_over(t, &err);
	task_writes_fail(in, t, &err);
	task_close(in, t, TASK_FD_IN);
	task_keep(t);
	task_ops_wake(in, t);
	task_settle(t);
}

static struct task *task_of_pid(pid_t pid)
{
	for (struct task *t = task_first(); t; t = t->next)
		if (t->exec.pid == pid)
			return t;
	return NULL;
}

bool task_exited(struct init *in, pid_t pid, int status, const struct rusage *ru)
{
	struct task *t = task_of_pid(pid);

	if (!t)
		return false;
	t->exec.pid = 0;
	t->user_us = timeval_us(&ru->ru_utime);
	t->sys_us = timeval_us(&ru->ru_stime);
	t->maxrss_kib = (uint64_t)ru->ru_maxrss;
	tree_retire(&t->exec);
	if (t->kind == TASK_SESSION)
		session_ended(in, t, status);
	else
		task_drain(in, t);
	if (t->kind == TASK_PTY)
		task_close(in, t, TASK_FD_OUT);
	if (WIFSIGNALED(status))
		task_ended(in, t, AGENT_EXIT_SIGNAL, (uint32_t)WTERMSIG(status), TASK_SIGNALED);
	else
		task_ended(in, t, AGENT_EXIT_CODE, (uint32_t)WEXITSTATUS(status), TASK_EXITED);
	return true;
}

/* ---- signals and kills ---- */

/* What an interactive shell obeys: it ignores TERM, as it would be told by a terminal that goes. */
static void term_send(const struct task *t)
{
	if (t->kind == TASK_COMMAND) {
		command_signal(t, SIGTERM);
		return;
	}
	if (t->kind == TASK_PTY)
		tree_signal(&t->exec, SIGHUP);
	tree_signal(&t->exec, SIGTERM);
	/* A stopped process has to wake to see it. */
	tree_signal(&t->exec, SIGCONT);
}

void task_signal(const struct task *t, int sig, bool tree)
{
	if (t->kind == TASK_COMMAND)
		command_signal(t, sig);
	else if (tree)
		tree_signal(&t->exec, sig);
	else if (t->exec.pid)
		kill(t->exec.pid, sig);
}

static void kill_send(struct task *t, int64_t now)
{
	t->kill_at = 0;
	t->killed_at = now;
	if (t->kind == TASK_COMMAND)
		command_kill(t);
	else
		tree_kill(&t->exec);
}

static bool tree_dead(const struct task *t, int64_t now)
{
	if (t->state != TASK_ENDED)
		return false;
	if (t->kind == TASK_COMMAND)
		return true;
	return tree_empty(&t->exec) || (t->killed_at && now - t->killed_at > TASK_STATUS_MS);
}

/* Frees t when it was to be removed. */
static void kill_poll(struct init *in, struct task *t, int64_t now)
{
	t->poll_at = 0;
	if (!tree_dead(t, now)) {
		if (t->kind == TASK_COMMAND && t->killed_at)
			command_kill(t);
		t->poll_at = now + TASK_POLL_MS;
		task_due(t->poll_at);
		return;
	}
	t->killing = false;
	t->kill_at = t->killed_at = 0;
	if (!t->removed) {
		task_ops_dead(in, t);
		return;
	}
	if (t->kind == TASK_SESSION)
		session_forget(in, t);
	task_free(in, t);
}

void task_kill(struct init *in, struct task *t, int64_t grace_ms, uint8_t why)
{
	int64_t now = clock_mono_ms();

	if (t->state != TASK_ENDED && !t->why)
		t->why = (uint8_t)(why + 1);
	if (t->kind == TASK_SESSION)
		session_close(t);
	if (t->state == TASK_QUEUED) {
		session_drop(t);
		task_ended(in, t, AGENT_EXIT_SIGNAL, SIGKILL, TASK_KILLED);
	} else if (!t->killing && grace_ms > 0) {
		term_send(t);
	}
	t->killing = true;
	if (!t->killed_at && (!t->kill_at || now + grace_ms < t->kill_at))
		t->kill_at = now + grace_ms;
	if (t->kill_at && t->kill_at <= now)
		kill_send(t, now);
	task_due(t->kill_at);
	kill_poll(in, t, now);
}

/* A session may still have a command in the background whose output somebody wants. */
static void task_forget(struct init *in, struct task *t, int64_t now)
{
	t->forget_at = 0;
	if (t->kind == TASK_SESSION && session_speaks(t)) {
		t->forget_at = now + TASK_KEEP_MS;
		task_due(t->forget_at);
		return;
	}
	if (t->kind == TASK_SESSION)
		session_forget(in, t);
	task_free(in, t);
}

void task_remove(struct init *in, struct task *t)
{
	t->removed = true;
	/*
	 * What an ended process left behind is not its record's to kill, a session's is: it would
	 * die of the closed pipe, so what it writes is read on, and thrown away.
	 */
	if (t->state == TASK_ENDED && t->kind != TASK_SESSION && task_streams_open(t)) {
		task_discard(t);
		task_ops_gone(in, t);
		t->id[0] = '\0'; /* free for another */
	} else if (t->state == TASK_ENDED && t->kind != TASK_SESSION) {
		task_free(in, t);
	} else {
		task_kill(in, t, t->kind == TASK_SESSION ? TASK_CLOSE_MS : 0, TASK_KILLED);
	}
}

void task_timers(struct init *in, struct task *t, int64_t now)
{
	if (t->timeout_at && t->timeout_at <= now) {
		t->timeout_at = 0;
		task_kill(in, t, 0, TASK_TIMED_OUT);
	} else if (t->kill_at && t->kill_at <= now) {
		kill_send(t, now);
	} else if (t->poll_at && t->poll_at <= now) {
		kill_poll(in, t, now);
	} else if (t->eof_at && t->eof_at <= now) {
		t->eof_at = 0;
		task_input(in, t);
	} else if (t->forget_at && t->forget_at <= now) {
		task_forget(in, t, now);
	}
}

void tasks_stopping(void)
{
	for (struct task *t = task_first(); t; t = t->next) {
		if (t->kind == TASK_SESSION)
			session_close(t);
		if (t->kind == TASK_PTY && t->state == TASK_RUNNING)
			tree_signal(&t->exec, SIGHUP);
	}
}
