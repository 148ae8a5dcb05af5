/*
 * Files put into a sandbox: whole or not at all, what they were is kept, links lead nowhere else.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/scope.h"
#include "unit/agentbox.h"

#define RACE_TRIES 10000

static struct agentbox box;

#define auto_done auto_call(agent_put_done)

static int box_start(void **state)
{
	(void)state;
	return agentbox_start(&box, 0);
}

static int box_end(void **state)
{
	(void)state;
	agentbox_stop(&box);
	return 0;
}

static void sh(const char *text)
{
	agentbox_quiet(&box, text);
}

static void sh_is(const char *text, const char *out)
{
	agentbox_says(&box, text, out);
}

static int put_flags(const char *user, const char *path, uint32_t flags, const char *text,
		     bool *ret_atomic, struct err *err)
{
	auto_done struct agent_put p = AGENT_PUT_INIT;

	if (agent_put(box.sock, user, path, flags, 0644, &p, err) < 0)
		return -1;
	assert_int_equal(write(p.fd, text, strlen(text)), strlen(text));
	return agent_put_commit(&p, NULL, ret_atomic, err);
}

/* Is it atomic? */
static bool put(const char *user, const char *path, const char *text)
{
	struct err err = {.msg = ""};
	bool atomic = false;

	if (put_flags(user, path, 0, text, &atomic, &err) < 0)
		fail_msg("put %s: %s", path, err.msg);
	return atomic;
}

static void put_fails(const char *user, const char *path, enum err_code code)
{
	auto_done struct agent_put p = AGENT_PUT_INIT;
	struct err err = {.code = ERR_NONE};

	assert_int_equal(agent_put(box.sock, user, path, 0, 0644, &p, &err), -1);
	if (err.code != code)
		fail_msg("put %s: %s %s", path, err_code_name(err.code), err.msg);
}

static void nothing_staged_is_left(void)
{
	sh_is("busybox find / -xdev -name '.caisson-*'", "");
}

static void a_new_file_is_the_users_with_the_asked_mode(void **state)
{
	(void)state;
	assert_true(put("dev", "/home/dev/new", "hello"));
	sh_is("stat -c '%u %g %a' /home/dev/new; cat /home/dev/new", "1000 1000 644\nhello");
	put_fails("dev", "/home/dev/p/q", ERR_NOT_FOUND);
	assert_int_equal(put_flags("dev", "/home/dev/p/q", AGENT_PUT_PARENTS, "x", NULL, NULL), 0);
	sh_is("stat -c '%U %a' /home/dev/p; cat /home/dev/p/q", "dev 755\nx");
}

static void nobody_sees_a_file_before_it_is_whole(void **state)
{
	auto_done struct agent_put p = AGENT_PUT_INIT;

	(void)state;
	assert_true(put("dev", "/home/dev/whole", "old"));
	assert_int_equal(agent_put(box.sock, "dev", "/home/dev/whole", 0, 0644, &p, NULL), 0);
	assert_true(p.existed);
	assert_int_equal(write(p.fd, "new!", 4), 4);
	sh_is("cat /home/dev/whole", "old");
	assert_int_equal(agent_put_commit(&p, NULL, NULL, NULL), 0);
	sh_is("cat /home/dev/whole", "new!");
	nothing_staged_is_left();
}

static void a_cut_put_changes_nothing_and_leaves_nothing(void **state)
{
	(void)state;
	put("dev", "/home/dev/cut", "old");
	sh("busybox ln /home/dev/cut /home/dev/cut2"); /* written in place */
	for (int i = 0; i < 20; i++) {
		struct agent_put p = AGENT_PUT_INIT;

		assert_int_equal(agent_put(box.sock, "dev",
					   i % 2 ? "/home/dev/cut" : "/home/dev/cutnew", 0, 0644,
					   &p, NULL),
				 0);
		assert_int_equal(write(p.fd, "half", 4), 4);
		agent_put_done(&p);
	}
	sh_is("cat /home/dev/cut; ls /home/dev/cutnew 2>&1", "oldls: /home/dev/cutnew: No such "
							     "file or directory\n");
	nothing_staged_is_left();
}

static void b10_what_a_file_was_stays_with_it(void **state)
{
	static const char *const none[] = {"/home/dev/k1", "/home/dev/k2", "/home/dev/k3"};
	char at[256], value[8];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(none); i++)
		put("dev", none[i], "first");
	sh("chmod 444 /home/dev/k1; chmod 755 /home/dev/k2; busybox chgrp sudo /home/dev/k2;"
	   "chmod 600 /home/dev/k3");
	snprintf(at, sizeof(at), "%s/home/dev/k3", box.root);
	assert_int_equal(setxattr(at, "user.k", "v\0w", 3, 0), 0);
	for (size_t i = 0; i < ARRAY_LEN(none); i++)
		assert_true(put("dev", none[i], "second"));
	assert_int_equal(getxattr(at, "user.k", value, sizeof(value)), 3);
	assert_memory_equal(value, "v\0w", 3);
	sh_is("cd /home/dev; stat -c '%u %g %a' k1 k2 k3; cat k1 k2 k3",
	      "1000 1000 444\n1000 27 755\n1000 1000 600\nsecondsecondsecond");
	/* Root keeps a foreign owner. */
	assert_true(put("", "/home/dev/k1", "by root"));
	sh_is("stat -c '%u %g %a' /home/dev/k1; cat /home/dev/k1", "1000 1000 444\nby root");
	nothing_staged_is_left();
}

static void b10_what_can_not_be_replaced_is_written_in_place(void **state)
{
	(void)state;
	put("dev", "/home/dev/one", "a long first text");
	sh("busybox ln /home/dev/one /home/dev/two");
	assert_false(put("dev", "/home/dev/one", "linked"));
	sh_is("cat /home/dev/two; stat -c ' %h' /home/dev/one", "linked 2\n");
	/* A foreign file the user may write, and one in a folder he may not. */
	sh("mkdir /tmp/ro; echo x > /tmp/ro/f; echo y > /home/dev/foreign; busybox chown dev "
	   "/tmp/ro/f;"
	   "chmod 666 /home/dev/foreign");
	assert_false(put("dev", "/home/dev/foreign", "mine?"));
	assert_false(put("dev", "/tmp/ro/f", "in place"));
	sh_is("stat -c '%u %a' /home/dev/foreign /tmp/ro/f; cat /home/dev/foreign /tmp/ro/f",
	      "0 666\n1000 644\nmine?in place");
	put_fails("dev", "/tmp/ro/new", ERR_FORBIDDEN);
	put_fails("dev", "/etc/passwd", ERR_FORBIDDEN);
	nothing_staged_is_left();
}

static void links_are_followed_dangling_too(void **state)
{
	(void)state;
	sh("cd /home/dev; mkdir d; ln -s d/real l1; ln -s /home/dev/l1 l2; ln -s loop loop;"
	   "ln -s /nope/x far; busybox chown -h dev d l1 l2 loop far; busybox chown dev d");
	assert_true(put("dev", "/home/dev/l2", "through"));
	assert_true(put("dev", "/home/dev/l2", "through again"));
	sh_is("cd /home/dev; cat d/real; readlink l1; readlink l2",
	      "through againd/real\n/home/dev/l1\n");
	put_fails("dev", "/home/dev/loop", ERR_INVALID);
	put_fails("dev", "/home/dev/far", ERR_NOT_FOUND);
	assert_int_equal(put_flags("dev", "/home/dev/l1", AGENT_PUT_NOFOLLOW, "own", NULL, NULL),
			 0);
	sh_is("cd /home/dev; stat -c %F l1; cat l1 d/real", "regular file\nownthrough again");
}

static void what_is_no_file_is_refused(void **state)
{
	(void)state;
	sh("mkfifo /tmp/fifo; mkdir /tmp/dir");
	put_fails("", "/tmp/fifo", ERR_INVALID);
	put_fails("", "/tmp/dir", ERR_CONFLICT);
	put_fails("", "/tmp/dir/", ERR_CONFLICT);
	put_fails("", "/tmp/newdir/", ERR_CONFLICT);
	put_fails("", "/", ERR_CONFLICT);
	put_fails("", "/dev/null", ERR_INVALID);
	put_fails("", "/proc/self/fd/3", ERR_INVALID);
	put_fails("", "/etc/passwd/x", ERR_CONFLICT);
}

static void a_program_that_was_put_runs_at_once(void **state)
{
	(void)state;
	for (int i = 0; i < 100; i++) {
		assert_int_equal(put_flags("dev", "/home/dev/prog", AGENT_PUT_MODE,
					   "#!/bin/sh\necho ran\n", NULL, NULL),
				 0);
		sh("chmod 755 /home/dev/prog");
		sh_is("/home/dev/prog", "ran\n");
	}
}

static void times_and_holes_are_kept(void **state)
{
	auto_done struct agent_put p = AGENT_PUT_INIT;
	int64_t ns = 1000000000ll * 86400 + 5;

	(void)state;
	put("dev", "/home/dev/sp1", "x");
	sh("busybox ln /home/dev/sp1 /home/dev/sp2");
	for (int i = 0; i < 2; i++) {
		/* sp1 is copied into, hole is renamed. */
		assert_int_equal(agent_put(box.sock, "dev", i ? "/home/dev/sp1" : "/home/dev/hole",
					   0, 0644, &p, NULL),
				 0);
		assert_int_equal(pwrite(p.fd, "end", 3, 1 << 30), 3);
		assert_int_equal(agent_put_commit(&p, &ns, NULL, NULL), 0);
	}
	sh_is("cd /home/dev; for f in hole sp1; do stat -c '%s %Y' $f; test $(stat -c %b $f) -lt 64"
	      " && echo sparse; done; rm sp1 sp2 hole",
	      "1073741827 86400\nsparse\n1073741827 86400\nsparse\n");
}

static void hard_and_symbolic_links_are_made(void **state)
{
	(void)state;
	put("dev", "/home/dev/lt", "x");
	assert_int_equal(agent_link(box.sock, "dev", "../anywhere", "/home/dev/ls", false, NULL),
			 0);
	assert_int_equal(agent_link(box.sock, "dev", "/home/dev/lt", "/home/dev/lh", true, NULL),
			 0);
	assert_int_equal(agent_link(box.sock, "dev", "again", "/home/dev/ls", false, NULL), 0);
	assert_int_equal(agent_link(box.sock, "dev", "x", "/home/dev", false, NULL), -1);
	sh_is("cd /home/dev; readlink ls; stat -c %h lt lh", "again\n2\n2\n");
}

/* 60 uploads at once do not keep a listing waiting: they hold no worker. */
static void open_puts_do_not_use_up_the_workers(void **state)
{
	struct agent_put p[60];
	char path[64];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(p); i++) {
		snprintf(path, sizeof(path), "/home/dev/many%zu", i);
		p[i] = (struct agent_put)AGENT_PUT_INIT;
		assert_int_equal(agent_put(box.sock, "dev", path, 0, 0644, &p[i], NULL), 0);
	}
	assert_int_equal(agent_mkdir(box.sock, "dev", "/home/dev/meanwhile", 0755, false, NULL), 0);
	for (size_t i = 0; i < ARRAY_LEN(p); i++)
		assert_int_equal(agent_put_commit(&p[i], NULL, NULL, NULL), 0);
	sh_is("ls /home/dev/many* | wc -l; rm /home/dev/many*", "60\n");
}

/*
 * While the path's folder is exchanged for a link to /etc and back, whatever is put lands below
 * the user's own folders: nothing in /etc changes, and nothing outside the sandbox.
 */
static void b5_a_race_of_links_never_leads_out(void **state)
{
	struct stat before, after;
	int placed = 0;
	pid_t racer;
	char at[256];

	(void)state;
	sh("cd /home/dev; mkdir race real; ln -s ../../../../../../../etc race/esc;"
	   "ln -s /etc/evil race/evil; busybox chown -R dev race real");
	snprintf(at, sizeof(at), "%s/home/dev", box.root);
	assert_int_equal(stat("/etc", &before), 0);
	racer = fork();
	if (racer == 0) {
		if (chdir(at) < 0)
			_exit(1);
		for (;;) {
			rename("real", "d");
			rename("d", "real");
			if (symlink("../../../../../../../../etc", "d") == 0)
				unlink("d");
			if (symlink("race/evil", "real/f") == 0)
				unlink("real/f");
		}
	}
	for (int i = 0; i < RACE_TRIES; i++) {
		static const char *const paths[] = {"/home/dev/d/evil", "/home/dev/race/evil",
						    "/home/dev/race/esc/evil", "/home/dev/real/f"};

		placed += put_flags("dev", paths[i % 4], 0, "x", NULL, NULL) == 0;
	}
	kill(racer, SIGKILL);
	waitpid(racer, NULL, 0);
	assert_true(placed > 0);
	assert_int_equal(stat("/etc", &after), 0);
	assert_int_equal(access("/etc/evil", F_OK), -1);
	assert_int_equal(before.st_mtim.tv_nsec, after.st_mtim.tv_nsec);
	sh_is("ls /etc", "group\npasswd\n");
	nothing_staged_is_left();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_new_file_is_the_users_with_the_asked_mode),
		cmocka_unit_test(nobody_sees_a_file_before_it_is_whole),
		cmocka_unit_test(a_cut_put_changes_nothing_and_leaves_nothing),
		cmocka_unit_test(b10_what_a_file_was_stays_with_it),
		cmocka_unit_test(b10_what_can_not_be_replaced_is_written_in_place),
		cmocka_unit_test(links_are_followed_dangling_too),
		cmocka_unit_test(what_is_no_file_is_refused),
		cmocka_unit_test(a_program_that_was_put_runs_at_once),
		cmocka_unit_test(times_and_holes_are_kept),
		cmocka_unit_test(hard_and_symbolic_links_are_made),
		cmocka_unit_test(open_puts_do_not_use_up_the_workers),
		cmocka_unit_test(b5_a_race_of_links_never_leads_out),
	};

	if (!agentbox_possible()) {
		printf("skipped: needs root, a static /bin/busybox and build/caisson-init\n");
		return 0;
	}
	return cmocka_run_group_tests(tests, box_start, box_end);
}
