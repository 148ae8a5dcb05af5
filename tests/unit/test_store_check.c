/*
 * test_store_check.c - the doctor's look at the records: what it calls sound, what not, and why.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/path.h"
#include "store/store.h"

struct records {
	char dir[64], path[96];
};

static void event(struct store *st, int64_t at)
{
	struct history_item item = {.at_ms = at, .kind = "oom", .text = "text"};

	assert_int_equal(store_event_add(st, "x", &item, NULL), 0);
}

static int setup(void **state)
{
	struct records *r = calloc(1, sizeof(*r));
	struct store *st;

	snprintf(r->dir, sizeof(r->dir), "/tmp/caisson-check-XXXXXX");
	assert_non_null(mkdtemp(r->dir));
	snprintf(r->path, sizeof(r->path), "%s/caisson.db", r->dir);
	st = store_open(r->path, NULL);
	assert_non_null(st);
	for (int i = 0; i < 50; i++)
		event(st, i);
	store_close(st);
	*state = r;
	return 0;
}

static int teardown(void **state)
{
	struct records *r = *state;

	path_remove_tree(AT_FDCWD, r->dir, NULL);
	free(r);
	return 0;
}

static void overwrite(const struct records *r, off_t at, size_t n)
{
	char junk[65536];
	int fd = open(r->path, O_WRONLY | O_CLOEXEC);

	memset(junk, 0x5a, sizeof(junk));
	assert_int_equal(pwrite(fd, junk, n, at), n);
	close(fd);
}

static void refused(const struct records *r, const char *says)
{
	struct err err = {0};

	assert_int_equal(store_check(r->path, &err), -1);
	if (!strstr(err.msg, says) || !strstr(err.msg, r->path))
		fail_msg("says: %s", err.msg);
}

static void sound_records_pass_and_stay_as_they_are(void **state)
{
	struct records *r = *state;
	struct stat before, after;

	assert_int_equal(stat(r->path, &before), 0);
	assert_int_equal(store_check(r->path, NULL), 0);
	assert_int_equal(stat(r->path, &after), 0);
	assert_int_equal(before.st_mtim.tv_nsec, after.st_mtim.tv_nsec);
}

static void records_in_use_pass(void **state)
{
	struct records *r = *state;
	struct store *st = store_open(r->path, NULL);

	event(st, 60);
	assert_int_equal(store_check(r->path, NULL), 0);
	store_close(st);
}

/* The api process of a killed daemon may still be on its way out when the next one looks. */
static void records_that_somebody_holds_locked_pass(void **state)
{
	struct records *r = *state;
	sqlite3 *db;

	assert_int_equal(sqlite3_open(r->path, &db), SQLITE_OK);
	assert_int_equal(sqlite3_exec(db,
				      "PRAGMA locking_mode=EXCLUSIVE;"
				      "DELETE FROM event WHERE at_ms = 1",
				      NULL, NULL, NULL),
			 SQLITE_OK);
	assert_int_equal(store_check(r->path, NULL), 0);
	sqlite3_close(db);
}

static void no_file_and_an_empty_file_pass(void **state)
{
	struct records *r = *state;

	assert_int_equal(truncate(r->path, 0), 0);
	assert_int_equal(store_check(r->path, NULL), 0);
	assert_int_equal(unlink(r->path), 0);
	assert_int_equal(store_check(r->path, NULL), 0);
}

static void file_that_is_no_database_is_told(void **state)
{
	struct records *r = *state;

	overwrite(r, 0, 4096);
	refused(r, "not a database");
}

static void damaged_pages_are_told(void **state)
{
	struct records *r = *state;

	overwrite(r, 8192, 32768);
	refused(r, "database");
}

static void newer_records_are_told_with_the_remedy(void **state)
{
	struct records *r = *state;
	sqlite3 *db;

	assert_int_equal(sqlite3_open(r->path, &db), SQLITE_OK);
	sqlite3_exec(db, "INSERT INTO schema_migration VALUES (999, 'later', 'y', 0)", NULL, NULL,
		     NULL);
	sqlite3_close(db);
	refused(r, "run the newer caissond");
}

/* The walk over the pages ends by the clock, whatever the size. */
static void large_records_take_no_longer_than_promised(void **state)
{
	struct records *r = *state;
	sqlite3 *db;
	int64_t began;

	assert_int_equal(sqlite3_open(r->path, &db), SQLITE_OK);
	assert_int_equal(
		sqlite3_exec(db,
			     "PRAGMA synchronous=OFF;"
			     "CREATE TABLE big (a TEXT, b TEXT UNIQUE);"
			     "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n "
			     "WHERE i < 300000) INSERT INTO big SELECT i, 'row ' || i FROM n",
			     NULL, NULL, NULL),
		SQLITE_OK);
	sqlite3_close(db);
	began = clock_mono_ms();
	assert_int_equal(store_check(r->path, NULL), 0);
	assert_true(clock_mono_ms() - began < 2000);
}

#define T(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(sound_records_pass_and_stay_as_they_are),
		T(records_in_use_pass),
		T(records_that_somebody_holds_locked_pass),
		T(no_file_and_an_empty_file_pass),
		T(file_that_is_no_database_is_told),
		T(damaged_pages_are_told),
		T(newer_records_are_told_with_the_remedy),
		T(large_records_take_no_longer_than_promised),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
