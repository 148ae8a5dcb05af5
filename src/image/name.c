/*
 * name.c - see name.h.
 */
#include "image/name.h"

#include <stdbool.h>
#include <string.h>

#define WH_PREFIX ".wh."
#define WH_META	  ".wh..wh."
#define WH_OPAQUE ".wh..wh..opq"

static bool part_is(const char *p, size_t n, const char *want)
{
	return n == strlen(want) && memcmp(p, want, n) == 0;
}

static bool part_starts(const char *p, size_t n, const char *want)
{
	return n >= strlen(want) && memcmp(p, want, strlen(want)) == 0;
}

/* Copy components in normal form; *ret_depth counts them. */
static int name_normalize(const char *raw, struct image_name *ret, uint32_t *ret_depth,
			  struct err *err)
{
	size_t len = 0;

	while (*raw) {
		size_t n = strcspn(raw, "/");

		if (n == 0) {
			raw++;
			continue;
		}
		if (part_is(raw, n, ".."))
			return err_set(err, ERR_INVALID, "archive: a name leads upwards (..)");
		if (n > NAME_MAX)
			return err_set(err, ERR_INVALID,
				       "archive: a name has a component of %zu bytes, at most %d",
				       n, NAME_MAX);
		if (!part_is(raw, n, ".")) {
			if (len + n + 2 > sizeof(ret->path))
				return err_set(err, ERR_INVALID,
					       "archive: a name is longer than %d bytes",
					       PATH_MAX - 1);
			/* A hidden directory would be neither whiteout nor visible. */
			if (part_starts(ret->path + ret->base, len - ret->base, WH_PREFIX))
				return err_set(err, ERR_INVALID,
					       "archive: a name lies below a whiteout");
			if (len)
				ret->path[len++] = '/';
			ret->base = len;
			memcpy(ret->path + len, raw, n);
			len += n;
			++*ret_depth;
		}
		raw += n;
	}
	ret->path[len] = '\0';
	return 0;
}

/* Turn "dir/.wh.x" into "dir/x", and "dir/.wh..wh..opq" into "dir". */
static int name_whiteout(struct image_name *n, struct err *err)
{
	char *base = n->path + n->base;
	size_t len = strlen(base);

	if (part_is(base, len, WH_OPAQUE)) {
		n->kind = IMAGE_NAME_OPAQUE;
		n->path[n->base ? n->base - 1 : 0] = '\0';
		n->base = 0;
		for (char *p = n->path; *p; p++)
			if (*p == '/')
				n->base = (size_t)(p - n->path) + 1;
		return 0;
	}
	if (part_starts(base, len, WH_META)) {
		n->kind = IMAGE_NAME_IGNORED;
		return 0;
	}
	base += strlen(WH_PREFIX);
	len -= strlen(WH_PREFIX);
	if (len == 0 || part_is(base, len, ".") || part_is(base, len, ".."))
		return err_set(err, ERR_INVALID, "archive: a whiteout names nothing");
	memmove(n->path + n->base, base, len + 1);
	n->kind = IMAGE_NAME_WHITEOUT;
	return 0;
}

int image_name_parse(const char *raw, uint32_t depth_max, struct image_name *ret, struct err *err)
{
	struct image_name n = {.kind = IMAGE_NAME_PLAIN};
	uint32_t depth = 0;

	if (!raw || !*raw)
		return err_set(err, ERR_INVALID, "archive: an entry has no name");
	if (name_normalize(raw, &n, &depth, err) < 0)
		return -1;
	if (depth > depth_max)
		return err_set(err, ERR_LIMIT, "archive: a name is %u levels deep, at most %u",
			       depth, depth_max);
	if (depth == 0)
		n.kind = IMAGE_NAME_ROOT;
	else if (strncmp(n.path + n.base, WH_PREFIX, strlen(WH_PREFIX)) == 0 &&
		 name_whiteout(&n, err) < 0)
		return -1;
	*ret = n;
	return 0;
}
