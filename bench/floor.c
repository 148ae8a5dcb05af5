/*
 * floor.c - what the kernel alone takes for a sandbox, in processor time and wall time.
 *
 *   floor ROOT N      ROOT holds a static /bin/true; run as root, in a mount namespace of its own
 *
 * Each row does more than the one before, with the cheapest calls there are (a child on shared
 * memory, the mount calls of Linux 5.2) and nothing else: no daemon, record, filter or limits.
 * Processor time is that of this program and its children; what kernel threads do afterwards
 * (the release of namespaces) is not in it.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define STACK_SIZE 65536
#define PATH_ROOM  4096

struct row {
	const char *name;
	int namespaces;
	bool mounts, overlay;
};

struct run {
	const struct row *row;
	const char *root;
	char work[PATH_ROOM], options[PATH_ROOM * 2];
	int failed; /* errno of the child */
};

static const struct {
	const char *fs, *at;
	unsigned long flags;
} mounts[] = {
	{"proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC},
	{"sysfs", "sys", MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_RDONLY},
	{"tmpfs", "dev", MS_NOSUID | MS_NOEXEC},
	{"tmpfs", "tmp", MS_NOSUID | MS_NODEV | MS_NOEXEC},
	{"tmpfs", "run", MS_NOSUID | MS_NODEV | MS_NOEXEC},
};

static int furnish(const struct run *r)
{
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return -1;
	if (r->row->overlay ? mount("overlay", r->work, "overlay", 0, r->options) < 0
			    : mount(r->root, r->work, NULL, MS_BIND, NULL) < 0)
		return -1;
	if (chdir(r->work) < 0)
		return -1;
	for (size_t i = 0; i < sizeof(mounts) / sizeof(mounts[0]); i++)
		if (mount(mounts[i].fs, mounts[i].at, mounts[i].fs, mounts[i].flags, NULL) < 0)
			return -1;
	if (syscall(SYS_pivot_root, ".", ".") < 0 || umount2(".", MNT_DETACH) < 0)
		return -1;
	return chdir("/");
}

static int child(void *arg)
{
	static char *const argv[] = {(char *)"true", NULL}, *const envp[] = {NULL};
	struct run *r = arg;
	char path[PATH_ROOM];

	if (r->row->mounts && furnish(r) < 0) {
		r->failed = errno;
		_exit(1);
	}
	snprintf(path, sizeof(path), "%s/bin/true", r->row->mounts ? "" : r->root);
	execve(path, argv, envp);
	r->failed = errno;
	_exit(1);
}

static int one(struct run *r, char *stack)
{
	int status;
	pid_t pid = clone(child, stack + STACK_SIZE,
			  CLONE_VM | CLONE_VFORK | SIGCHLD | r->row->namespaces, r);

	if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0) {
		fprintf(stderr, "floor: %s: %s\n", r->row->name,
			strerror(r->failed ? r->failed : errno));
		return -1;
	}
	return 0;
}

static double used_ms(void)
{
	double ms = 0;

	for (int who = RUSAGE_CHILDREN; who <= RUSAGE_SELF; who++) {
		struct rusage u;

		getrusage(who, &u);
		ms += (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1e3 +
		      (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e3;
	}
	return ms;
}

static double now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static int row_run(struct run *r, int n, char *stack)
{
	double cpu = used_ms(), wall = now_ms();

	for (int i = 0; i < n; i++)
		if (one(r, stack) < 0)
			return -1;
	printf("%-58s %6.3f ms of processor, %6.3f ms\n", r->row->name, (used_ms() - cpu) / n,
	       (now_ms() - wall) / n);
	return 0;
}

int main(int argc, char **argv)
{
	const int all = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWCGROUP;
	const struct row rows[] = {
		{"a static true", 0, false, false},
		{"in new mount, pid, uts, ipc and cgroup namespaces", all, false, false},
		{"with a bound root, proc, sysfs, three tmpfs, pivot_root", all, true, false},
		{"with an overlay for the root", all, true, true},
		{"and a new network namespace", all | CLONE_NEWNET, true, true},
	};
	struct run r = {.root = argc > 1 ? argv[1] : ""};
	int n = argc > 2 ? (int)strtol(argv[2], NULL, 10) : 0, rc = 0;
	char base[PATH_ROOM], path[PATH_ROOM + 8], *stack = malloc(STACK_SIZE);

	snprintf(base, sizeof(base), "%s.floor", r.root);
	if (argc < 3 || n < 1 || !stack || unshare(CLONE_NEWNS) < 0 ||
	    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return 2;
	mkdir(base, 0755);
	for (size_t i = 0; i < 3; i++) {
		snprintf(path, sizeof(path), "%s/%c", base, "uwm"[i]);
		mkdir(path, 0755);
	}
	snprintf(r.work, sizeof(r.work), "%.4000s/m", base);
	snprintf(r.options, sizeof(r.options),
		 "lowerdir=%.2000s,upperdir=%.2000s/u,workdir=%.2000s/w", r.root, base, base);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]) && rc == 0; i++) {
		r.row = &rows[i];
		rc = row_run(&r, n, stack);
	}
	free(stack);
	return rc < 0;
}
