/*
 * test_base.c - facts about src/base.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/kv.h"
#include "base/log.h"
#include "base/path.h"

static void err_wrap_keeps_code_and_inner_text(void **state)
{
	struct err err = {0};

	(void)state;
	assert_int_equal(err_errno(&err, ERR_NOT_FOUND, ENOENT, "open %s", "x"), -1);
	assert_int_equal(err_wrap(&err, "attach %s", "y"), -1);
	assert_int_equal(err.code, ERR_NOT_FOUND);
	assert_int_equal(err.errnum, ENOENT);
	assert_string_equal(err.msg, "attach y: open x: No such file or directory");
	assert_int_equal(err_set(NULL, ERR_INVALID, "nobody listens"), -1);
}

static void err_every_code_has_a_status_of_its_kind(void **state)
{
	(void)state;
	for (int i = 0; i < ERR_CODE_MAX; i++) {
		assert_in_range(err_http_status((enum err_code)i), 400, 599);
		assert_memory_equal(err_code_name((enum err_code)i), "ERR_", 4);
	}
	assert_int_equal(err_http_status((enum err_code)9999), 500);
}

static void buf_refuses_what_is_over_its_ceiling_and_keeps_the_rest(void **state)
{
	auto_buf struct buf b = BUF_INIT(8);
	struct err err = {0};

	(void)state;
	assert_string_equal(buf_str(&b), "");
	assert_int_equal(buf_adds(&b, "12345678", &err), 0);
	assert_int_equal(buf_adds(&b, "9", &err), -1);
	assert_int_equal(err.code, ERR_TOO_LARGE);
	assert_string_equal(buf_str(&b), "12345678");
	buf_eat(&b, 3);
	assert_int_equal(buf_addf(&b, &err, "%03d", 7), 0);
	assert_string_equal(buf_str(&b), "45678007");
}

static void kv_set_replaces_and_unset_removes(void **state)
{
	auto_kv struct kv a = {0};
	auto_kv struct kv b = {0};

	(void)state;
	assert_int_equal(kv_set(&a, "k", "1", NULL), 0);
	assert_int_equal(kv_set(&a, "k", "2", NULL), 0);
	assert_int_equal(kv_set(&a, "l", "", NULL), 0);
	assert_int_equal(a.n, 2);
	assert_int_equal(kv_copy(&b, &a, NULL), 0);
	kv_unset(&a, "k");
	assert_null(kv_get(&a, "k"));
	assert_string_equal(kv_get(&b, "k"), "2");
}

static void id_new_is_a_valid_version_4_uuid(void **state)
{
	char a[ID_LEN], b[ID_LEN];

	(void)state;
	id_new(a);
	id_new(b);
	assert_true(id_valid(a));
	assert_int_equal(a[14], '4');
	assert_string_not_equal(a, b);
	assert_false(id_valid("../../../../../../../../../../etc/pas"));
	a[0] = 'A';
	assert_false(id_valid(a));
	assert_false(id_valid(""));
}

static void clock_iso_round_trips_and_parses_offsets(void **state)
{
	static const struct {
		const char *text;
		int64_t ms;
	} good[] = {
		{"1970-01-01T00:00:01Z", 1000},
		{"1970-01-01T01:00:00.5+01:00", 500},
		{"2026-01-02T03:04:05.678Z", 1767323045678},
	};
	static const char *const bad[] = {
		"",	      "yesterday",	     "2026-13-01T00:00:00Z",
		"2026-01-01", "2026-01-01T00:00:00", "2026-01-01T00:00:00+0100"};
	char out[CLOCK_ISO_LEN];
	int64_t ms;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		assert_int_equal(clock_parse_iso(good[i].text, &ms), 0);
		assert_int_equal(ms, good[i].ms);
	}
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_int_equal(clock_parse_iso(bad[i], &ms), -1);
	clock_iso(1767323045678, out);
	assert_string_equal(out, "2026-01-02T03:04:05.678Z");
}

struct tree {
	char dir[64];
	int root; /* <dir>/root; <dir>/outside lies beside it */
};

static int tree_setup(void **state)
{
	struct tree *t = calloc(1, sizeof(*t));
	int top;

	snprintf(t->dir, sizeof(t->dir), "/tmp/caisson-base-XXXXXX");
	if (!mkdtemp(t->dir))
		return -1;
	top = open(t->dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	mkdirat(top, "root", 0755);
	path_write_at(top, "outside", "secret", 6, 0600, NULL);
	t->root = openat(top, "root", O_PATH | O_DIRECTORY | O_CLOEXEC);
	symlinkat("../outside", t->root, "up");
	symlinkat("/etc", t->root, "abs");
	mkdirat(t->root, "d", 0755);
	close(top);
	*state = t;
	return 0;
}

static int tree_teardown(void **state)
{
	struct tree *t = *state;

	close(t->root);
	path_remove_tree(AT_FDCWD, t->dir, NULL);
	free(t);
	return 0;
}

static void b5_paths_never_leave_the_root(void **state)
{
	static const char *const escapes[] = {
		"../outside", "/../outside", "d/../../outside",	     "up",
		"/up",	      "abs/passwd",  "d/../../../etc/passwd"};
	struct tree *t = *state;
	char name[256];

	for (size_t i = 0; i < ARRAY_LEN(escapes); i++) {
		struct err err = {0};

		assert_int_equal(path_open_in(t->root, escapes[i], O_RDONLY, 0, &err), -1);
		assert_int_equal(err.code, ERR_NOT_FOUND);
	}
	assert_int_equal(path_open_in(t->root, "", O_RDONLY, 0, NULL), -1);
	assert_int_equal(path_open_parent(t->root, "d/..", name, NULL), -1);
	assert_int_equal(path_open_parent(t->root, "/", name, NULL), -1);
}

static void path_mkdirs_makes_parents_inside_only(void **state)
{
	struct tree *t = *state;
	struct stat st;
	int fd = path_mkdirs_in(t->root, "../../x/y//z/", 0755, NULL);

	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(fstatat(t->root, "x/y/z", &st, 0), 0);
	assert_int_equal(path_mkdirs_in(t->root, "up/in", 0755, NULL), -1);
}

static void remove_tree_does_not_follow_links(void **state)
{
	struct tree *t = *state;
	struct stat st;

	symlinkat("../../outside", t->root, "d/l");
	assert_int_equal(path_remove_tree(t->root, "d", NULL), 0);
	assert_int_equal(path_remove_tree(t->root, "d", NULL), 0);
	assert_int_equal(fstatat(t->root, "../outside", &st, 0), 0);
	assert_int_equal(fstatat(t->root, "d", &st, 0), -1);
}

static void fd_passing_delivers_descriptors_and_whole_buffers(void **state)
{
	char big[100000], back[100000];
	int sv[2], got[FD_PASS_MAX], p[2];
	size_t n = 0;
	struct err err = {0};

	(void)state;
	memset(big, 'x', sizeof(big));
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv), 0);
	assert_int_equal(pipe2(p, O_CLOEXEC), 0);
	assert_int_equal(fd_send(sv[0], "hi", 2, p, 2, 0, &err), 0);
	assert_int_equal(fd_recv(sv[1], back, sizeof(back), got, &n, 0, &err), 2);
	assert_int_equal(n, 2);
	assert_int_equal(fcntl(got[0], F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
	fd_close_all(got, n);
	assert_int_equal(got[1], -1);
	fd_close_all(p, 2);
	close(sv[0]);
	assert_int_equal(fd_read_all(sv[1], back, 1, 0, &err), -1);
	assert_int_equal(err.code, ERR_GONE);
	close(sv[1]);
}

static void fd_wait_tells_timeout_from_hang_up(void **state)
{
	int sv[2], quiet[2];
	struct err err = {0};

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv), 0);
	assert_int_equal(pipe2(quiet, O_CLOEXEC), 0);
	assert_int_equal(fd_wait(quiet[0], POLLIN, sv[0], clock_mono_ms() + 5, &err), -1);
	assert_int_equal(err.code, ERR_TIMEOUT);
	close(sv[1]);
	assert_int_equal(fd_wait(quiet[0], POLLIN, sv[0], clock_mono_ms() + 5000, &err), -1);
	assert_int_equal(err.code, ERR_CANCELLED);
	close(sv[0]);
	fd_close_all(quiet, 2);
}

static void log_lines_cannot_be_forged(void **state)
{
	char line[4096];
	int p[2], saved = dup(STDERR_FILENO);
	ssize_t n;

	(void)state;
	assert_int_equal(pipe2(p, O_CLOEXEC), 0);
	dup2(p[1], STDERR_FILENO);
	log_setup("test", LOG_INFO, true);
	log_set_request("r\"1\n2");
	errno = ENOENT;
	log_info("name \"%s\"", "a\n{\"level\":\"error\"}\x1b[31m");
	dup2(saved, STDERR_FILENO);
	close(saved);
	assert_int_equal(errno, ENOENT);
	n = read(p[0], line, sizeof(line) - 1);
	assert_true(n > 0);
	line[n] = '\0';
	assert_ptr_equal(strchr(line, '\n'), line + n - 1);
	assert_null(strchr(line, 0x1b));
	assert_non_null(strstr(line, "\"request\":\"r_1_2\""));
	fd_close_all(p, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(err_wrap_keeps_code_and_inner_text),
		cmocka_unit_test(err_every_code_has_a_status_of_its_kind),
		cmocka_unit_test(buf_refuses_what_is_over_its_ceiling_and_keeps_the_rest),
		cmocka_unit_test(kv_set_replaces_and_unset_removes),
		cmocka_unit_test(id_new_is_a_valid_version_4_uuid),
		cmocka_unit_test(clock_iso_round_trips_and_parses_offsets),
		cmocka_unit_test_setup_teardown(b5_paths_never_leave_the_root, tree_setup,
						tree_teardown),
		cmocka_unit_test_setup_teardown(path_mkdirs_makes_parents_inside_only, tree_setup,
						tree_teardown),
		cmocka_unit_test_setup_teardown(remove_tree_does_not_follow_links, tree_setup,
						tree_teardown),
		cmocka_unit_test(fd_passing_delivers_descriptors_and_whole_buffers),
		cmocka_unit_test(fd_wait_tells_timeout_from_hang_up),
		cmocka_unit_test(log_lines_cannot_be_forged),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
