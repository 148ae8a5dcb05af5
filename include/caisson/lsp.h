/*
 * lsp.h - language servers in a sandbox: the image's programs, held by this process.
 *
 * One server per sandbox, project and language. It ends with lsp_stop, with its sandbox and with
 * this process; then, and after a crash, calls are ERR_INVALID tagged LSP_SERVER_NOT_INITIALIZED
 * and say how it ended, until lsp_start is called again. A server is no activity of its sandbox,
 * the calls are.
 *
 * Documents are files of the sandbox, named file://<path>; relative paths, also of the project,
 * start at the working directory. What a server sees of a document is the file as it is at the
 * call: a file that changed since is sent again, one that isn't open is opened.
 *
 * All calls block, with deadlines; client (a socket or -1) ends them by its hang-up.
 */
#ifndef CAISSON_LSP_H
#define CAISSON_LSP_H

#include "caisson/core.h"

#define LSP_SYMBOLS_MAX	    20000 /* of one reply */
#define LSP_COMPLETIONS_MAX 10000
#define LSP_TEXT_MAX	    (4u << 20) /* bytes of a document */
#define LSP_SERVERS_MAX	    8	       /* of one sandbox */
#define LSP_SERVERS_ALL	    128	       /* of all */

/* project: "" for the working directory. language: python, typescript or javascript. */
struct lsp_at {
	struct core *core;
	const struct caller *who;
	const char *sandbox, *language, *project;
	int client;
};

/* Idempotent: a running server stays. */
int lsp_start(const struct lsp_at *at, struct err *err);
int lsp_stop(const struct lsp_at *at, struct err *err);
int lsp_open(const struct lsp_at *at, const char *uri, struct err *err);
int lsp_close(const struct lsp_at *at, const char *uri, struct err *err);

struct lsp_position {
	int64_t line, character; /* from 0; characters are UTF-16 units */
};

struct lsp_symbol {
	char *name, *uri; /* heap */
	int64_t kind;	  /* the protocol's number */
	struct lsp_position start, end;
};
struct lsp_symbols {
	struct lsp_symbol *v;
	size_t n, cap;
	bool more; /* a ceiling or the time cut the list */
};
void lsp_symbols_done(struct lsp_symbols *s);
int lsp_document_symbols(const struct lsp_at *at, const char *uri, struct lsp_symbols *ret,
			 struct err *err);
/*
 * Symbols of the project whose name fits the query. For servers that can't tell, they are collected
 * from the project's files, bounded in number and time.
 */
int lsp_workspace_symbols(const struct lsp_at *at, const char *query, struct lsp_symbols *ret,
			  struct err *err);

struct lsp_completion {
	char *label, *detail, *documentation, *sort, *filter, *insert; /* heap, NULL absent */
	int64_t kind;						       /* 0 absent */
};
struct lsp_completions {
	struct lsp_completion *v;
	size_t n, cap;
	bool incomplete;
};
void lsp_completions_done(struct lsp_completions *c);

struct lsp_trigger {
	int64_t kind;	  /* 1 invoked, 2 by character, 3 again; 0: not said */
	const char *text; /* the character, NULL none */
};
int lsp_complete(const struct lsp_at *at, const char *uri, struct lsp_position pos,
		 const struct lsp_trigger *trigger, struct lsp_completions *ret, struct err *err);

#endif
