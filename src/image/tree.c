/*
 * tree.c - see tree.h. Whiteouts and the set of own inodes are in tree_hide.c.
 */
#include "image/tree.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/path.h"
#include "base/sys.h"
#include "image/tree_set.h"

#define TREE_OPAQUE_MAX (4u << 20)

struct tree_time {
	char *path;
	struct timespec mtime;
};

static int tree_errno(struct err *err, const char *what, const char *path)
{
	enum err_code code =
		errno == ENOSPC || errno == EDQUOT ? ERR_UNAVAILABLE : err_code_of_errno(errno);

	return err_errno(err, code, errno, "%s %s", what, path);
}

int tree_init(struct tree *t, int root, bool stacked, struct err *err)
{
	auto_closedir DIR *dir = NULL;
	struct dirent *ent;
	int fd = openat(root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	*t = (struct tree){.root = root, .parent = -1, .stacked = stacked};
	buf_init(&t->opaque, TREE_OPAQUE_MAX);
	if (fd < 0)
		return err_errno(err, ERR_INTERNAL, errno, "open the tree");
	dir = fdopendir(fd);
	if (!dir) {
		close(fd);
		return err_errno(err, ERR_NOMEM, errno, "read the tree");
	}
	while ((ent = readdir(dir)))
		if (strcmp(ent->d_name, ".") != 0 && strcmp(ent->d_name, "..") != 0)
			t->layered = true;
	return 0;
}

static void tree_forget_parent(struct tree *t)
{
	if (t->parent >= 0)
		close(t->parent);
	t->parent = -1;
}

void tree_done(struct tree *t)
{
	tree_forget_parent(t);
	for (size_t i = 0; i < t->ntimes; i++)
		free(t->time[i].path);
	free(t->time);
	tree_set_done(&t->own);
	buf_done(&t->opaque);
	t->time = NULL;
	t->ntimes = 0;
}

/* Note fd's inode as ours; only what lies over another layer ever asks. */
static int tree_own(struct tree *t, int fd, const char *name, struct err *err)
{
	struct stat st;

	if (!t->layered && !t->stacked)
		return 0;
	if (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH) < 0)
		return tree_errno(err, "stat", name);
	return tree_set_add(&t->own, st.st_ino, err);
}

int tree_clear(struct tree *t, int parent, const char *name, struct err *err)
{
	if (unlinkat(parent, name, 0) == 0 || errno == ENOENT)
		return 0;
	if (errno != EISDIR)
		return tree_errno(err, "replace", name);
	/* Below it may lie the cached parent. The caller's descriptor lies above, and stays. */
	t->parent_stale = true;
	return path_remove_tree(parent, name, err);
}

/* How many steps fd is below the root; links in a name can stack trees beyond their names. */
static int tree_check_depth(struct tree *t, int fd, struct err *err)
{
	auto_close int at = dup(fd);
	struct stat root, st;

	if (at < 0 || fstat(t->root, &root) < 0)
		return err_errno(err, ERR_NOMEM, errno, "walk up the tree");
	for (int i = 0; i < TREE_DEPTH_MAX; i++) {
		int up;

		if (fstat(at, &st) < 0)
			return err_errno(err, ERR_INTERNAL, errno, "walk up the tree");
		if (st.st_ino == root.st_ino && st.st_dev == root.st_dev)
			return 0;
		up = openat(at, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (up < 0)
			return err_errno(err, ERR_INTERNAL, errno, "walk up the tree");
		close(at);
		at = up;
	}
	return err_set(err, ERR_LIMIT, "archive: links stack directories deeper than %d",
		       TREE_DEPTH_MAX);
}

/* Make a directory where something else was; over a whiteout of ours it hides what is below. */
static int tree_mkdir(struct tree *t, int parent, const char *path, const char *base, mode_t mode,
		      struct err *err)
{
	bool hidden = tree_is_hidden(t, parent, base);

	if (tree_clear(t, parent, base, err) < 0)
		return -1;
	if (mkdirat(parent, base, mode) < 0)
		return tree_errno(err, "make directory", path);
	return hidden ? tree_add_opaque(t, path, err) : 0;
}

/* One component, never a link, and never upwards even if name.c had let ".." pass. */
static int tree_open_step(int prev, const char *base)
{
	struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
			       .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS};

	return sys_openat2(prev, base, &how);
}

/* One step of the slow walk: the directory `path` (its last part `base`) below prev. */
static int tree_step(struct tree *t, int prev, const char *path, const char *base, struct err *err)
{
	int fd = tree_open_step(prev, base);

	if (fd >= 0)
		return fd;
	if (errno == ENOTDIR || errno == ELOOP) {
		fd = path_open_in(t->root, path, O_PATH | O_DIRECTORY, 0, NULL);
		if (fd >= 0) {
			if (tree_check_depth(t, fd, err) == 0)
				return fd;
			close(fd);
			return -1;
		}
	} else if (errno != ENOENT) {
		return tree_errno(err, "open", path);
	}
	if (tree_mkdir(t, prev, path, base, 0755, err) < 0)
		return -1;
	fd = tree_open_step(prev, base);
	return fd >= 0 ? fd : tree_errno(err, "open", path);
}

int tree_walk(struct tree *t, const char *path, bool own, struct err *err)
{
	char part[PATH_MAX];
	auto_close int at = openat(t->root, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	size_t base = 0, n = strlen(path);

	if (at < 0)
		return tree_errno(err, "open", "the root");
	memcpy(part, path, n + 1);
	for (size_t i = 1; i <= n; i++) {
		int next;

		if (path[i] != '/' && path[i] != '\0')
			continue;
		part[i] = '\0';
		next = tree_step(t, at, part, part + base, err);
		if (next < 0)
			return -1;
		close(at);
		at = next;
		if (own && tree_own(t, at, "", err) < 0)
			return -1;
		part[i] = path[i];
		base = i + 1;
	}
	return TAKE_FD(at);
}

/* The parent directory of n; borrowed, good until the next call. */
static int tree_parent(struct tree *t, const struct image_name *n, struct err *err)
{
	char path[PATH_MAX];
	size_t len = n->base ? n->base - 1 : 0;
	int fd;

	assert(n->path[n->base] && strcmp(n->path + n->base, "..") != 0);
	memcpy(path, n->path, len);
	path[len] = '\0';
	if (t->parent >= 0 && !t->parent_stale && strcmp(path, t->parent_path) == 0)
		return t->parent;
	fd = tree_walk(t, path, true, err);
	if (fd < 0)
		return -1;
	tree_forget_parent(t);
	t->parent = fd;
	t->parent_stale = false;
	memcpy(t->parent_path, path, len + 1);
	return fd;
}

int tree_make_file(struct tree *t, const struct image_name *n, mode_t mode, struct err *err)
{
	const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
	const char *base = n->path + n->base;
	int parent = tree_parent(t, n, err);
	auto_close int fd = -1;

	if (parent < 0)
		return -1;
	fd = openat(parent, base, flags, mode & 0777);
	if (fd < 0 && errno == EEXIST) {
		if (tree_clear(t, parent, base, err) < 0)
			return -1;
		fd = openat(parent, base, flags, mode & 0777);
	}
	if (fd < 0)
		return tree_errno(err, "create", n->path);
	if (tree_own(t, fd, "", err) < 0)
		return -1;
	return TAKE_FD(fd);
}

static int tree_open_dir(int parent, const char *base)
{
	return openat(parent, base, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

int tree_make_dir(struct tree *t, const struct image_name *n, struct err *err)
{
	const char *base = n->path + n->base;
	int parent = n->kind == IMAGE_NAME_ROOT ? t->root : tree_parent(t, n, err);
	auto_close int fd = -1;

	if (parent < 0)
		return -1;
	if (n->kind == IMAGE_NAME_ROOT) {
		fd = tree_open_dir(parent, ".");
		return fd < 0 ? tree_errno(err, "open", "the root") : TAKE_FD(fd);
	}
	if (mkdirat(parent, base, 0700) < 0 && errno != EEXIST)
		return tree_errno(err, "make directory", n->path);
	fd = tree_open_dir(parent, base);
	if (fd < 0) {
		if (tree_mkdir(t, parent, n->path, base, 0700, err) < 0)
			return -1;
		fd = tree_open_dir(parent, base);
	}
	if (fd < 0)
		return tree_errno(err, "open", n->path);
	if (tree_own(t, fd, "", err) < 0)
		return -1;
	return TAKE_FD(fd);
}

/* Owner and times of what can't be opened. fchmodat follows links, so links skip it. */
static int tree_dress(struct tree *t, int parent, const struct image_name *n,
		      const struct tree_meta *m, bool chmod_it, struct err *err)
{
	const struct timespec times[2] = {m->mtime, m->mtime};
	const char *base = n->path + n->base;
	struct stat st;

	if (fstatat(parent, base, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return tree_errno(err, "stat", n->path);
	if ((st.st_uid != m->uid || st.st_gid != m->gid) &&
	    fchownat(parent, base, m->uid, m->gid, AT_SYMLINK_NOFOLLOW) < 0)
		return tree_errno(err, "chown", n->path);
	if (chmod_it && fchmodat(parent, base, m->mode, 0) < 0)
		return tree_errno(err, "chmod", n->path);
	if (utimensat(parent, base, times, AT_SYMLINK_NOFOLLOW) < 0)
		return tree_errno(err, "set the time of", n->path);
	return tree_own(t, parent, base, err);
}

int tree_make_symlink(struct tree *t, const struct image_name *n, const char *target,
		      const struct tree_meta *m, struct err *err)
{
	const char *base = n->path + n->base;
	int parent = tree_parent(t, n, err);

	if (parent < 0)
		return -1;
	if (!*target || strlen(target) >= PATH_MAX)
		return err_set(err, ERR_INVALID, "archive: %s links to no usable name", n->path);
	if (symlinkat(target, parent, base) < 0) {
		if (errno != EEXIST)
			return tree_errno(err, "link", n->path);
		if (tree_clear(t, parent, base, err) < 0)
			return -1;
		if (symlinkat(target, parent, base) < 0)
			return tree_errno(err, "link", n->path);
	}
	return tree_dress(t, parent, n, m, false, err);
}

int tree_make_fifo(struct tree *t, const struct image_name *n, const struct tree_meta *m,
		   struct err *err)
{
	const char *base = n->path + n->base;
	int parent = tree_parent(t, n, err);

	if (parent < 0 || tree_clear(t, parent, base, err) < 0)
		return -1;
	if (mknodat(parent, base, S_IFIFO | 0600, 0) < 0)
		return tree_errno(err, "make the pipe", n->path);
	return tree_dress(t, parent, n, m, true, err);
}

int tree_make_link(struct tree *t, const struct image_name *n, const struct image_name *target,
		   struct err *err)
{
	const char *base = n->path + n->base, *from = target->path + target->base;
	char dir[PATH_MAX];
	size_t len = target->base ? target->base - 1 : 0;
	auto_close int source = -1;
	int parent = tree_parent(t, n, err);
	struct stat st, old;

	if (parent < 0)
		return -1;
	memcpy(dir, target->path, len);
	dir[len] = '\0';
	source = path_open_in(t->root, len ? dir : ".", O_PATH | O_DIRECTORY, 0, err);
	if (source < 0 || fstatat(source, from, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
	    S_ISDIR(st.st_mode))
		return err_set(err, ERR_INVALID, "archive: %s is a hard link to %s, no file here",
			       n->path, target->path);
	/* Linking a name to itself must not remove it first. */
	if (fstatat(parent, base, &old, AT_SYMLINK_NOFOLLOW) == 0) {
		if (old.st_ino == st.st_ino)
			return tree_own(t, parent, base, err);
		if (tree_clear(t, parent, base, err) < 0)
			return -1;
	}
	if (linkat(source, from, parent, base, 0) < 0)
		return tree_errno(err, "hard-link", n->path);
	return tree_own(t, parent, base, err);
}

int tree_set_owner(int fd, const struct tree_meta *m, struct err *err)
{
	struct stat st;

	/* Each change is a journal entry of the disk; a look is not, and most need no change. */
	if (fstat(fd, &st) < 0)
		return tree_errno(err, "stat", "an entry");
	if ((st.st_uid != m->uid || st.st_gid != m->gid) && fchown(fd, m->uid, m->gid) < 0)
		return tree_errno(err, "chown", "an entry");
	/* After a chown, which drops setuid; the mode that was asked for at birth may be cut. */
	if (((st.st_mode & 07777) != m->mode || (m->mode & 07000)) && fchmod(fd, m->mode) < 0)
		return tree_errno(err, "chmod", "an entry");
	return 0;
}

int tree_set_time(int fd, const struct tree_meta *m, struct err *err)
{
	const struct timespec times[2] = {m->mtime, m->mtime};

	if (futimens(fd, times) < 0)
		return tree_errno(err, "set the time of", "an entry");
	return 0;
}

int tree_later_time(struct tree *t, const struct image_name *n, const struct tree_meta *m,
		    struct err *err)
{
	char *path;

	if (t->ntimes == t->captimes) {
		size_t cap = t->captimes ? t->captimes * 2 : 1024;
		struct tree_time *grown = reallocarray(t->time, cap, sizeof(*grown));

		if (!grown)
			return err_set(err, ERR_NOMEM, "out of memory for directory times");
		t->time = grown;
		t->captimes = cap;
	}
	path = strdup(n->kind == IMAGE_NAME_ROOT ? "." : n->path);
	if (!path)
		return err_set(err, ERR_NOMEM, "out of memory for directory times");
	t->time[t->ntimes++] = (struct tree_time){path, m->mtime};
	return 0;
}

/* Names that have since become something else are left alone. */
int tree_finish(struct tree *t, struct err *err)
{
	tree_forget_parent(t);
	for (size_t i = 0; i < t->ntimes; i++) {
		const struct tree_meta m = {.mtime = t->time[i].mtime};
		auto_close int fd = path_open_in(t->root, t->time[i].path,
						 O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0, NULL);

		if (fd >= 0 && tree_set_time(fd, &m, err) < 0)
			return -1;
	}
	return 0;
}
