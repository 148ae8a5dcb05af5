/*
 * Sessions of a real caisson-init: what one command leaves the next one finds, each ends when it
 * does, and what ends the shell is told. With bash, dash and busybox.
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

static int box_busybox(void **state)
{
	(void)state;
	return agentbox_start(&box, AGENTBOX_CGROUP);
}

static int box_bash(void **state)
{
	(void)state;
	if (agentbox_start(&box, 0) < 0)
		return -1;
	return taskbox_shell(&box, "/bin/bash", "/bin/bash") ? 0 : -1;
}

static int box_dash(void **state)
{
	(void)state;
	if (agentbox_start(&box, AGENTBOX_CGROUP) < 0)
		return -1;
	return taskbox_shell(&box, "/bin/dash", "/bin/sh") ? 0 : -1;
}

static int box_end(void **state)
{
	(void)state;
	agentbox_stop(&box);
	return 0;
}

static int session_up(void **state)
{
	(void)state;
	taskbox_session(&box, "s", "");
	return 0;
}

static int session_down(void **state)
{
	(void)state;
	taskbox_remove(&box, "s");
	taskbox_empty(&box);
	return 0;
}

static void says(const char *text, uint32_t code, const char *out)
{
	taskbox_says(&box, "s", text, code, out);
}

static void is_over(const char *session)
{
	struct err err = {.code = ERR_NONE};

	assert_int_equal(agent_task_exec(box.sock, session, "late", "true", 0, 0, NULL, &err), -1);
	assert_int_equal(err.code, ERR_GONE);
	assert_string_equal(err.tag, "SESSION_ENDED");
}

static void state_persists(void **state)
{
	(void)state;
	says("cd /tmp; export A=1; f() { echo f$1; }; B=2", 0, "");
	says("pwd; echo $A $B; f x", 0, "/tmp\n1 2\nfx\n");
	says("env | grep ^A", 0, "A=1\n");
	says("false", 1, "");
	says("(exit 42)", 42, "");
	says("no-such-command-here 2>/dev/null", 127, "");
}

static void streams_are_separate(void **state)
{
	auto_tasklog struct taskbox_log l;

	(void)state;
	taskbox_exec(&box, "s", "echo out; echo err >&2", &l);
	assert_string_equal(buf_str(&l.out), "out\n");
	assert_string_equal(buf_str(&l.err), "err\n");
}

static void a1_a_heredoc_returns_at_once(void **state)
{
	auto_tasklog struct taskbox_log l;
	int64_t began = clock_mono_ms();

	(void)state;
	says("cat << 'EOF' > /tmp/t\nhi\nEOF", 0, "");
	says("cat /tmp/t", 0, "hi\n");
	taskbox_exec(&box, "s", "cat << EOF\nopen $((1 + 1))", &l); /* and never closed */
	assert_int_equal(strncmp(buf_str(&l.out), "open 2", 6), 0);
	says("echo next", 0, "next\n");
	assert_true(clock_mono_ms() - began < 5000);
}

static void unbalanced_text_leaves_the_session_alive(void **state)
{
	static const char *const text[] = {
		"echo 'a",   "echo \"a", "if true; then", "( echo a", "echo $((", "for i in a; do",
		"case x in", "}",	 "echo `a",	  "done",     "f() {",	  ";;"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(text); i++) {
		auto_tasklog struct taskbox_log l;

		taskbox_exec(&box, "s", text[i], &l);
		assert_int_equal(l.end.cause, TASK_EXITED);
		says("echo alive", 0, "alive\n");
	}
}

static void odd_text_is_run_as_it_is(void **state)
{
	(void)state;
	says("echo 'it'\\''s'; echo \"q\\\"q\"", 0, "it's\nq\"q\n");
	says("printf 'a\\n\\n\\nb\\r\\n\\n'", 0, "a\n\n\nb\r\n\n");
	says("# only a comment", 0, "");
	says("echo a # with one", 0, "a\n");
	says("\n\necho lines\n\n", 0, "lines\n");
	says("echo a &&\necho b", 0, "a\nb\n");
	says("set -C; echo x > /tmp/c$$; echo $?; set +C", 0, "0\n");
	says("set -f; echo *; set +f", 0, "*\n");
	says("break 2>/dev/null; continue 2>/dev/null; echo on", 0, "on\n");
	says("IFS=0123456789; true; (exit 17)", 17, "");
	says("IFS=; echo still", 0, "still\n");
}

static void a_large_command_is_taken_whole(void **state)
{
	static char text[200000];
	auto_tasklog struct taskbox_log l;

	(void)state;
	memset(text, 'x', sizeof(text) - 1);
	memcpy(text, "echo '", 6);
	memcpy(text + sizeof(text) - 9, "'|wc -c ", 9);
	taskbox_exec(&box, "s", text, &l);
	assert_int_equal(strtol(buf_str(&l.out), NULL, 10), sizeof(text) - 14);
}

static void what_ends_the_shell_is_told(void **state)
{
	static const struct {
		const char *text;
		uint32_t code;
		bool signaled;
	} row[] = {{"echo a; exit 3", 3, false},
		   {"set -e; false; echo no", 1, false},
		   {"exec sh -c 'echo a; exit 9'", 9, false},
		   {"kill -9 $$", SIGKILL, true},
		   {"exec /nonexistent", 127, false}};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		auto_tasklog struct taskbox_log l;
		struct task_info t;

		taskbox_session(&box, "e", "");
		taskbox_exec(&box, "e", row[i].text, &l);
		assert_int_equal(l.end.code, row[i].code);
		assert_int_equal(l.end.signaled, row[i].signaled);
		is_over("e");
		taskbox_get(&box, "e", &t);
		assert_int_equal(t.state, TASK_ENDED);
		assert_int_equal(t.code, row[i].code);
		task_info_done(&t);
		taskbox_remove(&box, "e");
	}
}

static void a3_commands_behind_a_dead_shell_are_lost_not_silent(void **state)
{
	struct task_info t;

	(void)state;
	taskbox_session(&box, "e", "");
	assert_int_equal(
		agent_task_exec(box.sock, "e", "q1", "sleep 0.2; exit 3", 0, 0, NULL, NULL), 0);
	assert_int_equal(agent_task_exec(box.sock, "e", "q2", "echo no", 0, 0, NULL, NULL), 0);
	taskbox_wait(&box, "q2", &t);
	assert_int_equal(t.cause, TASK_LOST);
	task_info_done(&t);
	is_over("e");
	taskbox_remove(&box, "e");
	assert_int_equal(agent_task_get(box.sock, "q1", &t, NULL), -1);
}

static void a3_files_of_the_shell_are_not_read(void **state)
{
	const char *const env[] = {"BASH_ENV=/tmp/it's", "ENV=/tmp/it's", "HOME=/tmp", NULL};
	static const char *const rc[] = {"/tmp/it's", "/tmp/.bashrc", "/tmp/.profile",
					 "/tmp/.bash_profile"};
	struct task_spec s = {.id = "r", .kind = TASK_SESSION, .spawn = {.env = env}};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rc); i++)
		agentbox_write(&box, rc[i], "read x; echo eaten", 0755, 0);
	assert_int_equal(agent_task_start(box.sock, &s, NULL, NULL, NULL), 0);
	taskbox_says(&box, "r", "echo $BASH_ENV", 0, "/tmp/it's\n");
	taskbox_says(&box, "r", "echo two", 0, "two\n");
	taskbox_remove(&box, "r");
	for (size_t i = 0; i < ARRAY_LEN(rc); i++)
		agentbox_write(&box, rc[i], "", 0755, 0);
}

static void parallel_calls_queue_in_order(void **state)
{
	auto_tasklog struct taskbox_log l;
	char id[16], text[64];

	(void)state;
	for (int i = 0; i < 20; i++) {
		snprintf(id, sizeof(id), "p%d", i);
		snprintf(text, sizeof(text), "sleep 0.01; X=${X}%d.", i);
		assert_int_equal(agent_task_exec(box.sock, "s", id, text, 0, 0, NULL, NULL), 0);
	}
	taskbox_exec(&box, "s", "echo $X", &l);
	assert_string_equal(buf_str(&l.out),
			    "0.1.2.3.4.5.6.7.8.9.10.11.12.13.14.15.16.17.18.19.\n");
}

static void a_known_command_runs_once(void **state)
{
	struct task_info t;

	(void)state;
	for (int i = 0; i < 3; i++) {
		assert_int_equal(agent_task_exec(box.sock, "s", "same", "N=$N.", 0, 0, &t, NULL),
				 0);
		task_info_done(&t);
	}
	says("echo $N", 0, ".\n");
}

static void a_background_job_keeps_no_command_waiting(void **state)
{
	struct task_info t;
	int64_t began = clock_mono_ms();

	(void)state;
	assert_int_equal(agent_task_exec(box.sock, "s", "bg", "(sleep 0.5; echo late) & echo early",
					 0, 0, NULL, NULL),
			 0);
	taskbox_wait(&box, "bg", &t);
	assert_true(clock_mono_ms() - began < 400);
	assert_int_equal(t.out_total, 6);
	task_info_done(&t);
	says("echo other", 0, "other\n");
	for (int i = 0; i < 200 && t.out_total < 11; i++) {
		poll(NULL, 0, 10);
		taskbox_get(&box, "bg", &t);
		task_info_done(&t);
	}
	assert_int_equal(t.out_total, 11);
}

static void the_last_byte_is_there_before_the_status(void **state)
{
	(void)state;
	for (int i = 0; i < 30; i++) {
		auto_tasklog struct taskbox_log l, again;

		taskbox_exec(&box, "s", "seq 1 20000; printf end", &l);
		assert_int_equal(l.out.len, 108894 + 3);
		assert_string_equal(buf_str(&l.out) + l.out.len - 3, "end");
		taskbox_read(&box, l.end.id, &again);
		assert_int_equal(again.out.len, l.out.len);
	}
}

/* ---- limits and kills ---- */

static void exec_with_limit(const char *id, const char *text, int64_t ms, struct task_info *ret)
{
	assert_int_equal(agent_task_exec(box.sock, "s", id, text, 0, ms, NULL, NULL), 0);
	taskbox_wait(&box, id, ret);
	task_info_done(ret);
}

static void a11_a_time_limit_spares_session_and_earlier_jobs(void **state)
{
	int64_t began = clock_mono_ms();
	struct task_info t;

	(void)state;
	says("sleep 301 & JOB=$!", 0, "");
	exec_with_limit("lim", "(setsid sleep 302 &); sleep 303", 300, &t);
	assert_int_equal(t.cause, TASK_TIMED_OUT);
	assert_true(clock_mono_ms() - began < 3000);
	says("kill -0 $JOB && echo lives", 0, "lives\n");
	assert_int_equal(agentbox_processes(&box, false), 2); /* the shell and the job */
	says("kill -9 $JOB; wait $JOB 2>/dev/null; echo ok", 0, "ok\n");
}

static void a_command_that_computes_beyond_its_limit_ends_the_session(void **state)
{
	struct task_info t;

	(void)state;
	exec_with_limit("loop", "while :; do :; done", 200, &t);
	assert_int_equal(t.cause, TASK_TIMED_OUT);
	is_over("s");
}

static void a_list_of_sleeps_is_killed_whole(void **state)
{
	struct task_info t;

	(void)state;
	exec_with_limit("many", "sleep 300; sleep 300; sleep 300", 200, &t);
	assert_int_equal(t.cause, TASK_TIMED_OUT);
	says("echo ok", 0, "ok\n");
}

static void a_kill_of_a_command_leaves_the_session(void **state)
{
	struct task_info t;

	(void)state;
	assert_int_equal(
		agent_task_exec(box.sock, "s", "k1", "echo up; sleep 300", 0, 0, NULL, NULL), 0);
	assert_int_equal(agent_task_exec(box.sock, "s", "k2", "echo never", 0, 0, NULL, NULL), 0);
	taskbox_expect(&box, "k1", "up\n");
	assert_int_equal(agent_task_kill(box.sock, "k2", 0, &t, NULL), 0);
	assert_int_equal(t.cause, TASK_KILLED);
	assert_int_equal(t.out_total, 0);
	task_info_done(&t);
	assert_int_equal(agent_task_kill(box.sock, "k1", 500, &t, NULL), 0);
	assert_int_equal(t.cause, TASK_KILLED);
	task_info_done(&t);
	says("echo ok", 0, "ok\n");
}

static void a_removed_session_takes_everything_along(void **state)
{
	(void)state;
	taskbox_session(&box, "x", "dev");
	taskbox_says(&box, "x",
		     "(trap '' TERM HUP; while :; do sleep 1; done) & setsid sleep 300 &", 0, "");
	assert_int_equal(agent_task_exec(box.sock, "x", "xr", "sleep 300", 0, 0, NULL, NULL), 0);
	taskbox_remove(&box, "x");
	assert_int_equal(agentbox_processes(&box, false), 1); /* the shell of the other one */
	taskbox_session(&box, "x", "dev");
	taskbox_says(&box, "x", "echo again", 0, "again\n");
	taskbox_remove(&box, "x");
}

/* ---- input ---- */

static void input_reaches_a_command(void **state)
{
	auto_tasklog struct taskbox_log l;

	(void)state;
	assert_int_equal(agent_task_exec(box.sock, "s", "in", "read a; echo got $a; cat",
					 TASK_STDIN | TASK_ECHO, 0, NULL, NULL),
			 0);
	taskbox_write(&box, "in", "one\n", false);
	taskbox_expect(&box, "in", "got one\n");
	taskbox_write(&box, "in", "two\n", true);
	taskbox_follow(&box, "in", 0, 0, &l);
	assert_int_equal(l.end.code, 0);
	assert_non_null(strstr(buf_str(&l.out), "one\n"));
	assert_non_null(strstr(buf_str(&l.out), "two\n"));
}

static void input_that_ends_at_once_is_an_end(void **state)
{
	auto_tasklog struct taskbox_log l;

	(void)state;
	assert_int_equal(agent_task_exec(box.sock, "s", "i0", "sleep 0.1", 0, 0, NULL, NULL), 0);
	assert_int_equal(
		agent_task_exec(box.sock, "s", "i1", "cat; echo done", TASK_STDIN, 0, NULL, NULL),
		0);
	taskbox_write(&box, "i1", "", true);
	taskbox_follow(&box, "i1", 0, 0, &l);
	assert_string_equal(buf_str(&l.out), "done\n");
}

static void a_command_without_input_is_at_its_end(void **state)
{
	struct err err;

	(void)state;
	says("cat; echo end", 0, "end\n");
	assert_int_equal(agent_task_exec(box.sock, "s", "no", "sleep 0.2", 0, 0, NULL, NULL), 0);
	assert_int_equal(agent_task_write(box.sock, "no", "x", 1, false, -1, clock_mono_ms() + 5000,
					  NULL, &err),
			 -1);
	assert_int_equal(err.code, ERR_CONFLICT);
}

/* ---- tampering ---- */

static void forged_statuses_are_noise(void **state)
{
	(void)state;
	says("for f in /dev/.caisson/*s; do echo 77 0 > $f; echo junk > $f; echo 99999999999999 > "
	     "$f; "
	     "head -c 5000 /dev/zero > $f; echo > $f; done; echo out; exit_code() { return 5; }; "
	     "exit_code",
	     5, "out\n");
	says("echo ok", 0, "ok\n");
}

static void a_removed_directory_ends_what_ran(void **state)
{
	auto_tasklog struct taskbox_log l;

	(void)state;
	taskbox_session(&box, "idle", "");
	taskbox_says(&box, "idle", "X=kept", 0, "");
	taskbox_session(&box, "y", "");
	taskbox_exec(&box, "y", "rm -rf /dev/.caisson", &l);
	assert_true(l.end.signaled);
	is_over("y");
	taskbox_says(&box, "idle", "echo $X", 0, "kept\n");
	taskbox_session(&box, "w", "dev");
	taskbox_says(&box, "w", "echo b", 0, "b\n");
	taskbox_remove(&box, "w");
	taskbox_remove(&box, "y");
	taskbox_remove(&box, "idle");
}

static void a_foreign_user_cannot_open_the_streams(void **state)
{
	auto_tasklog struct taskbox_log l;

	(void)state;
	taskbox_session(&box, "o", "1002");
	assert_int_equal(
		agent_task_exec(box.sock, "o", "or", "sleep 0.5; echo mine", 0, 0, NULL, NULL), 0);
	taskbox_session(&box, "d", "dev");
	taskbox_exec(&box, "d",
		     "ls /dev/.caisson; for i in 1 2 3 4 5 6 7 8 9; do "
		     "echo 1 0 > /dev/.caisson/$i.0s; done",
		     &l);
	assert_int_equal(l.out.len, 0);
	taskbox_remove(&box, "d");
	taskbox_remove(&box, "o");
}

#define S(f) cmocka_unit_test_setup_teardown(f, session_up, session_down)
#define SESSION_TESTS                                                                              \
	S(state_persists), S(streams_are_separate), S(a1_a_heredoc_returns_at_once),               \
		S(unbalanced_text_leaves_the_session_alive), S(odd_text_is_run_as_it_is),          \
		S(a_large_command_is_taken_whole), S(what_ends_the_shell_is_told),                 \
		S(a3_commands_behind_a_dead_shell_are_lost_not_silent),                            \
		S(a3_files_of_the_shell_are_not_read), S(parallel_calls_queue_in_order),           \
		S(a_known_command_runs_once), S(a_background_job_keeps_no_command_waiting),        \
		S(the_last_byte_is_there_before_the_status),                                       \
		S(a11_a_time_limit_spares_session_and_earlier_jobs),                               \
		S(a_command_that_computes_beyond_its_limit_ends_the_session),                      \
		S(a_list_of_sleeps_is_killed_whole), S(a_kill_of_a_command_leaves_the_session),    \
		S(a_removed_session_takes_everything_along), S(input_reaches_a_command),           \
		S(input_that_ends_at_once_is_an_end), S(a_command_without_input_is_at_its_end),    \
		S(forged_statuses_are_noise), S(a_removed_directory_ends_what_ran),                \
		S(a_foreign_user_cannot_open_the_streams)

int main(void)
{
	const struct CMUnitTest tests[] = {SESSION_TESTS};
	int rc;

	if (!agentbox_possible()) {
		printf("skipped: needs root, busybox and build/caisson-init\n");
		return 77;
	}
	signal(SIGPIPE, SIG_IGN);
	rc = cmocka_run_group_tests_name("session of busybox", tests, box_busybox, box_end);
	rc |= cmocka_run_group_tests_name("session of bash", tests, box_bash, box_end);
	rc |= cmocka_run_group_tests_name("session of dash", tests, box_dash, box_end);
	return rc;
}
