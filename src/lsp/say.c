/*
 * say.c - see say.h.
 *
 * Of the capabilities only what changes replies in our favour is claimed: flat symbols, snippets
 * and mark-up not wanted.
 */
#include "lsp/say.h"

#include <ctype.h>
#include <string.h>

#include "jtab/jwrite.h"
#include "lsp/frame.h"

#define SAY_MAX (32u << 20) /* of one message: each byte of a text may become six */

struct say {
	struct buf body;
	struct jw w;
};

static void say_begin(struct say *s, int64_t id, const char *method)
{
	buf_init(&s->body, SAY_MAX);
	jw_init(&s->w, &s->body);
	jw_open(&s->w, '{');
	jw_kstr(&s->w, "jsonrpc", "2.0");
	if (id >= 0)
		jw_kint(&s->w, "id", id);
	jw_kstr(&s->w, "method", method);
}

static void say_params(struct say *s)
{
	jw_key(&s->w, "params");
	jw_open(&s->w, '{');
}

static int say_end(struct say *s, struct buf *out, struct err *err)
{
	int rc;

	jw_close(&s->w, '}');
	rc = jw_end(&s->w, err);
	if (rc == 0)
		rc = lsp_frame_put(out, buf_str(&s->body), s->body.len, err);
	buf_done(&s->body);
	return rc;
}

static void put_document(struct jw *w, const char *uri)
{
	jw_key(w, "textDocument");
	jw_open(w, '{');
	jw_kstr(w, "uri", uri);
	jw_close(w, '}');
}

int lsp_say_initialize(struct buf *out, int64_t id, const struct lsp_language *l,
		       const char *root_path, const char *root_uri, struct err *err)
{
	struct say s;

	say_begin(&s, id, "initialize");
	say_params(&s);
	jw_key(&s.w, "processId");
	jw_raw(&s.w, "null"); /* another pid namespace: it could not watch us */
	jw_kstr(&s.w, "rootPath", root_path);
	jw_kstr(&s.w, "rootUri", root_uri);
	jw_key(&s.w, "initializationOptions");
	jw_raw(&s.w, l->options);
	jw_key(&s.w, "capabilities");
	jw_raw(&s.w,
	       "{\"textDocument\":{\"synchronization\":{},\"documentSymbol\":{"
	       "\"hierarchicalDocumentSymbolSupport\":false},\"completion\":{\"completionItem\":{"
	       "\"snippetSupport\":false,\"documentationFormat\":[\"plaintext\"]},"
	       "\"contextSupport\":true}},\"workspace\":{\"symbol\":{},\"configuration\":true,"
	       "\"workspaceFolders\":true,\"didChangeConfiguration\":{}}}");
	jw_key(&s.w, "workspaceFolders");
	jw_open(&s.w, '[');
	jw_open(&s.w, '{');
	jw_kstr(&s.w, "uri", root_uri);
	jw_kstr(&s.w, "name", "project");
	jw_close(&s.w, '}');
	jw_close(&s.w, ']');
	jw_close(&s.w, '}');
	return say_end(&s, out, err);
}

int lsp_say_initialized(struct buf *out, const struct lsp_language *l, struct err *err)
{
	struct say s;

	say_begin(&s, -1, "initialized");
	say_params(&s);
	jw_close(&s.w, '}');
	if (say_end(&s, out, err) < 0)
		return -1;
	if (!l->settings)
		return 0;
	say_begin(&s, -1, "workspace/didChangeConfiguration");
	say_params(&s);
	jw_key(&s.w, "settings");
	jw_raw(&s.w, l->settings);
	jw_close(&s.w, '}');
	return say_end(&s, out, err);
}

int lsp_say_shutdown(struct buf *out, int64_t id, struct err *err)
{
	struct say s;

	say_begin(&s, id, "shutdown");
	return say_end(&s, out, err);
}

int lsp_say_exit(struct buf *out, struct err *err)
{
	struct say s;

	say_begin(&s, -1, "exit");
	return say_end(&s, out, err);
}

int lsp_say_cancel(struct buf *out, int64_t id, struct err *err)
{
	struct say s;

	say_begin(&s, -1, "$/cancelRequest");
	say_params(&s);
	jw_kint(&s.w, "id", id);
	jw_close(&s.w, '}');
	return say_end(&s, out, err);
}

int lsp_say_open(struct buf *out, const struct lsp_text *t, struct err *err)
{
	struct say s;

	say_begin(&s, -1, "textDocument/didOpen");
	say_params(&s);
	jw_key(&s.w, "textDocument");
	jw_open(&s.w, '{');
	jw_kstr(&s.w, "uri", t->uri);
	jw_kstr(&s.w, "languageId", t->language);
	jw_kint(&s.w, "version", t->version);
	jw_key(&s.w, "text");
	jw_strn(&s.w, t->text, t->n);
	jw_close(&s.w, '}');
	jw_close(&s.w, '}');
	return say_end(&s, out, err);
}

int lsp_say_change(struct buf *out, const struct lsp_text *t, struct err *err)
{
	struct say s;

	say_begin(&s, -1, "textDocument/didChange");
	say_params(&s);
	jw_key(&s.w, "textDocument");
	jw_open(&s.w, '{');
	jw_kstr(&s.w, "uri", t->uri);
	jw_kint(&s.w, "version", t->version);
	jw_close(&s.w, '}');
	jw_key(&s.w, "contentChanges");
	jw_open(&s.w, '[');
	jw_open(&s.w, '{');
	jw_key(&s.w, "text");
	jw_strn(&s.w, t->text, t->n);
	jw_close(&s.w, '}');
	jw_close(&s.w, ']');
	jw_close(&s.w, '}');
	return say_end(&s, out, err);
}

int lsp_say_close(struct buf *out, const char *uri, struct err *err)
{
	struct say s;

	say_begin(&s, -1, "textDocument/didClose");
	say_params(&s);
	put_document(&s.w, uri);
	jw_close(&s.w, '}');
	return say_end(&s, out, err);
}

int lsp_say_document_symbols(struct buf *out, int64_t id, const char *uri, struct err *err)
{
	struct say s;

	say_begin(&s, id, "textDocument/documentSymbol");
	say_params(&s);
	put_document(&s.w, uri);
	jw_close(&s.w, '}');
	return say_end(&s, out, err);
}

int lsp_say_workspace_symbols(struct buf *out, int64_t id, const char *query, struct err *err)
{
	struct say s;

	say_begin(&s, id, "workspace/symbol");
	say_params(&s);
	jw_kstr(&s.w, "query", query);
	jw_close(&s.w, '}');
	return say_end(&s, out, err);
}

int lsp_say_completion(struct buf *out, int64_t id, const char *uri, struct lsp_position pos,
		       const struct lsp_trigger *trigger, struct err *err)
{
	struct say s;

	say_begin(&s, id, "textDocument/completion");
	say_params(&s);
	put_document(&s.w, uri);
	jw_key(&s.w, "position");
	jw_open(&s.w, '{');
	jw_kint(&s.w, "line", pos.line);
	jw_kint(&s.w, "character", pos.character);
	jw_close(&s.w, '}');
	if (trigger->kind) {
		jw_key(&s.w, "context");
		jw_open(&s.w, '{');
		jw_kint(&s.w, "triggerKind", trigger->kind);
		jw_kstr(&s.w, "triggerCharacter", trigger->text);
		jw_close(&s.w, '}');
	}
	jw_close(&s.w, '}');
	return say_end(&s, out, err);
}

char *lsp_uri_of(const char *path, struct err *err)
{
	static const char plain[] = "-._~/", hex[] = "0123456789ABCDEF";
	char *out = malloc(3 * strlen(path) + 8), *to = out;

	if (!out) {
		err_set(err, ERR_NOMEM, "out of memory");
		return NULL;
	}
	to = stpcpy(out, "file://");
	for (const unsigned char *p = (const unsigned char *)path; *p; p++) {
		if (*p < 128 && (isalnum(*p) || strchr(plain, *p))) {
			*to++ = (char)*p;
			continue;
		}
		*to++ = '%';
		*to++ = hex[*p >> 4];
		*to++ = hex[*p & 15];
	}
	*to = '\0';
	return out;
}
