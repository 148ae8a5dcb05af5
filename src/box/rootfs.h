/*
 * rootfs.h - the root file system of a box: an overlay of idmapped layers, built detached.
 */
#ifndef CAISSON_BOX_ROOTFS_H
#define CAISSON_BOX_ROOTFS_H

#include "box/host.h"

/*
 * Fill the CFD_ROOT and CFD_AT_* descriptors of l->child. userns maps 0 to base. Called with the
 * launcher's fsuid and fsgid at base; mount points that are missing or are links are put right in
 * the upper (C25). ERR_NOT_FOUND when a layer is missing.
 */
int rootfs_build(struct box_launcher *l, const struct box_spec *s, int userns, struct err *err);

#endif
