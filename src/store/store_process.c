/*
 * store_process.c - ids of what was started in sandboxes, and the keys of execs that run once.
 *
 * A row goes in only while its sandbox is started, and in that very start: the same statement
 * looks. Thus an id is of the running start, or known to be of an earlier one.
 */
#include <string.h>

#include "store/store_int.h"

#define DIGEST_LEN 32

static const struct column process_columns[] = {
#define COL_ROW_(kind, field, column)                                                              \
	{kind, offsetof(struct process_row, field), sizeof(((struct process_row *)0)->field)},
	PROCESS_COLUMNS(COL_ROW_)
#undef COL_ROW_
};
#define PROCESS_N ARRAY_LEN(process_columns)

void process_row_done(struct process_row *r)
{
	free(r->cwd);
	r->cwd = NULL;
	kv_done(&r->env);
}

static int put_in(struct conn *c, const struct process_row *row, const char *was, struct err *err)
{
	sqlite3_stmt *st = c->st[ST_PROCESS_PUT];

	if (columns_bind(st, 1, process_columns, PROCESS_N, row, err) < 0) {
		stmt_end(c, ST_PROCESS_PUT);
		return -1;
	}
	bind_text(st, (int)PROCESS_N + 1, was);
	return stmt_run(c, ST_PROCESS_PUT, err);
}

int store_process_put(struct store *s, const struct process_row *row, const char *was,
		      struct err *err)
{
	struct conn *c = store_writer(s);
	int rc = put_in(c, row, was, err);

	store_writer_done(s);
	return rc;
}

static void bind_id(sqlite3_stmt *st, const char *sandbox, unsigned kind, const char *id)
{
	bind_text(st, 1, sandbox);
	bind_i64(st, 2, kind);
	bind_text(st, 3, id);
}

static int row_read(struct conn *c, enum stmt_id id, struct process_row *ret, struct err *err)
{
	struct process_row row = {0};

	if (columns_read(c->st[id], 1, process_columns, PROCESS_N, &row, err) < 0) {
		process_row_done(&row);
		return -1;
	}
	*ret = row;
	return 0;
}

int store_process_get(struct store *s, const char *sandbox, unsigned kind, const char *id,
		      struct process_row *ret, struct err *err)
{
	struct conn *c = store_reader(s);
	int got;

	bind_id(c->st[ST_PROCESS_GET], sandbox, kind, id);
	got = stmt_next(c, ST_PROCESS_GET, err);
	if (got > 0) {
		got = row_read(c, ST_PROCESS_GET, ret, err) < 0 ? -1 : 1;
		stmt_end(c, ST_PROCESS_GET);
	}
	store_reader_done(s, c);
	return got;
}

int store_process_list(struct store *s, const char *sandbox, unsigned kind, int64_t start,
		       struct process_row **ret, size_t *ret_n, struct err *err)
{
	struct conn *c = store_reader(s);
	struct process_row *list = NULL, *more;
	size_t n = 0;
	int got;

	bind_text(c->st[ST_PROCESS_LIST], 1, sandbox);
	bind_i64(c->st[ST_PROCESS_LIST], 2, kind);
	bind_i64(c->st[ST_PROCESS_LIST], 3, start);
	while ((got = stmt_next(c, ST_PROCESS_LIST, err)) > 0) {
		more = (n & (n - 1)) ? list : realloc(list, (n ? 2 * n : 1) * sizeof(*list));
		if (more)
			list = more;
		got = more ? row_read(c, ST_PROCESS_LIST, &list[n], err)
			   : err_set(err, ERR_NOMEM, "out of memory");
		if (got < 0) {
			stmt_end(c, ST_PROCESS_LIST);
			break;
		}
		n++;
	}
	store_reader_done(s, c);
	for (size_t i = 0; got < 0 && i < n; i++)
		process_row_done(&list[i]);
	if (got < 0) {
		free(list);
		return -1;
	}
	*ret = list;
	*ret_n = n;
	return 0;
}

int store_process_drop(struct store *s, const char *sandbox, unsigned kind, const char *id,
		       const char *task, struct err *err)
{
	struct conn *c = store_writer(s);
	int rc;

	bind_id(c->st[ST_PROCESS_DROP], sandbox, kind, id);
	bind_text(c->st[ST_PROCESS_DROP], 4, task);
	rc = stmt_run(c, ST_PROCESS_DROP, err);
	store_writer_done(s);
	return rc;
}

/* ---- keys ---- */

static int key_find(struct conn *c, const char *sandbox, const char *key,
		    const uint8_t digest[DIGEST_LEN], struct exec_key_row *ret, struct err *err)
{
	sqlite3_stmt *st = c->st[ST_EXEC_KEY_GET];
	int got;

	bind_text(st, 1, sandbox);
	bind_text(st, 2, key);
	got = stmt_next(c, ST_EXEC_KEY_GET, err);
	if (got <= 0)
		return got;
	ret->same = sqlite3_column_bytes(st, 0) == DIGEST_LEN &&
		    memcmp(sqlite3_column_blob(st, 0), digest, DIGEST_LEN) == 0;
	snprintf(ret->exec_id, ID_LEN, "%s", (const char *)sqlite3_column_text(st, 1));
	ret->created_ms = sqlite3_column_int64(st, 2);
	ret->started = sqlite3_column_int(st, 3) != 0;
	stmt_end(c, ST_EXEC_KEY_GET);
	return 1;
}

static int key_in(struct conn *c, const struct process_row *row, const char *key,
		  const uint8_t digest[DIGEST_LEN], struct exec_key_row *ret, struct err *err)
{
	sqlite3_stmt *st = c->st[ST_EXEC_KEY_PUT];
	int got = key_find(c, row->sandbox, key, digest, ret, err);

	if (got)
		return got < 0 ? -1 : 2;
	got = put_in(c, row, NULL, err);
	if (got <= 0)
		return got;
	bind_text(st, 1, row->sandbox);
	bind_text(st, 2, key);
	bind_blob(st, 3, digest, DIGEST_LEN);
	bind_text(st, 4, row->id);
	bind_i64(st, 5, row->created_ms);
	return stmt_run(c, ST_EXEC_KEY_PUT, err) < 0 ? -1 : 1;
}

int store_exec_key(struct store *s, const struct process_row *row, const char *key,
		   const uint8_t digest[DIGEST_LEN], struct exec_key_row *ret, struct err *err)
{
	struct conn *c = store_writer(s);
	int rc;

	store_sync(c, true);
	rc = store_begin(c, err);
	if (rc == 0)
		rc = store_end(c, key_in(c, row, key, digest, ret, err), err);
	store_sync(c, false);
	store_writer_done(s);
	return rc;
}

int store_exec_key_get(struct store *s, const char *sandbox, const char *key,
		       const uint8_t digest[DIGEST_LEN], struct exec_key_row *ret, struct err *err)
{
	struct conn *c = store_reader(s);
	int got = key_find(c, sandbox, key, digest, ret, err);

	store_reader_done(s, c);
	return got;
}

int store_exec_key_started(struct store *s, const char *sandbox, const char *key, struct err *err)
{
	struct conn *c = store_writer(s);
	int rc;

	bind_text(c->st[ST_EXEC_KEY_STARTED], 1, sandbox);
	bind_text(c->st[ST_EXEC_KEY_STARTED], 2, key);
	rc = stmt_run(c, ST_EXEC_KEY_STARTED, err);
	store_writer_done(s);
	return rc < 0 ? -1 : 0;
}
