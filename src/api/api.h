/*
 * api.h - what the handlers of every dialect share: who calls, decoding, replying, audit.
 *
 * A handler has three steps: decode, call core, encode. It keeps no state and holds no rules.
 */
#ifndef CAISSON_API_API_H
#define CAISSON_API_API_H

#include "caisson/core.h"
#include "caisson/http.h"
#include "jtab/jtab.h"
#include "routes.h"

#define API_REPLY_MAX (256u << 20) /* bytes of one JSON reply */

struct core *api_core(struct http_req *req);
/* Who asks; valid once enter has run. */
const struct caller *api_who(struct http_req *req);
/* Name what the request is about, for its audit row. */
void api_target(struct http_req *req, const char *id);

/* ---- hooks: steps the enter and leave of a dialect are made of ---- */
/* Bearer token and organization to the caller of this request, and its permission. */
int api_enter(struct http_req *req, const struct http_route_meta *meta, const char *source,
	      struct err *err);
/* The same for a caller that is known by other means. */
int api_enter_as(struct http_req *req, const struct caller *who, const char *source,
		 struct err *err);
void api_leave(struct http_req *req, const struct http_route_meta *meta, int status,
	       const struct err *err);
void api_ctx_free(void *ctx);
/* "400" as "Bad Request", as the dialects show it. */
const char *api_status_text(int status);

/* ---- decode ---- */
/* The whole body by a table; strings borrow from doc. */
int api_body(struct http_req *req, const struct jt_table *t, void *out, struct jt_doc *doc,
	     struct err *err);
/*
 * Query parameters by the same kind of table: integers in decimal, true or false, ISO times, a JSON
 * object for a kv, and repeated keys or comma lists for arrays. jt_release frees.
 */
int api_query(struct http_req *req, const struct jt_table *t, void *out, struct err *err);
/* A path parameter that is an integer. */
int api_param_int(struct http_req *req, const char *name, int64_t min, int64_t max, int64_t *ret,
		  struct err *err);

/* ---- encode ---- */
/* End w and reply with the text of its buffer, which is empty afterwards. */
int api_reply(struct http_req *req, int status, struct jw *w, struct err *err);

#endif
