/*
 * fuzz_image_tar.c - any bytes as an archive, twice into one tree and once as a stacked layer:
 * nothing outside changes and the trees can be deleted again.
 */
#include <sys/stat.h>

#include "image/unpack.h"
#include "lib/tarball.h"

/* Header checksums put right, or next to no input would get past them. */
static void mend_checksums(unsigned char *tar, size_t size)
{
	for (size_t at = 0; at + TAR_BLOCK <= size; at += TAR_BLOCK) {
		unsigned char *h = tar + at;
		unsigned sum = 0;

		if (memcmp(h + 257, "ustar", 5) != 0)
			continue;
		memset(h + 148, ' ', 8);
		for (size_t i = 0; i < TAR_BLOCK; i++)
			sum += h[i];
		tar_octal((char *)h + 148, 7, sum);
	}
}

static void unpack_once(const uint8_t *data, size_t size, int root, int opaque)
{
	const struct image_limits limits = {
		.bytes_max = 1 << 20, .files_max = 200, .time_max_ms = 2000};
	struct unpack_stats st;
	int fd = memfd_create("fuzz", MFD_CLOEXEC);

	if (fd < 0 || write(fd, data, size) != (ssize_t)size)
		abort();
	lseek(fd, 0, SEEK_SET);
	unpack_tar(fd, root, opaque, &limits, NULL, NULL, &st, NULL);
	close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *raw, size_t size)
{
	unsigned char *data = malloc(size + 1);
	struct scratch s;
	struct stat top;
	char text[8];
	struct err err = {0};
	int opaque;

	if (!data)
		return 0;
	memcpy(data, raw, size);
	mend_checksums(data, size);
	scratch_open(&s);
	unpack_once(data, size, s.root, -1);
	unpack_once(data, size, s.root, -1);
	/* Outside: "root" and "outside" only, and the latter as it was. */
	if (path_read_at(s.top, "outside", text, sizeof(text), NULL) != 4 ||
	    fstat(s.top, &top) < 0 || top.st_nlink != 3 || (top.st_mode & 07777) != 0700)
		abort();
	if (path_remove_tree(s.top, "root", &err) < 0 || mkdirat(s.top, "root", 0755) < 0)
		abort();
	close(s.root);
	s.root = openat(s.top, "root", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	opaque = memfd_create("opaque", MFD_CLOEXEC);
	unpack_once(data, size, s.root, opaque);
	close(opaque);
	if (path_remove_tree(s.top, "root", &err) < 0)
		abort();
	scratch_close(&s);
	free(data);
	return 0;
}
