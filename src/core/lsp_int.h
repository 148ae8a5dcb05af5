/*
 * lsp_int.h - what the files about language servers share.
 *
 * A server is an object with a thread of its own, which alone reads and writes its streams. Callers
 * queue messages and wait for the answer to be put where they said.
 */
#ifndef CAISSON_CORE_LSP_INT_H
#define CAISSON_CORE_LSP_INT_H

#include "base/buf.h"
#include "caisson/lsp.h"
#include "core/int.h"
#include "lsp/language.h"

#define LSP_START_MS   60000 /* until a server has answered initialize */
#define LSP_REQUEST_MS 30000
#define LSP_OUT_MAX    (33u << 20) /* bytes queued for a server that doesn't read */

/*
 *   start ─► STARTING ─► READY ─► ENDED      a crash, a stop, the sandbox's end
 *               └──────────────────┘
 */
enum lsp_state { LSP_STARTING, LSP_READY, LSP_ENDED };

enum lsp_want { LSP_WANT_NOTHING, LSP_WANT_SYMBOLS, LSP_WANT_COMPLETIONS };

/* A request under way; on the caller's stack, all fields under the server's lock. */
struct lsp_call {
	struct lsp_call *next;
	int64_t id;
	enum lsp_want want;
	const char *uri; /* where symbols name none */
	void *ret;	 /* struct lsp_symbols or lsp_completions */
	bool done;
	int rc;
	struct err err;
};

struct lsp_doc {
	struct lsp_doc *next;
	char *uri;
	int64_t version, mtime_ns, used_ms;
	uint64_t size;
	bool asked; /* opened by lsp_open, not by need */
};

struct lsp_symfile {
	struct lsp_symfile *next;
	char *path;
	int64_t mtime_ns;
	uint64_t size;
	struct lsp_symbols symbols; /* their uri is NULL */
};

struct lsp_server {
	struct lsp_server *next; /* under the set's lock, as is refs */
	unsigned refs;		 /* the set, the thread, each caller */
	struct core *core;
	char id[ID_LEN]; /* of the sandbox */
	const struct lsp_language *lang;
	char *project, *root_uri;
	struct exec_handle *exec; /* of the thread once it runs */
	int wake;		  /* eventfd: something was queued */
	bool runs;		  /* there was a thread; of who starts it */

	pthread_mutex_t lock; /* guards all below */
	pthread_cond_t change;
	enum lsp_state state;
	bool stop;
	char why[ERR_MSG_MAX]; /* of LSP_ENDED */
	struct buf out;
	size_t sent; /* bytes of out already written */
	struct lsp_call *calls;
	int64_t next_id;
	struct lsp_doc *docs;
	size_t ndocs;
	struct lsp_symfile *symfiles;
	size_t nsymbols;
};

/* ---- lsp_server.c ---- */
struct lsp_server *lsp_server_new(struct core *c, const char *sandbox,
				  const struct lsp_language *lang, const char *project,
				  struct err *err);
void lsp_server_put(struct lsp_server *s);
/* Give a server its process, which it takes, and its thread. */
int lsp_server_run(struct lsp_server *s, struct exec_handle *exec, struct err *err);
/* The error of a call to a server that has ended. Locked. */
int lsp_server_ended(struct lsp_server *s, struct err *err);

/* ---- lsp_call.c ---- */
/*
 * A request: lsp_call_begin locks the server; then the message is queued with call->id, and
 * lsp_call_end takes what came of that (rc), waits for the answer and unlocks.
 */
int lsp_call_begin(struct lsp_server *s, struct lsp_call *call, struct err *err);
int lsp_call_end(struct lsp_server *s, struct lsp_call *call, int rc, int client,
		 int64_t deadline_ms, struct err *err);
void lsp_server_wake(struct lsp_server *s);
/* All waiting calls fail with what err says. Locked. */
void lsp_calls_fail(struct lsp_server *s, const struct err *why);
/* A message from the server. */
int lsp_server_hear(struct lsp_server *s, const char *p, size_t n, struct err *err);

/* ---- lsp.c ---- */
struct lsp_found {
	struct lsp_server *server;
	char id[ID_LEN];
	char project[AGENT_PATH_MAX]; /* absolute, without idle parts */
	const struct lsp_language *lang;
};
/* A running server; lsp_server_put. */
int lsp_find(const struct lsp_at *at, struct lsp_found *ret, struct err *err);

/* ---- lsp_docs.c ---- */
/* An absolute path without empty and "." parts, in place. */
void lsp_path_tidy(char *path);
/* The file behind a URI of a caller. */
int lsp_doc_path(const struct lsp_at *at, const char *uri, char out[AGENT_PATH_MAX],
		 struct err *err);
/* Make the server see the file as it is now. *ret: its URI, heap. */
int lsp_doc_sync(const struct lsp_at *at, struct lsp_server *s, const char *path, bool asked,
		 char **ret, struct err *err);
void lsp_doc_drop(struct lsp_server *s, const char *uri); /* locked; tells the server */
void lsp_docs_free(struct lsp_server *s);

/* ---- lsp_search.c ---- */
int lsp_search_files(const struct lsp_at *at, struct lsp_server *s, const char *query,
		     struct lsp_symbols *ret, struct err *err);
/* Any source file of the project, heap; NULL: none, or err. */
char *lsp_search_any(const struct lsp_at *at, struct lsp_server *s);
void lsp_symfiles_free(struct lsp_server *s);

#endif
