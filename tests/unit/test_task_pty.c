/*
 * Terminals and held pipes of a real caisson-init: drained to the last byte, ended by their shell,
 * there again for whoever connects next.
 */
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "unit/taskbox.h"

static struct agentbox box;

static int box_up(void **state)
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

static void a15_the_tail_of_a_terminal_is_kept(void **state)
{
	(void)state;
	for (int i = 0; i < 50; i++) {
		auto_tasklog struct taskbox_log l;
		size_t lines = 0;

		taskbox_start(&box, "t", TASK_PTY, 0, "seq 1 20000");
		taskbox_follow(&box, "t", 0, 0, &l);
		for (size_t at = 0; at < l.out.len; at++)
			lines += l.out.data[at] == '\n';
		assert_int_equal(lines, 20000);
		assert_string_equal(buf_str(&l.out) + l.out.len - 7, "20000\r\n");
		taskbox_remove(&box, "t");
	}
}

static void a16_a_terminal_is_byte_exact(void **state)
{
	static const unsigned sizes[] = {1, 4095, 4096, 4097, 8193, 65537, 1000001};
	char text[128];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		auto_tasklog struct taskbox_log l;

		snprintf(text, sizeof(text), "yes | head -c %u | busybox tr -d '\\n'; printf x",
			 sizes[i] * 2);
		taskbox_start(&box, "t", TASK_PTY, 0, text);
		taskbox_follow(&box, "t", 0, 0, &l);
		assert_int_equal(l.out.len, sizes[i] + 1);
		assert_int_equal(l.out.data[l.out.len - 1], 'x');
		taskbox_remove(&box, "t");
	}
}

static void a8_a_terminal_ends_with_its_shell_though_others_hold_it(void **state)
{
	int64_t began = clock_mono_ms();
	auto_tasklog struct taskbox_log l;

	(void)state;
	taskbox_start(
		&box, "h", TASK_PTY, 0,
		"(trap '' HUP; setsid sleep 300) & (trap '' HUP; sleep 300) & echo bye; exit 4");
	taskbox_follow(&box, "h", 0, 0, &l);
	assert_string_equal(buf_str(&l.out), "bye\r\n");
	assert_int_equal(l.end.code, 4);
	assert_true(clock_mono_ms() - began < 3000);
	task_info_done(&l.end);
	assert_int_equal(agent_task_kill(box.sock, "h", 0, &l.end, NULL), 0); /* the others */
	taskbox_empty(&box);
	taskbox_remove(&box, "h");
}

static void a_kill_of_a_terminal_takes_all_of_it(void **state)
{
	struct task_info t;

	(void)state;
	taskbox_start(&box, "k", TASK_PTY, 0, "setsid sleep 300 & echo up; exec sh -i");
	taskbox_expect(&box, "k", "up");
	assert_int_equal(agent_task_kill(box.sock, "k", 2000, &t, NULL), 0);
	assert_int_equal(t.cause, TASK_KILLED);
	assert_true(t.ended_ms - t.started_ms < 3000);
	task_info_done(&t);
	taskbox_remove(&box, "k");
	taskbox_empty(&box);
}

static void a_terminal_is_typed_into_by_one_after_another(void **state)
{
	auto_tasklog struct taskbox_log l;

	(void)state;
	/* A shell with a line editor drops what is typed before its prompt. */
	taskbox_start(&box, "i", TASK_PTY, 0, "PS1='P>' exec sh -i");
	taskbox_expect(&box, "i", "P>");
	taskbox_write(&box, "i", "X=one; tty; stty size\n", false);
	taskbox_expect(&box, "i", "24 80\r\nP>");
	taskbox_write(&box, "i", "echo $X-two\n", false);
	taskbox_expect(&box, "i", "one-two\r\nP>");
	taskbox_write(&box, "i", "", true);
	taskbox_follow(&box, "i", 0, 0, &l);
	assert_int_equal(l.end.state, TASK_ENDED);
	assert_non_null(strstr(buf_str(&l.out), "/dev/pts/"));
	taskbox_remove(&box, "i");
}

static void the_last_resize_wins(void **state)
{
	struct task_info t;

	(void)state;
	taskbox_start(&box, "r", TASK_PTY, 0,
		      "trap 'stty size' WINCH; echo up; while :; do sleep 0.05; done");
	taskbox_expect(&box, "r", "up");
	assert_int_equal(agent_task_resize(box.sock, "r", 100, 30, &t, NULL), 0);
	task_info_done(&t);
	assert_int_equal(agent_task_resize(box.sock, "r", 132, 43, &t, NULL), 0);
	assert_int_equal(t.cols, 132);
	assert_int_equal(t.rows, 43);
	task_info_done(&t);
	taskbox_expect(&box, "r", "43 132\r\n");
	taskbox_remove(&box, "r");
}

static void several_readers_see_the_same(void **state)
{
	auto_tasklog struct taskbox_log a, b;

	(void)state;
	taskbox_start(&box, "m", TASK_PTY, 0, "seq 1 1000");
	taskbox_follow(&box, "m", 0, 0, &a);
	taskbox_follow(&box, "m", 0, 0, &b);
	assert_int_equal(a.out.len, b.out.len);
	assert_memory_equal(a.out.data, b.out.data, a.out.len);
	taskbox_remove(&box, "m");
}

static void a_terminal_that_ended_takes_nothing(void **state)
{
	struct task_info t;
	struct err err;

	(void)state;
	taskbox_start(&box, "e", TASK_PTY, 0, "true");
	taskbox_wait(&box, "e", &t);
	task_info_done(&t);
	assert_int_equal(agent_task_write(box.sock, "e", "x", 1, false, -1, clock_mono_ms() + 5000,
					  NULL, &err),
			 -1);
	assert_int_equal(err.code, ERR_GONE);
	assert_int_equal(agent_task_resize(box.sock, "e", 1, 1, &t, &err), -1);
	assert_int_equal(err.code, ERR_GONE);
	taskbox_remove(&box, "e");
}

static void what_is_no_terminal_is_not_resized(void **state)
{
	struct task_info t;
	struct err err;

	(void)state;
	taskbox_start(&box, "n", TASK_DETACHED, 0, "sleep 300");
	assert_int_equal(agent_task_resize(box.sock, "n", 1, 1, &t, &err), -1);
	assert_int_equal(err.code, ERR_CONFLICT);
	taskbox_remove(&box, "n");
}

static void a38_many_clients_type_resize_and_kill_at_once(void **state)
{
	(void)state;
	for (int round = 0; round < 5; round++) {
		struct task_reader *r[100];
		struct task_info t;

		taskbox_start(&box, "c", TASK_PTY, 0, "exec sh -i");
		for (size_t i = 0; i < ARRAY_LEN(r); i++) {
			r[i] = task_reader_open(box.sock, "c", TASK_OUT, TASK_TAIL, 0, true, NULL);
			agent_task_write(box.sock, "c", "echo hi\n", 8, false, -1,
					 clock_mono_ms() + 2000, NULL, NULL);
			if (agent_task_resize(box.sock, "c", (uint16_t)i, 24, &t, NULL) == 0)
				task_info_done(&t);
			if (i == 50)
				agent_task_signal(box.sock, "c", SIGKILL, true, NULL);
			if (i % 3 == 0 && r[i]) {
				task_reader_close(r[i]);
				r[i] = NULL;
			}
		}
		for (size_t i = 0; i < ARRAY_LEN(r); i++)
			task_reader_close(r[i]);
		taskbox_remove(&box, "c");
	}
	assert_int_equal(agent_hello(box.sock, clock_mono_ms() + 2000, NULL), 0);
	taskbox_empty(&box);
}

static void terminals_and_their_descriptors_go(void **state)
{
	size_t before = taskbox_fds(&box);
	char id[16];

	(void)state;
	for (int i = 0; i < 50; i++) {
		snprintf(id, sizeof(id), "f%d", i);
		taskbox_start(&box, id, TASK_PTY, 0, "exec sh -i");
	}
	assert_true(taskbox_fds(&box) >= before + 100);
	for (int i = 0; i < 50; i++) {
		snprintf(id, sizeof(id), "f%d", i);
		taskbox_remove(&box, id);
	}
	taskbox_fds_at_most(&box, before);
	taskbox_empty(&box);
}

/* ---- held pipes ---- */

static void talk(int in, int out, const char *say, const char *answer)
{
	char got[64];
	struct pollfd p = {.fd = out, .events = POLLIN};
	size_t n = 0, want = strlen(answer);

	assert_int_equal(write(in, say, strlen(say)), strlen(say));
	while (n < want) {
		ssize_t k;

		assert_int_equal(poll(&p, 1, 5000), 1);
		k = read(out, got + n, want - n);
		assert_true(k > 0);
		n += (size_t)k;
	}
	assert_memory_equal(got, answer, want);
}

static void pipes_are_there_again_for_the_next(void **state)
{
	int in, out;

	(void)state;
	taskbox_start(&box, "p", TASK_INTERPRETER, TASK_PIPES | TASK_NO_STDERR,
		      "N=0; while read l; do N=$((N+1)); echo $N $l; echo noise >&2; done");
	for (int i = 1; i < 4; i++) {
		char want[16];

		assert_int_equal(agent_task_attach(box.sock, "p", &in, &out, NULL), 0);
		snprintf(want, sizeof(want), "%d hi\n", i);
		talk(in, out, "hi\n", want);
		close(in);
		close(out);
	}
	taskbox_remove(&box, "p");
	taskbox_empty(&box);
}

static void errors_join_held_output(void **state)
{
	int in, out;

	(void)state;
	taskbox_start(&box, "j", TASK_INTERPRETER, TASK_PIPES, "read l; echo $l >&2; sleep 300");
	assert_int_equal(agent_task_attach(box.sock, "j", &in, &out, NULL), 0);
	talk(in, out, "err\n", "err\n");
	close(in);
	close(out);
	taskbox_remove(&box, "j");
}

static void the_end_of_held_pipes_is_told(void **state)
{
	struct task_info t;
	struct err err;
	int in, out;
	char c;

	(void)state;
	taskbox_start(&box, "q", TASK_INTERPRETER, TASK_PIPES, "read l; exit 6");
	assert_int_equal(agent_task_attach(box.sock, "q", &in, &out, NULL), 0);
	assert_int_equal(write(in, "go\n", 3), 3);
	taskbox_wait(&box, "q", &t);
	assert_int_equal(t.code, 6);
	task_info_done(&t);
	assert_int_equal(read(out, &c, 1), 0);
	close(in);
	close(out);
	assert_int_equal(agent_task_attach(box.sock, "q", &in, &out, &err), -1);
	assert_int_equal(err.code, ERR_GONE);
	taskbox_remove(&box, "q");
	taskbox_start(&box, "d", TASK_DETACHED, 0, "sleep 300");
	assert_int_equal(agent_task_attach(box.sock, "d", &in, &out, &err), -1);
	assert_int_equal(err.code, ERR_CONFLICT);
	taskbox_remove(&box, "d");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a15_the_tail_of_a_terminal_is_kept),
		cmocka_unit_test(a16_a_terminal_is_byte_exact),
		cmocka_unit_test(a8_a_terminal_ends_with_its_shell_though_others_hold_it),
		cmocka_unit_test(a_kill_of_a_terminal_takes_all_of_it),
		cmocka_unit_test(a_terminal_is_typed_into_by_one_after_another),
		cmocka_unit_test(the_last_resize_wins),
		cmocka_unit_test(several_readers_see_the_same),
		cmocka_unit_test(a_terminal_that_ended_takes_nothing),
		cmocka_unit_test(what_is_no_terminal_is_not_resized),
		cmocka_unit_test(a38_many_clients_type_resize_and_kill_at_once),
		cmocka_unit_test(terminals_and_their_descriptors_go),
		cmocka_unit_test(pipes_are_there_again_for_the_next),
		cmocka_unit_test(errors_join_held_output),
		cmocka_unit_test(the_end_of_held_pipes_is_told),
	};

	if (!agentbox_possible()) {
		printf("skipped: needs root, busybox and build/caisson-init\n");
		return 77;
	}
	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests_name("terminals", tests, box_up, box_end);
}
