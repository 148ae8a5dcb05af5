/*
 * toolbox_find.c - searching text and names, and replacing text (contract §3.10).
 */
#include "api/daytona/toolbox.h"

#include <string.h>

#define REPLACE_FILES_MAX 1000
#define PATTERN_BYTES_MAX 65536
#define VALUE_BYTES_MAX	  (4 << 20)

struct find_args {
	const char *path, *pattern;
};
static const struct jt_field find_fields[] = {
	{"path", JT_STR, JT_REQUIRED, offsetof(struct find_args, path), 1, TOOLBOX_PATH_MAX - 1,
	 NULL},
	{"pattern", JT_STR, JT_REQUIRED, offsetof(struct find_args, pattern), 1, AGENT_PATTERN_MAX,
	 NULL},
};
static const struct jt_table find_table = {"", find_fields, ARRAY_LEN(find_fields)};

/* The contract's replies have no place for it. */
static void tell_more(struct http_req *req, bool more)
{
	if (more)
		http_reply_header(req, "X-Caisson-Truncated", "true");
}

static int put_match(void *arg, const struct agent_match *m, struct err *err)
{
	struct jw *w = arg;

	jw_open(w, '{');
	jw_kstr(w, "file", m->path);
	jw_kint(w, "line", m->line);
	jw_kstr(w, "content", m->text);
	jw_close(w, '}');
	return jw_end(w, err);
}

int daytona_toolbox_FindInFiles(struct http_req *req, struct err *err)
{
	auto_buf struct buf b = BUF_INIT(API_REPLY_MAX);
	struct find_args a = {0};
	bool more = false;
	struct jw w;

	if (api_query(req, &find_table, &a, err) < 0)
		return -1;
	jw_init(&w, &b);
	jw_open(&w, '[');
	if (file_find(api_core(req), api_who(req), toolbox_id(req), a.path, a.pattern,
		      http_client_fd(req), put_match, &w, &more, err) < 0)
		return file_failed("path", err);
	jw_close(&w, ']');
	tell_more(req, more);
	return api_reply(req, 200, &w, err);
}

static int put_name(void *arg, const char *file, struct err *err)
{
	jw_str(arg, file);
	return jw_end(arg, err);
}

int daytona_toolbox_SearchFiles(struct http_req *req, struct err *err)
{
	auto_buf struct buf b = BUF_INIT(API_REPLY_MAX);
	struct find_args a = {0};
	bool more = false;
	struct jw w;

	if (api_query(req, &find_table, &a, err) < 0)
		return -1;
	jw_init(&w, &b);
	jw_open(&w, '{');
	jw_key(&w, "files");
	jw_open(&w, '[');
	if (file_search(api_core(req), api_who(req), toolbox_id(req), a.path, a.pattern,
			http_client_fd(req), put_name, &w, &more, err) < 0)
		return file_failed("path", err);
	jw_close(&w, ']');
	jw_close(&w, '}');
	tell_more(req, more);
	return api_reply(req, 200, &w, err);
}

/* ---- replace ---- */

struct replace_args {
	struct jt_strs files;
	const char *pattern, *value;
};
#define AT(member) offsetof(struct replace_args, member) /* offsetof needs the type as a token */
static const struct jt_field replace_fields[] = {
	{"files", JT_STRS, JT_REQUIRED, AT(files), 1, REPLACE_FILES_MAX, NULL},
	{"pattern", JT_STR, JT_REQUIRED, AT(pattern), 1, PATTERN_BYTES_MAX, NULL},
	{"newValue", JT_STR, JT_REQUIRED, AT(value), 0, VALUE_BYTES_MAX, NULL},
};
const struct jt_table daytona_replace_table = {"ReplaceRequest", replace_fields,
					       ARRAY_LEN(replace_fields)};

/* What goes wrong with one file is told with it; the others go on. */
static void put_replaced(struct http_req *req, const struct replace_args *a, const char *file,
			 struct jw *w)
{
	char path[AGENT_PATH_MAX];
	struct err why = {0};
	uint64_t count = 0;
	int rc = file_replace(api_core(req), api_who(req), toolbox_id(req), file, a->pattern,
			      a->value, path, &count, &why);

	jw_open(w, '{');
	jw_kstr(w, "file", path);
	jw_kbool(w, "success", rc == 0);
	if (rc < 0)
		file_failed("file", &why);
	jw_kstr(w, "error", rc == 0 ? "" : why.msg);
	jw_close(w, '}');
}

int daytona_toolbox_ReplaceInFiles(struct http_req *req, struct err *err)
{
	auto_buf struct buf b = BUF_INIT(API_REPLY_MAX);
	auto_sandbox struct sandbox s = {0};
	auto_jt_doc struct jt_doc doc = {0};
	struct replace_args a = {0};
	struct jw w;
	int rc = api_body(req, &daytona_replace_table, &a, &doc, err);

	/* A missing sandbox is the call's own error, not that of each file. */
	if (rc == 0)
		rc = sandbox_get(api_core(req), api_who(req), toolbox_id(req), &s, err);
	jw_init(&w, &b);
	jw_open(&w, '[');
	for (size_t i = 0; rc == 0 && i < a.files.n; i++)
		put_replaced(req, &a, a.files.v[i], &w);
	jw_close(&w, ']');
	jt_release(&daytona_replace_table, &a);
	return rc < 0 ? -1 : api_reply(req, 200, &w, err);
}
