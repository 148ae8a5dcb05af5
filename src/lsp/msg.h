/*
 * msg.h - what a language server says: untrusted JSON, made into the structs of caisson/lsp.h.
 *
 * A message is parsed, asked, and done with at once; nothing handed out points into it.
 */
#ifndef CAISSON_LSP_MSG_H
#define CAISSON_LSP_MSG_H

#include "base/buf.h"
#include "caisson/lsp.h"

struct json_t;

enum lsp_kind {
	LSP_RESPONSE, /* to a call of ours: id */
	LSP_REQUEST,  /* wants an answer */
	LSP_NOTICE,
};

struct lsp_msg {
	enum lsp_kind kind;
	int64_t id;	    /* LSP_RESPONSE only; -1: of no call of ours */
	const char *method; /* "" of a response; inside the message */
	struct json_t *root;
};
int lsp_msg_parse(const char *p, size_t n, struct lsp_msg *ret, struct err *err);
void lsp_msg_done(struct lsp_msg *m);
#define auto_lsp_msg auto_call(lsp_msg_done)

/* 0, or -1 with what the server says went wrong. */
int lsp_msg_check(const struct lsp_msg *m, struct err *err);
/* Both forms of symbols; uri (may be NULL) stands in where the server gives none. */
int lsp_msg_symbols(const struct lsp_msg *m, const char *uri, struct lsp_symbols *ret,
		    struct err *err);
int lsp_msg_completions(const struct lsp_msg *m, struct lsp_completions *ret, struct err *err);
/* The framed answer to a request of the server's. */
int lsp_msg_answer(const struct lsp_msg *m, const char *root_uri, struct buf *out, struct err *err);

/* One more symbol; strings are copied. 1: added, 0: the list is full, -1. */
int lsp_symbols_add(struct lsp_symbols *s, const struct lsp_symbol *from, struct err *err);

#endif
