/*
 * jwrite.c - see jwrite.h. Strings are copied in runs: one table look-up a byte, one memcpy a run.
 */
#include "jtab/jwrite.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/utf8.h"

/* Bytes that stand for themselves inside a JSON string. */
static const unsigned char jw_plain[256] = {
	[0x20 ... 0x21] = 1,
	[0x23 ... 0x5b] = 1,
	[0x5d ... 0x7f] = 1,
};

static void jw_put(struct jw *w, const char *p, size_t n)
{
	if (!w->failed && buf_add(w->b, p, n, &w->first) < 0)
		w->failed = true;
}

static void jw_value(struct jw *w)
{
	if (w->comma)
		jw_put(w, ",", 1);
	w->comma = true;
}

void jw_init(struct jw *w, struct buf *b)
{
	*w = (struct jw){.b = b};
}

int jw_end(struct jw *w, struct err *err)
{
	if (!w->failed)
		return 0;
	if (err)
		*err = w->first;
	return -1;
}

void jw_open(struct jw *w, char bracket)
{
	jw_value(w);
	jw_put(w, &bracket, 1);
	w->comma = false;
}

void jw_close(struct jw *w, char bracket)
{
	jw_put(w, &bracket, 1);
	w->comma = true;
}

static void jw_escape(struct jw *w, unsigned char c)
{
	static const char hex[] = "0123456789abcdef";
	static const char from[] = "\"\\\b\f\n\r\t", to[] = "\"\\bfnrt";
	const char *at = c ? strchr(from, c) : NULL;
	char out[6] = {'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]};

	if (at) {
		out[1] = to[at - from];
		jw_put(w, out, 2);
		return;
	}
	jw_put(w, out, 6);
}

/* Length of the run from p that is copied as it is; stops at an escape, a bad or a cut byte. */
static size_t jw_run(const char *p, size_t n)
{
	size_t i = 0, len;

	while (i < n) {
		if (jw_plain[(unsigned char)p[i]]) {
			i++;
			continue;
		}
		if (!((unsigned char)p[i] & 0x80) || utf8_next(p + i, n - i, &len) != UTF8_OK)
			break;
		i += len;
	}
	return i;
}

/* Writes all but a cut character at the end; returns how many bytes that is. */
static size_t jw_chars(struct jw *w, const char *p, size_t n)
{
	size_t i = 0, run, len;

	while (i < n) {
		run = jw_run(p + i, n - i);
		if (run)
			jw_put(w, p + i, run);
		i += run;
		if (i == n)
			return 0;
		if (!((unsigned char)p[i] & 0x80)) {
			jw_escape(w, (unsigned char)p[i++]);
			continue;
		}
		if (utf8_next(p + i, n - i, &len) == UTF8_SHORT)
			return n - i;
		jw_put(w, "\xef\xbf\xbd", 3);
		i += len;
	}
	return 0;
}

void jw_text_open(struct jw *w)
{
	jw_value(w);
	jw_put(w, "\"", 1);
	w->ncarry = 0;
}

void jw_text_more(struct jw *w, const char *p, size_t n)
{
	size_t left, len;

	/* Fill the cut character byte by byte until it is whole or turns out to be bad. */
	while (n && w->ncarry) {
		enum utf8_kind kind;

		w->carry[w->ncarry++] = *p;
		kind = utf8_next(w->carry, w->ncarry, &len);
		/* The byte that broke it begins something else and is looked at again. */
		if (kind == UTF8_BAD)
			jw_put(w, "\xef\xbf\xbd", 3);
		else if (kind == UTF8_OK)
			jw_put(w, w->carry, len);
		if (kind != UTF8_SHORT)
			w->ncarry = 0;
		p += kind != UTF8_BAD;
		n -= kind != UTF8_BAD;
	}
	left = jw_chars(w, p, n);
	if (left)
		memcpy(w->carry, p + n - left, left);
	if (n)
		w->ncarry = left;
}

void jw_text_close(struct jw *w)
{
	if (w->ncarry)
		jw_put(w, "\xef\xbf\xbd", 3);
	w->ncarry = 0;
	jw_put(w, "\"", 1);
}

void jw_strn(struct jw *w, const char *p, size_t n)
{
	jw_text_open(w);
	jw_text_more(w, p, n);
	jw_text_close(w);
}

void jw_str(struct jw *w, const char *s)
{
	jw_strn(w, s, strlen(s));
}

void jw_key(struct jw *w, const char *key)
{
	jw_str(w, key);
	jw_put(w, ":", 1);
	w->comma = false;
}

void jw_int(struct jw *w, int64_t v)
{
	char t[24];
	int n = snprintf(t, sizeof(t), "%" PRId64, v);

	jw_value(w);
	jw_put(w, t, (size_t)n);
}

void jw_uint(struct jw *w, uint64_t v)
{
	char t[24];
	int n = snprintf(t, sizeof(t), "%" PRIu64, v);

	jw_value(w);
	jw_put(w, t, (size_t)n);
}

void jw_double(struct jw *w, double v)
{
	char t[40];
	int n = isfinite(v) ? snprintf(t, sizeof(t), "%.10g", v) : snprintf(t, sizeof(t), "null");

	jw_value(w);
	jw_put(w, t, (size_t)n);
}

void jw_bool(struct jw *w, bool v)
{
	jw_raw(w, v ? "true" : "false");
}

void jw_raw(struct jw *w, const char *json)
{
	jw_rawn(w, json, strlen(json));
}

void jw_rawn(struct jw *w, const char *json, size_t n)
{
	jw_value(w);
	jw_put(w, json, n);
}

void jw_time(struct jw *w, int64_t wall_ms)
{
	char t[CLOCK_ISO_LEN];

	clock_iso(wall_ms, t);
	jw_value(w);
	jw_put(w, "\"", 1);
	jw_put(w, t, strlen(t));
	jw_put(w, "\"", 1);
}

void jw_kv(struct jw *w, const struct kv *kv)
{
	jw_open(w, '{');
	for (size_t i = 0; i < kv->n; i++) {
		jw_key(w, kv->pair[i].key);
		jw_str(w, kv->pair[i].value);
	}
	jw_close(w, '}');
}

void jw_kstr(struct jw *w, const char *key, const char *s)
{
	if (!s)
		return;
	jw_key(w, key);
	jw_str(w, s);
}

void jw_kint(struct jw *w, const char *key, int64_t v)
{
	jw_key(w, key);
	jw_int(w, v);
}

void jw_kbool(struct jw *w, const char *key, bool v)
{
	jw_key(w, key);
	jw_bool(w, v);
}
