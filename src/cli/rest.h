/*
 * rest.h - REST calls of the command line: one kept-alive curl handle, bounded replies, errors in
 * words. A path starts with "/" and is put behind the API's base; a full URL is taken as it is.
 */
#ifndef CAISSON_CLI_REST_H
#define CAISSON_CLI_REST_H

#include <jansson.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "cli/cli.h"

#define REST_REPLY_MAX	(64u << 20) /* bytes of a JSON reply */
#define REST_URL_MAX	32768
#define REST_PATIENCE_S 120 /* a call with a JSON reply; create is held 30 s at most */

void rest_done(struct cli *c);
/* Every handle of curl: where it may go, and whom it trusts. */
void rest_curl(const struct cli *c, void *curl);
/* What curl says, for people; returns -1. */
int rest_curl_fault(const struct cli *c, int rc, struct err *err);

/* Append text with everything but unreserved characters percent-encoded. */
int url_add(struct buf *b, const char *text, struct err *err);
/* "/sandbox/" + id + suffix, escaped; suffix is ours. */
int url_of(struct buf *b, const char *prefix, const char *name, const char *suffix,
	   struct err *err);
/* "&key=value" or "?key=value" when b holds no query yet. */
int url_query(struct buf *b, const char *key, const char *value, struct err *err);

/* body may be NULL; ret may be NULL, or gets a new reference (json_null() for an empty reply). */
int rest_call(struct cli *c, const char *method, const char *url, const json_t *body, json_t **ret,
	      struct err *err);

/* The same with another limit in seconds; 0: as long as it takes. */
int rest_call_for(struct cli *c, const char *method, const char *url, const json_t *body,
		  int patience_s, json_t **ret, struct err *err);

/* Bytes of a body as they are needed; 0 ends, -1 with err set gives up. */
typedef ssize_t (*rest_read_fn)(void *arg, void *p, size_t cap, struct err *err);
/* Bytes of a reply as they come; -1 with err set gives up. */
typedef int (*rest_write_fn)(void *arg, const void *p, size_t n, struct err *err);

struct rest_stream {
	rest_read_fn read; /* NULL: no body */
	rest_write_fn write;
	void *arg;
	int64_t size; /* of the body, -1 unknown: chunked */
	const char *type;
	const char *accept; /* NULL: JSON, or anything */
};
/* A body and a reply without a ceiling. With write NULL the reply is JSON into ret. */
int rest_stream(struct cli *c, const char *method, const char *url, const struct rest_stream *s,
		json_t **ret, struct err *err);

/* The sandbox by id or name; a new reference. */
int rest_sandbox(struct cli *c, const char *id_or_name, json_t **ret, struct err *err);
/* Base of the toolbox of a sandbox's JSON: "http://…/toolbox/<id>". */
int rest_toolbox(struct cli *c, const json_t *sandbox, struct buf *ret, struct err *err);
/* The error of a reply body; returns -1. */
int rest_fault(long status, const char *body, struct err *err);

/* Releases a json_t reference at the end of a scope. */
static inline void rest_json_done(json_t **v)
{
	json_decref(*v);
}
#define auto_json auto_call(rest_json_done)

/* A whole `delete NAME...` command: DELETE below prefix for each name; returns its exit code. */
int rest_delete_each(struct cli *c, int argc, char **argv, const char *prefix, const char *what,
		     struct err *err);

#endif
