/*
 * agentbox.c - see agentbox.h. Ids inside are UID_BASE and up outside, on disk too.
 */
#include "unit/agentbox.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/sys.h"

#define BUSYBOX	       "/bin/busybox"
#define INIT_PATH      TEST_TOP "/build/caisson-init"
#define UID_BASE       0x7a000000u
#define OUTPUT_MAX     (512u << 20)
#define READY_MS       10000
#define DOCKER_CAPS    0xa80425fbull
#define CGROUP_UNIFIED "/sys/fs/cgroup/unified"

static const char passwd_text[] = "root:x:0:0:root:/root:/bin/sh\n"
				  "dev:x:1000:1000:Dev,,,:/home/dev:/bin/sh\n"
				  "nohome:x:1002:1002::/nonexistent:/bin/sh\n"
				  "broken line\n"
				  "0x0:x:0:0::/:/bin/sh\n"
				  "1003:x:1234:1234::/:/bin/sh\n";
static const char group_text[] = "root:x:0:\n"
				 "dev:x:1000:\n"
				 "sudo:x:27:other,dev\n"
				 "docker:x:999:dev\n"
				 "devs:x:1001:devil,xdev\n";

static const char *cgroup_parent(void)
{
	static const char *const at[] = {"/sys/fs/cgroup/cgroup.procs",
					 CGROUP_UNIFIED "/cgroup.procs"};

	if (access(at[0], W_OK) == 0)
		return "/sys/fs/cgroup";
	return access(at[1], W_OK) == 0 ? CGROUP_UNIFIED : NULL;
}

bool agentbox_cgroup_possible(void)
{
	return cgroup_parent() != NULL;
}

bool agentbox_possible(void)
{
	return geteuid() == 0 && access(BUSYBOX, X_OK) == 0 && access(INIT_PATH, X_OK) == 0;
}

static void file_copy(const char *from, const char *to)
{
	static char chunk[1 << 16];
	auto_close int in = open(from, O_RDONLY | O_CLOEXEC);
	auto_close int out = open(to, O_WRONLY | O_CREAT | O_CLOEXEC, 0755);
	ssize_t n;

	while ((n = read(in, chunk, sizeof(chunk))) > 0)
		if (write(out, chunk, (size_t)n) != n)
			abort();
}

void agentbox_write(const struct agentbox *b, const char *path, const char *text, mode_t mode,
		    uid_t uid)
{
	char full[512];
	auto_close int fd = -1;

	snprintf(full, sizeof(full), "%s%s", b->root, path);
	fd = open(full, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
	if (fd < 0 || write(fd, text, strlen(text)) < 0 ||
	    fchown(fd, UID_BASE + uid, UID_BASE + uid) < 0 || fchmod(fd, mode) < 0)
		abort();
}

static void root_make(const struct agentbox *b, unsigned flags)
{
	static const char *const dirs[] = {"",	       "/bin", "/etc",	"/proc", "/dev",
					   "/dev/pts", "/tmp", "/root", "/home", "/home/dev"};
	static const char *const applets[] = {
		"sh",	  "sleep", "cat",    "id",     "ls",	"seq",	"yes",	     "setsid",
		"true",	  "env",   "ps",     "kill",   "head",	"stat", "sha256sum", "touch",
		"rm",	  "echo",  "printf", "ln",     "mkdir", "test", "mv",	     "wc",
		"base64", "tty",   "stty",   "mkfifo", "chmod", "pwd",	"readlink",  "dd",
		"grep",	  "false", "cp",     "awk",    "rmdir"};
	char at[256];

	for (size_t i = 0; i < ARRAY_LEN(dirs); i++) {
		snprintf(at, sizeof(at), "%s%s", b->root, dirs[i]);
		if (mkdir(at, 0755) < 0 || chown(at, UID_BASE, UID_BASE) < 0)
			abort();
	}
	snprintf(at, sizeof(at), "%s/tmp", b->root);
	chmod(at, 01777);
	snprintf(at, sizeof(at), "%s/home/dev", b->root);
	if (chown(at, UID_BASE + 1000, UID_BASE + 1000) < 0)
		abort();
	snprintf(at, sizeof(at), "%s/bin/busybox", b->root);
	file_copy(BUSYBOX, at);
	for (size_t i = 0; i < ARRAY_LEN(applets); i++) {
		if (flags & AGENTBOX_NO_SHELL && strcmp(applets[i], "sh") == 0)
			continue;
		snprintf(at, sizeof(at), "%s/bin/%s", b->root, applets[i]);
		if (symlink("busybox", at) < 0)
			abort();
	}
	if (flags & AGENTBOX_NO_PASSWD)
		return;
	agentbox_write(b, "/etc/passwd", passwd_text, 0644, 0);
	agentbox_write(b, "/etc/group", group_text, 0644, 0);
}

static int sock_listen(const char *path)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", path);
	if (bind(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0 || listen(fd, 128) < 0)
		abort();
	return fd;
}

static void child_mounts(const struct agentbox *b)
{
	static const char *const nodes[] = {"/dev/null", "/dev/zero", "/dev/tty"};

	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount(b->root, b->root, NULL, MS_BIND, NULL) < 0 || chdir(b->root) < 0 ||
	    mount("proc", "proc", "proc", 0, NULL) < 0 ||
	    mount("tmpfs", "dev", "tmpfs", 0, "mode=0755") < 0 || mkdir("dev/pts", 0755) < 0 ||
	    mount("devpts", "dev/pts", "devpts", 0, "newinstance,ptmxmode=0666,gid=5") < 0 ||
	    symlink("pts/ptmx", "dev/ptmx") < 0)
		_exit(81);
	for (size_t i = 0; i < ARRAY_LEN(nodes); i++) {
		auto_close int fd = open(nodes[i] + 1, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

		if (fd < 0 || mount(nodes[i], nodes[i] + 1, NULL, MS_BIND, NULL) < 0)
			_exit(82);
	}
	if (sys_pivot_root(".", ".") < 0 || umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
		_exit(83);
}

/* As a box of that limit has it. */
static void child_small(void)
{
	static const char text[] = "MemTotal:          65536 kB\nMemFree:           60000 kB\n";
	int fd = open("/dev/meminfo", O_WRONLY | O_CREAT | O_CLOEXEC, 0444);

	if (write(fd, text, strlen(text)) < 0 ||
	    mount("/dev/meminfo", "/proc/meminfo", NULL, MS_BIND, NULL) < 0)
		_exit(86);
	close(fd);
}

static void clone3_refuse(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0 /* nr */),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = {.len = ARRAY_LEN(code), .filter = code};

	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog) < 0)
		_exit(85);
}

struct child_fds {
	int listener, status, cgroup, mapped;
};

static _Noreturn void child_main(const struct agentbox *b, unsigned flags,
				 const struct child_fds *fds)
{
	int exe = open(INIT_PATH, O_RDONLY | O_CLOEXEC), from[3], null;
	char *none[] = {NULL}, go;

	from[0] = fcntl(fds->listener, F_DUPFD, 20);
	from[1] = fcntl(fds->status, F_DUPFD, 20);
	from[2] = fds->cgroup >= 0 ? fcntl(fds->cgroup, F_DUPFD, 20) : -1;
	exe = fcntl(exe, F_DUPFD_CLOEXEC, 20);
	if (read(fds->mapped, &go, 1) != 1 || syscall(SYS_setgroups, 0, NULL) < 0 ||
	    syscall(SYS_setresgid, 0, 0, 0) < 0 || syscall(SYS_setresuid, 0, 0, 0) < 0)
		_exit(80);
	child_mounts(b);
	null = open("/dev/null", O_RDWR);
	for (int i = 0; i < 3; i++) {
		dup2(null, i);
		close(3 + i);
		if (from[i] >= 0)
			dup2(from[i], 3 + i);
	}
	for (int cap = 0; cap < 64; cap++)
		if (!(DOCKER_CAPS >> cap & 1))
			prctl(PR_CAPBSET_DROP, cap);
	if (flags & AGENTBOX_SMALL)
		child_small();
	if (flags & AGENTBOX_NO_CLONE3)
		clone3_refuse();
	signal(SIGPIPE, SIG_IGN); /* must not reach the commands */
	sys_execveat(exe, "", (char *[]){"caisson-init", NULL}, none, AT_EMPTY_PATH);
	_exit(84);
}

static int cgroup_make(struct agentbox *b)
{
	const char *parent = cgroup_parent();
	static unsigned seq;
	char procs[160];

	if (!parent)
		return -1;
	snprintf(b->cgroup, sizeof(b->cgroup), "%s/caisson-test-%d-%u", parent, getpid(), seq++);
	if (mkdir(b->cgroup, 0755) < 0 || chown(b->cgroup, UID_BASE, UID_BASE) < 0)
		return -1;
	snprintf(procs, sizeof(procs), "%s/cgroup.procs", b->cgroup);
	if (chown(procs, UID_BASE, UID_BASE) < 0)
		return -1;
	return open(b->cgroup, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

static void text_write(const char *path, const char *text)
{
	auto_close int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		abort();
}

/* Ids and cgroup of the new process, before it goes on. */
static void child_admit(const struct agentbox *b, int mapped)
{
	static const char *const maps[] = {"uid_map", "gid_map"};
	char path[160], text[64];

	snprintf(text, sizeof(text), "0 %u 65536", UID_BASE);
	for (size_t i = 0; i < ARRAY_LEN(maps); i++) {
		snprintf(path, sizeof(path), "/proc/%d/%s", b->pid, maps[i]);
		text_write(path, text);
	}
	if (b->cgroup[0]) {
		snprintf(path, sizeof(path), "%s/cgroup.procs", b->cgroup);
		snprintf(text, sizeof(text), "%d", b->pid);
		text_write(path, text);
	}
	if (write(mapped, "m", 1) != 1)
		abort();
}

int agentbox_start(struct agentbox *b, unsigned flags)
{
	auto_close int listener = -1, cgroup = -1, ready = -1;
	int status[2], mapped[2];
	int64_t began;
	struct err err;
	char got;

	memset(b, 0, sizeof(*b));
	snprintf(b->dir, sizeof(b->dir), "/tmp/caisson-agent-XXXXXX");
	if (!mkdtemp(b->dir))
		return -1;
	snprintf(b->root, sizeof(b->root), "%s/root", b->dir);
	snprintf(b->sock, sizeof(b->sock), "%s/agent.sock", b->dir);
	root_make(b, flags);
	listener = sock_listen(b->sock);
	if (flags & AGENTBOX_CGROUP)
		cgroup = cgroup_make(b);
	if (pipe2(status, O_CLOEXEC) < 0 || pipe2(mapped, O_CLOEXEC) < 0 || chmod(b->dir, 0711) < 0)
		return -1;
	ready = status[0];
	began = clock_mono_us();
	b->pid = (pid_t)syscall(SYS_clone,
				CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC |
					CLONE_NEWUTS | SIGCHLD,
				0, 0, 0, 0);
	if (b->pid == 0)
		child_main(b, flags, &(struct child_fds){listener, status[1], cgroup, mapped[0]});
	close(status[1]);
	child_admit(b, mapped[1]);
	close(mapped[0]);
	close(mapped[1]);
	if (fd_read_all(ready, &got, 1, clock_mono_ms() + READY_MS, &err) < 0 || got != 'R')
		return -1;
	b->ready_us = clock_mono_us() - began;
	return 0;
}

void agentbox_stop(struct agentbox *b)
{
	if (b->pid > 0) {
		kill(b->pid, SIGKILL);
		waitpid(b->pid, NULL, 0);
	}
	if (b->cgroup[0])
		path_remove_tree(AT_FDCWD, b->cgroup, NULL);
	/* cgroup directories go by rmdir of the leaves only. */
	for (int i = 0; b->cgroup[0] && i < 1000 && access(b->cgroup, F_OK) == 0; i++) {
		auto_closedir DIR *dir = opendir(b->cgroup);
		struct dirent *ent;

		while (dir && (ent = readdir(dir)))
			if (ent->d_type == DT_DIR && ent->d_name[0] == 'x')
				unlinkat(dirfd(dir), ent->d_name, AT_REMOVEDIR);
		rmdir(b->cgroup);
		poll(NULL, 0, 2);
	}
	if (b->dir[0])
		path_remove_tree(AT_FDCWD, b->dir, NULL);
	memset(b, 0, sizeof(*b));
}

/* ---- running commands ---- */

struct pump {
	struct agent_proc *p;
	struct buf out, err;
	const char *in;
	size_t in_len;
	bool exited;
	struct agent_exit exit;
};

/* -1 at the end of the stream. */
static int pump_read(int fd, struct buf *to)
{
	char *at = buf_reserve(to, 1 << 16, NULL);
	ssize_t n = at ? read(fd, at, 1 << 16) : 0;

	if (n < 0)
		return errno == EAGAIN ? 0 : -1;
	if (n == 0)
		return -1;
	buf_commit(to, (size_t)n);
	return 1;
}

static void pump_write(struct pump *u)
{
	ssize_t n = write(u->p->in, u->in, u->in_len);

	if (n > 0) {
		u->in += n;
		u->in_len -= (size_t)n;
	}
	if ((n < 0 && errno != EAGAIN) || u->in_len == 0) {
		if (u->p->in != u->p->out)
			close(u->p->in);
		u->p->in = -1;
	}
}

static void pump_step(struct pump *u, int timeout_ms)
{
	struct pollfd p[4] = {
		{.fd = u->exited ? -1 : u->p->conn, .events = POLLIN},
		{.fd = u->p->out, .events = POLLIN},
		{.fd = u->p->err, .events = POLLIN},
		{.fd = u->in_len || u->p->in != u->p->out ? u->p->in : -1, .events = POLLOUT},
	};

	poll(p, 4, timeout_ms);
	if (p[3].revents)
		pump_write(u);
	if (p[1].revents && pump_read(u->p->out, &u->out) < 0) {
		close(u->p->out);
		if (u->p->in == u->p->out)
			u->p->in = -1;
		u->p->out = -1;
	}
	if (p[2].revents && pump_read(u->p->err, &u->err) < 0) {
		close(u->p->err);
		u->p->err = -1;
	}
	if (p[0].revents && agent_proc_exit(u->p, &u->exit, NULL) != 0)
		u->exited = true;
}

/* What had been written when the process ended is there now; a grandchild may hold the stream. */
static void pump_drain(struct pump *u)
{
	while (u->p->out >= 0 && pump_read(u->p->out, &u->out) > 0)
		continue;
	while (u->p->err >= 0 && pump_read(u->p->err, &u->err) > 0)
		continue;
}

int agentbox_exec(const struct agentbox *b, const struct agentbox_run *run,
		  struct agentbox_result *ret, struct err *err)
{
	struct agent_spawn s = {.argv = run->argv,
				.env = run->env,
				.cwd = run->cwd,
				.user = run->user ? run->user : "",
				.flags = run->flags,
				.cols = 80,
				.rows = 24};
	struct agent_proc p = AGENT_PROC_INIT;
	struct pump u = {.p = &p, .in = run->in, .in_len = run->in_len};
	int64_t began = clock_mono_ms(), left;
	int64_t timeout_ms = run->timeout_ms ? run->timeout_ms : 20000;

	memset(ret, 0, sizeof(*ret));
	if (agent_spawn(b->sock, &s, &p, began + 10000, err) < 0)
		return -1;
	buf_init(&u.out, OUTPUT_MAX);
	buf_init(&u.err, OUTPUT_MAX);
	ret->proc = p;
	while (!u.exited) {
		left = began + timeout_ms - clock_mono_ms();
		if (left <= 0 && !ret->timed_out) {
			ret->timed_out = true;
			agent_proc_kill(&p, NULL);
		}
		pump_step(&u, left > 0 ? (int)left : 5000);
	}
	pump_drain(&u);
	agent_proc_done(&p);
	ret->exit = u.exit;
	ret->out_len = u.out.len;
	ret->err_len = u.err.len;
	ret->out = buf_take(&u.out);
	ret->err = buf_take(&u.err);
	ret->took_ms = clock_mono_ms() - began;
	return 0;
}

int agentbox_sh(const struct agentbox *b, const char *text, struct agentbox_result *ret)
{
	const char *const argv[] = {text, NULL};
	struct agentbox_run run = {.argv = argv, .flags = SPAWN_SHELL | SPAWN_MERGE};

	return agentbox_exec(b, &run, ret, NULL);
}

void agentbox_result_done(struct agentbox_result *r)
{
	free(r->out);
	free(r->err);
	r->out = r->err = NULL;
}

/* Children of init and below, seen from outside by the pid namespace they share. */
int agentbox_processes(const struct agentbox *b, bool only_zombies)
{
	auto_closedir DIR *proc = opendir("/proc");
	char own[64] = "", link[64], path[64], text[512];
	struct dirent *ent;
	int n = 0;

	snprintf(path, sizeof(path), "/proc/%d/ns/pid", b->pid);
	if (readlink(path, own, sizeof(own) - 1) < 0)
		return -1;
	while ((ent = readdir(proc))) {
		long pid = strtol(ent->d_name, NULL, 10);
		const char *state;
		ssize_t k;

		if (pid <= 0 || pid == b->pid)
			continue;
		snprintf(path, sizeof(path), "/proc/%ld/ns/pid", pid);
		k = readlink(path, link, sizeof(link) - 1);
		snprintf(path, sizeof(path), "%ld/stat", pid);
		if (path_read_at(dirfd(proc), path, text, sizeof(text), NULL) <= 0)
			continue;
		state = strrchr(text, ')');
		if (!state)
			continue;
		if (state[2] == 'Z') {
			/* A zombie has no namespaces left to compare; its parent tells. */
			n += strtol(state + 3, NULL, 10) == b->pid;
			continue;
		}
		link[k > 0 ? k : 0] = '\0';
		n += !only_zombies && strcmp(link, own) == 0;
	}
	return n;
}

void agentbox_says(const struct agentbox *b, const char *text, const char *out)
{
	auto_call(agentbox_result_done) struct agentbox_result r;

	assert_int_equal(agentbox_sh(b, text, &r), 0);
	assert_string_equal(r.out, out);
}

void agentbox_quiet(const struct agentbox *b, const char *text)
{
	auto_call(agentbox_result_done) struct agentbox_result r;

	assert_int_equal(agentbox_sh(b, text, &r), 0);
	assert_string_equal(r.out, "");
	assert_int_equal(r.exit.code, 0);
}
