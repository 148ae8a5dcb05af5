/*
 * fsop.c - the file verbs, on a worker thread, under the caller's file ids.
 *
 * Every path resolves by openat2 below our root without magic links, and what is then done is done
 * to the descriptor or to a name below it. Nothing here opens a FIFO, socket or device to read or
 * write it (B5).
 */
#include "init/files.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "base/path.h"
#include "base/sys.h"

#define LINK_MAX_LEN 4095

typedef int (*fsop_fn)(struct job *j, const struct user *u, struct err *err);

/* ---- info ---- */

static char type_of(mode_t mode)
{
	static const struct {
		mode_t mode;
		char type;
	} map[] = {{S_IFREG, 'f'},  {S_IFDIR, 'd'}, {S_IFLNK, 'l'}, {S_IFIFO, 'p'},
		   {S_IFSOCK, 's'}, {S_IFCHR, 'c'}, {S_IFBLK, 'b'}};

	for (size_t i = 0; i < ARRAY_LEN(map); i++)
		if (map[i].mode == (mode & S_IFMT))
			return map[i].type;
	return 'f';
}

void info_put(struct wire_out *o, const char *name, const char *path, const struct stat *st,
	      const char *link)
{
	wire_put_str(o, name);
	wire_put_str(o, path);
	wire_put_u8(o, (uint8_t)type_of(st->st_mode));
	wire_put_u32(o, st->st_mode & 07777);
	wire_put_u32(o, st->st_uid);
	wire_put_u32(o, st->st_gid);
	wire_put_u64(o, (uint64_t)st->st_size);
	wire_put_i64(o, (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec);
	wire_put_str(o, link);
}

static const char *base_name(const char *path)
{
	size_t n = strlen(path);

	while (n && path[n - 1] != '/')
		n--;
	return path[n] ? path + n : path;
}

static int reply_ok(struct job *j, struct err *err)
{
	struct wire_out o = wire_out_on(NULL, 0);

	return job_send(j, AGENT_OK, &o, NULL, 0, err);
}

static int reply_info(struct job *j, const struct stat *st, const char *link, int fd,
		      struct err *err)
{
	size_t cap = 2 * strlen(j->req.path) + strlen(link) + 64;
	auto_free uint8_t *raw = malloc(cap);
	struct wire_out o = wire_out_on(raw, cap);

	if (!raw)
		return err_set(err, ERR_NOMEM, "out of memory");
	info_put(&o, base_name(j->req.path), j->req.path, st, link);
	return job_send(j, AGENT_OK, &o, &fd, fd >= 0, err);
}

/* ---- verbs ---- */

static int fsop_stat(struct job *j, const struct user *u, struct err *err)
{
	char link[LINK_MAX_LEN + 1] = "";
	auto_close int fd = path_open_in(AT_FDCWD, j->req.path,
					 O_PATH | (j->req.follow ? 0 : O_NOFOLLOW), 0, err);
	struct stat st;

	(void)u;
	if (fd < 0)
		return -1;
	if (fstat(fd, &st) < 0)
		return err_errno(err, ERR_INTERNAL, errno, "stat %s", j->req.path);
	if (S_ISLNK(st.st_mode)) {
		ssize_t n = readlinkat(fd, "", link, LINK_MAX_LEN);

		link[n > 0 ? n : 0] = '\0';
	}
	return reply_info(j, &st, link, -1, err);
}

static int open_flags(const struct agent_req *r, int *ret, struct err *err)
{
	static const uint32_t known = AGENT_OPEN_READ | AGENT_OPEN_WRITE | AGENT_OPEN_CREATE |
				      AGENT_OPEN_TRUNC | AGENT_OPEN_PARENTS | AGENT_OPEN_APPEND;
	bool rd = r->flags & AGENT_OPEN_READ, wr = r->flags & AGENT_OPEN_WRITE;
	int flags = O_NONBLOCK | O_NOCTTY;

	if ((r->flags & ~known) || (!rd && !wr))
		return err_set(err, ERR_INVALID, "flags: %#x", r->flags);
	if (!wr && (r->flags & ~(uint32_t)AGENT_OPEN_READ))
		return err_set(err, ERR_INVALID, "flags: %#x without write", r->flags);
	flags |= rd && wr ? O_RDWR : wr ? O_WRONLY : O_RDONLY;
	flags |= r->flags & AGENT_OPEN_CREATE ? O_CREAT : 0;
	flags |= r->flags & AGENT_OPEN_TRUNC ? O_TRUNC : 0;
	flags |= r->flags & AGENT_OPEN_APPEND ? O_APPEND : 0;
	*ret = flags;
	return 0;
}

int kind_check(const struct stat *st, const char *path, struct err *err)
{
	if (S_ISDIR(st->st_mode))
		return err_errno(err, ERR_CONFLICT, EISDIR, "open %s", path);
	if (!S_ISREG(st->st_mode))
		return err_set(err, ERR_INVALID, "open %s: not a regular file", path);
	return 0;
}

/*
 * The owner of a file without the write bit may give it to himself, so an upload onto it works
 * (B10) without touching its mode: the very inode that was checked is opened again with our own
 * rights. O_TRUNC and the like keep their meaning.
 */
int open_as_owner(const struct user *u, int path_fd, const struct stat *st, int flags)
{
	char name[40];
	int fd;

	if (st->st_uid != u->uid) {
		errno = EACCES;
		return -1;
	}
	snprintf(name, sizeof(name), "/proc/self/fd/%d", path_fd);
	user_leave();
	fd = open(name, (flags & ~O_CREAT) | O_CLOEXEC);
	if (fd < 0 || user_enter(u, NULL) == 0)
		return fd;
	close(fd);
	errno = EPERM;
	return -1;
}

/* An existing file: looked at by an O_PATH descriptor before anything that could block or act. */
static int open_existing(struct job *j, const struct user *u, int path_fd, int flags,
			 struct err *err)
{
	struct stat st;
	int fd;

	if (fstat(path_fd, &st) < 0)
		return err_errno(err, ERR_INTERNAL, errno, "stat %s", j->req.path);
	if (kind_check(&st, j->req.path, err) < 0)
		return -1;
	fd = path_open_in(AT_FDCWD, j->req.path, flags, j->req.mode & 0777, err);
	if (fd >= 0 || err->errnum != EACCES || (flags & O_ACCMODE) == O_RDONLY)
		return fd;
	fd = open_as_owner(u, path_fd, &st, flags);
	if (fd < 0)
		return err_errno(err, err_code_of_errno(errno), errno, "open %s", j->req.path);
	return fd;
}

int open_parents(const char *path, struct err *err)
{
	char dir[PATH_MAX];
	size_t n = strlen(path);
	int fd;

	while (n && path[n - 1] != '/')
		n--;
	if (n <= 1 || n >= sizeof(dir))
		return 0;
	memcpy(dir, path, n);
	dir[n] = '\0';
	fd = path_mkdirs_in(AT_FDCWD, dir, 0755, err);
	if (fd < 0)
		return -1;
	close(fd);
	return 0;
}

static int fsop_open(struct job *j, const struct user *u, struct err *err)
{
	auto_close int path_fd = -1;
	auto_close int fd = -1;
	struct stat st;
	int flags = 0;

	if (open_flags(&j->req, &flags, err) < 0)
		return -1;
	path_fd = path_open_in(AT_FDCWD, j->req.path, O_PATH, 0, err);
	if (path_fd < 0 && (err->errnum != ENOENT || !(flags & O_CREAT)))
		return -1;
	if (path_fd < 0 && j->req.flags & AGENT_OPEN_PARENTS && open_parents(j->req.path, err) < 0)
		return -1;
	fd = path_fd >= 0 ? open_existing(j, u, path_fd, flags, err)
			  : path_open_in(AT_FDCWD, j->req.path, flags, j->req.mode & 0777, err);
	if (fd < 0)
		return -1;
	/* Again: it may have been exchanged in between. */
	if (fstat(fd, &st) < 0 || kind_check(&st, j->req.path, err) < 0)
		return -1;
	return reply_info(j, &st, "", fd, err);
}

static int fsop_mkdir(struct job *j, const struct user *u, struct err *err)
{
	char name[NAME_MAX + 1];
	auto_close int fd = -1;

	(void)u;
	if (j->req.parents) {
		fd = path_mkdirs_in(AT_FDCWD, j->req.path, j->req.mode & 07777, err);
		return fd < 0 ? -1 : reply_ok(j, err);
	}
	fd = path_open_parent(AT_FDCWD, j->req.path, name, err);
	if (fd < 0)
		return -1;
	if (mkdirat(fd, name, j->req.mode & 07777) < 0)
		return err_errno(err, err_code_of_errno(errno), errno, "mkdir %s", j->req.path);
	return reply_ok(j, err);
}

static int fsop_rename(struct job *j, const struct user *u, struct err *err)
{
	char from[NAME_MAX + 1], to[NAME_MAX + 1];
	auto_close int from_fd = path_open_parent(AT_FDCWD, j->req.path, from, err);
	auto_close int to_fd = -1;

	(void)u;
	if (from_fd < 0)
		return -1;
	to_fd = path_open_parent(AT_FDCWD, j->req.to, to, err);
	if (to_fd < 0)
		return -1;
	if (renameat(from_fd, from, to_fd, to) < 0)
		return err_errno(err, err_code_of_errno(errno), errno, "rename %.200s to %.200s",
				 j->req.path, j->req.to);
	return reply_ok(j, err);
}

static int fsop_remove(struct job *j, const struct user *u, struct err *err)
{
	char name[NAME_MAX + 1];
	auto_close int fd = path_open_parent(AT_FDCWD, j->req.path, name, err);
	struct stat st;

	(void)u;
	if (fd < 0)
		return -1;
	if (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return err_errno(err, err_code_of_errno(errno), errno, "remove %s", j->req.path);
	if (S_ISDIR(st.st_mode) && !j->req.recursive)
		return err_set(err, ERR_INVALID, "remove %s: a directory, recursive is not set",
			       j->req.path);
	if (!S_ISDIR(st.st_mode) && unlinkat(fd, name, 0) < 0)
		return err_errno(err, err_code_of_errno(errno), errno, "remove %s", j->req.path);
	if (S_ISDIR(st.st_mode) && path_remove_tree(fd, name, err) < 0)
		return err_wrap(err, "remove %s", j->req.path);
	return reply_ok(j, err);
}

static int fsop_setattr(struct job *j, const struct user *u, struct err *err)
{
	char name[40];
	uint32_t uid, gid;
	auto_close int fd = -1;

	(void)u;
	if (user_owner(j->req.owner, &uid, err) < 0 || user_group(j->req.group, &gid, err) < 0)
		return -1;
	fd = path_open_in(AT_FDCWD, j->req.path, O_PATH, 0, err);
	if (fd < 0)
		return -1;
	/* Owner first: a change of it clears the set-id bits that mode may want. */
	if ((uid != (uint32_t)-1 || gid != (uint32_t)-1) &&
	    fchownat(fd, "", uid, gid, AT_EMPTY_PATH) < 0)
		return err_errno(err, err_code_of_errno(errno), errno, "chown %s", j->req.path);
	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	if (j->req.has_mode && chmod(name, j->req.mode & 07777) < 0)
		return err_errno(err, err_code_of_errno(errno), errno, "chmod %s", j->req.path);
	return reply_ok(j, err);
}

static int fsop_statfs(struct job *j, const struct user *u, struct err *err)
{
	uint8_t raw[24];
	struct wire_out o = wire_out_on(raw, sizeof(raw));
	auto_close int fd = path_open_in(AT_FDCWD, j->req.path, O_PATH, 0, err);
	struct statfs sf;
	uint64_t unit;

	(void)u;
	if (fd < 0)
		return -1;
	if (fstatfs(fd, &sf) < 0)
		return err_errno(err, ERR_INTERNAL, errno, "statfs %s", j->req.path);
	unit = (uint64_t)(sf.f_frsize ? sf.f_frsize : sf.f_bsize);
	wire_put_u64(&o, sf.f_blocks * unit);
	wire_put_u64(&o, (sf.f_blocks - sf.f_bfree) * unit);
	wire_put_u64(&o, sf.f_bavail * unit);
	return job_send(j, AGENT_OK, &o, NULL, 0, err);
}

static int link_make(struct job *j, int dir, const char *name, int file)
{
	char from[40];

	if (!j->req.hard)
		return symlinkat(j->req.path, dir, name);
	snprintf(from, sizeof(from), "/proc/self/fd/%d", file);
	return linkat(AT_FDCWD, from, dir, name, AT_SYMLINK_FOLLOW);
}

/* What has the name already makes room unless it is a directory, as with ln -f. */
static int fsop_link(struct job *j, const struct user *u, struct err *err)
{
	char name[NAME_MAX + 1];
	auto_close int dir = path_open_parent(AT_FDCWD, j->req.to, name, err);
	auto_close int file = -1;

	(void)u;
	if (dir < 0)
		return -1;
	file = j->req.hard ? path_open_in(AT_FDCWD, j->req.path, O_PATH | O_NOFOLLOW, 0, err) : -1;
	if (j->req.hard && file < 0)
		return -1;
	if (link_make(j, dir, name, file) == 0)
		return reply_ok(j, err);
	if (errno == EEXIST && unlinkat(dir, name, 0) == 0 && link_make(j, dir, name, file) == 0)
		return reply_ok(j, err);
	return err_errno(err, err_code_of_errno(errno), errno, "link %s", j->req.to);
}

static int fsop_list(struct job *j, const struct user *u, struct err *err)
{
	(void)u;
	return list_run(j, err);
}

static int fsop_ports(struct job *j, const struct user *u, struct err *err)
{
	(void)u;
	return ports_run(j, err);
}

static int fsop_traffic(struct job *j, const struct user *u, struct err *err)
{
	(void)u;
	return traffic_run(j, err);
}

static int fsop_find(struct job *j, const struct user *u, struct err *err)
{
	(void)u;
	return j->req.verb == AGENT_FIND ? find_run(j, err) : search_run(j, err);
}

static int fsop_watch(struct job *j, const struct user *u, struct err *err)
{
	(void)u;
	return watch_run(j, err);
}

int fsop_run(struct job *j, struct err *err)
{
	static const struct {
		uint16_t verb;
		fsop_fn run;
	} rows[] = {
		{AGENT_STAT, fsop_stat},       {AGENT_LIST, fsop_list},
		{AGENT_OPEN, fsop_open},       {AGENT_MKDIR, fsop_mkdir},
		{AGENT_RENAME, fsop_rename},   {AGENT_REMOVE, fsop_remove},
		{AGENT_SETATTR, fsop_setattr}, {AGENT_STATFS, fsop_statfs},
		{AGENT_PORTS, fsop_ports},     {AGENT_TRAFFIC, fsop_traffic},
		{AGENT_FIND, fsop_find},       {AGENT_SEARCH, fsop_find},
		{AGENT_PUT, put_run},	       {AGENT_COMMIT, put_commit},
		{AGENT_WATCH, fsop_watch},     {AGENT_LINK, fsop_link},
	};
	struct user u;
	int rc = -1;

	if (j->put)
		u = j->put->user; /* as it was at PUT */
	else if (user_find(j->req.user, &u, err) < 0)
		return -1;
	if (user_enter(&u, err) < 0)
		return -1;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (rows[i].verb == j->req.verb)
			rc = rows[i].run(j, &u, err);
	user_leave();
	return rc;
}
