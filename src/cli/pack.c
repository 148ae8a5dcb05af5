/*
 * pack.c - writing a tar with libarchive.
 */
#include "cli/pack.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/scope.h"

#define PACK_BLOCK (256u << 10)

struct pack {
	struct archive *disk, *out;
	struct archive_entry_linkresolver *links;
	size_t prefix; /* bytes of the folder's own path in each entry's */
};

static void pack_done(struct pack *p)
{
	if (p->links)
		archive_entry_linkresolver_free(p->links);
	if (p->disk)
		archive_read_free(p->disk);
	if (p->out)
		archive_write_free(p->out);
}

static int fault(struct archive *a, const char *what, struct err *err)
{
	const char *why = archive_error_string(a);
	return err_set(err, ERR_INTERNAL, "%s: %s", what, why ? why : "unknown");
}

static int copy_data(struct pack *p, const char *path, struct err *err)
{
	static const char zeros[4096];
	const void *block;
	size_t n;
	la_int64_t off, at = 0;
	int rc;
	while ((rc = archive_read_data_block(p->disk, &block, &n, &off)) == ARCHIVE_OK) {
		/* A sparse file comes with holes; the stream gets their zeros. */
		for (; at < off; at += (la_int64_t)MIN(sizeof(zeros), (size_t)(off - at)))
			if (archive_write_data(p->out, zeros,
					       MIN(sizeof(zeros), (size_t)(off - at))) < 0)
				return fault(p->out, path, err);
		if (archive_write_data(p->out, block, n) < 0)
			return fault(p->out, path, err);
		at += (la_int64_t)n;
	}
	return rc == ARCHIVE_EOF ? 0 : fault(p->disk, path, err);
}

static int write_entry(struct pack *p, struct archive_entry *e, struct err *err)
{
	const char *path = archive_entry_pathname(e);
	if (archive_write_header(p->out, e) < ARCHIVE_WARN)
		return fault(p->out, path, err);
	if (archive_entry_filetype(e) == AE_IFREG && archive_entry_size(e) > 0)
		return copy_data(p, path, err);
	return 0;
}

static int take_entry(struct pack *p, struct archive_entry *e, struct err *err)
{
	struct archive_entry *spare = NULL;
	const char *path = archive_entry_pathname(e);
	if (strlen(path) <= p->prefix || archive_entry_filetype(e) == AE_IFSOCK)
		return 0;
	auto_free char *name = strdup(path + p->prefix);
	if (!name)
		return err_set(err, ERR_NOMEM, "out of memory");
	size_t skip = strspn(name, "/");
	if (!name[skip])
		return 0;
	archive_entry_copy_pathname(e, name + skip);
	archive_entry_linkify(p->links, &e, &spare);
	return e ? write_entry(p, e, err) : 0;
}

static int walk(struct pack *p, const char *dir, struct err *err)
{
	struct archive_entry *e = archive_entry_new();
	int rc = e ? 0 : err_set(err, ERR_NOMEM, "out of memory");
	while (rc == 0) {
		archive_entry_clear(e);
		int r = archive_read_next_header2(p->disk, e);
		if (r == ARCHIVE_EOF)
			break;
		if (r < ARCHIVE_WARN)
			rc = fault(p->disk, dir, err);
		else
			rc = take_entry(p, e, err);
		archive_read_disk_descend(p->disk);
	}
	archive_entry_free(e);
	if (rc == 0 && archive_write_close(p->out) != ARCHIVE_OK)
		rc = fault(p->out, dir, err);
	return rc;
}

int pack_dir(const char *dir, int fd, struct err *err)
{
	auto_call(pack_done) struct pack p = {.prefix = strlen(dir)};
	p.disk = archive_read_disk_new();
	p.out = archive_write_new();
	p.links = archive_entry_linkresolver_new();
	if (!p.disk || !p.out || !p.links)
		return err_set(err, ERR_NOMEM, "out of memory");
	archive_read_disk_set_symlink_physical(p.disk);
	archive_read_disk_set_behavior(p.disk, ARCHIVE_READDISK_NO_TRAVERSE_MOUNTS);
	archive_write_set_format_pax_restricted(p.out);
	archive_write_set_bytes_per_block(p.out, PACK_BLOCK);
	archive_write_set_bytes_in_last_block(p.out, 1);
	archive_entry_linkresolver_set_strategy(p.links, archive_format(p.out));
	if (archive_read_disk_open(p.disk, dir) != ARCHIVE_OK)
		return fault(p.disk, dir, err);
	if (archive_write_open_fd(p.out, fd) != ARCHIVE_OK)
		return fault(p.out, dir, err);
	return walk(&p, dir, err);
}

#define SPARSE_BLOCK (1u << 20)

/* The map of the file's data into e. */
static int map_holes(int fd, int64_t size, struct archive_entry *e, struct err *err)
{
	off_t at = 0;
	while (at < size) {
		off_t data = lseek(fd, at, SEEK_DATA);
		if (data < 0 && errno == ENXIO)
			break;
		off_t hole = data < 0 ? -1 : lseek(fd, data, SEEK_HOLE);
		if (hole < 0)
			return err_errno(err, ERR_INTERNAL, errno, "find the holes");
		archive_entry_sparse_add_entry(e, data, hole - data);
		at = hole;
	}
	/* Without an entry it would not count as sparse at all. */
	if (!archive_entry_sparse_count(e))
		archive_entry_sparse_add_entry(e, 0, 0);
	return 0;
}

/* The whole length is fed, and what lies in a hole is dropped unseen. */
static int feed(struct pack *p, int in, int64_t size, struct err *err)
{
	auto_free char *block = calloc(1, SPARSE_BLOCK);
	int64_t at = 0;
	if (!block)
		return err_set(err, ERR_NOMEM, "out of memory");
	while (at < size) {
		size_t n = (size_t)MIN((int64_t)SPARSE_BLOCK, size - at);
		off_t data = lseek(in, at, SEEK_DATA);
		if (data >= 0 && data < at + (off_t)n) {
			ssize_t got = pread(in, block, n, at);
			if (got <= 0)
				return err_errno(err, ERR_INTERNAL, got < 0 ? errno : EIO,
						 "read the file");
			n = (size_t)got;
		} else {
			memset(block, 0, n);
		}
		if (archive_write_data(p->out, block, n) < 0)
			return fault(p->out, "write the tar", err);
		at += (int64_t)n;
	}
	return 0;
}

int pack_sparse(int in, const struct stat *st, const char *name, int out, struct err *err)
{
	auto_call(pack_done) struct pack p = {.out = archive_write_new()};
	struct archive_entry *e = archive_entry_new();
	int rc = e && p.out ? 0 : err_set(err, ERR_NOMEM, "out of memory");
	if (rc == 0) {
		archive_write_set_format_pax_restricted(p.out);
		archive_write_set_bytes_in_last_block(p.out, 1);
		archive_entry_set_pathname_utf8(e, name);
		archive_entry_set_filetype(e, AE_IFREG);
		archive_entry_set_perm(e, st->st_mode & 0777);
		archive_entry_set_size(e, st->st_size);
		archive_entry_set_mtime(e, st->st_mtime, st->st_mtim.tv_nsec);
		rc = map_holes(in, st->st_size, e, err);
	}
	if (rc == 0 && archive_write_open_fd(p.out, out) != ARCHIVE_OK)
		rc = fault(p.out, name, err);
	if (rc == 0 && archive_write_header(p.out, e) < ARCHIVE_WARN)
		rc = fault(p.out, name, err);
	if (rc == 0)
		rc = feed(&p, in, st->st_size, err);
	if (rc == 0 && archive_write_close(p.out) != ARCHIVE_OK)
		rc = fault(p.out, name, err);
	archive_entry_free(e);
	return rc;
}
