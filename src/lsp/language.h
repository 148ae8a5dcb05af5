/*
 * language.h - the languages with a server: a row each.
 */
#ifndef CAISSON_LSP_LANGUAGE_H
#define CAISSON_LSP_LANGUAGE_H

#include <stdbool.h>

struct lsp_language {
	const char *name;
	const char *argv[4];
	const char *options;	/* JSON of initializationOptions */
	const char *settings;	/* JSON of workspace/didChangeConfiguration, NULL none */
	bool searches;		/* knows workspace/symbol; it needs an open document for that */
	const char *endings[8]; /* of its source files */
};

/* NULL: none of that name. */
const struct lsp_language *lsp_language_get(const char *name);
/* What the protocol calls a document of that path. */
const char *lsp_language_of(const struct lsp_language *l, const char *path);
bool lsp_language_has(const struct lsp_language *l, const char *path);

#endif
