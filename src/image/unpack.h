/*
 * unpack.h - one archive into one directory tree.
 *
 * Reads tar (plain, gzip, bzip2, xz, zstd; ustar, pax and GNU names, sparse files) from a
 * descriptor. Into a tree that already holds something it works as the next layer upon it.
 *
 * Kept: files, directories, links, FIFOs, owners up to 65535, modes with setuid, times, user.*
 * attributes, security.capability of version 2. Left out and counted as dropped: device nodes
 * (a 0/0 device would be a whiteout of the overlay), trusted.*, system.* and user.overlay.*
 * attributes, ACLs. Higher owners become nobody (65534): the sandbox's range ends there.
 *
 * Runs in the confined child; the caller bounds memory and system calls around it.
 */
#ifndef CAISSON_IMAGE_UNPACK_H
#define CAISSON_IMAGE_UNPACK_H

#include <stdint.h>

#include "base/err.h"
#include "caisson/image.h"

struct unpack_stats {
	uint64_t bytes, files;
	uint64_t dropped; /* entries and attributes left out */
};

/* The ceilings with defaults put in. */
void unpack_limits_fill(struct image_limits *l);

/*
 * Blocks until the end of the archive. root is not taken. progress may be NULL. opaque_fd = -1, or
 * makes a stacked tree (see tree.h) and gets the names of its opaque directories, each with a NUL.
 */
int unpack_tar(int tar_fd, int root, int opaque_fd, const struct image_limits *limits,
	       image_progress_fn progress, void *arg, struct unpack_stats *ret, struct err *err);

#endif
