/*
 * fifo.c - see fifo.h.
 */
#include "init/fifo.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int dir = -1;

static int dir_open(struct err *err)
{
	struct stat st;
	auto_close int fd = -1;

	if (mkdir(FIFO_DIR, 0711) < 0 && errno != EEXIST)
		return err_errno(err, ERR_UNAVAILABLE, errno, "make %s", FIFO_DIR);
	fd = open(FIFO_DIR, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_errno(err, ERR_UNAVAILABLE, errno, "open %s", FIFO_DIR);
	if (st.st_uid != 0 || st.st_mode & (S_IWGRP | S_IWOTH))
		return err_set(err, ERR_UNAVAILABLE, "%s belongs to others", FIFO_DIR);
	dir = TAKE_FD(fd);
	return 0;
}

static size_t number_put(char *out, uint32_t n)
{
	char digits[12];
	size_t k = 0, at = 0;

	do {
		digits[k++] = (char)('0' + n % 10);
		n /= 10;
	} while (n);
	while (k)
		out[at++] = digits[--k];
	return at;
}

void fifo_name(char out[FIFO_NAME], uint32_t session, uint32_t serial, char what)
{
	size_t at = number_put(out, session);

	out[at++] = '.';
	at += number_put(out + at, serial);
	out[at++] = what;
	out[at] = '\0';
}

int fifo_open(const char *name, int mode, struct err *err)
{
	auto_close int fd = openat(dir, name, mode | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return err_errno(err, ERR_UNAVAILABLE, errno, "open %s/%s", FIFO_DIR, name);
	if (!S_ISFIFO(st.st_mode))
		return err_set(err, ERR_UNAVAILABLE, "%s/%s is no FIFO", FIFO_DIR, name);
	return TAKE_FD(fd);
}

/* Root inside may have removed the directory: it is made anew. */
static int node_make(const char *name, struct err *err)
{
	for (int i = 0; i < 2; i++) {
		if (dir < 0 && dir_open(err) < 0)
			return -1;
		unlinkat(dir, name, 0);
		if (mknodat(dir, name, S_IFIFO | 0600, 0) == 0)
			return 0;
		if (errno != ENOENT)
			break;
		close(dir);
		dir = -1;
	}
	return err_errno(err, ERR_UNAVAILABLE, errno, "make %s/%s", FIFO_DIR, name);
}

int fifo_make(const char *name, uint32_t uid, uint32_t gid, int mode, struct err *err)
{
	auto_close int fd = -1;

	if (node_make(name, err) < 0)
		return -1;
	fd = fifo_open(name, mode, err);
	if (fd >= 0 && fchown(fd, uid, gid) == 0)
		return TAKE_FD(fd);
	if (fd >= 0)
		err_errno(err, ERR_UNAVAILABLE, errno, "give %s/%s away", FIFO_DIR, name);
	fifo_remove(name);
	return -1;
}

void fifo_remove(const char *name)
{
	if (dir >= 0)
		unlinkat(dir, name, 0);
}
