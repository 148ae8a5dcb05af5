/*
 * store_event.c - the history of sandboxes, and the ageing of what nobody needs any more.
 */
#include "store/store_int.h"

#define AGE_IDEM_MS	(24ll * 3600 * 1000)
#define AGE_EVENT_MS	(7ll * 24 * 3600 * 1000)
#define AGE_EXEC_KEY_MS (7ll * 24 * 3600 * 1000)
#define AGE_PROCESS_MS	(30ll * 24 * 3600 * 1000)

#define AT(member)  offsetof(struct history_item, member)
#define LEN(member) sizeof(((struct history_item *)0)->member)

static const struct column list_columns[] = {
	{COL_I64, AT(id), 0},
	{COL_I64, AT(at_ms), 0},
	{COL_TEXT, AT(kind), LEN(kind)},
	{COL_UINT, AT(state), 0},
	{COL_TEXT, AT(text), LEN(text)},
	{COL_U64, AT(limit), 0},
	{COL_U64, AT(peak), 0},
	{COL_TEXT, AT(victim), LEN(victim)},
};

int store_event_add(struct store *s, const char *sandbox, const struct history_item *item,
		    struct err *err)
{
	struct conn *c = store_writer(s);
	sqlite3_stmt *st = c->st[ST_EVENT_INSERT];
	int rc;

	bind_i64(st, 1, item->at_ms);
	bind_text(st, 2, sandbox);
	bind_text(st, 3, item->kind);
	bind_text(st, 4, item->text);
	bind_i64(st, 5, (int64_t)item->limit);
	bind_i64(st, 6, (int64_t)item->peak);
	bind_text(st, 7, item->victim);
	rc = stmt_run(c, ST_EVENT_INSERT, err);
	store_writer_done(s);
	return rc < 0 ? -1 : 0;
}

static int events_read(struct conn *c, size_t max, struct history_item *item, size_t *ret_n,
		       struct err *err)
{
	size_t n = 0;
	int got = 0;

	while (n < max && (got = stmt_next(c, ST_EVENT_LIST, err)) > 0)
		if (columns_read(c->st[ST_EVENT_LIST], 0, list_columns, ARRAY_LEN(list_columns),
				 &item[n++], err) < 0)
			got = -1;
	stmt_end(c, ST_EVENT_LIST);
	*ret_n = n;
	return got < 0 ? -1 : 0;
}

int store_event_list(struct store *s, const char *sandbox, int64_t after, size_t max,
		     struct history_item **ret, size_t *ret_n, struct err *err)
{
	auto_free struct history_item *item = calloc(max + 1, sizeof(*item));
	struct conn *c;
	int rc;

	if (!item)
		return err_set(err, ERR_NOMEM, "out of memory");
	c = store_reader(s);
	bind_text(c->st[ST_EVENT_LIST], 1, sandbox);
	bind_i64(c->st[ST_EVENT_LIST], 2, after);
	bind_i64(c->st[ST_EVENT_LIST], 3, (int64_t)max);
	rc = events_read(c, max, item, ret_n, err);
	store_reader_done(s, c);
	if (rc == 0)
		*ret = TAKE_PTR(item);
	return rc;
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
