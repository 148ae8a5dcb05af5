/*
 * session.c - long-lived shells that run one command after another.
 *
 * The shell reads its program from a pipe that only we write. Per command it is given one line
 * that runs the quoted text by `eval`, in the shell itself so that cd, variables and functions
 * stay, with streams of its own, and one that writes the status to a FIFO. `command` keeps a
 * failing eval from ending dash; the quoting keeps here-documents and open quotes within the text.
 * A command ends by its status, or by the shell's death, whose wait status is then the command's
 * and the session's.
 *
 * What breaks this from inside, and only for its own session: `set -n`, stopping the shell, a
 * function or alias named `command`.
 */
#include "init/session.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "init/fifo.h"

#define COMMAND_FLAGS (TASK_STDIN | TASK_ECHO | TASK_NO_STDERR)

/* ---- the shell's program ---- */

static void program_drop(struct session *s)
{
	task_release(s->held);
	free(s->program);
	s->program = NULL;
	s->len = s->pos = s->held = 0;
}

static void program_write(struct init *in, struct task *shell)
{
	struct session *s = shell->session;
	ssize_t n = 0;

	while (s->pos < s->len && shell->fd[TASK_FD_IN] >= 0) {
		n = write(shell->fd[TASK_FD_IN], s->program + s->pos, s->len - s->pos);
		if (n <= 0 && errno != EINTR)
			break;
		s->pos += n > 0 ? (size_t)n : 0;
	}
	/* A shell that reads no more is about to end, and that tells. */
	if (n < 0 && errno == EAGAIN) {
		task_watch(in, shell, TASK_FD_IN, EPOLLOUT);
		return;
	}
	task_watch(in, shell, TASK_FD_IN, 0);
	program_drop(s);
}

void session_feed(struct init *in, struct task *shell, char *text, size_t held)
{
	struct session *s = shell->session;
	size_t left = s->len - s->pos, n = strlen(text);
	char *all = s->program ? malloc(left + n) : NULL;

	s->held += held;
	if (s->program && !all) {
		/* Half a program would be a wrong one. */
		free(text);
		if (shell->exec.pid)
			kill(shell->exec.pid, SIGKILL);
		return;
	}
	if (all) {
		memcpy(all, s->program + s->pos, left);
		memcpy(all + left, text, n);
		free(s->program);
		free(text);
		s->program = all;
		s->len = left + n;
		s->pos = 0;
	} else {
		s->program = text;
		s->len = n;
		s->pos = 0;
	}
	program_write(in, shell);
}

char *shell_quote(char *out, const char *text)
{
	*out++ = '\'';
	for (; *text; text++) {
		if (*text == '\'')
			out = stpcpy(out, "'\\'");
		*out++ = *text;
	}
	*out++ = '\'';
	return out;
}

/* bash runs the file of BASH_ENV first; it could read our program. Its commands get it back. */
static char *preamble(const struct agent_req *r)
{
	static const char set[] = "export BASH_ENV=";
	const char *value = spawn_env(&r->env, "BASH_ENV");
	char *text;

	if (!value)
		return strdup("");
	text = malloc(sizeof(set) + 4 * strlen(value) + 4);
	if (text)
		memcpy(shell_quote(stpcpy(text, set), value), "\n", 2);
	return text;
}

/* ---- opening ---- */

static int shell_start(struct init *in, struct task *t, const struct agent_req *r,
		       const struct user *u, struct err *err)
{
	const struct spawn *s;
	int p[2], fd[3] = {-1, -1, -1};

	if (pipe2(p, O_CLOEXEC) < 0)
		return err_errno(err, ERR_NOMEM, errno, "make a pipe");
	fd[0] = p[0];
	t->fd[TASK_FD_IN] = p[1];
	fcntl(p[1], F_SETFL, O_NONBLOCK);
	s = spawn_process(in, r, SPAWN_SHELL | SPAWN_SESSION, u, fd, &t->exec, err);
	close(p[0]);
	if (!s)
		return -1;
	return task_began(t, s, err);
}

int session_open(struct init *in, struct task *t, const struct agent_req *r, const struct user *u,
		 struct err *err)
{
	char name[FIFO_NAME], *text;

	t->session = calloc(1, sizeof(*t->session));
	text = preamble(r);
	if (!t->session || !text) {
		free(text);
		return err_set(err, ERR_NOMEM, "out of memory");
	}
	if (shell_start(in, t, r, u, err) == 0) {
		fifo_name(name, t->exec.seq, 0, 's');
		/* Open for both, so that its end never comes. */
		t->fd[TASK_FD_OUT] = fifo_make(name, u->uid, u->gid, O_RDWR, err);
	}
	if (t->fd[TASK_FD_OUT] < 0) {
		free(text);
		return -1;
	}
	task_watch(in, t, TASK_FD_OUT, EPOLLIN);
	session_feed(in, t, text, 0);
	return 0;
}

/* ---- the queue ---- */

static void queue_put(struct session *s, struct task *t)
{
	if (s->last)
		s->last->queued = t;
	else
		s->first = t;
	s->last = t;
}

static void queue_take(struct session *s, struct task *t)
{
	struct task **at = &s->first, *before = NULL;

	while (*at && *at != t) {
		before = *at;
		at = &(*at)->queued;
	}
	if (!*at)
		return;
	*at = t->queued;
	if (s->last == t)
		s->last = before;
	t->queued = NULL;
}

/* Root inside may have removed the FIFO: those who come later get a new one. */
static void status_mend(struct init *in, struct task *shell)
{
	char name[FIFO_NAME];
	struct stat st;
	int fd;

	if (fstat(shell->fd[TASK_FD_OUT], &st) < 0 || st.st_nlink)
		return;
	fifo_name(name, shell->exec.seq, 0, 's');
	fd = fifo_make(name, shell->uid, shell->gid, O_RDWR, NULL);
	if (fd < 0)
		return;
	task_close(in, shell, TASK_FD_OUT);
	shell->fd[TASK_FD_OUT] = fd;
	task_watch(in, shell, TASK_FD_OUT, EPOLLIN);
}

static int command_turn(struct init *in, struct task *t, struct err *err)
{
	status_mend(in, t->shell);
	if (command_begin(in, t, err) < 0)
		return -1;
	t->shell->session->running = t;
	return 0;
}

static void session_next(struct init *in, struct task *shell)
{
	struct session *s = shell->session;
	struct err err;

	while (!s->running && !s->closed && s->first) {
		struct task *t = s->first;

		queue_take(s, t);
		if (command_turn(in, t, &err) < 0)
			task_ended(in, t, AGENT_EXIT_CODE, 255, TASK_LOST);
	}
}

void session_close(struct task *t)
{
	if (t->session)
		t->session->closed = true;
}

/* Of a command that did not get its turn, or that is about to be freed. */
void session_drop(struct task *t)
{
	struct session *s = t->shell ? t->shell->session : NULL;

	if (!s)
		return;
	queue_take(s, t);
	if (s->running == t)
		s->running = NULL;
}

/* ---- commands' ends ---- */

static void command_end(struct init *in, struct task *t, uint8_t how, uint32_t code, uint8_t cause)
{
	task_drain(in, t);
	command_finish(t);
	task_ended(in, t, how, code, cause);
	/* What it left in the background goes on writing into its log. */
	task_watch(in, t, TASK_FD_OUT, EPOLLIN);
	task_watch(in, t, TASK_FD_ERR, EPOLLIN);
}

/* "<serial> <code>", of the command that runs; anything else is somebody's noise. */
static void status_line(struct init *in, struct task *shell, const char *line)
{
	struct session *s = shell->session;
	struct task *t = s->running;
	char *end;
	unsigned long serial = strtoul(line, &end, 10), code;

	if (!t || serial != t->serial || end == line || *end != ' ')
		return;
	line = end + 1;
	code = strtoul(line, &end, 10);
	if (end == line || *end || code > 255)
		return;
	s->running = NULL;
	command_end(in, t, AGENT_EXIT_CODE, (uint32_t)code, TASK_EXITED);
	session_next(in, shell);
}

static void status_byte(struct init *in, struct task *shell, char c)
{
	struct session *s = shell->session;

	if (c != '\n') {
		/* Too long to be ours: its end will not parse. */
		if (s->line_len < sizeof(s->line) - 1)
			s->line[s->line_len++] = c;
		return;
	}
	s->line[s->line_len] = '\0';
	s->line_len = 0;
	status_line(in, shell, s->line);
}

static void status_read(struct init *in, struct task *shell)
{
	char raw[256];
	ssize_t n = read(shell->fd[TASK_FD_OUT], raw, sizeof(raw));

	for (ssize_t i = 0; i < n; i++)
		status_byte(in, shell, raw[i]);
}

void session_event(struct init *in, struct task *t, enum task_fd which)
{
	if (which == TASK_FD_IN)
		program_write(in, t);
	else if (which == TASK_FD_OUT && t->fd[TASK_FD_OUT] >= 0)
		status_read(in, t);
}

/* The shell is dead. A status it wrote before counts. */
void session_ended(struct init *in, struct task *t, int status)
{
	struct session *s = t->session;
	bool signaled = WIFSIGNALED(status);
	char name[FIFO_NAME];
	struct task *c;

	s->closed = true;
	status_read(in, t);
	c = s->running;
	s->running = NULL;
	if (c)
		command_end(in, c, signaled ? AGENT_EXIT_SIGNAL : AGENT_EXIT_CODE,
			    (uint32_t)(signaled ? WTERMSIG(status) : WEXITSTATUS(status)),
			    signaled ? TASK_SIGNALED : TASK_EXITED);
	while ((c = s->first)) {
		queue_take(s, c);
		task_ended(in, c, AGENT_EXIT_CODE, 255, TASK_LOST);
	}
	fifo_name(name, t->exec.seq, 0, 's');
	fifo_remove(name);
	task_close(in, t, TASK_FD_OUT);
	program_drop(s);
}

/* ---- the record ---- */

void session_forget(struct init *in, struct task *t)
{
	struct task *next;

	for (struct task *c = task_first(); c; c = next) {
		next = c->next;
		if (c->shell == t)
			task_free(in, c);
	}
}

bool session_speaks(const struct task *t)
{
	for (const struct task *c = task_first(); c; c = c->next)
		if (c->shell == t && task_streams_open(c))
			return true;
	return false;
}

void session_free(struct task *t)
{
	char name[FIFO_NAME];

	if (!t->session)
		return;
	fifo_name(name, t->exec.seq, 0, 's');
	fifo_remove(name);
	program_drop(t->session);
	free(t->session);
}

/* ---- TASK_EXEC ---- */

static int exec_check(const struct agent_req *r, const struct task *shell, struct err *err)
{
	if (!shell || shell->kind != TASK_SESSION)
		return task_unknown(r->parent, err);
	if (shell->state == TASK_ENDED || shell->session->closed)
		return task_over(shell, err);
	if (r->tflags & ~(uint32_t)COMMAND_FLAGS)
		return err_set(err, ERR_INVALID, "tflags: not of a command");
	if (!r->text[0])
		return err_set(err, ERR_INVALID, "command: must not be empty");
	if (task_id_taken(r->id))
		return err_set(err, ERR_CONFLICT, "process %s exists", r->id);
	return 0;
}

static struct task *command_new(struct init *in, const struct agent_req *r, struct task *shell,
				struct err *err)
{
	char label[TASK_LABEL_MAX + 1];
	struct task *t;

	/* What it was, for as long as it is known: the text itself goes when its turn comes. */
	memcpy(label, r->text, strnlen(r->text, TASK_LABEL_MAX));
	label[strnlen(r->text, TASK_LABEL_MAX)] = '\0';
	t = task_new(in, r->id, r->parent, label, err);
	if (!t)
		return NULL;
	t->kind = TASK_COMMAND;
	t->state = TASK_QUEUED;
	t->tflags = r->tflags;
	t->uid = shell->uid;
	t->gid = shell->gid;
	t->shell = shell;
	t->hold = -1;
	t->timeout_ms = r->timeout_ms < TASK_TIMEOUT_MAX ? (int64_t)r->timeout_ms : 0;
	t->serial = ++shell->session->serial;
	if (command_prepare(t, r->text, err) == 0)
		return t;
	task_free(in, t);
	return NULL;
}

static struct task *command_put(struct init *in, const struct agent_req *r, struct task *shell,
				struct err *err)
{
	struct session *s = shell->session;
	struct task *t = command_new(in, r, shell, err);

	if (!t || s->running) {
		if (t)
			queue_put(s, t);
		return t;
	}
	if (command_turn(in, t, err) < 0) {
		task_free(in, t);
		return NULL;
	}
	return t;
}

void session_exec(struct init *in, struct conn *c, const struct agent_req *r)
{
	struct task *shell = task_find(r->parent), *t = task_find(r->id);
	bool existed = t && t->kind == TASK_COMMAND && strcmp(t->parent, r->parent) == 0;
	struct err err;

	if (!existed)
		t = exec_check(r, shell, &err) < 0 ? NULL : command_put(in, r, shell, &err);
	if (t)
		task_reply(in, c, t, existed, NULL, 0);
	else
		conn_fail(in, c, &err);
}
