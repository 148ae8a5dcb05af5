/*
 * Tasks of a real caisson-init through the daemon's side: they outlive their connection, are known
 * by their id, end once, and are killed whole. With a delegated cgroup and without.
 */
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "unit/taskbox.h"

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

static int box_end(void **state)
{
	(void)state;
	agentbox_stop(&box);
	return 0;
}

static void a_task_outlives_its_connection(void **state)
{
	auto_tasklog struct taskbox_log l;

	(void)state;
	taskbox_start(&box, "t", TASK_DETACHED, 0, "sleep 0.1; echo out; echo err >&2; exit 3");
	taskbox_follow(&box, "t", 0, 0, &l);
	assert_string_equal(buf_str(&l.out), "out\n");
	assert_string_equal(buf_str(&l.err), "err\n");
	assert_int_equal(l.end.state, TASK_ENDED);
	assert_int_equal(l.end.cause, TASK_EXITED);
	assert_int_equal(l.end.code, 3);
	assert_true(l.end.ended_ms >= l.end.started_ms && l.end.started_ms >= l.end.created_ms);
	assert_true(l.end.maxrss_kib > 0);
	taskbox_remove(&box, "t");
}

static void a_known_id_starts_nothing(void **state)
{
	struct task_info first = {.label = NULL}, again = {.label = NULL};
	bool existed = false;

	(void)state;
	assert_int_equal(taskbox_try(&box, "once", TASK_DETACHED, 0,
				     "echo ran >> /tmp/once; sleep 1", &first, NULL, NULL),
			 0);
	assert_int_equal(taskbox_try(&box, "once", TASK_DETACHED, 0, "echo ran >> /tmp/once",
				     &again, &existed, NULL),
			 0);
	assert_true(existed);
	assert_int_equal(first.pid, again.pid);
	task_info_done(&first);
	task_info_done(&again);
	taskbox_wait(&box, "once", &first);
	assert_int_equal(taskbox_try(&box, "once", TASK_DETACHED, 0, "echo ran >> /tmp/once",
				     &again, &existed, NULL),
			 0);
	assert_true(existed);
	assert_int_equal(again.state, TASK_ENDED);
	task_info_done(&first);
	task_info_done(&again);
	taskbox_start(&box, "count", TASK_DETACHED, 0, "cat /tmp/once");
	taskbox_expect(&box, "count", "ran\n");
	taskbox_wait(&box, "count", &first);
	assert_int_equal(first.out_total, 4);
	task_info_done(&first);
	taskbox_remove(&box, "once");
	taskbox_remove(&box, "count");
}

static void an_unknown_id_is_told(void **state)
{
	struct task_info t;
	struct err err;

	(void)state;
	assert_int_equal(agent_task_get(box.sock, "nobody", &t, &err), -1);
	assert_int_equal(err.code, ERR_NOT_FOUND);
	assert_string_equal(err.tag, "PROCESS_NOT_FOUND");
	assert_int_equal(agent_task_kill(box.sock, "nobody", 0, &t, &err), -1);
	assert_string_equal(err.tag, "PROCESS_NOT_FOUND");
}

static void a_removed_task_is_forgotten(void **state)
{
	struct task_info t;
	struct err err;

	(void)state;
	taskbox_start(&box, "gone", TASK_DETACHED, 0, "sleep 300 & setsid sleep 300 & wait");
	taskbox_remove(&box, "gone");
	assert_int_equal(agent_task_get(box.sock, "gone", &t, &err), -1);
	taskbox_empty(&box);
}

static void bad_requests_are_refused(void **state)
{
	static char id[TASK_ID_MAX + 2], label[TASK_LABEL_MAX + 2];
	const char *const argv[] = {"true", NULL};
	struct task_spec bad[] = {
		{.id = "", .kind = TASK_DETACHED},
		{.id = id, .kind = TASK_DETACHED},
		{.id = "b", .label = label, .kind = TASK_DETACHED},
		{.id = "b", .kind = TASK_COMMAND},
		{.id = "b", .kind = (enum task_kind)0},
		{.id = "b", .kind = TASK_DETACHED, .tflags = 1u << 9},
		{.id = "b", .kind = TASK_PTY, .tflags = TASK_PIPES},
		{.id = "b", .kind = TASK_SESSION},
		{.id = "b", .kind = TASK_DETACHED, .spawn = {.user = "nobody-here"}},
		{.id = "b", .kind = TASK_DETACHED, .spawn = {.cwd = "/nope"}},
		{.id = "b", .kind = TASK_DETACHED, .spawn = {.flags = SPAWN_TTY}},
	};

	(void)state;
	memset(id, 'i', TASK_ID_MAX + 1);
	memset(label, 'l', TASK_LABEL_MAX + 1);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct task_info t;
		struct err err;

		bad[i].spawn.argv = argv;
		assert_int_equal(agent_task_start(box.sock, &bad[i], NULL, NULL, &err), -1);
		assert_int_equal(err.code, ERR_INVALID);
		assert_int_equal(agent_task_get(box.sock, "b", &t, NULL), -1);
	}
}

static void a_label_is_kept_as_it_is(void **state)
{
	const char *const argv[] = {"true", NULL};
	struct task_spec s = {.id = "l", .label = "{\"a\":\"\xff\"}\n", .kind = TASK_DETACHED};
	struct task_info t;

	(void)state;
	s.spawn.argv = argv;
	assert_int_equal(agent_task_start(box.sock, &s, NULL, NULL, NULL), 0);
	taskbox_get(&box, "l", &t);
	assert_string_equal(t.label, s.label);
	task_info_done(&t);
	taskbox_remove(&box, "l");
}

/* ---- ends ---- */

static void a5_a6_a_time_limit_kills_the_tree(void **state)
{
	const char *const argv[] = {"sleep 300 & setsid sleep 301 & (setsid sh -c '(sleep 302 &) ; "
				    "sleep 303' &) ; wait",
				    NULL};
	struct task_spec s = {.id = "lim", .kind = TASK_DETACHED, .timeout_ms = 200};
	struct task_info t;

	(void)state;
	s.spawn = (struct agent_spawn){.argv = argv, .user = "", .flags = SPAWN_SHELL};
	assert_int_equal(agent_task_start(box.sock, &s, NULL, NULL, NULL), 0);
	taskbox_wait(&box, "lim", &t);
	assert_int_equal(t.cause, TASK_TIMED_OUT);
	assert_true(t.signaled);
	assert_int_equal(t.code, SIGKILL);
	assert_true(t.ended_ms - t.started_ms < 2000);
	task_info_done(&t);
	taskbox_empty(&box);
	taskbox_remove(&box, "lim");
}

static void a50_a_kill_reaches_the_children_and_may_be_repeated(void **state)
{
	struct task_info t;

	(void)state;
	taskbox_start(
		&box, "k", TASK_DETACHED, 0,
		"trap '' TERM; setsid sleep 300 & (sleep 300 &); echo up; sleep 300; sleep 300");
	taskbox_expect(&box, "k", "up\n");
	assert_int_equal(agent_task_kill(box.sock, "k", 100, &t, NULL), 0);
	assert_int_equal(t.state, TASK_ENDED);
	assert_int_equal(t.cause, TASK_KILLED);
	assert_true(t.signaled);
	task_info_done(&t);
	taskbox_empty(&box);
	assert_int_equal(agent_task_kill(box.sock, "k", 100, &t, NULL), 0);
	assert_int_equal(t.cause, TASK_KILLED);
	task_info_done(&t);
	taskbox_remove(&box, "k");
}

static void a_kill_with_grace_lets_a_task_end_itself(void **state)
{
	int64_t began = clock_mono_ms();
	auto_tasklog struct taskbox_log l;
	struct task_info t;

	(void)state;
	taskbox_start(&box, "g", TASK_DETACHED, 0,
		      "trap 'echo bye; exit 7' TERM; echo up; while :; do sleep 0.01; done");
	taskbox_expect(&box, "g", "up\n");
	assert_int_equal(agent_task_kill(box.sock, "g", 10000, &t, NULL), 0);
	assert_int_equal(t.code, 7);
	assert_false(t.signaled);
	task_info_done(&t);
	assert_true(clock_mono_ms() - began < 5000);
	taskbox_follow(&box, "g", 0, 0, &l);
	assert_string_equal(buf_str(&l.out), "up\nbye\n"); /* a shell may say "Terminated" */
	taskbox_remove(&box, "g");
}

static void a_signal_reaches_the_process_or_the_tree(void **state)
{
	struct task_info t;
	struct err err;

	(void)state;
	taskbox_start(&box, "s", TASK_DETACHED, 0,
		      "trap 'echo usr' USR1; sleep 300 & echo up; while :; do wait; done");
	taskbox_expect(&box, "s", "up\n");
	assert_int_equal(agent_task_signal(box.sock, "s", SIGUSR1, false, NULL), 0);
	taskbox_expect(&box, "s", "usr\n");
	assert_int_equal(agent_task_signal(box.sock, "s", SIGKILL, true, NULL), 0);
	taskbox_wait(&box, "s", &t);
	assert_int_equal(t.cause, TASK_SIGNALED);
	task_info_done(&t);
	taskbox_empty(&box);
	assert_int_equal(agent_task_signal(box.sock, "s", SIGUSR1, false, &err), -1);
	assert_int_equal(err.code, ERR_GONE);
	assert_string_equal(err.tag, "COMMAND_ALREADY_COMPLETED");
	taskbox_remove(&box, "s");
}

static void a_process_left_behind_goes_on_writing(void **state)
{
	struct task_info t;

	(void)state;
	taskbox_start(&box, "bg", TASK_DETACHED, 0, "(sleep 0.3; echo late) & echo early");
	taskbox_wait(&box, "bg", &t);
	assert_int_equal(t.out_total, 6);
	task_info_done(&t);
	for (int i = 0; i < 200 && t.out_total < 11; i++) {
		poll(NULL, 0, 20);
		taskbox_get(&box, "bg", &t);
		task_info_done(&t);
	}
	assert_int_equal(t.out_total, 11);
	taskbox_remove(&box, "bg");
}

static void a_process_left_behind_outlives_the_record(void **state)
{
	size_t fds = taskbox_fds(&box);
	struct task_info t;

	(void)state;
	taskbox_start(&box, "left", TASK_DETACHED, 0,
		      "(sleep 0.2; yes | head -c 3000000; echo still > /tmp/left) &");
	taskbox_wait(&box, "left", &t);
	task_info_done(&t);
	taskbox_remove(&box, "left");
	assert_int_equal(agent_task_get(box.sock, "left", &t, NULL), -1);
	taskbox_empty(&box);
	taskbox_fds_at_most(&box, fds);
	taskbox_start(&box, "left2", TASK_DETACHED, 0, "cat /tmp/left");
	taskbox_expect(&box, "left2", "still\n");
	taskbox_remove(&box, "left2");
	taskbox_start(&box, "left", TASK_DETACHED, 0, "true"); /* the id is free again */
	taskbox_remove(&box, "left");
}

static void a33_fast_parallel_ends_keep_their_status(void **state)
{
	char id[16];

	(void)state;
	for (int i = 0; i < 400; i++) {
		snprintf(id, sizeof(id), "f%d", i);
		taskbox_start(&box, id, TASK_DETACHED, 0, i % 2 ? "exit 7" : "true");
	}
	for (int i = 0; i < 400; i++) {
		struct task_info t;

		snprintf(id, sizeof(id), "f%d", i);
		taskbox_wait(&box, id, &t);
		assert_int_equal(t.code, i % 2 ? 7 : 0);
		task_info_done(&t);
		taskbox_remove(&box, id);
	}
}

static void a31_tasks_leave_no_zombies(void **state)
{
	(void)state;
	for (int i = 0; i < 100; i++) {
		struct task_info t;

		taskbox_start(&box, "z", TASK_DETACHED, 0, "sleep 0.01 & (sleep 0.01 &)");
		taskbox_wait(&box, "z", &t);
		task_info_done(&t);
		taskbox_remove(&box, "z");
	}
	taskbox_empty(&box);
	assert_int_equal(agentbox_processes(&box, true), 0);
}

static void term_ends_tasks_of_every_kind(void **state)
{
	int64_t began = clock_mono_ms();

	(void)state;
	taskbox_start(&box, "d", TASK_DETACHED, 0, "sleep 300");
	taskbox_start(&box, "p", TASK_PTY, 0, "sh -i");
	taskbox_session(&box, "s", "");
	assert_int_equal(agent_task_exec(box.sock, "s", "c1", "sleep 300", 0, 0, NULL, NULL), 0);
	assert_int_equal(agent_task_exec(box.sock, "s", "c2", "sleep 300", 0, 0, NULL, NULL), 0);
	assert_int_equal(agent_term(box.sock, 10000, NULL), 0);
	assert_true(clock_mono_ms() - began < 3000);
	taskbox_empty(&box);
	taskbox_remove(&box, "d");
	taskbox_remove(&box, "p");
	taskbox_remove(&box, "s");
}

/* ---- lists ---- */

struct seen {
	size_t n;
	char last[TASK_ID_MAX + 1];
};

static int see(void *arg, const struct task_info *t, struct err *err)
{
	struct seen *s = arg;

	(void)err;
	s->n++;
	snprintf(s->last, sizeof(s->last), "%s", t->id);
	return 0;
}

static void lists_are_whole_and_in_order(void **state)
{
	static char label[TASK_LABEL_MAX + 1];
	const char *const argv[] = {"true", NULL};
	struct seen all = {.n = 0}, ptys = {.n = 0};
	char id[16];

	(void)state;
	memset(label, 'l', TASK_LABEL_MAX);
	for (int i = 0; i < 100; i++) {
		struct task_spec s = {.id = id, .label = label, .kind = TASK_DETACHED};

		snprintf(id, sizeof(id), "l%d", i);
		s.spawn.argv = argv;
		assert_int_equal(agent_task_start(box.sock, &s, NULL, NULL, NULL), 0);
	}
	taskbox_start(&box, "pty", TASK_PTY, 0, "true");
	assert_int_equal(agent_task_list(box.sock, 0, NULL, see, &all, NULL), 0);
	assert_int_equal(all.n, 101);
	assert_string_equal(all.last, "pty");
	assert_int_equal(agent_task_list(box.sock, TASK_PTY, NULL, see, &ptys, NULL), 0);
	assert_int_equal(ptys.n, 1);
	for (int i = 0; i < 100; i++) {
		snprintf(id, sizeof(id), "l%d", i);
		taskbox_remove(&box, id);
	}
	taskbox_remove(&box, "pty");
}

#define TASK_TESTS                                                                                 \
	cmocka_unit_test(a_task_outlives_its_connection),                                          \
		cmocka_unit_test(a_known_id_starts_nothing),                                       \
		cmocka_unit_test(an_unknown_id_is_told),                                           \
		cmocka_unit_test(a_removed_task_is_forgotten),                                     \
		cmocka_unit_test(bad_requests_are_refused),                                        \
		cmocka_unit_test(a_label_is_kept_as_it_is),                                        \
		cmocka_unit_test(a5_a6_a_time_limit_kills_the_tree),                               \
		cmocka_unit_test(a50_a_kill_reaches_the_children_and_may_be_repeated),             \
		cmocka_unit_test(a_kill_with_grace_lets_a_task_end_itself),                        \
		cmocka_unit_test(a_signal_reaches_the_process_or_the_tree),                        \
		cmocka_unit_test(a_process_left_behind_goes_on_writing),                           \
		cmocka_unit_test(a_process_left_behind_outlives_the_record),                       \
		cmocka_unit_test(a33_fast_parallel_ends_keep_their_status),                        \
		cmocka_unit_test(a31_tasks_leave_no_zombies),                                      \
		cmocka_unit_test(lists_are_whole_and_in_order),                                    \
		cmocka_unit_test(term_ends_tasks_of_every_kind)

int main(void)
{
	const struct CMUnitTest plain[] = {TASK_TESTS};
	const struct CMUnitTest cgroup[] = {TASK_TESTS};
	int rc;

	if (!agentbox_possible()) {
		printf("skipped: needs root, busybox and build/caisson-init\n");
		return 77;
	}
	signal(SIGPIPE, SIG_IGN);
	rc = cmocka_run_group_tests_name("task by marker", plain, box_plain, box_end);
	if (agentbox_cgroup_possible())
		rc |= cmocka_run_group_tests_name("task by cgroup", cgroup, box_cgroup, box_end);
	return rc;
}
