/*
 * tree_hide.c - whiteouts, and the set that says what they must spare.
 *
 * Over a lower layer a whiteout hides what that layer had and never what its own layer brings,
 * in whatever order the two come (C1). In an archive unpacked into an empty root there is no
 * lower layer: a whiteout then hides what stood before it in the archive, which is what layers
 * put behind one another mean. A stacked tree hides nothing itself: it says what is hidden.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/path.h"
#include "image/tree.h"
#include "image/tree_set.h"

#define SET_START 4096

/* Fibonacci hashing: inode numbers come in runs. No inode is 0, which marks a free slot. */
static size_t set_slot(const struct tree_set *s, uint64_t ino)
{
	size_t i = (size_t)(ino * 0x9e3779b97f4a7c15ull >> 20) & (s->cap - 1);

	while (s->slot[i] && s->slot[i] != ino)
		i = (i + 1) & (s->cap - 1);
	return i;
}

static int set_grow(struct tree_set *s, struct err *err)
{
	struct tree_set big = {.cap = s->cap ? s->cap * 2 : SET_START, .n = s->n};

	big.slot = calloc(big.cap, sizeof(*big.slot));
	if (!big.slot)
		return err_set(err, ERR_NOMEM, "out of memory for the layer's inodes");
	for (size_t i = 0; i < s->cap; i++)
		if (s->slot[i])
			big.slot[set_slot(&big, s->slot[i])] = s->slot[i];
	free(s->slot);
	*s = big;
	return 0;
}

int tree_set_add(struct tree_set *s, uint64_t ino, struct err *err)
{
	size_t i;

	if (s->n * 2 >= s->cap && set_grow(s, err) < 0)
		return -1;
	i = set_slot(s, ino);
	if (!s->slot[i]) {
		s->slot[i] = ino;
		s->n++;
	}
	return 0;
}

bool tree_set_has(const struct tree_set *s, uint64_t ino)
{
	return s->cap && s->slot[set_slot(s, ino)];
}

void tree_set_done(struct tree_set *s)
{
	free(s->slot);
	*s = (struct tree_set){0};
}

static int hide_contents(struct tree *t, int dirfd, int depth, struct err *err);

/* Remove name, or when it is our own, what in it is not. */
static int hide_one(struct tree *t, int parent, const char *name, int depth, struct err *err)
{
	struct stat st;
	auto_close int fd = -1;

	if (fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : err_errno(err, ERR_INTERNAL, errno, "stat %s", name);
	if (!t->layered || !tree_set_has(&t->own, st.st_ino))
		return path_remove_tree(parent, name, err);
	if (!S_ISDIR(st.st_mode))
		return 0;
	fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return err_errno(err, ERR_INTERNAL, errno, "open %s", name);
	return hide_contents(t, fd, depth + 1, err);
}

static int hide_contents(struct tree *t, int dirfd, int depth, struct err *err)
{
	auto_closedir DIR *dir = NULL;
	struct dirent *ent;
	int fd;

	if (depth > TREE_DEPTH_MAX)
		return err_set(err, ERR_LIMIT, "archive: directories deeper than %d",
			       TREE_DEPTH_MAX);
	fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return err_errno(err, ERR_NOMEM, errno, "open a hidden directory");
	dir = fdopendir(fd);
	if (!dir) {
		close(fd);
		return err_errno(err, ERR_NOMEM, errno, "read a hidden directory");
	}
	while ((ent = readdir(dir))) {
		if (strcmp(ent->d_name, ".") == 0 || strcmp(ent->d_name, "..") == 0)
			continue;
		if (hide_one(t, fd, ent->d_name, depth, err) < 0)
			return -1;
	}
	return 0;
}

bool tree_is_hidden(const struct tree *t, int parent, const char *name)
{
	struct stat st;

	return t->stacked && fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	       S_ISCHR(st.st_mode);
}

int tree_add_opaque(struct tree *t, const char *path, struct err *err)
{
	return buf_add(&t->opaque, path, strlen(path) + 1, err);
}

/* Is path, or a directory above it, already hidden by this layer? */
static bool hide_is_moot(const struct tree *t, const char *path)
{
	char part[PATH_MAX];

	for (size_t i = 1;; i++) {
		if (path[i - 1] == '\0')
			return false;
		if (path[i] != '/' && path[i] != '\0')
			continue;
		memcpy(part, path, i);
		part[i] = '\0';
		if (tree_is_hidden(t, t->root, part))
			return true;
	}
}

static int hide_stacked(struct tree *t, const struct image_name *n, struct err *err)
{
	bool opaque = n->kind == IMAGE_NAME_OPAQUE;
	const char *base = n->path + n->base;
	char dir[PATH_MAX];
	size_t len = opaque ? strlen(n->path) : n->base ? n->base - 1 : 0;
	auto_close int fd = -1;
	struct stat st;

	if (!*n->path)
		return err_set(err, ERR_INVALID, "archive: a layer hides all below it at once");
	if (hide_is_moot(t, n->path))
		return 0;
	memcpy(dir, n->path, len);
	dir[len] = '\0';
	/* Not as our own: the directory may itself be hidden later, and is then gone (C3). */
	fd = tree_walk(t, dir, false, err);
	if (fd < 0)
		return -1;
	if (opaque)
		return tree_add_opaque(t, n->path, err);
	if (fstatat(fd, base, &st, AT_SYMLINK_NOFOLLOW) == 0 && tree_set_has(&t->own, st.st_ino))
		return S_ISDIR(st.st_mode) ? tree_add_opaque(t, n->path, err) : 0;
	if (tree_clear(t, fd, base, err) < 0)
		return -1;
	if (mknodat(fd, base, S_IFCHR, 0) < 0)
		return err_errno(err, ERR_INTERNAL, errno, "hide %s", n->path);
	return 0;
}

/* A whiteout in a directory that isn't there (C3) hides nothing, and makes no directory. */
int tree_hide(struct tree *t, const struct image_name *n, struct err *err)
{
	char dir[PATH_MAX];
	bool opaque = n->kind == IMAGE_NAME_OPAQUE;
	size_t len = opaque ? strlen(n->path) : n->base ? n->base - 1 : 0;
	auto_close int fd = -1;

	if (t->stacked)
		return hide_stacked(t, n, err);
	memcpy(dir, n->path, len);
	dir[len] = '\0';
	fd = path_open_in(t->root, len ? dir : ".", O_RDONLY | O_DIRECTORY, 0, NULL);
	if (fd < 0)
		return 0;
	/* The cached parent may be among what goes. */
	if (t->parent >= 0)
		close(t->parent);
	t->parent = -1;
	if (opaque)
		return hide_contents(t, fd, 0, err);
	return hide_one(t, fd, n->path + n->base, 0, err);
}
