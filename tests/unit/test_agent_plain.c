/*
 * test_agent_plain.c - commands that run without the shell they were given for (root only). The
 * shell itself is the oracle. The bash of the default image has tests/api/test_plain.py.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/scope.h"
#include "unit/agentbox.h"

static struct agentbox box;

#define auto_result auto_call(agentbox_result_done)

static int box_up(void **state)
{
	(void)state;
	return agentbox_start(&box, 0);
}

static int box_up_without_sh(void **state)
{
	(void)state;
	return agentbox_start(&box, AGENTBOX_NO_SHELL);
}

static int box_down(void **state)
{
	(void)state;
	agentbox_stop(&box);
	return 0;
}

/* The lines in order: a shell mixes up its environment. */
static int line_order(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void lines_sort(char *text)
{
	char *line[256], *copy = strdup(text), *save = NULL;
	size_t n = 0;

	for (char *p = strtok_r(copy, "\n", &save); p && n < ARRAY_LEN(line);
	     p = strtok_r(NULL, "\n", &save))
		line[n++] = p;
	qsort(line, n, sizeof(*line), line_order);
	*text = '\0';
	for (size_t i = 0; i < n; i++)
		text = stpcpy(stpcpy(text, line[i]), i + 1 < n ? "\n" : "");
	free(copy);
}

static void same_as_shell(const char *text, const char *const *env)
{
	const char *const plain[] = {text, NULL};
	const char *const shell[] = {"sh", "-c", text, NULL};
	struct agentbox_run a = {.argv = plain, .env = env, .user = "dev", .flags = SPAWN_SHELL};
	struct agentbox_run b = {.argv = shell, .env = env, .user = "dev"};
	auto_result struct agentbox_result got, want;

	assert_int_equal(agentbox_exec(&box, &a, &got, NULL), 0);
	assert_int_equal(agentbox_exec(&box, &b, &want, NULL), 0);
	lines_sort(got.out);
	lines_sort(want.out);
	assert_string_equal(got.out, want.out);
	assert_string_equal(got.err, want.err);
	assert_int_equal(got.exit.code, want.exit.code);
	assert_int_equal(got.exit.signaled, want.exit.signaled);
}

static void a_command_is_what_its_shell_makes_of_it(void **state)
{
	static const char *const text[] = {
		"/bin/env",
		"/bin/ls -la /etc /nosuch",
		"  /bin/echo	a=b  %1 x,y:z @+ -- - ",
		"/bin/printf %s,%s a b",
		"/bin/readlink /proc/self/exe",
		"/bin/cat /proc/self/cmdline",
		"/bin/cat /proc/self/comm",
		"/bin/pwd",
		"/nosuch/file a",
		"/etc/passwd",
		"/etc",
		"/etc/passwd/x",
		"nosuchcommand -x",
		"env",
		"A=b /bin/env",
		"/bin/echo ~ {a,b} *",
		"/bin/echo 'a b' \"c\" \\d $HOME `id -u`",
		"/bin/echo a;/bin/echo b",
		"/bin/echo a # b",
		"/bin/echo a\n/bin/echo b",
		"! /bin/true",
		"./nosuch",
		"%1",
		"-c",
		"/script",
		"/shebang x y",
	};

	(void)state;
	agentbox_write(&box, "/script", "echo no shebang $0 $#\n", 0755, 0);
	agentbox_write(&box, "/shebang", "#!/bin/sh\necho shebang $0 $#\n", 0755, 0);
	for (size_t i = 0; i < ARRAY_LEN(text); i++)
		same_as_shell(text[i], NULL);
}

static void variables_of_the_shell_are_left_to_it(void **state)
{
	static const char *const one[] = {
		"PWD=/bin", "SHLVL=7",		"OLDPWD=/",	"_=x",
		"IFS=/",    "LC_ALL=xx_YY",	"ENV=/shebang", "A-B=dashed",
		"PS4=x",    "BASH_FUNC_a%%=()", "CDPATH=/"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(one); i++) {
		const char *const env[] = {"SAFE=1", one[i], NULL};

		same_as_shell("/bin/env", env);
	}
	same_as_shell("/bin/env", (const char *const[]){"A=1", "A=2", NULL});
}

static int run_plain(const char *text, struct agentbox_result *ret)
{
	const char *const argv[] = {text, NULL};
	struct agentbox_run run = {.argv = argv, .flags = SPAWN_SHELL};

	return agentbox_exec(&box, &run, ret, NULL);
}

/* With a "bash" that can't run, only what needs none still works. */
static void plain_commands_start_no_shell(void **state)
{
	static const struct {
		const char *text;
		bool plain;
	} row[] = {
		{"/bin/echo a b", true},	 {"env", true},		  {"ls -la /", true},
		{"/bin/echo a; true", false},	 {"echo a", false},	  {"true", false},
		{"A=1 /bin/env", false},	 {"/bin/echo $A", false}, {"time /bin/env", false},
		{"/bin/echo a > /tmp/x", false}, {"/nosuch", false},	  {"nosuch", false},
	};

	(void)state;
	agentbox_write(&box, "/bin/bash", "\177ELF, but no program", 0755, 0);
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		auto_result struct agentbox_result r;

		if (run_plain(row[i].text, &r) == 0 ? !row[i].plain : row[i].plain)
			fail_msg("%s", row[i].text);
	}
}

/* Whoever puts a script in the shell's place wants it to run. */
static void a_script_in_place_of_the_shell_runs(void **state)
{
	auto_result struct agentbox_result r;

	(void)state;
	agentbox_write(&box, "/bin/bash", "#!/bin/sh\necho wrapped\nexec /bin/sh \"$@\"\n", 0755,
		       0);
	assert_int_equal(run_plain("/bin/echo a", &r), 0);
	assert_string_equal(r.out, "wrapped\na\n");
}

static void what_bash_sets_is_set(void **state)
{
	auto_result struct agentbox_result r;

	(void)state;
	agentbox_write(&box, "/bin/bash", "\177ELF, but no program", 0755, 0);
	assert_int_equal(run_plain("env", &r), 0);
	assert_non_null(strstr(r.out, "PWD=/root\n"));
	assert_non_null(strstr(r.out, "SHLVL=0\n"));
	assert_non_null(strstr(r.out, "_=/bin/env\n"));
	assert_null(strstr(r.out, "OLDPWD"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_command_is_what_its_shell_makes_of_it, box_up,
						box_down),
		cmocka_unit_test_setup_teardown(variables_of_the_shell_are_left_to_it, box_up,
						box_down),
		cmocka_unit_test_setup_teardown(plain_commands_start_no_shell, box_up_without_sh,
						box_down),
		cmocka_unit_test_setup_teardown(a_script_in_place_of_the_shell_runs, box_up,
						box_down),
		cmocka_unit_test_setup_teardown(what_bash_sets_is_set, box_up, box_down),
	};

	if (!agentbox_possible())
		return 0;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
