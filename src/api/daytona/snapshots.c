/*
 * snapshots.c - snapshots as the SDK reads them (contract §3.4).
 */
#include "api/daytona/daytona.h"

#include <string.h>

#define GIB (1024.0 * 1024.0 * 1024.0)

#define AT(member) offsetof(struct snapshot, member) /* offsetof needs the type as a token */

static const struct jt_field snapshot_fields[] = {
	{"id", JT_CHARS, 0, AT(id), 0, 0, NULL},
	{"organizationId", JT_CHARS, JT_OMIT, AT(org_id), 0, 0, NULL},
	{"general", JT_BOOL, 0, AT(general), 0, 0, NULL},
	{"name", JT_CHARS, 0, AT(name), 0, 0, NULL},
	{"imageName", JT_CHARS, JT_OMIT, AT(image), 0, 0, NULL},
	{"state", JT_CHARS, 0, AT(state), 0, 0, NULL},
	{"entrypoint", JT_LIT, 0, 0, 0, 0, "null"},
	{"cpu", JT_UINT, 0, AT(cpu), 0, 0, NULL},
	{"gpu", JT_LIT, 0, 0, 0, 0, "0"},
	{"mem", JT_UINT, 0, AT(memory_gib), 0, 0, NULL},
	{"disk", JT_UINT, 0, AT(disk_gib), 0, 0, NULL},
	{"errorReason", JT_LIT, 0, 0, 0, 0, "null"},
	{"createdAt", JT_TIME, 0, AT(created_ms), 0, 0, NULL},
	{"updatedAt", JT_TIME, 0, AT(updated_ms), 0, 0, NULL},
	{"lastUsedAt", JT_TIME, JT_NULL, AT(last_used_ms), 0, 0, NULL},
	{"sourceSandboxId", JT_LIT, 0, 0, 0, 0, "null"},
	{"sandboxClass", JT_LIT, 0, 0, 0, 0, "\"container\""},
};
const struct jt_table daytona_snapshot_table = {"Snapshot", snapshot_fields,
						ARRAY_LEN(snapshot_fields)};

static void put_snapshot(struct jw *w, const struct snapshot *s)
{
	jw_open(w, '{');
	jt_encode(w, &daytona_snapshot_table, s);
	jw_key(w, "size");
	if (s->bytes)
		jw_double(w, (double)s->bytes / GIB);
	else
		jw_raw(w, "null");
	jw_close(w, '}');
}

struct page_args {
	int64_t page, limit;
	const char *name, *source, *sort, *order;
};

static const struct jt_field page_fields[] = {
	{"page", JT_INT, 0, offsetof(struct page_args, page), 1, 1000000, NULL},
	{"limit", JT_INT, 0, offsetof(struct page_args, limit), 1, 200, NULL},
	{"name", JT_STR, 0, offsetof(struct page_args, name), 0, 128, NULL},
	{"sourceSandboxId", JT_STR, 0, offsetof(struct page_args, source), 0, 128, NULL},
	{"sort", JT_STR, 0, offsetof(struct page_args, sort), 0, 32, NULL},
	{"order", JT_STR, 0, offsetof(struct page_args, order), 0, 8, NULL},
};
static const struct jt_table page_table = {"", page_fields, ARRAY_LEN(page_fields)};

static int check_page(const struct page_args *a, struct err *err)
{
	static const char *const sorts[] = {"", "name", "state", "lastUsedAt", "createdAt"};
	bool known = !a->sort;

	for (size_t i = 0; !known && i < ARRAY_LEN(sorts); i++)
		known = strcmp(a->sort, sorts[i]) == 0;
	if (!known)
		return err_set(err, ERR_INVALID,
			       "sort: must be one of name, state, lastUsedAt, createdAt");
	if (a->order && *a->order && strcmp(a->order, "asc") != 0 && strcmp(a->order, "desc") != 0)
		return err_set(err, ERR_INVALID, "order: must be asc or desc");
	return 0;
}

int daytona_control_getAllSnapshots(struct http_req *req, struct err *err)
{
	auto_buf struct buf b = BUF_INIT(API_REPLY_MAX);
	struct page_args a = {.page = 1, .limit = 100};
	struct snapshot_page p = {0};
	struct jw w;

	if (api_query(req, &page_table, &a, err) < 0 || check_page(&a, err) < 0)
		return -1;
	/* No snapshot of this version was made from a sandbox. */
	if (!(a.source && *a.source) &&
	    snapshot_list(api_core(req), api_who(req), a.name, (unsigned)a.page, (unsigned)a.limit,
			  &p, err) < 0)
		return -1;
	jw_init(&w, &b);
	jw_open(&w, '{');
	jw_key(&w, "items");
	jw_open(&w, '[');
	for (size_t i = 0; i < p.n; i++)
		put_snapshot(&w, &p.item[i]);
	jw_close(&w, ']');
	jw_kint(&w, "total", p.total);
	jw_kint(&w, "page", p.page ? p.page : a.page);
	jw_kint(&w, "totalPages", p.pages);
	jw_close(&w, '}');
	free(p.item);
	return api_reply(req, 200, &w, err);
}

int daytona_control_getSnapshot(struct http_req *req, struct err *err)
{
	auto_buf struct buf b = BUF_INIT(API_REPLY_MAX);
	struct snapshot s = {0};
	struct jw w;

	if (snapshot_get(api_core(req), api_who(req), http_param(req, "id"), &s, err) < 0)
		return -1;
	jw_init(&w, &b);
	put_snapshot(&w, &s);
	return api_reply(req, 200, &w, err);
}
