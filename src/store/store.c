/*
 * store.c - open, migrate, hand out connections, keep the log short.
 *
 * The writer never checkpoints by itself: a checkpoint syncs to disk, milliseconds that would be
 * a create's. A thread of the store does it, with a connection of its own.
 */
#include "store/store_int.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "store/migration.h"

static const struct {
	const char *sql;
	bool scan_meant;
} stmt_table[ST_MAX] = {
#define STMT_ROW_(id, scan, sql) [id] = {sql, scan},
	STATEMENTS(STMT_ROW_)
#undef STMT_ROW_
};

int store_fault(sqlite3 *db, struct err *err, const char *what)
{
	int rc = db ? sqlite3_errcode(db) : SQLITE_NOMEM;
	enum err_code code = rc == SQLITE_BUSY || rc == SQLITE_FULL ? ERR_UNAVAILABLE
			     : rc == SQLITE_NOMEM		    ? ERR_NOMEM
								    : ERR_INTERNAL;

	return err_set(err, code, "database: %s: %s", what, db ? sqlite3_errmsg(db) : "no memory");
}

static int db_exec(sqlite3 *db, const char *sql, struct err *err)
{
	if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
		return store_fault(db, err, "set up");
	return 0;
}

static int db_open(const char *path, int flags, sqlite3 **ret, struct err *err)
{
	/* Each connection is used by one thread at a time: SQLite's own mutexes are not needed. */
	if (sqlite3_open_v2(path, ret, flags | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE,
			    NULL) != SQLITE_OK) {
		store_fault(*ret, err, path);
		sqlite3_close(*ret);
		*ret = NULL;
		return -1;
	}
	sqlite3_extended_result_codes(*ret, 0);
	sqlite3_busy_timeout(*ret, STORE_BUSY_MS);
	if (store_kv_function(*ret) != SQLITE_OK)
		return store_fault(*ret, err, "add function");
	return db_exec(*ret,
		       "PRAGMA foreign_keys=ON; PRAGMA synchronous=NORMAL;"
		       "PRAGMA temp_store=MEMORY; PRAGMA cache_size=-16384;"
		       "PRAGMA trusted_schema=OFF; PRAGMA wal_autocheckpoint=0;",
		       err);
}

static void conn_close(struct conn *c)
{
	for (size_t i = 0; i < ST_MAX; i++)
		sqlite3_finalize(c->st[i]);
	sqlite3_close(c->db);
	memset(c, 0, sizeof(*c));
}

static int conn_prepare(struct conn *c, struct err *err)
{
	for (size_t i = 0; i < ST_MAX; i++) {
		if (sqlite3_prepare_v3(c->db, stmt_table[i].sql, -1, SQLITE_PREPARE_PERSISTENT,
				       &c->st[i], NULL) != SQLITE_OK)
			return store_fault(c->db, err, stmt_table[i].sql);
	}
	return 0;
}

/* ---- migrations ---- */

static int migration_apply(sqlite3 *db, const struct migration *m, struct err *err)
{
	char note[256];

	/* %s is safe here: the name is [a-z0-9_]+ and the digest hex, both from the build. */
	snprintf(note, sizeof(note), "INSERT INTO schema_migration VALUES (%d, '%s', '%s', %lld);",
		 m->n, m->name, m->sha256, (long long)clock_wall_ms());
	if (db_exec(db, "BEGIN IMMEDIATE;", err) < 0)
		return -1;
	if (db_exec(db, m->sql, err) < 0 || db_exec(db, note, err) < 0 ||
	    db_exec(db, "COMMIT;", err) < 0) {
		sqlite3_exec(db, "ROLLBACK;", NULL, NULL, NULL);
		return err_wrap(err, "migration %d", m->n);
	}
	return 0;
}

int store_migrations(sqlite3 *db, struct err *err)
{
	sqlite3_stmt *st;
	int n = 0, rc = 0;

	if (sqlite3_prepare_v2(db, "SELECT n, sha256 FROM schema_migration ORDER BY n", -1, &st,
			       NULL) != SQLITE_OK)
		return store_fault(db, err, "read migrations");
	while (rc == 0 && sqlite3_step(st) == SQLITE_ROW) {
		int have = sqlite3_column_int(st, 0);
		const char *sum = (const char *)sqlite3_column_text(st, 1);

		if ((size_t)have > migrations_n)
			rc = err_set(err, ERR_CONFLICT,
				     "the database is newer than this program (migration %d): "
				     "run the newer caissond",
				     have);
		else if (have != n + 1 || strcmp(sum, migrations[n].sha256) != 0)
			rc = err_set(err, ERR_CONFLICT,
				     "migration %d in the database is not the one of this program",
				     have);
		n++;
	}
	sqlite3_finalize(st);
	return rc < 0 ? -1 : n;
}

static int store_migrate(sqlite3 *db, struct err *err)
{
	int done;

	if (db_exec(db,
		    "CREATE TABLE IF NOT EXISTS schema_migration (n INTEGER PRIMARY KEY,"
		    " name TEXT NOT NULL, sha256 TEXT NOT NULL, at_ms INTEGER NOT NULL) STRICT;",
		    err) < 0)
		return -1;
	done = store_migrations(db, err);
	if (done < 0)
		return -1;
	for (size_t i = (size_t)done; i < migrations_n; i++)
		if (migration_apply(db, &migrations[i], err) < 0)
			return -1;
	return 0;
}

/* ---- checkpoints ---- */

static int store_wal_hook(void *arg, sqlite3 *db, const char *name, int pages)
{
	struct store *s = arg;

	(void)db;
	(void)name;
	__atomic_store_n(&s->wal_pages, pages, __ATOMIC_RELAXED);
	return SQLITE_OK;
}

static void store_checkpoint(struct store *s)
{
	int pages = __atomic_load_n(&s->wal_pages, __ATOMIC_RELAXED);
	int in_log = 0, moved = 0;

	if (pages < STORE_CHECKPOINT_N)
		return;
	sqlite3_wal_checkpoint_v2(s->check, NULL, SQLITE_CHECKPOINT_PASSIVE, &in_log, &moved);
	if (in_log == moved) {
		/* All is in the file: the next writer starts the log anew. */
		__atomic_store_n(&s->wal_pages, 0, __ATOMIC_RELAXED);
		return;
	}
	if (pages < STORE_WAL_MAX_N)
		return;
	pthread_mutex_lock(&s->wlock);
	sqlite3_wal_checkpoint_v2(s->check, NULL, SQLITE_CHECKPOINT_RESTART, NULL, NULL);
	__atomic_store_n(&s->wal_pages, 0, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&s->wlock);
}

static void *store_thread(void *arg)
{
	struct store *s = arg;

	pthread_mutex_lock(&s->rlock);
	while (!s->stop) {
		struct timespec ts;
		int64_t at = clock_wall_ms() + STORE_TICK_MS;

		ts = (struct timespec){.tv_sec = at / 1000, .tv_nsec = at % 1000 * 1000000};
		pthread_cond_timedwait(&s->tick, &s->rlock, &ts);
		pthread_mutex_unlock(&s->rlock);
		store_checkpoint(s);
		pthread_mutex_lock(&s->rlock);
	}
	pthread_mutex_unlock(&s->rlock);
	return NULL;
}

/* ---- open and close ---- */

static int store_connect(struct store *s, const char *path, struct err *err)
{
	const int rw = SQLITE_OPEN_READWRITE;

	if (db_open(path, rw | SQLITE_OPEN_CREATE, &s->w.db, err) < 0)
		return -1;
	if (db_exec(s->w.db, "PRAGMA journal_mode=WAL;", err) < 0 ||
	    store_migrate(s->w.db, err) < 0 || conn_prepare(&s->w, err) < 0)
		return -1;
	sqlite3_wal_hook(s->w.db, store_wal_hook, s);
	for (size_t i = 0; i < STORE_READERS; i++) {
		/* Not READONLY: a reader must be able to make the shared-memory file. */
		if (db_open(path, rw, &s->r[i].db, err) < 0 || conn_prepare(&s->r[i], err) < 0)
			return -1;
	}
	return db_open(path, rw, &s->check, err);
}

struct store *store_open(const char *path, struct err *err)
{
	struct store *s = calloc(1, sizeof(*s));
	mode_t old;
	int rc;

	if (!s) {
		err_set(err, ERR_NOMEM, "out of memory");
		return NULL;
	}
	pthread_mutex_init(&s->wlock, NULL);
	pthread_mutex_init(&s->rlock, NULL);
	pthread_cond_init(&s->rcond, NULL);
	pthread_cond_init(&s->tick, NULL);
	/* Hashes of keys and the environments of sandboxes are nobody else's. */
	old = umask(077);
	rc = store_connect(s, path, err);
	umask(old);
	if (rc == 0) {
		rc = pthread_create(&s->thread, NULL, store_thread, s);
		s->running = rc == 0;
		if (rc)
			rc = err_errno(err, ERR_NOMEM, rc, "start the checkpoint thread");
	}
	if (rc < 0) {
		err_wrap(err, "open %s", path);
		store_close(s);
		return NULL;
	}
	return s;
}

void store_close(struct store *s)
{
	if (!s)
		return;
	if (s->running) {
		pthread_mutex_lock(&s->rlock);
		s->stop = true;
		pthread_cond_signal(&s->tick);
		pthread_mutex_unlock(&s->rlock);
		pthread_join(s->thread, NULL);
	}
	sqlite3_close(s->check);
	for (size_t i = 0; i < STORE_READERS; i++)
		conn_close(&s->r[i]);
	conn_close(&s->w);
	pthread_mutex_destroy(&s->wlock);
	pthread_mutex_destroy(&s->rlock);
	pthread_cond_destroy(&s->rcond);
	pthread_cond_destroy(&s->tick);
	free(s);
}

/* ---- connections ---- */

struct conn *store_writer(struct store *s)
{
	pthread_mutex_lock(&s->wlock);
	return &s->w;
}

void store_writer_done(struct store *s)
{
	pthread_mutex_unlock(&s->wlock);
}

struct conn *store_reader(struct store *s)
{
	pthread_mutex_lock(&s->rlock);
	for (;;) {
		for (size_t i = 0; i < STORE_READERS; i++) {
			if (s->rbusy[i])
				continue;
			s->rbusy[i] = true;
			pthread_mutex_unlock(&s->rlock);
			return &s->r[i];
		}
		pthread_cond_wait(&s->rcond, &s->rlock);
	}
}

void store_reader_done(struct store *s, struct conn *c)
{
	pthread_mutex_lock(&s->rlock);
	s->rbusy[c - s->r] = false;
	pthread_cond_signal(&s->rcond);
	pthread_mutex_unlock(&s->rlock);
}

int store_begin(struct conn *c, struct err *err)
{
	return stmt_run(c, ST_BEGIN, err) < 0 ? -1 : 0;
}

int store_end(struct conn *c, int rc, struct err *err)
{
	if (rc >= 0 && stmt_run(c, ST_COMMIT, err) >= 0)
		return rc;
	/* Some errors end the transaction by themselves; then there is nothing to roll back. */
	if (!sqlite3_get_autocommit(c->db))
		stmt_run(c, ST_ROLLBACK, NULL);
	return -1;
}

void store_sync(struct conn *c, bool on)
{
	/* Not a prepared statement: this pragma acts while it is compiled. */
	db_exec(c->db, on ? "PRAGMA synchronous=FULL;" : "PRAGMA synchronous=NORMAL;", NULL);
}

int store_plans(struct store *s,
		void (*fn)(void *arg, const char *sql, const char *line, bool scan_meant),
		void *arg, struct err *err)
{
	struct conn *c = store_writer(s);
	int rc = 0;

	for (size_t i = 0; i < ST_MAX && rc == 0; i++) {
		auto_free char *sql = NULL;
		sqlite3_stmt *st = NULL;

		if (asprintf(&sql, "EXPLAIN QUERY PLAN %s", stmt_table[i].sql) < 0)
			rc = err_set(err, ERR_NOMEM, "out of memory");
		else if (sqlite3_prepare_v2(c->db, sql, -1, &st, NULL) != SQLITE_OK)
			rc = store_fault(c->db, err, sql);
		while (rc == 0 && sqlite3_step(st) == SQLITE_ROW)
			fn(arg, stmt_table[i].sql, (const char *)sqlite3_column_text(st, 3),
			   stmt_table[i].scan_meant);
		sqlite3_finalize(st);
	}
	store_writer_done(s);
	return rc;
}
