/*
 * files.c - see files.h.
 */
#include "box/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "base/path.h"
#include "base/sys.h"

#define FILES_CPUINFO_MAX (1u << 20)
#define FILES_TEXT_MAX	  4096

int files_fsmount(const char *fs, const char *const (*opt)[2], unsigned attrs, struct err *err)
{
	auto_close int fd = sys_fsopen(fs, FSOPEN_CLOEXEC);
	int mnt;

	if (fd < 0)
		return err_errno(err, ERR_INTERNAL, errno, "open a %s", fs);
	for (; opt && (*opt)[0]; opt++) {
		if (sys_fsconfig(fd, FSCONFIG_SET_STRING, (*opt)[0], (*opt)[1], 0) < 0)
			return err_errno(err, ERR_INTERNAL, errno, "set %s of a %s", (*opt)[0], fs);
	}
	if (sys_fsconfig(fd, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return err_errno(err, ERR_INTERNAL, errno, "create a %s", fs);
	mnt = sys_fsmount(fd, FSMOUNT_CLOEXEC, attrs);
	return mnt < 0 ? err_errno(err, ERR_INTERNAL, errno, "mount a %s", fs) : mnt;
}

static const struct {
	const char *name;
	unsigned major, minor;
} dev_node[] = {{"null", 1, 3},	  {"zero", 1, 5},    {"full", 1, 7},
		{"random", 1, 8}, {"urandom", 1, 9}, {"tty", 5, 0}};
static const char *const dev_dir[] = {"pts", "shm", "mqueue"};
static const char *const dev_link[][2] = {{"pts/ptmx", "ptmx"},
					  {"/proc/self/fd", "fd"},
					  {"/proc/self/fd/0", "stdin"},
					  {"/proc/self/fd/1", "stdout"},
					  {"/proc/self/fd/2", "stderr"}};

int files_make_dev(struct err *err)
{
	static const char *const opt[][2] = {
		{"mode", "755"}, {"size", "1m"}, {"nr_inodes", "1024"}, {NULL, NULL}};
	auto_close int mnt =
		files_fsmount("tmpfs", opt, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC, err);

	if (mnt < 0)
		return -1;
	for (size_t i = 0; i < ARRAY_LEN(dev_node); i++) {
		if (mknodat(mnt, dev_node[i].name, S_IFCHR | 0666,
			    makedev(dev_node[i].major, dev_node[i].minor)) < 0 ||
		    /* Not every maker of a /dev has a umask of 0. */
		    fchmodat(mnt, dev_node[i].name, 0666, 0) < 0)
			return err_errno(err, ERR_INTERNAL, errno, "make /dev/%s",
					 dev_node[i].name);
	}
	for (size_t i = 0; i < ARRAY_LEN(dev_dir); i++) {
		if (mkdirat(mnt, dev_dir[i], 0755) < 0)
			return err_errno(err, ERR_INTERNAL, errno, "make /dev/%s", dev_dir[i]);
	}
	for (size_t i = 0; i < ARRAY_LEN(dev_link); i++) {
		if (symlinkat(dev_link[i][0], mnt, dev_link[i][1]) < 0)
			return err_errno(err, ERR_INTERNAL, errno, "make /dev/%s", dev_link[i][1]);
	}
	return TAKE_FD(mnt);
}

static int dev_own(int dev, const char *name, uid_t uid, struct err *err)
{
	if (fchownat(dev, name, uid, uid, AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH) < 0)
		return err_errno(err, ERR_INTERNAL, errno, "give /dev/%s to the box", name);
	return 0;
}

int files_give_dev(int dev, int userns, uid_t base, struct err *err)
{
	struct mount_attr attr = {.attr_set = MOUNT_ATTR_IDMAP, .userns_fd = (uint64_t)userns};

	if (sys_mount_setattr(dev, "", AT_EMPTY_PATH, &attr) == 0)
		return 0;
	if (dev_own(dev, "", base, err) < 0)
		return -1;
	for (size_t i = 0; i < ARRAY_LEN(dev_node); i++) {
		if (dev_own(dev, dev_node[i].name, base, err) < 0)
			return -1;
	}
	for (size_t i = 0; i < ARRAY_LEN(dev_dir); i++) {
		if (dev_own(dev, dev_dir[i], base, err) < 0)
			return -1;
	}
	for (size_t i = 0; i < ARRAY_LEN(dev_link); i++) {
		if (dev_own(dev, dev_link[i][1], base, err) < 0)
			return -1;
	}
	return 0;
}

int host_files_open(struct host_files *f, struct err *err)
{
	char mem[FILES_TEXT_MAX];
	const char *line;
	ssize_t n;

	memset(f, 0, sizeof(*f));
	f->cpuinfo = malloc(FILES_CPUINFO_MAX);
	if (!f->cpuinfo)
		return err_set(err, ERR_NOMEM, "out of memory");
	n = path_read_at(AT_FDCWD, "/proc/cpuinfo", f->cpuinfo, FILES_CPUINFO_MAX, err);
	if (n < 0 || path_read_at(AT_FDCWD, "/proc/meminfo", mem, sizeof(mem), err) < 0)
		return -1;
	for (ssize_t i = 0; i + 1 < n && f->cpus < HOST_CPUS_MAX; i++) {
		if (f->cpuinfo[i] == '\n' && f->cpuinfo[i + 1] == '\n')
			f->cpu_end[f->cpus++] = (size_t)i + 2;
	}
	if (f->cpus == 0)
		f->cpu_end[f->cpus++] = (size_t)n;
	line = strstr(mem, "MemTotal:");
	f->mem_total = line ? strtoull(line + 9, NULL, 10) * 1024 : 0;
	return 0;
}

void host_files_close(struct host_files *f)
{
	free(f->cpuinfo);
	f->cpuinfo = NULL;
}

/* Processors a limit amounts to, at least one and never more than there are. */
static unsigned files_cpus(const struct host_files *f, uint32_t cpu_milli)
{
	unsigned n = (cpu_milli + 999) / 1000;

	return MAX(1u, MIN(n, f->cpus));
}

static void compose_meminfo(const struct host_files *f, uint64_t limit, char *out, size_t cap)
{
	static const char *const zero[] = {
		"Buffers",    "Cached",		"SwapCached",	"Active",    "Inactive",
		"SwapTotal",  "SwapFree",	"Dirty",	"Writeback", "AnonPages",
		"Mapped",     "Shmem",		"KReclaimable", "Slab",	     "SReclaimable",
		"SUnreclaim", "HugePages_Total"};
	unsigned long long kib = MIN(limit, f->mem_total ? f->mem_total : limit) / 1024;
	int n = snprintf(out, cap,
			 "MemTotal:       %8llu kB\nMemFree:        %8llu kB\n"
			 "MemAvailable:   %8llu kB\n",
			 kib, kib, kib);

	for (size_t i = 0; i < ARRAY_LEN(zero); i++)
		n += snprintf(out + n, cap - (size_t)n, "%s:%*s0 kB\n", zero[i],
			      (int)MAX(1, 22 - (int)strlen(zero[i])), "");
}

static void compose_hosts(const struct files_spec *s, char *out, size_t cap)
{
	const char *const ip[] = {s->ip4, s->ip6};
	int n = snprintf(out, cap,
			 "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n"
			 "ff02::1\tip6-allnodes\nff02::2\tip6-allrouters\n");

	for (size_t i = 0; i < ARRAY_LEN(ip); i++) {
		if (ip[i][0])
			n += snprintf(out + n, cap - (size_t)n, "%s\t%s\n", ip[i], s->hostname);
	}
}

void files_compose(const struct host_files *f, const struct files_spec *s, struct files_text *ret)
{
	unsigned cpus = files_cpus(f, s->cpu_milli);

	compose_hosts(s, ret->hosts, sizeof(ret->hosts));
	snprintf(ret->hostname, sizeof(ret->hostname), "%s\n", s->hostname);
	ret->resolv[0] = '\0';
	if (s->resolver4[0])
		snprintf(ret->resolv, sizeof(ret->resolv),
			 "nameserver %s\noptions timeout:2 attempts:2\n", s->resolver4);
	compose_meminfo(f, s->mem_bytes, ret->meminfo, sizeof(ret->meminfo));
	if (cpus == 1)
		snprintf(ret->online, sizeof(ret->online), "0\n");
	else
		snprintf(ret->online, sizeof(ret->online), "0-%u\n", cpus - 1);
	ret->cpuinfo = f->cpuinfo;
	ret->cpuinfo_len = f->cpu_end[cpus - 1];
}
