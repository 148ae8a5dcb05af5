/*
 * store_event.c - the history of sandboxes, and the ageing of what nobody needs any more.
 */
#include "store/store_int.h"

#define AGE_IDEM_MS	(24ll * 3600 * 1000)
#define AGE_EVENT_MS	(7ll * 24 * 3600 * 1000)
#define AGE_EXEC_KEY_MS (7ll * 24 * 3600 * 1000)
#define AGE_PROCESS_MS	(30ll * 24 * 3600 * 1000)

int store_event_add(struct store *s, const char *sandbox, const char *kind, const char *text,
		    int64_t now_ms, struct err *err)
{
	struct conn *c = store_writer(s);
	sqlite3_stmt *st = c->st[ST_EVENT_INSERT];
	int rc;

	bind_i64(st, 1, now_ms);
	bind_text(st, 2, sandbox);
	bind_text(st, 3, kind);
	bind_text(st, 4, text ? text : "");
	rc = stmt_run(c, ST_EVENT_INSERT, err);
	store_writer_done(s);
	return rc < 0 ? -1 : 0;
}

int store_event_count(struct store *s, const char *sandbox, const char *kind, unsigned *ret_n,
		      struct err *err)
{
	struct conn *c = store_reader(s);
	int64_t n = 0;
	int rc;

	bind_text(c->st[ST_EVENT_COUNT], 1, sandbox);
	bind_text(c->st[ST_EVENT_COUNT], 2, kind);
	rc = stmt_number(c, ST_EVENT_COUNT, &n, err);
	store_reader_done(s, c);
	*ret_n = (unsigned)n;
	return rc;
}

int store_event_last(struct store *s, const char *sandbox, const char *kind, int64_t from_ms,
		     int64_t to_ms, char *ret, size_t cap, struct err *err)
{
	struct conn *c = store_reader(s);
	sqlite3_stmt *st = c->st[ST_EVENT_LAST];
	int got;

	bind_text(st, 1, sandbox);
	bind_text(st, 2, kind);
	bind_i64(st, 3, from_ms);
	bind_i64(st, 4, to_ms);
	got = stmt_text(c, ST_EVENT_LAST, ret, cap, err);
	store_reader_done(s, c);
	return got;
}

int store_age(struct store *s, int64_t now_ms, struct err *err)
{
	static const struct {
		enum stmt_id id;
		int64_t age_ms;
	} table[] = {
		{ST_IDEM_AGE, AGE_IDEM_MS},
		{ST_EVENT_AGE, AGE_EVENT_MS},
		{ST_EXEC_KEY_AGE, AGE_EXEC_KEY_MS},
		{ST_PROCESS_AGE, AGE_PROCESS_MS},
	};
	int rc = 0;

	for (size_t i = 0; i < ARRAY_LEN(table) && rc >= 0; i++) {
		struct conn *c = store_writer(s);

		bind_i64(c->st[table[i].id], 1, now_ms - table[i].age_ms);
		rc = stmt_run(c, table[i].id, err);
		store_writer_done(s);
	}
	return rc < 0 ? -1 : 0;
}
