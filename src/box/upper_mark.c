/*
 * upper_mark.c - see upper_mark.h.
 */
#include "box/upper_mark.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/scope.h"

int upper_mark_get(int fd, struct upper_mark *ret)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -1;
	ret->mode = st.st_mode;
	ret->uid = st.st_uid;
	ret->gid = st.st_gid;
	ret->nlink = st.st_nlink;
	ret->size = st.st_size;
	ret->xattrs = flistxattr(fd, NULL, 0);
	if (ioctl(fd, FS_IOC_GETFLAGS, &ret->flags) < 0)
		ret->flags = -1;
	return 0;
}

static bool marks_equal(const struct upper_mark *a, const struct upper_mark *b)
{
	return a->mode == b->mode && a->uid == b->uid && a->gid == b->gid && a->nlink == b->nlink &&
	       a->size == b->size && a->flags == b->flags && a->xattrs == b->xattrs;
}

static bool dir_is_empty(int fd)
{
	auto_closedir DIR *dir = fdopendir(fcntl(fd, F_DUPFD_CLOEXEC, 0));
	struct dirent *ent;
	int n = 0;

	while (dir && (ent = readdir(dir)))
		n++;
	return dir && n == 2;
}

/* Only the kernel writes here; what it leaves after an orderly end are empty directories. */
static bool work_tidy(int box)
{
	static const char *const left[] = {"work/work", "work/incompat/volatile", "work/incompat"};

	for (size_t i = 0; i < ARRAY_LEN(left); i++)
		if (unlinkat(box, left[i], AT_REMOVEDIR) < 0 && errno != ENOENT)
			return false;
	return true;
}

/*
 * No mark on the directory itself either, which is the root of the next box. What its mtime could
 * tell is wiped. The kernel names each overlay's upper; the next one gets a name of its own.
 */
bool upper_is_new(int box, const struct upper_mark *fresh)
{
	auto_close int fd = openat(box, "upper", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	struct upper_mark m;

	if (fd < 0)
		return false;
	fremovexattr(fd, "trusted.overlay.uuid");
	return upper_mark_get(fd, &m) == 0 && marks_equal(&m, fresh) && dir_is_empty(fd) &&
	       futimens(fd, NULL) == 0 && work_tidy(box);
}
