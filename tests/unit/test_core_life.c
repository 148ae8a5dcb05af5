/*
 * test_core_life.c - create, start, stop and delete, one after another, over the fake runner.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "unit/corebox.h"

static int setup(void **state)
{
	struct corebox *b = calloc(1, sizeof(*b));

	corebox_init(b);
	corebox_open(b);
	*state = b;
	return 0;
}

static int teardown(void **state)
{
	corebox_done(*state);
	free(*state);
	return 0;
}

static bool nothing_left(void *arg)
{
	struct corebox *b = arg;

	return fake_uppers(b->fake) == 0;
}

static void create_is_started_with_defaults(void **state)
{
	struct corebox *b = *state;
	struct sandbox_spec spec = corebox_spec(NULL);
	struct err err = {0};
	struct sandbox s;

	assert_int_equal(sandbox_create(b->core, &b->who, &spec, -1, &s, &err), 0);
	assert_int_equal(s.state, SB_STARTED);
	assert_int_equal(s.desired, SB_STARTED);
	assert_string_equal(s.name, s.id);
	assert_string_equal(s.snapshot, "caisson-small");
	assert_string_equal(s.user, "daytona");
	assert_int_equal(s.cpu, 1);
	assert_int_equal(s.memory_mib, 1024);
	assert_int_equal(s.disk_gib, 3);
	assert_int_equal(s.auto_stop_min, 15);
	assert_int_equal(s.auto_archive_min, 10080);
	assert_int_equal(s.auto_delete_min, -1);
	assert_true(fake_is_live(b->fake, s.id));
	sandbox_done(&s);
}

static void start_gives_the_runner_the_limits(void **state)
{
	struct corebox *b = *state;
	struct sandbox_spec spec = corebox_spec("x_1.y");
	struct runner_start rs;
	struct err err = {0};
	struct sandbox s;

	spec.cpu = 2;
	spec.memory_mib = 3 * 1024;
	spec.disk_gib = 4;
	spec.network_block_all = true;
	assert_int_equal(sandbox_create(b->core, &b->who, &spec, -1, &s, &err), 0);
	fake_last_start(b->fake, &rs);
	assert_int_equal(rs.cpu_milli, 2000);
	assert_int_equal(rs.mem_bytes, 3ull << 30);
	assert_int_equal(rs.disk_bytes, 4ull << 30);
	assert_int_equal(rs.flags, PRIV_START_NET_BLOCK);
	assert_true(rs.pids_max >= 1024);
	assert_true(rs.nofile >= PRIV_NOFILE_MIN);
	assert_string_equal(s.snapshot, "");
	sandbox_done(&s);
}

static void duplicate_name_is_conflict_that_names_the_id(void **state)
{
	struct corebox *b = *state;
	struct sandbox_spec spec = corebox_spec("box");
	struct err err = {0};
	struct sandbox s;
	char id[ID_LEN];

	corebox_create(b, "box", id);
	assert_int_equal(sandbox_create(b->core, &b->who, &spec, -1, &s, &err), -1);
	assert_int_equal(err.code, ERR_CONFLICT);
	assert_non_null(strstr(err.msg, id));
}

static void name_is_free_at_once_after_delete(void **state)
{
	struct corebox *b = *state;
	struct sandbox s;
	char id[ID_LEN], again[ID_LEN];

	corebox_create(b, "box", id);
	assert_int_equal(sandbox_delete(b->core, &b->who, "box", &s, NULL), 0);
	assert_true(s.state == SB_DESTROYING || s.state == SB_DESTROYED);
	sandbox_done(&s);
	corebox_create(b, "box", again);
	assert_string_not_equal(id, again);
}

static void stop_start_keeps_the_upper(void **state)
{
	struct corebox *b = *state;
	struct err err = {0};
	struct sandbox s;
	char id[ID_LEN];

	corebox_create(b, "box", id);
	assert_int_equal(sandbox_stop(b->core, &b->who, id, false, -1, &s, &err), 0);
	assert_int_equal(s.state, SB_STOPPED);
	assert_int_equal(s.desired, SB_STOPPED);
	sandbox_done(&s);
	assert_false(fake_is_live(b->fake, id));
	assert_int_equal(fake_uppers(b->fake), 1);
	assert_int_equal(sandbox_start(b->core, &b->who, "box", -1, &s, &err), 0);
	assert_int_equal(s.state, SB_STARTED);
	sandbox_done(&s);
	assert_true(fake_is_live(b->fake, id));
}

static void start_on_started_changes_nothing(void **state)
{
	struct corebox *b = *state;
	struct sandbox s;
	char id[ID_LEN];

	corebox_create(b, "box", id);
	assert_int_equal(sandbox_start(b->core, &b->who, id, -1, &s, NULL), 0);
	assert_int_equal(s.state, SB_STARTED);
	sandbox_done(&s);
	assert_int_equal(fake_count(b->fake, FAKE_START), 1);
}

static void stop_on_stopped_is_refused_with_the_state(void **state)
{
	struct corebox *b = *state;
	struct err err = {0};
	struct sandbox s;
	char id[ID_LEN];

	corebox_create(b, "box", id);
	assert_int_equal(sandbox_stop(b->core, &b->who, id, true, -1, &s, NULL), 0);
	sandbox_done(&s);
	assert_int_equal(sandbox_stop(b->core, &b->who, id, true, -1, &s, &err), -1);
	assert_int_equal(err.code, ERR_INVALID);
	assert_non_null(strstr(err.msg, "stopped"));
}

static void ephemeral_goes_when_stopped(void **state)
{
	struct corebox *b = *state;
	struct sandbox_spec spec = corebox_spec("box");
	struct sandbox s;
	char id[ID_LEN];

	spec.auto_delete_min = 0;
	assert_int_equal(sandbox_create(b->core, &b->who, &spec, -1, &s, NULL), 0);
	memcpy(id, s.id, ID_LEN);
	sandbox_done(&s);
	assert_int_equal(sandbox_stop(b->core, &b->who, id, false, -1, &s, NULL), 0);
	assert_true(s.state == SB_DESTROYING || s.state == SB_DESTROYED);
	sandbox_done(&s);
	assert_true(corebox_wait_state(b, id, SB_STATE_MAX, 3000));
	assert_true(corebox_until(nothing_left, b, 3000));
}

static void e3_failed_create_is_error_with_reason_and_no_resources(void **state)
{
	struct corebox *b = *state;
	struct sandbox_spec spec = corebox_spec("box");
	struct sandbox s;

	fake_fail(b->fake, FAKE_START, 1, ERR_INTERNAL);
	assert_int_equal(sandbox_create(b->core, &b->who, &spec, -1, &s, NULL), 0);
	assert_int_equal(s.state, SB_ERROR);
	assert_true(s.recoverable);
	assert_non_null(strstr(s.error_reason, "told to fail"));
	sandbox_done(&s);
	assert_int_equal(fake_uppers(b->fake), 0);
	assert_int_equal(sandbox_start(b->core, &b->who, "box", -1, &s, NULL), -1);
	assert_int_equal(sandbox_recover(b->core, &b->who, "box", true, -1, &s, NULL), 0);
	assert_int_equal(s.state, SB_STARTED);
	assert_string_equal(s.error_reason, "");
	sandbox_done(&s);
}

static void stop_that_cannot_kill_is_error_and_recovers_with_the_files(void **state)
{
	struct corebox *b = *state;
	struct err err = {0};
	struct sandbox s;
	char id[ID_LEN];

	corebox_create(b, "box", id);
	fake_fail(b->fake, FAKE_KILL, 3, ERR_INTERNAL);
	assert_int_equal(sandbox_stop(b->core, &b->who, id, true, -1, &s, &err), -1);
	assert_int_equal(corebox_state(b, id), SB_ERROR);
	assert_int_equal(sandbox_recover(b->core, &b->who, id, true, -1, &s, &err), 0);
	assert_int_equal(s.state, SB_STARTED);
	sandbox_done(&s);
	assert_int_equal(fake_count(b->fake, FAKE_REMOVE), 0);
	assert_int_equal(fake_live(b->fake), 1);
}

static void error_recovers_to_stopped_where_no_start_is_wanted(void **state)
{
	struct corebox *b = *state;
	struct err err = {0};
	struct sandbox s;
	char id[ID_LEN];

	corebox_create(b, "box", id);
	assert_int_equal(sandbox_recover(b->core, &b->who, id, false, -1, &s, &err), -1);
	assert_int_equal(err.code, ERR_INVALID);
	fake_fail(b->fake, FAKE_KILL, 3, ERR_INTERNAL);
	assert_int_equal(sandbox_stop(b->core, &b->who, id, true, -1, &s, &err), -1);
	assert_int_equal(sandbox_recover(b->core, &b->who, id, false, -1, &s, &err), 0);
	assert_int_equal(s.state, SB_STOPPED);
	assert_string_equal(s.error_reason, "");
	sandbox_done(&s);
	assert_int_equal(fake_live(b->fake), 0);
	assert_int_equal(sandbox_start(b->core, &b->who, id, -1, &s, &err), 0);
	assert_int_equal(s.state, SB_STARTED);
	sandbox_done(&s);
	assert_int_equal(fake_count(b->fake, FAKE_REMOVE), 0);
}

static void error_is_deletable(void **state)
{
	struct corebox *b = *state;
	struct sandbox_spec spec = corebox_spec("box");
	struct sandbox s;
	char id[ID_LEN];

	fake_fail(b->fake, FAKE_START, 1, ERR_INTERNAL);
	assert_int_equal(sandbox_create(b->core, &b->who, &spec, -1, &s, NULL), 0);
	memcpy(id, s.id, ID_LEN);
	sandbox_done(&s);
	assert_int_equal(sandbox_delete(b->core, &b->who, id, &s, NULL), 0);
	sandbox_done(&s);
	assert_true(corebox_wait_state(b, id, SB_STATE_MAX, 3000));
}

static void hold_ends_with_the_transitional_state(void **state)
{
	struct corebox *b = *state;
	struct sandbox_spec spec = corebox_spec("box");
	int64_t began;
	struct sandbox s;

	corebox_close(b);
	b->cfg.hold_ms = 100;
	corebox_open(b);
	fake_delay(b->fake, FAKE_START, 600);
	began = clock_mono_ms();
	assert_int_equal(sandbox_create(b->core, &b->who, &spec, -1, &s, NULL), 0);
	assert_in_range(clock_mono_ms() - began, 90, 500);
	assert_int_equal(s.state, SB_CREATING);
	assert_true(corebox_wait_state(b, s.id, SB_STARTED, 3000));
	sandbox_done(&s);
}

static void e28_metrics_of_a_box_that_just_ended_are_a_conflict(void **state)
{
	struct corebox *b = *state;
	struct sandbox_metrics m;
	struct err err = {0};
	char id[ID_LEN];

	corebox_create(b, "box", id);
	assert_int_equal(sandbox_metrics(b->core, &b->who, id, &m, &err), 0);
	assert_int_equal(m.s.mem_limit, 1ull << 30);
	assert_int_equal(m.disk_total, 3ull << 30);
	assert_int_equal(m.disk_used + m.disk_free, m.disk_total);
	fake_fail(b->fake, FAKE_STATS, 1, ERR_NOT_FOUND);
	assert_int_equal(sandbox_metrics(b->core, &b->who, id, &m, &err), -1);
	assert_int_equal(err.code, ERR_CONFLICT);
}

static void delete_retries_what_the_runner_cannot_remove(void **state)
{
	struct corebox *b = *state;
	struct sandbox s;
	char id[ID_LEN];

	corebox_create(b, "box", id);
	fake_fail(b->fake, FAKE_REMOVE, 2, ERR_INTERNAL);
	assert_int_equal(sandbox_delete(b->core, &b->who, id, &s, NULL), 0);
	sandbox_done(&s);
	assert_true(corebox_wait_state(b, id, SB_STATE_MAX, 5000));
	assert_int_equal(fake_count(b->fake, FAKE_REMOVE), 3);
}

static void delete_twice_is_no_error(void **state)
{
	struct corebox *b = *state;
	struct sandbox s;
	struct err err = {0};
	char id[ID_LEN];

	fake_delay(b->fake, FAKE_REMOVE, 200);
	corebox_create(b, "box", id);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(sandbox_delete(b->core, &b->who, id, &s, NULL), 0);
		sandbox_done(&s);
	}
	assert_true(corebox_wait_state(b, id, SB_STATE_MAX, 3000));
	assert_int_equal(sandbox_delete(b->core, &b->who, id, &s, &err), -1);
	assert_int_equal(err.code, ERR_NOT_FOUND);
}

static void box_that_ends_by_itself_is_stopped_with_a_reason(void **state)
{
	struct corebox *b = *state;
	struct sandbox s;
	char id[ID_LEN];

	corebox_create(b, "box", id);
	fake_exit(b->fake, id);
	assert_true(corebox_wait_state(b, id, SB_STOPPED, 3000));
	assert_int_equal(sandbox_get(b->core, &b->who, id, &s, NULL), 0);
	assert_true(s.error_reason[0] != '\0');
	sandbox_done(&s);
}

static void late_exit_event_of_an_earlier_box_is_ignored(void **state)
{
	struct corebox *b = *state;
	struct sandbox s;
	char id[ID_LEN];

	corebox_create(b, "box", id);
	box_exited(b->core, id, 1);
	usleep(50000);
	assert_int_equal(corebox_state(b, id), SB_STARTED);
	assert_int_equal(sandbox_get(b->core, &b->who, id, &s, NULL), 0);
	sandbox_done(&s);
}

#define T(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(create_is_started_with_defaults),
		T(start_gives_the_runner_the_limits),
		T(duplicate_name_is_conflict_that_names_the_id),
		T(name_is_free_at_once_after_delete),
		T(stop_start_keeps_the_upper),
		T(start_on_started_changes_nothing),
		T(stop_on_stopped_is_refused_with_the_state),
		T(ephemeral_goes_when_stopped),
		T(e3_failed_create_is_error_with_reason_and_no_resources),
		T(stop_that_cannot_kill_is_error_and_recovers_with_the_files),
		T(error_recovers_to_stopped_where_no_start_is_wanted),
		T(error_is_deletable),
		T(hold_ends_with_the_transitional_state),
		T(e28_metrics_of_a_box_that_just_ended_are_a_conflict),
		T(delete_retries_what_the_runner_cannot_remove),
		T(delete_twice_is_no_error),
		T(box_that_ends_by_itself_is_stopped_with_a_reason),
		T(late_exit_event_of_an_earlier_box_is_ignored),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
