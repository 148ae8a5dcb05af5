/*
 * test_core_recovery.c - what a new process makes of the records and boxes an old one left.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/crash.h"
#include "unit/corebox.h"

static int setup(void **state)
{
	struct corebox *b = calloc(1, sizeof(*b));

	corebox_init(b);
	*state = b;
	return 0;
}

static int teardown(void **state)
{
	corebox_done(*state);
	free(*state);
	return 0;
}

/* A row in a state, as an earlier process would have left it. ran: it had been started once. */
static void leave(struct corebox *b, enum sandbox_state s, bool ran, char id[ID_LEN])
{
	struct sandbox_row row = {.s = {.state = s, .desired = SB_STARTED, .cpu = 1}};
	struct store_idem idem = {0};
	struct err err = {0};
	char path[128], got[ID_LEN];
	struct store *st;

	corebox_open(b); /* makes the organization */
	memcpy(row.s.org_id, b->who.org_id, ID_LEN);
	corebox_close(b);
	snprintf(path, sizeof(path), "%s/api/caisson.db", b->dir);
	st = store_open(path, &err);
	assert_non_null(st);
	id_new(row.s.id);
	memcpy(row.s.name, row.s.id, ID_LEN);
	memset(row.layer, 'a', sizeof(row.layer) - 1);
	row.s.memory_mib = 1024;
	row.s.disk_gib = 1;
	row.s.auto_delete_min = -1;
	row.s.created_ms = row.s.updated_ms = clock_wall_ms();
	if (ran)
		snprintf(row.s.ip4, sizeof(row.s.ip4), "10.0.0.9");
	assert_int_equal(store_sandbox_insert(st, &row, &idem, got, &err), CREATE_NEW);
	store_close(st);
	memcpy(id, row.s.id, ID_LEN);
}

static void started_with_a_live_box_stays(void **state)
{
	struct corebox *b = *state;
	unsigned starts;
	char id[ID_LEN];

	leave(b, SB_STARTED, true, id);
	fake_stray(b->fake, id, true);
	starts = fake_count(b->fake, FAKE_START);
	corebox_open(b);
	assert_int_equal(corebox_state(b, id), SB_STARTED);
	assert_true(fake_is_live(b->fake, id));
	assert_int_equal(fake_count(b->fake, FAKE_START), starts);
}

static void started_without_a_box_is_stopped_with_a_reason(void **state)
{
	struct corebox *b = *state;
	struct sandbox s;
	char id[ID_LEN];

	leave(b, SB_STARTED, true, id);
	fake_stray(b->fake, id, false);
	corebox_open(b);
	assert_int_equal(sandbox_get(b->core, &b->who, id, &s, NULL), 0);
	assert_int_equal(s.state, SB_STOPPED);
	assert_int_equal(s.desired, SB_STOPPED);
	assert_true(s.error_reason[0] != '\0');
	sandbox_done(&s);
	assert_int_equal(sandbox_start(b->core, &b->who, id, -1, &s, NULL), 0);
	assert_int_equal(s.state, SB_STARTED);
	sandbox_done(&s);
}

static void creating_is_finished(void **state)
{
	struct corebox *b = *state;
	char id[ID_LEN];

	leave(b, SB_CREATING, false, id);
	corebox_open(b);
	assert_true(corebox_wait_state(b, id, SB_STARTED, 3000));
	assert_true(fake_is_live(b->fake, id));
}

static void creating_with_a_half_made_box_is_made_anew(void **state)
{
	struct corebox *b = *state;
	char id[ID_LEN];

	leave(b, SB_CREATING, false, id);
	fake_stray(b->fake, id, true);
	corebox_open(b);
	assert_true(corebox_wait_state(b, id, SB_STARTED, 3000));
	assert_int_equal(fake_live(b->fake), 1);
	assert_int_equal(fake_uppers(b->fake), 1);
}

static void starting_with_a_box_that_answers_is_started(void **state)
{
	struct corebox *b = *state;
	unsigned starts;
	char id[ID_LEN];

	leave(b, SB_STARTING, true, id);
	fake_stray(b->fake, id, true);
	starts = fake_count(b->fake, FAKE_START);
	corebox_open(b);
	assert_true(corebox_wait_state(b, id, SB_STARTED, 3000));
	assert_int_equal(fake_count(b->fake, FAKE_START), starts);
}

static void starting_without_a_box_is_started_on_the_kept_upper(void **state)
{
	struct corebox *b = *state;
	char id[ID_LEN];

	leave(b, SB_STARTING, true, id);
	fake_stray(b->fake, id, false);
	corebox_open(b);
	assert_true(corebox_wait_state(b, id, SB_STARTED, 3000));
	assert_int_equal(fake_count(b->fake, FAKE_REMOVE), 0);
}

static void starting_without_its_upper_is_error(void **state)
{
	struct corebox *b = *state;
	char id[ID_LEN];

	leave(b, SB_STARTING, true, id);
	corebox_open(b);
	assert_true(corebox_wait_state(b, id, SB_ERROR, 3000));
}

static void stopping_ends_stopped(void **state)
{
	struct corebox *b = *state;
	char id[ID_LEN];

	leave(b, SB_STOPPING, true, id);
	fake_stray(b->fake, id, true);
	corebox_open(b);
	assert_true(corebox_wait_state(b, id, SB_STOPPED, 3000));
	assert_false(fake_is_live(b->fake, id));
}

static void stopped_with_a_live_box_is_killed(void **state)
{
	struct corebox *b = *state;
	char id[ID_LEN];

	leave(b, SB_STOPPED, true, id);
	fake_stray(b->fake, id, true);
	corebox_open(b);
	assert_int_equal(corebox_state(b, id), SB_STOPPED);
	assert_false(fake_is_live(b->fake, id));
	assert_int_equal(fake_uppers(b->fake), 1);
}

static void destroying_is_resumed(void **state)
{
	struct corebox *b = *state;
	char id[ID_LEN];

	leave(b, SB_DESTROYING, true, id);
	fake_stray(b->fake, id, true);
	corebox_open(b);
	assert_true(corebox_wait_state(b, id, SB_STATE_MAX, 3000));
	assert_int_equal(fake_uppers(b->fake), 0);
}

static void boxes_and_uppers_without_a_record_are_removed(void **state)
{
	struct corebox *b = *state;
	char live[ID_LEN], dead[ID_LEN];

	id_new(live);
	id_new(dead);
	fake_stray(b->fake, live, true);
	fake_stray(b->fake, dead, false);
	corebox_open(b);
	assert_int_equal(fake_uppers(b->fake), 0);
}

static void counts_live_sandboxes_over_a_restart(void **state)
{
	struct corebox *b = *state;
	struct sandbox_spec spec = corebox_spec(NULL);
	struct err err = {0};
	struct sandbox s;
	char id[ID_LEN];

	b->cfg.max_sandboxes = 1;
	corebox_open(b);
	corebox_create(b, "box", id);
	corebox_close(b);
	corebox_open(b);
	assert_int_equal(corebox_state(b, id), SB_STARTED);
	assert_int_equal(sandbox_create(b->core, &b->who, &spec, -1, &s, &err), -1);
	assert_int_equal(err.code, ERR_LIMIT);
	assert_non_null(strstr(err.msg, "limit of 1"));
	assert_non_null(strstr(err.msg, "1 in use"));
	assert_non_null(strstr(err.msg, "--max-sandboxes"));
}

/* ---- kill -9 at named points, in a child process ---- */

static struct sandbox_spec keyed_spec(const char *name, uint8_t digest)
{
	struct sandbox_spec spec = corebox_spec(name);

	spec.idempotency_key = "key-1";
	memset(spec.body_digest, digest, sizeof(spec.body_digest));
	return spec;
}

/* The child dies inside fn; the parent goes on with the same directory and no box alive. */
static void die_at(struct corebox *b, const char *point, void (*fn)(struct corebox *))
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (pid == 0) {
		crash_arm(point);
		pthread_create(&b->agent, NULL, corebox_agent, b);
		corebox_open(b);
		fn(b);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGKILL);
}

static void child_create(struct corebox *b)
{
	struct sandbox_spec spec = keyed_spec("box", 1);
	struct sandbox s;

	sandbox_create(b->core, &b->who, &spec, -1, &s, NULL);
}

static void create_replays_after_death(struct corebox *b, const char *point)
{
	struct sandbox_spec spec = keyed_spec("box", 1), other = keyed_spec("box", 2);
	struct err err = {0};
	struct sandbox s, again;

	die_at(b, point, child_create);
	corebox_open(b);
	assert_int_equal(sandbox_create(b->core, &b->who, &spec, -1, &s, &err), 0);
	/* The boxes of a fake die with their process: a started row then reads stopped. */
	assert_true(s.state == SB_STARTED || s.state == SB_STOPPED);
	assert_int_equal(sandbox_create(b->core, &b->who, &spec, -1, &again, &err), 0);
	assert_string_equal(s.id, again.id);
	sandbox_done(&s);
	sandbox_done(&again);
	assert_int_equal(sandbox_create(b->core, &b->who, &other, -1, &again, &err), -1);
	assert_int_equal(err.code, ERR_CONFLICT);
	assert_non_null(strstr(err.msg, "Idempotency-Key"));
}

static void create_survives_death_after_insert(void **state)
{
	create_replays_after_death(*state, "create.after_insert");
}

static void create_survives_death_after_box(void **state)
{
	create_replays_after_death(*state, "start.after_box");
}

static void create_survives_death_after_start(void **state)
{
	create_replays_after_death(*state, "create.after_start");
}

static void create_survives_death_after_edge(void **state)
{
	create_replays_after_death(*state, "create.after_edge");
}

static void child_delete(struct corebox *b)
{
	struct sandbox s;

	child_create(b);
	sandbox_delete(b->core, &b->who, "box", &s, NULL);
	pause();
}

static void delete_is_finished_after_death(struct corebox *b, const char *point)
{
	struct sandbox_spec spec = keyed_spec("box", 1);
	struct err err = {0};
	struct sandbox s;
	char id[ID_LEN];

	die_at(b, point, child_delete);
	corebox_open(b);
	/* The name is free, the key's sandbox is gone or going, nothing comes back. */
	corebox_create(b, "box", id);
	assert_true(sandbox_create(b->core, &b->who, &spec, -1, &s, &err) < 0 ||
		    s.state == SB_DESTROYING);
	if (err.code)
		assert_int_equal(err.code, ERR_GONE);
	else
		sandbox_done(&s);
	assert_int_equal(fake_live(b->fake), 1);
}

static void delete_survives_death_after_mark(void **state)
{
	delete_is_finished_after_death(*state, "delete.after_mark");
}

static void delete_survives_death_before_remove(void **state)
{
	delete_is_finished_after_death(*state, "delete.before_remove");
}

static void delete_survives_death_after_remove(void **state)
{
	delete_is_finished_after_death(*state, "delete.after_remove");
}

static void child_stop(struct corebox *b)
{
	struct sandbox s;

	child_create(b);
	sandbox_stop(b->core, &b->who, "box", false, -1, &s, NULL);
}

static void stop_is_finished_after_death(void **state)
{
	static const char *const point[] = {"stop.after_mark", "stop.after_term",
					    "stop.after_kill"};
	struct corebox *b = *state;

	for (size_t i = 0; i < ARRAY_LEN(point); i++) {
		struct corebox *one = calloc(1, sizeof(*one));

		corebox_init(one);
		die_at(one, point[i], child_stop);
		corebox_open(one);
		assert_true(corebox_wait_state(one, "box", SB_STOPPED, 3000));
		corebox_done(one);
		free(one);
	}
	assert_non_null(b);
}

static void destroy_on_exit_leaves_nothing(void **state)
{
	struct corebox *b = *state;
	char id[ID_LEN];

	b->cfg.destroy_on_exit = true;
	corebox_open(b);
	for (int i = 0; i < 20; i++)
		corebox_create(b, NULL, id);
	corebox_close(b);
	assert_int_equal(fake_uppers(b->fake), 0);
}

static void orderly_end_leaves_sandboxes_running(void **state)
{
	struct corebox *b = *state;
	char id[ID_LEN];

	corebox_open(b);
	corebox_create(b, "box", id);
	corebox_close(b);
	assert_true(fake_is_live(b->fake, id));
	corebox_open(b);
	assert_int_equal(corebox_state(b, id), SB_STARTED);
}

#define T(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(started_with_a_live_box_stays),
		T(started_without_a_box_is_stopped_with_a_reason),
		T(creating_is_finished),
		T(creating_with_a_half_made_box_is_made_anew),
		T(starting_with_a_box_that_answers_is_started),
		T(starting_without_a_box_is_started_on_the_kept_upper),
		T(starting_without_its_upper_is_error),
		T(stopping_ends_stopped),
		T(stopped_with_a_live_box_is_killed),
		T(destroying_is_resumed),
		T(boxes_and_uppers_without_a_record_are_removed),
		T(counts_live_sandboxes_over_a_restart),
		T(create_survives_death_after_insert),
		T(create_survives_death_after_box),
		T(create_survives_death_after_start),
		T(create_survives_death_after_edge),
		T(delete_survives_death_after_mark),
		T(delete_survives_death_before_remove),
		T(delete_survives_death_after_remove),
		T(stop_is_finished_after_death),
		T(destroy_on_exit_leaves_nothing),
		T(orderly_end_leaves_sandboxes_running),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
