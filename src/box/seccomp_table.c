/*
 * seccomp_table.c - what a sandbox may call. Names unknown to this kernel's headers are skipped.
 */
#include "box/seccomp.h"

#include <stddef.h>

/* clang-format off */
static const char *const allow_files[] = {
	"access", "chdir", "chmod", "chown", "close", "close_range", "copy_file_range", "creat",
	"dup", "dup2", "dup3", "faccessat", "faccessat2", "fadvise64", "fallocate", "fchdir",
	"fchmod", "fchmodat", "fchmodat2", "fchown", "fchownat", "fcntl", "fdatasync", "fgetxattr",
	"flistxattr", "flock", "fremovexattr", "fsetxattr", "fstat", "fstatfs", "fsync",
	"ftruncate", "futimesat", "getcwd", "getdents", "getdents64", "getxattr", "getxattrat",
	"inotify_add_watch", "inotify_init", "inotify_init1", "inotify_rm_watch", "lchown",
	"lgetxattr", "link", "linkat", "listxattr", "listxattrat", "llistxattr", "lremovexattr",
	"lseek", "lsetxattr", "lstat", "mkdir", "mkdirat", "mknod", "mknodat", "newfstatat", "open",
	"openat", "openat2", "pread64", "preadv", "preadv2", "pwrite64", "pwritev", "pwritev2",
	"read", "readahead", "readlink", "readlinkat", "readv", "removexattr", "removexattrat",
	"rename", "renameat", "renameat2", "rmdir", "sendfile", "setxattr", "setxattrat", "splice",
	"stat", "statfs", "statx", "symlink", "symlinkat", "sync", "sync_file_range", "syncfs",
	"tee", "truncate", "umask", "unlink", "unlinkat", "utime", "utimensat", "utimes",
	"vmsplice", "write", "writev", "chroot", NULL,
};

static const char *const allow_processes[] = {
	"alarm", "arch_prctl", "capget", "capset", "clone3", "execve", "execveat", "exit",
	"exit_group", "fork", "futex", "futex_requeue", "futex_wait", "futex_waitv", "futex_wake",
	"getcpu", "getegid", "geteuid", "getgid", "getgroups", "getitimer", "getpgid", "getpgrp",
	"getpid", "getppid", "getpriority", "getresgid", "getresuid", "getrlimit",
	"get_robust_list", "getrusage", "getsid", "get_thread_area", "gettid", "getuid",
	"ioprio_get", "ioprio_set", "kill", "landlock_add_rule", "landlock_create_ruleset",
	"landlock_restrict_self", "membarrier", "modify_ldt", "pause", "pidfd_open",
	"pidfd_send_signal", "prctl", "prlimit64", "process_mrelease", "ptrace", "restart_syscall",
	"rseq", "rt_sigaction", "rt_sigpending", "rt_sigprocmask", "rt_sigqueueinfo",
	"rt_sigreturn", "rt_sigsuspend", "rt_sigtimedwait", "rt_tgsigqueueinfo",
	"sched_getaffinity", "sched_getattr", "sched_getparam", "sched_get_priority_max",
	"sched_get_priority_min", "sched_getscheduler", "sched_rr_get_interval",
	"sched_setaffinity", "sched_setattr", "sched_setparam", "sched_setscheduler", "sched_yield",
	"seccomp", "setfsgid", "setfsuid", "setgid", "setgroups", "setitimer", "setpgid",
	"setpriority", "setregid", "setresgid", "setresuid", "setreuid", "setrlimit",
	"set_robust_list", "setsid", "set_thread_area", "set_tid_address", "setuid", "sigaltstack",
	"tgkill", "times", "tkill", "uname", "vfork", "wait4", "waitid", "uretprobe", NULL,
};

static const char *const allow_memory[] = {
	"brk", "cachestat", "madvise", "map_shadow_stack", "memfd_create", "memfd_secret",
	"mincore", "mlock", "mlock2", "mlockall", "mmap", "mprotect", "mremap", "mseal", "msync",
	"munlock", "munlockall", "munmap", "pkey_alloc", "pkey_free", "pkey_mprotect",
	"remap_file_pages", "getrandom", "sysinfo", NULL,
};

static const char *const allow_talk[] = {
	"accept", "accept4", "bind", "connect", "epoll_create", "epoll_create1", "epoll_ctl",
	"epoll_ctl_old", "epoll_pwait", "epoll_pwait2", "epoll_wait", "epoll_wait_old", "eventfd",
	"eventfd2", "getpeername", "getsockname", "getsockopt", "io_cancel", "io_destroy",
	"io_getevents", "io_pgetevents", "io_setup", "io_submit", "listen", "mq_getsetattr",
	"mq_notify", "mq_open", "mq_timedreceive", "mq_timedsend", "mq_unlink", "msgctl", "msgget",
	"msgrcv", "msgsnd", "pipe", "pipe2", "poll", "ppoll", "pselect6", "recvfrom", "recvmmsg",
	"recvmsg", "select", "semctl", "semget", "semop", "semtimedop", "sendmmsg", "sendmsg",
	"sendto", "setsockopt", "shmat", "shmctl", "shmdt", "shmget", "shutdown", "signalfd",
	"signalfd4", NULL,
};

static const char *const allow_time[] = {
	"clock_getres", "clock_gettime", "clock_nanosleep", "gettimeofday", "nanosleep", "time",
	"timer_create", "timer_delete", "timer_getoverrun", "timer_gettime", "timer_settime",
	"timerfd_create", "timerfd_gettime", "timerfd_settime", NULL,
};

/* Known and refused: an honest "not permitted" is clearer to programs than "no such call". */
static const char *const refuse[] = {
	"acct", "add_key", "adjtimex", "bpf", "clock_adjtime", "clock_settime", "create_module",
	"delete_module", "fanotify_init", "finit_module", "fsconfig", "fsmount", "fsopen",
	"fspick", "get_kernel_syms", "get_mempolicy", "init_module", "io_uring_enter",
	"io_uring_register", "io_uring_setup", "ioperm", "iopl", "kcmp", "kexec_file_load",
	"kexec_load", "keyctl", "lookup_dcookie", "mbind", "migrate_pages", "mount",
	"mount_setattr", "move_mount", "move_pages", "name_to_handle_at", "nfsservctl",
	"open_by_handle_at", "open_tree", "open_tree_attr", "perf_event_open", "pidfd_getfd",
	"pivot_root", "process_madvise", "process_vm_readv", "process_vm_writev", "query_module",
	"quotactl", "quotactl_fd", "reboot", "request_key", "set_mempolicy",
	"set_mempolicy_home_node", "setdomainname", "sethostname", "setns", "settimeofday",
	"swapoff", "swapon", "syslog", "umount2", "userfaultfd", "vhangup", NULL,
};

static const char *const check_clone[] = {"clone", NULL};
static const char *const check_unshare[] = {"unshare", NULL};
static const char *const check_socket[] = {"socket", NULL};
static const char *const check_socketpair[] = {"socketpair", NULL};
static const char *const check_ioctl[] = {"ioctl", NULL};
static const char *const check_personality[] = {"personality", NULL};

const struct seccomp_row seccomp_rows[] = {
	{ACT_ALLOW,       allow_files},
	{ACT_ALLOW,       allow_processes},
	{ACT_ALLOW,       allow_memory},
	{ACT_ALLOW,       allow_talk},
	{ACT_ALLOW,       allow_time},
	{ACT_EPERM,       refuse},
	{ACT_CLONE,       check_clone},
	{ACT_UNSHARE,     check_unshare},
	{ACT_SOCKET,      check_socket},
	{ACT_SOCKETPAIR,  check_socketpair},
	{ACT_IOCTL,       check_ioctl},
	{ACT_PERSONALITY, check_personality},
	{ACT_MAX,         NULL},
};
/* clang-format on */

/* What a nested sandbox needs with its own user namespace; the new mount API stays refused. */
const char *const seccomp_nest_names[] = {"mount",	 "umount2", "pivot_root",
					  "sethostname", "setns",   NULL};
