/*
 * path.c - see path.h.
 */
#include "base/path.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <limits.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/id.h"
#include "base/sys.h"

#define PATH_TRIES     32  /* openat2 answers EAGAIN while a rename races with the walk */
#define PATH_DEPTH_MAX 100 /* path_remove_tree moves what is deeper */

static int path_check(const char *path, struct err *err)
{
	size_t n = path ? strnlen(path, PATH_MAX) : 0;

	if (n == 0)
		return err_set(err, ERR_INVALID, "path is empty");
	if (n >= PATH_MAX)
		return err_set(err, ERR_INVALID, "path is longer than %d bytes", PATH_MAX - 1);
	return 0;
}

static int path_openat2(int rootfd, const char *path, int flags, mode_t mode, uint64_t resolve)
{
	struct open_how how = {.flags = (uint64_t)(flags | O_CLOEXEC),
			       .mode = (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE ? mode
											     : 0,
			       .resolve = resolve};

	for (int i = 0; i < PATH_TRIES; i++) {
		int fd = sys_openat2(rootfd, path, &how);

		if (fd >= 0 || (errno != EAGAIN && errno != EINTR))
			return fd;
	}
	return -1;
}

int path_open_in(int rootfd, const char *path, int flags, mode_t mode, struct err *err)
{
	int fd;

	if (path_check(path, err) < 0)
		return -1;
	fd = path_openat2(rootfd, path, flags, mode, RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS);
	if (fd < 0)
		return err_errno(err, err_code_of_errno(errno), errno, "open %s", path);
	return fd;
}

int path_open_parent(int rootfd, const char *path, char name[256], struct err *err)
{
	char dir[PATH_MAX];
	size_t n, start;

	if (path_check(path, err) < 0)
		return -1;
	n = strlen(path);
	while (n > 1 && path[n - 1] == '/')
		n--;
	start = n;
	while (start > 0 && path[start - 1] != '/')
		start--;
	if (n - start == 0 || n - start > NAME_MAX)
		return err_set(err, ERR_INVALID, "path %s has no usable last component", path);
	memcpy(name, path + start, n - start);
	name[n - start] = '\0';
	if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || strcmp(name, "/") == 0)
		return err_set(err, ERR_INVALID, "path %s ends in . or ..", path);
	snprintf(dir, sizeof(dir), "%.*s", (int)start, path);
	return path_open_in(rootfd, start ? dir : ".", O_PATH | O_DIRECTORY, 0, err);
}

int path_mkdirs_in(int rootfd, const char *path, mode_t mode, struct err *err)
{
	char part[PATH_MAX];
	size_t n;

	if (path_check(path, err) < 0)
		return -1;
	n = strlen(path);
	/* Each prefix is resolved in-root again: a component swapped meanwhile stays confined. */
	for (size_t i = 1; i <= n; i++) {
		char name[256];
		auto_close int parent = -1;

		if (i < n && path[i] != '/')
			continue;
		if (path[i - 1] == '/')
			continue;
		memcpy(part, path, i);
		part[i] = '\0';
		parent = path_open_in(rootfd, part, O_PATH | O_DIRECTORY, 0, NULL);
		if (parent >= 0)
			continue;
		parent = path_open_parent(rootfd, part, name, err);
		if (parent < 0)
			return -1;
		if (mkdirat(parent, name, mode) < 0 && errno != EEXIST)
			return err_errno(err, err_code_of_errno(errno), errno, "mkdir %s", part);
	}
	return path_open_in(rootfd, path, O_PATH | O_DIRECTORY, 0, err);
}

int path_write_at(int dirfd, const char *name, const void *p, size_t n, mode_t mode,
		  struct err *err)
{
	auto_close int fd =
		openat(dirfd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, mode);

	if (fd < 0)
		return err_errno(err, err_code_of_errno(errno), errno, "create %s", name);
	if (fd_write_all(fd, p, n, 0, err) < 0)
		return err_wrap(err, "write %s", name);
	return 0;
}

ssize_t path_read_at(int dirfd, const char *name, char *out, size_t cap, struct err *err)
{
	auto_close int fd = openat(dirfd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	size_t n = 0;

	if (fd < 0)
		return err_errno(err, err_code_of_errno(errno), errno, "open %s", name);
	while (n < cap - 1) {
		ssize_t got = read(fd, out + n, cap - 1 - n);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return err_errno(err, ERR_INTERNAL, errno, "read %s", name);
		if (got == 0)
			break;
		n += (size_t)got;
	}
	out[n] = '\0';
	return (ssize_t)n;
}

/*
 * One removal. What lies deeper than the bound is moved up into the top directory and met again
 * there, so a tree of any depth costs bounded stack and descriptors.
 */
struct tree {
	int top;
	dev_t dev;
	bool lifted; /* since the top was last read from its beginning */
};

static int tree_remove(struct tree *t, int dirfd, const char *name, int depth, struct err *err);

static int tree_lift(struct tree *t, int dirfd, const char *name, struct err *err)
{
	char to[40] = ".lifted-";

	id_hex(to + strlen(to), 8);
	if (renameat(dirfd, name, t->top, to) < 0)
		return err_errno(err, ERR_INVALID, errno, "tree at %s is deeper than %d", name,
				 PATH_DEPTH_MAX);
	t->lifted = true;
	return 0;
}

static int tree_entries(struct tree *t, DIR *dir, int depth, struct err *err)
{
	struct dirent *ent;

	while ((ent = readdir(dir))) {
		if (strcmp(ent->d_name, ".") == 0 || strcmp(ent->d_name, "..") == 0)
			continue;
		if (tree_remove(t, dirfd(dir), ent->d_name, depth + 1, err) < 0)
			return -1;
	}
	return 0;
}

static int tree_remove(struct tree *t, int dirfd, const char *name, int depth, struct err *err)
{
	auto_closedir DIR *dir = NULL;
	struct stat st;
	int fd;

	if (unlinkat(dirfd, name, 0) == 0 || errno == ENOENT)
		return 0;
	if (errno != EISDIR && errno != EPERM)
		return err_errno(err, err_code_of_errno(errno), errno, "unlink %s", name);
	/* No rmdir on trial: the kernel walks all it has cached below before it says no. */
	if (depth > PATH_DEPTH_MAX)
		return tree_lift(t, dirfd, name, err);
	fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return err_errno(err, err_code_of_errno(errno), errno, "open %s", name);
	dir = fdopendir(fd);
	if (!dir) {
		close(fd);
		return err_errno(err, ERR_NOMEM, errno, "read %s", name);
	}
	if (fstat(fd, &st) < 0 || st.st_dev != t->dev)
		return err_set(err, ERR_CONFLICT, "%s is a mount point", name);
	if (depth == 0)
		t->top = fd;
	do {
		t->lifted = depth ? t->lifted : false;
		rewinddir(dir);
		if (tree_entries(t, dir, depth, err) < 0)
			return -1;
	} while (depth == 0 && t->lifted);
	if (unlinkat(dirfd, name, AT_REMOVEDIR) < 0 && errno != ENOENT)
		return err_errno(err, err_code_of_errno(errno), errno, "rmdir %s", name);
	return 0;
}

int path_remove_tree(int dirfd, const char *name, struct err *err)
{
	struct tree t = {.top = -1};
	struct stat st;

	if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT
			       ? 0
			       : err_errno(err, err_code_of_errno(errno), errno, "stat %s", name);
	t.dev = st.st_dev;
	return tree_remove(&t, dirfd, name, 0, err);
}

void path_spread(int dirfd)
{
	int flags = 0;

	if (ioctl(dirfd, FS_IOC_GETFLAGS, &flags) < 0 || flags & FS_TOPDIR_FL)
		return;
	flags |= FS_TOPDIR_FL;
	ioctl(dirfd, FS_IOC_SETFLAGS, &flags);
}
