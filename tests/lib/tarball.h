/*
 * tarball.h - archives written byte by byte, so that tests can forge what no archiver writes,
 * and a scratch directory to unpack them into. Include once per test program.
 */
#ifndef CAISSON_TESTS_TARBALL_H
#define CAISSON_TESTS_TARBALL_H

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/path.h"

#define TAR_BLOCK 512

struct tarball {
	char *data;
	size_t len;
};

struct tar_entry {
	const char *name;
	char type; /* '0' file, '1' hard link, '2' symlink, '3' '4' devices, '5' directory, … */
	const char *link, *data;
	size_t size; /* of data; 0 = its string length */
	unsigned mode, uid, gid;
	unsigned major, minor;
	const char *raw_size; /* 12 bytes put in the size field as they are */
};

static inline void tar_put(struct tarball *t, const void *p, size_t n)
{
	size_t padded = (n + TAR_BLOCK - 1) / TAR_BLOCK * TAR_BLOCK;

	t->data = realloc(t->data, t->len + padded);
	if (!t->data)
		abort();
	memset(t->data + t->len, 0, padded);
	memcpy(t->data + t->len, p, n);
	t->len += padded;
}

static inline void tar_octal(char *field, size_t width, unsigned long v)
{
	char text[24];

	snprintf(text, sizeof(text), "%0*lo", (int)width - 1, v);
	memcpy(field, text, width);
}

static inline void tar_add_entry(struct tarball *t, const struct tar_entry *e)
{
	char h[TAR_BLOCK] = {0};
	size_t size = e->size ? e->size : e->data ? strlen(e->data) : 0;
	unsigned sum = 0;

	memcpy(h, e->name, strnlen(e->name, 100));
	tar_octal(h + 100, 8, e->mode ? e->mode : e->type == '5' ? 0755 : 0644);
	tar_octal(h + 108, 8, e->uid);
	tar_octal(h + 116, 8, e->gid);
	tar_octal(h + 124, 12, size);
	if (e->raw_size)
		memcpy(h + 124, e->raw_size, 12);
	tar_octal(h + 136, 12, 1000000000);
	memset(h + 148, ' ', 8);
	h[156] = e->type;
	if (e->link)
		memcpy(h + 157, e->link, strnlen(e->link, 100));
	memcpy(h + 257,
	       "ustar\0"
	       "00",
	       8);
	tar_octal(h + 329, 8, e->major);
	tar_octal(h + 337, 8, e->minor);
	for (size_t i = 0; i < sizeof(h); i++)
		sum += (unsigned char)h[i];
	tar_octal(h + 148, 7, sum);
	tar_put(t, h, sizeof(h));
	if (size)
		tar_put(t, e->data, size);
}

#define tar_add(t, ...)		  tar_add_entry((t), &(struct tar_entry){__VA_ARGS__})
#define tar_file(t, name_, data_) tar_add((t), .name = (name_), .type = '0', .data = (data_))
#define tar_dir(t, name_)	  tar_add((t), .name = (name_), .type = '5')
#define tar_symlink(t, name_, to) tar_add((t), .name = (name_), .type = '2', .link = (to))
#define tar_link(t, name_, to)	  tar_add((t), .name = (name_), .type = '1', .link = (to))

/* A pax record for the entry that follows; value may hold any bytes. */
static inline void tar_pax(struct tarball *t, const char *key, const void *value, size_t n)
{
	size_t bare = strlen(key) + n + 3, total = bare + 1;
	char digits[24], *rec;
	int w;

	while (bare + (size_t)snprintf(digits, sizeof(digits), "%zu", total) != total)
		total = bare + strlen(digits);
	rec = malloc(total + 1);
	if (!rec)
		abort();
	w = snprintf(rec, total + 1, "%zu %s=", total, key);
	memcpy(rec + w, value, n);
	rec[total - 1] = '\n';
	tar_add(t, .name = "pax", .type = 'x', .data = rec, .size = total);
	free(rec);
}

static inline void tar_end(struct tarball *t)
{
	const char zero[2 * TAR_BLOCK] = {0};

	tar_put(t, zero, sizeof(zero));
}

/* The archive as a file at offset 0; frees it. */
static inline int tar_fd(struct tarball *t)
{
	int fd = memfd_create("tarball", MFD_CLOEXEC);

	if (fd < 0 || write(fd, t->data, t->len) != (ssize_t)t->len)
		abort();
	lseek(fd, 0, SEEK_SET);
	free(t->data);
	*t = (struct tarball){0};
	return fd;
}

/* <scratch>/root to unpack into, and <scratch>/outside, which must never change. */
struct scratch {
	char path[64];
	int top, root;
};

static inline void scratch_open(struct scratch *s)
{
	snprintf(s->path, sizeof(s->path), "/tmp/caisson-image-XXXXXX");
	if (!mkdtemp(s->path))
		abort();
	s->top = open(s->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (s->top < 0 || mkdirat(s->top, "root", 0755) < 0 ||
	    path_write_at(s->top, "outside", "safe", 4, 0644, NULL) < 0)
		abort();
	s->root = openat(s->top, "root", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (s->root < 0)
		abort();
}

static inline void scratch_close(struct scratch *s)
{
	close(s->root);
	close(s->top);
	path_remove_tree(AT_FDCWD, s->path, NULL);
}

#endif
