/*
 * test_limits.c - limits hold, are told inside, and what they hit stays in the box that hit them.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "box/oom.h"
#include "box_harness.h"

static struct bh bh;
static struct box *box;
static char box_id[ID_LEN];
static struct bh_result out;

static int group_open(void **state)
{
	(void)state;
	bh_open(&bh);
	bh_layer(&bh, 1, true);
	box = bh_new(&bh, box_id);
	return 0;
}

static int group_close(void **state)
{
	(void)state;
	bh_delete(&bh, box);
	bh_close(&bh);
	return 0;
}

static void limits_are_told_inside(void **state)
{
	(void)state;
	assert_int_equal(
		bh_sh(&bh, box,
		      "grep MemTotal /proc/meminfo; grep -c ^processor /proc/cpuinfo; "
		      "cat /sys/devices/system/cpu/online; ulimit -n; ulimit -c; hostname; "
		      "cat /etc/hostname",
		      &out),
		0);
	assert_string_equal(out.out, "MemTotal:         262144 kB\n1\n0\n1024\n0\nbox\nbox\n");
}

static void smallest_limits_still_start(void **state)
{
	char id[ID_LEN];
	struct box_spec s;
	struct box *b;

	(void)state;
	id_new(id);
	s = bh_spec(id);
	s.nofile = PRIV_NOFILE_MIN;
	s.mem_bytes = PRIV_MEM_MIN;
	s.pids_max = PRIV_PIDS_MIN;
	s.cpu_milli = PRIV_CPU_MILLI_MIN;
	b = bh_start(&bh, &s);
	assert_int_equal(bh_sh(&bh, b, "ulimit -n", &out), 0);
	assert_string_equal(out.out, "64\n");
	bh_delete(&bh, b);
}

/* A53: the box says who was killed and why; the box and its agent go on. */
static void a53_memory_exhaustion_kills_inside_and_names_the_victim(void **state)
{
	const char *argv[] = {"/probe", "memory", NULL};
	const struct cg_host *cg = box_host_cgroups(bh.host);
	struct oom_victim v = {.pid = 0};
	struct cg_stats s;
	struct err err = {0};
	int fd = oom_open(&err);
	int rc = 0;

	(void)state;
	assert_true(fd >= 0);
	bh_run(&bh, box, NULL, argv, &out);
	assert_true(out.signaled);
	assert_int_equal(out.code, 9);
	for (int64_t end = clock_mono_ms() + 5000; rc == 0 && clock_mono_ms() < end; usleep(10000))
		rc = oom_next(fd, cg->tree, &v, &err);
	assert_int_equal(rc, 1);
	assert_string_equal(v.cg, box->cg);
	assert_string_equal(v.comm, "probe");
	assert_int_equal(box_stats(bh.host, box, &s, &err), 0);
	assert_int_equal(s.oom_kills, 1);
	assert_int_equal(s.mem_limit, 256 << 20);
	assert_true(s.mem_peak > 200 << 20);
	close(fd);
	assert_int_equal(bh_sh(&bh, box, "echo on", &out), 0);
	assert_string_equal(out.out, "on\n");
}

static void a36_commands_start_while_memory_is_full(void **state)
{
	int64_t begin;

	(void)state;
	assert_int_equal(bh_sh(&bh, box,
			       "dd if=/dev/zero of=/dev/shm/full bs=1M count=120 2>&1; "
			       "dd if=/dev/zero of=/tmp/cache bs=1M count=300 2>&1",
			       &out),
			 0);
	begin = clock_mono_ms();
	for (int i = 0; i < 20; i++)
		assert_int_equal(bh_sh(&bh, box, "true", &out), 0);
	assert_true(clock_mono_ms() - begin < 10000);
	assert_int_equal(bh_sh(&bh, box, "rm /dev/shm/full /tmp/cache", &out), 0);
}

static void fork_bombs_end_at_the_limit_and_neighbours_go_on(void **state)
{
	const char *argv[] = {"/probe", "forks", NULL};
	char id[ID_LEN];
	struct box *b = bh_new(&bh, id);
	int64_t begin;
	char *n;

	(void)state;
	bh_run(&bh, b, NULL, argv, &out);
	n = strstr(out.out, "forked ");
	assert_non_null(n);
	assert_in_range(strtol(n + 7, NULL, 10), 20, 128);
	begin = clock_mono_ms();
	assert_int_equal(bh_sh(&bh, box, "true", &out), 0);
	assert_true(clock_mono_ms() - begin < 3000);
	assert_int_equal(bh_sh(&bh, b, "echo again", &out), 0);
	bh_delete(&bh, b);
}

static void cpu_time_is_limited(void **state)
{
	struct cg_stats before, after;
	char id[ID_LEN];
	struct box_spec s;
	struct box *b;
	struct err err = {0};

	(void)state;
	id_new(id);
	s = bh_spec(id);
	s.cpu_milli = 200;
	b = bh_start(&bh, &s);
	assert_int_equal(box_stats(bh.host, b, &before, &err), 0);
	bh_sh(&bh, b, "timeout 2 sh -c 'while :; do :; done'; true", &out);
	assert_int_equal(box_stats(bh.host, b, &after, &err), 0);
	/* 0.2 of 2 s, with generous room for the last period. */
	assert_true(after.cpu_us - before.cpu_us < 700000);
	bh_delete(&bh, b);
}

static void statistics_of_an_ended_box_are_not_found(void **state)
{
	char id[ID_LEN], name[CG_NAME_LEN];
	struct box *b = bh_new(&bh, id);
	struct cg_stats s;
	struct err err = {0};

	(void)state;
	memcpy(name, b->cg, sizeof(name));
	bh_delete(&bh, b);
	box_host_settle(bh.host, clock_mono_ms() + 5000);
	assert_int_equal(cg_stats_get(box_host_cgroups(bh.host), name, &s, &err), -1);
	assert_int_equal(err.code, ERR_NOT_FOUND);
}

static void oom_lines_are_read_without_trust(void **state)
{
	static const struct {
		const char *line;
		bool found;
		const char *comm;
		int pid;
	} row[] = {
		{"6,1,2,-;oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,"
		 "mems_allowed=0,oom_memcg=/caisson-x/s1,task_memcg=/caisson-x/"
		 "s1,task=a,pid=7,uid=0",
		 true, "a", 7},
		{"6,1,2,-;oom-kill:x,task_memcg=/caisson-x/s1/job,task=e,pid=1,x,pid=9,uid=0", true,
		 "e,pid=1,x", 9},
		{"6,1,2,-;oom-kill:x,task_memcg=/caisson-y/s1,task=a,pid=7,uid=0", false, "", 0},
		{"6,1,2,-;oom-kill:x,task_memcg=/caisson-x,task=a,pid=7,uid=0", false, "", 0},
		{"6,1,2,-;oom-kill:x,task_memcg=/caisson-x/s1", false, "", 0},
		{"6,1,2,-;other oom-kill:x,task_memcg=/caisson-x/s1,task=a,pid=7", false, "", 0},
		{"6,1,2,-", false, "", 0},
		{"", false, "", 0},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		struct oom_victim v = {.pid = 0};

		assert_int_equal(oom_parse(row[i].line, "caisson-x", &v), row[i].found);
		assert_string_equal(v.comm, row[i].comm);
		assert_int_equal(v.pid, row[i].pid);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(limits_are_told_inside),
		cmocka_unit_test(smallest_limits_still_start),
		cmocka_unit_test(a53_memory_exhaustion_kills_inside_and_names_the_victim),
		cmocka_unit_test(a36_commands_start_while_memory_is_full),
		cmocka_unit_test(fork_bombs_end_at_the_limit_and_neighbours_go_on),
		cmocka_unit_test(cpu_time_is_limited),
		cmocka_unit_test(statistics_of_an_ended_box_are_not_found),
		cmocka_unit_test(oom_lines_are_read_without_trust),
	};

	bh_enter();
	return cmocka_run_group_tests(tests, group_open, group_close);
}
