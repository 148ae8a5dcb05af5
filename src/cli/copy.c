/*
 * copy.c - what both directions of a copy need, and the way up.
 */
#include "cli/copy.h"

#include <errno.h>
#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/rest.h"
#include "cli/table.h"

int copy_url(struct copy *k, const char *what, const char *path, struct buf *url, struct err *err)
{
	if (buf_addf(url, err, "%s/files%s", k->toolbox, what) < 0)
		return -1;
	return url_query(url, "path", path, err);
}

int copy_info(struct copy *k, const char *path, json_t **ret, struct err *err)
{
	auto_buf struct buf url = BUF_INIT(REST_URL_MAX);
	*ret = NULL;
	if (copy_url(k, "/info", path, &url, err) < 0)
		return -1;
	if (rest_call(k->c, "GET", buf_str(&url), NULL, ret, err) == 0)
		return 0;
	if (err->code != ERR_NOT_FOUND)
		return -1;
	*err = (struct err){0};
	return 0;
}

int copy_join(const char *dir, const char *name, char out[COPY_PATH_MAX], struct err *err)
{
	size_t n = strlen(dir);
	const char *slash = n && dir[n - 1] == '/' ? "" : "/";
	if (snprintf(out, COPY_PATH_MAX, "%s%s%s", dir, slash, name) >= COPY_PATH_MAX)
		return err_set(err, ERR_INVALID, "the path of %s is too long", name);
	return 0;
}

const char *copy_base(const char *path, char out[256])
{
	size_t n = strlen(path);
	while (n > 1 && path[n - 1] == '/')
		n--;
	size_t start = n;
	while (start && path[start - 1] != '/')
		start--;
	snprintf(out, 256, "%.*s", (int)MIN(n - start, 255u), path + start);
	return out;
}

static ssize_t up_read(void *arg, void *p, size_t cap, struct err *err)
{
	struct copy *k = arg;
	ssize_t n = read(k->fd, p, cap);
	if (n < 0)
		return err_errno(err, ERR_INTERNAL, errno, "read the file");
	progress_add(&k->progress, n);
	k->bytes += (uint64_t)n;
	return n;
}

static int set_mode(struct copy *k, const char *remote, mode_t mode, struct err *err)
{
	char octal[8];
	auto_buf struct buf url = BUF_INIT(REST_URL_MAX);
	snprintf(octal, sizeof(octal), "%04o", (unsigned)(mode & 0777));
	if (copy_url(k, "/permissions", remote, &url, err) < 0 ||
	    url_query(&url, "mode", octal, err) < 0)
		return -1;
	return rest_call(k->c, "POST", buf_str(&url), NULL, NULL, err);
}

static int up_file(struct copy *k, int fd, const struct stat *st, const char *remote,
		   struct err *err)
{
	auto_buf struct buf url = BUF_INIT(REST_URL_MAX);
	auto_json json_t *reply = NULL;
	if (copy_is_sparse(st))
		return copy_sparse_up(k, fd, st, remote, err);
	if (copy_url(k, "/upload-v2", remote, &url, err) < 0)
		return -1;
	struct rest_stream s = {.read = up_read,
				.arg = k,
				.size = S_ISREG(st->st_mode) ? st->st_size : -1,
				.type = "application/octet-stream"};
	k->fd = fd;
	if (rest_stream(k->c, "POST", buf_str(&url), &s, &reply, err) < 0)
		return err_wrap(err, "%s", remote);
	k->files++;
	if (!S_ISREG(st->st_mode) || (st->st_mode & 0777) == 0644)
		return 0;
	return set_mode(k, remote, st->st_mode, err);
}

static int up_folder(struct copy *k, const char *remote, mode_t mode, struct err *err)
{
	char octal[8];
	auto_buf struct buf url = BUF_INIT(REST_URL_MAX);
	/* Ours while we fill it, or a folder without w could not be filled. */
	snprintf(octal, sizeof(octal), "%04o", (unsigned)((mode & 0777) | 0700));
	if (copy_url(k, "/folder", remote, &url, err) < 0 ||
	    url_query(&url, "mode", octal, err) < 0)
		return -1;
	return rest_call(k->c, "POST", buf_str(&url), NULL, NULL, err);
}

static int up_tree(struct copy *k, int dirfd, const char *remote, int depth, struct err *err);

static int up_child(struct copy *k, int dirfd, const char *name, const char *remote, int depth,
		    struct err *err)
{
	char path[COPY_PATH_MAX];
	struct stat st;
	if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return err_errno(err, ERR_INTERNAL, errno, "%s", name);
	if (copy_join(remote, name, path, err) < 0)
		return -1;
	if (S_ISLNK(st.st_mode))
		return copy_link_up(k, dirfd, name, path, err);
	if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)) {
		copy_leave(k, path, "a special file");
		return 0;
	}
	auto_close int fd = openat(dirfd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_errno(err, ERR_INTERNAL, errno, "%s", name);
	if (S_ISREG(st.st_mode))
		return up_file(k, fd, &st, path, err);
	if (up_folder(k, path, st.st_mode, err) < 0)
		return err_wrap(err, "%s", path);
	return up_tree(k, TAKE_FD(fd), path, depth + 1, err);
}

/* Takes dirfd. */
static int up_tree(struct copy *k, int dirfd, const char *remote, int depth, struct err *err)
{
	auto_closedir DIR *d = fdopendir(dirfd);
	struct dirent *e;
	if (!d)
		return err_errno(err, ERR_INTERNAL, errno, "%s", remote);
	if (depth > COPY_DEPTH_MAX)
		return err_set(err, ERR_INVALID, "%s is deeper than %d folders", remote,
			       COPY_DEPTH_MAX);
	while ((e = readdir(d))) {
		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
			continue;
		if (up_child(k, dirfd, e->d_name, remote, depth, err) < 0)
			return -1;
	}
	return 0;
}

/* A target that is a folder, or says so by its last slash, takes the source under its own name. */
static int up_target(struct copy *k, const char *local, const char *remote, char out[COPY_PATH_MAX],
		     struct err *err)
{
	char base[256];
	auto_json json_t *info = NULL;
	size_t n = strlen(remote);
	if (copy_info(k, n ? remote : ".", &info, err) < 0)
		return -1;
	bool inside = !n || remote[n - 1] == '/' || json_is_true(json_object_get(info, "isDir"));
	copy_base(local, base);
	if (inside && (!*base || !strcmp(base, ".") || !strcmp(base, "..") || !strcmp(base, "/")))
		inside = false;
	if (inside)
		return copy_join(n ? remote : ".", base, out, err);
	return snprintf(out, COPY_PATH_MAX, "%s", n ? remote : ".") < COPY_PATH_MAX
		       ? 0
		       : err_set(err, ERR_INVALID, "the path is too long");
}

int copy_up(struct copy *k, const char *local, const char *remote, struct err *err)
{
	char target[COPY_PATH_MAX];
	struct stat st;
	if (!strcmp(local, "-")) {
		k->fd = 0;
		st = (struct stat){.st_mode = S_IFIFO};
		return up_file(k, 0, &st, remote, err);
	}
	auto_close int fd = open(local, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_errno(err, ERR_INVALID, errno, "%s", local);
	if (up_target(k, local, remote, target, err) < 0)
		return -1;
	if (!S_ISDIR(st.st_mode)) {
		k->progress.total = S_ISREG(st.st_mode) ? st.st_size : -1;
		return up_file(k, fd, &st, target, err);
	}
	if (up_folder(k, target, st.st_mode, err) < 0)
		return err_wrap(err, "%s", target);
	if (up_tree(k, TAKE_FD(fd), target, 1, err) < 0)
		return -1;
	return copy_links_flush(k, err);
}
