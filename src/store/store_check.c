/*
 * store_check.c - would this program open these records? Asked by the doctor, changes nothing.
 *
 * The connection is read-only, so another daemon may be at work on the file. The walk over the
 * pages is cut after CHECK_MS: a large, sound database must not hold up a start.
 */
#include "store/store_int.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

#define CHECK_MS    100
#define CHECK_STEPS 1000 /* instructions of SQLite between two looks at the clock */

static int check_late(void *arg)
{
	return clock_left_ms(*(const int64_t *)arg) == 0;
}

/* The first row's text of a statement, or "" for none; -1 with err. */
static int check_text(sqlite3 *db, const char *sql, char *ret, size_t cap, struct err *err)
{
	sqlite3_stmt *st = NULL;
	int rc = sqlite3_prepare_v2(db, sql, -1, &st, NULL);

	ret[0] = '\0';
	if (rc == SQLITE_OK)
		rc = sqlite3_step(st);
	if (rc == SQLITE_ROW)
		snprintf(ret, cap, "%s", (const char *)sqlite3_column_text(st, 0));
	if (rc != SQLITE_ROW && rc != SQLITE_DONE && rc != SQLITE_INTERRUPT) {
		if (rc == SQLITE_PROTOCOL) /* lost a race for a lock too often */
			err_set(err, ERR_UNAVAILABLE, "database: busy");
		else
			store_fault(db, err, "check");
		sqlite3_finalize(st);
		return -1;
	}
	sqlite3_finalize(st);
	return 0;
}

static int check_pages(sqlite3 *db, struct err *err)
{
	int64_t end = clock_mono_ms() + CHECK_MS;
	char text[256];
	int rc;

	sqlite3_progress_handler(db, CHECK_STEPS, check_late, &end);
	rc = check_text(db, "PRAGMA quick_check(1)", text, sizeof(text), err);
	sqlite3_progress_handler(db, 0, NULL, NULL);
	if (rc < 0)
		return -1;
	/* A walk that was cut gives no row. */
	if (text[0] && strcmp(text, "ok") != 0)
		return err_set(err, ERR_INTERNAL, "database: %s", text);
	return 0;
}

static int check_open(sqlite3 *db, struct err *err)
{
	char name[64];

	if (check_text(db, "SELECT name FROM sqlite_master WHERE name = 'schema_migration'", name,
		       sizeof(name), err) < 0)
		return -1;
	/* Without that table the first start was cut short; the next one begins anew. */
	if (name[0] && store_migrations(db, err) < 0)
		return -1;
	return check_pages(db, err);
}

int store_check(const char *path, struct err *err)
{
	struct err why = {0};
	sqlite3 *db = NULL;
	int rc;

	if (access(path, F_OK) < 0 && errno == ENOENT)
		return 0;
	if (sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, NULL) ==
	    SQLITE_OK) {
		sqlite3_busy_timeout(db, CHECK_MS);
		rc = check_open(db, &why);
	} else {
		rc = store_fault(db, &why, "open");
	}
	sqlite3_close(db);
	/* Locked: somebody has them open, as the last process of a killed daemon may for a moment.
	 */
	if (rc == 0 || why.code == ERR_UNAVAILABLE)
		return 0;
	if (err)
		*err = why;
	return err_wrap(err, "%s", path);
}
