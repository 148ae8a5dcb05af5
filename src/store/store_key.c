/*
 * store_key.c - API keys, known by their SHA-256.
 */
#include <string.h>

#include "store/store_int.h"

static const struct column key_columns[] = {
#define COL_ROW_(kind, field, column)                                                              \
	{kind, offsetof(struct key_row, field), sizeof(((struct key_row *)0)->field)},
	KEY_COLUMNS(COL_ROW_)
#undef COL_ROW_
};

static int key_read(struct conn *c, enum stmt_id id, struct key_row *ret, struct err *err)
{
	sqlite3_stmt *st = c->st[id];

	memset(ret, 0, sizeof(*ret));
	if (sqlite3_column_bytes(st, 0) != STORE_HASH_LEN)
		return err_set(err, ERR_INTERNAL, "database: a key's hash is damaged");
	memcpy(ret->hash, sqlite3_column_blob(st, 0), STORE_HASH_LEN);
	columns_read(st, 1, key_columns, ARRAY_LEN(key_columns), ret, NULL);
	snprintf(ret->k.masked, sizeof(ret->k.masked), "%.8s********%.7s", ret->prefix,
		 ret->suffix);
	return 0;
}

static int key_one(struct conn *c, enum stmt_id id, struct key_row *ret, struct err *err)
{
	int got = stmt_next(c, id, err);

	if (got <= 0)
		return got;
	got = key_read(c, id, ret, err) < 0 ? -1 : 1;
	stmt_end(c, id);
	return got;
}

static void key_bind(struct conn *c, enum stmt_id id, const char *org, const char *user,
		     const char *name)
{
	bind_text(c->st[id], 1, org);
	bind_text(c->st[id], 2, user);
	bind_text(c->st[id], 3, name);
}

static int key_put(struct conn *c, const struct key_row *row, struct err *err)
{
	sqlite3_stmt *st = c->st[ST_KEY_INSERT];

	bind_blob(st, 1, row->hash, STORE_HASH_LEN);
	columns_bind(st, 2, key_columns, ARRAY_LEN(key_columns), row, NULL);
	return stmt_run(c, ST_KEY_INSERT, err) < 0 ? -1 : 0;
}

int store_key_insert(struct store *s, const struct key_row *row, struct err *err)
{
	struct conn *c = store_writer(s);
	struct key_row have;
	int rc;

	key_bind(c, ST_KEY_GET, row->k.org_id, row->k.user_id, row->k.name);
	rc = key_one(c, ST_KEY_GET, &have, err);
	if (rc > 0)
		rc = err_set(err, ERR_CONFLICT, "name: a key named %s exists", row->k.name);
	else if (rc == 0)
		rc = key_put(c, row, err);
	store_writer_done(s);
	return rc;
}

int store_key_replace(struct store *s, const struct key_row *row, struct err *err)
{
	struct conn *c = store_writer(s);
	struct key_row have;
	int rc;

	bind_blob(c->st[ST_KEY_FIND], 1, row->hash, STORE_HASH_LEN);
	rc = key_one(c, ST_KEY_FIND, &have, err);
	if (rc == 0) {
		rc = store_begin(c, err);
		if (rc == 0) {
			key_bind(c, ST_KEY_DELETE, row->k.org_id, row->k.user_id, row->k.name);
			rc = stmt_run(c, ST_KEY_DELETE, err);
			if (rc >= 0)
				rc = key_put(c, row, err);
			rc = store_end(c, rc, err);
		}
	}
	store_writer_done(s);
	return rc < 0 ? -1 : 0;
}

int store_key_find(struct store *s, const uint8_t hash[STORE_HASH_LEN], struct key_row *ret,
		   struct err *err)
{
	struct conn *c = store_reader(s);
	int got;

	bind_blob(c->st[ST_KEY_FIND], 1, hash, STORE_HASH_LEN);
	got = key_one(c, ST_KEY_FIND, ret, err);
	store_reader_done(s, c);
	return got;
}

int store_key_get(struct store *s, const char *org, const char *user, const char *name,
		  struct key_row *ret, struct err *err)
{
	struct conn *c = store_reader(s);
	int got;

	key_bind(c, ST_KEY_GET, org, user, name);
	got = key_one(c, ST_KEY_GET, ret, err);
	store_reader_done(s, c);
	return got;
}

int store_key_list(struct store *s, const char *org, struct api_key **ret, size_t *ret_n,
		   struct err *err)
{
	struct conn *c = store_reader(s);
	struct api_key *list = NULL, *more;
	struct key_row row;
	size_t n = 0;
	int got;

	bind_text(c->st[ST_KEY_LIST], 1, org);
	while ((got = stmt_next(c, ST_KEY_LIST, err)) > 0) {
		more = realloc(list, (n + 1) * sizeof(*list));
		if (!more)
			got = err_set(err, ERR_NOMEM, "out of memory");
		else
			list = more;
		if (got > 0 && key_read(c, ST_KEY_LIST, &row, err) < 0)
			got = -1;
		if (got < 0) {
			stmt_end(c, ST_KEY_LIST);
			break;
		}
		list[n++] = row.k;
	}
	store_reader_done(s, c);
	if (got < 0) {
		free(list);
		return -1;
	}
	*ret = list;
	*ret_n = n;
	return 0;
}

int store_key_delete(struct store *s, const char *org, const char *user, const char *name,
		     struct err *err)
{
	struct conn *c = store_writer(s);
	int rc;

	key_bind(c, ST_KEY_DELETE, org, user, name);
	rc = stmt_run(c, ST_KEY_DELETE, err);
	store_writer_done(s);
	return rc;
}

int store_key_used(struct store *s, const uint8_t hash[STORE_HASH_LEN], int64_t now_ms,
		   struct err *err)
{
	struct conn *c = store_writer(s);
	int rc;

	bind_blob(c->st[ST_KEY_USED], 1, hash, STORE_HASH_LEN);
	bind_i64(c->st[ST_KEY_USED], 2, now_ms);
	rc = stmt_run(c, ST_KEY_USED, err);
	store_writer_done(s);
	return rc;
}
