/*
 * command.c - one command of a session: its streams, its line of program, its processes.
 *
 * The processes of a command are told from those that earlier ones left in the background by a
 * mark: before each command the shell lowers its own by one (tree.c), and all that it starts from
 * then on inherits it. The shell, which runs the command itself, is spared.
 */
#include "init/session.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "init/fifo.h"

uint64_t command_mark(const struct task *t)
{
	/* The last number stays for all that come when they are used up. */
	uint32_t sub = t->serial < TREE_SUB_MAX ? TREE_SUB_MAX - t->serial : 0;

	return tree_mark_of(t->shell->exec.seq, sub);
}

static void fifo_of(const struct task *t, char what, char out[FIFO_NAME])
{
	fifo_name(out, t->shell->exec.seq, t->serial, what);
}

/* ---- its streams ---- */

static int stream_open(struct task *t, enum task_fd which, char what, struct err *err)
{
	char name[FIFO_NAME];

	fifo_of(t, what, name);
	t->fd[which] = fifo_make(name, t->uid, t->gid, O_RDONLY, err);
	return t->fd[which] < 0 ? -1 : 0;
}

/* We hold a reading end until the shell has one: without any, a write would fail. */
static int input_open(struct task *t, struct err *err)
{
	char name[FIFO_NAME];

	fifo_of(t, 'i', name);
	t->hold = fifo_make(name, t->uid, t->gid, O_RDONLY, err);
	if (t->hold < 0)
		return -1;
	t->fd[TASK_FD_IN] = fifo_open(name, O_WRONLY, err);
	return t->fd[TASK_FD_IN] < 0 ? -1 : 0;
}

static int streams_open(struct task *t, struct err *err)
{
	if (stream_open(t, TASK_FD_OUT, 'o', err) < 0)
		return -1;
	if (!(t->tflags & TASK_NO_STDERR) && stream_open(t, TASK_FD_ERR, 'e', err) < 0)
		return -1;
	return t->tflags & TASK_STDIN ? input_open(t, err) : 0;
}

/* No event tells that a FIFO was opened; without our own reader there is either another or none. */
bool command_opened(struct task *t)
{
	struct pollfd p = {.fd = t->fd[TASK_FD_IN], .events = POLLOUT};
	char name[FIFO_NAME];

	if (t->hold < 0)
		return true;
	close(t->hold);
	t->hold = -1;
	if (poll(&p, 1, 0) >= 0 && !(p.revents & POLLERR))
		return true;
	fifo_of(t, 'i', name);
	t->hold = fifo_open(name, O_RDONLY, NULL);
	return t->hold < 0;
}

static void fifos_remove(const struct task *t)
{
	for (const char *what = "ioe"; *what && t->shell; what++) {
		char name[FIFO_NAME];

		fifo_of(t, *what, name);
		fifo_remove(name);
	}
}

/* ---- its line of program ---- */

static char *put(char *at, const char *text)
{
	return stpcpy(at, text);
}

static char *put_number(char *at, uint64_t n)
{
	char digits[24], *p = digits + sizeof(digits);

	*--p = '\0';
	do {
		*--p = (char)('0' + n % 10);
		n /= 10;
	} while (n);
	return stpcpy(at, p);
}

static char *put_fifo(char *at, const struct task *t, const char *redirect, char what)
{
	char name[FIFO_NAME];

	if (what == 's')
		fifo_name(name, t->shell->exec.seq, 0, what);
	else
		fifo_of(t, what, name);
	return put(put(put(at, redirect), FIFO_DIR "/"), name);
}

#define LINE_MAX_FIXED 512 /* all but the text */

static size_t quoted_size(const char *text)
{
	size_t n = strlen(text) + 2;

	for (; *text; text++)
		n += *text == '\'' ? 3 : 0;
	return n;
}

/*
 * command ulimit -x MARK 2>/dev/null||command ulimit -w MARK 2>/dev/null||:
 * command eval ' ' 'TEXT' <IN >|OUT 2>|ERR
 * command echo SERIAL "$?" >|STATUS||command kill -9 $$
 *
 * >| since the session may have set noclobber. The limit is -x for bash and today's busybox, -w for
 * dash and those of yesterday. A shell that cannot tell its status would leave its callers waiting.
 * The blank keeps a text that begins with - from being an option.
 */
static char *program_make(const struct task *t, const char *what)
{
	char *text = malloc(quoted_size(what) + LINE_MAX_FIXED), *at = text;

	if (!text)
		return NULL;
	at = put_number(put(at, "command ulimit -x "), command_mark(t));
	at = put_number(put(at, " 2>/dev/null||command ulimit -w "), command_mark(t));
	at = put(at, " 2>/dev/null||:\ncommand eval ' ' ");
	at = shell_quote(at, what);
	if (t->tflags & TASK_STDIN)
		at = put_fifo(at, t, " <", 'i');
	else
		at = put(at, " </dev/null");
	at = put_fifo(at, t, " >|", 'o');
	if (t->tflags & TASK_NO_STDERR)
		at = put(at, " 2>/dev/null");
	else
		at = put_fifo(at, t, " 2>|", 'e');
	at = put_number(put(at, "\ncommand echo "), t->serial);
	at = put_fifo(put(at, " \"$?\""), t, " >|", 's');
	put(at, "||command kill -9 $$\n");
	return text;
}

/* What it holds of the ceiling goes to the session with the text, once that runs. */
int command_prepare(struct task *t, const char *what, struct err *err)
{
	if (!task_hold(quoted_size(what) + LINE_MAX_FIXED))
		return err_set(err, ERR_UNAVAILABLE, "commands: too many wait in this sandbox");
	t->held = quoted_size(what) + LINE_MAX_FIXED;
	t->program = program_make(t, what);
	return t->program ? 0 : err_set(err, ERR_NOMEM, "out of memory");
}

void command_program_drop(struct task *t)
{
	task_release(t->held);
	t->held = 0;
	free(t->program);
	t->program = NULL;
}

/* ---- its life ---- */

int command_begin(struct init *in, struct task *t, struct err *err)
{
	if (streams_open(t, err) < 0) {
		command_finish(t);
		for (int i = 0; i < 3; i++)
			task_close(in, t, (enum task_fd)i);
		return -1;
	}
	t->state = TASK_RUNNING;
	t->pid = t->shell->pid;
	t->started_ms = clock_wall_ms();
	if (t->timeout_ms)
		t->timeout_at = clock_mono_ms() + t->timeout_ms;
	task_due(t->timeout_at);
	task_watch(in, t, TASK_FD_OUT, EPOLLIN);
	task_watch(in, t, TASK_FD_ERR, EPOLLIN);
	session_feed(in, t->shell, TAKE_PTR(t->program), t->held);
	t->held = 0;
	task_input(in, t);
	return 0;
}

void command_finish(struct task *t)
{
	if (t->hold >= 0)
		close(t->hold);
	t->hold = -1;
	fifos_remove(t);
}

void command_forget(struct task *t)
{
	session_drop(t);
	command_program_drop(t);
	if (t->state != TASK_QUEUED)
		command_finish(t);
}

void command_signal(const struct task *t, int sig)
{
	if (t->state == TASK_RUNNING)
		tree_sub_signal(command_mark(t), t->shell->exec.pid, sig);
}

void command_kill(struct task *t)
{
	if (t->state != TASK_RUNNING)
		return;
	command_signal(t, SIGKILL);
	/* It does not go on: it computes by itself, or waits for something else. */
	if (clock_mono_ms() - t->killed_at > TASK_STATUS_MS && t->shell->exec.pid)
		kill(t->shell->exec.pid, SIGKILL);
}
