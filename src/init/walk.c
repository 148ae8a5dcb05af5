/*
 * walk.c - see files.h. Depth-first, in the order of the directory, bounded in depth and time.
 */
#include "init/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/path.h"

#define WALK_LOOK 256 /* entries between looks at the clock and the daemon */

/* What is no one's files: reading all of proc or sys finds nothing and may take for ever. */
static bool fs_is_kernels(int fd)
{
	static const uint32_t magic[] = {
		0x00009fa0, /* proc */ 0x62656572,    /* sysfs */ 0x63677270,  /* cgroup2 */
		0x0027e0eb, /* cgroup */ 0x00001cd1,  /* devpts */ 0x64626720, /* debugfs */
		0x74726163, /* tracefs */ 0xcafe4a11,			       /* bpf */
	};
	struct statfs sf;

	if (fstatfs(fd, &sf) < 0)
		return false;
	for (size_t i = 0; i < ARRAY_LEN(magic); i++)
		if (magic[i] == ((uint64_t)sf.f_type & 0xffffffff))
			return true;
	return false;
}

static int walk_dir(struct walk *w, int fd, int depth, struct err *err);

static bool errno_is_passing(void)
{
	return errno == ENOENT || errno == EACCES || errno == EPERM || errno == ENOTDIR ||
	       errno == ELOOP;
}

static int walk_into(struct walk *w, int dir, const char *name, int depth, struct err *err)
{
	int fd;

	if (depth >= WALK_DEPTH_MAX) {
		w->more = true;
		return WALK_ON;
	}
	fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return errno_is_passing() ? WALK_ON
					  : err_errno(err, err_code_of_errno(errno), errno,
						      "open %.300s", w->path);
	if (fs_is_kernels(fd)) {
		close(fd);
		return WALK_ON;
	}
	return walk_dir(w, fd, depth + 1, err);
}

static unsigned char type_at(int dir, const struct dirent *ent)
{
	struct stat st;

	if (ent->d_type != DT_UNKNOWN)
		return ent->d_type;
	if (fstatat(dir, ent->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return DT_WHT; /* gone: nobody wants it */
	return (unsigned char)IFTODT(st.st_mode);
}

/* The path grows by the entry while it is looked at. */
static int walk_entry(struct walk *w, int dir, const struct dirent *ent, int depth, struct err *err)
{
	size_t keep = w->len, n = strlen(ent->d_name);
	unsigned char type = type_at(dir, ent);
	int rc;

	if (keep + 1 + n >= sizeof(w->path)) {
		w->more = true;
		return WALK_ON;
	}
	if (keep == 0 || w->path[keep - 1] != '/')
		w->path[w->len++] = '/';
	memcpy(w->path + w->len, ent->d_name, n + 1);
	w->len += n;
	rc = w->fn(w, dir, ent->d_name, type, err);
	if (rc == WALK_ON && type == DT_DIR)
		rc = walk_into(w, dir, ent->d_name, depth, err);
	w->len = keep;
	w->path[keep] = '\0';
	return rc == WALK_SKIP ? WALK_ON : rc;
}

/* Time's end is an end with more; the daemon's hang-up one without anybody to tell. */
static int walk_look(struct walk *w, struct err *err)
{
	if (w->looked++ % WALK_LOOK)
		return WALK_ON;
	if (job_gone(w->job))
		return err_set(err, ERR_CANCELLED, "the daemon hung up");
	if (clock_mono_ms() < w->end_ms)
		return WALK_ON;
	w->more = true;
	return WALK_STOP;
}

/* Owns fd. */
static int walk_dir(struct walk *w, int fd, int depth, struct err *err)
{
	auto_closedir DIR *dir = fdopendir(fd);
	struct dirent *ent;
	int rc;

	if (!dir) {
		close(fd);
		return err_errno(err, ERR_NOMEM, errno, "read %.300s", w->path);
	}
	for (;;) {
		errno = 0;
		ent = readdir(dir);
		if (!ent && errno && !errno_is_passing())
			return err_errno(err, err_code_of_errno(errno), errno, "read %.300s",
					 w->path);
		if (!ent)
			return WALK_ON;
		if (strcmp(ent->d_name, ".") == 0 || strcmp(ent->d_name, "..") == 0)
			continue;
		rc = walk_look(w, err);
		if (rc == WALK_ON)
			rc = walk_entry(w, dirfd(dir), ent, depth, err);
		if (rc != WALK_ON)
			return rc;
	}
}

int walk_run(struct walk *w, int fd, struct err *err)
{
	w->len = strlen(w->path);
	w->end_ms = clock_mono_ms() + WALK_MS_MAX;
	return walk_dir(w, fd, 1, err) < 0 ? -1 : 0;
}
