/*
 * test_cli_opt.c - options of the command line, from the tables the commands use.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "cli/opt.h"

struct args {
	bool flag;
	const char *text;
	int64_t number, time, mins;
	struct kv kv;
	struct opt_list list;
};

#define A(field) offsetof(struct args, field)
static const struct opt rows[] = {
	{'f', "flag", NULL, "h", OPT_FLAG, A(flag)},
	{'t', "text", "T", "h", OPT_STR, A(text)},
	{'n', "number", "N", "h", OPT_INT, A(number)},
	{0, "time", "T", "h", OPT_SECS, A(time)},
	{0, "mins", "T", "h", OPT_MINS, A(mins)},
	{'e', "env", "K=V", "h", OPT_ENV, A(kv)},
	{0, "label", "K=V", "h", OPT_KV, A(kv)},
	{'l', "list", "L", "h", OPT_LIST, A(list)},
	{.kind = OPT_END},
};
static const struct cmd plain = {"plain", "", "h", rows, false, NULL};
static const struct cmd prog = {"prog", "", "h", rows, true, NULL};

#define PARSE(cmd_, ...)                                                                           \
	char *argv[] = {__VA_ARGS__, NULL};                                                        \
	struct cli c = {.cmd = (cmd_)};                                                            \
	struct args a = {0};                                                                       \
	struct err err = {0};                                                                      \
	int left = opt_parse(&c, (int)ARRAY_LEN(argv) - 1, argv, &a, &err)

static void all_kinds_are_read(void **state)
{
	(void)state;
	PARSE(&plain, "x", "-ft", "one", "--number=7", "--time", "1.5m", "--mins", "1h", "-eA=1=2",
	      "-l", "p", "-lq", "--json", "y");
	assert_int_equal(left, 2);
	assert_string_equal(argv[0], "x");
	assert_string_equal(argv[1], "y");
	assert_true(a.flag && c.json);
	assert_string_equal(a.text, "one");
	assert_int_equal(a.number, 7);
	assert_int_equal(a.time, 90000);
	assert_int_equal(a.mins, 3600000);
	assert_string_equal(kv_get(&a.kv, "A"), "1=2");
	assert_int_equal(a.list.n, 2);
	kv_done(&a.kv);
}

static void the_key_of_this_machine_goes_to_no_other_address(void **state)
{
	char *argv[] = {(char *)"--url", (char *)"http://other.example/api", NULL};
	struct cli local = {.cmd = &plain, .key = "dtn_local", .key_local = true};
	struct cli given = {.cmd = &plain, .key = "dtn_given"};
	struct args a = {0};

	(void)state;
	assert_int_equal(opt_parse(&local, 2, argv, &a, NULL), 0);
	assert_null(local.key);
	assert_int_equal(opt_parse(&given, 2, argv, &a, NULL), 0);
	assert_string_equal(given.key, "dtn_given");
	free(local.url_heap);
	free(given.url_heap);
}

static void numbers_not_given_are_unset(void **state)
{
	(void)state;
	PARSE(&plain, "x");
	assert_int_equal(left, 1);
	assert_true(a.number == OPT_UNSET && a.time == OPT_UNSET && a.mins == OPT_UNSET);
}

static void options_of_the_program_are_its_own(void **state)
{
	(void)state;
	PARSE(&prog, "-f", "box", "ls", "-t", "--flag", "--", "-x");
	assert_int_equal(left, 6);
	assert_string_equal(argv[2], "-t");
	assert_string_equal(argv[4], "--");
	assert_null(a.text);
}

static void dashes_behind_the_sandbox_are_eaten_once(void **state)
{
	(void)state;
	PARSE(&prog, "box", "--", "--", "ls");
	assert_int_equal(left, 3);
	assert_string_equal(argv[1], "--");
}

static void single_dash_is_an_argument(void **state)
{
	(void)state;
	PARSE(&plain, "-", "x");
	assert_int_equal(left, 2);
}

static void faults_are_named(void **state)
{
	static const struct {
		const char *word[2];
		const char *text;
	} row[] = {
		{{"--nope"}, "unknown option --nope"},
		{{"-Z"}, "unknown option -Z"},
		{{"--flag=1"}, "--flag takes no value"},
		{{"--text"}, "--text needs T"},
		{{"--number", "-3"}, "--number: \"-3\" is not a whole number >= 0"},
		{{"--number", "99999999999999999999"},
		 "--number: \"99999999999999999999\" is not a whole number >= 0"},
		{{"--time", "soon"}, "--time: \"soon\" is not a time like 90, 1.5s, 2m or 1h"},
		{{"--time", "nan"}, "--time: \"nan\" is not a time like 90, 1.5s, 2m or 1h"},
		{{"--mins", "90s"}, "--mins: \"90s\" is not whole minutes, as 2m or 1h are"},
		{{"--mins", "1"}, "--mins: \"1\" is not whole minutes, as 2m or 1h are"},
		{{"--label", "team"}, "--label: \"team\" is not KEY=VALUE"},
		{{"--env", "=1"}, "--env: \"=1\" is not KEY=VALUE"},
		{{"--env", "CAISSON_TEST_UNSET"},
		 "--env: CAISSON_TEST_UNSET is not in the environment"},
	};
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		char *argv[] = {(char *)row[i].word[0], (char *)row[i].word[1], NULL};
		struct cli c = {.cmd = &plain};
		struct args a = {0};
		struct err err = {0};
		assert_int_equal(opt_parse(&c, row[i].word[1] ? 2 : 1, argv, &a, &err), -1);
		assert_int_equal(err.code, ERR_INVALID);
		assert_string_equal(err.msg, row[i].text);
		kv_done(&a.kv);
	}
}

static void every_command_has_distinct_options(void **state)
{
	(void)state;
	for (size_t i = 0; i < cli_ncommands; i++) {
		const struct opt *o = cli_commands[i].opts;
		for (size_t j = 0; o[j].kind != OPT_END; j++) {
			assert_true((o[j].kind == OPT_FLAG) == (o[j].arg == NULL));
			for (size_t k = 0; k < j; k++) {
				assert_string_not_equal(o[j].name, o[k].name);
				assert_true(!o[j].letter || o[j].letter != o[k].letter);
			}
			for (size_t k = 0; opt_global[k].kind != OPT_END; k++) {
				assert_string_not_equal(o[j].name, opt_global[k].name);
				assert_true(!o[j].letter || o[j].letter != opt_global[k].letter);
			}
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_kinds_are_read),
		cmocka_unit_test(the_key_of_this_machine_goes_to_no_other_address),
		cmocka_unit_test(numbers_not_given_are_unset),
		cmocka_unit_test(options_of_the_program_are_its_own),
		cmocka_unit_test(dashes_behind_the_sandbox_are_eaten_once),
		cmocka_unit_test(single_dash_is_an_argument),
		cmocka_unit_test(faults_are_named),
		cmocka_unit_test(every_command_has_distinct_options),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
