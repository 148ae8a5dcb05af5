/*
 * test_security_base.c - what hostile names and trees do to the helpers every process uses.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/log.h"
#include "base/path.h"
#include "base/utf8.h"

#define DEEP 3000

static char base[64];

static int setup(void **state)
{
	(void)state;
	snprintf(base, sizeof(base), "/tmp/caisson-base-XXXXXX");
	return mkdtemp(base) ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	return rmdir(base);
}

/* A directory with a file at each end of a chain of n directories; returns its parent. */
static int deep_make(const char *name, int n)
{
	int root = open(base, O_RDONLY | O_DIRECTORY | O_CLOEXEC), at = dup(root);

	assert_true(root >= 0);
	for (int i = 0; i <= n; i++) {
		const char *step = i ? "d" : name;
		int next;

		assert_int_equal(mkdirat(at, step, 0755), 0);
		next = openat(at, step, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		assert_true(next >= 0);
		close(at);
		at = next;
	}
	close(openat(at, "file", O_CREAT | O_WRONLY | O_CLOEXEC, 0644));
	close(at);
	return root;
}

/* Else a sandbox leaves a tree behind that the daemon can never remove: disk is lost for good. */
static void a_tree_of_any_depth_is_removed(void **state)
{
	int root = deep_make("deep", DEEP);
	struct err err = {0};
	struct stat st;

	(void)state;
	if (path_remove_tree(root, "deep", &err) < 0)
		fail_msg("%s", err.msg);
	assert_int_equal(fstatat(root, "deep", &st, AT_SYMLINK_NOFOLLOW), -1);
	close(root);
}

static void removal_takes_few_descriptors(void **state)
{
	struct rlimit was, few = {200, 200};
	int root = deep_make("narrow", DEEP), rc;

	(void)state;
	getrlimit(RLIMIT_NOFILE, &was);
	few.rlim_max = was.rlim_max;
	setrlimit(RLIMIT_NOFILE, &few);
	rc = path_remove_tree(root, "narrow", NULL);
	setrlimit(RLIMIT_NOFILE, &was);
	assert_int_equal(rc, 0);
	close(root);
}

/* A line of the log is one line, valid UTF-8, and moves no cursor, whatever a name holds. */
static void log_lines_hold_no_control_character(void **state)
{
	static const char *const hostile[] = {
		"a\nb",
		"\x1b]0;title\x07",
		"\x9b"
		"31m",
		"\xc2\x9b"
		"31m",
		"\xff\xfe",
		"\xe2\x80\xae"
		"gnp.exe",
		"\xe2\x80\xa8",
		"\xe2\x81\xa6x",
		"cut \xe2\x82",
	};
	int out[2], saved = dup(STDERR_FILENO);
	char line[4096];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(hostile); i++) {
		ssize_t n;

		assert_int_equal(pipe(out), 0);
		dup2(out[1], STDERR_FILENO);
		log_error("name %s end", hostile[i]);
		dup2(saved, STDERR_FILENO);
		close(out[1]);
		n = read(out[0], line, sizeof(line) - 1);
		close(out[0]);
		assert_true(n > 1);
		line[n] = '\0';
		assert_ptr_equal(strchr(line, '\n'), line + n - 1);
		assert_true(utf8_valid(line, (size_t)n));
		assert_null(strstr(line, hostile[i]));
		assert_non_null(strstr(line, " end\n"));
	}
	close(saved);
}

static void control_characters_are_known_in_all_their_forms(void **state)
{
	static const struct {
		const char *text;
		bool plain;
	} row[] = {{"", true},		{"caf\xc3\xa9", true},
		   {"\xc2\xa0", true},	{"\xe6\x97\xa5", true},
		   {"a\tb", false},	{"\x7f", false},
		   {"\xc2\x9b", false}, {"\xc2\x80", false},
		   {"\xc2\x9f", false}, {"\xff", false},
		   {"\x1b", false},	{"\xc2", false}};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++)
		assert_int_equal(utf8_plain(row[i].text, strlen(row[i].text)), row[i].plain);
}

static void log_lines_keep_letters(void **state)
{
	int out[2], saved = dup(STDERR_FILENO);
	char line[512];
	ssize_t n;

	(void)state;
	assert_int_equal(pipe(out), 0);
	dup2(out[1], STDERR_FILENO);
	log_error("na\xc3\xafve \xe6\x97\xa5\xe6\x9c\xac \xf0\x9f\x98\x80");
	dup2(saved, STDERR_FILENO);
	close(out[1]);
	n = read(out[0], line, sizeof(line) - 1);
	close(out[0]);
	close(saved);
	assert_true(n > 0);
	line[n] = '\0';
	assert_non_null(strstr(line, "na\xc3\xafve \xe6\x97\xa5\xe6\x9c\xac \xf0\x9f\x98\x80\n"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_tree_of_any_depth_is_removed),
		cmocka_unit_test(removal_takes_few_descriptors),
		cmocka_unit_test(log_lines_hold_no_control_character),
		cmocka_unit_test(control_characters_are_known_in_all_their_forms),
		cmocka_unit_test(log_lines_keep_letters),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
