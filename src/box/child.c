/*
 * child.c - see child.h. Raw calls only: no libc function that could touch errno, locks or heap.
 */
#include "box/child.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/futex.h>
#include <linux/keyctl.h>
#include <linux/mount.h>
#include <linux/seccomp.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>

#include "base/sys.h"
#include "box/raw.h"

#define CHILD_WAIT_S   10 /* the parent's longest silence; then it is dead or broken */
#define CHILD_FD_HIGH  64 /* above every number given to init */
#define CHILD_CAP_LAST 63
#define CHILD_INERT    (MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC)

/* No instrumentation: the sanitizers' own state belongs to the parent's thread. */
#define CHILD_FN __attribute__((no_sanitize("address", "undefined", "thread")))

/*
 * Only what the ids and the new sysfs instance leave open: kmsg, kpagecount or vmallocinfo belong
 * to the host's root and can't be opened here; debugfs, tracefs and securityfs are not mounted.
 */
const struct child_mask child_masks[] = {
	{IN_PROC, MASK_FILE, "kcore"},
	{IN_PROC, MASK_FILE, "keys"},
	{IN_PROC, MASK_FILE, "kallsyms"},
	{IN_PROC, MASK_FILE, "latency_stats"},
	{IN_PROC, MASK_FILE, "timer_list"},
	{IN_PROC, MASK_FILE, "timer_stats"},
	{IN_PROC, MASK_FILE, "sched_debug"},
	{IN_PROC, MASK_FILE, "interrupts"},
	{IN_PROC, MASK_DIR, "acpi"},
	{IN_PROC, MASK_DIR, "asound"},
	{IN_PROC, MASK_DIR, "scsi"},
	{IN_PROC, MASK_READONLY, "bus"},
	{IN_PROC, MASK_READONLY, "fs"},
	{IN_PROC, MASK_READONLY, "irq"},
	{IN_PROC, MASK_READONLY, "sys"},
	{IN_PROC, MASK_READONLY, "sysrq-trigger"},
	{IN_SYS, MASK_DIR, "firmware"},
	{IN_SYS, MASK_DIR, "devices/virtual/powercap"},
	{0, 0, NULL},
};

/* Docker's default set without MKNOD. AUDIT_WRITE is kept: sudo and login want it. */
#define CAP_BIT(c) (1ull << (c))
#define CHILD_CAPS                                                                                 \
	(CAP_BIT(CAP_CHOWN) | CAP_BIT(CAP_DAC_OVERRIDE) | CAP_BIT(CAP_FSETID) |                    \
	 CAP_BIT(CAP_FOWNER) | CAP_BIT(CAP_SETGID) | CAP_BIT(CAP_SETUID) | CAP_BIT(CAP_SETFCAP) |  \
	 CAP_BIT(CAP_SETPCAP) | CAP_BIT(CAP_NET_BIND_SERVICE) | CAP_BIT(CAP_SYS_CHROOT) |          \
	 CAP_BIT(CAP_KILL) | CAP_BIT(CAP_AUDIT_WRITE))
#define CHILD_CAPS_BOUND (CHILD_CAPS | CAP_BIT(CAP_NET_RAW))

CHILD_FN static long child_wait(struct child *c, uint32_t step)
{
	struct timespec ts = {.tv_sec = CHILD_WAIT_S};

	for (;;) {
		uint32_t now = __atomic_load_n(&c->go, __ATOMIC_ACQUIRE);
		long rc;

		if (now >= step)
			return 0;
		rc = raw4(SYS_futex, &c->go, FUTEX_WAIT_PRIVATE, now, &ts);
		if (rc == -ETIMEDOUT)
			return rc;
	}
}

/* A runner that dies takes its half-built children along; credential changes clear the setting. */
CHILD_FN static long child_follow(struct child *c)
{
	(void)c;
	return raw2(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL);
}

CHILD_FN static long child_mapped(struct child *c)
{
	return child_wait(c, GO_MAPPED);
}

CHILD_FN static long child_ids(struct child *c)
{
	long rc = raw3(SYS_setresgid, 0, 0, 0);

	if (rc >= 0)
		rc = raw2(SYS_setgroups, 0, 0);
	if (rc >= 0)
		rc = raw3(SYS_setresuid, 0, 0, 0);
	return rc < 0 ? rc : child_follow(c);
}

CHILD_FN static long child_session(struct child *c)
{
	long rc = raw0(SYS_setsid);
	size_t n = 0;

	if (rc < 0)
		return rc;
	/* Kernels without keyrings have nothing to share. */
	rc = raw2(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, 0);
	if (rc < 0 && rc != -ENOSYS)
		return rc;
	while (c->hostname[n])
		n++;
	return raw2(SYS_sethostname, c->hostname, n);
}

CHILD_FN static long child_private(struct child *c)
{
	(void)c;
	return raw5(SYS_mount, 0, "/", 0, MS_REC | MS_PRIVATE, 0);
}

/* A detached mount of a file system with up to three options. */
CHILD_FN static long child_fsmount(const char *fs, const char *const opt[][2], unsigned attrs)
{
	long fd = raw2(SYS_fsopen, fs, FSOPEN_CLOEXEC), rc = 0;

	if (fd < 0)
		return fd;
	for (; opt && (*opt)[0] && rc >= 0; opt++) {
		rc = raw5(SYS_fsconfig, fd, (*opt)[1] ? FSCONFIG_SET_STRING : FSCONFIG_SET_FLAG,
			  (*opt)[0], (*opt)[1], 0);
	}
	if (rc >= 0)
		rc = raw5(SYS_fsconfig, fd, FSCONFIG_CMD_CREATE, 0, 0, 0);
	if (rc >= 0)
		rc = raw3(SYS_fsmount, fd, FSMOUNT_CLOEXEC, attrs);
	raw1(SYS_close, fd);
	return rc;
}

CHILD_FN static long child_proc(struct child *c)
{
	long fd = child_fsmount("proc", NULL, CHILD_INERT);

	c->fd[CFD_PROC] = (int)fd;
	return fd;
}

CHILD_FN static long child_devpts(struct child *c)
{
	static const char *const opt[][2] = {{"newinstance", NULL}, {"gid", "5"},   {"mode", "620"},
					     {"ptmxmode", "666"},   {"max", "256"}, {NULL, NULL}};
	long fd = child_fsmount("devpts", opt, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC);

	c->fd[CFD_PTS] = (int)fd;
	return fd;
}

CHILD_FN static long child_shm(struct child *c)
{
	const char *const opt[][2] = {
		{"mode", "1777"}, {"size", c->shm_size}, {"nr_inodes", "65536"}, {NULL, NULL}};
	long fd = child_fsmount("tmpfs", opt, CHILD_INERT);

	c->fd[CFD_SHM] = (int)fd;
	return fd;
}

CHILD_FN static long child_mqueue(struct child *c)
{
	long fd = child_fsmount("mqueue", NULL, CHILD_INERT);

	if (fd == -ENODEV)
		return 0;
	c->fd[CFD_MQUEUE] = (int)fd;
	return fd;
}

CHILD_FN static long child_write(int dir, const struct child_file *f)
{
	long fd = raw4(SYS_openat, dir, f->name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, f->mode);
	long rc;

	if (fd < 0)
		return fd;
	rc = f->len ? raw3(SYS_write, fd, f->text, f->len) : 0;
	raw1(SYS_close, fd);
	return rc == (long)f->len ? 0 : rc < 0 ? rc : -ENOSPC;
}

/* Generated files, an empty file and an empty directory to mask with. */
CHILD_FN static long child_texts(struct child *c)
{
	static const char *const opt[][2] = {
		{"mode", "755"}, {"size", "1m"}, {"nr_inodes", "32"}, {NULL, NULL}};
	long fd = child_fsmount("tmpfs", opt, CHILD_INERT), rc;

	c->fd[CFD_FILES] = (int)fd;
	if (fd < 0)
		return fd;
	raw1(SYS_umask, 0);
	rc = raw3(SYS_mkdirat, fd, "void", 0555);
	for (int i = 0; i < CHILD_FILES_MAX && c->file[i].name && rc >= 0; i++)
		rc = child_write((int)fd, &c->file[i]);
	return rc;
}

/* From here on descriptors are the child's own; those above what it needs are not even copied. */
CHILD_FN static long child_built(struct child *c)
{
	long rc = child_wait(c, GO_BUILT);
	int top = 0;

	if (rc < 0)
		return rc;
	for (int i = 0; i < CFD_MAX; i++)
		top = c->fd[i] > top ? c->fd[i] : top;
	for (size_t i = 0; i < c->nspent; i++)
		top = c->spent[i] > top ? c->spent[i] : top;
	rc = raw3(SYS_close_range, top + 1, ~0u, 2 /* CLOSE_RANGE_UNSHARE */);
	if (rc >= 0)
		__atomic_store_n(&c->unshared, 1, __ATOMIC_RELEASE);
	return rc;
}

CHILD_FN static long child_move(int mount, int dir, const char *path)
{
	unsigned flags = MOVE_MOUNT_F_EMPTY_PATH | (*path ? 0 : MOVE_MOUNT_T_EMPTY_PATH);

	return raw5(SYS_move_mount, mount, "", dir, path, flags);
}

CHILD_FN static long child_root(struct child *c)
{
	long rc = child_move(c->fd[CFD_ROOT], AT_FDCWD, c->stage_root);

	if (rc >= 0)
		rc = child_move(c->fd[CFD_FILES], AT_FDCWD, c->stage_files);
	/* They stack up on one another; none is locked, so none stays connected to what is below.
	 */
	for (size_t i = 0; i < c->nspent && rc >= 0; i++)
		rc = child_move(c->spent[i], AT_FDCWD, c->stage_files);
	return rc;
}

CHILD_FN static long child_furnish(struct child *c)
{
	const struct {
		int mount, at;
		const char *path;
	} move[] = {
		{CFD_PROC, c->fd[CFD_AT_PROC], ""}, {CFD_SYSFS, c->fd[CFD_AT_SYS], ""},
		{CFD_DEV, c->fd[CFD_AT_DEV], ""},   {CFD_PTS, c->fd[CFD_DEV], "pts"},
		{CFD_SHM, c->fd[CFD_DEV], "shm"},   {CFD_MQUEUE, c->fd[CFD_DEV], "mqueue"},
	};

	for (size_t i = 0; i < sizeof(move) / sizeof(move[0]); i++) {
		long rc = c->fd[move[i].mount] < 0
				  ? 0
				  : child_move(c->fd[move[i].mount], move[i].at, move[i].path);

		if (rc < 0)
			return rc;
	}
	return 0;
}

/* Bind dir/name (ours, no attacker's link in it) over at/path. */
CHILD_FN static long child_bind(int dir, const char *name, int at, const char *path, uint64_t attrs)
{
	struct mount_attr attr = {.attr_set = attrs};
	long fd = raw3(SYS_open_tree, dir, name, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC), rc = 0;

	if (fd < 0)
		return fd;
	if (attrs)
		rc = raw5(SYS_mount_setattr, fd, "", AT_EMPTY_PATH, &attr, sizeof(attr));
	if (rc >= 0)
		rc = child_move((int)fd, at, path);
	raw1(SYS_close, fd);
	return rc;
}

/*
 * Read-only is set on each clone, never on the files' own mount: a child of another launcher may
 * hold a copy of the descriptor that wrote a file, and a mount with a writer is busy.
 */
CHILD_FN static long child_files(struct child *c)
{
	const struct {
		const char *name;
		int at;
		const char *path;
		uint64_t attrs;
	} file[] = {
		{"hosts", c->fd[CFD_AT_HOSTS], "", 0},
		{"hostname", c->fd[CFD_AT_HOSTNAME], "", 0},
		{"resolv.conf", c->fd[CFD_AT_RESOLV], "", 0},
		{"meminfo", c->fd[CFD_PROC], "meminfo", MOUNT_ATTR_RDONLY},
		{"cpuinfo", c->fd[CFD_PROC], "cpuinfo", MOUNT_ATTR_RDONLY},
		{"online", c->fd[CFD_SYSFS], "devices/system/cpu/online", MOUNT_ATTR_RDONLY},
	};

	for (size_t i = 0; i < sizeof(file) / sizeof(file[0]); i++) {
		long rc = child_bind(c->fd[CFD_FILES], file[i].name, file[i].at, file[i].path,
				     file[i].attrs);

		if (rc < 0)
			return rc;
	}
	return 0;
}

/*
 * clone3 is allowed, and no filter can read its flags: the limit of this very user namespace
 * forbids nested ones. Its root may not raise it again: that takes CAP_SYS_RESOURCE, and
 * /proc/sys is read-only. All other namespaces take CAP_SYS_ADMIN.
 */
CHILD_FN static long child_no_nesting(struct child *c)
{
	long fd, rc;

	if (c->nest)
		return 0;
	fd = raw4(SYS_openat, c->fd[CFD_PROC], "sys/user/max_user_namespaces", O_WRONLY | O_CLOEXEC,
		  0);
	if (fd < 0)
		return fd;
	rc = raw3(SYS_write, fd, "0", 1);
	raw1(SYS_close, fd);
	return rc;
}

CHILD_FN static long child_mask_paths(struct child *c)
{
	for (size_t i = 0; i < c->nmasks; i++) {
		const struct child_mask *m = c->mask[i];
		int at = c->fd[m->where == IN_PROC ? CFD_PROC : CFD_SYSFS];
		bool own = m->kind == MASK_READONLY;
		const char *name = m->kind == MASK_FILE ? "empty" : "void";
		long rc = child_bind(own ? at : c->fd[CFD_FILES], own ? m->path : name, at, m->path,
				     CHILD_INERT | MOUNT_ATTR_RDONLY);

		if (rc < 0)
			return rc;
	}
	return 0;
}

/* The old root ends up stacked on the new one and goes with everything below it. */
CHILD_FN static long child_pivot(struct child *c)
{
	long rc = raw1(SYS_fchdir, c->fd[CFD_ROOT]);

	if (rc >= 0)
		rc = raw2(SYS_pivot_root, ".", ".");
	if (rc >= 0)
		rc = raw2(SYS_umount2, ".", MNT_DETACH);
	return rc < 0 ? rc : raw1(SYS_chdir, "/");
}

/*
 * Into the v1 groups by its own hand: "0" in a tasks file moves the writer without the global
 * lock that moving another process takes, which waits for RCU (milliseconds under load). The
 * right to do it is the opener's. A cgroup namespace is rooted where its maker stands, so last.
 */
CHILD_FN static long child_cgroup(struct child *c)
{
	long rc = 0, fd;

	for (int i = CFD_TASKS; i <= CFD_TASKS_LAST && rc >= 0; i++)
		rc = c->fd[i] < 0 ? 0 : raw3(SYS_write, c->fd[i], "0", 1);
	if (rc >= 0)
		rc = raw1(SYS_unshare, CLONE_NEWCGROUP);
	if (rc < 0 || !c->cgroup2)
		return rc;
	fd = child_fsmount("cgroup2", NULL, CHILD_INERT | MOUNT_ATTR_RDONLY);
	return fd < 0 ? fd : child_move((int)fd, c->fd[CFD_SYSFS], "fs/cgroup");
}

CHILD_FN static long child_limits(struct child *c)
{
	struct rlimit nofile = {c->nofile, c->nofile}, core = {0, 0};
	uint64_t none = 0;
	long rc = raw4(SYS_prlimit64, 0, RLIMIT_NOFILE, &nofile, 0);

	if (rc >= 0)
		rc = raw4(SYS_prlimit64, 0, RLIMIT_CORE, &core, 0);
	if (rc >= 0)
		rc = raw4(SYS_rt_sigprocmask, SIG_SETMASK, &none, 0, 8);
	raw1(SYS_umask, 022);
	return rc;
}

/* 0-2 /dev/null, 3 listener, 4 status pipe, 5 cgroup, 6 init itself (closed by the exec). */
CHILD_FN static long child_fds(struct child *c)
{
	const int src[] = {CFD_LISTEN, CFD_STATUS, CFD_CGROUP, CFD_INIT};
	long high[4], rc;
	long null = raw4(SYS_openat, AT_FDCWD, "/dev/null", O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0);

	if (null < 0)
		return null;
	null = raw3(SYS_fcntl, null, F_DUPFD_CLOEXEC, CHILD_FD_HIGH);
	for (int i = 0; i < 4; i++) {
		high[i] = raw3(SYS_fcntl, c->fd[src[i]], F_DUPFD_CLOEXEC, CHILD_FD_HIGH);
		if (high[i] < 0)
			return high[i];
	}
	for (int i = 0; i < 7; i++) {
		rc = raw3(SYS_dup3, i < 3 ? null : high[i - 3], i, i == 6 ? O_CLOEXEC : 0);
		if (rc < 0)
			return rc;
	}
	return raw3(SYS_close_range, 7, ~0u, 0);
}

CHILD_FN static long child_bounds(struct child *c)
{
	uint64_t keep = CHILD_CAPS_BOUND;

	if (c->no_new_privs && raw5(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -EPERM;
	for (long cap = 0; cap <= CHILD_CAP_LAST; cap++) {
		long rc = keep & CAP_BIT(cap) ? 0 : raw2(SYS_prctl, PR_CAPBSET_DROP, cap);

		if (rc == -EINVAL)
			break; /* past the last one this kernel knows */
		if (rc < 0)
			return rc;
	}
	return 0;
}

CHILD_FN static long child_caps(struct child *c)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	uint32_t lo = (uint32_t)CHILD_CAPS, hi = (uint32_t)(CHILD_CAPS >> 32);
	struct __user_cap_data_struct data[2] = {{lo, lo, 0}, {hi, hi, 0}};
	long rc;

	/* The filter first: without no_new_privs it needs CAP_SYS_ADMIN of the namespace. */
	rc = raw3(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, c->filter);
	return rc < 0 ? rc : raw2(SYS_capset, &head, data);
}

CHILD_FN static long child_exec(struct child *c)
{
	static char *const argv[] = {(char *)"caisson-init", NULL};
	static char *const envp[] = {
		(char *)"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", NULL};
	struct timespec ts;

	raw2(SYS_prctl, PR_SET_PDEATHSIG, 0);
	raw2(SYS_clock_gettime, CLOCK_MONOTONIC, &ts);
	c->exec_ns = ts.tv_sec * 1000000000ll + ts.tv_nsec;
	return raw5(SYS_execveat, 6, "", argv, envp, AT_EMPTY_PATH);
}

static const struct child_step {
	const char *name;
	long (*fn)(struct child *c);
} child_steps[] = {
	{"follow the runner", child_follow},
	{"wait for the id map", child_mapped},
	{"become root of the user namespace", child_ids},
	{"open a session", child_session},
	{"make mounts private", child_private},
	{"mount proc", child_proc},
	{"mount devpts", child_devpts},
	{"mount shm", child_shm},
	{"mount mqueue", child_mqueue},
	{"write generated files", child_texts},
	{"wait for the root file system", child_built},
	{"attach the root file system", child_root},
	{"attach /proc, /sys and /dev", child_furnish},
	{"bind generated files", child_files},
	{"forbid user namespaces", child_no_nesting},
	{"mask paths", child_mask_paths},
	{"change the root", child_pivot},
	{"enter the cgroup namespace", child_cgroup},
	{"arrange descriptors", child_fds}, /* before a small limit forbids the high numbers */
	{"set limits", child_limits},
	{"drop capabilities of the bounding set", child_bounds},
	{"install the filter and drop capabilities", child_caps},
	{"execute caisson-init", child_exec},
};

const char *child_step_name(int step)
{
	if (step < 0 || (size_t)step >= sizeof(child_steps) / sizeof(child_steps[0]))
		return "unknown step";
	return child_steps[step].name;
}

CHILD_FN __attribute__((noreturn, used)) static void child_main(struct child *c)
{
	for (size_t i = 0; i < sizeof(child_steps) / sizeof(child_steps[0]); i++) {
		long rc = child_steps[i].fn(c);

		if (rc >= 0)
			continue;
		c->fail_errno = (int)-rc;
		__atomic_store_n(&c->fail_step, (int)i, __ATOMIC_RELEASE);
		break;
	}
	for (;;)
		raw1(SYS_exit_group, 1);
}

/*
 * The C library's wrappers don't do clone3 with a stack of ours: the child returns from the call
 * on an empty stack, so it may only call on from here.
 */
#if defined(__x86_64__)
long child_clone(struct clone_args *args, struct child *c)
{
	register struct child *r8 __asm__("r8") = c;
	register void (*r9)(struct child *) __asm__("r9") = child_main;
	long ret;

	__asm__ volatile("syscall\n\t"
			 "test %%rax, %%rax\n\t"
			 "jnz 1f\n\t"
			 "xor %%ebp, %%ebp\n\t"
			 "mov %%r8, %%rdi\n\t"
			 "call *%%r9\n\t"
			 "ud2\n"
			 "1:"
			 : "=a"(ret)
			 : "a"(SYS_clone3), "D"(args), "S"(sizeof(*args)), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
#else
long child_clone(struct clone_args *args, struct child *c)
{
	register long x8 __asm__("x8") = SYS_clone3;
	register long x0 __asm__("x0") = (long)args;
	register long x1 __asm__("x1") = sizeof(*args);
	register struct child *x2 __asm__("x2") = c;
	register void (*x3)(struct child *) __asm__("x3") = child_main;
	long ret;

	__asm__ volatile("svc 0\n\t"
			 "cbnz x0, 1f\n\t"
			 "mov x29, xzr\n\t"
			 "mov x0, x2\n\t"
			 "blr x3\n\t"
			 "brk 1\n"
			 "1:"
			 : "+r"(x0)
			 : "r"(x8), "r"(x1), "r"(x2), "r"(x3)
			 : "memory", "cc");
	ret = x0;
#endif
	if (ret >= 0)
		return ret;
	errno = (int)-ret;
	return -1;
}

void child_go(struct child *c, enum child_go step)
{
	__atomic_store_n(&c->go, (uint32_t)step, __ATOMIC_RELEASE);
	syscall(SYS_futex, &c->go, FUTEX_WAKE_PRIVATE, 1);
}
