/*
 * jtab.h - JSON objects to structs and back by tables, one row a field.
 *
 * Decoding is strict: at most JT_DEPTH_MAX levels (checked before the parser runs), no duplicate
 * keys, no NUL in strings, integers are JSON integers (5.0, "5" and 2^63 are not), and each
 * failure is ERR_INVALID "path: rule". null means absent. Unknown keys are ignored. Strings and
 * arrays borrow from the document, so it must outlive the struct; kv maps are the struct's own.
 */
#ifndef CAISSON_JTAB_JTAB_H
#define CAISSON_JTAB_JTAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/kv.h"
#include "jtab/jwrite.h"

#define JT_DEPTH_MAX 64

enum jt_type {
	JT_STR,	  /* const char *; min..max bytes */
	JT_CHARS, /* char[], encode only */
	JT_BOOL,  /* bool */
	JT_INT,	  /* int64_t; min..max */
	JT_UINT,  /* unsigned, encode only */
	JT_U64,	  /* uint64_t, encode only */
	JT_REAL,  /* double, encode only */
	JT_GIB,	  /* MiB, as GiB: whole or 0.5; int64_t decoded, min..max; unsigned encoded */
	JT_TIME,  /* int64_t wall ms as ISO-8601 text */
	JT_KV,	  /* struct kv; at most max pairs */
	JT_STRS,  /* struct jt_strs; at most max items */
	JT_LIT,	  /* no member: lit is the JSON text, encode only */
	JT_JSON,  /* struct json_t *, borrowed, decode only */
};

enum jt_flag {
	JT_REQUIRED = 1 << 0, /* decode: must be present */
	JT_OMIT = 1 << 1,     /* encode: leave out when NULL, "" or 0 */
	JT_NULL = 1 << 2,     /* encode: null when NULL, "" or 0 */
};

struct jt_field {
	const char *name;
	enum jt_type type;
	unsigned flags;
	size_t off;
	int64_t min, max;
	const char *lit; /* JT_LIT's text; JT_INT decoded: the rule in words, NULL from the range */
};

struct jt_table {
	const char *schema; /* its name in the OpenAPI document */
	const struct jt_field *field;
	size_t n;
};

struct jt_strs {
	const char **v; /* NULL-terminated, NULL when absent */
	size_t n;
};

struct json_t;
struct jt_doc {
	struct json_t *root; /* an object */
};
void jt_doc_done(struct jt_doc *doc);
#define auto_jt_doc auto_call(jt_doc_done)

/* n bytes of text as one JSON object; n == 0 counts as {}. */
int jt_parse(struct jt_doc *doc, const char *p, size_t n, struct err *err);
/*
 * Fill the members of out that t names and doc holds; others keep what the caller put there.
 * jt_release frees what was filled, also after a failure.
 */
int jt_decode(const struct jt_doc *doc, const struct jt_table *t, void *out, struct err *err);
void jt_release(const struct jt_table *t, void *out);
/* One member of a table from an object of a larger document. path prefixes the errors. */
int jt_decode_in(const struct json_t *obj, const char *path, const struct jt_table *t, void *out,
		 struct err *err);
/* An array or object without members. */
bool jt_is_empty(const struct json_t *v);
bool jt_is_object(const struct json_t *v);
/* Any part of a document back as JSON text. */
void jt_dump(struct jw *w, const struct json_t *v);
/* A JSON object of strings, as labels in a query. */
int jt_parse_kv(const char *text, const char *path, size_t max, struct kv *ret, struct err *err);

/* The members of obj (no braces), so that computed ones can stand beside them. */
void jt_encode(struct jw *w, const struct jt_table *t, const void *obj);

#endif
