/*
 * store_int.h - inside src/store: connections, the statement table, column tables.
 *
 * A statement belongs to a connection; who holds the connection may use all of its statements.
 * Writers hold the writer from store_writer() to store_writer_done(). Each stmt_* helper resets
 * its statement before it returns, so no read transaction stays open.
 */
#ifndef CAISSON_STORE_STORE_INT_H
#define CAISSON_STORE_STORE_INT_H

#include <pthread.h>
#include <sqlite3.h>

#include "base/buf.h"
#include "store/store.h"
#include "store/store_sql.h"

#define STORE_READERS	   4
#define STORE_BUSY_MS	   5000
#define STORE_CHECKPOINT_N 1000	 /* pages in the log before a checkpoint is tried */
#define STORE_WAL_MAX_N	   20000 /* pages before writers are held up for one */
#define STORE_TICK_MS	   500
#define STORE_TEXT_MAX	   (1u << 20) /* bytes of one encoded map */

struct conn {
	sqlite3 *db;
	sqlite3_stmt *st[ST_MAX];
};

struct store {
	struct conn w; /* under wlock */
	pthread_mutex_t wlock;
	struct conn r[STORE_READERS]; /* each used by who set its rbusy */
	bool rbusy[STORE_READERS];    /* under rlock, and stop */
	pthread_mutex_t rlock;
	pthread_cond_t rcond, tick;
	sqlite3 *check; /* of the checkpoint thread alone */
	int wal_pages;	/* atomic; set by the writer's hook */
	pthread_t thread;
	bool running, stop;
};

struct conn *store_writer(struct store *s);
void store_writer_done(struct store *s);
struct conn *store_reader(struct store *s);
void store_reader_done(struct store *s, struct conn *c);

/* Transactions on the writer. store_end commits when rc >= 0, else rolls back; returns rc or -1. */
int store_begin(struct conn *c, struct err *err);
int store_end(struct conn *c, int rc, struct err *err);
/* Outside a transaction: whether commits wait for the disk, to outlive a power cut. */
void store_sync(struct conn *c, bool on);

int store_fault(sqlite3 *db, struct err *err, const char *what);

void bind_text(sqlite3_stmt *st, int at, const char *s); /* NULL binds NULL; borrowed */
void bind_i64(sqlite3_stmt *st, int at, int64_t v);
void bind_blob(sqlite3_stmt *st, int at, const void *p, size_t n);
int bind_kv(sqlite3_stmt *st, int at, const struct kv *kv, struct err *err);

/* Run to the end; returns the number of changed rows. */
int stmt_run(struct conn *c, enum stmt_id id, struct err *err);
/* Next row: 1, 0 at the end (and reset), -1 (and reset). */
int stmt_next(struct conn *c, enum stmt_id id, struct err *err);
void stmt_end(struct conn *c, enum stmt_id id);
/* First column of the only row as a number. */
int stmt_number(struct conn *c, enum stmt_id id, int64_t *ret, struct err *err);
/* First column of the first row as text: 1, 0 none. */
int stmt_text(struct conn *c, enum stmt_id id, char *out, size_t cap, struct err *err);

/* ---- column tables: a struct's fields and the columns they are ---- */

enum col_kind { COL_TEXT, COL_HEAP, COL_BOOL, COL_UINT, COL_I64, COL_U64, COL_KV };
struct column {
	enum col_kind kind;
	size_t off, size;
};

/* Column i of the table is parameter first + i; field i is result column first + i. */
int columns_bind(sqlite3_stmt *st, int first, const struct column *col, size_t n, const void *rec,
		 struct err *err);
int columns_read(sqlite3_stmt *st, int first, const struct column *col, size_t n, void *rec,
		 struct err *err);

/* How many migrations are applied; each must be the very text this program holds, else -1. */
int store_migrations(sqlite3 *db, struct err *err);

/* In a transaction of the caller. */
/* CREATE_NEW: the key is free, or there is none. Else REPLAY or KEY_REUSED with ret_id. */
int store_idem_find(struct conn *c, const char *org, const struct store_idem *idem,
		    char ret_id[ID_LEN], struct err *err);
int store_idem_put(struct conn *c, const char *org, const struct store_idem *idem, const char *id,
		   int64_t now_ms, struct err *err);

/* SQL function kv_has(labels, wanted): every pair of wanted is in labels. */
int store_kv_function(sqlite3 *db);
int kv_encode(const struct kv *kv, void **ret, size_t *ret_n, struct err *err); /* free() */
int kv_decode(const void *p, size_t n, struct kv *ret, struct err *err);

#endif
