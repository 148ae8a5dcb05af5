/*
 * say.h - what we say to a language server, framed into out. A failure (its ceiling) adds nothing.
 */
#ifndef CAISSON_LSP_SAY_H
#define CAISSON_LSP_SAY_H

#include "base/buf.h"
#include "caisson/lsp.h"
#include "lsp/language.h"

int lsp_say_initialize(struct buf *out, int64_t id, const struct lsp_language *l,
		       const char *root_path, const char *root_uri, struct err *err);
/* After its answer: initialized, and the settings. */
int lsp_say_initialized(struct buf *out, const struct lsp_language *l, struct err *err);
int lsp_say_shutdown(struct buf *out, int64_t id, struct err *err);
int lsp_say_exit(struct buf *out, struct err *err);
int lsp_say_cancel(struct buf *out, int64_t id, struct err *err);

struct lsp_text {
	const char *uri, *language, *text;
	size_t n;
	int64_t version;
};
int lsp_say_open(struct buf *out, const struct lsp_text *t, struct err *err);
int lsp_say_change(struct buf *out, const struct lsp_text *t, struct err *err);
int lsp_say_close(struct buf *out, const char *uri, struct err *err);

int lsp_say_document_symbols(struct buf *out, int64_t id, const char *uri, struct err *err);
int lsp_say_workspace_symbols(struct buf *out, int64_t id, const char *query, struct err *err);
int lsp_say_completion(struct buf *out, int64_t id, const char *uri, struct lsp_position pos,
		       const struct lsp_trigger *trigger, struct err *err);

/* "file://" and the path with its special bytes escaped; heap, NULL with err. */
char *lsp_uri_of(const char *path, struct err *err);

#endif
