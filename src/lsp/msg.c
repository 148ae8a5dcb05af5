/*
 * msg.c - see msg.h. Entries that are not as the protocol has them are left out; numbers are cut
 * to what a reply can hold.
 */
#include "lsp/msg.h"

#include <jansson.h>
#include <string.h>

#include "base/utf8.h"
#include "jtab/jtab.h"
#include "lsp/frame.h"

#define TEXT_SHOWN 300 /* bytes of a server's words in an error */

void lsp_symbols_done(struct lsp_symbols *s)
{
	for (size_t i = 0; i < s->n; i++) {
		free(s->v[i].name);
		free(s->v[i].uri);
	}
	free(s->v);
	*s = (struct lsp_symbols){0};
}

void lsp_completions_done(struct lsp_completions *c)
{
	for (size_t i = 0; i < c->n; i++) {
		struct lsp_completion *v = &c->v[i];
		char *const texts[] = {v->label, v->detail, v->documentation,
				       v->sort,	 v->filter, v->insert};

		for (size_t k = 0; k < ARRAY_LEN(texts); k++)
			free(texts[k]);
	}
	free(c->v);
	*c = (struct lsp_completions){0};
}

/* ---- whole messages ---- */

int lsp_msg_parse(const char *p, size_t n, struct lsp_msg *ret, struct err *err)
{
	auto_jt_doc struct jt_doc doc = {NULL};
	struct lsp_msg m = {.id = -1, .method = ""};
	const json_t *id, *method;

	if (jt_parse(&doc, p, n, NULL) < 0)
		return err_set(err, ERR_UPSTREAM, "the language server sent malformed JSON");
	id = json_object_get(doc.root, "id");
	method = json_object_get(doc.root, "method");
	if (json_is_string(method)) {
		m.method = json_string_value(method);
		m.kind = id ? LSP_REQUEST : LSP_NOTICE;
	} else {
		m.kind = LSP_RESPONSE;
		if (json_is_integer(id) && json_integer_value(id) >= 0)
			m.id = json_integer_value(id);
	}
	m.root = TAKE_PTR(doc.root);
	*ret = m;
	return 0;
}

void lsp_msg_done(struct lsp_msg *m)
{
	json_decref(m->root);
	m->root = NULL;
}

int lsp_msg_check(const struct lsp_msg *m, struct err *err)
{
	const json_t *e = json_object_get(m->root, "error");
	const char *text = json_string_value(json_object_get(e, "message"));
	char shown[TEXT_SHOWN + 1];
	size_t n;

	if (!e || json_is_null(e))
		return 0;
	n = snprintf(shown, sizeof(shown), "%s", text ? text : "no reason given") < 0
		    ? 0
		    : utf8_floor(shown, strlen(shown));
	shown[n] = '\0';
	for (char *c = shown; *c; c++)
		if ((unsigned char)*c < 32 || *c == 127)
			*c = ' ';
	return err_set(err, ERR_UPSTREAM, "the language server failed: %s", shown);
}

/* ---- symbols ---- */

static int64_t number_of(const json_t *v)
{
	int64_t n = json_is_integer(v) ? json_integer_value(v) : 0;

	return n < 0 ? 0 : MIN(n, (int64_t)INT32_MAX);
}

static struct lsp_position position_of(const json_t *v)
{
	return (struct lsp_position){number_of(json_object_get(v, "line")),
				     number_of(json_object_get(v, "character"))};
}

static char *copy_of(const char *text, bool *ok)
{
	char *copy = text ? strdup(text) : NULL;

	if (text && !copy)
		*ok = false;
	return copy;
}

int lsp_symbols_add(struct lsp_symbols *s, const struct lsp_symbol *from, struct err *err)
{
	struct lsp_symbol to = *from;
	bool ok = true;

	if (s->n >= LSP_SYMBOLS_MAX) {
		s->more = true;
		return 0;
	}
	if (s->n == s->cap) {
		size_t cap = s->cap ? 2 * s->cap : 16;
		struct lsp_symbol *v = realloc(s->v, cap * sizeof(*v));

		if (!v)
			return err_set(err, ERR_NOMEM, "out of memory");
		s->v = v;
		s->cap = cap;
	}
	to.name = copy_of(from->name, &ok);
	to.uri = copy_of(from->uri, &ok);
	s->v[s->n++] = to;
	return ok ? 1 : err_set(err, ERR_NOMEM, "out of memory");
}

/* A symbol and those inside it; the depth of JSON bounds the recursion. */
static int symbol_take(const json_t *v, const char *uri, struct lsp_symbols *ret, struct err *err)
{
	const json_t *location = json_object_get(v, "location"), *child;
	const json_t *range = json_object_get(location ? location : v, "range");
	const char *name = json_string_value(json_object_get(v, "name"));
	const char *own = json_string_value(json_object_get(location, "uri"));
	struct lsp_symbol s = {.kind = number_of(json_object_get(v, "kind")),
			       .start = position_of(json_object_get(range, "start")),
			       .end = position_of(json_object_get(range, "end"))};
	size_t i;

	s.name = (char *)name;
	s.uri = (char *)(own ? own : uri);
	if (!name || !s.uri)
		return 0;
	if (lsp_symbols_add(ret, &s, err) < 0)
		return -1;
	json_array_foreach(json_object_get(v, "children"), i, child) /* an array or NULL */
		if (symbol_take(child, uri, ret, err) < 0) return -1;
	return 0;
}

int lsp_msg_symbols(const struct lsp_msg *m, const char *uri, struct lsp_symbols *ret,
		    struct err *err)
{
	struct lsp_symbols all = {0};
	const json_t *v;
	size_t i;

	if (lsp_msg_check(m, err) < 0)
		return -1;
	json_array_foreach(json_object_get(m->root, "result"), i,
			   v) if (symbol_take(v, uri, &all, err) < 0)
	{
		lsp_symbols_done(&all);
		return -1;
	}
	*ret = all;
	return 0;
}

/* ---- completions ---- */

/* A string, or the value of marked-up content. */
static const char *text_of(const json_t *v)
{
	return json_string_value(json_is_object(v) ? json_object_get(v, "value") : v);
}

static const char *insert_of(const json_t *v)
{
	const char *plain = json_string_value(json_object_get(v, "insertText"));
	const json_t *edit = json_object_get(v, "textEdit");

	return plain ? plain : json_string_value(json_object_get(edit, "newText"));
}

static bool completion_take(const json_t *v, struct lsp_completion *ret)
{
	struct lsp_completion c = {.kind = number_of(json_object_get(v, "kind"))};
	bool ok = true;

	c.label = copy_of(json_string_value(json_object_get(v, "label")), &ok);
	c.detail = copy_of(json_string_value(json_object_get(v, "detail")), &ok);
	c.documentation = copy_of(text_of(json_object_get(v, "documentation")), &ok);
	c.sort = copy_of(json_string_value(json_object_get(v, "sortText")), &ok);
	c.filter = copy_of(json_string_value(json_object_get(v, "filterText")), &ok);
	c.insert = copy_of(insert_of(v), &ok);
	*ret = c;
	return ok;
}

int lsp_msg_completions(const struct lsp_msg *m, struct lsp_completions *ret, struct err *err)
{
	const json_t *result = json_object_get(m->root, "result"), *v;
	const json_t *items = json_is_object(result) ? json_object_get(result, "items") : result;
	struct lsp_completions all = {0};
	size_t i, n = json_array_size(items);

	if (lsp_msg_check(m, err) < 0)
		return -1;
	all.incomplete = json_is_true(json_object_get(result, "isIncomplete"));
	if (n > LSP_COMPLETIONS_MAX) {
		n = LSP_COMPLETIONS_MAX;
		all.incomplete = true;
	}
	all.v = calloc(n + 1, sizeof(*all.v));
	if (!all.v)
		return err_set(err, ERR_NOMEM, "out of memory");
	all.cap = n;
	json_array_foreach(items, i, v)
	{
		if (i >= n)
			break;
		if (!json_is_string(json_object_get(v, "label")))
			continue;
		if (!completion_take(v, &all.v[all.n++])) {
			lsp_completions_done(&all);
			return err_set(err, ERR_NOMEM, "out of memory");
		}
	}
	*ret = all;
	return 0;
}

/* ---- what servers ask ---- */

/* A null for each setting asked for: the server's own defaults. */
static void put_settings(struct jw *w, const json_t *params)
{
	size_t n = json_array_size(json_object_get(params, "items"));

	jw_open(w, '[');
	for (size_t i = 0; i < MIN(n, (size_t)100); i++)
		jw_raw(w, "null");
	jw_close(w, ']');
}

static void put_folders(struct jw *w, const char *root_uri)
{
	jw_open(w, '[');
	jw_open(w, '{');
	jw_kstr(w, "uri", root_uri);
	jw_kstr(w, "name", "project");
	jw_close(w, '}');
	jw_close(w, ']');
}

static void put_result(struct jw *w, const struct lsp_msg *m, const char *root_uri)
{
	static const char *const fine[] = {
		"client/registerCapability",	    "client/unregisterCapability",
		"window/workDoneProgress/create",   "window/showMessageRequest",
		"workspace/semanticTokens/refresh", "workspace/inlayHint/refresh",
		"workspace/codeLens/refresh",	    "workspace/diagnostic/refresh"};
	size_t i = 0;

	if (strcmp(m->method, "workspace/configuration") == 0) {
		jw_key(w, "result");
		put_settings(w, json_object_get(m->root, "params"));
	} else if (strcmp(m->method, "workspace/workspaceFolders") == 0) {
		jw_key(w, "result");
		put_folders(w, root_uri);
	} else if (strcmp(m->method, "workspace/applyEdit") == 0) {
		jw_key(w, "result");
		jw_raw(w, "{\"applied\":false}");
	} else {
		while (i < ARRAY_LEN(fine) && strcmp(m->method, fine[i]) != 0)
			i++;
		jw_key(w, i < ARRAY_LEN(fine) ? "result" : "error");
		jw_raw(w, i < ARRAY_LEN(fine) ? "null"
					      : "{\"code\":-32601,\"message\":\"not known here\"}");
	}
}

int lsp_msg_answer(const struct lsp_msg *m, const char *root_uri, struct buf *out, struct err *err)
{
	auto_buf struct buf body = BUF_INIT(LSP_BODY_MAX);
	const json_t *id = json_object_get(m->root, "id");
	struct jw w;

	jw_init(&w, &body);
	jw_open(&w, '{');
	jw_kstr(&w, "jsonrpc", "2.0");
	jw_key(&w, "id");
	if (json_is_string(id))
		jw_str(&w, json_string_value(id));
	else
		jw_int(&w, json_integer_value(id)); /* 0 where it is no number */
	put_result(&w, m, root_uri);
	jw_close(&w, '}');
	if (jw_end(&w, err) < 0)
		return -1;
	return lsp_frame_put(out, buf_str(&body), body.len, err);
}
