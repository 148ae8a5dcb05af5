/*
 * test_box_life.c - a box from its start to its end: failures half-way, restarts of the runner,
 * older kernels, hostile images, and that nothing is ever left behind (bh_close checks).
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/crash.h"
#include "base/path.h"
#include "base/sys.h"
#include "box_harness.h"
#include "caisson/agent.h"

static struct bh_result out;

static int open_base(void **state)
{
	struct bh *h = calloc(1, sizeof(*h));

	bh_open(h);
	bh_layer(h, 1, true);
	*state = h;
	return 0;
}

static int close_base(void **state)
{
	sys_forced_enosys = 0;
	bh_close(*state);
	free(*state);
	return 0;
}

static void put(const char *dir, const char *name, const char *text)
{
	char path[512];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "we");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static void files_live_over_a_stop_and_start(void **state)
{
	struct bh *h = *state;
	char id[ID_LEN];
	struct box *b = bh_new(h, id);
	struct box_spec s = bh_spec(id);

	assert_int_equal(bh_sh(h, b, "echo kept > /root/a; rm /bin/cal; mkdir /etc/d", &out), 0);
	bh_kill(h, b);
	s.fresh = false;
	for (int i = 0; i < 3; i++) {
		b = bh_start(h, &s);
		assert_int_equal(
			bh_sh(h, b, "cat /root/a; test ! -e /bin/cal && test -d /etc/d", &out), 0);
		assert_string_equal(out.out, "kept\n");
		bh_kill(h, b);
	}
	b = bh_start(h, &s);
	bh_delete(h, b);
}

static void starting_twice_or_without_files_is_an_error(void **state)
{
	struct bh *h = *state;
	char id[ID_LEN];
	struct box *b = bh_new(h, id), *other = NULL;
	struct box_spec s = bh_spec(id);
	struct err err = {0};
	char missing[ID_LEN];

	assert_int_equal(bh_try_start(h, &s, &other, &err), -1);
	assert_int_equal(err.code, ERR_CONFLICT);
	assert_int_equal(bh_sh(h, b, "true", &out), 0);
	id_new(missing);
	s = bh_spec(missing);
	s.fresh = false;
	assert_int_equal(bh_try_start(h, &s, &other, &err), -1);
	assert_int_equal(err.code, ERR_NOT_FOUND);
	s.fresh = true;
	s.layer = (const char *[]){bh_layer_id(7)};
	assert_int_equal(bh_try_start(h, &s, &other, &err), -1);
	assert_int_equal(err.code, ERR_NOT_FOUND);
	bh_delete(h, b);
}

static void every_range_of_a_spec_is_checked(void **state)
{
	struct bh *h = *state;
	char id[ID_LEN];
	struct box_spec good, s;
	struct err err = {0};

	id_new(id);
	good = bh_spec(id);
	assert_int_equal(box_spec_check(&good, &err), 0);
#define BREAK(change)                                                                              \
	do {                                                                                       \
		s = good;                                                                          \
		s.change;                                                                          \
		assert_int_equal(box_spec_check(&s, &err), -1);                                    \
		assert_int_equal(err.code, ERR_INVALID);                                           \
	} while (0)
	BREAK(id = "../../../../../../../../../../etc/passwd");
	BREAK(id = "");
	BREAK(nlayers = 0);
	BREAK(nlayers = PRIV_LAYERS_MAX + 1);
	BREAK(layer = (const char *[]){"../../etc"});
	BREAK(mem_bytes = 1);
	BREAK(mem_bytes = UINT64_MAX);
	BREAK(cpu_milli = 0);
	BREAK(pids_max = 1);
	BREAK(nofile = 0);
	BREAK(hostname = "");
	BREAK(hostname = "a b");
	BREAK(hostname = "x\nnameserver 1.2.3.4");
	BREAK(hostname = "../x");
#undef BREAK
	(void)h;
}

/* A35, E16: whatever happens to pid 1 while it is built, the start ends soon and leaves nothing. */
struct killer {
	const struct bh *h;
	unsigned delay_us;
};

static void *killer_main(void *arg)
{
	const struct killer *k = arg;
	int64_t end = clock_mono_ms() + 5000;
	char path[64], text[4096];

	/* A child is listed with the thread that cloned it. */
	snprintf(path, sizeof(path), "/proc/self/task/%d/children", k->h->launcher_tid);
	while (clock_mono_ms() < end) {
		if (path_read_at(AT_FDCWD, path, text, sizeof(text), NULL) <= 0)
			continue;
		usleep(k->delay_us);
		kill((pid_t)strtol(text, NULL, 10), SIGKILL);
		return NULL;
	}
	return NULL;
}

static void a35_pid1_killed_while_it_is_built_fails_the_start_soon(void **state)
{
	struct bh *h = *state;

	for (unsigned i = 0; i < 30; i++) {
		struct killer k = {.h = h, .delay_us = i * 60};
		char id[ID_LEN];
		struct box_spec s;
		struct box *b = NULL;
		struct err err = {0};
		int64_t begin = clock_mono_ms();
		pthread_t killer;

		id_new(id);
		s = bh_spec(id);
		pthread_create(&killer, NULL, killer_main, &k);
		if (bh_try_start(h, &s, &b, &err) == 0)
			bh_delete(h, b); /* the kill came late: a box that died is ended alike */
		assert_true(clock_mono_ms() - begin < 3000);
		pthread_join(killer, NULL);
	}
}

static int open_deaf_init(void **state)
{
	struct bh *h = calloc(1, sizeof(*h));

	h->init = TEST_BUILD "/tests/box/probe"; /* ends at once and never says it is ready */
	bh_open(h);
	bh_layer(h, 1, true);
	*state = h;
	return 0;
}

static void a35_init_that_ends_at_once_fails_the_start(void **state)
{
	struct bh *h = *state;
	char id[ID_LEN];
	struct box_spec s;
	struct box *b = NULL;
	struct err err = {0};
	int64_t begin = clock_mono_ms();

	id_new(id);
	s = bh_spec(id);
	assert_int_equal(bh_try_start(h, &s, &b, &err), -1);
	assert_true(clock_mono_ms() - begin < 3000);
	assert_int_equal(bh_processes(h), 0);
}

static void e13_processes_that_ignore_term_are_killed(void **state)
{
	struct bh *h = *state;
	char id[ID_LEN];
	struct box *b = bh_new(h, id);
	int64_t begin;

	assert_int_equal(bh_sh(h, b,
			       "for i in 1 2 3 4 5 6 7 8; do setsid sh -c 'trap \"\" TERM INT HUP; "
			       "while :; do sleep 100; done' >/dev/null 2>&1 & done",
			       &out),
			 0);
	begin = clock_mono_ms();
	bh_kill(h, b);
	assert_true(clock_mono_ms() - begin < 5000);
	assert_int_equal(bh_processes(h), 0);
	assert_int_equal(upper_retire(box_host_uppers(h->host), id, -1, NULL), 0);
}

/* ---- the runner dies ---- */

static struct box *adopted;

static void adopt_one(void *arg, struct box *b)
{
	(void)arg;
	assert_null(adopted);
	adopted = b;
}

/* Start a box in a process that ends without a word; with a point: is killed there. */
static void start_and_die(struct bh *h, const char *id, const char *point, int want_signal)
{
	pid_t pid;
	int status = 0;

	bh_forget(h);
	pid = fork();
	if (pid == 0) {
		struct box_spec s = bh_spec(id);
		struct err err = {0};
		struct box *b;

		bh_reopen(h);
		if (box_adopt(h->host, adopt_one, NULL, &err) < 0)
			_exit(3);
		crash_arm(point);
		_exit(bh_try_start(h, &s, &b, &err) == 0 ? 0 : 2);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (want_signal)
		assert_true(WIFSIGNALED(status) && WTERMSIG(status) == want_signal);
	else
		assert_int_equal(status, 0);
	bh_reopen(h);
}

static void box_lives_over_a_restart_of_the_runner(void **state)
{
	struct bh *h = *state;
	struct err err = {0};
	char id[ID_LEN];
	struct cg_stats st;

	id_new(id);
	start_and_die(h, id, NULL, 0);
	adopted = NULL;
	assert_int_equal(box_adopt(h->host, adopt_one, NULL, &err), 0);
	assert_non_null(adopted);
	assert_string_equal(adopted->id, id);
	assert_int_equal(bh_sh(h, adopted, "echo alive", &out), 0);
	assert_string_equal(out.out, "alive\n");
	assert_int_equal(box_stats(h->host, adopted, &st, &err), 0);
	assert_int_equal(st.mem_limit, 256 << 20);
	bh_delete(h, adopted);
	adopted = NULL;
}

/* E16: at each named point, what was begun is gone after the next runner's start. */
static void e16_runner_killed_half_way_leaves_nothing(void **state)
{
	static const char *const point[] = {"start.after_cgroup", "start.after_clone"};
	struct bh *h = *state;
	struct err err = {0};

	for (size_t i = 0; i < ARRAY_LEN(point); i++) {
		char id[ID_LEN], path[200];

		id_new(id);
		start_and_die(h, id, point[i], SIGKILL);
		adopted = NULL;
		assert_int_equal(box_adopt(h->host, adopt_one, NULL, &err), 0);
		assert_null(adopted);
		assert_int_equal(bh_processes(h), 0);
		snprintf(path, sizeof(path), "%s/boxes/%s", h->run, id);
		assert_int_equal(access(path, F_OK), -1);
		assert_int_equal(upper_retire(box_host_uppers(h->host), id, -1, &err), 0);
	}
}

/* Killed after the box was ready but before anybody was told: the next runner finds it living. */
static void e16_runner_killed_before_its_reply_is_adopted(void **state)
{
	struct bh *h = *state;
	struct err err = {0};
	char id[ID_LEN];

	id_new(id);
	start_and_die(h, id, "start.before_reply", SIGKILL);
	adopted = NULL;
	assert_int_equal(box_adopt(h->host, adopt_one, NULL, &err), 0);
	assert_non_null(adopted);
	bh_delete(h, adopted);
	adopted = NULL;
}

/* ---- older kernels ---- */

static void works_without(struct bh *h, unsigned bits)
{
	static const char *layers[3];
	char id[ID_LEN];
	struct box_spec s;
	struct box *b;

	id_new(id);
	s = bh_spec(id);
	layers[0] = bh_layer_id(3);
	layers[1] = bh_layer_id(2);
	layers[2] = bh_layer_id(1);
	s.layer = layers;
	s.nlayers = 3;
	sys_forced_enosys = bits;
	b = bh_start(h, &s);
	assert_int_equal(bh_sh(h, b, "cat /two /three /over; echo w > /two", &out), 0);
	assert_string_equal(out.out, "2\n3\n3\n");
	bh_kill(h, b);
	s.fresh = false;
	b = bh_start(h, &s);
	assert_int_equal(bh_sh(h, b, "cat /two", &out), 0);
	assert_string_equal(out.out, "w\n");
	bh_delete(h, b);
	sys_forced_enosys = 0;
}

static void layers_by_path_where_overlay_takes_no_descriptors(void **state)
{
	struct bh *h = *state;
	const char *dir = bh_layer(h, 2, false);

	put(dir, "two", "2\n");
	put(dir, "over", "2\n");
	dir = bh_layer(h, 3, false);
	put(dir, "three", "3\n");
	put(dir, "over", "3\n");
	works_without(h, 0);
	works_without(h, SYS_BIT_LOWERDIR_FD);
	works_without(h, SYS_BIT_CLONE3_CGROUP);
	works_without(h, SYS_BIT_LOWERDIR_FD | SYS_BIT_CLONE3_CGROUP);
}

/* ---- hostile images ---- */

struct trap {
	const char *name, *target;
};

/* C25, CVE-2026-41579, CVE-2026-47766: names the runner mounts on, as links to elsewhere. */
static void c25_links_in_the_image_redirect_nothing(void **state)
{
	static const struct trap trap[] = {
		{"dev", "/"},
		{"dev", "../../../../../.."},
		{"dev", "/etc"},
		{"proc", "/tmp"},
		{"proc", "../.."},
		{"sys", "/root"},
		{"tmp", "/host"},
		{"etc/resolv.conf", "/etc/passwd"},
		{"etc/hosts", "/dev/null"},
		{"etc/hostname", "../../../../../../etc/hostname"},
		{"etc/resolv.conf", "/proc/self/root/etc/shadow"},
	};
	struct bh *h = *state;
	char canary[256];

	snprintf(canary, sizeof(canary), "%s/canary", h->dir);
	for (size_t i = 0; i < ARRAY_LEN(trap); i++) {
		char id[ID_LEN], path[512], passwd[4096];
		const char *dir = bh_layer(h, 5, true);
		struct box_spec s;
		struct box *b;

		put(h->dir, "canary", "unharmed");
		snprintf(path, sizeof(path), "%s/%s", dir, trap[i].name);
		path_remove_tree(AT_FDCWD, path, NULL);
		assert_int_equal(symlink(trap[i].target, path), 0);
		id_new(id);
		s = bh_spec(id);
		s.layer = (const char *[]){bh_layer_id(5)};
		b = bh_start(h, &s);
		assert_int_equal(
			bh_sh(h, b,
			      "set -e; test -c /dev/null; test -d /proc/1; test -d /sys/class; "
			      "grep -q root /etc/passwd; cat /etc/resolv.conf >/dev/null; "
			      "grep -q localhost /etc/hosts; test \"$(cat /etc/hostname)\" = box",
			      &out),
			0);
		bh_delete(h, b);
		path_read_at(AT_FDCWD, canary, passwd, sizeof(passwd), NULL);
		assert_string_equal(passwd, "unharmed");
		path_remove_tree(AT_FDCWD, dir, NULL);
	}
}

/* CVE-2025-31133: an image's own /dev/null plays no part in masking. */
static void cve_2025_31133_devices_of_the_image_are_not_used(void **state)
{
	struct bh *h = *state;
	const char *dir = bh_layer(h, 5, true);
	char path[512], id[ID_LEN];
	struct box_spec s;
	struct box *b;

	snprintf(path, sizeof(path), "%s/dev/null", dir);
	assert_int_equal(symlink("/proc/sys/kernel/core_pattern", path), 0);
	id_new(id);
	s = bh_spec(id);
	s.layer = (const char *[]){bh_layer_id(5)};
	b = bh_start(h, &s);
	assert_int_equal(bh_sh(h, b, "test -c /dev/null && test ! -L /dev/null", &out), 0);
	bh_probe(h, b, NULL, "secrets");
	bh_delete(h, b);
}

static void image_with_nothing_in_it_starts(void **state)
{
	struct bh *h = *state;
	char id[ID_LEN], path[108];
	struct box_spec s;
	struct box *b;
	struct err err = {0};

	bh_layer(h, 5, false);
	id_new(id);
	s = bh_spec(id);
	s.layer = (const char *[]){bh_layer_id(5)};
	b = bh_start(h, &s);
	bh_agent_path(h, b, path);
	assert_int_equal(agent_hello(path, clock_mono_ms() + 3000, &err), 0);
	bh_delete(h, b);
}

/* A tree built to hurt who deletes it: deep, linked to outside, unreadable. */
static void trash_is_emptied_whatever_is_in_it(void **state)
{
	struct bh *h = *state;
	char id[ID_LEN], canary[256];
	struct box *b = bh_new(h, id);

	put(h->dir, "canary2", "x");
	assert_int_equal(bh_sh(h, b,
			       "cd /root; i=0; while [ $i -lt 300 ]; do mkdir d 2>/dev/null; cd d; "
			       "i=$((i+1)); done; cd /root; ln -s ../../../../.. up; mkdir locked; "
			       "touch locked/f; chmod 000 locked; mkfifo p; "
			       "i=0; while [ $i -lt 500 ]; do : > f$i; i=$((i+1)); done",
			       &out),
			 0);
	bh_delete(h, b);
	box_host_settle(h->host, clock_mono_ms() + 20000);
	snprintf(canary, sizeof(canary), "%s/trash", h->data);
	assert_int_equal(rmdir(canary), 0);
	assert_int_equal(mkdir(canary, 0700), 0);
	snprintf(canary, sizeof(canary), "%s/canary2", h->dir);
	assert_int_equal(access(canary, F_OK), 0);
}

/* D31, E5: many at once from several threads; descriptors are those of before. */
#define STORM_THREADS 3
#define STORM_ROUNDS  30

static void *storm_main(void *arg)
{
	struct bh *h = arg;
	struct err err = {0};
	struct box_launcher *l = box_launcher_open(h->host, &err);
	long failures = 0;

	for (int i = 0; l && i < STORM_ROUNDS; i++) {
		char id[ID_LEN];
		struct box_spec s;
		struct box *b = NULL;

		id_new(id);
		s = bh_spec(id);
		if (box_start(l, &s, &b, &err) < 0 || box_kill(h->host, b, &err) < 0) {
			failures++;
			continue;
		}
		box_end(h->host, b);
		failures += upper_retire(box_host_uppers(h->host), id, -1, &err) < 0;
	}
	if (l)
		box_launcher_close(l);
	return (void *)(l ? failures : -1);
}

static void d31_e5_concurrent_lives_leave_no_descriptor(void **state)
{
	struct bh *h = *state;
	pthread_t thread[STORM_THREADS];
	int before;

	box_host_settle(h->host, clock_mono_ms() + 10000);
	before = bh_open_fds();
	for (int i = 0; i < STORM_THREADS; i++)
		pthread_create(&thread[i], NULL, storm_main, h);
	for (int i = 0; i < STORM_THREADS; i++) {
		void *failures;

		pthread_join(thread[i], &failures);
		assert_ptr_equal(failures, NULL);
	}
	box_host_settle(h->host, clock_mono_ms() + 10000);
	/* Pools of the network refill on their own time: allow their few descriptors. */
	assert_in_range(bh_open_fds(), before - 8, before + 8);
}

#define LIFE_TEST(fn) cmocka_unit_test_setup_teardown(fn, open_base, close_base)

int main(void)
{
	const struct CMUnitTest tests[] = {
		LIFE_TEST(files_live_over_a_stop_and_start),
		LIFE_TEST(starting_twice_or_without_files_is_an_error),
		LIFE_TEST(every_range_of_a_spec_is_checked),
		LIFE_TEST(a35_pid1_killed_while_it_is_built_fails_the_start_soon),
		cmocka_unit_test_setup_teardown(a35_init_that_ends_at_once_fails_the_start,
						open_deaf_init, close_base),
		LIFE_TEST(e13_processes_that_ignore_term_are_killed),
		LIFE_TEST(box_lives_over_a_restart_of_the_runner),
		LIFE_TEST(e16_runner_killed_half_way_leaves_nothing),
		LIFE_TEST(e16_runner_killed_before_its_reply_is_adopted),
		LIFE_TEST(layers_by_path_where_overlay_takes_no_descriptors),
		LIFE_TEST(c25_links_in_the_image_redirect_nothing),
		LIFE_TEST(cve_2025_31133_devices_of_the_image_are_not_used),
		LIFE_TEST(image_with_nothing_in_it_starts),
		LIFE_TEST(trash_is_emptied_whatever_is_in_it),
		LIFE_TEST(d31_e5_concurrent_lives_leave_no_descriptor),
	};

	bh_enter();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
