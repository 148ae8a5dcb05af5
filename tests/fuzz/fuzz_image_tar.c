/*
 * fuzz_image_tar.c - any bytes as an archive, twice into one tree: nothing outside changes and
 * the tree can be deleted again.
 */
#include <sys/stat.h>

#include "image/unpack.h"
#include "lib/tarball.h"

static void unpack_once(const uint8_t *data, size_t size, int root)
{
	const struct image_limits limits = {
		.bytes_max = 1 << 20, .files_max = 200, .time_max_ms = 2000};
	struct unpack_stats st;
	int fd = memfd_create("fuzz", MFD_CLOEXEC);

	if (fd < 0 || write(fd, data, size) != (ssize_t)size)
		abort();
	lseek(fd, 0, SEEK_SET);
	unpack_tar(fd, root, &limits, NULL, NULL, &st, NULL);
	close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct scratch s;
	struct stat top;
	char text[8];
	struct err err = {0};

	scratch_open(&s);
	unpack_once(data, size, s.root);
	unpack_once(data, size, s.root);
	/* Outside: "root" and "outside" only, and the latter as it was. */
	if (path_read_at(s.top, "outside", text, sizeof(text), NULL) != 4 ||
	    fstat(s.top, &top) < 0 || top.st_nlink != 3 || (top.st_mode & 07777) != 0700)
		abort();
	if (path_remove_tree(s.top, "root", &err) < 0)
		abort();
	scratch_close(&s);
	return 0;
}
