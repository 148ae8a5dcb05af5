/*
 * test_image_pack.c - compressed and sparse archives, as libarchive writes them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <archive.h>
#include <archive_entry.h>

#include "image/unpack.h"
#include "tarball.h"

static int setup(void **state)
{
	static struct scratch s;

	if (geteuid() != 0)
		return -1;
	scratch_open(&s);
	*state = &s;
	return 0;
}

static int teardown(void **state)
{
	scratch_close(*state);
	return 0;
}

static struct stat stat_of(struct scratch *s, const char *path)
{
	struct stat st = {0};

	assert_int_equal(fstatat(s->root, path, &st, AT_SYMLINK_NOFOLLOW), 0);
	return st;
}

/* Writes one entry of `size` bytes of 'z' at offset 1 MiB, or all zeros, through a filter. */
static int packed_fd(int (*filter)(struct archive *), int64_t size, bool sparse)
{
	static char zero[1 << 20];
	int fd = memfd_create("packed", MFD_CLOEXEC);
	struct archive *a = archive_write_new();
	struct archive_entry *e = archive_entry_new();

	archive_write_set_format_pax_restricted(a);
	filter(a);
	archive_write_open_fd(a, fd);
	archive_entry_set_pathname(e, "f");
	archive_entry_set_filetype(e, AE_IFREG);
	archive_entry_set_perm(e, 0600);
	archive_entry_set_size(e, size);
	if (sparse)
		archive_entry_sparse_add_entry(e, size - 4096, 4096);
	assert_int_equal(archive_write_header(a, e), ARCHIVE_OK);
	for (int64_t left = size; left > 0; left -= (int64_t)sizeof(zero))
		archive_write_data(a, zero, (size_t)MIN(left, (int64_t)sizeof(zero)));
	archive_entry_free(e);
	archive_write_close(a);
	archive_write_free(a);
	lseek(fd, 0, SEEK_SET);
	return fd;
}

static void every_compression_is_read(void **state)
{
	int (*const filters[])(struct archive *) = {
		archive_write_add_filter_none,	archive_write_add_filter_gzip,
		archive_write_add_filter_bzip2, archive_write_add_filter_xz,
		archive_write_add_filter_zstd,
	};
	struct scratch *s = *state;

	for (size_t i = 0; i < ARRAY_LEN(filters); i++) {
		struct image_limits limits = {0};
		struct unpack_stats st;
		auto_close int fd = packed_fd(filters[i], 5000, false);

		assert_int_equal(unpack_tar(fd, s->root, -1, &limits, NULL, NULL, &st, NULL), 0);
		assert_int_equal(stat_of(s, "f").st_size, 5000);
	}
}

static void sparse_file_stays_sparse(void **state)
{
	struct scratch *s = *state;
	struct image_limits limits = {0};
	struct unpack_stats st;
	auto_close int fd = packed_fd(archive_write_add_filter_none, 64 << 20, true);

	assert_int_equal(unpack_tar(fd, s->root, -1, &limits, NULL, NULL, &st, NULL), 0);
	assert_int_equal(stat_of(s, "f").st_size, 64 << 20);
	assert_true(stat_of(s, "f").st_blocks * 512 < 1 << 20);
	assert_true(st.bytes < 1 << 20);
}

static void bomb_is_stopped_by_its_ratio(void **state)
{
	struct scratch *s = *state;
	struct image_limits limits = {0};
	struct unpack_stats st;
	struct err err = {0};
	auto_close int fd = packed_fd(archive_write_add_filter_zstd, 300 << 20, false);

	assert_int_equal(unpack_tar(fd, s->root, -1, &limits, NULL, NULL, &st, &err), -1);
	assert_int_equal(err.code, ERR_LIMIT);
	assert_non_null(strstr(err.msg, "times its size"));
}

#define IN_SCRATCH(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_SCRATCH(every_compression_is_read),
		IN_SCRATCH(sparse_file_stays_sparse),
		IN_SCRATCH(bomb_is_stopped_by_its_ratio),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
