/*
 * test_core_race.c - calls on a sandbox that meet another under way, over the fake runner.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <pthread.h>
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

struct creator {
	struct corebox *b;
	const char *name;
	pthread_t thread;
	int rc;
	struct sandbox s;
	struct err err;
};

static void *create_thread(void *arg)
{
	struct creator *c = arg;
	struct sandbox_spec spec = corebox_spec(c->name);

	c->rc = sandbox_create(c->b->core, &c->b->who, &spec, -1, &c->s, &c->err);
	return NULL;
}

static bool has_row(void *arg)
{
	return corebox_state(arg, "box") == SB_CREATING;
}

static void e1_delete_while_creating_ends_destroyed(void **state)
{
	struct corebox *b = *state;
	struct creator c = {.b = b, .name = "box"};
	struct sandbox s;
	char id[ID_LEN];

	fake_delay(b->fake, FAKE_START, 300);
	pthread_create(&c.thread, NULL, create_thread, &c);
	assert_true(corebox_until(has_row, b, 3000));
	assert_int_equal(sandbox_delete(b->core, &b->who, "box", &s, NULL), 0);
	assert_int_equal(s.state, SB_DESTROYING);
	memcpy(id, s.id, ID_LEN);
	sandbox_done(&s);
	pthread_join(c.thread, NULL);
	if (c.rc == 0)
		sandbox_done(&c.s);
	assert_true(corebox_wait_state(b, id, SB_STATE_MAX, 3000));
	assert_true(corebox_until(nothing_left, b, 3000));
	assert_int_equal(fake_live(b->fake), 0);
}

static void e1_stop_while_creating_stops_it_afterwards(void **state)
{
	struct corebox *b = *state;
	struct creator c = {.b = b, .name = "box"};
	struct sandbox s;

	fake_delay(b->fake, FAKE_START, 200);
	pthread_create(&c.thread, NULL, create_thread, &c);
	assert_true(corebox_until(has_row, b, 3000));
	assert_int_equal(sandbox_stop(b->core, &b->who, "box", false, -1, &s, NULL), 0);
	assert_int_equal(s.state, SB_STOPPED);
	sandbox_done(&s);
	pthread_join(c.thread, NULL);
	assert_int_equal(c.rc, 0);
	sandbox_done(&c.s);
}

static void *stop_thread(void *arg)
{
	struct creator *c = arg;

	c->rc = sandbox_stop(c->b->core, &c->b->who, c->name, false, -1, &c->s, &c->err);
	return NULL;
}

static bool is_stopping(void *arg)
{
	return corebox_state(arg, "box") == SB_STOPPING;
}

static void e1_start_while_stopping_starts_it_afterwards(void **state)
{
	struct corebox *b = *state;
	struct creator c = {.b = b, .name = "box"};
	struct sandbox s;
	char id[ID_LEN];

	corebox_create(b, "box", id);
	fake_delay(b->fake, FAKE_KILL, 200);
	pthread_create(&c.thread, NULL, stop_thread, &c);
	assert_true(corebox_until(is_stopping, b, 3000));
	assert_int_equal(sandbox_start(b->core, &b->who, "box", -1, &s, NULL), 0);
	assert_int_equal(s.state, SB_STARTED);
	sandbox_done(&s);
	pthread_join(c.thread, NULL);
	assert_int_equal(c.rc, 0);
	sandbox_done(&c.s);
}

static void e1_delete_while_stopping_ends_destroyed(void **state)
{
	struct corebox *b = *state;
	struct creator c = {.b = b, .name = "box"};
	struct sandbox s;
	char id[ID_LEN];

	corebox_create(b, "box", id);
	fake_delay(b->fake, FAKE_KILL, 200);
	pthread_create(&c.thread, NULL, stop_thread, &c);
	assert_true(corebox_until(is_stopping, b, 3000));
	assert_int_equal(sandbox_delete(b->core, &b->who, id, &s, NULL), 0);
	sandbox_done(&s);
	pthread_join(c.thread, NULL);
	if (c.rc == 0)
		sandbox_done(&c.s);
	assert_true(corebox_wait_state(b, id, SB_STATE_MAX, 3000));
	assert_true(corebox_until(nothing_left, b, 3000));
}

static void *start_thread(void *arg)
{
	struct creator *c = arg;

	c->rc = sandbox_start(c->b->core, &c->b->who, c->name, -1, &c->s, &c->err);
	return NULL;
}

static bool is_starting(void *arg)
{
	return corebox_state(arg, "box") == SB_STARTING;
}

static void e1_delete_while_starting_ends_destroyed(void **state)
{
	struct corebox *b = *state;
	struct creator c = {.b = b, .name = "box"};
	struct sandbox s;
	char id[ID_LEN];

	corebox_create(b, "box", id);
	assert_int_equal(sandbox_stop(b->core, &b->who, id, true, -1, &s, NULL), 0);
	sandbox_done(&s);
	fake_delay(b->fake, FAKE_START, 200);
	pthread_create(&c.thread, NULL, start_thread, &c);
	assert_true(corebox_until(is_starting, b, 3000));
	assert_int_equal(sandbox_delete(b->core, &b->who, id, &s, NULL), 0);
	assert_int_equal(s.state, SB_DESTROYING);
	sandbox_done(&s);
	pthread_join(c.thread, NULL);
	if (c.rc == 0)
		sandbox_done(&c.s);
	assert_true(corebox_wait_state(b, id, SB_STATE_MAX, 3000));
	assert_true(corebox_until(nothing_left, b, 3000));
	assert_int_equal(fake_live(b->fake), 0);
}

static void delete_cuts_a_start_short_whose_agent_never_answers(void **state)
{
	struct corebox *b = *state;
	struct creator c = {.b = b, .name = "box"};
	int64_t began = clock_mono_ms();
	struct sandbox s;
	char id[ID_LEN];

	__atomic_store_n(&b->mute, true, __ATOMIC_RELEASE);
	pthread_create(&c.thread, NULL, create_thread, &c);
	assert_true(corebox_until(has_row, b, 3000));
	assert_int_equal(sandbox_delete(b->core, &b->who, "box", &s, NULL), 0);
	memcpy(id, s.id, ID_LEN);
	sandbox_done(&s);
	/* The killed box's agent hangs up, as a real one's socket does with its process. */
	usleep(1300000);
	assert_true(fake_count(b->fake, FAKE_KILL) > 0);
	__atomic_store_n(&b->hangup, true, __ATOMIC_RELEASE);
	assert_true(corebox_wait_state(b, id, SB_STATE_MAX, 5000));
	assert_true(clock_mono_ms() - began < 6000);
	pthread_join(c.thread, NULL);
	if (c.rc == 0)
		sandbox_done(&c.s);
	assert_int_equal(fake_uppers(b->fake), 0);
}

static void e25_frozen_agent_blocks_nobody_else(void **state)
{
	struct corebox *b = *state;
	struct creator c = {.b = b, .name = "box"};
	struct sandbox_query q = {.min_cpu = SPEC_UNSET,
				  .max_cpu = SPEC_UNSET,
				  .min_memory = SPEC_UNSET,
				  .max_memory = SPEC_UNSET,
				  .min_disk = SPEC_UNSET,
				  .max_disk = SPEC_UNSET,
				  .is_public = -1,
				  .is_recoverable = -1,
				  .created_after = SPEC_UNSET,
				  .created_before = SPEC_UNSET,
				  .active_after = SPEC_UNSET,
				  .active_before = SPEC_UNSET,
				  .destroy_after = SPEC_UNSET,
				  .destroy_before = SPEC_UNSET};
	struct sandbox_page page;
	int64_t began;
	char id[ID_LEN];

	corebox_create(b, "box", id);
	__atomic_store_n(&b->mute, true, __ATOMIC_RELEASE);
	began = clock_mono_ms();
	pthread_create(&c.thread, NULL, stop_thread, &c);
	assert_true(corebox_until(is_stopping, b, 3000));
	assert_int_equal(sandbox_list(b->core, &b->who, &q, &page, NULL), 0);
	assert_int_equal(page.n, 1);
	sandbox_page_done(&page);
	pthread_join(c.thread, NULL);
	/* e13: the stop of a deaf one is bounded too. */
	assert_int_equal(c.rc, 0);
	assert_int_equal(c.s.state, SB_STOPPED);
	sandbox_done(&c.s);
	assert_true(clock_mono_ms() - began < 8000);
}

static void e5_two_hundred_creates_at_once_leave_no_orphan(void **state)
{
	enum { N = 200 };
	static struct creator c[N];
	struct corebox *b = *state;
	struct sandbox s;

	memset(c, 0, sizeof(c));
	fake_delay(b->fake, FAKE_START, 1);
	for (int i = 0; i < N; i++) {
		c[i].b = b;
		assert_int_equal(pthread_create(&c[i].thread, NULL, create_thread, &c[i]), 0);
	}
	for (int i = 0; i < N; i++) {
		pthread_join(c[i].thread, NULL);
		assert_int_equal(c[i].rc, 0);
		assert_int_equal(c[i].s.state, SB_STARTED);
	}
	assert_int_equal(fake_live(b->fake), N);
	for (int i = 0; i < N; i++) {
		assert_int_equal(sandbox_delete(b->core, &b->who, c[i].s.id, &s, NULL), 0);
		sandbox_done(&s);
		sandbox_done(&c[i].s);
	}
	assert_true(corebox_until(nothing_left, b, 10000));
}

static void e5_create_goes_on_when_its_client_hangs_up(void **state)
{
	struct corebox *b = *state;
	struct sandbox_spec spec = corebox_spec("box");
	int64_t began = clock_mono_ms();
	struct sandbox s;
	int sv[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv), 0);
	close(sv[1]);
	fake_delay(b->fake, FAKE_START, 1000);
	assert_int_equal(sandbox_create(b->core, &b->who, &spec, sv[0], &s, NULL), 0);
	assert_true(clock_mono_ms() - began < 900);
	assert_int_equal(s.state, SB_CREATING);
	assert_true(corebox_wait_state(b, s.id, SB_STARTED, 3000));
	sandbox_done(&s);
	close(sv[0]);
}

static void one_of_racing_creates_of_a_name_wins(void **state)
{
	enum { N = 16 };
	struct creator c[N] = {0};
	struct corebox *b = *state;
	int won = 0;

	for (int i = 0; i < N; i++) {
		c[i].b = b;
		c[i].name = "same";
		pthread_create(&c[i].thread, NULL, create_thread, &c[i]);
	}
	for (int i = 0; i < N; i++) {
		pthread_join(c[i].thread, NULL);
		won += c[i].rc == 0;
		if (c[i].rc == 0)
			sandbox_done(&c[i].s);
		else
			assert_int_equal(c[i].err.code, ERR_CONFLICT);
	}
	assert_int_equal(won, 1);
	assert_int_equal(fake_live(b->fake), 1);
}

static void *hammer_thread(void *arg)
{
	struct creator *c = arg;
	unsigned seed = (unsigned)(uintptr_t)arg;

	for (int i = 0; i < 40; i++) {
		struct sandbox s;
		int rc = rand_r(&seed) % 2
				 ? sandbox_stop(c->b->core, &c->b->who, "box", true, -1, &s, NULL)
				 : sandbox_start(c->b->core, &c->b->who, "box", -1, &s, NULL);

		if (rc == 0)
			sandbox_done(&s);
	}
	return NULL;
}

static void racing_starts_and_stops_end_in_agreement(void **state)
{
	enum { N = 8 };
	struct creator c[N] = {0};
	struct corebox *b = *state;
	enum sandbox_state s;
	char id[ID_LEN];

	corebox_create(b, "box", id);
	for (int i = 0; i < N; i++) {
		c[i].b = b;
		pthread_create(&c[i].thread, NULL, hammer_thread, &c[i]);
	}
	for (int i = 0; i < N; i++)
		pthread_join(c[i].thread, NULL);
	s = corebox_state(b, id);
	assert_true(s == SB_STARTED || s == SB_STOPPED);
	assert_int_equal(fake_is_live(b->fake, id), s == SB_STARTED);
}

#define T(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(e1_delete_while_creating_ends_destroyed),
		T(e1_stop_while_creating_stops_it_afterwards),
		T(e1_start_while_stopping_starts_it_afterwards),
		T(e1_delete_while_stopping_ends_destroyed),
		T(e1_delete_while_starting_ends_destroyed),
		T(delete_cuts_a_start_short_whose_agent_never_answers),
		T(e25_frozen_agent_blocks_nobody_else),
		T(e5_two_hundred_creates_at_once_leave_no_orphan),
		T(e5_create_goes_on_when_its_client_hangs_up),
		T(one_of_racing_creates_of_a_name_wins),
		T(racing_starts_and_stops_end_in_agreement),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
