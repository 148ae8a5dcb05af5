/*
 * spawn.c - SPAWN: user, environment, streams, process.
 *
 * The child shares our memory until it has exec'ed (a copy of even this small process costs ten
 * times the call), so its failures are read from struct spawn, with the step that failed.
 */
#include "init/init.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/sys.h"

#define SPAWN_STACK 16384

/* What a daemon may ask for. */
#define SPAWN_FLAGS (SPAWN_SHELL | SPAWN_TTY | SPAWN_STDIN | SPAWN_MERGE | SPAWN_CWD_FALLBACK)

/* ---- environment and arguments ---- */

const char *spawn_env(const struct agent_strv *env, const char *key)
{
	size_t n = strlen(key);

	for (size_t i = 0; i < env->n; i++)
		if (strncmp(env->v[i], key, n) == 0 && env->v[i][n] == '=')
			return env->v[i] + n + 1;
	return NULL;
}

#define ENV_DEFAULTS 6

/*
 * One heap block: the pointers, then the text of the defaults. It also holds {name, "-c", text,
 * …} for a shell.
 */
static void *args_build(struct spawn *s, const struct agent_req *r)
{
	const struct {
		const char *key, *value;
	} std[ENV_DEFAULTS] = {
		{"HOME", s->user->home},
		{"USER", s->user->name},
		{"LOGNAME", s->user->name},
		{"SHELL", s->user->shell},
		{"PATH", INIT_PATH},
		{"TERM", s->flags & SPAWN_TTY ? "xterm-256color" : NULL},
	};
	size_t slots = r->env.n + ENV_DEFAULTS + 1 + r->argv.n + 3, room = 64, n = 0;
	const char **v;
	char *text;

	for (size_t i = 0; i < ENV_DEFAULTS; i++)
		room += std[i].value ? strlen(std[i].key) + strlen(std[i].value) + 2 : 0;
	v = malloc(slots * sizeof(*v) + room);
	if (!v)
		return NULL;
	text = (char *)(v + slots);
	for (size_t i = 0; i < r->env.n; i++)
		if (!(s->flags & SPAWN_SESSION) || strncmp(r->env.v[i], "BASH_ENV=", 9) != 0)
			v[n++] = r->env.v[i];
	for (size_t i = 0; i < ENV_DEFAULTS; i++) {
		if (!std[i].value || spawn_env(&r->env, std[i].key))
			continue;
		v[n++] = text;
		text = stpcpy(stpcpy(stpcpy(text, std[i].key), "="), std[i].value) + 1;
	}
	v[n++] = NULL;
	s->env = v;
	s->argv = r->argv.v;
	if (s->flags & SPAWN_SHELL) {
		s->argv = v + n;
		v[n] = NULL;
		v[n + 1] = "-c";
		memcpy(v + n + 2, r->argv.v, (r->argv.n + 1) * sizeof(*v));
	}
	s->path_env = spawn_env(&r->env, "PATH");
	if (!s->path_env || !*s->path_env)
		s->path_env = INIT_PATH;
	return v;
}

int spawn_check(const struct agent_req *r, bool session, struct err *err)
{
	if (r->flags & ~(uint32_t)SPAWN_FLAGS)
		return err_set(err, ERR_INVALID, "flags: unknown bits %#x", r->flags);
	if (session && r->argv.n)
		return err_set(err, ERR_INVALID, "command: a session takes none");
	if (!session && (r->argv.n == 0 || r->argv.v[0][0] == '\0'))
		return err_set(err, ERR_INVALID, "command: must not be empty");
	if (r->cwd[0] && r->cwd[0] != '/')
		return err_set(err, ERR_INVALID, "cwd: must be an absolute path");
	for (size_t i = 0; i < r->env.n; i++)
		if (r->env.v[i][0] == '=' || !strchr(r->env.v[i], '='))
			return err_set(err, ERR_INVALID, "env: item %zu is not NAME=value", i);
	return 0;
}

/* ---- streams ---- */

struct streams {
	int child[3]; /* -1: /dev/null */
	int api[3];   /* to be sent, in order */
	size_t n;
	int master; /* ours, for RESIZE */
};

static void streams_done(struct streams *st)
{
	for (size_t i = 0; i < 3; i++) {
		if (st->child[i] >= 0 && (i == 0 || st->child[i] != st->child[i - 1]))
			close(st->child[i]);
		if (st->api[i] >= 0)
			close(st->api[i]);
	}
	if (st->master >= 0)
		close(st->master);
}

static int stream_pipe(struct streams *st, size_t which, struct err *err)
{
	int p[2];

	if (pipe2(p, O_CLOEXEC) < 0)
		return err_errno(err, ERR_NOMEM, errno, "make a pipe");
	st->child[which] = p[which ? 1 : 0];
	st->api[st->n++] = p[which ? 0 : 1];
	if (which == 1)
		fcntl(p[0], F_SETPIPE_SZ, INIT_PIPE_SIZE);
	return 0;
}

static int streams_open(struct streams *st, const struct agent_req *r, const struct user *u,
			struct err *err)
{
	if (r->flags & SPAWN_TTY) {
		int slave;

		if (tty_open(u, r->cols, r->rows, &st->master, &slave, err) < 0)
			return -1;
		st->child[0] = st->child[1] = st->child[2] = slave;
		return 0;
	}
	if (r->flags & SPAWN_STDIN && stream_pipe(st, 0, err) < 0)
		return -1;
	if (stream_pipe(st, 1, err) < 0)
		return -1;
	if (r->flags & SPAWN_MERGE)
		st->child[2] = st->child[1];
	else if (stream_pipe(st, 2, err) < 0)
		return -1;
	return 0;
}

/* ---- process ---- */

/*
 * The call and, in the child on its own stack, fn(arg). One piece of assembler, for after a
 * CLONE_VM no compiled code may return into our frames. fn and arg sit in registers the kernel
 * keeps.
 */
static long clone_call(long nr, long a, long b, void (*fn)(struct spawn *), struct spawn *arg)
{
	long ret;
#if defined(__x86_64__)
	register long r10 __asm__("r10") = 0;
	register long r8 __asm__("r8") = 0;
	register void (*r12)(struct spawn *) __asm__("r12") = fn;
	register struct spawn *r13 __asm__("r13") = arg;

	__asm__ volatile("syscall\n\t"
			 "test %%rax, %%rax\n\t"
			 "jnz 1f\n\t"
			 "xor %%ebp, %%ebp\n\t"
			 "mov %%r13, %%rdi\n\t"
			 "call *%%r12\n\t"
			 "hlt\n"
			 "1:"
			 : "=a"(ret)
			 : "a"(nr), "D"(a), "S"(b), "d"(0), "r"(r10), "r"(r8), "r"(r12), "r"(r13)
			 : "rcx", "r11", "memory");
#elif defined(__aarch64__)
	register long x8 __asm__("x8") = nr;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = 0;
	register long x3 __asm__("x3") = 0;
	register long x4 __asm__("x4") = 0;
	register void (*x19)(struct spawn *) __asm__("x19") = fn;
	register struct spawn *x20 __asm__("x20") = arg;

	__asm__ volatile("svc 0\n\t"
			 "cbnz x0, 1f\n\t"
			 "mov x29, xzr\n\t"
			 "mov x0, x20\n\t"
			 "blr x19\n\t"
			 "brk 1\n"
			 "1:"
			 : "+r"(x0)
			 : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x19), "r"(x20)
			 : "memory", "x30");
	ret = x0;
#else
#error "caisson-init knows x86_64 and aarch64"
#endif
	return ret;
}

static void child_entry(struct spawn *s)
{
	child_run(s);
}

/* Returns the pid or -errno. Born outside its leaf, a process stays outside: see tree.c. */
static long process_make(struct spawn *s)
{
	static _Alignas(16) char stack[SPAWN_STACK];
	struct clone_args args = {.flags = CLONE_VM | CLONE_VFORK | CLONE_INTO_CGROUP,
				  .exit_signal = SIGCHLD,
				  .stack = (uintptr_t)stack,
				  .stack_size = sizeof(stack),
				  .cgroup = (uint64_t)s->leaf};
	long pid;

	if (s->leaf >= 0) {
		pid = clone_call(SYS_clone3, (long)&args, sizeof(args), child_entry, s);
		s->in_leaf = pid > 0;
		if (pid > 0 || pid == -EAGAIN || pid == -ENOMEM)
			return pid;
	}
	return clone_call(SYS_clone, CLONE_VM | CLONE_VFORK | SIGCHLD,
			  (long)(stack + sizeof(stack)), child_entry, s);
}

static void oom_set(const struct init *in, const char *text)
{
	if (in->oom >= 0)
		(void)!pwrite(in->oom, text, strlen(text), 0);
}

static int step_error(const struct spawn *s, const struct agent_req *r, struct err *err)
{
	switch (s->fail) {
	case STEP_IDS:
		return err_errno(err, ERR_INVALID, s->errnum, "user: take ids %u:%u", s->user->uid,
				 s->user->gid);
	case STEP_CWD:
		return err_errno(err, ERR_INVALID, s->errnum, "cwd: %.300s",
				 s->cwd[0] ? s->cwd : s->user->home);
	case STEP_SHELL:
		if (s->errnum != ENOENT)
			return err_errno(err, ERR_FORBIDDEN, s->errnum, "run a shell");
		return err_tagged(err, ERR_NOT_FOUND, "SHELL_NOT_FOUND",
				  "the image has no shell (bash or sh); give an argument list");
	case STEP_EXEC:
		if (s->errnum == ENOENT || s->errnum == ENOTDIR)
			return err_errno(err, ERR_NOT_FOUND, s->errnum, "run %.300s", r->argv.v[0]);
		if (s->errnum == ENOEXEC || s->errnum == E2BIG)
			return err_errno(err, ERR_INVALID, s->errnum, "run %.300s", r->argv.v[0]);
		return err_errno(err, err_code_of_errno(s->errnum), s->errnum, "run %.300s",
				 r->argv.v[0]);
	default:
		return err_errno(err, ERR_INTERNAL, s->errnum, "start the process");
	}
}

/* Returns the pid of a child that has exec'ed (or was killed before it could). */
static pid_t process_start(struct init *in, struct spawn *s, const struct agent_req *r,
			   struct err *err)
{
	long pid;

	oom_set(in, INIT_OOM_ADJ);
	pid = process_make(s);
	oom_set(in, in->oom_own);
	if (pid == -EAGAIN)
		return err_errno(err, ERR_LIMIT, EAGAIN,
				 "processes: the sandbox is at its limit, end some or raise it");
	if (pid < 0)
		return err_errno(err, ERR_NOMEM, (int)-pid, "make a process");
	if (s->fail == STEP_NONE)
		return (pid_t)pid;
	while (waitpid((pid_t)pid, NULL, __WALL) < 0 && errno == EINTR)
		continue;
	return step_error(s, r, err);
}

const struct spawn *spawn_process(struct init *in, const struct agent_req *r, uint32_t flags,
				  const struct user *u, const int fd[3], struct exec *ret,
				  struct err *err)
{
	static struct spawn s;
	static uint32_t seq;
	auto_free void *args = NULL, *plain = NULL;
	auto_close int leaf = -1;
	struct exec e = {.master = -1};
	pid_t pid;

	/* Not the path buffers behind it: their pages need not be touched. */
	memset(&s, 0, offsetof(struct spawn, at) + 1);
	s.cwd = r->cwd;
	s.user = u;
	s.flags = r->flags | flags;
	s.seq = e.seq = ++seq;
	s.in = fd[0];
	s.out = fd[1];
	s.err = fd[2];
	args = args_build(&s, r);
	if (!args) {
		err_set(err, ERR_NOMEM, "out of memory");
		return NULL;
	}
	if (!(flags & SPAWN_SESSION))
		plain = plain_build(&s, r);
	s.leaf = leaf = tree_make(s.seq);
	e.leaf = leaf >= 0;
	pid = process_start(in, &s, r, err);
	if (pid < 0 || !s.in_leaf)
		tree_retire(&e);
	if (pid < 0)
		return NULL;
	e.leaf = s.in_leaf;
	e.pid = pid;
	*ret = e;
	return &s;
}

static void spawn_announce(struct init *in, struct conn *c, const struct spawn *s,
			   struct streams *st)
{
	static uint8_t raw[PATH_MAX + 64];
	struct wire_out o = wire_out_on(raw, sizeof(raw));
	const int *fds = st->master >= 0 ? &st->master : st->api;

	wire_put_u32(&o, (uint32_t)c->exec.pid);
	wire_put_u32(&o, s->user->uid);
	wire_put_u32(&o, s->user->gid);
	wire_put_str(&o, s->at);
	wire_put_u8(&o, s->fell_back);
	if (conn_send(in, c, AGENT_SPAWNED, raw, o.len, fds, st->master >= 0 ? 1 : st->n, false) <
	    0)
		conn_free(in, c);
	else
		c->exec.master = TAKE_FD(st->master);
}

void spawn_run(struct init *in, struct conn *c, const struct agent_req *r)
{
	static struct user user;
	auto_call(streams_done) struct streams st = {
		.child = {-1, -1, -1}, .api = {-1, -1, -1}, .master = -1};
	const struct spawn *s = NULL;
	struct err err;

	if (spawn_check(r, false, &err) == 0 && user_find(r->user, &user, &err) == 0 &&
	    streams_open(&st, r, &user, &err) == 0)
		s = spawn_process(in, r, 0, &user, st.child, &c->exec, &err);
	if (!s) {
		conn_fail(in, c, &err);
		return;
	}
	c->state = CONN_EXEC;
	c->deadline_ms = 0;
	spawn_announce(in, c, s, &st);
}
