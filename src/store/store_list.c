/*
 * store_list.c - pages of sandboxes: filters, six orders, cursors.
 *
 * A cursor holds the order and the key and id of the page's last item, so pages stay right while
 * rows come and go. With labels wanted, the search starts at the rarest pair when few sandboxes
 * have it; a pair that most have (SDKs set one on each) is cheaper to test along the order's index.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "store/store_sandbox.h"

#define LIST_RARE      400 /* sandboxes of a label worth sorting */
#define LIST_TEXT_MAX  65536
#define LIST_STATES    ((1u << SB_STATE_MAX) - 1)
#define CURSOR_VERSION "1"

/* The first statement of each order; descending, then ascending; by organization, then by label. */
static const struct {
	enum stmt_id org, label;
	bool text; /* the key is the name */
} list_order[] = {
	[SORT_ACTIVITY] = {ST_LIST_ORG_ACTIVITY_D, ST_LIST_LABEL_ACTIVITY_D, false},
	[SORT_NAME] = {ST_LIST_ORG_NAME_D, ST_LIST_LABEL_NAME_D, true},
	[SORT_CPU] = {ST_LIST_ORG_CPU_D, ST_LIST_LABEL_CPU_D, false},
	[SORT_MEMORY] = {ST_LIST_ORG_MEMORY_D, ST_LIST_LABEL_MEMORY_D, false},
	[SORT_DISK] = {ST_LIST_ORG_DISK_D, ST_LIST_LABEL_DISK_D, false},
	[SORT_CREATED] = {ST_LIST_ORG_CREATED_D, ST_LIST_LABEL_CREATED_D, false},
};

struct list_key {
	int64_t number;
	char text[CORE_NAME_MAX];
	char id[ID_LEN];
};

static int64_t key_number(enum sandbox_sort sort, const struct sandbox *s)
{
	switch (sort) {
	case SORT_CPU:
		return s->cpu;
	case SORT_MEMORY:
		return s->memory_mib;
	case SORT_DISK:
		return s->disk_gib;
	case SORT_CREATED:
		return s->created_ms;
	case SORT_ACTIVITY:
	case SORT_NAME:
		break;
	}
	return s->last_activity_ms;
}

/* "1" order direction id key */
static void cursor_make(const struct sandbox_query *q, const struct sandbox *last, char *out,
			size_t cap)
{
	int n = snprintf(out, cap, CURSOR_VERSION "%d%c%s", (int)q->sort, q->ascending ? 'a' : 'd',
			 last->id);

	if (list_order[q->sort].text)
		snprintf(out + n, cap - (size_t)n, "%s", last->name);
	else
		snprintf(out + n, cap - (size_t)n, "%" PRId64, key_number(q->sort, last));
}

static int cursor_bad(struct err *err)
{
	return err_set(err, ERR_INVALID,
		       "cursor: not one of this listing (it holds for one sort and order)");
}

static int cursor_read(const struct sandbox_query *q, struct list_key *ret, struct err *err)
{
	const char *s = q->cursor;
	size_t n = strlen(s);
	char *end;

	if (n < 3 + ID_LEN || s[0] != CURSOR_VERSION[0] || s[1] != '0' + (int)q->sort ||
	    s[2] != (q->ascending ? 'a' : 'd'))
		return cursor_bad(err);
	snprintf(ret->id, sizeof(ret->id), "%s", s + 3);
	s += 3 + ID_LEN - 1;
	if (!id_valid(ret->id))
		return cursor_bad(err);
	if (list_order[q->sort].text) {
		if (strlen(s) >= sizeof(ret->text))
			return cursor_bad(err);
		snprintf(ret->text, sizeof(ret->text), "%s", s);
		return 0;
	}
	errno = 0;
	ret->number = strtoll(s, &end, 10);
	return errno || *end || end == s ? cursor_bad(err) : 0;
}

/* Parameters 2 and 3. Without a cursor: something before the first row. */
static void bind_cursor(sqlite3_stmt *st, const struct sandbox_query *q,
			const struct list_key *from)
{
	bool text = list_order[q->sort].text;

	if (q->cursor && text)
		bind_text(st, 2, from->text);
	else if (q->cursor)
		bind_i64(st, 2, from->number);
	else if (!text)
		bind_i64(st, 2, q->ascending ? INT64_MIN : INT64_MAX);
	else if (q->ascending)
		bind_text(st, 2, "");
	else
		bind_blob(st, 2, "", 0); /* every blob sorts behind every text */
	bind_text(st, 3, q->cursor ? from->id : "");
}

static void bind_range(sqlite3_stmt *st, int at, int64_t min, int64_t max)
{
	bind_i64(st, at, min);
	bind_i64(st, at + 1, max == SPEC_UNSET ? INT64_MAX : max);
}

/* "\nA\nB\n" for instr(); NULL for no list. */
static int bind_names(sqlite3_stmt *st, int at, const char *const *name, size_t n, struct err *err)
{
	struct buf b = BUF_INIT(LIST_TEXT_MAX);
	char *text;

	if (n == 0)
		return 0;
	for (size_t i = 0; i < n; i++) {
		if (buf_addf(&b, err, "\n%s", name[i]) < 0) {
			buf_done(&b);
			return -1;
		}
	}
	if (buf_adds(&b, "\n", err) < 0) {
		buf_done(&b);
		return -1;
	}
	text = buf_take(&b);
	sqlite3_bind_text(st, at, text, -1, free);
	return 0;
}

static int bind_filter(sqlite3_stmt *st, const struct sandbox_query *q, struct err *err)
{
	/* A lower bound of the end excludes those without one; so must an upper bound alone. */
	int64_t destroy_min = q->destroy_after;

	if (destroy_min == SPEC_UNSET && q->destroy_before != SPEC_UNSET)
		destroy_min = 1;
	bind_i64(st, 5, q->states ? q->states : LIST_STATES);
	bind_text(st, 6, q->id_prefix);
	bind_text(st, 7, q->name_prefix);
	if (q->labels && q->labels->n && bind_kv(st, 8, q->labels, err) < 0)
		return -1;
	if (bind_names(st, 9, q->snapshots, q->nsnapshots, err) < 0 ||
	    bind_names(st, 10, q->regions, q->nregions, err) < 0)
		return -1;
	bind_range(st, 11, q->min_cpu, q->max_cpu);
	bind_range(st, 13, q->min_memory, q->max_memory);
	bind_range(st, 15, q->min_disk, q->max_disk);
	bind_i64(st, 17, q->is_public);
	bind_i64(st, 18, q->is_recoverable);
	bind_range(st, 19, q->created_after, q->created_before);
	bind_range(st, 21, q->active_after, q->active_before);
	bind_range(st, 23, destroy_min, q->destroy_before);
	bind_i64(st, 25, q->include_errored_deleted);
	return 0;
}

/* The wanted pair that fewest sandboxes have, or NULL when even that one is common. */
static int label_rarest(struct conn *c, const struct kv *labels, const struct kv_pair **ret,
			struct err *err)
{
	int64_t least = LIST_RARE;

	*ret = NULL;
	for (size_t i = 0; labels && i < labels->n; i++) {
		sqlite3_stmt *st = c->st[ST_LABEL_COUNT];
		int64_t n = 0;

		bind_text(st, 1, labels->pair[i].key);
		bind_text(st, 2, labels->pair[i].value);
		bind_i64(st, 3, LIST_RARE);
		if (stmt_number(c, ST_LABEL_COUNT, &n, err) < 0)
			return -1;
		if (n < least) {
			least = n;
			*ret = &labels->pair[i];
		}
	}
	return 0;
}

static int list_rows(struct conn *c, enum stmt_id id, const struct sandbox_query *q,
		     struct sandbox_page *page, struct err *err)
{
	int got;

	page->item = calloc(q->limit, sizeof(*page->item));
	if (!page->item) {
		stmt_end(c, id);
		return err_set(err, ERR_NOMEM, "out of memory");
	}
	while ((got = stmt_next(c, id, err)) > 0) {
		struct sandbox_row row = {0};

		/* One more row than asked for was fetched: there is a next page. */
		if (page->n == q->limit) {
			cursor_make(q, &page->item[page->n - 1], page->next, sizeof(page->next));
			stmt_end(c, id);
			return 0;
		}
		got = columns_read(c->st[id], 1, sandbox_columns, SANDBOX_LIST_N, &row, err);
		page->item[page->n++] = row.s;
		if (got < 0) {
			stmt_end(c, id);
			return -1;
		}
	}
	return got;
}

static int list_run(struct conn *c, const char *org, const struct sandbox_query *q,
		    const struct list_key *from, struct sandbox_page *page, struct err *err)
{
	const struct kv_pair *rare;
	sqlite3_stmt *st;
	enum stmt_id id;

	if (label_rarest(c, q->labels, &rare, err) < 0)
		return -1;
	id = (rare ? list_order[q->sort].label : list_order[q->sort].org) + (q->ascending ? 1 : 0);
	st = c->st[id];
	bind_text(st, 1, org);
	bind_cursor(st, q, from);
	bind_i64(st, 4, (int64_t)q->limit + 1);
	bind_i64(st, 28, (int64_t)q->offset);
	if (rare) {
		bind_text(st, 26, rare->key);
		bind_text(st, 27, rare->value);
	}
	if (bind_filter(st, q, err) < 0) {
		stmt_end(c, id);
		return -1;
	}
	return list_rows(c, id, q, page, err);
}

int store_sandbox_count(struct store *s, const char *org, const struct sandbox_query *q,
			uint64_t *ret, struct err *err)
{
	struct conn *c = store_reader(s);
	int64_t n = 0;
	int rc;

	bind_text(c->st[ST_LIST_COUNT], 1, org);
	rc = bind_filter(c->st[ST_LIST_COUNT], q, err);
	if (rc == 0)
		rc = stmt_number(c, ST_LIST_COUNT, &n, err);
	else
		stmt_end(c, ST_LIST_COUNT);
	store_reader_done(s, c);
	*ret = (uint64_t)n;
	return rc;
}

int store_sandbox_list(struct store *s, const char *org, const struct sandbox_query *q,
		       struct sandbox_page *ret, struct err *err)
{
	struct sandbox_page page = {0};
	struct list_key from = {0};
	struct conn *c;
	int rc;

	if (q->cursor && cursor_read(q, &from, err) < 0)
		return -1;
	c = store_reader(s);
	rc = list_run(c, org, q, &from, &page, err);
	store_reader_done(s, c);
	if (rc < 0) {
		sandbox_page_done(&page);
		return -1;
	}
	*ret = page;
	return 0;
}

void sandbox_page_done(struct sandbox_page *p)
{
	for (size_t i = 0; i < p->n; i++)
		sandbox_done(&p->item[i]);
	free(p->item);
	p->item = NULL;
	p->n = 0;
}
