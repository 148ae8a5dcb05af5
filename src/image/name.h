/*
 * name.h - the names in an archive: put in normal form, refused, or read as a whiteout.
 *
 * Pure; fuzzed. Normal form has no leading or double slash and no "." component. A ".."
 * component is refused rather than resolved: no honest archiver writes one.
 */
#ifndef CAISSON_IMAGE_NAME_H
#define CAISSON_IMAGE_NAME_H

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum image_name_kind {
	IMAGE_NAME_ROOT,     /* the root directory itself; path is "" */
	IMAGE_NAME_PLAIN,    /* something to make at path */
	IMAGE_NAME_WHITEOUT, /* ".wh.x": path (of x) is hidden */
	IMAGE_NAME_OPAQUE,   /* ".wh..wh..opq": all that was in path is hidden; "" = the root */
	IMAGE_NAME_IGNORED,  /* other ".wh..wh." names: book-keeping of aufs */
};

struct image_name {
	enum image_name_kind kind;
	size_t base; /* offset of the last component in path */
	char path[PATH_MAX];
};

int image_name_parse(const char *raw, uint32_t depth_max, struct image_name *ret, struct err *err);

#endif
