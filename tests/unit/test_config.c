/*
 * test_config.c - facts about the settings table. The module belongs to the program, not to the
 * library, so it is included here.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "main/config.c"
#include "main/config_check.c"

static int load(struct config *c, struct err *err, const char *a, const char *b)
{
	char *argv[] = {(char *)"caissond", (char *)a, (char *)b, NULL};

	return config_load(c, a ? (b ? 3 : 2) : 1, argv, err);
}

static void flag_beats_environment_beats_file_beats_default(void **state)
{
	char path[] = "/tmp/caisson-conf-XXXXXX", flag[64];
	int fd = mkstemp(path);
	struct config c;
	struct err err = {0};

	(void)state;
	assert_true(fd >= 0);
	assert_true(dprintf(fd, "# comment\nregion = file\nwarm-pool = 3\nnet-pool=4\n") > 0);
	close(fd);
	snprintf(flag, sizeof(flag), "--config=%s", path);
	setenv("CAISSON_REGION", "env", 1);
	setenv("CAISSON_WARM_POOL", "5", 1);
	assert_int_equal(load(&c, &err, flag, "--region=flag"), 0);
	assert_string_equal(c.region, "flag");
	assert_int_equal(c.warm_pool, 5);
	assert_int_equal(c.net_pool, 4);
	assert_string_equal(c.listen, "127.0.0.1:3986");
	config_done(&c);
	unsetenv("CAISSON_REGION");
	unsetenv("CAISSON_WARM_POOL");
	unlink(path);
}

static void e10_bad_values_name_the_setting_and_the_rule(void **state)
{
	static const struct {
		const char *flag, *text;
	} bad[] = {
		{"--warm-pool=-1", "warm-pool: -1 is outside 0 to 1000"},
		{"--warm-pool=99999999999999999999", "is not a whole number"},
		{"--warm-pool=5x", "is not a whole number"},
		{"--warm-pool=", "is not a whole number"},
		{"--disk-low=9999999T", "is not a whole number"},
		{"--on-exit=explode", "must be one of keep|destroy"},
		{"--on-exit=keep|destroy", "must be one of"},
		{"--no-such=1", "unknown flag --no-such"},
		{"--listen", "--listen needs a value"},
		{"stray", "unexpected argument"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct config c;
		struct err err = {0};

		assert_int_equal(load(&c, &err, bad[i].flag, NULL), -1);
		assert_int_equal(err.code, ERR_INVALID);
		if (!strstr(err.msg, bad[i].text))
			fail_msg("%s gave: %s", bad[i].flag, err.msg);
		config_done(&c);
	}
}

static void values_a_role_would_trip_over_are_refused_at_once(void **state)
{
	static const struct {
		const char *flag, *text; /* NULL: fine */
	} row[] = {
		{"--listen=127.0.0.1:99999", "port of 0 to 65535"},
		{"--listen=nonsense", "is not HOST:PORT"},
		{"--listen=[::1]:0", NULL},
		{"--listen=:3986", NULL},
		{"--public-url=foo", "public-url: \"foo\""},
		{"--public-url=http://", "public-url"},
		{"--public-url=https://a.example/caisson", NULL},
		{"--trusted-proxies=10.0.0.1, ::1", NULL},
		{"--trusted-proxies=10.0.0.1,proxy", "trusted-proxies: \"proxy\""},
		{"--resolvers=9.9.9.9#53,2620:fe::fe", NULL},
		{"--resolvers=9.9.9.9#0", "resolvers"},
		{"--resolvers=dns.example", "resolvers"},
		{"--net-allow-ranges=10.1.0.0/16,fd00::/8", NULL},
		{"--net-allow-ranges=10.1.0.0/33", "net-allow-ranges"},
		{"--region=.", "region"},
		{"--region=eu-1", NULL},
		{"--admin-key=short", "admin-key: must be dtn_ and 64 lower-case hex digits"},
		{"--tls-key=/k", "one needs the other"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		struct config c;
		struct err err = {0};

		assert_int_equal(load(&c, &err, row[i].flag, NULL), 0);
		assert_int_equal(config_check(&c, &err), row[i].text ? -1 : 0);
		if (row[i].text && !strstr(err.msg, row[i].text))
			fail_msg("%s gave: %s", row[i].flag, err.msg);
		config_done(&c);
	}
}

static void byte_sizes_take_units(void **state)
{
	struct config c;

	(void)state;
	assert_int_equal(load(&c, NULL, "--disk-low", "2g"), 0);
	assert_int_equal(c.disk_low, INT64_C(2) << 30);
	config_done(&c);
}

static void every_row_has_a_text_and_a_default_that_passes_its_own_rule(void **state)
{
	struct config c = {0};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(config_rows); i++) {
		assert_true(strlen(config_rows[i].doc) > 10);
		if (config_rows[i].def)
			assert_int_equal(config_set(&c, &config_rows[i], config_rows[i].def, NULL),
					 0);
	}
	config_done(&c);
}

static void the_admin_key_is_never_printed(void **state)
{
	struct config c;
	char *text = NULL;
	size_t n = 0;
	FILE *f = open_memstream(&text, &n);

	(void)state;
	assert_int_equal(load(&c, NULL, "--admin-key", "dtn_secret"), 0);
	config_print(&c, f);
	fclose(f);
	assert_null(strstr(text, "dtn_secret"));
	assert_non_null(strstr(text, "admin-key = (set)"));
	free(text);
	config_done(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(flag_beats_environment_beats_file_beats_default),
		cmocka_unit_test(e10_bad_values_name_the_setting_and_the_rule),
		cmocka_unit_test(values_a_role_would_trip_over_are_refused_at_once),
		cmocka_unit_test(byte_sizes_take_units),
		cmocka_unit_test(every_row_has_a_text_and_a_default_that_passes_its_own_rule),
		cmocka_unit_test(the_admin_key_is_never_printed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
