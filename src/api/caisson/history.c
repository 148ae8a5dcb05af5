/*
 * history.c - GET /sandboxes/{id}/events: what happened to a sandbox, page by page; and …/failures:
 * what its agent told the daemon, by request.
 */
#include "api/caisson/native.h"

#include <stdlib.h>
#include <string.h>

#define EVENTS_DEFAULT 100

struct history_args {
	int64_t cursor, limit;
};

#define AT(member)  offsetof(struct history_args, member) /* offsetof needs the type as a token */
#define HAS(member) offsetof(struct history_item, member)

static const struct jt_field query_fields[] = {
	{"cursor", JT_INT, 0, AT(cursor), 0, INT64_MAX, NULL},
	{"limit", JT_INT, 0, AT(limit), 1, HISTORY_MAX, NULL},
};
const struct jt_table native_history_query_table = {"", query_fields, ARRAY_LEN(query_fields)};

static const struct jt_field item_fields[] = {
	{"id", JT_INT, 0, HAS(id), 0, 0, NULL},
	{"kind", JT_CHARS, 0, HAS(kind), 0, 0, NULL},
	{"at", JT_TIME, 0, HAS(at_ms), 0, 0, NULL},
	{"reason", JT_CHARS, JT_OMIT, HAS(text), 0, 0, NULL},
	{"memoryLimitBytes", JT_U64, JT_OMIT, HAS(limit), 0, 0, NULL},
	{"memoryPeakBytes", JT_U64, JT_OMIT, HAS(peak), 0, 0, NULL},
	{"victim", JT_CHARS, JT_OMIT, HAS(victim), 0, 0, NULL},
};
const struct jt_table native_history_table = {"SandboxEvent", item_fields, ARRAY_LEN(item_fields)};

static void put_item(struct jw *w, const struct history_item *item)
{
	jw_open(w, '{');
	if (item->state >= 0)
		jw_kstr(w, "state", sandbox_state_name((enum sandbox_state)item->state));
	jt_encode(w, &native_history_table, item);
	jw_close(w, '}');
}

int caisson_native_listSandboxEvents(struct http_req *req, struct err *err)
{
	auto_buf struct buf b = BUF_INIT(API_REPLY_MAX);
	struct history_args a = {.limit = EVENTS_DEFAULT};
	struct history_page page = {0};
	struct jw w;

	if (api_query(req, &native_history_query_table, &a, err) < 0 ||
	    sandbox_history(api_core(req), api_who(req), http_param(req, "id"), a.cursor,
			    (unsigned)a.limit, &page, err) < 0)
		return -1;
	jw_init(&w, &b);
	jw_open(&w, '{');
	jw_key(&w, "items");
	jw_open(&w, '[');
	for (size_t i = 0; i < page.n; i++)
		put_item(&w, &page.item[i]);
	jw_close(&w, ']');
	if (page.next)
		jw_kint(&w, "nextCursor", page.next);
	jw_close(&w, '}');
	free(page.item);
	return api_reply(req, 200, &w, err);
}

#define NOTE(member) offsetof(struct agent_note, member)

static const struct jt_field note_fields[] = {
	{"at", JT_TIME, JT_OMIT, NOTE(at_ms), 0, 0, NULL},
	{"requestId", JT_CHARS, JT_OMIT, NOTE(request), 0, 0, NULL},
	{"message", JT_CHARS, 0, NOTE(text), 0, 0, NULL},
};
const struct jt_table native_failure_table = {"AgentFailure", note_fields, ARRAY_LEN(note_fields)};

int caisson_native_listAgentFailures(struct http_req *req, struct err *err)
{
	auto_buf struct buf b = BUF_INIT(API_REPLY_MAX);
	auto_free struct agent_note *note = NULL;
	size_t n = 0;
	struct jw w;

	if (sandbox_notes(api_core(req), api_who(req), http_param(req, "id"), &note, &n, err) < 0)
		return -1;
	jw_init(&w, &b);
	jw_open(&w, '{');
	jw_key(&w, "items");
	jw_open(&w, '[');
	for (size_t i = 0; i < n; i++) {
		jw_open(&w, '{');
		jt_encode(&w, &native_failure_table, &note[i]);
		jw_close(&w, '}');
	}
	jw_close(&w, ']');
	jw_close(&w, '}');
	return api_reply(req, 200, &w, err);
}
