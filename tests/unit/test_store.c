/*
 * test_store.c - the records: plans, migrations, transactions, pages.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <fcntl.h>
#include <pthread.h>
#include <sqlite3.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/path.h"
#include "store/store.h"

#define ORG "00000000-0000-4000-8000-000000000001"

struct box {
	char dir[64], path[96];
	struct store *st;
};

static int setup(void **state)
{
	struct box *b = calloc(1, sizeof(*b));
	struct err err = {0};

	snprintf(b->dir, sizeof(b->dir), "/tmp/caisson-store-XXXXXX");
	assert_non_null(mkdtemp(b->dir));
	snprintf(b->path, sizeof(b->path), "%s/caisson.db", b->dir);
	b->st = store_open(b->path, &err);
	if (!b->st)
		fail_msg("%s", err.msg);
	*state = b;
	return 0;
}

static int teardown(void **state)
{
	struct box *b = *state;

	store_close(b->st);
	path_remove_tree(AT_FDCWD, b->dir, NULL);
	free(b);
	return 0;
}

static struct sandbox_row row_of(const char *name)
{
	struct sandbox_row row = {.s = {.state = SB_CREATING,
					.desired = SB_STARTED,
					.cpu = 1,
					.memory_gib = 1,
					.disk_gib = 3,
					.auto_delete_min = -1}};

	id_new(row.s.id);
	memcpy(row.s.org_id, ORG, ID_LEN);
	snprintf(row.s.name, sizeof(row.s.name), "%s", name ? name : row.s.id);
	snprintf(row.s.region, sizeof(row.s.region), "local");
	snprintf(row.s.snapshot, sizeof(row.s.snapshot), "caisson-small");
	row.s.created_ms = row.s.updated_ms = row.s.last_activity_ms = clock_wall_ms();
	return row;
}

static void put(struct box *b, struct sandbox_row *row)
{
	struct store_idem idem = {0};
	struct err err = {0};
	char id[ID_LEN];

	if (store_sandbox_insert(b->st, row, &idem, id, &err) != CREATE_NEW)
		fail_msg("%s", err.msg);
}

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
	struct box *b = *state;
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
	struct box *b = *state;
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
	struct box *b = *state;
	struct sandbox_row row = row_of("keep"), got;

	put(b, &row);
	store_close(b->st);
	b->st = store_open(b->path, NULL);
	assert_non_null(b->st);
	assert_int_equal(store_sandbox_get(b->st, ORG, "keep", &got, NULL), 1);
	sandbox_row_done(&got);
}

static void changed_migration_is_refused(void **state)
{
	struct box *b = *state;
	struct err err = {0};

	store_close(b->st);
	b->st = NULL;
	sql_on(b->path, "UPDATE schema_migration SET sha256 = 'x' WHERE n = 1");
	assert_null(store_open(b->path, &err));
	assert_int_equal(err.code, ERR_CONFLICT);
}

static void newer_database_is_refused_with_the_remedy(void **state)
{
	struct box *b = *state;
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
	struct box *b = *state;
	struct stat st;

	assert_int_equal(stat(b->path, &st), 0);
	assert_int_equal(st.st_mode & 077, 0);
}

/* ---- rows ---- */

static void row_round_trips_whole(void **state)
{
	struct box *b = *state;
	struct sandbox_row row = row_of("all"), got;

	kv_set(&row.s.env, "A", "x' \" $(id)\n\xe2\x98\x95", NULL);
	kv_set(&row.s.env, "EMPTY", "", NULL);
	kv_set(&row.s.labels, "code-toolbox-language", "python", NULL);
	row.s.domain_allow_list = strdup("a.example.com");
	row.s.is_public = row.s.network_block_all = row.s.no_new_privs = true;
	row.s.auto_destroy_ms = 1234567890123;
	memset(row.layer, 'c', sizeof(row.layer) - 1);
	put(b, &row);
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
	struct box *b = *state;
	struct sandbox_row row = row_of("mine"), got;
	char other[ID_LEN];

	id_new(other);
	put(b, &row);
	assert_int_equal(store_sandbox_get(b->st, other, row.s.id, &got, NULL), 0);
	assert_int_equal(store_sandbox_get(b->st, other, "mine", &got, NULL), 0);
}

static void edge_from_another_state_moves_nothing(void **state)
{
	struct box *b = *state;
	struct sandbox_row row = row_of(NULL);
	struct store_edge e = {
		.id = row.s.id, .from = SB_STARTED, .to = SB_STOPPING, .desired = -1, .now_ms = 1};

	put(b, &row);
	assert_int_equal(store_sandbox_edge(b->st, &e, NULL), 0);
	e.from = SB_CREATING;
	e.to = SB_STARTED;
	assert_int_equal(store_sandbox_edge(b->st, &e, NULL), 1);
	assert_int_equal(store_sandbox_edge(b->st, &e, NULL), 0);
}

struct racer {
	struct box *b;
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
	struct box *b = *state;
	struct sandbox_row row = row_of(NULL);
	struct racer r[8];
	int moved = 0;

	put(b, &row);
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
	struct box *b = *state;
	char longest[129];
	struct sandbox_row row, again, got;
	struct store_edge e = {.from = SB_CREATING,
			       .to = SB_DESTROYING,
			       .desired = SB_DESTROYED,
			       .now_ms = 1700000000000};

	memset(longest, 'n', 128);
	longest[128] = '\0';
	row = row_of(longest);
	e.id = row.s.id;
	put(b, &row);
	assert_int_equal(store_sandbox_edge(b->st, &e, NULL), 1);
	assert_int_equal(store_sandbox_get(b->st, ORG, row.s.id, &got, NULL), 1);
	assert_memory_equal(got.s.name, "DESTROYED_nnn", 13);
	assert_string_equal(got.s.name + 10 + 128, "_1700000000000");
	sandbox_row_done(&got);
	again = row_of(longest);
	put(b, &again);
}

static void destroyed_row_is_gone_with_its_labels(void **state)
{
	struct box *b = *state;
	struct sandbox_row row = row_of("x"), got;
	struct store_edge e = {.id = row.s.id,
			       .from = SB_DESTROYING,
			       .to = SB_DESTROYED,
			       .desired = -1,
			       .now_ms = 1};
	sqlite3_stmt *st;
	sqlite3 *db;

	kv_set(&row.s.labels, "a", "b", NULL);
	put(b, &row);
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
	struct box *b = *state;
	uint8_t digest[32] = {1};
	struct store_idem idem = {"k", digest};
	struct sandbox_row row = row_of("same"), second = row_of("same"), third = row_of("free");
	char id[ID_LEN];

	put(b, &row);
	assert_int_equal(store_sandbox_insert(b->st, &second, &idem, id, NULL), CREATE_NAME_TAKEN);
	assert_string_equal(id, row.s.id);
	assert_int_equal(store_sandbox_insert(b->st, &third, &idem, id, NULL), CREATE_NEW);
}

static void idempotency_key_replays_or_refuses(void **state)
{
	struct box *b = *state;
	uint8_t digest[32] = {1}, other[32] = {2};
	struct store_idem idem = {"k", digest}, reused = {"k", other};
	struct sandbox_row row = row_of("same"), second = row_of("same");
	char id[ID_LEN];

	assert_int_equal(store_sandbox_insert(b->st, &row, &idem, id, NULL), CREATE_NEW);
	assert_int_equal(store_sandbox_insert(b->st, &second, &idem, id, NULL), CREATE_REPLAY);
	assert_string_equal(id, row.s.id);
	assert_int_equal(store_sandbox_insert(b->st, &second, &reused, id, NULL),
			 CREATE_KEY_REUSED);
}

static void ageing_keeps_a_day_of_keys(void **state)
{
	struct box *b = *state;
	uint8_t digest[32] = {1};
	struct store_idem idem = {"k", digest};
	struct sandbox_row row = row_of(NULL), next = row_of(NULL);
	int64_t day = 24ll * 3600 * 1000, now = clock_wall_ms();
	char id[ID_LEN];

	assert_int_equal(store_sandbox_insert(b->st, &row, &idem, id, NULL), CREATE_NEW);
	assert_int_equal(store_age(b->st, now + day - 60000, NULL), 0);
	assert_int_equal(store_sandbox_insert(b->st, &next, &idem, id, NULL), CREATE_REPLAY);
	assert_int_equal(store_age(b->st, now + day + 60000, NULL), 0);
	assert_int_equal(store_sandbox_insert(b->st, &next, &idem, id, NULL), CREATE_NEW);
}

/* ---- lists ---- */

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

static size_t count(struct box *b, const struct sandbox_query *q)
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
static void fill(struct box *b)
{
	for (int i = 0; i < 20; i++) {
		char name[16], n[8];
		struct sandbox_row row;

		snprintf(name, sizeof(name), "S%02d", i);
		snprintf(n, sizeof(n), "%d", i % 5);
		row = row_of(name);
		row.s.cpu = (unsigned)(i % 4 + 1);
		row.s.is_public = i % 2 == 1;
		row.s.created_ms = 1000 + i;
		row.s.last_activity_ms = 5000 - i / 2;
		row.s.auto_destroy_ms = i < 3 ? 9000 + i : 0;
		kv_set(&row.s.labels, "n", n, NULL);
		kv_set(&row.s.labels, "lang", "python", NULL);
		put(b, &row);
		sandbox_row_done(&row);
	}
}

static void filters_select(void **state)
{
	struct box *b = *state;
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
	struct box *b = *state;

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
	struct box *b = *state;

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
	struct box *b = *state;
	struct sandbox_query q = query_all();
	struct kv labels = {0};
	int64_t began, best = INT64_MAX, best_label = INT64_MAX, best_rare = INT64_MAX, t;

	for (int i = 0; i < 10000; i++) {
		struct sandbox_row row = row_of(NULL);
		char n[16];

		snprintf(n, sizeof(n), "%d", i);
		row.s.last_activity_ms = 1000 + i;
		kv_set(&row.s.labels, "lang", "python", NULL);
		kv_set(&row.s.labels, "i", n, NULL);
		put(b, &row);
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

/* ---- warm ---- */

static void parked_sandbox_is_claimed_once(void **state)
{
	struct box *b = *state;
	struct sandbox_row parked = row_of(NULL), want = row_of(""), got;
	struct store_idem idem = {0};
	struct err err = {0};
	char id[ID_LEN];
	unsigned n;

	parked.s.warm = true;
	parked.s.org_id[0] = '\0';
	parked.s.state = SB_STARTED;
	put(b, &parked);
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
	struct box *b = *state;

	for (int i = 0; i < N; i++) {
		struct sandbox_row row = row_of(NULL);
		struct store_edge e = {.id = row.s.id,
				       .from = SB_CREATING,
				       .to = SB_STARTED,
				       .desired = -1,
				       .ip4 = "10.0.0.1",
				       .ip6 = "",
				       .now_ms = 1};

		kv_set(&row.s.labels, "lang", "python", NULL);
		insert[i] = clock_mono_us();
		put(b, &row);
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

#define T(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

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
		T(filters_select),
		T(pages_cover_every_order_exactly_once),
		T(foreign_cursors_are_refused),
		T(ten_thousand_rows_list_a_page_quickly),
		T(parked_sandbox_is_claimed_once),
		T(writes_are_cheap),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
