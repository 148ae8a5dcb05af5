/*
 * test_core_time.c - timers, activity, the warm pool, events, audit.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <sqlite3.h>
#include <string.h>

#include "base/clock.h"
#include "unit/corebox.h"

#define MINUTE 60000ll

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

/* ---- timers ---- */

static void idle_sandbox_is_stopped(void **state)
{
	struct corebox *b = *state;
	char id[ID_LEN];

	corebox_open(b);
	corebox_create(b, "box", id);
	core_tick(b->core, clock_wall_ms() + 14 * MINUTE);
	assert_int_equal(corebox_state(b, id), SB_STARTED);
	core_tick(b->core, clock_wall_ms() + 15 * MINUTE + 1000);
	assert_true(corebox_wait_state(b, id, SB_STOPPED, 3000));
}

static void e11_running_command_is_activity(void **state)
{
	struct corebox *b = *state;
	struct slot *s;
	char id[ID_LEN];

	corebox_open(b);
	corebox_create(b, "box", id);
	s = slot_get(b->core, id);
	assert_int_equal(slot_exec_begin(b->core, s, NULL), 0);
	core_tick(b->core, clock_wall_ms() + 60 * MINUTE);
	usleep(20000);
	assert_int_equal(corebox_state(b, id), SB_STARTED);
	slot_exec_end(b->core, s);
	slot_put(b->core, s);
	/* What it left running in the background isn't: idle counts from the command's end. */
	core_tick(b->core, clock_wall_ms() + 60 * MINUTE);
	assert_true(corebox_wait_state(b, id, SB_STOPPED, 3000));
}

static void touch_puts_the_stop_off(void **state)
{
	struct corebox *b = *state;
	struct sandbox s;
	int64_t before;
	char id[ID_LEN];

	corebox_open(b);
	corebox_create(b, "box", id);
	assert_int_equal(sandbox_get(b->core, &b->who, id, &s, NULL), 0);
	before = s.last_activity_ms;
	sandbox_done(&s);
	usleep(5000);
	assert_int_equal(sandbox_touch(b->core, &b->who, id, NULL), 0);
	assert_int_equal(sandbox_get(b->core, &b->who, id, &s, NULL), 0);
	assert_true(s.last_activity_ms > before);
	sandbox_done(&s);
	core_tick(b->core, before + 15 * MINUTE + 1);
	usleep(20000);
	assert_int_equal(corebox_state(b, id), SB_STARTED);
}

static void commands_are_held_off_while_a_stop_is_decided(void **state)
{
	struct corebox *b = *state;
	struct err err = {0};
	struct slot *s;
	char id[ID_LEN];

	corebox_open(b);
	corebox_create(b, "box", id);
	s = slot_get(b->core, id);
	assert_true(slot_halt_idle(b->core, s, clock_wall_ms() + 1000));
	assert_int_equal(slot_exec_begin(b->core, s, &err), -1);
	assert_int_equal(err.code, ERR_CONFLICT);
	slot_halt(b->core, s, false);
	assert_int_equal(slot_exec_begin(b->core, s, &err), 0);
	assert_false(slot_halt_idle(b->core, s, clock_wall_ms() + 1000));
	slot_exec_end(b->core, s);
	slot_put(b->core, s);
}

static void zero_auto_stop_is_never(void **state)
{
	struct corebox *b = *state;
	struct sandbox_spec spec = corebox_spec("box");
	struct sandbox s;

	corebox_open(b);
	spec.auto_stop_min = 0;
	assert_int_equal(sandbox_create(b->core, &b->who, &spec, -1, &s, NULL), 0);
	core_tick(b->core, clock_wall_ms() + 5000000 * MINUTE / 100);
	usleep(20000);
	assert_int_equal(corebox_state(b, s.id), SB_STARTED);
	sandbox_done(&s);
}

static void stopped_sandbox_is_deleted_after_its_interval(void **state)
{
	struct corebox *b = *state;
	struct sandbox_spec spec = corebox_spec("box");
	struct sandbox s, t;

	corebox_open(b);
	spec.auto_delete_min = 5;
	assert_int_equal(sandbox_create(b->core, &b->who, &spec, -1, &s, NULL), 0);
	assert_int_equal(sandbox_stop(b->core, &b->who, s.id, true, -1, &t, NULL), 0);
	sandbox_done(&t);
	core_tick(b->core, clock_wall_ms() + 4 * MINUTE);
	assert_int_equal(corebox_state(b, s.id), SB_STOPPED);
	core_tick(b->core, clock_wall_ms() + 5 * MINUTE + 1000);
	assert_true(corebox_wait_state(b, s.id, SB_STATE_MAX, 3000));
	sandbox_done(&s);
}

static void ttl_ends_a_running_sandbox(void **state)
{
	struct corebox *b = *state;
	struct sandbox_spec spec = corebox_spec("box");
	struct sandbox s;

	corebox_open(b);
	spec.ttl_min = 1;
	assert_int_equal(sandbox_create(b->core, &b->who, &spec, -1, &s, NULL), 0);
	assert_true(s.auto_destroy_ms > 0);
	core_tick(b->core, s.auto_destroy_ms + 1);
	assert_true(corebox_wait_state(b, s.id, SB_STATE_MAX, 3000));
	sandbox_done(&s);
}

/* ---- warm pool ---- */

static unsigned parked(struct corebox *b)
{
	unsigned n = 0;

	store_sandbox_parked(b->core->st, "caisson-small", &n, NULL);
	return n;
}

static bool three_parked(void *arg)
{
	return parked(arg) == 3 && fake_live(((struct corebox *)arg)->fake) >= 3;
}

static bool four_alive(void *arg)
{
	return fake_live(((struct corebox *)arg)->fake) == 4;
}

static bool none_alive(void *arg)
{
	return fake_live(((struct corebox *)arg)->fake) == 0;
}

static bool no_upper(void *arg)
{
	return fake_uppers(((struct corebox *)arg)->fake) == 0;
}

static void unnamed_create_claims_a_parked_one_and_the_pool_refills(void **state)
{
	struct corebox *b = *state;
	struct sandbox_spec spec = corebox_spec(NULL);
	unsigned starts;
	struct sandbox s;

	b->cfg.warm_pool = 3;
	corebox_open(b);
	assert_true(corebox_until(three_parked, b, 3000));
	usleep(20000);
	starts = fake_count(b->fake, FAKE_START);
	assert_int_equal(starts, 3);
	fake_delay(b->fake, FAKE_START, 300);
	assert_int_equal(sandbox_create(b->core, &b->who, &spec, -1, &s, NULL), 0);
	assert_int_equal(s.state, SB_STARTED);
	assert_string_equal(s.org_id, b->who.org_id);
	assert_string_equal(s.name, s.id);
	assert_int_equal(s.auto_stop_min, 15);
	assert_true(fake_is_live(b->fake, s.id));
	sandbox_done(&s);
	assert_true(corebox_until(four_alive, b, 3000));
	assert_int_equal(parked(b), 3);
}

static void named_create_passes_the_pool_by(void **state)
{
	struct corebox *b = *state;
	char id[ID_LEN];

	b->cfg.warm_pool = 3;
	corebox_open(b);
	assert_true(corebox_until(three_parked, b, 3000));
	corebox_create(b, "box", id);
	assert_int_equal(parked(b), 3);
}

static void e8_pool_that_cannot_be_made_never_over_creates(void **state)
{
	struct corebox *b = *state;

	fake_fail(b->fake, FAKE_START, -1, ERR_INTERNAL);
	b->cfg.warm_pool = 25;
	corebox_open(b);
	usleep(300000);
	assert_true(fake_count(b->fake, FAKE_START) <= 2);
	assert_int_equal(parked(b), 0);
	assert_int_equal(fake_uppers(b->fake), 0);
}

static void parked_ones_belong_to_nobody(void **state)
{
	struct corebox *b = *state;
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

	b->cfg.warm_pool = 3;
	corebox_open(b);
	assert_true(corebox_until(three_parked, b, 3000));
	assert_int_equal(sandbox_list(b->core, &b->who, &q, &page, NULL), 0);
	assert_int_equal(page.n, 0);
	sandbox_page_done(&page);
}

static void smaller_pool_gives_parked_ones_back(void **state)
{
	struct corebox *b = *state;

	b->cfg.warm_pool = 3;
	corebox_open(b);
	assert_true(corebox_until(three_parked, b, 3000));
	corebox_close(b);
	b->cfg.warm_pool = 0;
	corebox_open(b);
	assert_true(corebox_until(none_alive, b, 3000));
	assert_true(corebox_until(no_upper, b, 3000));
}

/* ---- events, audit ---- */

struct heard {
	pthread_mutex_t lock;
	char text[2048];
};

static void hear(void *arg, const struct core_event *ev)
{
	static const char *const kind[] = {"created", "state", "oom"};
	struct heard *h = arg;
	size_t n;

	pthread_mutex_lock(&h->lock);
	n = strlen(h->text);
	snprintf(h->text + n, sizeof(h->text) - n, "%s:%s>%s;", kind[ev->kind],
		 sandbox_state_name(ev->old_state), sandbox_state_name(ev->sandbox->state));
	pthread_mutex_unlock(&h->lock);
}

static bool heard_destroyed(void *arg)
{
	struct heard *h = arg;
	bool yes;

	pthread_mutex_lock(&h->lock);
	yes = strstr(h->text, ">destroyed;") != NULL;
	pthread_mutex_unlock(&h->lock);
	return yes;
}

static void subscribers_hear_each_edge_in_order(void **state)
{
	struct corebox *b = *state;
	struct heard h = {.lock = PTHREAD_MUTEX_INITIALIZER}, foreign = h;
	struct caller other;
	struct core_sub *s, *f;
	struct sandbox t;
	char id[ID_LEN];

	corebox_open(b);
	other = b->who;
	id_new(other.org_id);
	s = core_subscribe(b->core, &b->who, hear, &h, NULL);
	f = core_subscribe(b->core, &other, hear, &foreign, NULL);
	corebox_create(b, "box", id);
	assert_int_equal(sandbox_stop(b->core, &b->who, id, true, -1, &t, NULL), 0);
	sandbox_done(&t);
	assert_int_equal(sandbox_start(b->core, &b->who, id, -1, &t, NULL), 0);
	sandbox_done(&t);
	assert_int_equal(sandbox_delete(b->core, &b->who, id, &t, NULL), 0);
	sandbox_done(&t);
	assert_true(corebox_until(heard_destroyed, &h, 3000));
	core_unsubscribe(b->core, s);
	core_unsubscribe(b->core, f);
	assert_string_equal(h.text, "created:creating>creating;state:creating>started;"
				    "state:started>stopping;state:stopping>stopped;"
				    "state:stopped>starting;state:starting>started;"
				    "state:started>destroying;state:destroying>destroyed;");
	assert_string_equal(foreign.text, "");
}

static void oom_is_an_event_and_a_record(void **state)
{
	struct corebox *b = *state;
	struct heard h = {.lock = PTHREAD_MUTEX_INITIALIZER};
	struct core_sub *s;
	unsigned n;
	char id[ID_LEN];

	corebox_open(b);
	s = core_subscribe(b->core, &b->who, hear, &h, NULL);
	corebox_create(b, "box", id);
	fake_oom(b->fake, id, "python3", true);
	core_unsubscribe(b->core, s);
	assert_non_null(strstr(h.text, "oom:started>started;"));
	assert_int_equal(store_event_count(b->core->st, id, "oom", &n, NULL), 0);
	assert_int_equal(n, 1);
}

static void audit_rows_are_there_when_the_call_returns(void **state)
{
	struct corebox *b = *state;
	struct audit_entry e = {
		.action = "create", .target_type = "sandbox", .target_id = "x", .status = 200};
	sqlite3_stmt *st;
	sqlite3 *db;
	char path[128];
	int64_t began;

	corebox_open(b);
	began = clock_mono_us();
	for (int i = 0; i < 100; i++)
		audit_write(b->core, &b->who, &e);
	print_message("audit row: %lld us (mean of 100)\n",
		      (long long)(clock_mono_us() - began) / 100);
	snprintf(path, sizeof(path), "%s/api/caisson.db", b->dir);
	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	assert_int_equal(
		sqlite3_prepare_v2(db,
				   "SELECT count(*) FROM audit WHERE action = 'create' AND "
				   "key_name = 'admin' AND key_suffix = 'abc'",
				   -1, &st, NULL),
		SQLITE_OK);
	assert_int_equal(sqlite3_step(st), SQLITE_ROW);
	assert_int_equal(sqlite3_column_int(st, 0), 100);
	sqlite3_finalize(st);
	sqlite3_close(db);
}

/* ---- cost ---- */

static int by_time(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

static void create_adds_little_to_the_runner(void **state)
{
	enum { N = 500 };
	static int64_t took[N];
	struct corebox *b = *state;

	corebox_open(b);
	for (int i = 0; i < N; i++) {
		struct sandbox_spec spec = corebox_spec(NULL);
		struct sandbox s;

		took[i] = clock_mono_us();
		assert_int_equal(sandbox_create(b->core, &b->who, &spec, -1, &s, NULL), 0);
		took[i] = clock_mono_us() - took[i];
		sandbox_done(&s);
	}
	qsort(took, N, sizeof(*took), by_time);
	print_message("create over the fake runner and agent: p50 %d p99 %d us\n", (int)took[N / 2],
		      (int)took[N * 99 / 100]);
}

static void warm_claim_is_quick(void **state)
{
	enum { N = 200 };
	static int64_t took[N];
	struct corebox *b = *state;

	b->cfg.warm_pool = 250;
	corebox_open(b);
	while (parked(b) < 250)
		usleep(1000);
	fake_delay(b->fake, FAKE_START, 50); /* the refill keeps out of the way */
	for (int i = 0; i < N; i++) {
		struct sandbox_spec spec = corebox_spec(NULL);
		struct sandbox s;

		took[i] = clock_mono_us();
		assert_int_equal(sandbox_create(b->core, &b->who, &spec, -1, &s, NULL), 0);
		took[i] = clock_mono_us() - took[i];
		assert_int_equal(s.state, SB_STARTED);
		sandbox_done(&s);
	}
	qsort(took, N, sizeof(*took), by_time);
	print_message("warm claim: p50 %d p99 %d us\n", (int)took[N / 2], (int)took[N * 99 / 100]);
}

#define T(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(idle_sandbox_is_stopped),
		T(e11_running_command_is_activity),
		T(touch_puts_the_stop_off),
		T(commands_are_held_off_while_a_stop_is_decided),
		T(zero_auto_stop_is_never),
		T(stopped_sandbox_is_deleted_after_its_interval),
		T(ttl_ends_a_running_sandbox),
		T(unnamed_create_claims_a_parked_one_and_the_pool_refills),
		T(named_create_passes_the_pool_by),
		T(e8_pool_that_cannot_be_made_never_over_creates),
		T(parked_ones_belong_to_nobody),
		T(smaller_pool_gives_parked_ones_back),
		T(subscribers_hear_each_edge_in_order),
		T(oom_is_an_event_and_a_record),
		T(audit_rows_are_there_when_the_call_returns),
		T(create_adds_little_to_the_runner),
		T(warm_claim_is_quick),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
