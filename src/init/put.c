/*
 * put.c - PUT and COMMIT: a file is written unseen beside its target and takes its place at once.
 *
 *   PUT ──► find the target, through symlinks, inside the root
 *       ──► stage: O_TMPFILE in the target's folder, else a hidden name there; when the user may
 *           not write there, in /tmp ──► the daemon writes ──┬─ COMMIT: link, rename or copy
 *                                                            └─ hang-up: the staged file is gone
 *
 * Replaced is what the user could have made himself as it is: a regular file of one link, his own
 * (or he is root), no mount point, attributes that can be carried over. All else is written in
 * place at COMMIT, by a descriptor that was opened for writing at PUT: so a refusal comes before
 * the bytes, and a cut upload changes nothing either way. Everything runs under the user's ids.
 */
#include "init/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/id.h"
#include "base/path.h"

#define PUT_LINKS_MAX	 40
#define PUT_COPY	 (256u << 10)
#define STATX_MNT_ID_BIT 0x1000u
#define STATX_MNT_ID_AT	 18 /* in words of 8 bytes */
#define PUT_FLAGS	 (AGENT_PUT_PARENTS | AGENT_PUT_NOFOLLOW | AGENT_PUT_MODE)

static const char *fd_name(int fd, char out[40])
{
	snprintf(out, 40, "/proc/self/fd/%d", fd);
	return out;
}

static int put_errno(const struct put *p, const char *what, struct err *err)
{
	return err_errno(err, err_code_of_errno(errno), errno, "%s %s", what, p->path);
}

void put_free(struct put *p)
{
	if (!p)
		return;
	if (p->tmp_name[0])
		unlinkat(p->tmp_dir, p->tmp_name, 0);
	if (p->tmp_dir >= 0 && p->tmp_dir != p->dir)
		close(p->tmp_dir);
	if (p->tmp >= 0)
		close(p->tmp);
	if (p->dir >= 0)
		close(p->dir);
	if (p->old >= 0)
		close(p->old);
	free(p);
}

static void put_drop(struct put **p)
{
	put_free(*p);
}
#define auto_put auto_call(put_drop)

static struct put *put_new(const char *path, const struct user *u)
{
	size_t n = strlen(path) + 1;
	struct put *p = malloc(sizeof(*p) + n);

	if (!p)
		return NULL;
	*p = (struct put){.dir = -1, .tmp = -1, .tmp_dir = -1, .old = -1, .user = *u};
	memcpy(p->path, path, n);
	return p;
}

/* ---- the target ---- */

/* The text of the symlink p->name stands in for the last name of path. */
static int link_follow(const struct put *p, char path[PATH_MAX], struct err *err)
{
	char link[PATH_MAX];
	ssize_t n = readlinkat(p->dir, p->name, link, sizeof(link) - 1);
	size_t keep = strlen(path);

	if (n <= 0)
		return put_errno(p, "read the link", err);
	link[n] = '\0';
	while (keep && path[keep - 1] != '/')
		keep--;
	if (link[0] == '/')
		keep = 0;
	if (keep + (size_t)n >= PATH_MAX)
		return err_errno(err, ERR_INVALID, ENAMETOOLONG, "open %s", p->path);
	memcpy(path + keep, link, (size_t)n + 1);
	return 0;
}

static int parent_open(const char *path, bool make, char name[NAME_MAX + 1], struct err *err)
{
	int fd = path_open_parent(AT_FDCWD, path, name, err);

	if (fd >= 0 || !make || err->errnum != ENOENT || open_parents(path, err) < 0)
		return fd;
	return path_open_parent(AT_FDCWD, path, name, err);
}

/*
 * The kernel would follow a symlink at the end for us, but not say where it led; so the last name
 * is looked at here, each time below a folder that openat2 found inside the root.
 */
static int target_find(struct put *p, uint32_t flags, struct err *err)
{
	char path[PATH_MAX];

	memcpy(path, p->path, strlen(p->path) + 1);
	for (int i = 0; i < PUT_LINKS_MAX; i++) {
		int dir = parent_open(path, flags & AGENT_PUT_PARENTS, p->name, err);

		if (dir < 0)
			return -1;
		if (p->dir >= 0)
			close(p->dir);
		p->dir = dir;
		if (fstatat(dir, p->name, &p->st, AT_SYMLINK_NOFOLLOW) < 0) {
			if (errno != ENOENT)
				return put_errno(p, "open", err);
			p->fresh = true;
			return 0;
		}
		if (!S_ISLNK(p->st.st_mode))
			return 0;
		if (flags & AGENT_PUT_NOFOLLOW) {
			p->fresh = true; /* nothing of the link is kept */
			return 0;
		}
		if (link_follow(p, path, err) < 0)
			return -1;
	}
	return err_errno(err, ERR_INVALID, ELOOP, "open %s", p->path);
}

/*
 * What is there, by the kernel's own walk: it refuses what target_find would not know of, as a
 * foreign symlink in /tmp. -1 with *ret_fd == -1 and no error: nothing is there.
 */
static int target_look(struct put *p, uint32_t flags, int *ret_fd, struct err *err)
{
	bool nofollow = flags & AGENT_PUT_NOFOLLOW;
	size_t n = strlen(p->path);
	struct stat st;

	*ret_fd = path_open_in(AT_FDCWD, p->path, O_PATH | (nofollow ? O_NOFOLLOW : 0), 0, err);
	if (*ret_fd < 0 && err->errnum != ENOENT)
		return -1;
	if (*ret_fd < 0)
		return p->path[n - 1] == '/'
			       ? err_errno(err, ERR_CONFLICT, EISDIR, "open %s", p->path)
			       : 0;
	if (fstat(*ret_fd, &st) < 0)
		return put_errno(p, "stat", err);
	return nofollow && S_ISLNK(st.st_mode) ? 0 : kind_check(&st, p->path, err);
}

/* The mount a name is on, or 0 where the kernel does not tell (before 5.8). */
static uint64_t mount_id(int dir, const char *name, int flags)
{
	uint64_t raw[32] = {0}; /* struct statx, which libc and kernel headers can't share here */

	if (syscall(SYS_statx, dir, name, flags, STATX_MNT_ID_BIT, raw) < 0)
		return 0;
	return raw[0] & STATX_MNT_ID_BIT ? raw[STATX_MNT_ID_AT] : 0;
}

/* Whether something is mounted on the target: a rename onto it would be refused. */
static bool target_is_mount(const struct put *p)
{
	return mount_id(p->dir, "", AT_EMPTY_PATH) !=
	       mount_id(p->dir, p->name, AT_SYMLINK_NOFOLLOW);
}

static bool target_can_go(const struct put *p)
{
	return p->fresh || (p->st.st_nlink == 1 && !target_is_mount(p) &&
			    (p->st.st_uid == p->user.uid || p->user.uid == 0));
}

/* ---- staging ---- */

static int stage_in(struct put *p, int dir)
{
	int flags = O_RDWR | O_CLOEXEC;

	p->tmp_dir = dir;
	p->tmp = openat(dir, ".", O_TMPFILE | flags, 0600);
	if (p->tmp >= 0)
		return 0;
	if (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT && errno != EINVAL)
		return -1;
	memcpy(p->tmp_name, ".caisson-", 9);
	id_hex(p->tmp_name + 9, 8);
	p->tmp = openat(dir, p->tmp_name, O_CREAT | O_EXCL | O_NOFOLLOW | flags, 0600);
	if (p->tmp < 0)
		p->tmp_name[0] = '\0';
	return p->tmp < 0 ? -1 : 0;
}

/* Where everybody may write; what is staged there gets copied. */
static int stage_apart(struct put *p, struct err *err)
{
	static const char *const places[] = {"/tmp", "/var/tmp", "/dev/shm"};

	for (size_t i = 0; i < ARRAY_LEN(places); i++) {
		int dir = path_open_in(AT_FDCWD, places[i], O_PATH | O_DIRECTORY, 0, NULL);

		if (dir < 0)
			continue;
		if (stage_in(p, dir) == 0)
			return 0;
		p->tmp_dir = -1;
		close(dir);
	}
	return err_set(err, ERR_CONFLICT,
		       "open %s: can only be written in place, and no folder takes the bytes first",
		       p->path);
}

static int stage(struct put *p, struct err *err)
{
	if (stage_in(p, p->dir) == 0)
		return 0;
	p->tmp_dir = -1;
	if (p->fresh || (errno != EACCES && errno != EPERM && errno != EROFS))
		return put_errno(p, "open", err);
	return stage_apart(p, err);
}

static int old_open(struct put *p, int path_fd, struct err *err)
{
	int flags = O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
	char name[40];

	p->old = open(fd_name(path_fd, name), flags);
	if (p->old < 0 && errno == EACCES)
		p->old = open_as_owner(&p->user, path_fd, &p->st, flags);
	return p->old < 0 ? put_errno(p, "open", err) : 0;
}

static int put_reply(struct job *j, const struct put *p, struct err *err)
{
	uint8_t raw[1];
	struct wire_out o = wire_out_on(raw, sizeof(raw));

	wire_put_u8(&o, !p->fresh);
	return job_send(j, AGENT_OK, &o, &p->tmp, 1, err);
}

/* The staged file is the user's with the mode of a new one; what is replaced gives it its own. */
static int put_dress(struct put *p, int path_fd, struct err *err)
{
	struct stat st;

	if (!p->fresh && p->tmp_dir == p->dir && target_can_go(p) && put_attrs_copy(p, path_fd)) {
		if (p->has_mode && fchmod(p->tmp, p->mode) < 0)
			return put_errno(p, "chmod", err);
		return 0;
	}
	if (fstat(p->tmp, &st) < 0 || fchmod(p->tmp, p->fresh ? p->mode : 0600) < 0)
		return put_errno(p, "chmod", err);
	return p->fresh ? 0 : old_open(p, path_fd, err);
}

int put_run(struct job *j, const struct user *u, struct err *err)
{
	auto_put struct put *p = put_new(j->req.path, u);
	auto_close int path_fd = -1;
	struct stat st;

	if (!p)
		return err_set(err, ERR_NOMEM, "out of memory");
	if (j->req.flags & ~(uint32_t)PUT_FLAGS)
		return err_set(err, ERR_INVALID, "flags: %#x", j->req.flags);
	p->has_mode = j->req.flags & AGENT_PUT_MODE;
	p->mode = j->req.mode & 0777;
	if (target_look(p, j->req.flags, &path_fd, err) < 0 ||
	    target_find(p, j->req.flags, err) < 0)
		return -1;
	/* They must be about one file; a rename in between is the caller's to try again. */
	if (!p->fresh && (path_fd < 0 || fstat(path_fd, &st) < 0 || st.st_ino != p->st.st_ino ||
			  st.st_dev != p->st.st_dev))
		return err_set(err, ERR_CONFLICT, "open %s: it changed meanwhile", p->path);
	if (stage(p, err) < 0 || put_dress(p, path_fd, err) < 0 || put_reply(j, p, err) < 0)
		return -1;
	j->put = TAKE_PTR(p);
	return 0;
}

/* ---- commit ---- */

/* The staged file gets a name beside the target, to be renamed. */
static int name_give(struct put *p)
{
	char name[40];

	if (p->tmp_name[0])
		return 0;
	memcpy(p->tmp_name, ".caisson-", 9);
	id_hex(p->tmp_name + 9, 8);
	if (linkat(AT_FDCWD, fd_name(p->tmp, name), p->dir, p->tmp_name, AT_SYMLINK_FOLLOW) == 0)
		return 0;
	p->tmp_name[0] = '\0';
	return -1;
}

/* 1 it stands there, 0 it has to be copied, -1. */
static int put_place(struct put *p, struct err *err)
{
	char name[40];

	if (p->old >= 0)
		return 0;
	if (p->fresh && !p->tmp_name[0] &&
	    linkat(AT_FDCWD, fd_name(p->tmp, name), p->dir, p->name, AT_SYMLINK_FOLLOW) == 0)
		return 1;
	if (name_give(p) == 0 && renameat(p->dir, p->tmp_name, p->dir, p->name) == 0) {
		p->tmp_name[0] = '\0';
		return 1;
	}
	if (errno == EXDEV || errno == EPERM || errno == EACCES || errno == EBUSY ||
	    errno == EOPNOTSUPP)
		return 0;
	return put_errno(p, "rename onto", err);
}

/* The target as it is now, for what could not be renamed after all. */
static int old_open_late(struct put *p, struct err *err)
{
	auto_close int at = openat(p->dir, p->name, O_PATH | O_NOFOLLOW | O_CLOEXEC);

	if (at < 0 || fstat(at, &p->st) < 0)
		return put_errno(p, "open", err);
	if (kind_check(&p->st, p->path, err) < 0)
		return -1;
	return old_open(p, at, err);
}

static int range_copy(const struct put *p, off_t at, off_t end, char *buf, struct err *err)
{
	while (at < end) {
		ssize_t n = pread(p->tmp, buf, (size_t)MIN((off_t)PUT_COPY, end - at), at);
		ssize_t done = 0, k;

		if (n <= 0)
			return put_errno(p, "read back", err);
		while (done < n) {
			k = pwrite(p->old, buf + done, (size_t)(n - done), at + done);
			if (k < 0 && errno == EINTR)
				continue;
			if (k < 0)
				return put_errno(p, "write", err);
			done += k;
		}
		at += n;
	}
	return 0;
}

/* Holes stay holes. */
static int put_copy(const struct put *p, off_t size, struct err *err)
{
	auto_free char *buf = malloc(PUT_COPY);
	off_t at = 0, end;

	if (!buf)
		return err_set(err, ERR_NOMEM, "out of memory");
	if (ftruncate(p->old, 0) < 0 || ftruncate(p->old, size) < 0)
		return put_errno(p, "write", err);
	while (at < size && (at = lseek(p->tmp, at, SEEK_DATA)) >= 0 && at < size) {
		end = lseek(p->tmp, at, SEEK_HOLE);
		if (end < 0)
			end = size;
		if (range_copy(p, at, end, buf, err) < 0)
			return -1;
		at = end;
	}
	if (p->has_mode && fchmod(p->old, p->mode) < 0)
		return put_errno(p, "chmod", err);
	return 0;
}

static int mtime_set(const struct put *p, int fd, int64_t ns, struct err *err)
{
	int64_t frac = ns % 1000000000;
	struct timespec t[2] = {{.tv_nsec = UTIME_OMIT}};

	t[1].tv_sec = (time_t)(ns / 1000000000) - (frac < 0);
	t[1].tv_nsec = (long)(frac < 0 ? frac + 1000000000 : frac);
	return futimens(fd, t) < 0 ? put_errno(p, "set the time of", err) : 0;
}

int put_commit(struct job *j, const struct user *u, struct err *err)
{
	struct put *p = j->put;
	uint8_t raw[9];
	struct wire_out o = wire_out_on(raw, sizeof(raw));
	struct stat st;
	int placed;

	(void)u;
	if (fstat(p->tmp, &st) < 0)
		return put_errno(p, "stat", err);
	if (p->old < 0 && j->req.has_mtime &&
	    mtime_set(p, p->tmp, (int64_t)j->req.mtime_ns, err) < 0)
		return -1;
	placed = put_place(p, err);
	if (placed < 0 || (placed == 0 && p->old < 0 && old_open_late(p, err) < 0))
		return -1;
	if (placed == 0 &&
	    (put_copy(p, st.st_size, err) < 0 ||
	     (j->req.has_mtime && mtime_set(p, p->old, (int64_t)j->req.mtime_ns, err) < 0)))
		return -1;
	/* Before the answer: a file somebody has open for writing can't be run. */
	close(TAKE_FD(p->tmp));
	if (p->old >= 0)
		close(TAKE_FD(p->old));
	wire_put_u8(&o, placed);
	wire_put_u64(&o, (uint64_t)st.st_size);
	return job_send(j, AGENT_OK, &o, NULL, 0, err);
}
