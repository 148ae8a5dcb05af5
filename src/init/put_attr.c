/*
 * put_attr.c - owner, mode and extended attributes of a file for the one that takes its place.
 */
#include "init/files.h"

#include <errno.h>
#include <string.h>
#include <sys/xattr.h>

#define XATTR_LIST_MAX	(64u << 10)
#define XATTR_VALUE_MAX (64u << 10)

/* Writing a file takes its capabilities away; so does replacing it. */
static bool is_dropped_by_writes(const char *name)
{
	return strcmp(name, "security.capability") == 0;
}

static bool attr_copy(const char *from, int to, const char *name, char *value)
{
	ssize_t n = getxattr(from, name, value, XATTR_VALUE_MAX);

	if (n < 0)
		return errno == ENODATA; /* gone meanwhile */
	return fsetxattr(to, name, value, (size_t)n, 0) == 0;
}

static bool attrs_copy(const char *from, int to)
{
	ssize_t n = listxattr(from, NULL, 0);
	auto_free char *buf = NULL;
	bool ok = true;

	if (n == 0 || (n < 0 && errno == EOPNOTSUPP))
		return true;
	buf = n < 0 ? NULL : malloc(XATTR_LIST_MAX + XATTR_VALUE_MAX);
	if (!buf)
		return false;
	n = listxattr(from, buf, XATTR_LIST_MAX);
	if (n < 0)
		return false;
	for (const char *name = buf; ok && name < buf + n; name += strlen(name) + 1)
		if (!is_dropped_by_writes(name))
			ok = attr_copy(from, to, name, buf + XATTR_LIST_MAX);
	return ok;
}

int put_attrs_copy(const struct put *p, int old_path_fd)
{
	char from[40];
	struct stat st;

	snprintf(from, sizeof(from), "/proc/self/fd/%d", old_path_fd);
	if (fstat(p->tmp, &st) < 0)
		return 0;
	/* Attributes first: they may need a write permission that the mode will take. */
	if (!attrs_copy(from, p->tmp))
		return 0;
	if ((st.st_uid != p->st.st_uid || st.st_gid != p->st.st_gid) &&
	    fchown(p->tmp, p->st.st_uid, p->st.st_gid) < 0)
		return 0;
	return fchmod(p->tmp, p->st.st_mode & 07777) == 0;
}
