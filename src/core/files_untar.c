/*
 * files_untar.c - a tar into a sandbox. See caisson/files.h.
 *
 * The archive is a stranger's: names are cut into components here and may not go up, and each is
 * made by the agent, inside the sandbox and as its user. Links are made when all files are there,
 * so that none of the archive's own can lead a later name elsewhere; modes of folders come last,
 * or one without w could not be filled.
 */
#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <string.h>

#include "core/files_int.h"

#define UNTAR_BLOCK	(64u << 10)
#define UNTAR_LATER_MAX 500000 /* links and folders whose making is put off */

enum later_kind { LATER_SYMLINK, LATER_HARDLINK, LATER_MODE };

struct later {
	enum later_kind kind;
	mode_t mode;
	char *path, *target;
};

struct untar {
	struct core *core;
	const struct caller *who;
	struct file_at *at; /* path: the directory; the entry's while it is made */
	struct archive *ar;
	size_t top; /* bytes of the directory's path */
	struct later *later;
	size_t nlater, cap;
	struct untar_result r;
};

static int tar_fault(struct untar *u, struct err *err)
{
	const char *why = archive_error_string(u->ar);

	return err_set(err, ERR_INVALID, "tar: %s", why ? why : "not readable");
}

/* ---- names ---- */

static const char *utf8_or_raw(const char *utf8, const char *raw)
{
	return utf8 ? utf8 : raw;
}

static int name_fault(const char *name, const char *what, struct err *err)
{
	return err_set(err, ERR_INVALID, "tar: the name %.200s %s", name, what);
}

int untar_name(const char *name, char *out, size_t cap, struct err *err)
{
	const char *p = name;
	size_t at = 0;

	out[0] = '\0';
	while (*p) {
		size_t n = strcspn(p, "/");

		if (n == 2 && memcmp(p, "..", 2) == 0)
			return name_fault(name, "goes up", err);
		if (n > 255 || at + n + 2 > cap)
			return name_fault(name, "is too long", err);
		if (n && !(n == 1 && *p == '.')) {
			out[at++] = '/';
			memcpy(out + at, p, n);
			at += n;
			out[at] = '\0';
		}
		p += n + (p[n] == '/');
	}
	return 0;
}

/* The entry's place becomes at->path. 1: it is the directory itself. */
static int place_set(struct untar *u, const char *name, struct err *err)
{
	char *end = u->at->path + u->top;

	*end = '\0';
	if (!name)
		return err_set(err, ERR_INVALID, "tar: an entry has no name");
	if (untar_name(name, end, sizeof(u->at->path) - u->top, err) < 0)
		return -1;
	return !*end;
}

/* ---- what is put off ---- */

static int later_add(struct untar *u, enum later_kind kind, const char *target, mode_t mode,
		     struct err *err)
{
	struct later *grown, l = {.kind = kind, .mode = mode};

	if (u->nlater == UNTAR_LATER_MAX)
		return err_set(err, ERR_TOO_LARGE, "tar: more than %d folders and links",
			       UNTAR_LATER_MAX);
	if (u->nlater == u->cap) {
		grown = realloc(u->later, (u->cap * 2 + 64) * sizeof(*grown));
		if (!grown)
			return err_set(err, ERR_NOMEM, "out of memory");
		u->later = grown;
		u->cap = u->cap * 2 + 64;
	}
	l.path = strdup(u->at->path);
	l.target = target ? strdup(target) : NULL;
	u->later[u->nlater++] = l;
	if (!l.path || (target && !l.target))
		return err_set(err, ERR_NOMEM, "out of memory");
	return 0;
}

static void later_done(struct untar *u)
{
	for (size_t i = 0; i < u->nlater; i++) {
		free(u->later[i].path);
		free(u->later[i].target);
	}
	free(u->later);
}

static int later_run_one(struct untar *u, const struct later *l, struct err *err)
{
	const char *agent = u->at->agent, *user = u->at->row.s.user;
	struct err why = {0};

	if (l->kind != LATER_MODE)
		return agent_link(agent, user, l->target, l->path, l->kind == LATER_HARDLINK, err);
	if (agent_setattr(agent, user, l->path, &l->mode, "", "", &why) == 0)
		return 0;
	/* A folder that was there and is somebody else's keeps its mode. */
	if (why.code == ERR_FORBIDDEN)
		return 0;
	if (err)
		*err = why;
	return -1;
}

static int later_run_kind(struct untar *u, enum later_kind kind, struct err *err)
{
	for (size_t i = 0; i < u->nlater; i++) {
		/* Modes from the inside out: a folder without x hides what is below. */
		size_t k = kind == LATER_MODE ? u->nlater - 1 - i : i;

		if (u->later[k].kind == kind && later_run_one(u, &u->later[k], err) < 0)
			return -1;
	}
	return 0;
}

/* Hard links before symlinks, which they might go through. */
static int later_run(struct untar *u, struct err *err)
{
	if (later_run_kind(u, LATER_HARDLINK, err) < 0 || later_run_kind(u, LATER_SYMLINK, err) < 0)
		return -1;
	return later_run_kind(u, LATER_MODE, err);
}

/* ---- entries ---- */

static int data_copy(struct untar *u, struct file_put *put, struct err *err)
{
	const void *p;
	size_t n;
	la_int64_t off;
	int rc;

	while ((rc = archive_read_data_block(u->ar, &p, &n, &off)) == ARCHIVE_OK) {
		if (off < 0 || (uint64_t)off < put->size)
			return err_set(err, ERR_INVALID, "tar: data out of order");
		file_put_skip(put, (uint64_t)off - put->size);
		if (file_put_write(put, p, n, err) < 0)
			return err_wrap(err, "%.200s", u->at->path);
	}
	return rc == ARCHIVE_EOF ? 0 : tar_fault(u, err);
}

static int64_t mtime_of(struct archive_entry *e)
{
	return (int64_t)archive_entry_mtime(e) * 1000000000 + archive_entry_mtime_nsec(e);
}

static int file_make(struct untar *u, struct archive_entry *e, struct err *err)
{
	auto_file_put struct file_put put = FILE_PUT_INIT;
	int64_t mtime_ns = mtime_of(e);
	bool known = archive_entry_mtime_is_set(e) && llabs(archive_entry_mtime(e)) < 1ll << 33;

	if (file_put_at(u->core, u->at, AGENT_PUT_PARENTS | AGENT_PUT_NOFOLLOW | AGENT_PUT_MODE,
			archive_entry_perm(e) & 0777, &put, err) < 0 ||
	    data_copy(u, &put, err) < 0)
		return -1;
	if (archive_entry_size(e) > 0 && (uint64_t)archive_entry_size(e) > put.size)
		file_put_skip(&put, (uint64_t)archive_entry_size(e) - put.size);
	u->r.files++;
	u->r.bytes += put.size;
	return file_put_commit(&put, u->who, known ? &mtime_ns : NULL, NULL, err);
}

static int dir_make(struct untar *u, struct archive_entry *e, struct err *err)
{
	mode_t mode = archive_entry_perm(e) & 01777;

	if (agent_mkdir(u->at->agent, u->at->row.s.user, u->at->path, mode | 0700, true, err) < 0)
		return -1;
	u->r.dirs++;
	return later_add(u, LATER_MODE, NULL, mode, err);
}

static int hardlink_make(struct untar *u, const char *name, struct err *err)
{
	char target[AGENT_PATH_MAX];

	memcpy(target, u->at->path, u->top);
	if (untar_name(name, target + u->top, sizeof(target) - u->top, err) < 0)
		return -1;
	u->r.links++;
	return later_add(u, LATER_HARDLINK, target, 0, err);
}

static int symlink_make(struct untar *u, const char *target, struct err *err)
{
	if (!target || !*target || strlen(target) >= AGENT_PATH_MAX)
		return name_fault(u->at->path, "is a link without a usable target", err);
	u->r.links++;
	return later_add(u, LATER_SYMLINK, target, 0, err);
}

static int entry_make(struct untar *u, struct archive_entry *e, struct err *err)
{
	const char *hard = utf8_or_raw(archive_entry_hardlink_utf8(e), archive_entry_hardlink(e));
	int self = place_set(
		u, utf8_or_raw(archive_entry_pathname_utf8(e), archive_entry_pathname(e)), err);

	if (self)
		return self < 0 ? -1 : 0;
	if (hard)
		return hardlink_make(u, hard, err);
	switch (archive_entry_filetype(e)) {
	case AE_IFREG:
		return file_make(u, e, err);
	case AE_IFDIR:
		return dir_make(u, e, err);
	case AE_IFLNK:
		return symlink_make(
			u, utf8_or_raw(archive_entry_symlink_utf8(e), archive_entry_symlink(e)),
			err);
	default:
		u->r.skipped++;
		return 0;
	}
}

static int untar_run(struct untar *u, int fd, struct err *err)
{
	struct archive_entry *e;
	int rc;

	if (archive_read_support_format_tar(u->ar) != ARCHIVE_OK ||
	    archive_read_support_filter_gzip(u->ar) != ARCHIVE_OK ||
	    archive_read_support_filter_bzip2(u->ar) != ARCHIVE_OK ||
	    archive_read_support_filter_xz(u->ar) != ARCHIVE_OK ||
	    archive_read_support_filter_zstd(u->ar) != ARCHIVE_OK ||
	    archive_read_open_fd(u->ar, fd, UNTAR_BLOCK) != ARCHIVE_OK)
		return tar_fault(u, err);
	while ((rc = archive_read_next_header(u->ar, &e)) == ARCHIVE_OK || rc == ARCHIVE_WARN)
		if (entry_make(u, e, err) < 0)
			return -1;
	return rc == ARCHIVE_EOF ? later_run(u, err) : tar_fault(u, err);
}

int file_untar(struct core *c, const struct caller *who, const char *id, const char *path, int fd,
	       struct untar_result *ret, struct err *err)
{
	auto_file struct file_at at = {0};
	struct untar u = {.core = c, .who = who, .at = &at};
	int rc;

	if (file_begin(c, who, id, path, &at, err) < 0)
		return -1;
	u.top = strlen(at.path);
	while (u.top && at.path[u.top - 1] == '/')
		at.path[--u.top] = '\0';
	u.ar = archive_read_new();
	if (!u.ar)
		return err_set(err, ERR_NOMEM, "out of memory");
	rc = agent_mkdir(at.agent, at.row.s.user, u.top ? at.path : "/", 0755, true, err);
	if (rc == 0)
		rc = untar_run(&u, fd, err);
	archive_read_free(u.ar);
	later_done(&u);
	if (rc < 0)
		return agent_failed(c, who, id, err);
	*ret = u.r;
	return 0;
}
