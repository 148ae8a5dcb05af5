/*
 * test_store.c - statements, migrations, rows, their edges and their parking.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "unit/storebox.h"

/* ---- statements ---- */

struct plans {
	unsigned lines, scans;
};

static void plan_line(void *arg, const char *sql, const char *line, bool scan_meant)
{
	struct plans *p = arg;

	p->lines++;
	if (strncmp(line, "SCAN", 4) != 0 || strncmp(line, "SCAN (subquery", 14) == 0 ||
	    strncmp(line, "SCAN CONSTANT", 13) == 0)
		return;
	if (scan_meant)
		return;
	p->scans++;
	print_message("%s\n\t%s\n", sql, line);
}

static void every_statement_prepares_and_none_scans_a_table(void **state)
{
	struct storebox *b = *state;
	struct plans p = {0};
	struct err err = {0};

	assert_int_equal(store_plans(b->st, plan_line, &p, &err), 0);
	assert_true(p.lines > 50);
	assert_int_equal(p.scans, 0);
}

static void order_line(void *arg, const char *sql, const char *line, bool scan_meant)
{
	unsigned *sorts = arg;

	(void)scan_meant;
	if (strstr(sql, "FROM sandbox WHERE org_id = ?1 AND (last_activity_ms") &&
	    strstr(line, "TEMP B-TREE"))
		++*sorts;
}

static void default_order_of_the_list_needs_no_sort(void **state)
{
	struct storebox *b = *state;
	unsigned sorts = 0;

	assert_int_equal(store_plans(b->st, order_line, &sorts, NULL), 0);
	assert_int_equal(sorts, 0);
}

/* ---- migrations ---- */

static void sql_on(const char *path, const char *sql)
{
	sqlite3 *db;

	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
	sqlite3_close(db);
}

static void reopening_applies_nothing_again(void **state)
{
	struct storebox *b = *state;
	struct sandbox_row row = storebox_row("keep"), got;

	storebox_put(b, &row);
	store_close(b->st);
	b->st = store_open(b->path, NULL);
	assert_non_null(b->st);
	assert_int_equal(store_sandbox_get(b->st, ORG, "keep", &got, NULL), 1);
	sandbox_row_done(&got);
}

static void changed_migration_is_refused(void **state)
{
	struct storebox *b = *state;
	struct err err = {0};

	store_close(b->st);
	b->st = NULL;
	sql_on(b->path, "UPDATE schema_migration SET sha256 = 'x' WHERE n = 1");
	assert_null(store_open(b->path, &err));
	assert_int_equal(err.code, ERR_CONFLICT);
}

static void newer_database_is_refused_with_the_remedy(void **state)
{
	struct storebox *b = *state;
	struct err err = {0};

	store_close(b->st);
	b->st = NULL;
	sql_on(b->path, "INSERT INTO schema_migration VALUES (999, 'later', 'y', 0)");
	assert_null(store_open(b->path, &err));
	assert_int_equal(err.code, ERR_CONFLICT);
	assert_non_null(strstr(err.msg, "newer"));
}

static void file_is_for_its_owner_only(void **state)
{
	struct storebox *b = *state;
	struct stat st;

	assert_int_equal(stat(b->path, &st), 0);
	assert_int_equal(st.st_mode & 077, 0);
}

/* ---- rows ---- */

static void row_round_trips_whole(void **state)
{
	struct storebox *b = *state;
	struct sandbox_row row = storebox_row("all"), got;

	kv_set(&row.s.env, "A", "x' \" $(id)\n\xe2\x98\x95", NULL);
	kv_set(&row.s.env, "EMPTY", "", NULL);
	kv_set(&row.s.labels, "code-toolbox-language", "python", NULL);
	row.s.domain_allow_list = strdup("a.example.com");
	row.s.is_public = row.s.network_block_all = row.s.no_new_privs = true;
	row.s.auto_destroy_ms = 1234567890123;
	memset(row.layer, 'c', sizeof(row.layer) - 1);
	storebox_put(b, &row);
	assert_int_equal(store_sandbox_get(b->st, ORG, row.s.id, &got, NULL), 1);
	assert_string_equal(kv_get(&got.s.env, "A"), "x' \" $(id)\n\xe2\x98\x95");
	assert_string_equal(kv_get(&got.s.env, "EMPTY"), "");
	assert_string_equal(kv_get(&got.s.labels, "code-toolbox-language"), "python");
	assert_string_equal(got.s.domain_allow_list, "a.example.com");
	assert_null(got.s.network_allow_list);
	assert_true(got.s.is_public && got.s.network_block_all && got.s.no_new_privs);
	assert_int_equal(got.s.auto_destroy_ms, 1234567890123);
	assert_string_equal(got.layer, row.layer);
	assert_int_equal(got.s.auto_delete_min, -1);
	sandbox_row_done(&row);
	sandbox_row_done(&got);
}

static void foreign_organization_finds_nothing(void **state)
{
	struct storebox *b = *state;
	struct sandbox_row row = storebox_row("mine"), got;
	char other[ID_LEN];

	id_new(other);
	storebox_put(b, &row);
	assert_int_equal(store_sandbox_get(b->st, other, row.s.id, &got, NULL), 0);
	assert_int_equal(store_sandbox_get(b->st, other, "mine", &got, NULL), 0);
}

static void edge_from_another_state_moves_nothing(void **state)
{
	struct storebox *b = *state;
	struct sandbox_row row = storebox_row(NULL);
	struct store_edge e = {
		.id = row.s.id, .from = SB_STARTED, .to = SB_STOPPING, .desired = -1, .now_ms = 1};

	storebox_put(b, &row);
	assert_int_equal(store_sandbox_edge(b->st, &e, NULL), 0);
	e.from = SB_CREATING;
	e.to = SB_STARTED;
	assert_int_equal(store_sandbox_edge(b->st, &e, NULL), 1);
	assert_int_equal(store_sandbox_edge(b->st, &e, NULL), 0);
}

struct racer {
	struct storebox *b;
	const char *id;
	pthread_t thread;
	int moved;
};

static void *race(void *arg)
{
	struct racer *r = arg;
	struct store_edge e = {
		.id = r->id, .from = SB_CREATING, .to = SB_STARTED, .desired = -1, .now_ms = 1};

	r->moved = store_sandbox_edge(r->b->st, &e, NULL);
	return NULL;
}

static void one_of_racing_edges_moves(void **state)
{
	struct storebox *b = *state;
	struct sandbox_row row = storebox_row(NULL);
	struct racer r[8];
	int moved = 0;

	storebox_put(b, &row);
	for (size_t i = 0; i < ARRAY_LEN(r); i++) {
		r[i] = (struct racer){.b = b, .id = row.s.id};
		pthread_create(&r[i].thread, NULL, race, &r[i]);
	}
	for (size_t i = 0; i < ARRAY_LEN(r); i++) {
		pthread_join(r[i].thread, NULL);
		assert_true(r[i].moved >= 0);
		moved += r[i].moved;
	}
	assert_int_equal(moved, 1);
}

static void destroying_renames_so_the_name_is_free(void **state)
{
	struct storebox *b = *state;
	char longest[129];
	struct sandbox_row row, again, got;
	struct store_edge e = {.from = SB_CREATING,
			       .to = SB_DESTROYING,
			       .desired = SB_DESTROYED,
			       .now_ms = 1700000000000};

	memset(longest, 'n', 128);
	longest[128] = '\0';
	row = storebox_row(longest);
	e.id = row.s.id;
	storebox_put(b, &row);
	assert_int_equal(store_sandbox_edge(b->st, &e, NULL), 1);
	assert_int_equal(store_sandbox_get(b->st, ORG, row.s.id, &got, NULL), 1);
	assert_memory_equal(got.s.name, "DESTROYED_nnn", 13);
	assert_string_equal(got.s.name + 10 + 128, "_1700000000000");
	sandbox_row_done(&got);
	again = storebox_row(longest);
	storebox_put(b, &again);
}

static void destroyed_row_is_gone_with_its_labels(void **state)
{
	struct storebox *b = *state;
	struct sandbox_row row = storebox_row("x"), got;
	struct store_edge e = {.id = row.s.id,
			       .from = SB_DESTROYING,
			       .to = SB_DESTROYED,
			       .desired = -1,
			       .now_ms = 1};
	sqlite3_stmt *st;
	sqlite3 *db;

	kv_set(&row.s.labels, "a", "b", NULL);
	storebox_put(b, &row);
	/* Only from destroying. */
	assert_int_equal(store_sandbox_edge(b->st, &e, NULL), 0);
	e.from = SB_CREATING;
	e.to = SB_DESTROYING;
	assert_int_equal(store_sandbox_edge(b->st, &e, NULL), 1);
	e.to = SB_DESTROYED;
	assert_int_equal(store_sandbox_edge(b->st, &e, NULL), 1);
	assert_int_equal(store_sandbox_get(b->st, ORG, row.s.id, &got, NULL), 0);
	assert_int_equal(sqlite3_open(b->path, &db), SQLITE_OK);
	sqlite3_prepare_v2(db, "SELECT count(*) FROM label", -1, &st, NULL);
	assert_int_equal(sqlite3_step(st), SQLITE_ROW);
	assert_int_equal(sqlite3_column_int(st, 0), 0);
	sqlite3_finalize(st);
	sqlite3_close(db);
	sandbox_row_done(&row);
}

static void refused_create_leaves_no_idempotency_record(void **state)
{
	struct storebox *b = *state;
	uint8_t digest[32] = {1};
	struct store_idem idem = {"k", digest};
	struct sandbox_row row = storebox_row("same"), second = storebox_row("same"),
			   third = storebox_row("free");
	char id[ID_LEN];

	storebox_put(b, &row);
	assert_int_equal(store_sandbox_insert(b->st, &second, &idem, id, NULL), CREATE_NAME_TAKEN);
	assert_string_equal(id, row.s.id);
	assert_int_equal(store_sandbox_insert(b->st, &third, &idem, id, NULL), CREATE_NEW);
}

static void idempotency_key_replays_or_refuses(void **state)
{
	struct storebox *b = *state;
	uint8_t digest[32] = {1}, other[32] = {2};
	struct store_idem idem = {"k", digest}, reused = {"k", other};
	struct sandbox_row row = storebox_row("same"), second = storebox_row("same");
	char id[ID_LEN];

	assert_int_equal(store_sandbox_insert(b->st, &row, &idem, id, NULL), CREATE_NEW);
	assert_int_equal(store_sandbox_insert(b->st, &second, &idem, id, NULL), CREATE_REPLAY);
	assert_string_equal(id, row.s.id);
	assert_int_equal(store_sandbox_insert(b->st, &second, &reused, id, NULL),
			 CREATE_KEY_REUSED);
}

static void ageing_keeps_a_day_of_keys(void **state)
{
	struct storebox *b = *state;
	uint8_t digest[32] = {1};
	struct store_idem idem = {"k", digest};
	struct sandbox_row row = storebox_row(NULL), next = storebox_row(NULL);
	int64_t day = 24ll * 3600 * 1000, now = clock_wall_ms();
	char id[ID_LEN];

	assert_int_equal(store_sandbox_insert(b->st, &row, &idem, id, NULL), CREATE_NEW);
	assert_int_equal(store_age(b->st, now + day - 60000, NULL), 0);
	assert_int_equal(store_sandbox_insert(b->st, &next, &idem, id, NULL), CREATE_REPLAY);
	assert_int_equal(store_age(b->st, now + day + 60000, NULL), 0);
	assert_int_equal(store_sandbox_insert(b->st, &next, &idem, id, NULL), CREATE_NEW);
}

/* ---- warm ---- */

static void parked_sandbox_is_claimed_once(void **state)
{
	struct storebox *b = *state;
	struct sandbox_row parked = storebox_row(NULL), want = storebox_row(""), got;
	struct store_idem idem = {0};
	struct err err = {0};
	char id[ID_LEN];
	unsigned n;

	parked.s.warm = true;
	parked.s.org_id[0] = '\0';
	parked.s.state = SB_STARTED;
	storebox_put(b, &parked);
	want.s.name[0] = '\0';
	kv_set(&want.s.labels, "a", "b", NULL);
	assert_int_equal(store_sandbox_parked(b->st, "caisson-small", &n, NULL), 0);
	assert_int_equal(n, 1);
	assert_int_equal(store_sandbox_claim(b->st, &want, &idem, id, &err), CREATE_NEW);
	assert_string_equal(id, parked.s.id);
	assert_int_equal(store_sandbox_get(b->st, ORG, id, &got, NULL), 1);
	assert_string_equal(got.s.name, id);
	assert_false(got.s.warm);
	assert_string_equal(kv_get(&got.s.labels, "a"), "b");
	sandbox_row_done(&got);
	assert_int_equal(store_sandbox_claim(b->st, &want, &idem, id, &err), CREATE_NO_WARM);
	sandbox_row_done(&want);
}

static int by_time(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

static void writes_are_cheap(void **state)
{
	enum { N = 2000 };
	static int64_t insert[N], edge[N];
	struct storebox *b = *state;

	for (int i = 0; i < N; i++) {
		struct sandbox_row row = storebox_row(NULL);
		struct store_edge e = {.id = row.s.id,
				       .from = SB_CREATING,
				       .to = SB_STARTED,
				       .desired = -1,
				       .ip4 = "10.0.0.1",
				       .ip6 = "",
				       .now_ms = 1};

		kv_set(&row.s.labels, "lang", "python", NULL);
		insert[i] = clock_mono_us();
		storebox_put(b, &row);
		edge[i] = clock_mono_us();
		insert[i] = edge[i] - insert[i];
		assert_int_equal(store_sandbox_edge(b->st, &e, NULL), 1);
		edge[i] = clock_mono_us() - edge[i];
		sandbox_row_done(&row);
	}
	qsort(insert, N, sizeof(*insert), by_time);
	qsort(edge, N, sizeof(*edge), by_time);
	print_message("insert p50 %d p99 %d us, edge p50 %d p99 %d us (of %d)\n",
		      (int)insert[N / 2], (int)insert[N * 99 / 100], (int)edge[N / 2],
		      (int)edge[N * 99 / 100], N);
}

#define T(fn) cmocka_unit_test_setup_teardown(fn, storebox_setup, storebox_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(every_statement_prepares_and_none_scans_a_table),
		T(default_order_of_the_list_needs_no_sort),
		T(reopening_applies_nothing_again),
		T(changed_migration_is_refused),
		T(newer_database_is_refused_with_the_remedy),
		T(file_is_for_its_owner_only),
		T(row_round_trips_whole),
		T(foreign_organization_finds_nothing),
		T(edge_from_another_state_moves_nothing),
		T(one_of_racing_edges_moves),
		T(destroying_renames_so_the_name_is_free),
		T(destroyed_row_is_gone_with_its_labels),
		T(refused_create_leaves_no_idempotency_record),
		T(idempotency_key_replays_or_refuses),
		T(ageing_keeps_a_day_of_keys),
		T(parked_sandbox_is_claimed_once),
		T(writes_are_cheap),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
