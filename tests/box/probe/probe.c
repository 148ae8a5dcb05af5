/*
 * probe.c - tries, from inside a box, what must not work there. Static, needs nothing of the
 * image. Each line of output starts with "ok" or with "BAD"; one table row a probe.
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

#include "../../../src/wire/agent_proto.h" /* without -I, as this is built alone */
#include "probe.h"

int bad;

void say(int ok, const char *what, const char *detail)
{
	printf("%s %s: %s\n", ok ? "ok " : "BAD", what, detail);
	bad |= !ok;
}

/* A call that must fail with this errno (0: with any). */
void refused(const char *what, long rc, int want)
{
	char text[80];

	snprintf(text, sizeof(text), "%s", rc < 0 ? strerror(errno) : "it worked");
	say(rc < 0 && (want == 0 || errno == want), what, text);
}

/* ---- descriptors and residue of the host ---- */

static void probe_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	struct dirent *e;

	while (d && (e = readdir(d))) {
		int fd = (int)strtol(e->d_name, NULL, 10);

		if (e->d_name[0] != '.' && fd > 2 && fd != dirfd(d))
			say(0, "descriptor", e->d_name);
	}
	say(d != NULL, "descriptors", "0 to 2 alone");
}

static void same_root(const char *path)
{
	struct stat a, b;

	if (stat(path, &a) < 0) {
		say(errno == EACCES || errno == EPERM, path, strerror(errno));
		return;
	}
	say(stat("/", &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino, path,
	    "leads to our own root");
}

static void probe_root(void)
{
	struct stat st;
	char text[4096];
	FILE *f = fopen("/proc/self/mountinfo", "r");

	same_root("/proc/1/root");
	same_root("/proc/1/root/../../..");
	same_root("/proc/self/root/..");
	same_root("/..");
	/* pid 1 keeps its cgroup's directory: ".." of it must not leave the group. */
	say(stat("/proc/1/fd/5/../../../../../etc/passwd", &st) < 0, "/proc/1/fd/5/..",
	    "stays in the cgroup");
	while (f && fgets(text, sizeof(text), f)) {
		if (strstr(text, "caisson-box") || strstr(text, "/var/"))
			say(0, "mountinfo names the host", text);
	}
	say(f != NULL, "mountinfo", "names no path of the host");
}

static void probe_init_exe(void)
{
	refused("open /proc/1/exe for writing", open("/proc/1/exe", O_WRONLY), 0);
	refused("truncate /proc/1/exe", truncate("/proc/1/exe", 0), 0);
	refused("open /proc/self/exe of pid 1's fd", open("/proc/1/map_files", O_RDWR), 0);
}

/* ---- kernel settings ---- */

static void probe_settings(void)
{
	static const char *const file[] = {"/proc/sys/kernel/core_pattern",
					   "/proc/sys/kernel/modprobe",
					   "/proc/sys/kernel/hotplug",
					   "/proc/sys/kernel/hostname",
					   "/proc/sys/kernel/shmmax",
					   "/proc/sys/kernel/msgmax",
					   "/proc/sys/net/ipv4/ip_forward",
					   "/proc/sys/net/ipv4/conf/all/rp_filter",
					   "/proc/sys/vm/overcommit_memory",
					   "/proc/sys/fs/mqueue/msg_max",
					   "/proc/sys/fs/binfmt_misc/register",
					   "/proc/sysrq-trigger",
					   "/proc/irq/default_smp_affinity",
					   "/proc/bus/pci/00",
					   "/sys/kernel/uevent_helper",
					   "/sys/fs/cgroup/release_agent",
					   "/sys/fs/cgroup/cgroup.procs",
					   "/sys/kernel/mm/transparent_hugepage/enabled",
					   "/sys/class/net/lo/mtu",
					   "/sys/power/state",
					   "/sys/kernel/debug/sched/debug",
					   "/sys/kernel/security/lsm",
					   "/proc/fs/nfsd/exports",
					   "/proc/meminfo",
					   "/proc/cpuinfo",
					   "/sys/devices/system/cpu/online"};

	for (size_t i = 0; i < sizeof(file) / sizeof(*file); i++) {
		int fd = open(file[i], O_WRONLY);

		refused(file[i], fd < 0 ? -1 : write(fd, "1", 1), 0);
		if (fd >= 0)
			close(fd);
	}
}

/* What leaks the host must be empty, or not open at all. */
static void probe_secrets(void)
{
	static const char *const file[] = {"/proc/kcore",	  "/proc/kmsg",
					   "/proc/keys",	  "/proc/timer_list",
					   "/proc/sched_debug",	  "/proc/kallsyms",
					   "/proc/latency_stats", "/proc/vmallocinfo",
					   "/proc/kpagecount",	  "/proc/kpageflags",
					   "/proc/iomem_",	  "/dev/mem",
					   "/dev/kmsg",		  "/dev/port",
					   "/proc/interrupts",	  "/sys/firmware/acpi/tables/DSDT"};
	static const char *const dir[] = {
		"/proc/acpi",	     "/proc/scsi",	    "/proc/asound",	   "/sys/firmware",
		"/sys/kernel/debug", "/sys/kernel/tracing", "/sys/kernel/security"};
	char c;

	for (size_t i = 0; i < sizeof(file) / sizeof(*file); i++) {
		int fd = open(file[i], O_RDONLY | O_NONBLOCK);

		say(fd < 0 || read(fd, &c, 1) <= 0, file[i], "tells nothing");
		if (fd >= 0)
			close(fd);
	}
	for (size_t i = 0; i < sizeof(dir) / sizeof(*dir); i++) {
		DIR *d = opendir(dir[i]);
		struct dirent *e;
		int n = 0;

		while (d && (e = readdir(d)))
			n += e->d_name[0] != '.';
		say(n == 0, dir[i], "is empty or absent");
	}
}

/* ---- mounts ---- */

static void probe_mounts(void)
{
	FILE *f = fopen("/proc/self/mounts", "r");
	char line[4096], where[1024], fs[64], opts[1024];

	mkdir("/tmp/m", 0755);
	refused("mount proc", mount("proc", "/tmp/m", "proc", 0, NULL), EPERM);
	refused("mount tmpfs", mount("t", "/tmp/m", "tmpfs", 0, NULL), EPERM);
	refused("bind mount", mount("/", "/tmp/m", NULL, MS_BIND, NULL), EPERM);
	refused("remount", mount(NULL, "/sys", NULL, MS_REMOUNT, NULL), EPERM);
	refused("mount cgroup", mount("c", "/tmp/m", "cgroup", 0, "memory"), EPERM);
	refused("umount", umount2("/proc/meminfo", MNT_DETACH), EPERM);
	refused("pivot_root", syscall(SYS_pivot_root, "/", "/tmp/m"), EPERM);
	refused("fsopen", syscall(430, "tmpfs", 0), EPERM);
	refused("fsconfig", syscall(431, 0, 0, 0, 0, 0), EPERM);
	refused("open_tree", syscall(428, -100, "/", 1), EPERM);
	refused("move_mount", syscall(429, -100, "/", -100, "/tmp/m", 0), EPERM);
	refused("mount_setattr", syscall(442, -100, "/", 0, 0, 0), EPERM);
	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%*s %1023s %63s %1023s", where, fs, opts) != 3)
			continue;
		if (strcmp(where, "/dev") == 0 || strcmp(where, "/dev/pts") == 0)
			continue;
		if (!strstr(opts, "nodev"))
			say(0, where, "is not nodev");
		if (strcmp(fs, "sysfs") == 0 && strncmp(opts, "ro", 2) != 0)
			say(0, where, "is writable");
	}
	say(f != NULL, "mounts", "are nodev, sysfs is read-only");
}

static void probe_devices(void)
{
	static const char *const where[] = {"/", "/tmp", "/dev", "/dev/shm", "/root", "/var/tmp"};
	static const char *const none[] = {"/dev/sda",	   "/dev/vda",	"/dev/mem",
					   "/dev/kvm",	   "/dev/fuse", "/dev/loop0",
					   "/dev/net/tun", "/dev/kmsg", "/dev/loop-control"};

	for (size_t i = 0; i < sizeof(where) / sizeof(*where); i++) {
		char path[64];

		snprintf(path, sizeof(path), "%s/node", where[i]);
		refused(path, mknod(path, S_IFCHR | 0666, makedev(1, 1)), EPERM);
		refused(path, mknod(path, S_IFBLK | 0666, makedev(254, 0)), EPERM);
	}
	for (size_t i = 0; i < sizeof(none) / sizeof(*none); i++)
		refused(none[i], open(none[i], O_RDWR), 0);
	say(open("/dev/null", O_RDWR) >= 0 && open("/dev/zero", O_RDONLY) >= 0 &&
		    open("/dev/full", O_RDWR) >= 0 && open("/dev/urandom", O_RDONLY) >= 0 &&
		    open("/dev/random", O_RDONLY) >= 0,
	    "/dev", "has what it needs");
	say(open("/dev/new", O_CREAT | O_RDWR, 0600) >= 0 && unlink("/dev/new") == 0, "/dev",
	    "may hold files, as with Docker");
}

/* ---- limits ---- */

static void probe_forks(void)
{
	int n = 0;

	while (n < 100000) {
		pid_t pid = fork();

		if (pid < 0)
			break;
		if (pid == 0) {
			pause();
			_exit(0);
		}
		n++;
	}
	printf("ok forked %d\n", n);
	signal(SIGTERM, SIG_IGN);
	kill(-1, SIGKILL);
}

static void probe_memory(void)
{
	size_t step = 1 << 20;

	for (int i = 0; i < 4096; i++) {
		char *p = mmap(NULL, step, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			       0);

		if (p == MAP_FAILED)
			break;
		memset(p, i + 1, step);
	}
	printf("BAD 4 GiB of memory were given\n");
}

static void probe_shm(void)
{
	char block[65536];
	long total = 0;
	int fd = open("/dev/shm/fill", O_CREAT | O_RDWR, 0600);

	memset(block, 1, sizeof(block));
	for (;;) {
		ssize_t n = write(fd, block, sizeof(block));

		if (n <= 0)
			break;
		total += n;
		if (total > 1l << 30)
			break;
	}
	unlink("/dev/shm/fill");
	say(total > 0 && total < 1l << 29, "/dev/shm", "is limited");
}

/* ---- what two boxes could share ---- */

static void probe_share_make(void)
{
	struct sockaddr_un sun = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	memcpy(sun.sun_path, "\0caisson-probe", 14);
	say(bind(fd, (struct sockaddr *)&sun, sizeof(sun.sun_family) + 14) == 0 &&
		    listen(fd, 1) == 0,
	    "abstract socket", "bound");
	say(shmget(0x77, 4096, IPC_CREAT | 0666) >= 0, "SysV shared memory", "made");
	say(mq_open("/probe", O_CREAT | O_RDWR, 0666, NULL) >= 0, "message queue", "made");
	say(shm_open("/probe", O_CREAT | O_RDWR, 0666) >= 0, "posix shared memory", "made");
	fflush(stdout);
	sleep(30);
}

static void probe_share_find(void)
{
	struct sockaddr_un sun = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	memcpy(sun.sun_path, "\0caisson-probe", 14);
	refused("abstract socket",
		connect(fd, (struct sockaddr *)&sun, sizeof(sun.sun_family) + 14), ECONNREFUSED);
	refused("SysV shared memory", shmget(0x77, 4096, 0), ENOENT);
	refused("message queue", mq_open("/probe", O_RDWR), ENOENT);
	refused("posix shared memory", shm_open("/probe", O_RDWR, 0), ENOENT);
}

static const struct {
	const char *name;
	void (*fn)(void);
} probes[] = {{"fds", probe_fds},
	      {"root", probe_root},
	      {"init-exe", probe_init_exe},
	      {"settings", probe_settings},
	      {"secrets", probe_secrets},
	      {"mounts", probe_mounts},
	      {"devices", probe_devices},
	      {"namespaces", probe_namespaces},
	      {"calls", probe_calls},
	      {"i386", probe_i386},
	      {"sockets", probe_sockets},
	      {"terminal", probe_terminal},
	      {"caps", probe_caps},
	      {"pids", probe_pids},
	      {"ptrace", probe_ptrace},
	      {"euid", probe_euid},
	      {"forks", probe_forks},
	      {"memory", probe_memory},
	      {"shm", probe_shm},
	      {"share-make", probe_share_make},
	      {"share-find", probe_share_find}};

int main(int argc, char **argv)
{
	for (size_t i = 0; argc > 1 && i < sizeof(probes) / sizeof(*probes); i++) {
		if (strcmp(argv[1], probes[i].name) != 0)
			continue;
		probes[i].fn();
		return bad;
	}
	/* The marker lets a test put us in the place of a caisson-init that fails. */
	printf("BAD no such probe, %s\n", AGENT_MARKER);
	return 2;
}
