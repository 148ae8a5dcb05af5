/*
 * list.c - LIST: a directory, to a depth, never silently short (B16).
 *
 * Entries go out in frames while the walk goes on. Only what went away meanwhile (ENOENT) and the
 * inside of a directory below the first that the user may not read are left out; running out of
 * descriptors or memory fails the whole listing. What the ceilings cut is told by "more".
 */
#include "init/init.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/path.h"

#define LIST_DEPTH_MAX 64
#define LIST_FRAME     (60u << 10) /* well below AGENT_REPLY_MAX */
#define LIST_LINK_MAX  4095

struct list {
	struct job *job;
	uint8_t raw[LIST_FRAME];
	struct wire_out o;
	uint32_t in_frame, total, max;
	uint32_t depth;
	bool more;
	size_t path_len;
	char path[PATH_MAX + NAME_MAX + 2]; /* of the entry at hand */
	char link[LIST_LINK_MAX + 1];
};

static void frame_reset(struct list *l)
{
	l->o = wire_out_on(l->raw, sizeof(l->raw));
	wire_put_u32(&l->o, 0);
	l->in_frame = 0;
}

static int frame_send(struct list *l, struct err *err)
{
	struct wire_out count = wire_out_on(l->raw, 4);

	if (l->in_frame == 0)
		return 0;
	wire_put_u32(&count, l->in_frame);
	if (job_send(l->job, AGENT_ENTRIES, &l->o, NULL, 0, err) < 0)
		return -1;
	frame_reset(l);
	return 0;
}

static int entry_put(struct list *l, const char *name, const struct stat *st, struct err *err)
{
	size_t room = strlen(name) + l->path_len + strlen(l->link) + 64;

	if (room > l->o.cap - l->o.len && frame_send(l, err) < 0)
		return -1;
	info_put(&l->o, name, l->path, st, l->link);
	l->in_frame++;
	l->total++;
	return 0;
}

/* 1: st filled; 0: the entry is gone; -1. */
static int entry_stat(struct list *l, int dir, const struct dirent *ent, struct stat *st,
		      struct err *err)
{
	ssize_t n;

	l->link[0] = '\0';
	if (fstatat(dir, ent->d_name, st, AT_SYMLINK_NOFOLLOW) < 0) {
		if (errno == ENOENT)
			return 0;
		if (errno != EACCES)
			return err_errno(err, err_code_of_errno(errno), errno, "stat %.300s",
					 l->path);
		/* Readable but not searchable: the name and kind are all there is to know. */
		memset(st, 0, sizeof(*st));
		st->st_mode = (mode_t)DTTOIF(ent->d_type);
		return 1;
	}
	if (S_ISLNK(st->st_mode)) {
		n = readlinkat(dir, ent->d_name, l->link, LIST_LINK_MAX);
		l->link[n > 0 ? n : 0] = '\0';
	}
	return 1;
}

static int dir_run(struct list *l, int fd, uint32_t depth, struct err *err);

static int subdir_run(struct list *l, int dir, const char *name, uint32_t depth, struct err *err)
{
	int fd;

	if (depth >= l->depth)
		return 0;
	if (depth >= LIST_DEPTH_MAX) {
		l->more = true;
		return 0;
	}
	fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	if (fd >= 0)
		return dir_run(l, fd, depth + 1, err);
	if (errno == ENOENT || errno == EACCES || errno == EPERM || errno == ENOTDIR ||
	    errno == ELOOP)
		return 0;
	return err_errno(err, err_code_of_errno(errno), errno, "list %.300s", l->path);
}

static int entry_emit(struct list *l, int dir, const char *name, const struct stat *st,
		      uint32_t depth, struct err *err)
{
	if (entry_put(l, name, st, err) < 0)
		return -1;
	if (!S_ISDIR(st->st_mode))
		return 0;
	return subdir_run(l, dir, name, depth, err);
}

static int entry_run(struct list *l, int dir, const struct dirent *ent, uint32_t depth,
		     struct err *err)
{
	size_t keep = l->path_len, n = strlen(ent->d_name);
	struct stat st;
	int rc;

	if (l->total >= l->max || keep + 1 + n >= sizeof(l->path)) {
		l->more = true;
		return 0;
	}
	if (keep == 0 || l->path[keep - 1] != '/')
		l->path[l->path_len++] = '/';
	memcpy(l->path + l->path_len, ent->d_name, n + 1);
	l->path_len += n;
	rc = entry_stat(l, dir, ent, &st, err);
	if (rc > 0)
		rc = entry_emit(l, dir, ent->d_name, &st, depth, err);
	l->path_len = keep;
	l->path[keep] = '\0';
	return rc;
}

/* Owns fd. */
static int dir_run(struct list *l, int fd, uint32_t depth, struct err *err)
{
	auto_closedir DIR *dir = fdopendir(fd);
	struct dirent *ent;

	if (!dir) {
		close(fd);
		return err_errno(err, ERR_NOMEM, errno, "list %.300s", l->path);
	}
	for (;;) {
		errno = 0;
		ent = readdir(dir);
		if (!ent && errno)
			return err_errno(err, err_code_of_errno(errno), errno, "list %.300s",
					 l->path);
		if (!ent || l->more)
			return 0;
		if (strcmp(ent->d_name, ".") == 0 || strcmp(ent->d_name, "..") == 0)
			continue;
		if (entry_run(l, dirfd(dir), ent, depth, err) < 0)
			return -1;
	}
}

int list_run(struct job *j, struct err *err)
{
	uint8_t end[1];
	struct wire_out o = wire_out_on(end, sizeof(end));
	int fd = path_open_in(AT_FDCWD, j->req.path, O_RDONLY | O_DIRECTORY | O_NONBLOCK, 0, err);
	auto_free struct list *l = NULL;

	if (fd < 0)
		return -1;
	l = malloc(sizeof(*l));
	if (!l) {
		close(fd);
		return err_set(err, ERR_NOMEM, "out of memory");
	}
	l->job = j;
	l->total = 0;
	l->more = false;
	l->max = MIN(j->req.max, (uint32_t)AGENT_LIST_MAX);
	l->depth = MAX(j->req.depth, 1u);
	l->path_len = strlen(j->req.path);
	memcpy(l->path, j->req.path, l->path_len + 1);
	frame_reset(l);
	if (dir_run(l, fd, 1, err) < 0 || frame_send(l, err) < 0)
		return -1;
	wire_put_u8(&o, l->more);
	return job_send(j, AGENT_OK, &o, NULL, 0, err);
}
