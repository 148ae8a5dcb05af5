/*
 * store_util.c - binding, stepping, column tables, and maps as blobs.
 *
 * A map is stored as the wire form of the list key, value, key, value, …
 */
#include <string.h>

#include "store/store_int.h"
#include "wire/wire.h"

void bind_text(sqlite3_stmt *st, int at, const char *s)
{
	if (s)
		sqlite3_bind_text(st, at, s, -1, SQLITE_STATIC);
	else
		sqlite3_bind_null(st, at);
}

void bind_i64(sqlite3_stmt *st, int at, int64_t v)
{
	sqlite3_bind_int64(st, at, v);
}

void bind_blob(sqlite3_stmt *st, int at, const void *p, size_t n)
{
	sqlite3_bind_blob64(st, at, p, n, SQLITE_STATIC);
}

int bind_kv(sqlite3_stmt *st, int at, const struct kv *kv, struct err *err)
{
	void *p;
	size_t n;

	if (kv_encode(kv, &p, &n, err) < 0)
		return -1;
	sqlite3_bind_blob64(st, at, p, n, free);
	return 0;
}

void stmt_end(struct conn *c, enum stmt_id id)
{
	sqlite3_reset(c->st[id]);
	sqlite3_clear_bindings(c->st[id]);
}

int stmt_next(struct conn *c, enum stmt_id id, struct err *err)
{
	int rc = sqlite3_step(c->st[id]);

	if (rc == SQLITE_ROW)
		return 1;
	if (rc != SQLITE_DONE)
		store_fault(c->db, err, sqlite3_sql(c->st[id]));
	stmt_end(c, id);
	return rc == SQLITE_DONE ? 0 : -1;
}

int stmt_run(struct conn *c, enum stmt_id id, struct err *err)
{
	int got;

	while ((got = stmt_next(c, id, err)) > 0)
		;
	return got < 0 ? -1 : sqlite3_changes(c->db);
}

int stmt_number(struct conn *c, enum stmt_id id, int64_t *ret, struct err *err)
{
	int got = stmt_next(c, id, err);

	if (got <= 0)
		return got < 0 ? -1 : err_set(err, ERR_INTERNAL, "database: no number");
	*ret = sqlite3_column_int64(c->st[id], 0);
	stmt_end(c, id);
	return 0;
}

int stmt_text(struct conn *c, enum stmt_id id, char *out, size_t cap, struct err *err)
{
	int got = stmt_next(c, id, err);

	if (got <= 0)
		return got;
	snprintf(out, cap, "%s", (const char *)sqlite3_column_text(c->st[id], 0));
	stmt_end(c, id);
	return 1;
}

/* ---- maps ---- */

int kv_encode(const struct kv *kv, void **ret, size_t *ret_n, struct err *err)
{
	size_t need = 4;
	struct wire_out o;
	void *p;

	for (size_t i = 0; i < kv->n; i++)
		need += 8 + strlen(kv->pair[i].key) + strlen(kv->pair[i].value);
	if (need > STORE_TEXT_MAX)
		return err_set(err, ERR_TOO_LARGE, "map of %zu bytes is over the limit of %u", need,
			       STORE_TEXT_MAX);
	p = malloc(need);
	if (!p)
		return err_set(err, ERR_NOMEM, "out of memory");
	o = wire_out_on(p, need);
	wire_put_u32(&o, (uint32_t)kv->n);
	for (size_t i = 0; i < kv->n; i++) {
		wire_put_str(&o, kv->pair[i].key);
		wire_put_str(&o, kv->pair[i].value);
	}
	*ret = p;
	*ret_n = o.len;
	return 0;
}

static char *text_get(struct wire_in *in)
{
	size_t n;
	const uint8_t *p = wire_get_bytes(in, &n);

	return p ? strndup((const char *)p, n) : NULL;
}

int kv_decode(const void *p, size_t n, struct kv *ret, struct err *err)
{
	struct wire_in in = wire_in_on(p, n);
	size_t count = wire_get_count(&in, WIRE_LIST_MAX, 8);
	struct kv kv = {0};

	kv.pair = count ? calloc(count, sizeof(*kv.pair)) : NULL;
	for (; kv.pair && kv.n < count && !in.bad; kv.n++) {
		kv.pair[kv.n].key = text_get(&in);
		kv.pair[kv.n].value = text_get(&in);
		if (!kv.pair[kv.n].key || !kv.pair[kv.n].value)
			in.bad = true;
	}
	if (!wire_in_end(&in) || kv.n != count) {
		kv_done(&kv);
		return err_set(err, ERR_INTERNAL, "database: a map of %zu bytes is damaged", n);
	}
	*ret = kv;
	return 0;
}

/* Whether the encoded map have (n bytes) holds the pair. */
static bool blob_has(const void *have, size_t n, const uint8_t *key, size_t nkey,
		     const uint8_t *value, size_t nvalue)
{
	struct wire_in in = wire_in_on(have, n);
	size_t count = wire_get_count(&in, WIRE_LIST_MAX, 8);

	for (size_t i = 0; i < count && !in.bad; i++) {
		size_t nk, nv;
		const uint8_t *k = wire_get_bytes(&in, &nk);
		const uint8_t *v = wire_get_bytes(&in, &nv);

		if (k && v && nk == nkey && nv == nvalue && memcmp(k, key, nk) == 0 &&
		    memcmp(v, value, nv) == 0)
			return true;
	}
	return false;
}

static void sql_kv_has(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
	const void *have = sqlite3_value_blob(argv[0]);
	size_t nhave = (size_t)sqlite3_value_bytes(argv[0]);
	struct wire_in want =
		wire_in_on(sqlite3_value_blob(argv[1]), (size_t)sqlite3_value_bytes(argv[1]));
	size_t count = wire_get_count(&want, WIRE_LIST_MAX, 8);
	bool all = !want.bad && argc == 2;

	for (size_t i = 0; all && i < count; i++) {
		size_t nk, nv;
		const uint8_t *k = wire_get_bytes(&want, &nk);
		const uint8_t *v = wire_get_bytes(&want, &nv);

		all = k && v && blob_has(have, nhave, k, nk, v, nv);
	}
	sqlite3_result_int(ctx, all);
}

int store_kv_function(sqlite3 *db)
{
	return sqlite3_create_function_v2(db, "kv_has", 2,
					  SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS,
					  NULL, sql_kv_has, NULL, NULL, NULL);
}

/* ---- column tables ---- */

static int column_bind(sqlite3_stmt *st, int at, const struct column *col, const char *field,
		       struct err *err)
{
	switch (col->kind) {
	case COL_TEXT:
		bind_text(st, at, field);
		return 0;
	case COL_HEAP:
		bind_text(st, at, *(char *const *)field);
		return 0;
	case COL_BOOL:
		bind_i64(st, at, *(const bool *)field);
		return 0;
	case COL_UINT:
		bind_i64(st, at, *(const unsigned *)field);
		return 0;
	case COL_I64:
	case COL_U64:
		bind_i64(st, at, *(const int64_t *)field);
		return 0;
	case COL_KV:
		return bind_kv(st, at, (const struct kv *)field, err);
	}
	return 0;
}

int columns_bind(sqlite3_stmt *st, int first, const struct column *col, size_t n, const void *rec,
		 struct err *err)
{
	for (size_t i = 0; i < n; i++)
		if (column_bind(st, first + (int)i, &col[i], (const char *)rec + col[i].off, err) <
		    0)
			return -1;
	return 0;
}

static int column_read(sqlite3_stmt *st, int at, const struct column *col, char *field,
		       struct err *err)
{
	const char *text;

	switch (col->kind) {
	case COL_TEXT:
		text = (const char *)sqlite3_column_text(st, at);
		snprintf(field, col->size, "%s", text ? text : "");
		return 0;
	case COL_HEAP:
		text = (const char *)sqlite3_column_text(st, at);
		*(char **)field = text ? strdup(text) : NULL;
		if (text && !*(char **)field)
			return err_set(err, ERR_NOMEM, "out of memory");
		return 0;
	case COL_BOOL:
		*(bool *)field = sqlite3_column_int64(st, at) != 0;
		return 0;
	case COL_UINT:
		*(unsigned *)field = (unsigned)sqlite3_column_int64(st, at);
		return 0;
	case COL_I64:
	case COL_U64:
		*(int64_t *)field = sqlite3_column_int64(st, at);
		return 0;
	case COL_KV:
		return kv_decode(sqlite3_column_blob(st, at), (size_t)sqlite3_column_bytes(st, at),
				 (struct kv *)field, err);
	}
	return 0;
}

int columns_read(sqlite3_stmt *st, int first, const struct column *col, size_t n, void *rec,
		 struct err *err)
{
	for (size_t i = 0; i < n; i++)
		if (column_read(st, first + (int)i, &col[i], (char *)rec + col[i].off, err) < 0)
			return -1;
	return 0;
}
