/*
 * child.c - the child of a spawn, from clone to exec.
 *
 * It runs on the agent's memory while the loop waits (vfork), so: only thin or raw system calls,
 * no heap, no locks, nothing written but struct spawn. Id changes are raw calls, since libc's would
 * reach for the agent's other threads. Order matters: what needs root first, then the ids, then
 * everything that touches a path, so that the user's rights decide.
 */
#include "init/init.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/sys.h"

#define CHILD_TRIES 32 /* openat2 answers EAGAIN while a rename races with the walk */

static _Noreturn void child_fail(struct spawn *s, enum spawn_step step, int errnum)
{
	s->fail = step;
	s->errnum = errnum;
	_exit(127);
}

static void child_streams(struct spawn *s)
{
	setsid();
	if (s->flags & SPAWN_TTY && ioctl(s->in, TIOCSCTTY, 0) < 0)
		child_fail(s, STEP_TTY, errno);
	if (s->in >= 0)
		dup2(s->in, STDIN_FILENO);
	if (s->out >= 0)
		dup2(s->out, STDOUT_FILENO);
	if (s->err >= 0)
		dup2(s->err, STDERR_FILENO);
	/* All of ours are close-on-exec; this is for what might not be. */
	sys_close_range(STDERR_FILENO + 1, ~0u, 0);
}

/* A user id other than 0 loses the capabilities with the change; root keeps the sandbox's set. */
static void child_ids(struct spawn *s)
{
	const struct user *u = s->user;

	if (syscall(SYS_setgroups, u->ngroups, u->groups) < 0 ||
	    syscall(SYS_setresgid, u->gid, u->gid, u->gid) < 0 ||
	    syscall(SYS_setresuid, u->uid, u->uid, u->uid) < 0)
		child_fail(s, STEP_IDS, errno);
}

static int child_chdir(struct spawn *s, const char *path)
{
	/* No magic links: /proc/self/fd/N could lead out of any root (CVE-2024-21626). */
	struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
			       .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};
	int fd = -1;

	for (int i = 0; i < CHILD_TRIES; i++) {
		fd = sys_openat2(AT_FDCWD, path, &how);
		if (fd >= 0 || errno != EAGAIN)
			break;
	}
	if (fd < 0 || fchdir(fd) < 0)
		return -1;
	/* Unreachable from our root would read "(unreachable)…" or fail. */
	if (!getcwd(s->at, sizeof(s->at)) || s->at[0] != '/') {
		errno = ENOENT;
		return -1;
	}
	return 0;
}

static void child_cwd(struct spawn *s)
{
	bool named = s->cwd[0] != '\0';
	int errnum;

	if (child_chdir(s, named ? s->cwd : s->user->home) == 0)
		return;
	errnum = errno;
	if (named && !(s->flags & SPAWN_CWD_FALLBACK))
		child_fail(s, STEP_CWD, errnum);
	s->fell_back = true;
	if (named && child_chdir(s, s->user->home) == 0)
		return;
	if (child_chdir(s, "/") < 0)
		child_fail(s, STEP_CWD, errnum);
}

static void exec_try(const struct spawn *s, const char *path, const char *const *argv)
{
	execve(path, (char *const *)(uintptr_t)argv, (char *const *)(uintptr_t)s->env);
}

const char *const child_shells[] = {"/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash",
				    "/bin/sh",	 "/usr/bin/sh",	  "/busybox/sh",
				    NULL};

static const char *const bash_session[] = {"bash", "--norc", "--noprofile", "-s", NULL};
static const char *const sh_session[] = {"sh", "-s", NULL};

/* bash, else sh; s->argv is {name, "-c", text, …} with the name still to be put in. */
static _Noreturn void child_shell(struct spawn *s)
{
	const char **argv = (const char **)(uintptr_t)s->argv;
	int errnum = ENOENT;

	if (s->plain_argv)
		plain_exec(s);
	for (const char *const *shell = child_shells; *shell; shell++) {
		const char *name = strrchr(*shell, '/') + 1;

		argv[0] = name;
		if (s->flags & SPAWN_SESSION)
			exec_try(s, *shell, name[0] == 'b' ? bash_session : sh_session);
		else
			exec_try(s, *shell, argv);
		if (errno != ENOENT && errno != ENOTDIR)
			errnum = errno;
	}
	child_fail(s, STEP_SHELL, errnum);
}

/* As execvp, with the exec's own PATH and without its retry through a shell. */
static _Noreturn void child_search(struct spawn *s)
{
	const char *name = s->argv[0], *dir = s->path_env;
	size_t len = strlen(name);
	int errnum = ENOENT;

	for (;;) {
		size_t n = strcspn(dir, ":");

		if (n + 1 + len < sizeof(s->try)) {
			memcpy(s->try, dir, n);
			if (n)
				s->try[n++] = '/';
			memcpy(s->try + n, name, len + 1);
			exec_try(s, s->try, s->argv);
			if (errno == EACCES)
				errnum = EACCES;
			else if (errno != ENOENT && errno != ENOTDIR)
				child_fail(s, STEP_EXEC, errno);
		}
		dir += strcspn(dir, ":");
		if (!*dir)
			child_fail(s, STEP_EXEC, errnum);
		dir++;
	}
}

_Noreturn void child_run(struct spawn *s)
{
	sigset_t none;

	tree_mark(s->seq);
	child_streams(s);
	child_ids(s);
	child_cwd(s);
	umask(022);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (s->flags & SPAWN_SHELL)
		child_shell(s);
	if (!strchr(s->argv[0], '/'))
		child_search(s);
	exec_try(s, s->argv[0], s->argv);
	child_fail(s, STEP_EXEC, errno);
}
