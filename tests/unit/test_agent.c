/*
 * test_agent.c - the trees of commands: kills, reaping, signals, ends; with and without cgroups.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/scope.h"
#include "unit/agentbox.h"

static struct agentbox box;

static int box_plain(void **state)
{
	(void)state;
	return agentbox_start(&box, 0);
}

static int box_cgroup(void **state)
{
	(void)state;
	return agentbox_start(&box, AGENTBOX_CGROUP);
}

static int box_filtered(void **state)
{
	(void)state;
	return agentbox_start(&box, AGENTBOX_CGROUP | AGENTBOX_NO_CLONE3);
}

static int box_end(void **state)
{
	(void)state;
	agentbox_stop(&box);
	return 0;
}

#define auto_result auto_call(agentbox_result_done)

/* Nothing but init within 5 s. */
static void assert_empty(void)
{
	int64_t end = clock_mono_ms() + 5000;

	while (agentbox_processes(&box, false) > 0 && clock_mono_ms() < end)
		poll(NULL, 0, 5);
	assert_int_equal(agentbox_processes(&box, false), 0);
}

static void hello_answers(void **state)
{
	struct err err;

	(void)state;
	assert_int_equal(agent_hello(box.sock, clock_mono_ms() + 1000, &err), 0);
}

static void a5_timeout_ends_the_exec_in_time(void **state)
{
	const char *const argv[] = {"sleep", "60", NULL};
	struct agentbox_run run = {.argv = argv, .timeout_ms = 200};
	auto_result struct agentbox_result r;

	(void)state;
	assert_int_equal(agentbox_exec(&box, &run, &r, NULL), 0);
	assert_true(r.timed_out);
	assert_true(r.exit.signaled);
	assert_int_equal(r.exit.code, SIGKILL);
	assert_true(r.took_ms < 2000);
}

static void a6_timeout_kills_setsid_and_double_forked_grandchildren(void **state)
{
	const char *const argv[] = {"sleep 300 & setsid sleep 301 & "
				    "(setsid sh -c '(sleep 302 &) ; sleep 303' &) ; wait",
				    NULL};
	struct agentbox_run run = {.argv = argv, .flags = SPAWN_SHELL, .timeout_ms = 300};
	auto_result struct agentbox_result r;

	(void)state;
	assert_int_equal(agentbox_exec(&box, &run, &r, NULL), 0);
	assert_true(r.timed_out);
	assert_empty();
}

static void a6_timeout_kills_a_fork_bomb(void **state)
{
	const char *const argv[] = {"ulimit -u 100; f() { f | f & }; f; sleep 300", NULL};
	struct agentbox_run run = {
		.argv = argv, .user = "dev", .flags = SPAWN_SHELL, .timeout_ms = 300};
	auto_result struct agentbox_result r;

	(void)state;
	assert_int_equal(agentbox_exec(&box, &run, &r, NULL), 0);
	assert_true(r.timed_out);
	assert_empty();
}

static void a8_timeout_returns_though_a_grandchild_holds_the_terminal(void **state)
{
	const char *const argv[] = {"sleep 300 & setsid sleep 300 & sleep 300", NULL};
	struct agentbox_run run = {
		.argv = argv, .flags = SPAWN_SHELL | SPAWN_TTY, .timeout_ms = 300};
	auto_result struct agentbox_result r;

	(void)state;
	assert_int_equal(agentbox_exec(&box, &run, &r, NULL), 0);
	assert_true(r.took_ms < 3000);
	assert_empty();
}

static void a26_cancelled_starts_leave_nothing(void **state)
{
	const char *const argv[] = {"sleep", "100", NULL};
	struct agent_spawn s = {.argv = argv, .user = ""};

	(void)state;
	for (int i = 0; i < 100; i++) {
		struct agent_proc p = AGENT_PROC_INIT;

		assert_int_equal(agent_spawn(box.sock, &s, &p, clock_mono_ms() + 5000, NULL), 0);
		agent_proc_done(&p);
	}
	assert_int_equal(agent_hello(box.sock, clock_mono_ms() + 1000, NULL), 0);
	assert_empty();
}

static void a31_orphans_leave_no_zombies(void **state)
{
	(void)state;
	for (int i = 0; i < 100; i++) {
		auto_result struct agentbox_result r;

		assert_int_equal(agentbox_sh(&box, "sleep 0.01 & (sleep 0.01 &)", &r), 0);
	}
	assert_empty();
	assert_int_equal(agentbox_processes(&box, true), 0);
}

static void a33_fast_parallel_exits_keep_their_status(void **state)
{
	const char *const yes[] = {"true", NULL};
	const char *const no[] = {"false", NULL};
	struct agent_proc p[8];
	struct agent_exit e;

	(void)state;
	for (int i = 0; i < 60; i++) {
		for (int k = 0; k < 8; k++) {
			struct agent_spawn s = {.argv = k % 2 ? no : yes, .user = ""};

			assert_int_equal(
				agent_spawn(box.sock, &s, &p[k], clock_mono_ms() + 9000, NULL), 0);
		}
		for (int k = 0; k < 8; k++) {
			struct pollfd f = {.fd = p[k].conn, .events = POLLIN};

			assert_int_equal(poll(&f, 1, 5000), 1);
			assert_int_equal(agent_proc_exit(&p[k], &e, NULL), 1);
			assert_int_equal(e.code, k % 2);
			agent_proc_done(&p[k]);
		}
	}
}

static void a50_a_second_kill_is_harmless(void **state)
{
	const char *const argv[] = {"sleep 300 & sleep 300", NULL};
	struct agent_spawn s = {.argv = argv, .user = "", .flags = SPAWN_SHELL};
	struct agent_proc p = AGENT_PROC_INIT;
	struct pollfd f;
	struct agent_exit e;

	(void)state;
	assert_int_equal(agent_spawn(box.sock, &s, &p, clock_mono_ms() + 5000, NULL), 0);
	assert_int_equal(agent_proc_kill(&p, NULL), 0);
	agent_proc_kill(&p, NULL);
	f = (struct pollfd){.fd = p.conn, .events = POLLIN};
	assert_int_equal(poll(&f, 1, 5000), 1);
	assert_int_equal(agent_proc_exit(&p, &e, NULL), 1);
	assert_true(e.signaled);
	agent_proc_done(&p);
	assert_empty();
}

static void a_background_server_outlives_its_exec(void **state)
{
	auto_result struct agentbox_result r;

	(void)state;
	assert_int_equal(agentbox_sh(&box, "setsid sleep 300 >/dev/null 2>&1 &", &r), 0);
	assert_int_equal(r.exit.code, 0);
	assert_int_equal(agentbox_processes(&box, false), 1);
	assert_int_equal(agent_term(box.sock, 3000, NULL), 0);
	assert_empty();
}

static void term_reports_who_stays(void **state)
{
	auto_result struct agentbox_result r;
	int64_t began = clock_mono_ms();

	(void)state;
	assert_int_equal(agentbox_sh(&box,
				     "(trap '' TERM; sleep 300) >/dev/null 2>&1 &"
				     "sleep 0.1",
				     &r),
			 0);
	assert_true(agent_term(box.sock, 200, NULL) >= 1);
	assert_true(clock_mono_ms() - began < 3000);
	agentbox_result_done(&r);
	assert_int_equal(agentbox_sh(&box, "kill -9 -1", &r), 0);
	assert_empty();
}

static void signals_reach_the_main_process_or_the_tree(void **state)
{
	const char *const argv[] = {"trap 'exit 9' USR1; while :; do sleep 0.02; done", NULL};
	struct agent_spawn s = {.argv = argv, .user = "", .flags = SPAWN_SHELL};
	struct agent_proc p = AGENT_PROC_INIT;
	struct pollfd f;
	struct agent_exit e;

	(void)state;
	assert_int_equal(agent_spawn(box.sock, &s, &p, clock_mono_ms() + 5000, NULL), 0);
	poll(NULL, 0, 100);
	assert_int_equal(agent_proc_signal(&p, SIGUSR1, false, NULL), 0);
	f = (struct pollfd){.fd = p.conn, .events = POLLIN};
	assert_int_equal(poll(&f, 1, 5000), 1);
	assert_int_equal(agent_proc_exit(&p, &e, NULL), 1);
	assert_int_equal(e.code, 9);
	agent_proc_done(&p);
}

static void leaves_go_when_they_empty(void **state)
{
	char path[256];
	auto_result struct agentbox_result r;
	struct stat st;

	(void)state;
	if (!box.cgroup[0])
		skip();
	for (int i = 0; i < 5; i++) {
		assert_int_equal(agentbox_sh(&box, "sleep 0.05 >/dev/null 2>&1 &", &r), 0);
		agentbox_result_done(&r);
	}
	assert_empty();
	poll(NULL, 0, 150); /* sweeps are at least 100 ms apart */
	assert_int_equal(agentbox_sh(&box, "sleep 0.01 >/dev/null 2>&1 &", &r), 0);
	assert_empty();
	poll(NULL, 0, 150);
	snprintf(path, sizeof(path), "%s", box.cgroup);
	assert_int_equal(stat(path, &st), 0);
	assert_true(st.st_nlink <= 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hello_answers),
		cmocka_unit_test(a5_timeout_ends_the_exec_in_time),
		cmocka_unit_test(a6_timeout_kills_setsid_and_double_forked_grandchildren),
		cmocka_unit_test(a6_timeout_kills_a_fork_bomb),
		cmocka_unit_test(a8_timeout_returns_though_a_grandchild_holds_the_terminal),
		cmocka_unit_test(a26_cancelled_starts_leave_nothing),
		cmocka_unit_test(a31_orphans_leave_no_zombies),
		cmocka_unit_test(a33_fast_parallel_exits_keep_their_status),
		cmocka_unit_test(a50_a_second_kill_is_harmless),
		cmocka_unit_test(a_background_server_outlives_its_exec),
		cmocka_unit_test(term_reports_who_stays),
		cmocka_unit_test(signals_reach_the_main_process_or_the_tree),
		cmocka_unit_test(leaves_go_when_they_empty),
	};
	int failed;

	if (!agentbox_possible()) {
		printf("skipped: needs root, a static /bin/busybox and build/caisson-init\n");
		return 0;
	}
	failed = cmocka_run_group_tests_name("plain", tests, box_plain, box_end);
	if (agentbox_cgroup_possible()) {
		failed += cmocka_run_group_tests_name("cgroup", tests, box_cgroup, box_end);
		failed += cmocka_run_group_tests_name("filtered", tests, box_filtered, box_end);
	}
	return failed;
}
