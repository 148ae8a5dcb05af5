/*
 * jwrite.h - JSON text straight into a buffer: no tree, no copy, commas set by itself.
 *
 * The first failure (ceiling, memory) sticks; jw_end says so once. Text that is not UTF-8 gets one
 * U+FFFD for each bad sequence, so that what leaves is always valid JSON. Owned by one thread.
 */
#ifndef CAISSON_JTAB_JWRITE_H
#define CAISSON_JTAB_JWRITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/kv.h"

struct jw {
	struct buf *b;
	bool comma; /* a value stands before this place */
	bool failed;
	struct err first;
	char carry[4]; /* start of a character that a chunk of text was cut in */
	size_t ncarry;
};

void jw_init(struct jw *w, struct buf *b);
/* 0, or -1 with the first failure. */
int jw_end(struct jw *w, struct err *err);

void jw_open(struct jw *w, char bracket);  /* '{' or '[' */
void jw_close(struct jw *w, char bracket); /* '}' or ']' */
void jw_key(struct jw *w, const char *key);
void jw_str(struct jw *w, const char *s);
void jw_strn(struct jw *w, const char *p, size_t n);
void jw_int(struct jw *w, int64_t v);
void jw_uint(struct jw *w, uint64_t v);
void jw_double(struct jw *w, double v); /* not finite: null */
void jw_bool(struct jw *w, bool v);
void jw_raw(struct jw *w, const char *json); /* trusted JSON text */
void jw_rawn(struct jw *w, const char *json, size_t n);
void jw_time(struct jw *w, int64_t wall_ms); /* ISO-8601 text */
void jw_kv(struct jw *w, const struct kv *kv);

/* One string in chunks, characters may be cut anywhere. */
void jw_text_open(struct jw *w);
void jw_text_more(struct jw *w, const char *p, size_t n);
void jw_text_close(struct jw *w);

/* key and value in one call; the string form leaves a NULL out. */
void jw_kstr(struct jw *w, const char *key, const char *s);
void jw_kint(struct jw *w, const char *key, int64_t v);
void jw_kbool(struct jw *w, const char *key, bool v);

#endif
