/*
 * Output of tasks: every byte in its place, rings that count what they drop, readers that slow
 * nobody, and the memory of all of it.
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

#define MIB (1u << 20)

static struct agentbox box;

static int box_up(void **state)
{
	(void)state;
	return agentbox_start(&box, 0);
}

static int box_small(void **state)
{
	(void)state;
	return agentbox_start(&box, AGENTBOX_SMALL);
}

static int box_end(void **state)
{
	(void)state;
	agentbox_stop(&box);
	return 0;
}

/* Lines of 17 bytes, so that every offset has its byte. */
static const char line[] = "0123456789abcdef\n";

static void assert_lines(const struct buf *b, uint64_t at)
{
	for (size_t i = 0; i < b->len; i++, at++)
		if (b->data[i] != line[at % 17])
			fail_msg("byte %llu is wrong", (unsigned long long)at);
}

static void lines_start(const char *id, unsigned bytes)
{
	char text[128];

	snprintf(text, sizeof(text), "yes 0123456789abcdef | head -c %u", bytes);
	taskbox_start(&box, id, TASK_DETACHED, 0, text);
}

static void both_streams_come_in_the_order_they_were_read(void **state)
{
	auto_tasklog struct taskbox_log l;

	(void)state;
	taskbox_start(
		&box, "o", TASK_DETACHED, 0,
		"for i in 1 2 3 4 5; do echo o$i; sleep 0.02; echo e$i >&2; sleep 0.02; done");
	taskbox_wait(&box, "o", &l.end);
	task_info_done(&l.end);
	taskbox_follow(&box, "o", 0, 0, &l);
	assert_string_equal(buf_str(&l.all), "o1\ne1\no2\ne2\no3\ne3\no4\ne4\no5\ne5\n");
	taskbox_remove(&box, "o");
}

static void merged_streams_are_one(void **state)
{
	const char *const argv[] = {"echo a; echo b >&2; echo c", NULL};
	struct task_spec s = {.id = "m", .kind = TASK_DETACHED};
	auto_tasklog struct taskbox_log l;

	(void)state;
	s.spawn =
		(struct agent_spawn){.argv = argv, .user = "", .flags = SPAWN_SHELL | SPAWN_MERGE};
	assert_int_equal(agent_task_start(box.sock, &s, NULL, NULL, NULL), 0);
	taskbox_follow(&box, "m", 0, 0, &l);
	assert_string_equal(buf_str(&l.out), "a\nb\nc\n");
	taskbox_remove(&box, "m");
}

static void a_reader_resumes_at_an_offset(void **state)
{
	auto_tasklog struct taskbox_log l, tail;

	(void)state;
	lines_start("r", 9000);
	taskbox_wait(&box, "r", &l.end);
	task_info_done(&l.end);
	taskbox_follow(&box, "r", 4321, 0, &l);
	assert_int_equal(l.out.len, 9000 - 4321);
	assert_lines(&l.out, 4321);
	taskbox_follow(&box, "r", TASK_TAIL, TASK_TAIL, &tail);
	assert_int_equal(tail.all.len, 0);
	taskbox_remove(&box, "r");
}

static void an_offset_beyond_the_output_is_refused(void **state)
{
	struct task_reader *r;
	struct task_chunk c;
	struct err err;

	(void)state;
	taskbox_start(&box, "b", TASK_DETACHED, 0, "echo a; sleep 300");
	taskbox_expect(&box, "b", "a\n");
	r = task_reader_open(box.sock, "b", TASK_OUT, 3, 0, true, &err);
	assert_non_null(r);
	assert_int_equal(task_reader_next(r, &c, NULL, -1, clock_mono_ms() + 5000, &err), -1);
	assert_int_equal(err.code, ERR_INVALID);
	task_reader_close(r);
	taskbox_remove(&box, "b");
}

static void a_reader_is_told_none_and_ends_by_its_deadline(void **state)
{
	struct task_reader *r;
	struct task_chunk c;
	int64_t began;

	(void)state;
	taskbox_start(&box, "n", TASK_DETACHED, 0, "sleep 300");
	r = task_reader_open(box.sock, "n", TASK_OUT, 0, 0, true, NULL);
	assert_int_equal(task_reader_next(r, &c, NULL, -1, 0, NULL), TASK_READ_NONE);
	began = clock_mono_ms();
	assert_int_equal(task_reader_next(r, &c, NULL, -1, began + 100, NULL), TASK_READ_NONE);
	assert_true(clock_mono_ms() - began < 2000);
	task_reader_close(r);
	taskbox_remove(&box, "n");
}

static void a23_a_ring_keeps_the_tail_and_counts_the_rest(void **state)
{
	auto_tasklog struct taskbox_log l, again;
	struct task_info t;

	(void)state;
	lines_start("big", 27000000);
	taskbox_wait(&box, "big", &t);
	assert_int_equal(t.out_total, 27000000);
	assert_true(t.out_total - t.out_first <= TASK_RING_MAX);
	assert_true(t.out_total - t.out_first > TASK_RING_MAX - 128 * 1024);
	task_info_done(&t);
	taskbox_read(&box, "big", &l);
	assert_int_equal(l.gaps, 1);
	assert_int_equal(l.lost[0], t.out_first);
	assert_int_equal(l.out.len, t.out_total - t.out_first);
	assert_lines(&l.out, t.out_first);
	taskbox_follow(&box, "big", t.out_total - 9, 0, &again);
	assert_int_equal(again.out.len, 9);
	assert_lines(&again.out, t.out_total - 9);
	taskbox_remove(&box, "big");
}

static void a13_a_reader_that_keeps_up_has_every_byte(void **state)
{
	auto_tasklog struct taskbox_log l;

	(void)state;
	lines_start("all", 200000000);
	taskbox_follow(&box, "all", 0, 0, &l);
	assert_int_equal(l.end.out_total, 200000000);
	assert_int_equal(l.out.len + l.lost[0], 200000000);
	if (!l.gaps)
		assert_lines(&l.out, 0);
	assert_true(taskbox_rss_kib(&box) < 16 * 1024);
	taskbox_remove(&box, "all");
}

static void a_reader_that_does_not_read_slows_nobody(void **state)
{
	struct task_reader *idle[8], *r;
	int64_t began = clock_mono_ms();
	auto_tasklog struct taskbox_log l;
	uint64_t seen = 0, lost = 0;
	struct task_chunk c;
	int rc;

	(void)state;
	taskbox_start(&box, "w", TASK_DETACHED, TASK_STDIN, "read x; head -c 50000000 /dev/zero");
	for (size_t i = 0; i < ARRAY_LEN(idle); i++)
		idle[i] = task_reader_open(box.sock, "w", TASK_OUT, 0, 0, true, NULL);
	taskbox_write(&box, "w", "go\n", false);
	taskbox_follow(&box, "w", 0, 0, &l);
	assert_int_equal(l.out.len + l.lost[0], 50000000);
	assert_true(clock_mono_ms() - began < 10000);
	/* Late, but told exactly what it missed. */
	r = idle[0];
	while ((rc = task_reader_next(r, &c, NULL, -1, clock_mono_ms() + 5000, NULL)) > 0 &&
	       rc != TASK_READ_END)
		*(rc == TASK_READ_GAP ? &lost : &seen) += c.n;
	assert_int_equal(rc, TASK_READ_END);
	assert_true(lost > 0);
	assert_int_equal(seen + lost, 50000000);
	for (size_t i = 0; i < ARRAY_LEN(idle); i++)
		task_reader_close(idle[i]);
	taskbox_remove(&box, "w");
}

static void a25_a_chatty_task_without_readers_stays_small(void **state)
{
	struct task_info before, after;
	long rss = 0;

	(void)state;
	taskbox_start(&box, "yes", TASK_DETACHED, 0, "yes & yes >&2");
	for (int i = 0; i < 20; i++) {
		poll(NULL, 0, 50);
		if (i == 10) {
			rss = taskbox_rss_kib(&box);
			taskbox_get(&box, "yes", &before);
		}
	}
	taskbox_get(&box, "yes", &after);
	assert_true(after.out_first > 0 && after.out_total > before.out_total);
	assert_true(taskbox_rss_kib(&box) < 20 * 1024);
	assert_true(taskbox_rss_kib(&box) < rss + 1024);
	task_info_done(&before);
	task_info_done(&after);
	taskbox_remove(&box, "yes");
	taskbox_empty(&box);
	assert_true(taskbox_rss_kib(&box) < 2048); /* it was given back */
}

static void all_logs_together_have_a_ceiling(void **state)
{
	struct task_info t;
	char id[16];

	(void)state;
	for (int i = 0; i < 12; i++) {
		snprintf(id, sizeof(id), "c%d", i);
		taskbox_start(&box, id, TASK_DETACHED, 0, "head -c 8388608 /dev/zero");
		taskbox_wait(&box, id, &t);
		assert_true(t.out_total - t.out_first > 7 * MIB);
		task_info_done(&t);
	}
	assert_true(taskbox_rss_kib(&box) < 66 * 1024);
	taskbox_get(&box, "c0", &t); /* the oldest went first, and says so */
	assert_int_equal(t.out_total, 8 * MIB);
	assert_int_equal(t.out_first, t.out_total);
	task_info_done(&t);
	taskbox_get(&box, "c11", &t);
	assert_true(t.out_total - t.out_first > 7 * MIB);
	task_info_done(&t);
	for (int i = 0; i < 12; i++) {
		snprintf(id, sizeof(id), "c%d", i);
		taskbox_remove(&box, id);
	}
}

static void a_small_box_has_small_logs(void **state)
{
	auto_tasklog struct taskbox_log l;
	char id[16];

	(void)state;
	for (int i = 0; i < 4; i++) {
		snprintf(id, sizeof(id), "s%d", i);
		taskbox_start(&box, id, TASK_DETACHED, 0,
			      "head -c 6000000 /dev/zero; head -c 6000000 /dev/zero >&2");
		taskbox_wait(&box, id, &l.end);
		task_info_done(&l.end);
	}
	assert_true(taskbox_rss_kib(&box) < 10 * 1024); /* 8 MiB of logs */
	taskbox_follow(&box, "s3", 0, 0, &l);
	assert_int_equal(l.out.len + l.lost[0], 6000000);
	assert_int_equal(l.err.len + l.lost[1], 6000000);
	assert_true(l.all.len > 7 * MIB);
}

static void alternating_single_bytes_all_arrive(void **state)
{
	auto_tasklog struct taskbox_log l;

	(void)state;
	taskbox_start(&box, "ob", TASK_DETACHED, 0,
		      "i=0; while [ $i -lt 3000 ]; do printf o; printf e >&2; i=$((i+1)); done");
	taskbox_follow(&box, "ob", 0, 0, &l);
	assert_int_equal(l.out.len, 3000);
	assert_int_equal(l.err.len, 3000);
	taskbox_remove(&box, "ob");
}

/* ---- input ---- */

static void a18_a_large_input_arrives_whole(void **state)
{
	static char data[64 << 20];
	auto_tasklog struct taskbox_log l;
	struct err err;

	(void)state;
	memset(data, 'd', sizeof(data));
	taskbox_start(&box, "in", TASK_DETACHED, TASK_STDIN, "sleep 0.2; wc -c");
	assert_int_equal(agent_task_write(box.sock, "in", data, sizeof(data), true, -1,
					  clock_mono_ms() + TASKBOX_MS, NULL, &err),
			 0);
	taskbox_follow(&box, "in", 0, 0, &l);
	assert_int_equal(strtol(buf_str(&l.out), NULL, 10), sizeof(data));
	assert_true(taskbox_rss_kib(&box) < 4096);
	taskbox_remove(&box, "in");
}

static void a18_a_broken_pipe_is_told(void **state)
{
	static char data[1 << 20];
	struct err err;

	(void)state;
	taskbox_start(&box, "cl", TASK_DETACHED, TASK_STDIN, "exec <&-; sleep 300");
	assert_int_equal(agent_task_write(box.sock, "cl", data, sizeof(data), false, -1,
					  clock_mono_ms() + TASKBOX_MS, NULL, &err),
			 -1);
	assert_int_equal(err.code, ERR_GONE);
	taskbox_remove(&box, "cl");
}

static void a_write_waits_until_the_task_takes_it(void **state)
{
	static char data[200000];
	struct err err;
	int64_t began = clock_mono_ms();

	(void)state;
	taskbox_start(&box, "bp", TASK_DETACHED, TASK_STDIN, "sleep 300");
	assert_int_equal(agent_task_write(box.sock, "bp", data, sizeof(data), false, -1,
					  began + 200, NULL, &err),
			 -1);
	assert_int_equal(err.code, ERR_TIMEOUT);
	assert_true(clock_mono_ms() - began >= 190);
	taskbox_remove(&box, "bp");
}

static void writes_that_wait_end_with_the_task(void **state)
{
	static char data[200000];
	struct err err;

	(void)state;
	taskbox_start(&box, "we", TASK_DETACHED, TASK_STDIN, "sleep 0.3");
	assert_int_equal(agent_task_write(box.sock, "we", data, sizeof(data), false, -1,
					  clock_mono_ms() + TASKBOX_MS, NULL, &err),
			 -1);
	assert_int_equal(err.code, ERR_GONE);
	taskbox_remove(&box, "we");
}

static void what_is_written_is_echoed_on_request(void **state)
{
	auto_tasklog struct taskbox_log l;

	(void)state;
	taskbox_start(&box, "ec", TASK_DETACHED, TASK_STDIN | TASK_ECHO, "read a; exit 0");
	taskbox_write(&box, "ec", "typed\n", false);
	taskbox_follow(&box, "ec", 0, 0, &l);
	assert_string_equal(buf_str(&l.out), "typed\n");
	taskbox_remove(&box, "ec");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(both_streams_come_in_the_order_they_were_read),
		cmocka_unit_test(merged_streams_are_one),
		cmocka_unit_test(a_reader_resumes_at_an_offset),
		cmocka_unit_test(an_offset_beyond_the_output_is_refused),
		cmocka_unit_test(a_reader_is_told_none_and_ends_by_its_deadline),
		cmocka_unit_test(a23_a_ring_keeps_the_tail_and_counts_the_rest),
		cmocka_unit_test(a13_a_reader_that_keeps_up_has_every_byte),
		cmocka_unit_test(a_reader_that_does_not_read_slows_nobody),
		cmocka_unit_test(a25_a_chatty_task_without_readers_stays_small),
		cmocka_unit_test(all_logs_together_have_a_ceiling),
		cmocka_unit_test(alternating_single_bytes_all_arrive),
		cmocka_unit_test(a18_a_large_input_arrives_whole),
		cmocka_unit_test(a18_a_broken_pipe_is_told),
		cmocka_unit_test(a_write_waits_until_the_task_takes_it),
		cmocka_unit_test(writes_that_wait_end_with_the_task),
		cmocka_unit_test(what_is_written_is_echoed_on_request),
	};
	const struct CMUnitTest small[] = {cmocka_unit_test(a_small_box_has_small_logs)};
	int rc;

	if (!agentbox_possible()) {
		printf("skipped: needs root, busybox and build/caisson-init\n");
		return 77;
	}
	signal(SIGPIPE, SIG_IGN);
	rc = cmocka_run_group_tests_name("logs", tests, box_up, box_end);
	rc |= cmocka_run_group_tests_name("logs of a small box", small, box_small, box_end);
	return rc;
}
