/*
 * The ring of a stream against a plain array that keeps everything: what it still has is right,
 * what it has dropped it says, and the order of two streams survives.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/scope.h"
/* caisson-init is a program of its own: its parts are in no library. */
#include "init/ring.c"

#define ALL (24u << 20)

static uint8_t *model[2];
static uint64_t *order_of[2];

static int models_make(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		model[i] = malloc(ALL);
		order_of[i] = malloc(ALL * sizeof(uint64_t));
	}
	return model[0] && model[1] && order_of[0] && order_of[1] ? 0 : -1;
}

static int models_free(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		free(model[i]);
		free(order_of[i]);
	}
	return 0;
}

static void put(struct ring r[2], int i, size_t n)
{
	while (n) {
		uint64_t order = r[0].total + r[1].total;
		size_t room;
		uint8_t *at = ring_room(&r[i], order, n, &room);

		assert_non_null(at);
		assert_true(room > 0 && room <= n);
		if (r[i].total + room > ALL)
			return;
		for (size_t k = 0; k < room; k++) {
			at[k] = (uint8_t)rand();
			model[i][r[i].total + k] = at[k];
			order_of[i][r[i].total + k] = order + k;
		}
		ring_commit(&r[i], room);
		n -= room;
	}
}

static void check(const struct ring *r, int i)
{
	uint64_t at = r->first;

	assert_true(r->total - r->first <= TASK_RING_MAX);
	while (at < r->total) {
		const uint8_t *p;
		uint64_t order;
		size_t n = ring_peek(r, at, &p, &order);

		assert_true(n > 0 && n <= r->total - at);
		assert_memory_equal(p, model[i] + at, n);
		assert_int_equal(order, order_of[i][at]);
		assert_int_equal(order + n - 1, order_of[i][at + n - 1]);
		at += n;
	}
}

static void a_ring_keeps_what_it_says(void **state)
{
	static const size_t sizes[] = {1, 3, 60, 900, 5000, 65536, 200000};

	(void)state;
	srand(1);
	for (int round = 0; round < 12; round++) {
		struct ring r[2] = {{NULL}, {NULL}};
		size_t most = sizes[(size_t)round % ARRAY_LEN(sizes)];

		for (int step = 0; step < 400; step++)
			put(r, rand() % 2, 1 + (size_t)rand() % most);
		for (int i = 0; i < 2; i++) {
			check(&r[i], i);
			assert_int_equal(ring_peek(&r[i], r[i].total, NULL, NULL), 0);
		}
		ring_drop(&r[0]);
		check(&r[0], 0);
		for (int i = 0; i < 2; i++)
			ring_done(&r[i]);
		assert_int_equal(rings_mem, 0);
		assert_int_equal(r[0].first, r[0].total);
	}
}

static void a_read_that_brought_nothing_leaves_no_trace(void **state)
{
	struct ring r[2] = {{NULL}, {NULL}};
	size_t room, mem;

	(void)state;
	put(r, 0, 10);
	mem = r[0].mem;
	for (int i = 0; i < 100000; i++)
		assert_non_null(ring_room(&r[0], r[0].total + (uint64_t)i, 100, &room));
	assert_int_equal(r[0].mem, mem);
	ring_done(&r[0]);
}

static void small_outputs_cost_little(void **state)
{
	struct ring r[2] = {{NULL}, {NULL}};

	(void)state;
	put(r, 0, 100);
	assert_true(rings_mem <= 1024);
	put(r, 0, 3000);
	assert_true(rings_mem <= 4096);
	check(&r[0], 0);
	ring_done(&r[0]);
}

static void need_is_what_room_takes(void **state)
{
	struct ring r = {NULL};
	size_t room;

	(void)state;
	srand(2);
	for (int i = 0; i < 2000; i++) {
		size_t want = 1 + (size_t)rand() % 40000;
		size_t need = ring_need(&r, r.total, want), before = rings_mem;

		assert_non_null(ring_room(&r, r.total, want, &room));
		assert_true(rings_mem <= before + need);
		ring_commit(&r, room);
	}
	ring_done(&r);
	assert_int_equal(rings_mem, 0);
}

static void lost_bytes_are_counted(void **state)
{
	struct ring r[2] = {{NULL}, {NULL}};

	(void)state;
	put(r, 0, 100);
	ring_lost(&r[0], 50);
	assert_int_equal(r[0].total, 150);
	assert_int_equal(r[0].first, 150);
	put(r, 0, 10);
	check(&r[0], 0);
	ring_done(&r[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_ring_keeps_what_it_says),
		cmocka_unit_test(a_read_that_brought_nothing_leaves_no_trace),
		cmocka_unit_test(small_outputs_cost_little),
		cmocka_unit_test(need_is_what_room_takes),
		cmocka_unit_test(lost_bytes_are_counted),
	};

	return cmocka_run_group_tests_name("ring", tests, models_make, models_free);
}
