/*
 * path.h - the only way to follow a path that somebody else chose.
 *
 * Everything resolves below rootfd by openat2(RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS): "..",
 * absolute names and symlinks stay inside (CVE-2024-21626, CVE-2018-15664). Bytes are taken as
 * they are; an empty path, an embedded NUL or more than PATH_MAX - 1 bytes are ERR_INVALID.
 */
#ifndef CAISSON_BASE_PATH_H
#define CAISSON_BASE_PATH_H

#include <sys/types.h>

#include "base/err.h"

/* O_CLOEXEC is added. Returns a descriptor. */
int path_open_in(int rootfd, const char *path, int flags, mode_t mode, struct err *err);
/* The parent directory (O_PATH) and the last component of path (into name, NAME_MAX + 1). */
int path_open_parent(int rootfd, const char *path, char name[256], struct err *err);
/* mkdir -p below rootfd; returns an O_PATH descriptor of the last directory. */
int path_mkdirs_in(int rootfd, const char *path, mode_t mode, struct err *err);
/* Write a whole small file below dirfd (truncates). For our own names only. */
int path_write_at(int dirfd, const char *name, const void *p, size_t n, mode_t mode,
		  struct err *err);
/* Read a whole small file below dirfd, at most cap - 1 bytes, NUL-terminated. Returns length. */
ssize_t path_read_at(int dirfd, const char *name, char *out, size_t cap, struct err *err);
/* Remove a tree below dirfd without following links or crossing mounts. Missing is success. */
int path_remove_tree(int dirfd, const char *name, struct err *err);

/*
 * Tell the file system that what is made in this directory has nothing to do with each other, so
 * it need not lie together: ext4 searches a group of inodes that sees many come and go for longer
 * with each one that went in the last five seconds. A hint, without an answer.
 */
void path_spread(int dirfd);

#endif
