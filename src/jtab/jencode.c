/*
 * jencode.c - the encoding half of jtab.h.
 */
#include "jtab/jtab.h"

static void put_strs(struct jw *w, const struct jt_strs *s)
{
	jw_open(w, '[');
	for (size_t i = 0; i < s->n; i++)
		jw_str(w, s->v[i]);
	jw_close(w, ']');
}

/* NULL, "" or 0: what JT_OMIT and JT_NULL look at. */
static bool jt_empty(const struct jt_field *f, const void *m)
{
	switch (f->type) {
	case JT_STR:
		return !*(const char *const *)m;
	case JT_CHARS:
		return !*(const char *)m;
	case JT_BOOL:
		return !*(const bool *)m;
	case JT_INT:
	case JT_TIME:
		return *(const int64_t *)m == 0;
	case JT_UINT:
	case JT_GIB:
		return *(const unsigned *)m == 0;
	case JT_U64:
		return *(const uint64_t *)m == 0;
	case JT_KV:
		return ((const struct kv *)m)->n == 0;
	case JT_STRS:
		return !((const struct jt_strs *)m)->v;
	default:
		return false;
	}
}

static void jt_put(struct jw *w, const struct jt_field *f, const void *m)
{
	switch (f->type) {
	case JT_STR:
		jw_str(w, *(const char *const *)m);
		break;
	case JT_CHARS:
		jw_str(w, m);
		break;
	case JT_BOOL:
		jw_bool(w, *(const bool *)m);
		break;
	case JT_INT:
		jw_int(w, *(const int64_t *)m);
		break;
	case JT_UINT:
		jw_uint(w, *(const unsigned *)m);
		break;
	case JT_U64:
		jw_uint(w, *(const uint64_t *)m);
		break;
	case JT_GIB:
		if (*(const unsigned *)m % 1024)
			jw_double(w, *(const unsigned *)m / 1024.0);
		else
			jw_uint(w, *(const unsigned *)m / 1024);
		break;
	case JT_REAL:
		jw_double(w, *(const double *)m);
		break;
	case JT_TIME:
		jw_time(w, *(const int64_t *)m);
		break;
	case JT_KV:
		jw_kv(w, m);
		break;
	case JT_STRS:
		put_strs(w, m);
		break;
	case JT_LIT:
		jw_raw(w, f->lit);
		break;
	case JT_JSON:
		jw_raw(w, "null");
		break;
	}
}

void jt_encode(struct jw *w, const struct jt_table *t, const void *obj)
{
	for (size_t i = 0; i < t->n; i++) {
		const struct jt_field *f = &t->field[i];
		const void *m = (const char *)obj + f->off;
		bool empty = (f->flags & (JT_OMIT | JT_NULL)) && jt_empty(f, m);

		if (empty && (f->flags & JT_OMIT))
			continue;
		jw_key(w, f->name);
		if (empty)
			jw_raw(w, "null");
		else
			jt_put(w, f, m);
	}
}
