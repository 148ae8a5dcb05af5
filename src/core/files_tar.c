/*
 * files_tar.c - a tree of a sandbox as a tar. See caisson/files.h.
 *
 * Folder by folder: one listing at a time is held, so the size of the tree costs no memory. What
 * vanishes meanwhile is left out; a file that may not be read, or a folder too large for one
 * listing, ends the tar, for a silent gap would be taken for the whole. Hard links become files.
 */
#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <string.h>

#include "core/files_int.h"

#define TAR_BLOCK     (64u << 10)
#define TAR_READ      (256u << 10)
#define TAR_HOLES_MAX 10000 /* of one file; beyond, its zeros are sent */
#define TAR_DEPTH_MAX 256
#define TAR_TOUCH     (64u << 20)

struct tar_name {
	char *name, *link;
	char type;
	mode_t mode;
	uint32_t uid, gid;
	uint64_t size;
	int64_t mtime_ns;
};

struct tar {
	struct core *core;
	const struct caller *who;
	struct file_at *at;
	struct archive *ar;
	struct archive_entry *entry;
	uint64_t sent;
	char *buf;
	size_t top;		   /* bytes of the tree's own path */
	char path[AGENT_PATH_MAX]; /* of the entry at hand */
};

struct tar_list {
	struct tar_name *v;
	size_t n, cap;
};

static void list_done(struct tar_list *l)
{
	for (size_t i = 0; i < l->n; i++) {
		free(l->v[i].name);
		free(l->v[i].link);
	}
	free(l->v);
}
#define auto_list auto_call(list_done)

static int archive_fault(struct tar *t, struct err *err)
{
	const char *why = archive_error_string(t->ar);

	/* Mostly that nobody reads any more. */
	return err_set(err, ERR_CANCELLED, "tar of %.200s: %s", t->path, why ? why : "not written");
}

static int list_add(void *arg, const struct agent_info *i, struct err *err)
{
	struct tar_list *l = arg;
	struct tar_name *grown, n = {.type = i->type,
				     .mode = i->mode,
				     .uid = i->uid,
				     .gid = i->gid,
				     .size = i->size,
				     .mtime_ns = i->mtime_ns};

	if (l->n == l->cap) {
		grown = realloc(l->v, (l->cap * 2 + 64) * sizeof(*grown));
		if (!grown)
			return err_set(err, ERR_NOMEM, "out of memory");
		l->v = grown;
		l->cap = l->cap * 2 + 64;
	}
	n.name = strdup(i->name);
	n.link = i->type == 'l' ? strdup(i->link) : NULL;
	l->v[l->n++] = n;
	if (!n.name || (i->type == 'l' && !n.link))
		return err_set(err, ERR_NOMEM, "out of memory");
	return 0;
}

/* The entry without its data; path is below the tree's own. */
static void entry_fill(struct tar *t, const struct tar_name *n, mode_t type)
{
	int64_t frac = n->mtime_ns % 1000000000;
	const char *name = t->path + t->top;

	archive_entry_clear(t->entry);
	archive_entry_copy_pathname(t->entry, name + strspn(name, "/"));
	archive_entry_set_filetype(t->entry, type);
	archive_entry_set_perm(t->entry, n->mode);
	archive_entry_set_uid(t->entry, n->uid);
	archive_entry_set_gid(t->entry, n->gid);
	archive_entry_set_mtime(t->entry, n->mtime_ns / 1000000000 - (frac < 0),
				frac < 0 ? frac + 1000000000 : frac);
	archive_entry_set_size(t->entry, 0);
}

static int entry_write(struct tar *t, struct err *err)
{
	return archive_write_header(t->ar, t->entry) < ARCHIVE_WARN ? archive_fault(t, err) : 0;
}

/* ---- files ---- */

/* Where data lies goes into the header; the zeros between are not sent. */
static void holes_find(struct tar *t, int fd, off_t size)
{
	off_t at = 0, end;
	int n = 0;

	while (at < size && (at = lseek(fd, at, SEEK_DATA)) >= 0 && at < size) {
		end = lseek(fd, at, SEEK_HOLE);
		if (end < 0 || end > size)
			end = size;
		if (at == 0 && end == size)
			return;
		if (++n > TAR_HOLES_MAX) {
			archive_entry_sparse_clear(t->entry);
			return;
		}
		archive_entry_sparse_add_entry(t->entry, at, end - at);
		at = end;
	}
	/* Nothing but a hole: an empty extent at its end says so. */
	if (n == 0 && size)
		archive_entry_sparse_add_entry(t->entry, size, 0);
}

static void tar_touch(struct tar *t, size_t n)
{
	uint64_t before = t->sent / TAR_TOUCH;

	t->sent += n;
	if (t->sent / TAR_TOUCH != before)
		slot_touch(t->core, t->at->row.s.id);
}

/* Bytes at the file's place at, zeros where nothing is: a hole, or the end of one that shrank. */
static ssize_t data_read(struct tar *t, int fd, off_t at, size_t want, const char **ret)
{
	static const char zeros[TAR_BLOCK];
	off_t data = lseek(fd, at, SEEK_DATA);
	ssize_t n;

	*ret = zeros;
	if (data < 0 && errno == ENXIO)
		return (ssize_t)MIN(want, sizeof(zeros));
	if (data > at)
		return (ssize_t)MIN(MIN(want, sizeof(zeros)), (size_t)(data - at));
	do
		n = pread(fd, t->buf, want, at);
	while (n < 0 && errno == EINTR);
	if (n > 0)
		*ret = t->buf;
	return n ? n : (ssize_t)MIN(want, sizeof(zeros));
}

/* Exactly size bytes, though the file may shrink or grow meanwhile. The library drops holes. */
static int data_write(struct tar *t, int fd, off_t size, struct err *err)
{
	off_t at = 0;

	while (at < size) {
		const char *p;
		ssize_t n = data_read(t, fd, at, (size_t)MIN((off_t)TAR_READ, size - at), &p);

		if (n < 0)
			return err_errno(err, err_code_of_errno(errno), errno, "read %s", t->path);
		if (archive_write_data(t->ar, p, (size_t)n) < 0)
			return archive_fault(t, err);
		tar_touch(t, (size_t)n);
		at += n;
	}
	return 0;
}

static int file_add(struct tar *t, const struct tar_name *n, struct err *err)
{
	struct agent_info info = {0};
	auto_close int fd = -1;
	off_t size;

	entry_fill(t, n, AE_IFREG);
	if (n->size == 0)
		return entry_write(t, err);
	fd = agent_open(t->at->agent, t->at->row.s.user, t->path, AGENT_OPEN_READ, 0, &info, err);
	if (fd < 0)
		return err && err->code == ERR_NOT_FOUND ? 0 : -1;
	size = (off_t)info.size;
	agent_info_done(&info);
	archive_entry_set_size(t->entry, size);
	holes_find(t, fd, size);
	return entry_write(t, err) < 0 ? -1 : data_write(t, fd, size, err);
}

static int link_add(struct tar *t, const struct tar_name *n, struct err *err)
{
	entry_fill(t, n, AE_IFLNK);
	archive_entry_copy_symlink(t->entry, n->link);
	return entry_write(t, err);
}

/* ---- folders ---- */

static int folder_run(struct tar *t, int depth, struct err *err);

static int folder_add(struct tar *t, const struct tar_name *n, int depth, struct err *err)
{
	if (depth >= TAR_DEPTH_MAX)
		return err_set(err, ERR_TOO_LARGE, "%.300s is deeper than %d folders", t->path,
			       TAR_DEPTH_MAX);
	entry_fill(t, n, AE_IFDIR);
	return entry_write(t, err) < 0 ? -1 : folder_run(t, depth + 1, err);
}

/* Devices, sockets and FIFOs are not files of anybody. */
static int name_add(struct tar *t, const struct tar_name *n, int depth, struct err *err)
{
	size_t keep = strlen(t->path);
	int rc = 0, len;

	len = snprintf(t->path + keep, sizeof(t->path) - keep, "%s%s",
		       keep && t->path[keep - 1] == '/' ? "" : "/", n->name);
	if (len < 0 || (size_t)len >= sizeof(t->path) - keep)
		rc = err_set(err, ERR_TOO_LARGE, "%.300s: a path below is too long", t->path);
	else if (n->type == 'f')
		rc = file_add(t, n, err);
	else if (n->type == 'l')
		rc = link_add(t, n, err);
	else if (n->type == 'd')
		rc = folder_add(t, n, depth, err);
	t->path[keep] = '\0';
	return rc;
}

static int folder_run(struct tar *t, int depth, struct err *err)
{
	auto_list struct tar_list l = {0};
	bool more = false;

	if (agent_list(t->at->agent, t->at->row.s.user, t->path, 1, AGENT_LIST_MAX, list_add, &l,
		       &more, err) < 0)
		return depth && err && err->code == ERR_NOT_FOUND ? 0 : -1;
	if (more)
		return err_set(err, ERR_TOO_LARGE, "%.300s has more than %d entries", t->path,
			       AGENT_LIST_MAX);
	for (size_t i = 0; i < l.n; i++)
		if (name_add(t, &l.v[i], depth, err) < 0)
			return -1;
	return 0;
}

static int tar_run(struct tar *t, int fd, struct err *err)
{
	/* Names are bytes; a C locale would refuse the others. */
	if (archive_write_set_format_pax_restricted(t->ar) != ARCHIVE_OK ||
	    archive_write_set_options(t->ar, "hdrcharset=BINARY") != ARCHIVE_OK ||
	    archive_write_set_bytes_per_block(t->ar, TAR_BLOCK) != ARCHIVE_OK ||
	    archive_write_set_bytes_in_last_block(t->ar, 1) != ARCHIVE_OK ||
	    archive_write_open_fd(t->ar, fd) != ARCHIVE_OK)
		return archive_fault(t, err);
	if (folder_run(t, 0, err) < 0)
		return -1;
	return archive_write_close(t->ar) == ARCHIVE_OK ? 0 : archive_fault(t, err);
}

int file_tar(struct core *c, const struct caller *who, const char *id, const char *path, int fd,
	     struct err *err)
{
	auto_file struct file_at at = {0};
	auto_free struct tar *t = NULL;
	auto_free char *buf = malloc(TAR_READ);
	int rc = -1;

	if (file_begin(c, who, id, path, &at, err) < 0)
		return -1;
	t = calloc(1, sizeof(*t));
	if (!t || !buf)
		return err_set(err, ERR_NOMEM, "out of memory");
	t->core = c;
	t->who = who;
	t->at = &at;
	t->buf = buf;
	memcpy(t->path, at.path, sizeof(t->path));
	t->top = strlen(t->path);
	t->ar = archive_write_new();
	t->entry = archive_entry_new();
	if (t->ar && t->entry)
		rc = tar_run(t, fd, err);
	else
		err_set(err, ERR_NOMEM, "out of memory");
	/* Else a tar that broke off would get its end mark, and look whole. */
	if (t->ar && rc < 0)
		archive_write_fail(t->ar);
	archive_write_free(t->ar);
	archive_entry_free(t->entry);
	return rc < 0 ? agent_failed(c, who, id, err) : 0;
}
