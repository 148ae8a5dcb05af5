/*
 * test_agent_exec.c - one command: streams, terminals, working directory, users, what it inherits.
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

static int box_end(void **state)
{
	(void)state;
	agentbox_stop(&box);
	return 0;
}

#define auto_result auto_call(agentbox_result_done)

static void sh_is(const char *text, const char *out)
{
	agentbox_says(&box, text, out);
}

/* Nothing but init within 5 s. */
static void assert_empty(void)
{
	int64_t end = clock_mono_ms() + 5000;

	while (agentbox_processes(&box, false) > 0 && clock_mono_ms() < end)
		poll(NULL, 0, 5);
	assert_int_equal(agentbox_processes(&box, false), 0);
}

static void streams_are_separate_and_the_status_is_told(void **state)
{
	const char *const argv[] = {"echo out; echo err >&2; exit 3", NULL};
	struct agentbox_run run = {.argv = argv, .flags = SPAWN_SHELL};
	auto_result struct agentbox_result r;

	(void)state;
	assert_int_equal(agentbox_exec(&box, &run, &r, NULL), 0);
	assert_string_equal(r.out, "out\n");
	assert_string_equal(r.err, "err\n");
	assert_false(r.exit.signaled);
	assert_int_equal(r.exit.code, 3);
	assert_true(r.exit.maxrss_kib > 0);
}

static void a_death_by_signal_is_told(void **state)
{
	const char *const argv[] = {"kill -15 $$", NULL};
	struct agentbox_run run = {.argv = argv, .flags = SPAWN_SHELL};
	auto_result struct agentbox_result r;

	(void)state;
	assert_int_equal(agentbox_exec(&box, &run, &r, NULL), 0);
	assert_true(r.exit.signaled);
	assert_int_equal(r.exit.code, SIGTERM);
}

static void a10_a_failed_command_is_reported_every_time(void **state)
{
	const char *const argv[] = {"exit 3", NULL};
	struct agentbox_run run = {.argv = argv, .flags = SPAWN_SHELL};

	(void)state;
	for (int i = 0; i < 200; i++) {
		auto_result struct agentbox_result r;

		assert_int_equal(agentbox_exec(&box, &run, &r, NULL), 0);
		assert_int_equal(r.exit.code, 3);
	}
}

static void a15_a_terminal_keeps_the_tail(void **state)
{
	const char *const argv[] = {"seq 1 20000", NULL};
	struct agentbox_run run = {.argv = argv, .flags = SPAWN_SHELL | SPAWN_TTY};

	(void)state;
	for (int i = 0; i < 10; i++) {
		auto_result struct agentbox_result r;
		size_t lines = 0;

		assert_int_equal(agentbox_exec(&box, &run, &r, NULL), 0);
		for (size_t at = 0; at < r.out_len; at++)
			lines += r.out[at] == '\n';
		assert_int_equal(lines, 20000);
		assert_string_equal(r.out + r.out_len - 7, "20000\r\n");
	}
}

static void a16_a_terminal_is_byte_exact(void **state)
{
	static const int sizes[] = {1, 4095, 4096, 4097, 8193, 65537};
	char text[128];
	const char *const argv[] = {text, NULL};
	struct agentbox_run run = {.argv = argv, .flags = SPAWN_SHELL | SPAWN_TTY};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		auto_result struct agentbox_result r;

		snprintf(text, sizeof(text), "yes | head -c %d | busybox tr -d '\\n' ; printf x",
			 sizes[i] * 2);
		assert_int_equal(agentbox_exec(&box, &run, &r, NULL), 0);
		assert_int_equal(r.out_len, sizes[i] + 1);
		assert_int_equal(r.out[r.out_len - 1], 'x');
	}
}

static void a18_a_large_stdin_arrives_whole(void **state)
{
	static char data[8 << 20];
	const char *const argv[] = {"wc", "-c", NULL};
	struct agentbox_run run = {
		.argv = argv, .flags = SPAWN_STDIN, .in = data, .in_len = sizeof(data)};
	auto_result struct agentbox_result r;

	(void)state;
	assert_int_equal(agentbox_exec(&box, &run, &r, NULL), 0);
	assert_int_equal(strtol(r.out, NULL, 10), sizeof(data));
}

static void a18_a_child_that_closes_stdin_ends_the_exec(void **state)
{
	static char data[8 << 20];
	const char *const argv[] = {"true", NULL};
	struct agentbox_run run = {
		.argv = argv, .flags = SPAWN_STDIN, .in = data, .in_len = sizeof(data)};
	auto_result struct agentbox_result r;

	(void)state;
	signal(SIGPIPE, SIG_IGN);
	assert_int_equal(agentbox_exec(&box, &run, &r, NULL), 0);
	assert_int_equal(r.exit.code, 0);
}

static void a21_bytes_pass_unchanged(void **state)
{
	(void)state;
	sh_is("printf 'caf\\303'; printf '\\251\\000a\\r\\n\\n\\n' | busybox tr '\\000' z",
	      "caf\303\251za\r\n\n\n");
}

static void a25_a_chatty_process_costs_the_agent_nothing(void **state)
{
	const char *const argv[] = {"yes", NULL};
	struct agent_spawn s = {.argv = argv, .user = ""};
	struct agent_proc p = AGENT_PROC_INIT;
	char path[64], text[2048];
	const char *at;

	(void)state;
	assert_int_equal(agent_spawn(box.sock, &s, &p, clock_mono_ms() + 5000, NULL), 0);
	poll(NULL, 0, 200); /* nobody reads: the pipe fills and yes waits */
	snprintf(path, sizeof(path), "/proc/%d/status", box.pid);
	{
		auto_fclose FILE *f = fopen(path, "r");

		text[fread(text, 1, sizeof(text) - 1, f)] = '\0';
	}
	at = strstr(text, "VmRSS:");
	assert_non_null(at);
	assert_true(strtol(at + 6, NULL, 10) < 2048);
	agent_proc_done(&p);
	assert_empty();
}

static void a40_a_bad_cwd_is_an_error_that_names_it(void **state)
{
	static const struct {
		const char *cwd, *user;
	} bad[] = {{"/nope", ""},	    {"/etc/passwd", ""},    {"/root/shut", "dev"},
		   {"/proc/self/fd/3", ""}, {"/proc/self/cwd", ""}, {"/proc/1/root", ""},
		   {"relative", ""}};
	const char *const argv[] = {"true", NULL};

	(void)state;
	sh_is("mkdir -p /root/shut; chmod 700 /root", "");
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct agentbox_run run = {.argv = argv, .cwd = bad[i].cwd, .user = bad[i].user};
		struct agentbox_result r;
		struct err err = {.code = ERR_NONE};

		assert_int_equal(agentbox_exec(&box, &run, &r, &err), -1);
		assert_int_equal(err.code, ERR_INVALID);
		assert_non_null(strstr(err.msg, bad[i].cwd[0] == '/' ? bad[i].cwd : "cwd"));
	}
}

static void a41_a_lost_workdir_falls_back_and_says_so(void **state)
{
	const char *const argv[] = {"pwd", NULL};
	struct agentbox_run run = {
		.argv = argv, .cwd = "/home/dev/work", .user = "dev", .flags = SPAWN_CWD_FALLBACK};
	struct agentbox_result r;

	(void)state;
	assert_int_equal(agentbox_exec(&box, &run, &r, NULL), 0);
	assert_true(r.proc.cwd_fell_back);
	assert_string_equal(r.proc.cwd, "/home/dev");
	assert_string_equal(r.out, "/home/dev\n");
	agentbox_result_done(&r);
	sh_is("ln -s /tmp /home/dev/work", "");
	assert_int_equal(agentbox_exec(&box, &run, &r, NULL), 0);
	assert_false(r.proc.cwd_fell_back);
	assert_string_equal(r.proc.cwd, "/tmp");
	agentbox_result_done(&r);
	run.user = "nohome";
	run.cwd = NULL;
	assert_int_equal(agentbox_exec(&box, &run, &r, NULL), 0);
	assert_true(r.proc.cwd_fell_back);
	assert_string_equal(r.proc.cwd, "/");
	agentbox_result_done(&r);
}

static void a45_supplementary_groups_are_there(void **state)
{
	const char *const argv[] = {"id -u; id -g; id -G", NULL};
	struct agentbox_run run = {.argv = argv, .user = "dev", .flags = SPAWN_SHELL};
	auto_result struct agentbox_result r;

	(void)state;
	assert_int_equal(agentbox_exec(&box, &run, &r, NULL), 0);
	assert_string_equal(r.out, "1000\n1000\n1000 27 999\n");
}

static void a46_home_user_and_path_are_as_docker_gives(void **state)
{
	static const struct {
		const char *user, *out;
	} rows[] = {
		{"", "/root root 0 0 0"},
		{"root", "/root root 0 0 0"},
		{"0", "/root root 0 0 0"},
		{"dev", "/home/dev dev 1000 1000 1000 27 999"},
		{"1000", "/home/dev dev 1000 1000 1000 27 999"},
		{"1000:999", "/home/dev dev 1000 999 999"},
		{"dev:sudo", "/home/dev dev 1000 27 27"},
		{"4242", "/ 4242 4242 0 0"},
		{"4242:4243", "/ 4242 4242 4243 4243"},
		{"1003", "/ 1003 1003 0 0"}, /* never the account that is called 1003 */
	};
	const char *const argv[] = {
		"printf '%s' \"$HOME $USER $(id -u) $(id -g) $(id -G)\"; test \"$PATH\"", NULL};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct agentbox_run run = {
			.argv = argv, .user = rows[i].user, .flags = SPAWN_SHELL};
		auto_result struct agentbox_result r;

		assert_int_equal(agentbox_exec(&box, &run, &r, NULL), 0);
		assert_string_equal(r.out, rows[i].out);
		assert_int_equal(r.exit.code, 0);
	}
}

static void cve_2026_30892_odd_users_are_refused(void **state)
{
	static const char *const bad[] = {"0x0",     "-1",	 "4294967295",	"4294967296",
					  "1:0:0",   " root",	 "root ",	"+1",
					  "1 ",	     "dev:",	 ":dev",	"00",
					  "01",	     "nobody42", "dev:nogroup", "2147483648",
					  "1000:-1", "a/b",	 "root\n"};
	const char *const argv[] = {"true", NULL};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct agentbox_run run = {.argv = argv, .user = bad[i]};
		struct agentbox_result r;
		struct err err = {.code = ERR_NONE};
		struct agent_user u;

		/* A passwd line that is called so would be refused by nobody but the parser. */
		if (strcmp(bad[i], "0x0") == 0)
			continue;
		assert_int_equal(agentbox_exec(&box, &run, &r, &err), -1);
		assert_int_equal(err.code, ERR_INVALID);
		assert_int_equal(agent_user(box.sock, bad[i], &u, &err), -1);
	}
}

static void a_terminal_has_its_size_and_takes_another(void **state)
{
	const char *const argv[] = {"stty size; read x; stty size; tty", NULL};
	struct agent_spawn s = {.argv = argv,
				.user = "dev",
				.flags = SPAWN_SHELL | SPAWN_TTY,
				.cols = 100,
				.rows = 30};
	struct agent_proc p = AGENT_PROC_INIT;
	char text[512];
	size_t n = 0;
	struct pollfd f;

	(void)state;
	assert_int_equal(agent_spawn(box.sock, &s, &p, clock_mono_ms() + 5000, NULL), 0);
	f = (struct pollfd){.fd = p.out, .events = POLLIN};
	while (!memchr(text, '\n', n) && poll(&f, 1, 5000) > 0)
		n += (size_t)read(p.out, text + n, sizeof(text) - n);
	assert_int_equal(agent_proc_resize(&p, 132, 43, NULL), 0);
	/* The frame goes before the key in time but by another way: ask again for the size. */
	poll(NULL, 0, 50);
	assert_int_equal(write(p.out, "\n", 1), 1);
	while (poll(&f, 1, 5000) > 0) {
		ssize_t got = read(p.out, text + n, sizeof(text) - 1 - n);

		if (got <= 0)
			break;
		n += (size_t)got;
	}
	text[n] = '\0';
	assert_non_null(strstr(text, "30 100"));
	assert_non_null(strstr(text, "43 132"));
	assert_non_null(strstr(text, "/dev/pts/"));
	agent_proc_done(&p);
}

static void missing_programs_are_named(void **state)
{
	const char *const argv[] = {"no-such-program", NULL};
	const char *const text[] = {"no-such-program", NULL};
	const char *const plain[] = {"/etc/passwd", NULL};
	const char *const empty[] = {"", NULL};
	struct agentbox_run run = {.argv = argv};
	struct err err = {.code = ERR_NONE};
	struct agentbox_result r;

	(void)state;
	assert_int_equal(agentbox_exec(&box, &run, &r, &err), -1);
	assert_int_equal(err.code, ERR_NOT_FOUND);
	assert_non_null(strstr(err.msg, "no-such-program"));
	run.argv = plain;
	assert_int_equal(agentbox_exec(&box, &run, &r, &err), -1);
	assert_int_equal(err.code, ERR_FORBIDDEN);
	run.argv = empty;
	assert_int_equal(agentbox_exec(&box, &run, &r, &err), -1);
	assert_int_equal(err.code, ERR_INVALID);
	run.argv = text;
	run.flags = SPAWN_SHELL;
	assert_int_equal(agentbox_exec(&box, &run, &r, &err), 0);
	assert_int_equal(r.exit.code, 127);
	agentbox_result_done(&r);
}

static void commands_inherit_nothing_of_the_agent(void **state)
{
	(void)state;
	/* The fourth is the directory that ls reads; the shell's own count changes as it pipes. */
	sh_is("ls /proc/self/fd | wc -l", "4\n");
	sh_is("grep -E 'SigIgn|SigBlk' /proc/self/status | busybox tr -s '\\t' ' '",
	      "SigBlk: 0000000000000000\nSigIgn: 0000000000000000\n");
	sh_is("cat /proc/self/oom_score_adj; umask", "500\n0022\n");
	/* Ours is raised for the moment of a birth only. */
	sh_is("sleep 0.05; cat /proc/1/oom_score_adj", "0\n");
	sh_is("env | grep -v -E '^(PWD|SHLVL|_)=' | busybox sort",
	      "HOME=/root\nLOGNAME=root\nPATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:"
	      "/sbin:/bin\nSHELL=/bin/sh\nUSER=root\n");
}

static void the_agent_is_out_of_reach(void **state)
{
	(void)state;
	/* The numbers of its descriptors may be seen, not where they lead. */
	sh_is("for f in 0 3 4 5 6 7 8; do readlink /proc/1/fd/$f; cat /proc/1/fd/$f; done "
	      "2>/dev/null;"
	      "ls /proc/1/fd/5 2>/dev/null >&2; readlink /proc/1/exe; readlink /proc/1/root;"
	      "cat /proc/1/maps /proc/1/mem 2>/dev/null; "
	      "kill -9 1; kill -STOP 1; kill -TERM 1; cat /proc/1/environ 2>/dev/null; echo end",
	      "end\n");
	assert_int_equal(agent_hello(box.sock, clock_mono_ms() + 1000, NULL), 0);
}

static void a43_no_shell_is_a_clear_error(void **state)
{
	const char *const argv[] = {"busybox", "echo", "hi", NULL};
	const char *const text[] = {"echo hi", NULL};
	struct agentbox_run run = {.argv = argv};
	struct err err = {.code = ERR_NONE};
	struct agentbox_result r;

	(void)state;
	assert_int_equal(agentbox_exec(&box, &run, &r, &err), 0);
	assert_string_equal(r.out, "hi\n");
	agentbox_result_done(&r);
	run.argv = text;
	run.flags = SPAWN_SHELL;
	assert_int_equal(agentbox_exec(&box, &run, &r, &err), -1);
	assert_int_equal(err.code, ERR_NOT_FOUND);
	assert_string_equal(err.tag, "SHELL_NOT_FOUND");
}

static void a46_users_work_without_passwd(void **state)
{
	const char *const argv[] = {"busybox", "env", NULL};
	struct agentbox_run run = {.argv = argv, .user = "1000:1000"};
	auto_result struct agentbox_result r;
	struct err err = {.code = ERR_NONE};

	(void)state;
	assert_int_equal(agentbox_exec(&box, &run, &r, &err), 0);
	assert_non_null(strstr(r.out, "HOME=/\n"));
	agentbox_result_done(&r);
	run.user = "dev";
	assert_int_equal(agentbox_exec(&box, &run, &r, &err), -1);
	assert_int_equal(err.code, ERR_INVALID);
}

static void a46_root_needs_no_passwd(void **state)
{
	static const char *const forms[] = {"", "0", "root", "root:root", "0:0"};
	const char *const argv[] = {"busybox", "id", "-u", NULL};
	struct agentbox_run run = {.argv = argv};
	struct agent_user u;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(forms); i++) {
		auto_result struct agentbox_result r;

		run.user = forms[i];
		assert_int_equal(agentbox_exec(&box, &run, &r, NULL), 0);
		assert_string_equal(r.out, "0\n");
		assert_int_equal(agent_user(box.sock, forms[i], &u, NULL), 0);
		assert_int_equal(u.uid, 0);
		assert_int_equal(u.gid, 0);
		assert_string_equal(u.name, "root");
		assert_string_equal(u.shell, "/bin/sh");
	}
	assert_int_equal(agent_remove(box.sock, "root", "/root", true, NULL), 0);
	assert_int_equal(agent_user(box.sock, "root", &u, NULL), 0);
	assert_string_equal(u.home, "/");
	assert_int_equal(agent_mkdir(box.sock, "root", "/root", 0700, false, NULL), 0);
	assert_int_equal(agent_user(box.sock, "root", &u, NULL), 0);
	assert_string_equal(u.home, "/root");
	assert_int_equal(agent_setattr(box.sock, "root", "/root", NULL, "root", "root", NULL), 0);
}

static int box_bare(void **state)
{
	(void)state;
	return agentbox_start(&box, AGENTBOX_NO_SHELL | AGENTBOX_NO_PASSWD);
}

int main(void)
{
	const struct CMUnitTest plain[] = {
		cmocka_unit_test(streams_are_separate_and_the_status_is_told),
		cmocka_unit_test(a_death_by_signal_is_told),
		cmocka_unit_test(a10_a_failed_command_is_reported_every_time),
		cmocka_unit_test(a15_a_terminal_keeps_the_tail),
		cmocka_unit_test(a16_a_terminal_is_byte_exact),
		cmocka_unit_test(a18_a_large_stdin_arrives_whole),
		cmocka_unit_test(a18_a_child_that_closes_stdin_ends_the_exec),
		cmocka_unit_test(a21_bytes_pass_unchanged),
		cmocka_unit_test(a25_a_chatty_process_costs_the_agent_nothing),
		cmocka_unit_test(a40_a_bad_cwd_is_an_error_that_names_it),
		cmocka_unit_test(a41_a_lost_workdir_falls_back_and_says_so),
		cmocka_unit_test(a45_supplementary_groups_are_there),
		cmocka_unit_test(a46_home_user_and_path_are_as_docker_gives),
		cmocka_unit_test(cve_2026_30892_odd_users_are_refused),
		cmocka_unit_test(a_terminal_has_its_size_and_takes_another),
		cmocka_unit_test(missing_programs_are_named),
		cmocka_unit_test(commands_inherit_nothing_of_the_agent),
		cmocka_unit_test(the_agent_is_out_of_reach),
	};
	const struct CMUnitTest bare[] = {
		cmocka_unit_test(a43_no_shell_is_a_clear_error),
		cmocka_unit_test(a46_users_work_without_passwd),
		cmocka_unit_test(a46_root_needs_no_passwd),
	};

	if (!agentbox_possible()) {
		printf("skipped: needs root, a static /bin/busybox and build/caisson-init\n");
		return 0;
	}
	return cmocka_run_group_tests_name("plain", plain, box_plain, box_end) +
	       cmocka_run_group_tests_name("bare", bare, box_bare, box_end);
}
