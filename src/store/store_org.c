/*
 * store_org.c - organizations and users.
 */
#include <string.h>

#include "base/clock.h"
#include "store/store_int.h"

static const struct column org_columns[] = {
#define COL_ROW_(kind, field, column)                                                              \
	{kind, offsetof(struct org, field), sizeof(((struct org *)0)->field)},
	ORG_COLUMNS(COL_ROW_)
#undef COL_ROW_
};

static const struct column user_columns[] = {
#define COL_ROW_(kind, field, column)                                                              \
	{kind, offsetof(struct user, field), sizeof(((struct user *)0)->field)},
	USER_COLUMNS(COL_ROW_)
#undef COL_ROW_
};

/* The one record that key names, into rec of size bytes: 1, or 0 when there is none. */
static int record_find(struct conn *c, enum stmt_id id, const char *key, const struct column *col,
		       size_t ncol, void *rec, size_t size, struct err *err)
{
	int got;

	bind_text(c->st[id], 1, key);
	got = stmt_next(c, id, err);
	if (got <= 0)
		return got;
	memset(rec, 0, size);
	columns_read(c->st[id], 1, col, ncol, rec, NULL);
	stmt_end(c, id);
	return 1;
}

static int org_find(struct conn *c, enum stmt_id id, const char *key, struct org *ret,
		    struct err *err)
{
	return record_find(c, id, key, org_columns, ARRAY_LEN(org_columns), ret, sizeof(*ret), err);
}

int store_org_get(struct store *s, const char *id, struct org *ret, struct err *err)
{
	struct conn *c = store_reader(s);
	int got = org_find(c, ST_ORG_GET, id, ret, err);

	store_reader_done(s, c);
	return got;
}

static int org_limits(struct conn *c, const struct org *org, struct err *err)
{
	sqlite3_stmt *st = c->st[ST_ORG_LIMITS];

	bind_text(st, 1, org->id);
	bind_i64(st, 2, org->max_cpu);
	bind_i64(st, 3, org->max_memory_gib);
	bind_i64(st, 4, org->max_disk_gib);
	bind_i64(st, 5, clock_wall_ms());
	return stmt_run(c, ST_ORG_LIMITS, err) < 0 ? -1 : 0;
}

int store_org_ensure(struct store *s, struct org *org, struct err *err)
{
	struct conn *c = store_writer(s);
	struct org have;
	int rc = org_find(c, ST_ORG_BY_NAME, org->name, &have, err);

	if (rc == 0) {
		id_new(org->id);
		rc = columns_bind(c->st[ST_ORG_INSERT], 1, org_columns, ARRAY_LEN(org_columns), org,
				  err);
		if (rc == 0 && stmt_run(c, ST_ORG_INSERT, err) < 0)
			rc = -1;
	} else if (rc == 1) {
		memcpy(org->id, have.id, sizeof(org->id));
		org->created_ms = have.created_ms;
		rc = org_limits(c, org, err);
	}
	store_writer_done(s);
	return rc;
}

static int user_find(struct conn *c, enum stmt_id id, const char *key, struct user *ret,
		     struct err *err)
{
	return record_find(c, id, key, user_columns, ARRAY_LEN(user_columns), ret, sizeof(*ret),
			   err);
}

int store_user_get(struct store *s, const char *id, struct user *ret, struct err *err)
{
	struct conn *c = store_reader(s);
	int got = user_find(c, ST_USER_GET, id, ret, err);

	store_reader_done(s, c);
	return got;
}

int store_user_ensure(struct store *s, struct user *user, struct err *err)
{
	struct conn *c = store_writer(s);
	struct user have;
	int rc = user_find(c, ST_USER_BY_NAME, user->name, &have, err);

	if (rc == 0) {
		id_new(user->id);
		rc = columns_bind(c->st[ST_USER_INSERT], 1, user_columns, ARRAY_LEN(user_columns),
				  user, err);
		if (rc == 0 && stmt_run(c, ST_USER_INSERT, err) < 0)
			rc = -1;
	} else if (rc == 1) {
		*user = have;
		rc = 0;
	}
	store_writer_done(s);
	return rc;
}
