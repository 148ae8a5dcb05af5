/*
 * store_sandbox.c - the sandbox rows: insert, claim, look up, move along an edge, set.
 *
 * A create is one transaction: row, labels, idempotency record and event, or nothing. An edge is
 * one UPDATE that names the state it leaves: of two racing callers one gets "moved".
 */
#include "store/store_sandbox.h"

#include <string.h>

const struct column sandbox_columns[SANDBOX_COLUMNS_N] = {
#define COL_ROW_(kind, field, column)                                                              \
	{kind, offsetof(struct sandbox_row, field), sizeof(((struct sandbox_row *)0)->field)},
	SANDBOX_COLUMNS(COL_ROW_)
#undef COL_ROW_
};

void sandbox_done(struct sandbox *s)
{
	kv_done(&s->env);
	kv_done(&s->labels);
	free(s->network_allow_list);
	free(s->domain_allow_list);
	s->network_allow_list = s->domain_allow_list = NULL;
}

void sandbox_row_done(struct sandbox_row *r)
{
	sandbox_done(&r->s);
}

/* ---- create ---- */

static int labels_put(struct conn *c, const char *id, const struct kv *labels, struct err *err)
{
	sqlite3_stmt *st = c->st[ST_LABEL_INSERT];

	for (size_t i = 0; i < labels->n; i++) {
		bind_text(st, 1, id);
		bind_text(st, 2, labels->pair[i].key);
		bind_text(st, 3, labels->pair[i].value);
		if (stmt_run(c, ST_LABEL_INSERT, err) < 0)
			return -1;
	}
	return 0;
}

/* CREATE_NEW or CREATE_NAME_TAKEN. */
static int name_check(struct conn *c, const char *org, const char *name, char ret_id[ID_LEN],
		      struct err *err)
{
	int got;

	bind_text(c->st[ST_SANDBOX_NAMED], 1, org);
	bind_text(c->st[ST_SANDBOX_NAMED], 2, name);
	got = stmt_text(c, ST_SANDBOX_NAMED, ret_id, ID_LEN, err);
	return got < 0 ? -1 : got ? CREATE_NAME_TAKEN : CREATE_NEW;
}

static int insert_in(struct conn *c, const struct sandbox_row *row, const struct store_idem *idem,
		     char ret_id[ID_LEN], struct err *err)
{
	const struct sandbox *s = &row->s;
	int rc = store_idem_find(c, s->org_id, idem, ret_id, err);

	if (rc == CREATE_NEW)
		rc = name_check(c, s->org_id, s->name, ret_id, err);
	if (rc != CREATE_NEW)
		return rc;
	memcpy(ret_id, s->id, ID_LEN);
	if (columns_bind(c->st[ST_SANDBOX_INSERT], 1, sandbox_columns, SANDBOX_COLUMNS_N, row,
			 err) < 0 ||
	    stmt_run(c, ST_SANDBOX_INSERT, err) < 0 || labels_put(c, s->id, &s->labels, err) < 0 ||
	    store_idem_put(c, s->org_id, idem, s->id, s->created_ms, err) < 0)
		return -1;
	return CREATE_NEW;
}

static int claim_in(struct conn *c, const struct sandbox_row *row, char ret_id[ID_LEN],
		    struct err *err)
{
	const struct sandbox *s = &row->s;
	sqlite3_stmt *st = c->st[ST_SANDBOX_CLAIM];
	int got;

	bind_text(st, 1, s->snapshot);
	bind_text(st, 2, s->org_id);
	bind_text(st, 3, s->name[0] ? s->name : NULL);
	bind_text(st, 4, s->user);
	bind_text(st, 5, s->region);
	if (bind_kv(st, 6, &s->labels, err) < 0 || bind_kv(st, 7, &s->env, err) < 0) {
		stmt_end(c, ST_SANDBOX_CLAIM);
		return -1;
	}
	bind_i64(st, 8, s->is_public);
	bind_text(st, 9, s->network_allow_list);
	bind_text(st, 10, s->domain_allow_list);
	bind_i64(st, 11, s->auto_stop_min);
	bind_i64(st, 12, s->auto_pause_min);
	bind_i64(st, 13, s->auto_archive_min);
	bind_i64(st, 14, s->auto_delete_min);
	bind_i64(st, 15, s->auto_destroy_ms);
	bind_i64(st, 16, s->created_ms);
	got = stmt_text(c, ST_SANDBOX_CLAIM, ret_id, ID_LEN, err);
	if (got <= 0)
		return got < 0 ? -1 : CREATE_NO_WARM;
	return labels_put(c, ret_id, &s->labels, err) < 0 ? -1 : CREATE_NEW;
}

static int claim_whole(struct conn *c, const struct sandbox_row *row, const struct store_idem *idem,
		       char ret_id[ID_LEN], struct err *err)
{
	const struct sandbox *s = &row->s;
	int rc = store_idem_find(c, s->org_id, idem, ret_id, err);

	if (rc == CREATE_NEW && s->name[0])
		rc = name_check(c, s->org_id, s->name, ret_id, err);
	if (rc == CREATE_NEW)
		rc = claim_in(c, row, ret_id, err);
	if (rc != CREATE_NEW)
		return rc;
	return store_idem_put(c, s->org_id, idem, ret_id, s->created_ms, err) < 0 ? -1 : CREATE_NEW;
}

/* Only a whole create is kept; a refusal leaves nothing behind, not even the key. */
static int create_end(struct conn *c, int rc, struct err *err)
{
	if (rc == CREATE_NEW)
		return store_end(c, rc, err);
	store_end(c, -1, NULL);
	return rc;
}

int store_sandbox_insert(struct store *s, const struct sandbox_row *row,
			 const struct store_idem *idem, char ret_id[ID_LEN], struct err *err)
{
	struct conn *c = store_writer(s);
	int rc = store_begin(c, err);

	if (rc == 0)
		rc = create_end(c, insert_in(c, row, idem, ret_id, err), err);
	store_writer_done(s);
	return rc;
}

int store_sandbox_claim(struct store *s, const struct sandbox_row *row,
			const struct store_idem *idem, char ret_id[ID_LEN], struct err *err)
{
	struct conn *c = store_writer(s);
	int rc = store_begin(c, err);

	if (rc == 0)
		rc = create_end(c, claim_whole(c, row, idem, ret_id, err), err);
	store_writer_done(s);
	return rc;
}

/* ---- look up ---- */

static int row_find(struct conn *c, enum stmt_id id, const char *org, const char *key,
		    struct sandbox_row *ret, struct err *err)
{
	struct sandbox_row row = {0};
	int got, rc;

	bind_text(c->st[id], 1, org);
	bind_text(c->st[id], 2, key);
	got = stmt_next(c, id, err);
	if (got <= 0)
		return got;
	rc = columns_read(c->st[id], 1, sandbox_columns, SANDBOX_COLUMNS_N, &row, err);
	stmt_end(c, id);
	if (rc < 0) {
		sandbox_row_done(&row);
		return -1;
	}
	*ret = row;
	return 1;
}

int store_sandbox_get(struct store *s, const char *org, const char *id_or_name,
		      struct sandbox_row *ret, struct err *err)
{
	struct conn *c = store_reader(s);
	int got = 0;

	if (id_valid(id_or_name))
		got = row_find(c, ST_SANDBOX_BY_ID, org, id_or_name, ret, err);
	if (got == 0 && org)
		got = row_find(c, ST_SANDBOX_BY_NAME, org, id_or_name, ret, err);
	store_reader_done(s, c);
	return got;
}

/* ---- edges ---- */

static int edge_in(struct conn *c, const struct store_edge *e, struct err *err)
{
	sqlite3_stmt *st = c->st[ST_SANDBOX_EDGE];

	bind_text(st, 1, e->id);
	bind_i64(st, 2, e->from);
	bind_i64(st, 3, e->to);
	if (e->desired >= 0)
		bind_i64(st, 4, e->desired);
	bind_text(st, 5, e->reason ? e->reason : "");
	bind_i64(st, 6, e->recoverable);
	bind_text(st, 7, e->ip4);
	bind_text(st, 8, e->ip6);
	bind_i64(st, 9, e->now_ms);
	return stmt_run(c, ST_SANDBOX_EDGE, err);
}

/* On its way out a sandbox gives its name free, in the same transaction. */
static int edge_out(struct conn *c, const struct store_edge *e, struct err *err)
{
	int rc = store_begin(c, err);

	if (rc < 0)
		return -1;
	rc = edge_in(c, e, err);
	if (rc > 0) {
		bind_text(c->st[ST_SANDBOX_RENAME], 1, e->id);
		bind_i64(c->st[ST_SANDBOX_RENAME], 2, e->now_ms);
		rc = stmt_run(c, ST_SANDBOX_RENAME, err);
	}
	return store_end(c, rc, err);
}

/* The last edge: of a destroyed sandbox nothing is kept, neither labels nor environment. */
static int edge_last(struct conn *c, const struct store_edge *e, struct err *err)
{
	bind_text(c->st[ST_SANDBOX_DROP], 1, e->id);
	return stmt_run(c, ST_SANDBOX_DROP, err);
}

int store_sandbox_edge(struct store *s, const struct store_edge *e, struct err *err)
{
	struct conn *c = store_writer(s);
	int rc = e->to == SB_DESTROYING	 ? edge_out(c, e, err)
		 : e->to == SB_DESTROYED ? edge_last(c, e, err)
					 : edge_in(c, e, err);

	store_writer_done(s);
	return rc;
}

/* ---- setters ---- */

static int labels_in(struct conn *c, const char *id, const struct kv *labels, int64_t now_ms,
		     struct err *err)
{
	sqlite3_stmt *st = c->st[ST_SANDBOX_LABELS];
	int n;

	bind_text(st, 1, id);
	if (bind_kv(st, 2, labels, err) < 0)
		return -1;
	bind_i64(st, 3, now_ms);
	n = stmt_run(c, ST_SANDBOX_LABELS, err);
	if (n <= 0)
		return n;
	bind_text(c->st[ST_LABEL_CLEAR], 1, id);
	if (stmt_run(c, ST_LABEL_CLEAR, err) < 0 || labels_put(c, id, labels, err) < 0)
		return -1;
	return 1;
}

int store_sandbox_labels(struct store *s, const char *id, const struct kv *labels, int64_t now_ms,
			 struct err *err)
{
	struct conn *c = store_writer(s);
	int rc = store_begin(c, err);

	if (rc == 0)
		rc = store_end(c, labels_in(c, id, labels, now_ms, err), err);
	store_writer_done(s);
	return rc;
}

int store_sandbox_env(struct store *s, const char *id, const struct kv *was, const struct kv *env,
		      int64_t now_ms, struct err *err)
{
	struct conn *c = store_writer(s);
	sqlite3_stmt *st = c->st[ST_SANDBOX_ENV];
	int rc = bind_kv(st, 2, env, err);

	if (rc == 0)
		rc = bind_kv(st, 4, was, err);
	if (rc == 0) {
		bind_text(st, 1, id);
		bind_i64(st, 3, now_ms);
		rc = stmt_run(c, ST_SANDBOX_ENV, err);
	} else {
		stmt_end(c, ST_SANDBOX_ENV);
	}
	store_writer_done(s);
	return rc;
}

static int sandbox_set(struct store *s, enum stmt_id id, const char *sandbox, int64_t value,
		       int64_t now_ms, struct err *err)
{
	struct conn *c = store_writer(s);
	int rc;

	bind_text(c->st[id], 1, sandbox);
	bind_i64(c->st[id], 2, value);
	if (now_ms)
		bind_i64(c->st[id], 3, now_ms);
	rc = stmt_run(c, id, err);
	store_writer_done(s);
	return rc;
}

int store_sandbox_public(struct store *s, const char *id, bool on, int64_t now_ms, struct err *err)
{
	return sandbox_set(s, ST_SANDBOX_PUBLIC, id, on, now_ms, err);
}

int store_sandbox_timer(struct store *s, const char *id, enum sandbox_timer t, int64_t value,
			int64_t now_ms, struct err *err)
{
	static const enum stmt_id stmt[] = {
		[TIMER_STOP] = ST_SANDBOX_STOP_MIN,
		[TIMER_PAUSE] = ST_SANDBOX_PAUSE_MIN,
		[TIMER_ARCHIVE] = ST_SANDBOX_ARCHIVE_MIN,
		[TIMER_DELETE] = ST_SANDBOX_DELETE_MIN,
		[TIMER_TTL] = ST_SANDBOX_TTL,
	};

	return sandbox_set(s, stmt[t], id, value, now_ms, err);
}

int store_sandbox_touch(struct store *s, const char *id, int64_t active_ms, struct err *err)
{
	return sandbox_set(s, ST_SANDBOX_TOUCH, id, active_ms, 0, err);
}

/* ---- counts and walks of the background ---- */

int store_sandbox_brief(struct store *s, struct store_brief **ret, size_t *ret_n, struct err *err)
{
	struct conn *c = store_reader(s);
	sqlite3_stmt *st = c->st[ST_SANDBOX_BRIEF];
	struct store_brief *list = NULL, *more;
	size_t n = 0, cap = 0;
	int got;

	while ((got = stmt_next(c, ST_SANDBOX_BRIEF, err)) > 0) {
		if (n == cap) {
			cap = cap ? cap * 2 : 64;
			more = realloc(list, cap * sizeof(*list));
			if (!more) {
				got = err_set(err, ERR_NOMEM, "out of memory");
				stmt_end(c, ST_SANDBOX_BRIEF);
				break;
			}
			list = more;
		}
		snprintf(list[n].id, ID_LEN, "%s", (const char *)sqlite3_column_text(st, 0));
		list[n].state = (enum sandbox_state)sqlite3_column_int(st, 1);
		list[n++].warm = sqlite3_column_int(st, 2) != 0;
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

int store_sandbox_due(struct store *s, enum store_due what, int64_t now_ms, char (*ret)[ID_LEN],
		      size_t max, size_t *ret_n, struct err *err)
{
	static const enum stmt_id stmt[] = {
		[DUE_STOP] = ST_SANDBOX_DUE_STOP,
		[DUE_DELETE] = ST_SANDBOX_DUE_DELETE,
		[DUE_TTL] = ST_SANDBOX_DUE_TTL,
	};
	struct conn *c = store_reader(s);
	sqlite3_stmt *st = c->st[stmt[what]];
	size_t n = 0;
	int got;

	bind_i64(st, 1, now_ms);
	bind_i64(st, 2, (int64_t)max);
	while ((got = stmt_next(c, stmt[what], err)) > 0)
		snprintf(ret[n++], ID_LEN, "%s", (const char *)sqlite3_column_text(st, 0));
	store_reader_done(s, c);
	*ret_n = n;
	return got < 0 ? -1 : 0;
}

static int rows_count(struct store *s, enum stmt_id id, const char *key, unsigned *ret_n,
		      struct err *err)
{
	struct conn *c = store_reader(s);
	int64_t n = 0;
	int rc;

	bind_text(c->st[id], 1, key);
	rc = stmt_number(c, id, &n, err);
	store_reader_done(s, c);
	*ret_n = (unsigned)n;
	return rc;
}

int store_sandbox_parked(struct store *s, const char *snapshot, unsigned *ret_n, struct err *err)
{
	return rows_count(s, ST_SANDBOX_PARKED, snapshot, ret_n, err);
}

int store_sandbox_on_layer(struct store *s, const char *layer, unsigned *ret_n, struct err *err)
{
	return rows_count(s, ST_SANDBOX_ON_LAYER, layer, ret_n, err);
}
