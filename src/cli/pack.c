/*
 * pack.c - writing a tar with libarchive.
 */
#include "cli/pack.h"

#include <archive.h>
#include <archive_entry.h>
#include <string.h>

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
