/*
 * tree.h - making things in the tree being unpacked, whatever names the archive chose.
 *
 * Every parent directory is resolved by openat2 in-root below tree.root, and the last component
 * is never followed. What stands at the place of a new thing is removed first; a parent that is
 * no directory is replaced by one (C5). Symlinked parents are followed inside the root, as
 * layers on merged-/usr images need, but never to a real depth beyond TREE_DEPTH_MAX, so that
 * any tree we make can be removed again.
 *
 * A stacked tree is one layer of an overlay. What it hides of the layers below is written down in
 * the overlay's form: a 0/0 device in place of a name, and the list of opaque directories, which
 * the worker marks since the unpacker may not set trusted attributes.
 */
#ifndef CAISSON_IMAGE_TREE_H
#define CAISSON_IMAGE_TREE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <time.h>

#include "base/buf.h"
#include "base/err.h"
#include "image/name.h"

#define TREE_DEPTH_MAX 256

struct tree_time; /* a directory's times, put back at the end */

/* Inode numbers of what this archive has made or touched. */
struct tree_set {
	uint64_t *slot;
	size_t cap, n;
};

struct tree {
	int root;
	bool layered; /* root held a lower layer before: whiteouts spare what is our own */
	bool stacked;
	struct buf opaque; /* of a stacked tree: names of directories, each with its NUL */
	struct tree_set own;
	int parent; /* last parent used, and its name; or -1 */
	bool parent_stale;
	char parent_path[PATH_MAX];
	struct tree_time *time;
	size_t ntimes, captimes;
};

struct tree_meta {
	uid_t uid;
	gid_t gid;
	mode_t mode; /* permission bits, setuid and the like included */
	struct timespec mtime;
};

/* Takes no ownership of root. */
int tree_init(struct tree *t, int root, bool stacked, struct err *err);
void tree_done(struct tree *t);

/*
 * Return a descriptor of the new thing, open for writing, or of the directory. Nobody else can
 * reach the tree, so a file has its mode from the start: one change less to write.
 */
int tree_make_file(struct tree *t, const struct image_name *n, mode_t mode, struct err *err);
int tree_make_dir(struct tree *t, const struct image_name *n, struct err *err);
int tree_make_symlink(struct tree *t, const struct image_name *n, const char *target,
		      const struct tree_meta *m, struct err *err);
int tree_make_fifo(struct tree *t, const struct image_name *n, const struct tree_meta *m,
		   struct err *err);
int tree_make_link(struct tree *t, const struct image_name *n, const struct image_name *target,
		   struct err *err);

/* Owner and mode by descriptor, before xattrs: chown drops setuid and capabilities. */
int tree_set_owner(int fd, const struct tree_meta *m, struct err *err);
int tree_set_time(int fd, const struct tree_meta *m, struct err *err);
/* A directory's times would be undone by what is put in it; kept for tree_finish. */
int tree_later_time(struct tree *t, const struct image_name *n, const struct tree_meta *m,
		    struct err *err);
int tree_finish(struct tree *t, struct err *err);

/* Hide n->path, or with n->kind == IMAGE_NAME_OPAQUE what is in it. Absent is fine. */
int tree_hide(struct tree *t, const struct image_name *n, struct err *err);

#endif
