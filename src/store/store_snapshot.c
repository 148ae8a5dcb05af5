/*
 * store_snapshot.c - snapshots: an image and the resources of a sandbox made from it.
 */
#include <string.h>

#include "store/store_int.h"

static const struct column snapshot_columns[] = {
#define COL_ROW_(kind, field, column)                                                              \
	{kind, offsetof(struct snapshot, field), sizeof(((struct snapshot *)0)->field)},
	SNAPSHOT_COLUMNS(COL_ROW_)
#undef COL_ROW_
};

static void snapshot_read(struct conn *c, enum stmt_id id, struct snapshot *ret)
{
	memset(ret, 0, sizeof(*ret));
	columns_read(c->st[id], 1, snapshot_columns, ARRAY_LEN(snapshot_columns), ret, NULL);
}

static int snapshot_find(struct conn *c, enum stmt_id id, const char *org, const char *key,
			 struct snapshot *ret, struct err *err)
{
	int got;

	bind_text(c->st[id], 1, org);
	bind_text(c->st[id], 2, key);
	got = stmt_next(c, id, err);
	if (got <= 0)
		return got;
	snapshot_read(c, id, ret);
	stmt_end(c, id);
	return 1;
}

static int snapshot_update(struct conn *c, const struct snapshot *snap, struct err *err)
{
	sqlite3_stmt *st = c->st[ST_SNAPSHOT_UPDATE];

	bind_text(st, 1, snap->id);
	bind_text(st, 2, snap->image);
	bind_i64(st, 3, snap->general);
	bind_text(st, 4, snap->state);
	bind_i64(st, 5, (int64_t)snap->bytes);
	bind_i64(st, 6, snap->cpu);
	bind_i64(st, 7, snap->memory_gib);
	bind_i64(st, 8, snap->disk_gib);
	bind_i64(st, 9, snap->updated_ms);
	return stmt_run(c, ST_SNAPSHOT_UPDATE, err);
}

int store_snapshot_put(struct store *s, struct snapshot *snap, struct err *err)
{
	struct conn *c = store_writer(s);
	struct snapshot have;
	int rc = snapshot_find(c, ST_SNAPSHOT_BY_NAME, snap->org_id, snap->name, &have, err);

	if (rc == 1) {
		memcpy(snap->id, have.id, sizeof(snap->id));
		rc = snapshot_update(c, snap, err);
	} else if (rc == 0) {
		id_new(snap->id);
		columns_bind(c->st[ST_SNAPSHOT_INSERT], 1, snapshot_columns,
			     ARRAY_LEN(snapshot_columns), snap, NULL);
		rc = stmt_run(c, ST_SNAPSHOT_INSERT, err);
	}
	store_writer_done(s);
	return rc < 0 ? -1 : 0;
}

int store_snapshot_get(struct store *s, const char *org, const char *id_or_name,
		       struct snapshot *ret, struct err *err)
{
	static const enum stmt_id way[] = {ST_SNAPSHOT_BY_ID, ST_SNAPSHOT_BY_NAME,
					   ST_SNAPSHOT_GENERAL};
	struct conn *c = store_reader(s);
	int got = 0;

	for (size_t i = id_valid(id_or_name) ? 0 : 1; i < ARRAY_LEN(way) && got == 0; i++)
		got = snapshot_find(c, way[i], org, id_or_name, ret, err);
	store_reader_done(s, c);
	return got;
}

int store_snapshot_used(struct store *s, const char *id, int64_t now_ms, struct err *err)
{
	struct conn *c = store_writer(s);
	int rc;

	bind_text(c->st[ST_SNAPSHOT_USED], 1, id);
	bind_i64(c->st[ST_SNAPSHOT_USED], 2, now_ms);
	rc = stmt_run(c, ST_SNAPSHOT_USED, err);
	store_writer_done(s);
	return rc;
}

static int snapshot_rows(struct conn *c, unsigned limit, struct snapshot_page *page,
			 struct err *err)
{
	int got;

	page->item = calloc(limit, sizeof(*page->item));
	if (!page->item) {
		stmt_end(c, ST_SNAPSHOT_LIST);
		return err_set(err, ERR_NOMEM, "out of memory");
	}
	while ((got = stmt_next(c, ST_SNAPSHOT_LIST, err)) > 0 && page->n < limit)
		snapshot_read(c, ST_SNAPSHOT_LIST, &page->item[page->n++]);
	return got < 0 ? -1 : 0;
}

int store_snapshot_list(struct store *s, const char *org, const char *name_part, unsigned page,
			unsigned limit, struct snapshot_page *ret, struct err *err)
{
	struct conn *c = store_reader(s);
	struct snapshot_page p = {.page = page};
	sqlite3_stmt *st = c->st[ST_SNAPSHOT_LIST];
	int64_t total = 0;
	int rc;

	bind_text(c->st[ST_SNAPSHOT_COUNT], 1, org);
	bind_text(c->st[ST_SNAPSHOT_COUNT], 2, name_part);
	rc = stmt_number(c, ST_SNAPSHOT_COUNT, &total, err);
	if (rc == 0) {
		bind_text(st, 1, org);
		bind_text(st, 2, name_part);
		bind_i64(st, 3, limit);
		bind_i64(st, 4, (int64_t)(page - 1) * limit);
		rc = snapshot_rows(c, limit, &p, err);
	}
	store_reader_done(s, c);
	if (rc < 0) {
		free(p.item);
		return -1;
	}
	p.total = (unsigned)total;
	p.pages = (unsigned)((total + limit - 1) / limit);
	*ret = p;
	return 0;
}
