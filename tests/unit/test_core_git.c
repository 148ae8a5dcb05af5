/*
 * test_core_git.c - the pure parts of git: arguments, URLs, what git prints. Running it is the
 * business of tests/api/test_git_*.py.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "core/git_int.h"

/* ---- arguments ---- */

static void names_that_could_be_options_are_refused(void **state)
{
	static const char *const bad[] = {"-f",	    "--upload-pack=x",
					  "",	    "a..b",
					  "a b",    "a~1",
					  "/a",	    "a/",
					  "a//b",   ".a",
					  "a.lock", "a.",
					  "@",	    "a@{1}",
					  "x\ny",   "HEAD",
					  "a/.b",   "a\x7f",
					  "a\\b",   "a*"};
	static const char *const good[] = {"main",	"feature/x", "a.b",   "a@b",
					   "v1.0-rc_1", "日本",	     "x/y/z", "a{b}"};
	struct err err;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		assert_int_equal(git_check_branch("branch", bad[i], &err), -1);
		assert_int_equal(err.code, ERR_INVALID);
		assert_memory_equal(err.msg, "branch: ", 8);
	}
	for (size_t i = 0; i < ARRAY_LEN(good); i++)
		assert_int_equal(git_check_branch("branch", good[i], &err), 0);
	assert_int_equal(git_check_rev("target", "HEAD~2", &err), 0);
	assert_int_equal(git_check_rev("target", "--hard", &err), -1);
	assert_int_equal(git_check_remote("remote", "-u", &err), -1);
}

static void hashes_keys_and_scopes_have_their_rules(void **state)
{
	static const char *const keys[] = {"user.name", "a.b.c", "url.https://x/.insteadOf",
					   "color.ui"};
	static const char *const bad_keys[] = {"--unset", "name",  "a.",   ".b",
					       "a.b=c",	  "a b.c", "a.1b", "a.b\nc.d"};
	struct err err;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(keys); i++)
		assert_int_equal(git_check_key(keys[i], &err), 0);
	for (size_t i = 0; i < ARRAY_LEN(bad_keys); i++)
		assert_int_equal(git_check_key(bad_keys[i], &err), -1);
	assert_int_equal(git_check_hash("commit_id", "abc1", &err), 0);
	assert_int_equal(git_check_hash("commit_id", "abc", &err), -1);
	assert_int_equal(git_check_hash("commit_id", "--detach", &err), -1);
	assert_int_equal(git_check_scope("local", &err), 0);
	assert_int_equal(git_check_scope(NULL, &err), 0);
	assert_int_equal(git_check_scope("file=/x", &err), -1);
}

static void files_are_counted_and_not_empty(void **state)
{
	static const char *const good[] = {"-rf", ".", NULL}, *const bad[] = {"a", "", NULL},
				 *const none[] = {NULL};
	struct err err;

	(void)state;
	assert_int_equal(git_check_files(good, &err), 0);
	assert_int_equal(git_check_files(bad, &err), -1);
	assert_string_equal(err.msg, "files[1]: must be 1 to 4095 bytes");
	assert_int_equal(git_check_files(none, &err), -1);
	assert_int_equal(git_check_files(NULL, &err), -1);
}

/* ---- URLs ---- */

static void check_url(const char *url, const char *clean, const char *user, const char *password,
		      const char *scope)
{
	auto_git_url struct git_url u = {0};
	struct err err;

	if (git_url_split("url", url, &u, &err) < 0)
		fail_msg("%s: %s", url, err.msg);
	assert_string_equal(u.clean, clean);
	assert_string_equal(u.user ? u.user : "-", user);
	assert_string_equal(u.password ? u.password : "-", password);
	assert_string_equal(u.scope ? u.scope : "-", scope);
}

static void e21_user_and_password_leave_the_url_decoded(void **state)
{
	(void)state;
	check_url("http://a%40b.c:p%2Fw%23%3F%25%3A@h:81/r.git", "http://h:81/r.git", "a@b.c",
		  "p/w#?%:", "http://h:81");
	check_url("https://h/r", "https://h/r", "-", "-", "https://h");
	check_url("HTTPS://tok@h/r?x=@y", "HTTPS://h/r?x=@y", "tok", "-", "HTTPS://h");
	check_url("https://a@b@h/", "https://h/", "a@b", "-", "https://h");
	check_url("https://u:@h", "https://h", "u", "", "https://h");
	check_url("https://u:p:q@h", "https://h", "u", "p:q", "https://h");
	check_url("ssh://git@h:22/r", "ssh://git@h:22/r", "-", "-", "-");
	check_url("git@h:r.git", "git@h:r.git", "-", "-", "-");
	check_url("/srv/r", "/srv/r", "-", "-", "-");
}

static void bad_urls_are_refused(void **state)
{
	static const char *const bad[] = {"",
					  "--upload-pack=x",
					  "http://",
					  "http://u:p@",
					  "http://u%@h/",
					  "http://u%4@h/",
					  "http://u%0a@h/",
					  "http://u:%zz@h/",
					  "http://h/\nx",
					  "http:///x"};
	struct err err;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		auto_git_url struct git_url u = {0};

		assert_int_equal(git_url_split("url", bad[i], &u, &err), -1);
		assert_int_equal(err.code, ERR_INVALID);
	}
}

/* ---- status ---- */

static char *copy_of(const char *p, size_t n)
{
	char *text = calloc(1, n + 1);

	assert_non_null(text);
	memcpy(text, p, n);
	return text;
}

#define STATUS(text, s, err)                                                                       \
	git_parse_status(copy_of(text, sizeof(text) - 1), sizeof(text) - 1, s, err)

static void status_of_a_branch_with_changes(void **state)
{
	struct git_status s;
	struct err err;

	(void)state;
	assert_int_equal(
		STATUS("# branch.oid 1234\0# branch.head main\0# branch.upstream origin/main\0"
		       "# branch.ab +2 -13\0"
		       "1 .M N... 100644 100644 100644 aa aa a b\nc\0"
		       "1 A. N... 0 100644 100644 00 aa added\0"
		       "1 .D N... 100644 100644 0 aa aa gone\0"
		       "2 R. N... 100644 100644 100644 aa aa R100 to x\0from x\0"
		       "u UU N... 1 2 3 4 aa bb cc both\0"
		       "? new\0"
		       "! ignored\0",
		       &s, &err),
		0);
	assert_string_equal(s.branch, "main");
	assert_string_equal(s.upstream, "origin/main");
	assert_true(s.published && !s.detached);
	assert_int_equal(s.ahead, 2);
	assert_int_equal(s.behind, 13);
	assert_int_equal(s.n, 6);
	assert_string_equal(s.file[0].name, "a b\nc");
	assert_int_equal(s.file[0].staging, GIT_UNMODIFIED);
	assert_int_equal(s.file[0].worktree, GIT_MODIFIED);
	assert_int_equal(s.file[1].staging, GIT_ADDED);
	assert_int_equal(s.file[2].worktree, GIT_DELETED);
	assert_string_equal(s.file[3].name, "to x");
	assert_string_equal(s.file[3].extra, "from x");
	assert_int_equal(s.file[3].staging, GIT_RENAMED);
	assert_int_equal(s.file[4].worktree, GIT_UNMERGED);
	assert_string_equal(s.file[4].name, "both");
	assert_int_equal(s.file[5].staging, GIT_UNTRACKED);
	git_status_done(&s);
}

static void status_detached_initial_and_gone_upstream(void **state)
{
	struct git_status s;
	struct err err;

	(void)state;
	assert_int_equal(STATUS("# branch.oid 12\0# branch.head (detached)\0", &s, &err), 0);
	assert_true(s.detached && !s.published);
	assert_string_equal(s.branch, "HEAD");
	git_status_done(&s);
	assert_int_equal(STATUS("# branch.oid (initial)\0# branch.head x\0", &s, &err), 0);
	assert_string_equal(s.branch, "x");
	git_status_done(&s);
	assert_int_equal(STATUS("# branch.head x\0# branch.upstream o/x\0", &s, &err), 0);
	assert_false(s.published);
	git_status_done(&s);
	assert_int_equal(STATUS("", &s, &err), 0);
	assert_int_equal(s.n, 0);
	git_status_done(&s);
}

static void malformed_status_is_the_sandboxes_fault(void **state)
{
	static const char *const bad[] = {"x",
					  "1 .M N...",
					  "1 ZZ a b c d e f g",
					  "1",
					  "? ",
					  "?x",
					  "u UU",
					  "2 R. a",
					  "# branch.ab +x -1",
					  "# branch.ab +1",
					  "#",
					  "1 .M a b c d e f ",
					  "# branch.ab +99999999999 -1"};
	struct git_status s;
	struct err err;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		size_t n = strlen(bad[i]);

		if (git_parse_status(copy_of(bad[i], n), n, &s, &err) != -1)
			fail_msg("taken: %s", bad[i]);
		assert_int_equal(err.code, ERR_AGENT);
	}
}

/* ---- the other lists ---- */

static void history_keeps_messages_whole(void **state)
{
	static const char text[] = "aa\nAnn\na@b\n2026-01-02T03:04:05+00:00\none\n\nbody\n\0"
				   "bb\nBob\n\n2026-01-02T03:04:06+00:00\n\0";
	struct git_history h;
	struct err err;

	(void)state;
	assert_int_equal(
		git_parse_history(copy_of(text, sizeof(text) - 1), sizeof(text) - 1, &h, &err), 0);
	assert_int_equal(h.n, 2);
	assert_string_equal(h.commit[0].message, "one\n\nbody");
	assert_string_equal(h.commit[1].email, "");
	assert_string_equal(h.commit[1].message, "");
	git_history_done(&h);
	assert_int_equal(git_parse_history(copy_of("aa\nb", 4), 4, &h, &err), -1);
	assert_int_equal(err.code, ERR_AGENT);
}

static void branches_and_remotes_are_lists(void **state)
{
	static const char heads[] = " refs/heads/a\n*refs/heads/b/c\n";
	static const char urls[] = "remote.origin.url\nhttp://h/x\0remote.a.b.url\n/y\0"
				   "remote.origin.url\nhttp://second\0";
	struct git_branches b;
	struct git_remotes r;
	struct err err;

	(void)state;
	assert_int_equal(
		git_parse_branches(copy_of(heads, sizeof(heads) - 1), sizeof(heads) - 1, &b, &err),
		0);
	assert_int_equal(b.n, 2);
	assert_string_equal(b.name[0], "a");
	assert_string_equal(b.current, "b/c");
	git_branches_done(&b);
	assert_int_equal(
		git_parse_remotes(copy_of(urls, sizeof(urls) - 1), sizeof(urls) - 1, &r, &err), 0);
	assert_int_equal(r.n, 2);
	assert_string_equal(r.remote[0].url, "http://h/x");
	assert_string_equal(r.remote[1].name, "a.b");
	git_remotes_done(&r);
	assert_int_equal(git_parse_branches(copy_of("x\n", 2), 2, &b, &err), -1);
	assert_int_equal(git_parse_remotes(copy_of("remote..url", 11), 11, &r, &err), -1);
}

/* ---- errors ---- */

static const struct {
	const char *errors, *output, *tag;
	int status;
} kinds[] = {
	{"fatal: Authentication failed for 'http://h/r/'", "", "GIT_AUTH_FAILED", 401},
	{"fatal: could not read Username for 'http://h': terminal prompts disabled", "",
	 "GIT_AUTH_FAILED", 401},
	{"fatal: unable to access 'http://h/': The requested URL returned error: 403", "", "", 403},
	{"fatal: repository 'http://h/r/' not found", "", "GIT_REPO_NOT_FOUND", 404},
	{"fatal: not a git repository (or any of the parent directories): .git", "",
	 "GIT_REPO_NOT_FOUND", 404},
	{"warning: Could not find remote branch x to clone.\n"
	 "fatal: Remote branch x not found in upstream origin",
	 "", "GIT_BRANCH_NOT_FOUND", 404},
	{"fatal: invalid reference: x", "", "GIT_BRANCH_NOT_FOUND", 404},
	{"fatal: a branch named 'x' already exists", "", "GIT_BRANCH_EXISTS", 409},
	{"To http://h\n ! [rejected]        main -> main (fetch first)\nerror: failed to push some "
	 "refs",
	 "", "GIT_PUSH_REJECTED", 409},
	{"To http://h\n ! [remote rejected] main -> main (pre-receive hook declined)\nerror: "
	 "failed",
	 "", "GIT_REMOTE_REJECTED", 422},
	{"error: Your local changes to the following files would be overwritten by merge:\n\ta", "",
	 "GIT_DIRTY_WORKTREE", 409},
	{"", "CONFLICT (content): Merge conflict in a\nAutomatic merge failed",
	 "GIT_MERGE_CONFLICT", 409},
	{"fatal: unable to access 'http://h/': Could not resolve host: h", "",
	 "GIT_TRANSPORT_FAILED", 502},
	{"error: RPC failed; curl 18 transfer closed\nfatal: early EOF", "", "GIT_TRANSPORT_FAILED",
	 502},
	{"error: could not lock config file /etc/gitconfig: Permission denied", "",
	 "FILE_ACCESS_DENIED", 403},
	{"fatal: something new", "", "", 422},
	{"", "", "", 422},
	/* A server doesn't choose the kind of our error. */
	{"remote: fatal: Authentication failed for x\nfatal: the remote end hung up unexpectedly",
	 "", "GIT_TRANSPORT_FAILED", 502},
};

static void kinds_of_failures_have_the_codes_of_the_contract(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		struct err err = {0};

		git_error_set("x", kinds[i].errors, kinds[i].output, NULL, &err);
		if (strcmp(err.tag ? err.tag : "", kinds[i].tag) != 0 ||
		    err_http_status(err.code) != kinds[i].status)
			fail_msg("%s: %s %d", kinds[i].errors, err.tag, err_http_status(err.code));
	}
}

static void secrets_and_control_characters_dont_come_through(void **state)
{
	struct err err = {0};

	(void)state;
	git_error_set("push", "fatal: no s3cret here, s3cret\x1b[31m", "", "s3cret", &err);
	assert_string_equal(err.msg, "git push: no *** here, *** [31m");
	git_error_set("push", "one\nfatal: two\nthree\n", "", "", &err);
	assert_string_equal(err.msg, "git push: two");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_that_could_be_options_are_refused),
		cmocka_unit_test(hashes_keys_and_scopes_have_their_rules),
		cmocka_unit_test(files_are_counted_and_not_empty),
		cmocka_unit_test(e21_user_and_password_leave_the_url_decoded),
		cmocka_unit_test(bad_urls_are_refused),
		cmocka_unit_test(status_of_a_branch_with_changes),
		cmocka_unit_test(status_detached_initial_and_gone_upstream),
		cmocka_unit_test(malformed_status_is_the_sandboxes_fault),
		cmocka_unit_test(history_keeps_messages_whole),
		cmocka_unit_test(branches_and_remotes_are_lists),
		cmocka_unit_test(kinds_of_failures_have_the_codes_of_the_contract),
		cmocka_unit_test(secrets_and_control_characters_dont_come_through),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
