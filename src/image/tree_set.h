/*
 * tree_set.h - a set of inode numbers.
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

#endif
