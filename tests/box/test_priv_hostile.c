/*
 * test_priv_hostile.c - an api process that breaks the protocol, never starts, or finds a runner
 * that can't: what is refused, and what is left.
 */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/path.h"
#include "base/sys.h"
#include "box_harness.h"
#include "caisson/agent.h"
#include "caisson/priv.h"
#include "caisson/runner.h"
#include "priv/priv.h"
#include "wire/wire.h"
#include "lab_priv.h"

/* ---- an api that was taken over ---- */

struct bad_message {
	const char *why;
	size_t (*make)(struct wire_out *o);
};

static void head(struct wire_out *o, uint16_t verb)
{
	wire_put_u32(o, 9);
	wire_put_u16(o, verb);
	wire_put_str(o, "req");
}

static size_t bad_verb(struct wire_out *o)
{
	head(o, 77);
	return o->len;
}

static size_t bad_reply_verb(struct wire_out *o)
{
	head(o, PRIV_EV_EXITED);
	return o->len;
}

static size_t bad_short(struct wire_out *o)
{
	head(o, PRIV_KILL);
	return o->len;
}

static size_t bad_long(struct wire_out *o)
{
	head(o, PRIV_HOST);
	wire_put_u8(o, 0);
	return o->len;
}

static size_t bad_id(struct wire_out *o)
{
	head(o, PRIV_DELETE);
	wire_put_str(o, "../../etc");
	return o->len;
}

static size_t bad_layer(struct wire_out *o)
{
	head(o, PRIV_LAYER_RM);
	wire_put_str(o, "..");
	return o->len;
}

static size_t bad_start(struct wire_out *o)
{
	const char *layer[] = {"../../../etc"};

	head(o, PRIV_START);
	wire_put_str(o, "11111111-1111-4111-8111-111111111111");
	wire_put_u8(o, 1);
	wire_put_strv(o, layer, 1);
	wire_put_u64(o, 64 << 20);
	wire_put_u32(o, 1000);
	wire_put_u32(o, 64);
	wire_put_u32(o, 256);
	wire_put_u64(o, 0);
	wire_put_u32(o, 0);
	wire_put_str(o, "box");
	return o->len;
}

static size_t bad_import(struct wire_out *o)
{
	head(o, PRIV_IMPORT); /* without its descriptor */
	wire_put_u64(o, 1);
	return o->len;
}

static size_t bad_seq(struct wire_out *o)
{
	wire_put_u32(o, 0);
	wire_put_u16(o, PRIV_HOST);
	wire_put_str(o, "");
	return o->len;
}

static const struct bad_message bad_messages[] = {
	{"unknown verb", bad_verb},
	{"a reply's verb", bad_reply_verb},
	{"short", bad_short},
	{"left-over byte", bad_long},
	{"path as id", bad_id},
	{"path as layer", bad_layer},
	{"path as layer of a start", bad_start},
	{"no descriptor", bad_import},
	{"sequence 0", bad_seq},
};

static void messages_that_break_the_protocol_are_refused(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad_messages); i++) {
		uint8_t buf[1024];
		struct wire_out o = wire_out_on(buf, sizeof(buf));
		size_t n = bad_messages[i].make(&o);

		if (decode_message(buf, n, -1))
			fail_msg("taken: %s", bad_messages[i].why);
		for (size_t cut = 0; cut + 1 < n; cut++)
			assert_null(decode_message(buf, cut, -1));
	}
}

#define EVIL_LIVES 2 /* a restart pauses longer each time, so not all of them live */

static void evil_api(struct lab_priv *l, int number, int sock)
{
	uint8_t buf[1024];
	struct wire_out o = wire_out_on(buf, sizeof(buf));
	size_t n;

	if (number > EVIL_LIVES) {
		l->sh->done = 1;
		lab_api_wait_term();
	}
	n = bad_messages[number - 1].make(&o);
	CHECK(send(sock, buf, n, 0) == (ssize_t)n);
	poll(NULL, 0, 10000);
	CHECK(!"this api process still lives");
}

static void api_that_breaks_the_protocol_is_killed(void **state)
{
	(void)state;
	lab.api = evil_api;
	lab_runner_start();
	lab_wait_done();
	assert_int_equal(lab.sh->apis, EVIL_LIVES + 1);
	assert_int_equal(lab_runner_stop(SIGTERM), 0);
}

/* What an api process says on its way out when it can't open the records. */
static void sick_api(struct lab_priv *l, int number, int sock)
{
	(void)l;
	(void)number;
	runner_priv_ready(sock, "open the records: damaged");
}

static void api_that_never_starts_ends_the_runner(void **state)
{
	int status;

	(void)state;
	lab.api = sick_api;
	status = lab_runner_ends();
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 1);
	assert_int_equal(lab.sh->apis, PRIV_API_TRIES);
}

/* However often: what served before it ended is started again. */
static void short_lived_api(struct lab_priv *l, int number, int sock)
{
	runner_priv_ready(sock, "");
	if (number <= PRIV_API_TRIES)
		return;
	l->sh->done = 1;
	lab_api_wait_term();
}

static void api_that_served_is_started_again_each_time(void **state)
{
	(void)state;
	lab.api = short_lived_api;
	lab_runner_start();
	lab_wait_done();
	assert_int_equal(lab.sh->apis, PRIV_API_TRIES + 1);
	assert_int_equal(lab_runner_stop(SIGTERM), 0);
}

static void idle_api(struct lab_priv *l, int number, int sock)
{
	(void)number;
	(void)sock;
	l->sh->done = 1;
	lab_api_wait_term();
}

/* A child between its birth and its exec has a copy of each of the runner's descriptors. */
static void *copy_pidfd(void *arg)
{
	char path[40], what[64] = "";

	(void)arg;
	for (int fd = 3; fd < 4096; fd = fd == 4095 ? 3 : fd + 1) {
		ssize_t n;

		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		n = readlink(path, what, sizeof(what) - 1);
		what[n > 0 ? n : 0] = '\0';
		if (strcmp(what, "anon_inode:[pidfd]") == 0 && dup(fd) >= 0)
			return NULL;
	}
	return NULL;
}

static pid_t (*plain_spawn)(void *arg, int sock, struct err *err);

static pid_t spawn_and_copy(void *arg, int sock, struct err *err)
{
	pid_t pid = plain_spawn(arg, sock, err);
	pthread_t thread;

	if (pid > 0 && lab.sh->apis == 1 && pthread_create(&thread, NULL, copy_pidfd, NULL) == 0)
		pthread_detach(thread);
	return pid;
}

static void copied_api(struct lab_priv *l, int number, int sock)
{
	runner_priv_ready(sock, "");
	if (number == 1) {
		poll(NULL, 0, 500); /* for the copy to be made; without one the test proves less */
		return;
	}
	poll(NULL, 0, 500); /* an end that isn't ours would come now */
	l->sh->done = 1;
	lab_api_wait_term();
}

static void end_of_an_api_counts_once_while_a_copy_of_its_descriptor_lives(void **state)
{
	(void)state;
	plain_spawn = lab.cfg.spawn_api;
	lab.cfg.spawn_api = spawn_and_copy;
	lab.api = copied_api;
	lab_runner_start();
	lab_wait_done();
	assert_int_equal(lab.sh->apis, 2);
	assert_int_equal(lab_runner_stop(SIGTERM), 0);
}

static void second_runner_on_a_data_directory_refuses(void **state)
{
	int status = 0;
	pid_t first;

	(void)state;
	lab.api = idle_api;
	lab_runner_start();
	lab_wait_done();
	first = lab.runner;
	lab_runner_start();
	assert_int_equal(waitpid(lab.runner, &status, 0), lab.runner);
	assert_int_equal(WEXITSTATUS(status), 1);
	lab.runner = first;
	assert_int_equal(lab_runner_stop(SIGTERM), 0);
}

static void other_programs_are_not_taken_for_caisson_init(void **state)
{
	/* Dynamic, static, no ELF, and one that holds the marker without being it. */
	static const char *const other[] = {"/bin/ls", "/bin/busybox", "/etc/passwd",
					    TEST_BUILD "/caissond"};

	(void)state;
	lab.api = idle_api;
	for (size_t i = 0; i < ARRAY_LEN(other); i++) {
		lab.cfg.init_path = other[i];
		assert_int_equal(WEXITSTATUS(lab_runner_ends()), 1);
		assert_int_equal(lab.sh->apis, 0);
	}
}

static void start_that_fails_leaves_no_run_directory(void **state)
{
	char path[160], instance[16] = "";

	(void)state;
	lab.api = idle_api;
	lab.cfg.init_path = "/nonexistent/caisson-init";
	assert_int_equal(WEXITSTATUS(lab_runner_ends()), 1);
	snprintf(path, sizeof(path), "%s/instance", lab.data);
	assert_int_equal(path_read_at(AT_FDCWD, path, instance, sizeof(instance), NULL), 8);
	snprintf(path, sizeof(path), "%s/%s", lab.dir, instance);
	assert_int_equal(access(path, F_OK), -1);
	assert_int_equal(errno, ENOENT);
}

/* Directories of this name in any cgroup hierarchy. */
static size_t cgroups_named(const char *name)
{
	static const char *const above[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/*"};
	char pattern[160];
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_LEN(above); i++) {
		glob_t g = {0};

		snprintf(pattern, sizeof(pattern), "%s/%s", above[i], name);
		if (glob(pattern, 0, NULL, &g) == 0)
			n += g.gl_pathc;
		globfree(&g);
	}
	return n;
}

static void start_that_fails_leaves_no_cgroups(void **state)
{
	char path[160], instance[16] = "", name[40];

	(void)state;
	lab.api = idle_api;
	snprintf(path, sizeof(path), "%s/boxes", lab.data);
	assert_int_equal(path_write_at(AT_FDCWD, path, "no directory", 12, 0600, NULL), 0);
	assert_int_equal(WEXITSTATUS(lab_runner_ends()), 1);
	snprintf(path, sizeof(path), "%s/instance", lab.data);
	assert_int_equal(path_read_at(AT_FDCWD, path, instance, sizeof(instance), NULL), 8);
	snprintf(name, sizeof(name), "caisson-%s", instance);
	assert_int_equal(cgroups_named(name), 0);
	assert_true(cgroups_named("cgroup.procs") > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(messages_that_break_the_protocol_are_refused),
		PRIV_TEST(api_that_breaks_the_protocol_is_killed),
		PRIV_TEST(api_that_never_starts_ends_the_runner),
		PRIV_TEST(api_that_served_is_started_again_each_time),
		PRIV_TEST(end_of_an_api_counts_once_while_a_copy_of_its_descriptor_lives),
		PRIV_TEST(second_runner_on_a_data_directory_refuses),
		PRIV_TEST(start_that_fails_leaves_no_run_directory),
		PRIV_TEST(start_that_fails_leaves_no_cgroups),
		PRIV_TEST(other_programs_are_not_taken_for_caisson_init),
	};

	bh_enter();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
