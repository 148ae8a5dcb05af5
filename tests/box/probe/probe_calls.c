/*
 * probe_calls.c - namespaces, calls, sockets, and who a process is: what the inside may not do.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/keyctl.h>
#include <linux/netlink.h>
#include <mqueue.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "probe.h"

#ifndef TIOCSTI
#define TIOCSTI 0x5412
#endif
#ifndef TIOCLINUX
#define TIOCLINUX 0x541C
#endif

/* ---- namespaces and calls ---- */

void probe_namespaces(void)
{
	static const struct {
		const char *name;
		int flag;
	} ns[] = {{"mount", CLONE_NEWNS},      {"user", CLONE_NEWUSER}, {"pid", CLONE_NEWPID},
		  {"network", CLONE_NEWNET},   {"uts", CLONE_NEWUTS},	{"ipc", CLONE_NEWIPC},
		  {"cgroup", CLONE_NEWCGROUP}, {"time", 0x80}};
	static const struct {
		const char *name;
		unsigned long flag;
		int want;
	} three[] = {{"clone3 with a user namespace", CLONE_NEWUSER, ENOSPC},
		     {"clone3 with user and mount", CLONE_NEWUSER | CLONE_NEWNS, ENOSPC},
		     {"clone3 with a mount namespace", CLONE_NEWNS, EPERM},
		     {"clone3 with a network namespace", CLONE_NEWNET, EPERM},
		     {"clone3 with a pid namespace", CLONE_NEWPID, EPERM}};

	for (size_t i = 0; i < sizeof(ns) / sizeof(*ns); i++) {
		long rc;

		refused(ns[i].name, unshare(ns[i].flag), EPERM);
		if (ns[i].flag == 0x80)
			continue;
		rc = syscall(SYS_clone, (long)ns[i].flag | SIGCHLD, 0, 0, 0, 0);
		if (rc == 0)
			_exit(0);
		refused("clone", rc, EPERM);
	}
	/* A filter can't see its flags, so the namespace's own count and capabilities refuse. */
	for (size_t i = 0; i < sizeof(three) / sizeof(*three); i++) {
		unsigned long args[11] = {[0] = three[i].flag, [4] = SIGCHLD};
		long rc = syscall(435, args, 64);

		if (rc == 0)
			_exit(0);
		refused(three[i].name, rc, three[i].want);
	}
	refused("raising the count of user namespaces",
		open("/proc/sys/user/max_user_namespaces", O_WRONLY), 0);
	refused("setns", setns(open("/proc/1/ns/net", O_RDONLY), 0), EPERM);
}

void probe_calls(void)
{
	static const struct {
		const char *name;
		long nr;
		int want;
	} call[] = {{"bpf", 321, EPERM},
		    {"perf_event_open", 298, EPERM},
		    {"userfaultfd", 323, EPERM},
		    {"io_uring_setup", 425, EPERM},
		    {"io_uring_enter", 426, EPERM},
		    {"io_uring_register", 427, EPERM},
		    {"keyctl", 250, EPERM},
		    {"add_key", 248, EPERM},
		    {"request_key", 249, EPERM},
		    {"kexec_load", 246, EPERM},
		    {"kexec_file_load", 320, EPERM},
		    {"init_module", 175, EPERM},
		    {"finit_module", 313, EPERM},
		    {"delete_module", 176, EPERM},
		    {"swapon", 167, EPERM},
		    {"swapoff", 168, EPERM},
		    {"reboot", 169, EPERM},
		    {"acct", 163, EPERM},
		    {"settimeofday", 164, EPERM},
		    {"clock_settime", 227, EPERM},
		    {"clock_adjtime", 305, EPERM},
		    {"adjtimex", 159, EPERM},
		    {"syslog", 103, EPERM},
		    {"sethostname", 170, EPERM},
		    {"setdomainname", 171, EPERM},
		    {"ioperm", 173, EPERM},
		    {"iopl", 172, EPERM},
		    {"quotactl", 179, EPERM},
		    {"lookup_dcookie", 212, EPERM},
		    {"open_by_handle_at", 304, EPERM},
		    {"name_to_handle_at", 303, EPERM},
		    {"kcmp", 312, EPERM},
		    {"pidfd_getfd", 438, EPERM},
		    {"process_vm_readv", 310, EPERM},
		    {"process_vm_writev", 311, EPERM},
		    {"process_madvise", 440, EPERM},
		    {"fanotify_init", 300, EPERM},
		    {"vhangup", 153, EPERM},
		    {"mbind", 237, EPERM},
		    {"move_pages", 279, EPERM},
		    {"uselib", 134, ENOSYS},
		    {"a number nobody knows", 499, ENOSYS},
		    {"a number far out", 100000, ENOSYS},
		    {"x32 getpid", 0x40000000 | 39, ENOSYS}};

	for (size_t i = 0; i < sizeof(call) / sizeof(*call); i++)
		refused(call[i].name, syscall(call[i].nr, 0, 0, 0, 0, 0, 0), call[i].want);
}

/* The i386 entry must answer "no such call", not kill. */
void probe_i386(void)
{
#if defined(__x86_64__)
	long rc = 20; /* getpid of i386 */

	__asm__ volatile("int $0x80" : "+a"(rc) : : "memory", "r8", "r9", "r10", "r11");
	errno = (int)-rc;
	refused("i386 getpid", rc < 0 ? -1 : rc, ENOSYS);
#endif
	say(1, "i386", "done");
}

void probe_sockets(void)
{
	static const struct {
		const char *name;
		int family, type, protocol;
	} sock[] = {{"AF_PACKET", 17, SOCK_RAW, 0x0300},
		    {"AF_PACKET dgram", 17, SOCK_DGRAM, 0x0300},
		    {"AF_ALG", 38, SOCK_SEQPACKET, 0},
		    {"AF_VSOCK", 40, SOCK_STREAM, 0},
		    {"AF_KEY", 15, SOCK_RAW, 2},
		    {"AF_BLUETOOTH", 31, SOCK_RAW, 1},
		    {"AF_TIPC", 30, SOCK_RDM, 0},
		    {"AF_XDP", 44, SOCK_RAW, 0},
		    {"AF_CAN", 29, SOCK_RAW, 1},
		    {"AF_RDS", 21, SOCK_SEQPACKET, 0},
		    {"AF_SMC", 43, SOCK_STREAM, 0},
		    {"raw IPv4", AF_INET, SOCK_RAW, 1},
		    {"raw IPv6", AF_INET6, SOCK_RAW, 58},
		    {"SOCK_PACKET", AF_INET, 10, 0x0300},
		    {"SCTP", AF_INET, SOCK_STREAM, 132},
		    {"DCCP", AF_INET, 6, 33},
		    {"UDPLITE", AF_INET, SOCK_DGRAM, 136},
		    {"netlink netfilter", AF_NETLINK, SOCK_RAW, NETLINK_NETFILTER},
		    {"netlink audit", AF_NETLINK, SOCK_RAW, NETLINK_AUDIT},
		    {"netlink uevent", AF_NETLINK, SOCK_RAW, NETLINK_KOBJECT_UEVENT},
		    {"netlink xfrm", AF_NETLINK, SOCK_RAW, NETLINK_XFRM},
		    {"netlink diag", AF_NETLINK, SOCK_RAW, 4},
		    {"netlink generic", AF_NETLINK, SOCK_RAW, NETLINK_GENERIC}};
	int pair[2];

	for (size_t i = 0; i < sizeof(sock) / sizeof(*sock); i++)
		refused(sock[i].name, socket(sock[i].family, sock[i].type, sock[i].protocol), 0);
	say(socket(AF_INET, SOCK_STREAM, 0) >= 0, "TCP", "works");
	say(socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0) >= 0, "UDP", "works");
	say(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE) >= 0, "netlink route",
	    "works");
	say(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0, "unix pair", "works");
	refused("socketpair of TIPC", socketpair(30, SOCK_STREAM, 0, pair), 0);
}

void probe_terminal(void)
{
	int ptmx = open("/dev/ptmx", O_RDWR | O_NOCTTY), unlock = 0, n = -1, pts;
	char path[32], c = 'x';

	say(ptmx >= 0 && ioctl(ptmx, TIOCSPTLCK, &unlock) == 0 && ioctl(ptmx, TIOCGPTN, &n) == 0,
	    "ptmx", "opens");
	snprintf(path, sizeof(path), "/dev/pts/%d", n);
	pts = open(path, O_RDWR | O_NOCTTY);
	say(pts >= 0, path, "opens");
	refused("TIOCSTI", ioctl(pts, TIOCSTI, &c), EPERM);
	refused("TIOCSTI with high bits", syscall(SYS_ioctl, pts, 0xdead000000005412ul, &c), EPERM);
	refused("TIOCLINUX", ioctl(pts, TIOCLINUX, &c), EPERM);
	refused("TIOCLINUX with high bits", syscall(SYS_ioctl, pts, 0x10000541Cul, &c), EPERM);
	refused("TIOCSETD", ioctl(pts, TIOCSETD, &unlock), EPERM);
	for (n = 0; n < 4096 && open("/dev/ptmx", O_RDWR | O_NOCTTY) >= 0; n++)
		;
	say(n < 1024, "terminals", "are limited");
}

/* ---- identity ---- */

static unsigned long long status_hex(const char *key)
{
	FILE *f = fopen("/proc/self/status", "r");
	char line[256];
	unsigned long long v = ~0ull;

	while (f && fgets(line, sizeof(line), f)) {
		if (strncmp(line, key, strlen(key)) == 0 && line[strlen(key)] == ':')
			v = strtoull(line + strlen(key) + 1, NULL, 16);
	}
	if (f)
		fclose(f);
	return v;
}

void probe_caps(void)
{
	const unsigned long long docker = 0xa00425fbull; /* Docker's 14 without MKNOD (bit 27) */
	char text[64];

	for (int i = 0; i < 4; i++) {
		static const char *const set[] = {"CapInh", "CapPrm", "CapEff", "CapBnd"};
		unsigned long long v = status_hex(set[i]);

		snprintf(text, sizeof(text), "%llx", v);
		say((v & ~docker) == 0, set[i], text);
	}
	say(status_hex("CapAmb") == 0, "CapAmb", "empty");
	say(status_hex("Seccomp") == 2, "Seccomp", "a filter is on");
	refused("setpcap back", prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_SYS_ADMIN, 0, 0),
		0);
	refused("chroot out", chroot("/proc/1/root/../.."), 0);
}

void probe_pids(void)
{
	DIR *d = opendir("/proc");
	struct dirent *e;
	int n = 0;

	while (d && (e = readdir(d)))
		n += e->d_name[0] >= '1' && e->d_name[0] <= '9';
	say(n <= 3, "processes", "are ours alone");
	refused("ptrace attach to pid 0", ptrace(PTRACE_ATTACH, 0, 0, 0), 0);
	kill(-1, 0);
	refused("scheduling", sched_setscheduler(0, SCHED_FIFO, &(struct sched_param){50}), 0);
	refused("nice", setpriority(PRIO_PROCESS, 0, -10), 0);
	refused("memory lock without end",
		setrlimit(RLIMIT_MEMLOCK, &(struct rlimit){RLIM_INFINITY, RLIM_INFINITY}), 0);
	refused("more files", setrlimit(RLIMIT_NOFILE, &(struct rlimit){1 << 20, 1 << 20}), 0);
	refused("lower oom score",
		open("/proc/1/oom_score_adj", O_WRONLY) < 0
			? -1
			: write(open("/proc/self/oom_score_adj", O_WRONLY), "-999", 4),
		0);
}

/* Debuggers work, on processes of the own box. */
void probe_ptrace(void)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		ptrace(PTRACE_TRACEME, 0, 0, 0);
		raise(SIGSTOP);
		_exit(7);
	}
	waitpid(pid, &status, 0);
	say(WIFSTOPPED(status), "ptrace", "stops a child");
	ptrace(PTRACE_CONT, pid, 0, 0);
	waitpid(pid, &status, 0);
	say(WIFEXITED(status) && WEXITSTATUS(status) == 7, "ptrace", "lets it go on");
}

void probe_euid(void)
{
	printf("ok euid %d\n", (int)geteuid());
}
