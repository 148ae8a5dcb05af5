/*
 * test_store_event.c - the history of a sandbox: written by its edges, bounded, gone with it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "unit/storebox.h"

static void move(struct storebox *b, const char *id, enum sandbox_state from, enum sandbox_state to,
		 const char *reason, int64_t now_ms)
{
	struct store_edge e = {.id = id,
			       .from = from,
			       .to = to,
			       .desired = -1,
			       .reason = reason,
			       .now_ms = now_ms};

	assert_int_equal(store_sandbox_edge(b->st, &e, NULL), 1);
}

static void oom(struct storebox *b, const char *id, int64_t at_ms)
{
	struct history_item item = {.at_ms = at_ms,
				    .kind = "oom",
				    .text = "words",
				    .limit = 1ull << 40,
				    .peak = 77,
				    .victim = "py \xff"};

	assert_int_equal(store_event_add(b->st, id, &item, NULL), 0);
}

static size_t list(struct storebox *b, const char *id, int64_t after, size_t max,
		   struct history_item **ret)
{
	size_t n = 0;

	assert_int_equal(store_event_list(b->st, id, after, max, ret, &n, NULL), 0);
	return n;
}

static void edges_are_the_history_with_their_reasons(void **state)
{
	struct storebox *b = *state;
	struct sandbox_row row = storebox_row("x"), other = storebox_row("y");
	struct history_item *item = NULL;

	row.s.created_ms = 5;
	storebox_put(b, &row);
	storebox_put(b, &other);
	move(b, row.s.id, SB_CREATING, SB_STARTED, NULL, 10);
	oom(b, row.s.id, 15);
	move(b, row.s.id, SB_STARTED, SB_ERROR, "it broke", 20);
	assert_int_equal(list(b, row.s.id, 0, 100, &item), 4);
	assert_int_equal(item[0].state, SB_CREATING);
	assert_int_equal(item[0].at_ms, 5);
	assert_int_equal(item[1].state, SB_STARTED);
	assert_string_equal(item[1].text, "");
	assert_string_equal(item[2].kind, "oom");
	assert_int_equal(item[2].state, -1);
	assert_true(item[2].limit == 1ull << 40 && item[2].peak == 77);
	assert_string_equal(item[2].victim, "py \xff");
	assert_string_equal(item[3].kind, "state");
	assert_string_equal(item[3].text, "it broke");
	assert_int_equal(item[3].at_ms, 20);
	free(item);
}

static void edge_that_moves_nothing_writes_nothing(void **state)
{
	struct storebox *b = *state;
	struct sandbox_row row = storebox_row("x");
	struct store_edge e = {
		.id = row.s.id, .from = SB_STOPPED, .to = SB_STARTING, .desired = -1};
	struct history_item *item = NULL;

	storebox_put(b, &row);
	assert_int_equal(store_sandbox_edge(b->st, &e, NULL), 0);
	assert_int_equal(list(b, row.s.id, 0, 100, &item), 1);
	free(item);
}

static void pages_go_on_after_an_id(void **state)
{
	struct storebox *b = *state;
	struct sandbox_row row = storebox_row("x");
	struct history_item *item = NULL;
	int64_t after;

	storebox_put(b, &row);
	for (int i = 0; i < 9; i++)
		oom(b, row.s.id, i);
	assert_int_equal(list(b, row.s.id, 0, 6, &item), 6);
	after = item[5].id;
	free(item);
	assert_int_equal(list(b, row.s.id, after, 6, &item), 4);
	assert_true(item[0].id > after);
	assert_int_equal(item[3].at_ms, 8);
	free(item);
}

static void newest_are_kept_up_to_the_bound(void **state)
{
	struct storebox *b = *state;
	struct sandbox_row row = storebox_row("x"), other = storebox_row("y");
	struct history_item *item = NULL;

	storebox_put(b, &other);
	storebox_put(b, &row);
	for (int i = 0; i < HISTORY_MAX + 100; i++)
		oom(b, row.s.id, i);
	assert_int_equal(list(b, row.s.id, 0, 10000, &item), HISTORY_MAX);
	assert_int_equal(item[HISTORY_MAX - 1].at_ms, HISTORY_MAX + 99);
	free(item);
	assert_int_equal(list(b, other.s.id, 0, 100, &item), 1);
	free(item);
}

static void history_goes_with_the_sandbox(void **state)
{
	struct storebox *b = *state;
	struct sandbox_row row = storebox_row("x");
	struct history_item *item = NULL;

	storebox_put(b, &row);
	oom(b, row.s.id, 1);
	move(b, row.s.id, SB_CREATING, SB_DESTROYING, NULL, 2);
	assert_int_equal(list(b, row.s.id, 0, 100, &item), 3);
	free(item);
	move(b, row.s.id, SB_DESTROYING, SB_DESTROYED, NULL, 3);
	assert_int_equal(list(b, row.s.id, 0, 100, &item), 0);
	free(item);
}

#define T(fn) cmocka_unit_test_setup_teardown(fn, storebox_setup, storebox_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(edges_are_the_history_with_their_reasons),
		T(edge_that_moves_nothing_writes_nothing),
		T(pages_go_on_after_an_id),
		T(newest_are_kept_up_to_the_bound),
		T(history_goes_with_the_sandbox),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
