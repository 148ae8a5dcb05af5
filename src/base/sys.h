/*
 * sys.h - the one header with raw system calls.
 *
 * Each new call has one inline here; a libc without it, or a kernel without it (ENOSYS), is no
 * other file's business. SYS_FORCE_ENOSYS (bit mask in sys_forced_enosys, set only by tests)
 * lets a test play an older kernel. All return -1 with errno.
 */
#ifndef CAISSON_BASE_SYS_H
#define CAISSON_BASE_SYS_H

#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <linux/openat2.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#ifndef CLONE_INTO_CGROUP
#define CLONE_INTO_CGROUP 0x200000000ULL
#endif
#ifndef CLONE_CLEAR_SIGHAND
#define CLONE_CLEAR_SIGHAND 0x100000000ULL
#endif
#ifndef SYS_openat2
#define SYS_openat2 437
#endif
#ifndef SYS_open_tree
#define SYS_open_tree  428
#define SYS_move_mount 429
#define SYS_fsopen     430
#define SYS_fsconfig   431
#define SYS_fsmount    432
#define SYS_fspick     433
#endif
#ifndef SYS_mount_setattr
#define SYS_mount_setattr 442
#endif
#ifndef SYS_close_range
#define SYS_close_range 436
#endif

enum sys_call_bit {
	SYS_BIT_FSOPEN = 1 << 0,
	SYS_BIT_OPEN_TREE = 1 << 1,
	SYS_BIT_MOUNT_SETATTR = 1 << 2,
	SYS_BIT_CLONE3_CGROUP = 1 << 3,
	SYS_BIT_LOWERDIR_FD = 1 << 4, /* overlay "lowerdir+" by descriptor, Linux 6.13 */
};
extern unsigned sys_forced_enosys;

static inline int sys_forced(unsigned bit)
{
	if (!(sys_forced_enosys & bit))
		return 0;
	errno = ENOSYS;
	return 1;
}

static inline int sys_openat2(int dirfd, const char *path, struct open_how *how)
{
	return (int)syscall(SYS_openat2, dirfd, path, how, sizeof(*how));
}

static inline int sys_open_tree(int dirfd, const char *path, unsigned flags)
{
	if (sys_forced(SYS_BIT_OPEN_TREE))
		return -1;
	return (int)syscall(SYS_open_tree, dirfd, path, flags);
}

static inline int sys_move_mount(int from, const char *from_path, int to, const char *to_path,
				 unsigned flags)
{
	return (int)syscall(SYS_move_mount, from, from_path, to, to_path, flags);
}

static inline int sys_fsopen(const char *fs, unsigned flags)
{
	if (sys_forced(SYS_BIT_FSOPEN))
		return -1;
	return (int)syscall(SYS_fsopen, fs, flags);
}

static inline int sys_fsconfig(int fd, unsigned cmd, const char *key, const void *value, int aux)
{
	return (int)syscall(SYS_fsconfig, fd, cmd, key, value, aux);
}

static inline int sys_fsmount(int fd, unsigned flags, unsigned attrs)
{
	return (int)syscall(SYS_fsmount, fd, flags, attrs);
}

static inline int sys_mount_setattr(int dirfd, const char *path, unsigned flags,
				    struct mount_attr *attr)
{
	if (sys_forced(SYS_BIT_MOUNT_SETATTR))
		return -1;
	return (int)syscall(SYS_mount_setattr, dirfd, path, flags, attr, sizeof(*attr));
}

static inline long sys_clone3(struct clone_args *args)
{
	return syscall(SYS_clone3, args, sizeof(*args));
}

static inline int sys_close_range(unsigned first, unsigned last, unsigned flags)
{
	return (int)syscall(SYS_close_range, first, last, flags);
}

static inline int sys_pidfd_open(pid_t pid, unsigned flags)
{
	return (int)syscall(SYS_pidfd_open, pid, flags);
}

static inline int sys_pidfd_send_signal(int pidfd, int sig)
{
	return (int)syscall(SYS_pidfd_send_signal, pidfd, sig, NULL, 0);
}

static inline int sys_pivot_root(const char *new_root, const char *put_old)
{
	return (int)syscall(SYS_pivot_root, new_root, put_old);
}

static inline int sys_execveat(int fd, const char *path, char *const argv[], char *const envp[],
			       int flags)
{
	return (int)syscall(SYS_execveat, fd, path, argv, envp, flags);
}

struct msghdr;
static inline ssize_t sys_sendmsg(int fd, const struct msghdr *msg, int flags)
{
	return syscall(SYS_sendmsg, fd, msg, flags);
}

#endif
