/*
 * test_image_stack.c - stacked layers: what an overlay of them shows is what the layers say.
 *
 * Each test imports two archives as layers, mounts them as an overlay in a mount namespace of this
 * program and looks.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <sched.h>
#include <sys/mount.h>

#include "caisson/image.h"
#include "tarball.h"

struct fixture {
	struct scratch dir;
	struct image_store *store;
	int merged; /* the mounted overlay, or -1 */
};

static int group_setup(void **state)
{
	(void)state;
	if (geteuid() != 0 || unshare(CLONE_NEWNS) < 0)
		return -1;
	return mount("", "/", NULL, MS_REC | MS_PRIVATE, NULL);
}

static int setup(void **state)
{
	static struct fixture f;
	char path[96];
	struct err err = {0};

	f = (struct fixture){.merged = -1};
	scratch_open(&f.dir);
	snprintf(path, sizeof(path), "%s/cache", f.dir.path);
	*state = &f;
	return image_store_open(path, "0000000a", f.dir.path, &f.store, &err);
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	if (f->merged >= 0)
		close(f->merged);
	image_store_close(f->store);
	scratch_close(&f->dir);
	return 0;
}

static struct image_layer import(struct fixture *f, struct tarball *t)
{
	struct image_limits limits = {.stacked = true};
	struct image_layer l = {0};
	struct err err = {0};
	int fd;

	tar_end(t);
	fd = tar_fd(t);
	if (image_store_import(f->store, fd, &limits, NULL, NULL, &l, &err) < 0)
		fail_msg("%s", err.msg);
	close(fd);
	return l;
}

/* Mount upper over lower; over the scratch root, whose own content stays reachable by fd. */
static void merge(struct fixture *f, struct tarball *lower, struct tarball *upper)
{
	struct image_layer l = import(f, lower), u = import(f, upper);
	char opts[512], at[96];

	snprintf(at, sizeof(at), "%s/root", f->dir.path);
	snprintf(opts, sizeof(opts), "lowerdir=%s/cache/layers/%s:%s/cache/layers/%s", f->dir.path,
		 u.id, f->dir.path, l.id);
	if (mount("overlay", at, "overlay", 0, opts) < 0)
		fail_msg("overlay: %s", strerror(errno));
	f->merged = open(at, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(f->merged >= 0);
	/* Found by descriptor from here on: the name goes back to the scratch directory. */
	assert_int_equal(umount2(at, MNT_DETACH), 0);
}

static bool exists(struct fixture *f, const char *path)
{
	struct stat st;

	return fstatat(f->merged, path, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static void c1_opaque_marker_hides_the_lower_layer_only(void **state)
{
	struct fixture *f = *state;
	struct tarball lower = {0}, upper = {0};

	tar_file(&lower, "a/b/foo", "1");
	tar_file(&lower, "a/x", "1");
	tar_file(&lower, "keep/y", "1");
	tar_dir(&upper, "a");
	tar_file(&upper, "a/before", "2");
	tar_file(&upper, "a/.wh..wh..opq", "");
	tar_file(&upper, "a/b/after", "2");
	merge(f, &lower, &upper);
	assert_false(exists(f, "a/b/foo") || exists(f, "a/x"));
	assert_true(exists(f, "a/before") && exists(f, "a/b/after") && exists(f, "keep/y"));
}

static void whiteout_hides_a_name_of_the_lower_layer(void **state)
{
	struct fixture *f = *state;
	struct tarball lower = {0}, upper = {0};

	tar_file(&lower, "d/file", "1");
	tar_file(&lower, "d/other", "1");
	tar_file(&lower, "gone/deep/x", "1");
	tar_file(&upper, "d/.wh.file", "");
	tar_file(&upper, ".wh.gone", "");
	merge(f, &lower, &upper);
	assert_false(exists(f, "d/file") || exists(f, "gone"));
	assert_true(exists(f, "d/other"));
}

static void whiteout_and_the_same_name_mean_replaced(void **state)
{
	for (int order = 0; order < 2; order++) {
		struct fixture *f;
		struct tarball lower = {0}, upper = {0};

		setup(state);
		f = *state;
		tar_file(&lower, "d/old", "1");
		tar_file(&lower, "i/old", "1");
		if (order) {
			tar_file(&upper, ".wh.d", "");
			tar_file(&upper, ".wh.i", "");
		}
		tar_dir(&upper, "d");
		tar_file(&upper, "i/new", "2");
		if (!order) {
			tar_file(&upper, ".wh.d", "");
			tar_file(&upper, ".wh.i", "");
		}
		merge(f, &lower, &upper);
		assert_true(exists(f, "d") && exists(f, "i/new"));
		assert_false(exists(f, "d/old") || exists(f, "i/old"));
		teardown(state);
	}
	setup(state);
}

static void c3_whiteouts_of_a_directory_and_of_what_is_in_it(void **state)
{
	for (int order = 0; order < 2; order++) {
		struct fixture *f;
		struct tarball lower = {0}, upper = {0};

		setup(state);
		f = *state;
		tar_file(&lower, "test/test", "1");
		tar_file(&upper, order ? "test/.wh.test" : ".wh.test", "");
		tar_file(&upper, order ? ".wh.test" : "test/.wh.test", "");
		merge(f, &lower, &upper);
		assert_false(exists(f, "test"));
		teardown(state);
	}
	setup(state);
}

static void c5_entry_below_a_lower_file_makes_it_a_directory(void **state)
{
	struct fixture *f = *state;
	struct tarball lower = {0}, upper = {0};

	tar_file(&lower, "a", "1");
	tar_file(&upper, "a/b", "2");
	merge(f, &lower, &upper);
	assert_true(exists(f, "a/b"));
}

static void stacked_and_whole_are_two_layers(void **state)
{
	struct fixture *f = *state;
	struct image_limits limits = {0};
	struct image_layer s, w = {0};
	struct tarball t = {0};
	int fd;

	tar_file(&t, "a", "1");
	s = import(f, &t);
	tar_file(&t, "a", "1");
	tar_end(&t);
	fd = tar_fd(&t);
	assert_int_equal(image_store_import(f->store, fd, &limits, NULL, NULL, &w, NULL), 0);
	close(fd);
	assert_string_not_equal(s.id, w.id);
}

static void layer_that_hides_everything_is_refused(void **state)
{
	struct fixture *f = *state;
	struct image_limits limits = {.stacked = true};
	struct image_layer l;
	struct err err = {0};
	struct tarball t = {0};
	int fd;

	tar_file(&t, ".wh..wh..opq", "");
	tar_end(&t);
	fd = tar_fd(&t);
	assert_int_equal(image_store_import(f->store, fd, &limits, NULL, NULL, &l, &err), -1);
	assert_int_equal(err.code, ERR_INVALID);
	close(fd);
}

#define IN_STORE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_STORE(c1_opaque_marker_hides_the_lower_layer_only),
		IN_STORE(whiteout_hides_a_name_of_the_lower_layer),
		cmocka_unit_test_teardown(whiteout_and_the_same_name_mean_replaced, teardown),
		cmocka_unit_test_teardown(c3_whiteouts_of_a_directory_and_of_what_is_in_it,
					  teardown),
		IN_STORE(c5_entry_below_a_lower_file_makes_it_a_directory),
		IN_STORE(stacked_and_whole_are_two_layers),
		IN_STORE(layer_that_hides_everything_is_refused),
	};

	return cmocka_run_group_tests(tests, group_setup, NULL);
}
