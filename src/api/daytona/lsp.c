/*
 * lsp.c - language servers, contract §3.12.
 */
#include "caisson/lsp.h"
#include "api/daytona/lsp.h"

#define LANGUAGE_MAX 64
#define QUERY_MAX    1024
#define URI_MAX	     (TOOLBOX_PATH_MAX + 7)
#define TRIGGER_MAX  16

struct lsp_args {
	const char *language, *project, *uri, *query, *character;
	const struct json_t *position, *context;
	int64_t line, column, trigger;
};

#define AT(member) offsetof(struct lsp_args, member) /* offsetof needs the type as a token */
#define SERVER_ROWS                                                                                \
	{"languageId", JT_STR, JT_REQUIRED, AT(language), 1, LANGUAGE_MAX, NULL},                  \
	{                                                                                          \
		"pathToProject", JT_STR, JT_REQUIRED, AT(project), 0, TOOLBOX_PATH_MAX - 1, NULL   \
	}
#define URI_ROW                                                                                    \
	{                                                                                          \
		"uri", JT_STR, JT_REQUIRED, AT(uri), 1, URI_MAX, NULL                              \
	}

static const struct jt_field server_fields[] = {SERVER_ROWS};
const struct jt_table lsp_server_table = {"LspServerRequest", server_fields,
					  ARRAY_LEN(server_fields)};

static const struct jt_field document_fields[] = {SERVER_ROWS, URI_ROW};
const struct jt_table lsp_document_table = {"LspDocumentRequest", document_fields,
					    ARRAY_LEN(document_fields)};

static const struct jt_field search_fields[] = {
	SERVER_ROWS, {"query", JT_STR, JT_REQUIRED, AT(query), 0, QUERY_MAX, NULL}};
static const struct jt_table search_table = {"", search_fields, ARRAY_LEN(search_fields)};

static const struct jt_field completion_fields[] = {
	SERVER_ROWS,
	URI_ROW,
	{"position", JT_JSON, JT_REQUIRED, AT(position), 0, 0, NULL},
	{"context", JT_JSON, 0, AT(context), 0, 0, NULL},
};
const struct jt_table lsp_completion_table = {"LspCompletionParams", completion_fields,
					      ARRAY_LEN(completion_fields)};

static const struct jt_field position_fields[] = {
	{"line", JT_INT, JT_REQUIRED, AT(line), 0, INT32_MAX, NULL},
	{"character", JT_INT, JT_REQUIRED, AT(column), 0, INT32_MAX, NULL},
};
const struct jt_table lsp_position_table = {"LspPosition", position_fields,
					    ARRAY_LEN(position_fields)};

static const struct jt_field context_fields[] = {
	{"triggerKind", JT_INT, JT_REQUIRED, AT(trigger), 1, 3, NULL},
	{"triggerCharacter", JT_STR, 0, AT(character), 0, TRIGGER_MAX, NULL},
};
const struct jt_table lsp_context_table = {"LspCompletionContext", context_fields,
					   ARRAY_LEN(context_fields)};

static struct lsp_at at_of(struct http_req *req, const struct lsp_args *a)
{
	return (struct lsp_at){.core = api_core(req),
			       .who = api_who(req),
			       .sandbox = toolbox_id(req),
			       .language = a->language,
			       .project = a->project,
			       .client = http_client_fd(req)};
}

/* ---- servers and documents ---- */

static int handle_server(struct http_req *req,
			 int (*step)(const struct lsp_at *at, struct err *err), struct err *err)
{
	auto_jt_doc struct jt_doc doc = {NULL};
	struct lsp_args a = {0};
	struct lsp_at at;

	if (api_body(req, &lsp_server_table, &a, &doc, err) < 0)
		return -1;
	at = at_of(req, &a);
	return step(&at, err) < 0 ? -1 : http_reply_empty(req, 200, err);
}

static int handle_document(struct http_req *req,
			   int (*step)(const struct lsp_at *at, const char *uri, struct err *err),
			   struct err *err)
{
	auto_jt_doc struct jt_doc doc = {NULL};
	struct lsp_args a = {0};
	struct lsp_at at;

	if (api_body(req, &lsp_document_table, &a, &doc, err) < 0)
		return -1;
	at = at_of(req, &a);
	return step(&at, a.uri, err) < 0 ? -1 : http_reply_empty(req, 200, err);
}

int daytona_toolbox_Start(struct http_req *req, struct err *err)
{
	return handle_server(req, lsp_start, err);
}

int daytona_toolbox_Stop(struct http_req *req, struct err *err)
{
	return handle_server(req, lsp_stop, err);
}

int daytona_toolbox_DidOpen(struct http_req *req, struct err *err)
{
	return handle_document(req, lsp_open, err);
}

int daytona_toolbox_DidClose(struct http_req *req, struct err *err)
{
	return handle_document(req, lsp_close, err);
}

/* ---- symbols ---- */

static void put_position(struct jw *w, const char *key, struct lsp_position p)
{
	jw_key(w, key);
	jw_open(w, '{');
	jw_kint(w, "line", p.line);
	jw_kint(w, "character", p.character);
	jw_close(w, '}');
}

static void put_symbol(struct jw *w, const struct lsp_symbol *s)
{
	jw_open(w, '{');
	jw_kstr(w, "name", s->name);
	jw_kint(w, "kind", s->kind);
	jw_key(w, "location");
	jw_open(w, '{');
	jw_kstr(w, "uri", s->uri);
	jw_key(w, "range");
	jw_open(w, '{');
	put_position(w, "start", s->start);
	put_position(w, "end", s->end);
	jw_close(w, '}');
	jw_close(w, '}');
	jw_close(w, '}');
}

/* Takes the symbols. */
static int reply_symbols(struct http_req *req, struct lsp_symbols *s, struct err *err)
{
	auto_buf struct buf b = BUF_INIT(API_REPLY_MAX);
	struct jw w;

	jw_init(&w, &b);
	jw_open(&w, '[');
	for (size_t i = 0; i < s->n; i++)
		put_symbol(&w, &s->v[i]);
	jw_close(&w, ']');
	/* The contract's reply is a bare array, so a cut one can only say so in a header. */
	if (s->more)
		http_reply_header(req, "X-Caisson-Truncated", "true");
	lsp_symbols_done(s);
	return api_reply(req, 200, &w, err);
}

int daytona_toolbox_DocumentSymbols(struct http_req *req, struct err *err)
{
	struct lsp_symbols all = {0};
	struct lsp_args a = {0};
	struct lsp_at at;

	if (api_query(req, &lsp_document_table, &a, err) < 0)
		return -1;
	at = at_of(req, &a);
	if (lsp_document_symbols(&at, a.uri, &all, err) < 0)
		return -1;
	return reply_symbols(req, &all, err);
}

int daytona_toolbox_WorkspaceSymbols(struct http_req *req, struct err *err)
{
	struct lsp_symbols all = {0};
	struct lsp_args a = {0};
	struct lsp_at at;

	if (api_query(req, &search_table, &a, err) < 0)
		return -1;
	at = at_of(req, &a);
	if (lsp_workspace_symbols(&at, a.query, &all, err) < 0)
		return -1;
	return reply_symbols(req, &all, err);
}

/* ---- completions ---- */

static void put_completion(struct jw *w, const struct lsp_completion *c)
{
	jw_open(w, '{');
	jw_kstr(w, "label", c->label);
	if (c->kind)
		jw_kint(w, "kind", c->kind);
	jw_kstr(w, "detail", c->detail);
	jw_kstr(w, "documentation", c->documentation);
	jw_kstr(w, "sortText", c->sort);
	jw_kstr(w, "filterText", c->filter);
	jw_kstr(w, "insertText", c->insert);
	jw_close(w, '}');
}

/* Takes the completions. */
static int reply_completions(struct http_req *req, struct lsp_completions *c, struct err *err)
{
	auto_buf struct buf b = BUF_INIT(API_REPLY_MAX);
	struct jw w;

	jw_init(&w, &b);
	jw_open(&w, '{');
	jw_kbool(&w, "isIncomplete", c->incomplete);
	jw_key(&w, "items");
	jw_open(&w, '[');
	for (size_t i = 0; i < c->n; i++)
		put_completion(&w, &c->v[i]);
	jw_close(&w, ']');
	jw_close(&w, '}');
	lsp_completions_done(c);
	return api_reply(req, 200, &w, err);
}

static int decode_completion(struct http_req *req, struct jt_doc *doc, struct lsp_args *a,
			     struct err *err)
{
	if (api_body(req, &lsp_completion_table, a, doc, err) < 0)
		return -1;
	if (!jt_is_object(a->position))
		return err_set(err, ERR_INVALID, "position: must be an object");
	if (a->context && !jt_is_object(a->context))
		return err_set(err, ERR_INVALID, "context: must be an object");
	if (jt_decode_in(a->position, "position", &lsp_position_table, a, err) < 0)
		return -1;
	return a->context ? jt_decode_in(a->context, "context", &lsp_context_table, a, err) : 0;
}

int daytona_toolbox_Completions(struct http_req *req, struct err *err)
{
	auto_jt_doc struct jt_doc doc = {NULL};
	struct lsp_completions all = {0};
	struct lsp_trigger trigger;
	struct lsp_args a = {0};
	struct lsp_at at;

	if (decode_completion(req, &doc, &a, err) < 0)
		return -1;
	at = at_of(req, &a);
	trigger = (struct lsp_trigger){a.trigger, a.character};
	if (lsp_complete(&at, a.uri, (struct lsp_position){a.line, a.column}, &trigger, &all, err) <
	    0)
		return -1;
	return reply_completions(req, &all, err);
}
