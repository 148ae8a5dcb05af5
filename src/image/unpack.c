/*
 * unpack.c - see unpack.h.
 */
#include "image/unpack.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <locale.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "image/name.h"
#include "image/tree.h"

#define READ_BLOCK	 (128u << 10)
#define RATIO_FREE_BYTES (256ull << 20) /* small archives may shrink as well as they like */
#define ENTRY_COST	 4096		/* what a name costs a disk at least */
#define ID_MAX		 65535
#define ID_NOBODY	 65534
#define XATTR_VALUE_MAX	 65536
#define XATTR_COUNT_MAX	 64

struct unpack {
	struct archive *ar;
	struct tree tree;
	struct image_limits limits;
	int64_t deadline_ms;
	image_progress_fn progress;
	void *arg;
	struct unpack_stats st;
};

static const struct image_limits limit_defaults = {
	.bytes_max = 32ull << 30,
	.files_max = 2000000,
	.tar_max = 16ull << 30,
	.ratio_max = 250,
	.depth_max = 128,
	.time_max_ms = 30 * 60 * 1000,
};

void unpack_limits_fill(struct image_limits *l)
{
	const struct image_limits *d = &limit_defaults;

	l->bytes_max = l->bytes_max ? l->bytes_max : d->bytes_max;
	l->files_max = l->files_max ? l->files_max : d->files_max;
	l->tar_max = l->tar_max ? l->tar_max : d->tar_max;
	l->ratio_max = l->ratio_max ? l->ratio_max : d->ratio_max;
	l->depth_max = l->depth_max ? l->depth_max : d->depth_max;
	l->time_max_ms = l->time_max_ms ? l->time_max_ms : d->time_max_ms;
}

static int unpack_archive_err(struct unpack *u, struct err *err)
{
	const char *why = archive_error_string(u->ar);

	return err_set(err, ERR_INVALID, "archive: %s", why ? why : "damaged");
}

/* Count n more bytes on the disk; every ceiling but the count of files is looked at here. */
static int unpack_charge(struct unpack *u, uint64_t n, struct err *err)
{
	const struct image_limits *l = &u->limits;
	uint64_t packed;

	u->st.bytes += n;
	if (u->st.bytes > l->bytes_max)
		return err_set(err, ERR_LIMIT, "archive: unpacks to more than %" PRIu64 " bytes",
			       l->bytes_max);
	packed = (uint64_t)archive_filter_bytes(u->ar, -1);
	if (u->st.bytes > RATIO_FREE_BYTES && u->st.bytes / l->ratio_max > packed)
		return err_set(err, ERR_LIMIT, "archive: unpacks to more than %u times its size",
			       l->ratio_max);
	if (clock_mono_ms() > u->deadline_ms)
		return err_set(err, ERR_LIMIT, "archive: unpacking took more than %" PRId64 " s",
			       l->time_max_ms / 1000);
	if (u->progress)
		u->progress(u->arg, u->st.bytes, u->st.files);
	return 0;
}

static int write_at(int fd, const char *p, size_t n, int64_t off, struct err *err)
{
	while (n > 0) {
		ssize_t put = pwrite(fd, p, n, off);

		if (put < 0 && errno == EINTR)
			continue;
		if (put < 0)
			return err_errno(err,
					 errno == ENOSPC || errno == EDQUOT ? ERR_UNAVAILABLE
									    : ERR_INTERNAL,
					 errno, "write an entry");
		p += put;
		n -= (size_t)put;
		off += put;
	}
	return 0;
}

/* Holes arrive as jumps in the offset and stay holes. */
static int unpack_data(struct unpack *u, int fd, int64_t size, struct err *err)
{
	int64_t end = 0;

	for (;;) {
		const void *p;
		size_t n;
		la_int64_t off;
		int rc = archive_read_data_block(u->ar, &p, &n, &off);

		if (rc == ARCHIVE_EOF)
			break;
		if (rc < ARCHIVE_WARN)
			return unpack_archive_err(u, err);
		if (off < 0 || off > size || n > (uint64_t)(size - off))
			return err_set(err, ERR_INVALID, "archive: data beyond an entry's end");
		if (n && (write_at(fd, p, n, off, err) < 0 || unpack_charge(u, n, err) < 0))
			return -1;
		end = MAX(end, off + (int64_t)n);
	}
	if (end < size && ftruncate(fd, size) < 0)
		return err_errno(err, ERR_LIMIT, errno, "size of an entry");
	return 0;
}

static uid_t id_clamp(la_int64_t id)
{
	return id >= 0 && id <= ID_MAX ? (uid_t)id : ID_NOBODY;
}

static void unpack_meta(struct unpack *u, struct archive_entry *e, struct tree_meta *m)
{
	m->uid = id_clamp(archive_entry_uid(e));
	m->gid = id_clamp(archive_entry_gid(e));
	m->mode = archive_entry_perm(e) & 07777;
	m->mtime.tv_sec = archive_entry_mtime(e);
	m->mtime.tv_nsec = archive_entry_mtime_nsec(e);
	if (m->mtime.tv_nsec < 0 || m->mtime.tv_nsec > 999999999)
		m->mtime.tv_nsec = 0;
	if (m->uid == ID_NOBODY && archive_entry_uid(e) != ID_NOBODY)
		u->st.dropped++;
}

/* Version 3 names a user namespace of the machine that packed it: meaningless here. */
static bool capability_is_sane(const void *value, size_t n)
{
	uint32_t magic;

	if (n != XATTR_CAPS_SZ_2)
		return false;
	memcpy(&magic, value, sizeof(magic));
	return (le32toh(magic) & VFS_CAP_REVISION_MASK) == VFS_CAP_REVISION_2;
}

static bool xattr_is_kept(const char *name, const void *value, size_t n)
{
	if (strcmp(name, "security.capability") == 0)
		return capability_is_sane(value, n);
	/* The overlay's own marks would hide or redirect files of the layers below. */
	return strncmp(name, "user.", 5) == 0 && strncmp(name, "user.overlay.", 13) != 0;
}

static int unpack_xattrs(struct unpack *u, struct archive_entry *e, int fd, struct err *err)
{
	int left = archive_entry_xattr_reset(e);
	const char *name;
	const void *value;
	size_t n;

	if (left > XATTR_COUNT_MAX)
		return err_set(err, ERR_LIMIT, "archive: an entry has %d attributes, at most %d",
			       left, XATTR_COUNT_MAX);
	while (left-- > 0 && archive_entry_xattr_next(e, &name, &value, &n) == ARCHIVE_OK) {
		if (!name || n > XATTR_VALUE_MAX || !xattr_is_kept(name, value, n)) {
			u->st.dropped++;
			continue;
		}
		if (unpack_charge(u, n, err) < 0)
			return -1;
		/* What this file system can't hold is left out; a full disk is not. */
		if (fsetxattr(fd, name, value, n, 0) == 0)
			continue;
		if (errno == ENOSPC && n < 1024)
			return err_errno(err, ERR_UNAVAILABLE, errno, "attribute of an entry");
		u->st.dropped++;
	}
	return 0;
}

static int unpack_file(struct unpack *u, struct archive_entry *e, const struct image_name *n,
		       const struct tree_meta *m, struct err *err)
{
	int64_t size = archive_entry_size(e);
	auto_close int fd = -1;

	if (size < 0)
		return err_set(err, ERR_INVALID, "archive: a file of negative size");
	/* A file of holes costs nothing here, but everything to whoever copies it. */
	if ((uint64_t)size > u->limits.bytes_max)
		return err_set(err, ERR_LIMIT,
			       "archive: a file of %" PRId64 " bytes, at most %" PRIu64, size,
			       u->limits.bytes_max);
	fd = tree_make_file(&u->tree, n, m->mode, err);
	if (fd < 0 || unpack_data(u, fd, size, err) < 0 || tree_set_owner(fd, m, err) < 0 ||
	    unpack_xattrs(u, e, fd, err) < 0)
		return -1;
	return tree_set_time(fd, m, err);
}

static int unpack_dir(struct unpack *u, struct archive_entry *e, const struct image_name *n,
		      const struct tree_meta *m, struct err *err)
{
	auto_close int fd = tree_make_dir(&u->tree, n, err);

	if (fd < 0 || tree_set_owner(fd, m, err) < 0 || unpack_xattrs(u, e, fd, err) < 0)
		return -1;
	return tree_later_time(&u->tree, n, m, err);
}

static int unpack_link(struct unpack *u, struct archive_entry *e, const struct image_name *n,
		       struct err *err)
{
	struct image_name target;

	if (image_name_parse(archive_entry_hardlink(e), u->limits.depth_max, &target, err) < 0)
		return -1;
	if (target.kind != IMAGE_NAME_PLAIN)
		return err_set(err, ERR_INVALID, "archive: %s is a hard link to no file", n->path);
	return tree_make_link(&u->tree, n, &target, err);
}

static int unpack_plain(struct unpack *u, struct archive_entry *e, const struct image_name *n,
			struct err *err)
{
	const char *target;
	struct tree_meta m;

	unpack_meta(u, e, &m);
	if (n->kind == IMAGE_NAME_ROOT)
		return archive_entry_filetype(e) == AE_IFDIR ? unpack_dir(u, e, n, &m, err) : 0;
	if (archive_entry_hardlink(e))
		return unpack_link(u, e, n, err);
	switch (archive_entry_filetype(e)) {
	case AE_IFREG:
		return unpack_file(u, e, n, &m, err);
	case AE_IFDIR:
		return unpack_dir(u, e, n, &m, err);
	case AE_IFLNK:
		target = archive_entry_symlink(e);
		return tree_make_symlink(&u->tree, n, target ? target : "", &m, err);
	case AE_IFIFO:
		return tree_make_fifo(&u->tree, n, &m, err);
	default:
		u->st.dropped++;
		return 0;
	}
}

static int unpack_entry(struct unpack *u, struct archive_entry *e, struct err *err)
{
	struct image_name n;

	if (++u->st.files > u->limits.files_max)
		return err_set(err, ERR_LIMIT, "archive: more than %" PRIu64 " entries",
			       u->limits.files_max);
	if (unpack_charge(u, ENTRY_COST, err) < 0)
		return -1;
	if (image_name_parse(archive_entry_pathname(e), u->limits.depth_max, &n, err) < 0)
		return -1;
	switch (n.kind) {
	case IMAGE_NAME_ROOT:
	case IMAGE_NAME_PLAIN:
		return unpack_plain(u, e, &n, err);
	case IMAGE_NAME_WHITEOUT:
	case IMAGE_NAME_OPAQUE:
		return tree_hide(&u->tree, &n, err);
	case IMAGE_NAME_IGNORED:
		break;
	}
	u->st.dropped++;
	return 0;
}

static int unpack_open(struct unpack *u, int tar_fd, struct err *err)
{
	u->ar = archive_read_new();
	if (!u->ar)
		return err_set(err, ERR_NOMEM, "out of memory for the archive");
	if (archive_read_support_format_tar(u->ar) != ARCHIVE_OK ||
	    archive_read_support_filter_gzip(u->ar) != ARCHIVE_OK ||
	    archive_read_support_filter_bzip2(u->ar) != ARCHIVE_OK ||
	    archive_read_support_filter_xz(u->ar) != ARCHIVE_OK ||
	    archive_read_support_filter_zstd(u->ar) != ARCHIVE_OK)
		return unpack_archive_err(u, err);
	if (archive_read_open_fd(u->ar, tar_fd, READ_BLOCK) != ARCHIVE_OK)
		return unpack_archive_err(u, err);
	return 0;
}

static int unpack_all(struct unpack *u, int tar_fd, struct err *err)
{
	struct archive_entry *e;
	int rc;

	if (unpack_open(u, tar_fd, err) < 0)
		return -1;
	/* A warning is about text that did not convert; the bytes of the name are there. */
	while ((rc = archive_read_next_header(u->ar, &e)) == ARCHIVE_OK || rc == ARCHIVE_WARN)
		if (unpack_entry(u, e, err) < 0)
			return -1;
	if (rc != ARCHIVE_EOF)
		return unpack_archive_err(u, err);
	if (u->st.files == 0)
		return err_set(err, ERR_INVALID, "archive: holds nothing");
	return tree_finish(&u->tree, err);
}

int unpack_tar(int tar_fd, int root, int opaque_fd, const struct image_limits *limits,
	       image_progress_fn progress, void *arg, struct unpack_stats *ret, struct err *err)
{
	struct unpack u = {.limits = *limits, .progress = progress, .arg = arg};
	locale_t utf8, old = (locale_t)0;
	int rc;

	unpack_limits_fill(&u.limits);
	u.deadline_ms = clock_mono_ms() + u.limits.time_max_ms;
	if (tree_init(&u.tree, root, opaque_fd >= 0, err) < 0)
		return -1;
	/* In a UTF-8 locale pax names pass as they are; in "C" libarchive refuses them. */
	utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
	if (utf8)
		old = uselocale(utf8);
	rc = unpack_all(&u, tar_fd, err);
	if (rc == 0 && opaque_fd >= 0)
		rc = fd_write_all(opaque_fd, buf_str(&u.tree.opaque), u.tree.opaque.len, 0, err);
	archive_read_free(u.ar);
	tree_done(&u.tree);
	if (utf8) {
		uselocale(old);
		freelocale(utf8);
	}
	if (rc == 0)
		*ret = u.st;
	return rc;
}
