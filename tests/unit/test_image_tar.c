/*
 * test_image_tar.c - hostile and honest archives through unpack_tar, each into a scratch root.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <linux/capability.h>
#include <sys/xattr.h>

#include "image/unpack.h"
#include "tarball.h"

#define HUGE_ID 100000

static int setup(void **state)
{
	static struct scratch s;

	/* Owners and attributes of archives are root's to give. */
	if (geteuid() != 0)
		return -1;
	scratch_open(&s);
	*state = &s;
	return 0;
}

static int teardown(void **state)
{
	struct scratch *s = *state;
	char text[8];

	/* Whatever the test was about: nothing outside has changed. */
	assert_int_equal(path_read_at(s->top, "outside", text, sizeof(text), NULL), 4);
	assert_string_equal(text, "safe");
	scratch_close(s);
	return 0;
}

static int unpack_within(struct scratch *s, struct tarball *t, struct image_limits limits,
			 struct unpack_stats *st, struct err *err)
{
	auto_close int fd = -1;

	tar_end(t);
	fd = tar_fd(t);
	return unpack_tar(fd, s->root, -1, &limits, NULL, NULL, st, err);
}

static void unpack_ok(struct scratch *s, struct tarball *t)
{
	struct unpack_stats st;
	struct err err = {0};

	if (unpack_within(s, t, (struct image_limits){0}, &st, &err) < 0)
		fail_msg("%s", err.msg);
}

static void unpack_fails(struct scratch *s, struct tarball *t, enum err_code code)
{
	struct unpack_stats st;
	struct err err = {0};

	assert_int_equal(unpack_within(s, t, (struct image_limits){0}, &st, &err), -1);
	assert_int_equal(err.code, code);
}

static struct stat stat_of(struct scratch *s, const char *path)
{
	struct stat st = {0};

	if (fstatat(s->root, path, &st, AT_SYMLINK_NOFOLLOW) < 0)
		fail_msg("%s: %s", path, strerror(errno));
	return st;
}

static bool exists(struct scratch *s, const char *path)
{
	struct stat st;

	return fstatat(s->root, path, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static void holds(struct scratch *s, const char *path, const char *want)
{
	char text[256];

	if (path_read_at(s->root, path, text, sizeof(text), NULL) < 0)
		fail_msg("%s: %s", path, strerror(errno));
	assert_string_equal(text, want);
}

static void c1_opaque_marker_hides_what_was_below(void **state)
{
	struct scratch *s = *state;
	struct tarball t = {0};

	tar_file(&t, "a/b/foo", "1");
	unpack_ok(s, &t);
	tar_file(&t, "a/.wh..wh..opq", "");
	unpack_ok(s, &t);
	assert_true(exists(s, "a"));
	assert_false(exists(s, "a/b"));
}

static void c1_opaque_marker_spares_its_own_layer_in_any_order(void **state)
{
	struct scratch *s = *state;
	struct tarball t = {0};

	tar_file(&t, "a/b/old", "1");
	tar_file(&t, "a/x/old", "1");
	unpack_ok(s, &t);
	tar_file(&t, "a/b/before", "2");
	tar_file(&t, "a/.wh..wh..opq", "");
	tar_file(&t, "a/c/after", "3");
	unpack_ok(s, &t);
	holds(s, "a/b/before", "2");
	holds(s, "a/c/after", "3");
	assert_false(exists(s, "a/b/old"));
	assert_false(exists(s, "a/x"));
}

static void c1_whiteout_in_one_archive_hides_what_stood_before_it(void **state)
{
	struct scratch *s = *state;
	struct tarball t = {0};

	tar_file(&t, "gone", "1");
	tar_file(&t, ".wh.gone", "");
	tar_file(&t, ".wh.kept", "");
	tar_file(&t, "kept", "2");
	unpack_ok(s, &t);
	assert_false(exists(s, "gone"));
	assert_false(exists(s, ".wh.gone"));
	holds(s, "kept", "2");
}

static void c3_whiteouts_of_a_directory_and_of_what_is_in_it(void **state)
{
	struct scratch *s = *state;
	struct tarball t = {0};

	for (int order = 0; order < 2; order++) {
		tar_file(&t, "test/test", "1");
		unpack_ok(s, &t);
		tar_file(&t, order ? "test/.wh.test" : ".wh.test", "");
		tar_file(&t, order ? ".wh.test" : "test/.wh.test", "");
		unpack_ok(s, &t);
		assert_false(exists(s, "test"));
	}
}

static void c5_entry_below_a_file_makes_it_a_directory(void **state)
{
	struct scratch *s = *state;
	struct tarball t = {0};

	tar_file(&t, "a", "file");
	tar_symlink(&t, "dangling", "nowhere");
	tar_symlink(&t, "tofile", "a");
	unpack_ok(s, &t);
	tar_file(&t, "tofile/b", "3");
	tar_file(&t, "a/b", "1");
	tar_file(&t, "dangling/b", "2");
	unpack_ok(s, &t);
	holds(s, "a/b", "1");
	holds(s, "dangling/b", "2");
	holds(s, "tofile/b", "3");
	assert_false(exists(s, "nowhere"));
}

static void c6_hard_links_share_an_inode(void **state)
{
	struct scratch *s = *state;
	struct tarball t = {0};

	tar_file(&t, "a/one", "1");
	tar_link(&t, "b/two", "a/one");
	tar_link(&t, "c/three", "./a/one");
	unpack_ok(s, &t);
	assert_int_equal(stat_of(s, "a/one").st_nlink, 3);
	assert_int_equal(stat_of(s, "a/one").st_ino, stat_of(s, "c/three").st_ino);
	/* A later layer links to a lower file, then replaces the first name only. */
	tar_link(&t, "d/four", "b/two");
	tar_file(&t, "a/one", "new");
	unpack_ok(s, &t);
	holds(s, "d/four", "1");
	holds(s, "b/two", "1");
	holds(s, "a/one", "new");
}

static void c6_hard_link_to_itself_or_to_nothing(void **state)
{
	struct scratch *s = *state;
	struct tarball t = {0};

	tar_file(&t, "a", "1");
	tar_link(&t, "a", "a");
	unpack_ok(s, &t);
	holds(s, "a", "1");
	tar_link(&t, "b", "missing");
	unpack_fails(s, &t, ERR_INVALID);
	tar_dir(&t, "d");
	tar_link(&t, "b", "d");
	unpack_fails(s, &t, ERR_INVALID);
}

static void c25_symlinked_system_directories_stay_inside(void **state)
{
	struct scratch *s = *state;
	struct tarball t = {0};

	tar_symlink(&t, "dev", "/");
	tar_symlink(&t, "proc", "../../../..");
	tar_symlink(&t, "tmp", "..");
	tar_symlink(&t, "etc", "/host/etc");
	tar_file(&t, "dev/one", "1");
	tar_file(&t, "proc/two", "2");
	tar_file(&t, "tmp/outside", "3");
	tar_file(&t, "etc/resolv.conf", "4");
	unpack_ok(s, &t);
	holds(s, "one", "1");
	holds(s, "two", "2");
	holds(s, "outside", "3");
	holds(s, "etc/resolv.conf", "4");
}

static void slip_name_that_leads_upwards_is_refused(void **state)
{
	static const char *const rows[] = {"../outside", "a/../../outside", "/../outside"};
	struct scratch *s = *state;
	struct tarball t = {0};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		tar_file(&t, rows[i], "evil");
		unpack_fails(s, &t, ERR_INVALID);
		tar_link(&t, "x", rows[i]);
		unpack_fails(s, &t, ERR_INVALID);
	}
}

static void slip_absolute_name_lands_inside(void **state)
{
	struct scratch *s = *state;
	struct tarball t = {0};
	char name[96];

	snprintf(name, sizeof(name), "%s/outside", s->path);
	tar_file(&t, name, "evil");
	unpack_ok(s, &t);
	holds(s, name + 1, "evil");
	tar_link(&t, "link", "/etc/passwd");
	unpack_fails(s, &t, ERR_INVALID);
}

static void slip_file_over_a_symlink_replaces_the_link(void **state)
{
	struct scratch *s = *state;
	struct tarball t = {0};

	tar_symlink(&t, "f", "../outside");
	tar_file(&t, "f", "evil");
	tar_symlink(&t, "d", "..");
	tar_dir(&t, "d");
	tar_symlink(&t, "l", "../outside");
	tar_link(&t, "m", "l");
	unpack_ok(s, &t);
	holds(s, "f", "evil");
	assert_true(S_ISDIR(stat_of(s, "d").st_mode));
	assert_true(S_ISLNK(stat_of(s, "m").st_mode));
}

static void slip_owner_and_mode_never_go_through_a_link(void **state)
{
	struct scratch *s = *state;
	struct tarball t = {0};
	struct stat st;

	tar_add(&t, .name = "l", .type = '2', .link = "../outside", .mode = 0777, .uid = 7);
	unpack_ok(s, &t);
	assert_int_equal(stat_of(s, "l").st_uid, 7);
	assert_int_equal(fstatat(s->top, "outside", &st, 0), 0);
	assert_int_equal(st.st_uid, 0);
	assert_int_equal(st.st_mode & 07777, 0644);
}

static void device_nodes_are_left_out(void **state)
{
	struct scratch *s = *state;
	struct tarball t = {0};
	struct unpack_stats st;

	tar_add(&t, .name = "mem", .type = '3', .major = 1, .minor = 1);
	tar_add(&t, .name = "disk", .type = '4', .major = 8, .minor = 0);
	/* As an overlay's lower this would be a whiteout. */
	tar_add(&t, .name = "hole", .type = '3', .major = 0, .minor = 0);
	tar_add(&t, .name = "pipe", .type = '6');
	assert_int_equal(unpack_within(s, &t, (struct image_limits){0}, &st, NULL), 0);
	assert_false(exists(s, "mem") || exists(s, "disk") || exists(s, "hole"));
	assert_true(S_ISFIFO(stat_of(s, "pipe").st_mode));
	assert_int_equal(st.dropped, 3);
}

static void owner_mode_and_time_are_kept(void **state)
{
	struct scratch *s = *state;
	struct tarball t = {0};

	tar_add(&t, .name = "d", .type = '5', .mode = 02755, .uid = 3, .gid = 4);
	tar_add(&t, .name = "d/su", .type = '0', .mode = 06755, .uid = 1, .gid = 2, .data = "x");
	tar_add(&t, .name = "d/far", .type = '0', .uid = HUGE_ID, .gid = HUGE_ID);
	unpack_ok(s, &t);
	assert_int_equal(stat_of(s, "d").st_mode & 07777, 02755);
	assert_int_equal(stat_of(s, "d").st_mtime, 1000000000);
	assert_int_equal(stat_of(s, "d").st_gid, 4);
	assert_int_equal(stat_of(s, "d/su").st_mode & 07777, 06755);
	assert_int_equal(stat_of(s, "d/su").st_uid, 1);
	assert_int_equal(stat_of(s, "d/su").st_gid, 2);
	assert_int_equal(stat_of(s, "d/su").st_mtime, 1000000000);
	assert_int_equal(stat_of(s, "d/far").st_uid, 65534);
}

static void xattrs_that_mean_something_to_the_host_are_left_out(void **state)
{
	const struct vfs_cap_data v2 = {.magic_etc = VFS_CAP_REVISION_2, .data[0].permitted = 1};
	const struct vfs_ns_cap_data v3 = {.magic_etc = VFS_CAP_REVISION_3, .rootid = 5};
	struct scratch *s = *state;
	struct tarball t = {0};
	char path[96], list[256];
	ssize_t n;

	tar_pax(&t, "SCHILY.xattr.user.note", "hi", 2);
	tar_pax(&t, "SCHILY.xattr.user.note2", "hi", 2);
	tar_file(&t, "f", "1");
	tar_pax(&t, "SCHILY.xattr.trusted.overlay.opaque", "y", 1);
	tar_dir(&t, "opaque");
	tar_pax(&t, "SCHILY.xattr.user.overlay.redirect", "/x", 2);
	tar_dir(&t, "redirect");
	tar_pax(&t, "SCHILY.xattr.security.capability", &v2, sizeof(v2));
	tar_file(&t, "ping", "1");
	tar_pax(&t, "SCHILY.xattr.security.capability", &v3, sizeof(v3));
	tar_file(&t, "ping3", "1");
	unpack_ok(s, &t);
	snprintf(path, sizeof(path), "%s/root/f", s->path);
	assert_int_equal(getxattr(path, "user.note2", list, sizeof(list)), 2);
	snprintf(path, sizeof(path), "%s/root/opaque", s->path);
	assert_int_equal(listxattr(path, list, sizeof(list)), 0);
	snprintf(path, sizeof(path), "%s/root/redirect", s->path);
	assert_int_equal(listxattr(path, list, sizeof(list)), 0);
	snprintf(path, sizeof(path), "%s/root/ping3", s->path);
	assert_int_equal(listxattr(path, list, sizeof(list)), 0);
	snprintf(path, sizeof(path), "%s/root/ping", s->path);
	n = getxattr(path, "security.capability", list, sizeof(list));
	assert_int_equal(n, sizeof(v2));
}

static void long_names_of_both_kinds_arrive_whole(void **state)
{
	struct scratch *s = *state;
	struct tarball t = {0};
	char name[480], gnu[480];

	memset(name, 'p', sizeof(name));
	name[200] = name[400] = '/';
	name[479] = '\0';
	memcpy(gnu, name, sizeof(gnu));
	gnu[0] = 'g';
	tar_pax(&t, "path", name, strlen(name));
	tar_file(&t, "short", "1");
	tar_add(&t, .name = "././@LongLink", .type = 'L', .data = gnu, .size = sizeof(gnu));
	tar_file(&t, "short", "2");
	unpack_ok(s, &t);
	holds(s, name, "1");
	holds(s, gnu, "2");
}

static void names_are_bytes(void **state)
{
	static const char *const rows[] = {"gr\xc3\xbc\xc3\x9f", "latin\xfc", "nl\nname", " "};
	struct scratch *s = *state;
	struct tarball t = {0};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		tar_file(&t, rows[i], "1");
	tar_pax(&t, "path", "pax-\xe2\x82\xac", 7);
	tar_file(&t, "short", "1");
	tar_pax(&t, "path", "pax-\xff\xfe", 6);
	tar_file(&t, "short", "1");
	unpack_ok(s, &t);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		assert_true(exists(s, rows[i]));
	assert_true(exists(s, "pax-\xe2\x82\xac"));
	assert_true(exists(s, "pax-\xff\xfe"));
}

static void last_of_several_entries_of_a_name_stands(void **state)
{
	struct scratch *s = *state;
	struct tarball t = {0};

	tar_file(&t, "a", "first, and longer");
	tar_file(&t, "a", "last");
	tar_file(&t, "d/x", "1");
	tar_file(&t, "d", "now a file");
	tar_file(&t, "e/x", "1");
	tar_file(&t, "e", "now a file");
	tar_file(&t, "e/y", "and a directory again");
	tar_dir(&t, "a2");
	tar_symlink(&t, "a2", "a");
	unpack_ok(s, &t);
	holds(s, "a", "last");
	holds(s, "d", "now a file");
	holds(s, "e/y", "and a directory again");
	assert_false(exists(s, "e/x"));
	assert_true(S_ISLNK(stat_of(s, "a2").st_mode));
}

static void size_that_is_negative_or_beyond_the_limit_is_refused(void **state)
{
	struct scratch *s = *state;
	struct tarball t = {0};

	tar_add(&t, .name = "n", .type = '0',
		.raw_size = "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xf0");
	unpack_fails(s, &t, ERR_INVALID);
	tar_add(&t, .name = "h", .type = '0',
		.raw_size = "\x80\0\0\0\0\x7f\xff\xff\xff\xff\xff\xff");
	unpack_fails(s, &t, ERR_LIMIT);
}

static void limits_are_enforced_and_named(void **state)
{
	static const struct {
		struct image_limits limits;
		const char *says;
	} rows[] = {
		{{.bytes_max = 10000}, "more than 10000 bytes"},
		{{.files_max = 2}, "more than 2 entries"},
		{{.depth_max = 2}, "at most 2"},
		{{.time_max_ms = -1}, "took more than"},
	};
	struct scratch *s = *state;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct tarball t = {0};
		struct unpack_stats st;
		struct err err = {0};

		tar_file(&t, "a/b/c", "1");
		tar_file(&t, "b", "2");
		tar_file(&t, "c", "3");
		assert_int_equal(unpack_within(s, &t, rows[i].limits, &st, &err), -1);
		assert_int_equal(err.code, ERR_LIMIT);
		assert_non_null(strstr(err.msg, rows[i].says));
	}
}

static void links_can_not_stack_a_tree_that_nobody_can_delete(void **state)
{
	static const char deep[] = "d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d";
	struct scratch *s = *state;
	struct tarball t = {0};

	tar_symlink(&t, "s0", ".");
	for (int i = 0; i < 10; i++) {
		char name[96], link[16];

		snprintf(name, sizeof(name), "s%d/%s", i, deep);
		tar_dir(&t, name);
		snprintf(link, sizeof(link), "s%d", i + 1);
		tar_symlink(&t, link, name);
	}
	unpack_fails(s, &t, ERR_LIMIT);
}

static void damaged_or_empty_input_is_refused(void **state)
{
	struct scratch *s = *state;
	struct image_limits limits = {0};
	struct unpack_stats st;
	struct tarball t = {0};
	struct err err = {0};
	int fd;

	tar_put(&t, "no archive at all, but text", 27);
	unpack_fails(s, &t, ERR_INVALID);
	unpack_fails(s, &t, ERR_INVALID);
	fd = memfd_create("empty", MFD_CLOEXEC);
	assert_int_equal(unpack_tar(fd, s->root, -1, &limits, NULL, NULL, &st, &err), -1);
	close(fd);
	tar_add(&t, .name = "cut", .type = '0', .data = "x", .raw_size = "00000100000");
	t.len -= 100;
	fd = tar_fd(&t);
	assert_int_equal(unpack_tar(fd, s->root, -1, &limits, NULL, NULL, &st, &err), -1);
	assert_int_equal(err.code, ERR_INVALID);
	close(fd);
}

#define IN_SCRATCH(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_SCRATCH(c1_opaque_marker_hides_what_was_below),
		IN_SCRATCH(c1_opaque_marker_spares_its_own_layer_in_any_order),
		IN_SCRATCH(c1_whiteout_in_one_archive_hides_what_stood_before_it),
		IN_SCRATCH(c3_whiteouts_of_a_directory_and_of_what_is_in_it),
		IN_SCRATCH(c5_entry_below_a_file_makes_it_a_directory),
		IN_SCRATCH(c6_hard_links_share_an_inode),
		IN_SCRATCH(c6_hard_link_to_itself_or_to_nothing),
		IN_SCRATCH(c25_symlinked_system_directories_stay_inside),
		IN_SCRATCH(slip_name_that_leads_upwards_is_refused),
		IN_SCRATCH(slip_absolute_name_lands_inside),
		IN_SCRATCH(slip_file_over_a_symlink_replaces_the_link),
		IN_SCRATCH(slip_owner_and_mode_never_go_through_a_link),
		IN_SCRATCH(device_nodes_are_left_out),
		IN_SCRATCH(owner_mode_and_time_are_kept),
		IN_SCRATCH(xattrs_that_mean_something_to_the_host_are_left_out),
		IN_SCRATCH(long_names_of_both_kinds_arrive_whole),
		IN_SCRATCH(names_are_bytes),
		IN_SCRATCH(last_of_several_entries_of_a_name_stands),
		IN_SCRATCH(size_that_is_negative_or_beyond_the_limit_is_refused),
		IN_SCRATCH(limits_are_enforced_and_named),
		IN_SCRATCH(links_can_not_stack_a_tree_that_nobody_can_delete),
		IN_SCRATCH(damaged_or_empty_input_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
