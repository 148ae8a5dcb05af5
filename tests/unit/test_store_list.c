/*
 * test_store_list.c - pages of sandboxes: filters, orders, cursors, speed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <string.h>

#include "base/clock.h"
#include "unit/storebox.h"

static struct sandbox_query query_all(void)
{
	return (struct sandbox_query){.min_cpu = SPEC_UNSET,
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
				      .destroy_before = SPEC_UNSET,
				      .limit = 100};
}

static size_t count(struct storebox *b, const struct sandbox_query *q)
{
	struct sandbox_page page;
	struct err err = {0};
	size_t n;

	if (store_sandbox_list(b->st, ORG, q, &page, &err) < 0)
		fail_msg("%s", err.msg);
	n = page.n;
	sandbox_page_done(&page);
	return n;
}

/* 20 rows: name s00.., cpu 1-4, label n=<i % 5>, all with lang=python, every second public. */
static void fill(struct storebox *b)
{
	for (int i = 0; i < 20; i++) {
		char name[16], n[8];
		struct sandbox_row row;

		snprintf(name, sizeof(name), "S%02d", i);
		snprintf(n, sizeof(n), "%d", i % 5);
		row = storebox_row(name);
		row.s.cpu = (unsigned)(i % 4 + 1);
		row.s.is_public = i % 2 == 1;
		row.s.created_ms = 1000 + i;
		row.s.last_activity_ms = 5000 - i / 2;
		row.s.auto_destroy_ms = i < 3 ? 9000 + i : 0;
		kv_set(&row.s.labels, "n", n, NULL);
		kv_set(&row.s.labels, "lang", "python", NULL);
		storebox_put(b, &row);
		sandbox_row_done(&row);
	}
}

static void filters_select(void **state)
{
	struct storebox *b = *state;
	const char *snaps[] = {"other", "caisson-small"}, *none[] = {"caisson"};
	struct kv labels = {0};
	struct sandbox_query q = query_all();

	fill(b);
	assert_int_equal(count(b, &q), 20);
	q.name_prefix = "s0";
	assert_int_equal(count(b, &q), 10);
	q = query_all();
	q.min_cpu = 2;
	q.max_cpu = 3;
	assert_int_equal(count(b, &q), 10);
	q = query_all();
	q.is_public = 1;
	assert_int_equal(count(b, &q), 10);
	q = query_all();
	q.states = 1u << SB_STARTED;
	assert_int_equal(count(b, &q), 0);
	q.states = 1u << SB_STARTED | 1u << SB_CREATING;
	assert_int_equal(count(b, &q), 20);
	q = query_all();
	q.created_after = 1010;
	assert_int_equal(count(b, &q), 10);
	q = query_all();
	q.destroy_before = 9001;
	assert_int_equal(count(b, &q), 2);
	q = query_all();
	q.snapshots = snaps;
	q.nsnapshots = 2;
	assert_int_equal(count(b, &q), 20);
	q.snapshots = none;
	q.nsnapshots = 1;
	assert_int_equal(count(b, &q), 0);
	q = query_all();
	kv_set(&labels, "n", "3", NULL);
	q.labels = &labels;
	assert_int_equal(count(b, &q), 4);
	kv_set(&labels, "lang", "python", NULL);
	assert_int_equal(count(b, &q), 4);
	kv_set(&labels, "lang", "ruby", NULL);
	assert_int_equal(count(b, &q), 0);
	kv_done(&labels);
}

static void pages_cover_every_order_exactly_once(void **state)
{
	struct storebox *b = *state;

	fill(b);
	for (int sort = SORT_ACTIVITY; sort <= SORT_CREATED; sort++) {
		for (int asc = 0; asc < 2; asc++) {
			struct sandbox_query q = query_all();
			char cursor[512] = "";
			unsigned seen = 0, pages = 0;
			char last[CORE_NAME_MAX] = "";

			q.sort = (enum sandbox_sort)sort;
			q.ascending = asc;
			q.limit = 7;
			do {
				struct sandbox_page page;

				q.cursor = cursor[0] ? cursor : NULL;
				assert_int_equal(store_sandbox_list(b->st, ORG, &q, &page, NULL),
						 0);
				for (size_t i = 0; i < page.n; i++) {
					seen |= 1u << strtoul(page.item[i].name + 1, NULL, 10);
					if (sort == SORT_NAME && last[0])
						assert_true((strcmp(page.item[i].name, last) > 0) ==
							    asc);
					snprintf(last, sizeof(last), "%s", page.item[i].name);
				}
				snprintf(cursor, sizeof(cursor), "%s", page.next);
				sandbox_page_done(&page);
			} while (cursor[0] && ++pages < 10);
			assert_int_equal(pages, 2);
			assert_int_equal(seen, (1u << 20) - 1);
		}
	}
}

static void foreign_cursors_are_refused(void **state)
{
	static const char *const bad[] = {
		"x",
		"1",
		"10d",
		"10dxx",
		"99999999999999999999999999999999999999999999999999",
		"10a00000000-0000-4000-8000-0000000000015",
		"10d00000000-0000-4000-8000-000000000001",
		"10d00000000-0000-4000-8000-000000000001999999999999999999999",
		"' OR 1=1 --"};
	struct storebox *b = *state;

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct sandbox_query q = query_all();
		struct sandbox_page page;
		struct err err = {0};

		q.cursor = bad[i];
		assert_int_equal(store_sandbox_list(b->st, ORG, &q, &page, &err), -1);
		assert_int_equal(err.code, ERR_INVALID);
	}
}

static void ten_thousand_rows_list_a_page_quickly(void **state)
{
	struct storebox *b = *state;
	struct sandbox_query q = query_all();
	struct kv labels = {0};
	int64_t began, best = INT64_MAX, best_label = INT64_MAX, best_rare = INT64_MAX, t;

	for (int i = 0; i < 10000; i++) {
		struct sandbox_row row = storebox_row(NULL);
		char n[16];

		snprintf(n, sizeof(n), "%d", i);
		row.s.last_activity_ms = 1000 + i;
		kv_set(&row.s.labels, "lang", "python", NULL);
		kv_set(&row.s.labels, "i", n, NULL);
		storebox_put(b, &row);
		sandbox_row_done(&row);
	}
	for (int i = 0; i < 20; i++) {
		q.labels = NULL;
		began = clock_mono_us();
		assert_int_equal(count(b, &q), 100);
		t = clock_mono_us() - began;
		best = MIN(best, t);
		kv_set(&labels, "lang", "python", NULL);
		kv_unset(&labels, "i");
		q.labels = &labels;
		began = clock_mono_us();
		assert_int_equal(count(b, &q), 100);
		t = clock_mono_us() - began;
		best_label = MIN(best_label, t);
		kv_set(&labels, "i", "77", NULL);
		began = clock_mono_us();
		assert_int_equal(count(b, &q), 1);
		t = clock_mono_us() - began;
		best_rare = MIN(best_rare, t);
	}
	kv_done(&labels);
	print_message("page of 100 of 10000: %lld us; by a common label %lld us; by a rare one "
		      "%lld us\n",
		      (long long)best, (long long)best_label, (long long)best_rare);
	assert_true(best < 20000 && best_label < 20000 && best_rare < 20000);
}

#define T(fn) cmocka_unit_test_setup_teardown(fn, storebox_setup, storebox_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(filters_select),
		T(pages_cover_every_order_exactly_once),
		T(foreign_cursors_are_refused),
		T(ten_thousand_rows_list_a_page_quickly),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
