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

int files_make_dev(struct err *err)
{
	static const char *const opt[][2] = {
		{"mode", "755"}, {"size", "1m"}, {"nr_inodes", "1024"}, {NULL, NULL}};
	static const struct {
		const char *name;
		unsigned major, minor;
	} node[] = {{"null", 1, 3},   {"zero", 1, 5},	 {"full", 1, 7},
		    {"random", 1, 8}, {"urandom", 1, 9}, {"tty", 5, 0}};
	static const char *const dir[] = {"pts", "shm", "mqueue"};
	static const char *const link[][2] = {{"pts/ptmx", "ptmx"},
					      {"/proc/self/fd", "fd"},
					      {"/proc/self/fd/0", "stdin"},
					      {"/proc/self/fd/1", "stdout"},
					      {"/proc/self/fd/2", "stderr"}};
	auto_close int mnt =
		files_fsmount("tmpfs", opt, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC, err);

	if (mnt < 0)
		return -1;
	for (size_t i = 0; i < ARRAY_LEN(node); i++) {
		if (mknodat(mnt, node[i].name, S_IFCHR | 0666,
			    makedev(node[i].major, node[i].minor)) < 0)
			return err_errno(err, ERR_INTERNAL, errno, "make /dev/%s", node[i].name);
	}
	for (size_t i = 0; i < ARRAY_LEN(dir); i++) {
		if (mkdirat(mnt, dir[i], 0755) < 0)
			return err_errno(err, ERR_INTERNAL, errno, "make /dev/%s", dir[i]);
	}
	for (size_t i = 0; i < ARRAY_LEN(link); i++) {
		if (symlinkat(link[i][0], mnt, link[i][1]) < 0)
			return err_errno(err, ERR_INTERNAL, errno, "make /dev/%s", link[i][1]);
	}
	return TAKE_FD(mnt);
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

static int files_meminfo(const struct host_files *f, uint64_t limit, char *out)
{
	static const char *const zero[] = {
		"Buffers",    "Cached",		"SwapCached",	"Active",    "Inactive",
		"SwapTotal",  "SwapFree",	"Dirty",	"Writeback", "AnonPages",
		"Mapped",     "Shmem",		"KReclaimable", "Slab",	     "SReclaimable",
		"SUnreclaim", "HugePages_Total"};
	unsigned long long kib = MIN(limit, f->mem_total ? f->mem_total : limit) / 1024;
	int n = snprintf(out, FILES_TEXT_MAX,
			 "MemTotal:       %8llu kB\nMemFree:        %8llu kB\n"
			 "MemAvailable:   %8llu kB\n",
			 kib, kib, kib);

	for (size_t i = 0; i < ARRAY_LEN(zero); i++)
		n += snprintf(out + n, FILES_TEXT_MAX - (size_t)n, "%s:%*s0 kB\n", zero[i],
			      (int)MAX(1, 22 - (int)strlen(zero[i])), "");
	return n;
}

static int files_put(int mnt, const char *name, const char *text, size_t n, mode_t mode,
		     struct err *err)
{
	auto_close int fd = openat(mnt, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);

	if (fd < 0 || write(fd, text, n) != (ssize_t)n)
		return err_errno(err, ERR_INTERNAL, errno, "make generated file %s", name);
	return 0;
}

static int files_put_names(int mnt, const struct files_spec *s, struct err *err)
{
	char text[1024];
	int n = snprintf(text, sizeof(text),
			 "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n"
			 "ff02::1\tip6-allnodes\nff02::2\tip6-allrouters\n");

	if (s->ip4[0])
		n += snprintf(text + n, sizeof(text) - (size_t)n, "%s\t%s\n", s->ip4, s->hostname);
	if (s->ip6[0])
		n += snprintf(text + n, sizeof(text) - (size_t)n, "%s\t%s\n", s->ip6, s->hostname);
	if (files_put(mnt, "hosts", text, (size_t)n, 0644, err) < 0)
		return -1;
	n = snprintf(text, sizeof(text), "%s\n", s->hostname);
	if (files_put(mnt, "hostname", text, (size_t)n, 0644, err) < 0)
		return -1;
	n = 0;
	if (s->resolver4[0])
		n = snprintf(text, sizeof(text), "nameserver %s\noptions timeout:2 attempts:2\n",
			     s->resolver4);
	return files_put(mnt, "resolv.conf", text, (size_t)n, 0644, err);
}

int files_make(const struct host_files *f, const struct files_spec *s, struct err *err)
{
	static const char *const opt[][2] = {
		{"mode", "755"}, {"size", "1m"}, {"nr_inodes", "64"}, {NULL, NULL}};
	unsigned cpus = files_cpus(f, s->cpu_milli);
	char text[FILES_TEXT_MAX];
	auto_close int mnt = files_fsmount(
		"tmpfs", opt, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC, err);
	int n;

	if (mnt < 0)
		return -1;
	if (files_put_names(mnt, s, err) < 0)
		return -1;
	n = files_meminfo(f, s->mem_bytes, text);
	if (files_put(mnt, "meminfo", text, (size_t)n, 0444, err) < 0)
		return -1;
	if (files_put(mnt, "cpuinfo", f->cpuinfo, f->cpu_end[cpus - 1], 0444, err) < 0)
		return -1;
	n = cpus == 1 ? snprintf(text, sizeof(text), "0\n")
		      : snprintf(text, sizeof(text), "0-%u\n", cpus - 1);
	if (files_put(mnt, "online", text, (size_t)n, 0444, err) < 0)
		return -1;
	if (files_put(mnt, "empty", "", 0, 0444, err) < 0)
		return -1;
	if (mkdirat(mnt, "void", 0555) < 0)
		return err_errno(err, ERR_INTERNAL, errno, "make the empty directory");
	return TAKE_FD(mnt);
}
