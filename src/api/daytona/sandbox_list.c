/*
 * sandbox_list.c - GET /sandbox: every filter of contract §3.1 to a sandbox_query.
 */
#include "api/daytona/daytona.h"

#include <string.h>

#define MAX_UNITS 1000000 /* of cores or GiB in a filter */

struct list_args {
	struct sandbox_query q;
	struct kv labels;
	struct jt_strs states, snapshots, regions, classes;
	int64_t limit, min_gpu, max_gpu;
	const char *sort, *order, *is_public, *is_recoverable;
};

#define AT(member) offsetof(struct list_args, member) /* offsetof needs the type as a token */

static const struct jt_field list_fields[] = {
	{"cursor", JT_STR, 0, AT(q.cursor), 0, 2048, NULL},
	{"limit", JT_INT, 0, AT(limit), 1, 200, NULL},
	{"id", JT_STR, 0, AT(q.id_prefix), 0, 128, NULL},
	{"name", JT_STR, 0, AT(q.name_prefix), 0, 128, NULL},
	{"labels", JT_KV, 0, AT(labels), 0, 100, NULL},
	{"states", JT_STRS, 0, AT(states), 0, 100, NULL},
	{"snapshots", JT_STRS, 0, AT(snapshots), 0, 100, NULL},
	{"regionIds", JT_STRS, 0, AT(regions), 0, 100, NULL},
	{"sandboxClasses", JT_STRS, 0, AT(classes), 0, 100, NULL},
	{"minCpu", JT_INT, 0, AT(q.min_cpu), 1, MAX_UNITS, NULL},
	{"maxCpu", JT_INT, 0, AT(q.max_cpu), 1, MAX_UNITS, NULL},
	{"minMemoryGiB", JT_INT, 0, AT(q.min_memory), 1, MAX_UNITS, NULL},
	{"maxMemoryGiB", JT_INT, 0, AT(q.max_memory), 1, MAX_UNITS, NULL},
	{"minDiskGiB", JT_INT, 0, AT(q.min_disk), 1, MAX_UNITS, NULL},
	{"maxDiskGiB", JT_INT, 0, AT(q.max_disk), 1, MAX_UNITS, NULL},
	{"minGpu", JT_INT, 0, AT(min_gpu), 0, MAX_UNITS, NULL},
	{"maxGpu", JT_INT, 0, AT(max_gpu), 0, MAX_UNITS, NULL},
	{"isPublic", JT_STR, 0, AT(is_public), 0, 5, NULL},
	{"isRecoverable", JT_STR, 0, AT(is_recoverable), 0, 5, NULL},
	{"createdAtAfter", JT_TIME, 0, AT(q.created_after), 0, 0, NULL},
	{"createdAtBefore", JT_TIME, 0, AT(q.created_before), 0, 0, NULL},
	{"lastEventAfter", JT_TIME, 0, AT(q.active_after), 0, 0, NULL},
	{"lastEventBefore", JT_TIME, 0, AT(q.active_before), 0, 0, NULL},
	{"lastActivityAfter", JT_TIME, 0, AT(q.active_after), 0, 0, NULL},
	{"lastActivityBefore", JT_TIME, 0, AT(q.active_before), 0, 0, NULL},
	{"autoDestroyAtAfter", JT_TIME, 0, AT(q.destroy_after), 0, 0, NULL},
	{"autoDestroyAtBefore", JT_TIME, 0, AT(q.destroy_before), 0, 0, NULL},
	{"sort", JT_STR, 0, AT(sort), 0, 32, NULL},
	{"order", JT_STR, 0, AT(order), 0, 8, NULL},
	{"includeErroredDeleted", JT_BOOL, 0, AT(q.include_errored_deleted), 0, 0, NULL},
	{"includeWarm", JT_BOOL, 0, AT(q.include_warm), 0, 0, NULL},
};
const struct jt_table daytona_list_query_table = {"", list_fields, ARRAY_LEN(list_fields)};

static const struct {
	const char *name;
	enum sandbox_sort sort;
} sorts[] = {
	{"lastActivityAt", SORT_ACTIVITY}, {"name", SORT_NAME},	   {"cpu", SORT_CPU},
	{"memoryGib", SORT_MEMORY},	   {"diskGib", SORT_DISK}, {"createdAt", SORT_CREATED},
};

static int take_sort(struct list_args *a, struct err *err)
{
	size_t i = 0;

	for (; a->sort && *a->sort && i < ARRAY_LEN(sorts); i++)
		if (strcmp(a->sort, sorts[i].name) == 0)
			break;
	if (i == ARRAY_LEN(sorts))
		return err_set(err, ERR_INVALID,
			       "sort: must be one of name, cpu, memoryGib, diskGib, "
			       "lastActivityAt, createdAt");
	a->q.sort = sorts[i].sort;
	a->q.ascending = false;
	if (!a->order || !*a->order)
		return 0;
	a->q.ascending = strcmp(a->order, "asc") == 0;
	if (!a->q.ascending && strcmp(a->order, "desc") != 0)
		return err_set(err, ERR_INVALID, "order: must be asc or desc");
	return 0;
}

/* Names of the contract this version never reaches; they match nothing, which is no mistake. */
static bool is_foreign_state(const char *name)
{
	static const char *const names[] = {
		"restoring", "build_failed", "pending_build", "building_snapshot", "unknown",
		"archived",  "archiving",    "resizing",      "pulling_snapshot",  "snapshotting",
		"forking",   "pausing",	     "paused",	      "resuming",
	};

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (strcmp(name, names[i]) == 0)
			return true;
	return false;
}

/* 1 when only states that no sandbox can have were asked for. */
static int take_states(struct list_args *a, struct err *err)
{
	for (size_t i = 0; i < a->states.n; i++) {
		int st = sandbox_state_parse(a->states.v[i]);

		if (st >= 0)
			a->q.states |= 1u << st;
		else if (!is_foreign_state(a->states.v[i]))
			return err_set(err, ERR_INVALID, "states: unknown state %.40s",
				       a->states.v[i]);
	}
	return a->states.n && !a->q.states;
}

static int take_tri(const char *name, const char *text, int *ret, struct err *err)
{
	if (!text || !*text)
		return 0;
	*ret = strcmp(text, "true") == 0;
	if (!*ret && strcmp(text, "false") != 0)
		return err_set(err, ERR_INVALID, "%s: must be true or false", name);
	return 0;
}

/* Every sandbox is of class container and has no GPU. */
static bool asks_for_nothing(const struct list_args *a)
{
	bool container = a->classes.n == 0;

	for (size_t i = 0; i < a->classes.n; i++)
		container |= strcmp(a->classes.v[i], "container") == 0;
	return !container || a->min_gpu > 0;
}

static int reply_page(struct http_req *req, const struct sandbox_page *p, struct err *err)
{
	auto_buf struct buf b = BUF_INIT(API_REPLY_MAX);
	const char *base = http_base_url(req);
	struct jw w;

	jw_init(&w, &b);
	jw_open(&w, '{');
	jw_key(&w, "items");
	jw_open(&w, '[');
	for (size_t i = 0; i < p->n; i++)
		daytona_put_sandbox_item(&w, &p->item[i], base);
	jw_close(&w, ']');
	jw_key(&w, "nextCursor");
	if (p->next[0])
		jw_str(&w, p->next);
	else
		jw_raw(&w, "null");
	jw_close(&w, '}');
	return api_reply(req, 200, &w, err);
}

/* The query of the arguments. 1 when no sandbox can match. */
/* GiB as asked to MiB as kept. */
static void take_memory(int64_t *v)
{
	if (*v != SPEC_UNSET)
		*v *= 1024;
}

static int take_query(struct list_args *a, struct err *err)
{
	int r;

	if (take_sort(a, err) < 0 || take_tri("isPublic", a->is_public, &a->q.is_public, err) < 0 ||
	    take_tri("isRecoverable", a->is_recoverable, &a->q.is_recoverable, err) < 0)
		return -1;
	r = take_states(a, err);
	if (r < 0)
		return -1;
	take_memory(&a->q.min_memory);
	take_memory(&a->q.max_memory);
	a->q.labels = &a->labels;
	a->q.limit = (unsigned)a->limit;
	a->q.snapshots = a->snapshots.v;
	a->q.nsnapshots = a->snapshots.n;
	a->q.regions = a->regions.v;
	a->q.nregions = a->regions.n;
	if (a->q.cursor && !*a->q.cursor)
		a->q.cursor = NULL;
	return r > 0 || asks_for_nothing(a);
}

static int list_with(struct http_req *req, struct list_args *a, struct err *err)
{
	struct sandbox_page page = {0};
	int r = take_query(a, err);

	if (r < 0)
		return -1;
	if (r == 0 && sandbox_list(api_core(req), api_who(req), &a->q, &page, err) < 0)
		return -1;
	r = reply_page(req, &page, err);
	sandbox_page_done(&page);
	return r;
}

static const struct sandbox_query query_any = {
	.min_cpu = SPEC_UNSET,
	.max_cpu = SPEC_UNSET,
	.min_memory = SPEC_UNSET,
	.max_memory = SPEC_UNSET,
	.min_disk = SPEC_UNSET,
	.max_disk = SPEC_UNSET,
	.is_public = -1,
	.is_recoverable = -1,
	.created_after = SPEC_UNSET,
	.created_before = SPEC_UNSET,
	.active_after = SPEC_UNSET,
	.active_before = SPEC_UNSET,
	.destroy_after = SPEC_UNSET,
	.destroy_before = SPEC_UNSET,
};

int daytona_control_listSandboxes(struct http_req *req, struct err *err)
{
	struct list_args a = {.q = query_any, .limit = 100};
	int r = api_query(req, &daytona_list_query_table, &a, err);

	if (r == 0)
		r = list_with(req, &a, err);
	jt_release(&daytona_list_query_table, &a);
	return r;
}

/* ---- GET /sandbox/paginated: whole sandboxes by page number, for clients of before cursors ----
 */

struct numbered_args {
	int64_t page;
};
static const struct jt_field numbered_fields[] = {
	{"page", JT_INT, 0, offsetof(struct numbered_args, page), 1, 1000000, NULL},
};
static const struct jt_table numbered_table = {"", numbered_fields, ARRAY_LEN(numbered_fields)};

static int reply_numbered(struct http_req *req, const struct sandbox_page *p, uint64_t total,
			  int64_t page, int64_t limit, struct err *err)
{
	auto_buf struct buf b = BUF_INIT(API_REPLY_MAX);
	const char *base = http_base_url(req);
	struct jw w;

	jw_init(&w, &b);
	jw_open(&w, '{');
	jw_key(&w, "items");
	jw_open(&w, '[');
	for (size_t i = 0; i < p->n; i++) {
		auto_sandbox struct sandbox whole = {0};

		/* A page is read without environments; one that went meanwhile is left out. */
		if (sandbox_get(api_core(req), api_who(req), p->item[i].id, &whole, NULL) == 0)
			daytona_put_sandbox(&w, &whole, base);
	}
	jw_close(&w, ']');
	jw_kint(&w, "total", (int64_t)total);
	jw_kint(&w, "page", page);
	jw_kint(&w, "totalPages", ((int64_t)total + limit - 1) / limit);
	jw_close(&w, '}');
	return api_reply(req, 200, &w, err);
}

static int numbered_with(struct http_req *req, struct list_args *a, int64_t number, struct err *err)
{
	struct sandbox_page page = {0};
	uint64_t total = 0;
	int r = take_query(a, err);

	if (r < 0)
		return -1;
	a->q.cursor = NULL;
	a->q.offset = (uint64_t)((number - 1) * a->limit);
	if (r == 0 && (sandbox_count(api_core(req), api_who(req), &a->q, &total, err) < 0 ||
		       sandbox_list(api_core(req), api_who(req), &a->q, &page, err) < 0))
		return -1;
	r = reply_numbered(req, &page, total, number, a->limit, err);
	sandbox_page_done(&page);
	return r;
}

int daytona_control_listSandboxesPaginated_deprecated(struct http_req *req, struct err *err)
{
	struct list_args a = {.q = query_any, .limit = 100, .sort = "createdAt"};
	struct numbered_args n = {.page = 1};
	int r = api_query(req, &daytona_list_query_table, &a, err);

	if (r == 0)
		r = api_query(req, &numbered_table, &n, err);
	if (r == 0)
		r = numbered_with(req, &a, n.page, err);
	jt_release(&daytona_list_query_table, &a);
	return r;
}
