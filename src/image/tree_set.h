/*
 * tree_set.h - what tree.c and tree_hide.c share: a set of inode numbers, and the walk.
 *
 * Inode numbers hold where names don't: through links, renames of parents and replacement. A
 * freed number can only come back in something this archive makes, which then is a member.
 */
#ifndef CAISSON_IMAGE_TREE_SET_H
#define CAISSON_IMAGE_TREE_SET_H

#include "image/tree.h"

int tree_set_add(struct tree_set *s, uint64_t ino, struct err *err);
bool tree_set_has(const struct tree_set *s, uint64_t ino);
void tree_set_done(struct tree_set *s);

/*
 * Walk to the directory `path`, making what is missing; `own` notes it all as this archive's.
 * A descriptor, or -1.
 */
int tree_walk(struct tree *t, const char *path, bool own, struct err *err);
/* Make way for a new thing at name. */
int tree_clear(struct tree *t, int parent, const char *name, struct err *err);
/* Is there a whiteout of ours at name? */
bool tree_is_hidden(const struct tree *t, int parent, const char *name);
/* Note the directory `path` as opaque. */
int tree_add_opaque(struct tree *t, const char *path, struct err *err);

#endif
