/*
 * confine.c - see confine.h.
 */
#include "image/confine.h"

#include <errno.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <sys/capability.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/sys.h"

#define CONFINE_MEMORY (1ull << 30) /* xz and zstd windows are far below */
#define CONFINE_FILES  1024	    /* deleting a tree holds one a level */

static const cap_value_t confine_caps[] = {
	CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_FOWNER, CAP_FSETID, CAP_SETFCAP,
};

/* All that reading a pipe, filling a tree and libc need. mmap and mprotect are apart. */
static const int confine_calls[] = {
	SCMP_SYS(read),
	SCMP_SYS(write),
	SCMP_SYS(readv),
	SCMP_SYS(writev),
	SCMP_SYS(pread64),
	SCMP_SYS(pwrite64),
	SCMP_SYS(open),
	SCMP_SYS(openat),
	SCMP_SYS(openat2),
	SCMP_SYS(close),
	SCMP_SYS(stat),
	SCMP_SYS(fstat),
	SCMP_SYS(lstat),
	SCMP_SYS(newfstatat),
	SCMP_SYS(statx),
	SCMP_SYS(lseek),
	SCMP_SYS(ftruncate),
	SCMP_SYS(fallocate),
	SCMP_SYS(fadvise64),
	SCMP_SYS(getdents64),
	SCMP_SYS(fcntl),
	SCMP_SYS(dup),
	SCMP_SYS(mkdirat),
	SCMP_SYS(unlinkat),
	SCMP_SYS(symlinkat),
	SCMP_SYS(linkat),
	SCMP_SYS(mknodat),
	SCMP_SYS(readlinkat),
	SCMP_SYS(fchown),
	SCMP_SYS(fchownat),
	SCMP_SYS(fchmod),
	SCMP_SYS(fchmodat),
	SCMP_SYS(utimensat),
	SCMP_SYS(fsetxattr),
	SCMP_SYS(brk),
	SCMP_SYS(munmap),
	SCMP_SYS(mremap),
	SCMP_SYS(madvise),
	SCMP_SYS(poll),
	SCMP_SYS(ppoll),
	SCMP_SYS(futex),
	SCMP_SYS(getrandom),
	SCMP_SYS(clock_gettime),
	SCMP_SYS(clock_nanosleep),
	SCMP_SYS(gettimeofday),
	SCMP_SYS(time),
	SCMP_SYS(getpid),
	SCMP_SYS(gettid),
	SCMP_SYS(getuid),
	SCMP_SYS(geteuid),
	SCMP_SYS(getgid),
	SCMP_SYS(getegid),
	SCMP_SYS(rt_sigaction),
	SCMP_SYS(rt_sigprocmask),
	SCMP_SYS(rt_sigreturn),
	SCMP_SYS(tgkill),
	SCMP_SYS(restart_syscall),
	SCMP_SYS(sched_yield),
	SCMP_SYS(exit),
	SCMP_SYS(exit_group),
#ifdef __SANITIZE_ADDRESS__ /* its runtime asks before each _exit */
	SCMP_SYS(sigaltstack),
#endif
};

pid_t confine_fork(struct err *err)
{
	struct clone_args args = {.flags =
					  CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWPID,
				  .exit_signal = SIGCHLD};
	pid_t pid = (pid_t)sys_clone3(&args);

	if (pid < 0)
		return err_errno(err, ERR_INTERNAL, errno, "fork the unpacker");
	if (pid == 0)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	return pid;
}

void confine_close_others(const int *keep, size_t n)
{
	unsigned from = 3;

	for (;;) {
		unsigned next = ~0u;

		for (size_t i = 0; i < n; i++)
			if (keep[i] >= 0 && (unsigned)keep[i] >= from)
				next = MIN(next, (unsigned)keep[i]);
		if (next == ~0u)
			break;
		if (next > from)
			sys_close_range(from, next - 1, 0);
		from = next + 1;
	}
	sys_close_range(from, ~0u, 0);
}

/* Build the mount detached, put it over the tree, and make it the root. */
static int confine_root(int root, struct err *err)
{
	struct mount_attr attr = {.attr_set =
					  MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC};
	auto_close int mnt = -1, at = -1;

	/* A descriptor stays in the namespace it was opened in; the working directory moves. */
	if (fchdir(root) < 0 || unshare(CLONE_NEWNS) < 0)
		return err_errno(err, ERR_INTERNAL, errno, "make a mount namespace");
	at = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (at < 0)
		return err_errno(err, ERR_INTERNAL, errno, "open the tree");
	if (mount("", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return err_errno(err, ERR_INTERNAL, errno, "make mounts private");
	mnt = sys_open_tree(at, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH);
	if (mnt < 0)
		return err_errno(err, ERR_INTERNAL, errno, "clone the tree's mount");
	if (sys_mount_setattr(mnt, "", AT_EMPTY_PATH, &attr) < 0)
		return err_errno(err, ERR_INTERNAL, errno, "restrict the tree's mount");
	if (sys_move_mount(mnt, "", at, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) < 0)
		return err_errno(err, ERR_INTERNAL, errno, "mount the tree");
	if (fchdir(mnt) < 0 || sys_pivot_root(".", ".") < 0)
		return err_errno(err, ERR_INTERNAL, errno, "pivot into the tree");
	/* The old root lies over the new one, at the same place. */
	if (umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
		return err_errno(err, ERR_INTERNAL, errno, "leave the old root");
	return 0;
}

static int confine_limits(uint64_t file_max, struct err *err)
{
	const struct {
		int what;
		rlim_t max;
	} limits[] = {
		{RLIMIT_CORE, 0},
		{RLIMIT_FSIZE, file_max},
		{RLIMIT_NOFILE, CONFINE_FILES},
#ifndef __SANITIZE_ADDRESS__ /* its shadow is terabytes of address space */
		{RLIMIT_AS, CONFINE_MEMORY},
#endif
	};

	for (size_t i = 0; i < ARRAY_LEN(limits); i++) {
		const struct rlimit rl = {limits[i].max, limits[i].max};

		if (setrlimit((__rlimit_resource_t)limits[i].what, &rl) < 0)
			return err_errno(err, ERR_INTERNAL, errno, "limit the unpacker");
	}
	return 0;
}

static int confine_drop_caps(struct err *err)
{
	const int n = (int)ARRAY_LEN(confine_caps);
	cap_t caps = cap_init();
	int rc = -1;

	for (cap_value_t c = 0; cap_get_bound(c) >= 0; c++)
		if (cap_drop_bound(c) < 0)
			goto out;
	if (caps && cap_set_flag(caps, CAP_PERMITTED, n, confine_caps, CAP_SET) == 0 &&
	    cap_set_flag(caps, CAP_EFFECTIVE, n, confine_caps, CAP_SET) == 0 &&
	    cap_set_proc(caps) == 0)
		rc = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
out:
	if (rc < 0)
		err_errno(err, ERR_INTERNAL, errno, "drop the unpacker's rights");
	cap_free(caps);
	return rc;
}

static int confine_seccomp(struct err *err)
{
	/* Refused calls fail and the archive with them; killing would hide which one it was. */
	scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ERRNO(EPERM));
	const struct scmp_arg_cmp not_exec = SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0);
	int rc = -ENOMEM;

	if (!ctx)
		return err_set(err, ERR_NOMEM, "out of memory for the unpacker's filter");
	for (size_t i = 0; i < ARRAY_LEN(confine_calls); i++) {
		rc = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, confine_calls[i], 0);
		/* Calls this machine's kind does not have are no loss. */
		if (rc < 0 && rc != -EDOM)
			goto out;
	}
	rc = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(mmap), 1, not_exec);
	if (rc == 0)
		rc = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(mprotect), 1, not_exec);
	if (rc == 0)
		rc = seccomp_load(ctx);
out:
	seccomp_release(ctx);
	return rc < 0 ? err_errno(err, ERR_INTERNAL, -rc, "filter the unpacker's calls") : 0;
}

int confine_enter(int root, uint64_t file_max, struct err *err)
{
	auto_close int fd = -1;

	umask(0);
	if (confine_root(root, err) < 0 || confine_limits(file_max, err) < 0 ||
	    confine_drop_caps(err) < 0 || confine_seccomp(err) < 0)
		return -1;
	fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return err_errno(err, ERR_INTERNAL, errno, "open the tree");
	return TAKE_FD(fd);
}
