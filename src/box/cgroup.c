/*
 * cgroup.c - see cgroup.h. One limits table of two columns serves both layouts.
 */
#include "box/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/path.h"
#include "base/sys.h"

#define CG_DESCENDANTS_MAX "4096"
#define CG_DEPTH_MAX	   "8"
#define CG_WALK_DEPTH	   12 /* deeper than the sandbox may nest, so removal always reaches */
#define CG_CPU_PERIOD_US   100000
#define CG_V1_TCP_MAX	   "67108864" /* v1 counts socket buffers as memory only when asked to */

enum limit_kind { LIMIT_MEM, LIMIT_SWAP, LIMIT_CPU, LIMIT_PIDS };

/* needed: a host without the file can't hold the promise; the others are extra tightening. */
static const struct limit_row {
	enum limit_kind kind;
	enum cg_v1 v1_group;
	const char *v1_file, *v2_file;
	bool v1_needed, v2_needed;
} limit_table[] = {
	{LIMIT_MEM, CG_V1_MEMORY, "memory.limit_in_bytes", "memory.max", true, true},
	{LIMIT_SWAP, CG_V1_MEMORY, "memory.memsw.limit_in_bytes", "memory.swap.max", false, false},
	{LIMIT_CPU, CG_V1_CPU, "cpu.cfs_quota_us", "cpu.max", true, true},
	{LIMIT_PIDS, CG_V1_PIDS, "pids.max", "pids.max", true, true},
};

/* What the minimal /dev needs, and terminals; a second wall behind "no CAP_MKNOD" and nodev. */
static const char *const device_rules[][2] = {
	{"devices.deny", "a"},
	{"devices.allow", "c 1:3 rwm"},
	{"devices.allow", "c 1:5 rwm"},
	{"devices.allow", "c 1:7 rwm"},
	{"devices.allow", "c 1:8 rwm"},
	{"devices.allow", "c 1:9 rwm"},
	{"devices.allow", "c 5:0 rwm"},
	{"devices.allow", "c 5:2 rwm"},
	{"devices.allow", "c 136:* rwm"},
};

static int cg_write(int dir, const char *name, const char *file, const char *text)
{
	char path[CG_NAME_LEN + 64];
	auto_close int fd = -1;

	snprintf(path, sizeof(path), "%s/%s", name, file);
	fd = openat(dir, path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return -errno;
	return write(fd, text, strlen(text)) < 0 ? -errno : 0;
}

static int cg_read_text(int dir, const char *name, const char *file, char *out, size_t cap)
{
	char path[CG_NAME_LEN + 64];

	snprintf(path, sizeof(path), "%s/%s", name, file);
	out[0] = '\0';
	return path_read_at(dir, path, out, cap, NULL) < 0 ? -1 : 0;
}

static uint64_t cg_read_u64(int dir, const char *name, const char *file)
{
	char text[64];

	if (cg_read_text(dir, name, file, text, sizeof(text)) < 0)
		return 0;
	return strtoull(text, NULL, 10); /* "max" reads as 0 */
}

/* The number after key at the start of a line of a flat keyed file. */
static uint64_t text_key(const char *text, const char *key)
{
	size_t n = strlen(key);

	for (const char *p = text; p && *p; p = strchr(p, '\n')) {
		p += *p == '\n';
		if (strncmp(p, key, n) == 0 && p[n] == ' ')
			return strtoull(p + n + 1, NULL, 10);
	}
	return 0;
}

/* The v2 group with the ceilings that are the same for every sandbox. */
static int cg_create_v2(const struct cg_host *h, const char *name, struct err *err)
{
	if (mkdirat(h->v2, name, 0755) < 0)
		return err_errno(err, ERR_INTERNAL, errno, "make cgroup %s/%s", h->tree, name);
	cg_write(h->v2, name, "cgroup.max.descendants", CG_DESCENDANTS_MAX);
	cg_write(h->v2, name, "cgroup.max.depth", CG_DEPTH_MAX);
	return 0;
}

int cg_create(const struct cg_host *h, char ret_name[CG_NAME_LEN], struct err *err)
{
	char name[CG_NAME_LEN] = "s";

	id_hex(name + 1, 6);
	if (cg_create_v2(h, name, err) < 0)
		return -1;
	for (int i = 0; i < CG_V1_MAX; i++) {
		if (h->v1[i] < 0 || mkdirat(h->v1[i], name, 0755) == 0)
			continue;
		err_errno(err, ERR_INTERNAL, errno, "make v1 cgroup %s/%s", h->tree, name);
		cg_remove(h, name);
		return -1;
	}
	if (h->v1[CG_V1_MEMORY] >= 0)
		cg_write(h->v1[CG_V1_MEMORY], name, "memory.kmem.tcp.limit_in_bytes",
			 CG_V1_TCP_MAX);
	for (size_t i = 0; h->v1[CG_V1_DEVICES] >= 0 && i < ARRAY_LEN(device_rules); i++)
		cg_write(h->v1[CG_V1_DEVICES], name, device_rules[i][0], device_rules[i][1]);
	memcpy(ret_name, name, sizeof(name));
	return 0;
}

static void limit_text(enum limit_kind kind, bool v2, const struct cg_limits *l, char out[64])
{
	uint64_t quota = (uint64_t)l->cpu_milli * (CG_CPU_PERIOD_US / 1000);

	switch (kind) {
	case LIMIT_MEM:
		snprintf(out, 64, "%llu", (unsigned long long)l->mem_bytes);
		break;
	case LIMIT_SWAP:
		/* v1 counts memory and swap together, v2 swap alone: both mean no swap. */
		snprintf(out, 64, "%llu", v2 ? 0ull : (unsigned long long)l->mem_bytes);
		break;
	case LIMIT_CPU:
		if (v2)
			snprintf(out, 64, "%llu %d", (unsigned long long)quota, CG_CPU_PERIOD_US);
		else
			snprintf(out, 64, "%llu", (unsigned long long)quota);
		break;
	case LIMIT_PIDS:
		snprintf(out, 64, "%u", l->pids_max);
		break;
	}
}

int cg_set_limits(const struct cg_host *h, const char *name, const struct cg_limits *l,
		  struct err *err)
{
	bool v2 = h->layout == CG_LAYOUT_V2;

	/* v1 refuses a memory limit above the one of memory and swap, which may be an older one. */
	if (!v2)
		cg_write(h->v1[CG_V1_MEMORY], name, "memory.memsw.limit_in_bytes", "-1");
	for (size_t i = 0; i < ARRAY_LEN(limit_table); i++) {
		const struct limit_row *r = &limit_table[i];
		const char *file = v2 ? r->v2_file : r->v1_file;
		int dir = v2 ? h->v2 : h->v1[r->v1_group];
		char text[64];
		int rc;

		limit_text(r->kind, v2, l, text);
		rc = cg_write(dir, name, file, text);
		if (rc < 0 && (v2 ? r->v2_needed : r->v1_needed))
			return err_errno(err, ERR_INTERNAL, -rc, "set %s to %s", file, text);
	}
	return 0;
}

int cg_open_tasks(const struct cg_host *h, const char *name, int ret[CG_V1_MAX], struct err *err)
{
	char path[CG_NAME_LEN + 16];

	snprintf(path, sizeof(path), "%s/tasks", name);
	for (int i = 0; i < CG_V1_MAX; i++) {
		ret[i] = h->v1[i] < 0 ? -1 : openat(h->v1[i], path, O_WRONLY | O_CLOEXEC);
		if (h->v1[i] >= 0 && ret[i] < 0)
			return err_errno(err, ERR_INTERNAL, errno, "open v1 cgroup %s", name);
	}
	return 0;
}

int cg_attach_v2(const struct cg_host *h, const char *name, pid_t pid, struct err *err)
{
	char text[16];
	int rc;

	snprintf(text, sizeof(text), "%d", pid);
	rc = cg_write(h->v2, name, "cgroup.procs", text);
	return rc < 0 ? err_errno(err, ERR_INTERNAL, -rc, "attach to cgroup %s", name) : 0;
}

int cg_delegate(const struct cg_host *h, const char *name, uid_t uid, struct err *err)
{
	static const char *const file[] = {"", "/cgroup.procs", "/cgroup.subtree_control",
					   "/cgroup.threads"};

	for (size_t i = 0; i < ARRAY_LEN(file); i++) {
		char path[CG_NAME_LEN + 32];

		snprintf(path, sizeof(path), "%s%s", name, file[i]);
		if (fchownat(h->v2, path, uid, uid, AT_SYMLINK_NOFOLLOW) < 0)
			return err_errno(err, ERR_INTERNAL, errno, "delegate cgroup %s", path);
	}
	return 0;
}

int cg_open(const struct cg_host *h, const char *name, struct err *err)
{
	int fd = openat(h->v2, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return fd < 0 ? err_errno(err, ERR_INTERNAL, errno, "open cgroup %s", name) : fd;
}

/* Signal each process of a cgroup.procs text; a pidfd, so a reused number is not hit twice. */
static void procs_kill(const char *text)
{
	char *end;

	for (const char *p = text; *p; p = *end ? end + 1 : end) {
		long pid = strtol(p, &end, 10);
		auto_close int fd = -1;

		if (end == p)
			return;
		fd = pid > 0 ? sys_pidfd_open((pid_t)pid, 0) : -1;
		if (fd >= 0)
			sys_pidfd_send_signal(fd, SIGKILL);
	}
}

void cg_kill(const struct cg_host *h, const char *name)
{
	auto_free char *text = NULL;

	cg_write(h->v2, name, "cgroup.kill", "1");
	/* Backstop, and the whole answer before Linux 5.14: nobody leaves the pids hierarchy. */
	if (h->v1[CG_V1_PIDS] < 0)
		return;
	text = malloc(65536);
	if (!text)
		return;
	if (cg_read_text(h->v1[CG_V1_PIDS], name, "cgroup.procs", text, 65536) == 0)
		procs_kill(text);
}

bool cg_populated(const struct cg_host *h, const char *name)
{
	char text[256];

	if (cg_read_text(h->v2, name, "cgroup.events", text, sizeof(text)) == 0 &&
	    text_key(text, "populated"))
		return true;
	/* Not pids.current: an adopted box's zombie counts there until the host's pid 1 reaps it.
	 */
	return h->v1[CG_V1_PIDS] >= 0 &&
	       cg_read_text(h->v1[CG_V1_PIDS], name, "cgroup.procs", text, sizeof(text)) == 0 &&
	       text[0] != '\0';
}

int cg_wait_empty(const struct cg_host *h, const char *name, int64_t deadline_ms, struct err *err)
{
	char path[CG_NAME_LEN + 32];
	auto_close int fd = -1;

	snprintf(path, sizeof(path), "%s/cgroup.events", name);
	fd = openat(h->v2, path, O_RDONLY | O_CLOEXEC);
	while (fd >= 0 && cg_populated(h, name)) {
		struct pollfd p = {.fd = fd, .events = POLLPRI};
		char text[256];
		int left = clock_left_ms(deadline_ms);

		if (left == 0)
			return err_set(err, ERR_TIMEOUT, "processes of cgroup %s do not end", name);
		/* Reading re-arms the event; the short cap covers v1-only stragglers. */
		if (pread(fd, text, sizeof(text), 0) < 0)
			return 0;
		if (cg_populated(h, name))
			poll(&p, 1, MIN(left, 20));
	}
	return 0;
}

/* Groups the inside made; depth-first, by descriptor, bounded by the ceiling set at creation. */
static int cg_remove_below(int dirfd, const char *name, int depth)
{
	auto_closedir DIR *dir = NULL;
	struct dirent *ent;
	int fd, busy = 0;

	if (unlinkat(dirfd, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
		return 0;
	if (depth >= CG_WALK_DEPTH)
		return 1;
	fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return errno != ENOENT;
	dir = fdopendir(fd);
	if (!dir) {
		close(fd);
		return 1;
	}
	while ((ent = readdir(dir))) {
		if (ent->d_type == DT_DIR && ent->d_name[0] != '.')
			busy |= cg_remove_below(fd, ent->d_name, depth + 1);
	}
	if (unlinkat(dirfd, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
		return 0;
	return 1 | busy;
}

int cg_remove(const struct cg_host *h, const char *name)
{
	int busy = cg_remove_below(h->v2, name, 0);

	for (int i = 0; i < CG_V1_MAX; i++) {
		if (h->v1[i] >= 0 && unlinkat(h->v1[i], name, AT_REMOVEDIR) < 0 && errno != ENOENT)
			busy = 1;
	}
	return busy;
}

/* Nobody in it, a zombie neither; no kill for memory; nothing of size charged to it. */
static bool v1_clean(const struct cg_host *h, const char *name)
{
	int mem = h->v1[CG_V1_MEMORY];
	char text[256];

	if (mem < 0 || h->v1[CG_V1_PIDS] < 0 ||
	    cg_read_text(h->v1[CG_V1_PIDS], name, "pids.current", text, sizeof(text)) < 0 ||
	    strcmp(text, "0\n") != 0)
		return false;
	if (cg_read_text(mem, name, "memory.oom_control", text, sizeof(text)) < 0 ||
	    !strstr(text, "under_oom 0\n") || text_key(text, "oom_kill") != 0)
		return false;
	return cg_read_text(mem, name, "memory.usage_in_bytes", text, sizeof(text)) == 0 &&
	       strtoull(text, NULL, 10) <= CG_RENEW_MAX &&
	       cg_write(mem, name, "memory.max_usage_in_bytes", "0") == 0;
}

int cg_renew(const struct cg_host *h, const char *name, char ret_name[CG_NAME_LEN])
{
	char fresh[CG_NAME_LEN] = "s";

	if (h->layout != CG_LAYOUT_HYBRID || !v1_clean(h, name) || cg_remove_below(h->v2, name, 0))
		return -1;
	id_hex(fresh + 1, 6);
	/* A rename is a v1 group's own; tasks files that were opened before stay good. */
	for (int i = 0; i < CG_V1_MAX; i++) {
		if (h->v1[i] >= 0 && renameat(h->v1[i], name, h->v1[i], fresh) < 0) {
			cg_remove(h, fresh);
			return -1;
		}
	}
	if (cg_create_v2(h, fresh, NULL) < 0) {
		cg_remove(h, fresh);
		return -1;
	}
	memcpy(ret_name, fresh, sizeof(fresh));
	return 0;
}

/* A pid's v2 line of /proc/<pid>/cgroup: it names the group or one below it. */
bool cg_contains(const struct cg_host *h, const char *name, pid_t pid)
{
	char path[64], text[4096], want[CG_PATH_MAX];
	const char *line;
	size_t n;

	snprintf(path, sizeof(path), "/proc/%d/cgroup", pid);
	if (path_read_at(AT_FDCWD, path, text, sizeof(text), NULL) < 0)
		return false;
	n = (size_t)snprintf(want, sizeof(want), "/%s/%s", h->tree, name);
	line = strncmp(text, "0::", 3) == 0 ? text : strstr(text, "\n0::");
	if (!line)
		return false;
	line = strstr(line, "0::") + 3;
	return strncmp(line, want, n) == 0 && (line[n] == '/' || line[n] == '\n');
}

static void stats_v2(const struct cg_host *h, const char *name, struct cg_stats *s, char *text,
		     size_t cap)
{
	s->mem_bytes = cg_read_u64(h->v2, name, "memory.current");
	s->mem_peak = cg_read_u64(h->v2, name, "memory.peak");
	s->mem_limit = cg_read_u64(h->v2, name, "memory.max");
	s->pids = (uint32_t)cg_read_u64(h->v2, name, "pids.current");
	if (cg_read_text(h->v2, name, "memory.stat", text, cap) == 0)
		s->mem_cache = text_key(text, "file");
	if (cg_read_text(h->v2, name, "memory.events", text, cap) == 0)
		s->oom_kills = text_key(text, "oom_kill");
}

static void stats_v1(const struct cg_host *h, const char *name, struct cg_stats *s, char *text,
		     size_t cap)
{
	int mem = h->v1[CG_V1_MEMORY];

	s->mem_bytes = cg_read_u64(mem, name, "memory.usage_in_bytes");
	s->mem_peak = cg_read_u64(mem, name, "memory.max_usage_in_bytes");
	s->mem_limit = cg_read_u64(mem, name, "memory.limit_in_bytes");
	s->pids = (uint32_t)cg_read_u64(h->v1[CG_V1_PIDS], name, "pids.current");
	if (cg_read_text(mem, name, "memory.stat", text, cap) == 0)
		s->mem_cache = text_key(text, "total_cache");
	if (cg_read_text(mem, name, "memory.oom_control", text, cap) == 0)
		s->oom_kills = text_key(text, "oom_kill");
}

int cg_stats_get(const struct cg_host *h, const char *name, struct cg_stats *ret, struct err *err)
{
	struct cg_stats s = {0};
	char text[8192];

	/* The group may vanish under us at any time (E28): that is "not there", never a fault. */
	if (cg_read_text(h->v2, name, "cpu.stat", text, sizeof(text)) < 0)
		return err_set(err, ERR_NOT_FOUND, "cgroup %s is gone", name);
	s.cpu_us = text_key(text, "usage_usec");
	if (h->layout == CG_LAYOUT_V2)
		stats_v2(h, name, &s, text, sizeof(text));
	else
		stats_v1(h, name, &s, text, sizeof(text));
	*ret = s;
	return 0;
}

static void cg_each_in(int dirfd, void (*fn)(void *arg, const char *name), void *arg)
{
	int fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	auto_closedir DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *ent;

	while (dir && (ent = readdir(dir))) {
		if (ent->d_type == DT_DIR && ent->d_name[0] == 's' &&
		    strlen(ent->d_name) < CG_NAME_LEN)
			fn(arg, ent->d_name);
	}
}

void cg_each(const struct cg_host *h, void (*fn)(void *arg, const char *name), void *arg)
{
	cg_each_in(h->v2, fn, arg);
	for (int i = 0; i < CG_V1_MAX; i++) {
		if (h->v1[i] >= 0)
			cg_each_in(h->v1[i], fn, arg);
	}
}
