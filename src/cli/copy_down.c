/*
 * copy_down.c - the way down: what the sandbox says is doubted.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/id.h"
#include "cli/copy.h"
#include "cli/rest.h"
#include "cli/table.h"

static bool all_zero(const uint8_t *p, size_t n)
{
	return n && !p[0] && !memcmp(p, p + 1, n - 1);
}

static int down_write(void *arg, const void *p, size_t n, struct err *err)
{
	struct copy *k = arg;
	if (k->holes && all_zero(p, n)) {
		if (lseek(k->fd, (off_t)n, SEEK_CUR) < 0)
			return err_errno(err, ERR_INTERNAL, errno, "write the file");
	} else if (fd_write_all(k->fd, p, n, 0, err) < 0) {
		return err_wrap(err, "write the file");
	}
	progress_add(&k->progress, (int64_t)n);
	k->bytes += n;
	return 0;
}

static int down_body(struct copy *k, const char *remote, int fd, struct err *err)
{
	auto_buf struct buf url = BUF_INIT(REST_URL_MAX);
	struct rest_stream s = {.write = down_write, .arg = k, .size = -1};
	if (copy_url(k, "/download", remote, &url, err) < 0)
		return -1;
	k->fd = fd;
	if (rest_stream(k->c, "GET", buf_str(&url), &s, NULL, err) < 0)
		return err_wrap(err, "%s", remote);
	k->files++;
	return 0;
}

static mode_t mode_of(const json_t *info, mode_t otherwise)
{
	const char *text = json_text(info, "permissions");
	char *end;
	unsigned long v = strtoul(text, &end, 8);
	return end == text || *end ? otherwise : (mode_t)(v & 0777);
}

/* A device or a pipe, which a file must never take the place of. */
static bool is_special(int dirfd, const char *name)
{
	struct stat st;
	return fstatat(dirfd, name, &st, 0) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode);
}

/* As "> name" would. */
static int down_special(struct copy *k, const char *remote, int dirfd, const char *name,
			struct err *err)
{
	auto_close int fd = openat(dirfd, name, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return err_errno(err, ERR_INVALID, errno, "%s", name);
	return down_body(k, remote, fd, err);
}

/* The file appears whole or not at all: a name of its own first, then a rename. */
static int down_file(struct copy *k, const char *remote, const json_t *info, int dirfd,
		     const char *name, struct err *err)
{
	char hex[17], temp[64];
	if (is_special(dirfd, name))
		return err_set(err, ERR_CONFLICT, "%s is a special file here", name);
	id_hex(hex, 8);
	snprintf(temp, sizeof(temp), ".caisson-%s", hex);
	auto_close int fd = openat(dirfd, temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_errno(err, ERR_INVALID, errno, "%s", name);
	k->holes = true;
	int rc = down_body(k, remote, fd, err);
	k->holes = false;
	/* A hole at the end is no part of the file yet. */
	if (rc == 0 && ftruncate(fd, lseek(fd, 0, SEEK_CUR)) < 0)
		rc = err_errno(err, ERR_INTERNAL, errno, "%s", name);
	if (rc == 0 && fchmod(fd, mode_of(info, 0644)) < 0)
		rc = err_errno(err, ERR_INTERNAL, errno, "%s", name);
	if (rc == 0 && renameat(dirfd, temp, dirfd, name) < 0)
		rc = err_errno(err, ERR_INVALID, errno, "%s", name);
	if (rc < 0)
		unlinkat(dirfd, temp, 0);
	return rc;
}

static bool name_is_safe(const char *name)
{
	return *name && strcmp(name, ".") && strcmp(name, "..") && !strchr(name, '/') &&
	       strlen(name) < 256;
}

static int down_tree(struct copy *k, const char *remote, int dirfd, int depth, struct err *err);

static int down_child(struct copy *k, const char *remote, const json_t *info, int dirfd, int depth,
		      struct err *err)
{
	char path[COPY_PATH_MAX], base[256];
	const char *name = copy_base(json_text(info, "name"), base);
	char type = json_text(info, "mode")[0];
	if (!name_is_safe(name))
		return err_set(err, ERR_INVALID, "the sandbox gave a name that leaves the folder");
	if (copy_join(remote, name, path, err) < 0)
		return -1;
	if (!json_is_true(json_object_get(info, "isDir"))) {
		if (type == '-')
			return down_file(k, path, info, dirfd, name, err);
		if (type == 'l')
			return copy_link_down(k, path, json_text(info, "linkTarget"), dirfd, name,
					      err);
		copy_leave(k, path, "a special file");
		return 0;
	}
	if (mkdirat(dirfd, name, 0700) < 0 && errno != EEXIST)
		return err_errno(err, ERR_INVALID, errno, "%s", name);
	auto_close int fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return err_errno(err, ERR_INVALID, errno, "%s", name);
	if (down_tree(k, path, fd, depth + 1, err) < 0)
		return -1;
	return fchmod(fd, mode_of(info, 0755)) < 0 ? err_errno(err, ERR_INTERNAL, errno, "%s", name)
						   : 0;
}

static int down_tree(struct copy *k, const char *remote, int dirfd, int depth, struct err *err)
{
	auto_buf struct buf url = BUF_INIT(REST_URL_MAX);
	auto_json json_t *list = NULL;
	json_t *info;
	size_t i;
	if (depth > COPY_DEPTH_MAX)
		return err_set(err, ERR_INVALID, "%s is deeper than %d folders", remote,
			       COPY_DEPTH_MAX);
	if (copy_url(k, "", remote, &url, err) < 0 ||
	    rest_call(k->c, "GET", buf_str(&url), NULL, &list, err) < 0)
		return err_wrap(err, "%s", remote);
	json_array_foreach(list, i,
			   info) if (down_child(k, remote, info, dirfd, depth, err) < 0) return -1;
	return 0;
}

/* Splits local into the folder to write in (opened) and a name. */
static int down_target(const char *remote, const char *local, char name[256], struct err *err)
{
	char dir[COPY_PATH_MAX];
	struct stat st;
	size_t n = strlen(local);
	if (n && local[n - 1] != '/' && (stat(local, &st) < 0 || !S_ISDIR(st.st_mode))) {
		copy_base(local, name);
		const char *slash = strrchr(local, '/');
		size_t len = slash ? (size_t)(slash - local) + 1 : 0;
		snprintf(dir, sizeof(dir), "%.*s", (int)MIN(len, sizeof(dir) - 1), local);
	} else {
		copy_base(remote, name);
		snprintf(dir, sizeof(dir), "%s", local);
	}
	if (!name_is_safe(name))
		return err_set(err, ERR_INVALID, "say what %s shall be called here",
			       *remote ? remote : "it");
	int fd = open(*dir ? dir : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? err_errno(err, ERR_INVALID, errno, "%s", dir) : fd;
}

int copy_down(struct copy *k, const char *remote, const char *local, struct err *err)
{
	char name[256];
	auto_json json_t *info = NULL;
	if (!strcmp(local, "-"))
		return down_body(k, remote, STDOUT_FILENO, err);
	if (copy_info(k, *remote ? remote : ".", &info, err) < 0)
		return -1;
	if (!info)
		return err_set(err, ERR_NOT_FOUND, "%s is not in the sandbox", remote);
	auto_close int dirfd = down_target(remote, local, name, err);
	if (dirfd < 0)
		return -1;
	k->progress.total = json_number(info, "size");
	if (!json_is_true(json_object_get(info, "isDir")))
		return is_special(dirfd, name) ? down_special(k, remote, dirfd, name, err)
					       : down_file(k, remote, info, dirfd, name, err);
	k->progress.total = -1;
	if (mkdirat(dirfd, name, 0700) < 0 && errno != EEXIST)
		return err_errno(err, ERR_INVALID, errno, "%s", name);
	/* The name is the sandbox's or new, so a link of an earlier copy is not followed. */
	auto_close int fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return err_errno(err, ERR_INVALID, errno, "%s", name);
	if (down_tree(k, *remote ? remote : ".", fd, 1, err) < 0)
		return -1;
	return fchmod(fd, mode_of(info, 0755)) < 0 ? err_errno(err, ERR_INTERNAL, errno, "%s", name)
						   : 0;
}
