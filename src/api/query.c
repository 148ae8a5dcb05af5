/*
 * query.c - query and path parameters by the tables of jtab, see api.h.
 */
#include "api/api.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/clock.h"

#define QUERY_ITEMS_MAX 1000 /* of one repeated parameter */

/* Only digits with an optional minus: no blanks, plus signs, hex or fractions. */
static int int_of(const char *name, const char *text, int64_t min, int64_t max, int64_t *ret,
		  struct err *err)
{
	const char *digits = text + (*text == '-');
	char *end = NULL;
	int64_t v;

	errno = 0;
	v = strtoll(text, &end, 10);
	if (!*digits || digits[strspn(digits, "0123456789")])
		return err_set(err, ERR_INVALID, "%s: must be an integer", name);
	if (errno || *end || v < min || v > max)
		return err_set(err, ERR_INVALID,
			       "%s: must be an integer from %" PRId64 " to %" PRId64, name, min,
			       max);
	*ret = v;
	return 0;
}

static int bool_of(const char *name, const char *text, bool *ret, struct err *err)
{
	if (strcmp(text, "true") == 0)
		*ret = true;
	else if (strcmp(text, "false") == 0)
		*ret = false;
	else
		return err_set(err, ERR_INVALID, "%s: must be true or false", name);
	return 0;
}

int api_param_int(struct http_req *req, const char *name, int64_t min, int64_t max, int64_t *ret,
		  struct err *err)
{
	return int_of(name, http_param(req, name), min, max, ret, err);
}

static size_t count_items(struct http_req *req, const char *name, size_t *ret_bytes)
{
	size_t n = 0, bytes = 0;
	const char *s;

	for (size_t i = 0; (s = http_query_nth(req, name, i)); i++) {
		n++;
		bytes += strlen(s) + 1;
		for (; *s; s++)
			n += *s == ',';
	}
	*ret_bytes = bytes;
	return n;
}

/* One block holds the pointers and behind them the texts, so that one free ends both. */
static int strs_of(struct http_req *req, const struct jt_field *f, struct jt_strs *ret,
		   struct err *err)
{
	size_t bytes, n = count_items(req, f->name, &bytes), used = 0;
	const char *s;
	char *text;

	if (n > QUERY_ITEMS_MAX || (f->max && n > (size_t)f->max))
		return err_set(err, ERR_INVALID, "%s: too many items", f->name);
	ret->v = calloc(1, (n + 1) * sizeof(*ret->v) + bytes);
	if (!ret->v)
		return err_set(err, ERR_NOMEM, "out of memory");
	text = (char *)(ret->v + n + 1);
	for (size_t i = 0; (s = http_query_nth(req, f->name, i)); i++) {
		memcpy(text + used, s, strlen(s));
		used += strlen(s) + 1;
	}
	for (size_t i = 0, start = 0; i < used; i++) {
		if (text[i] && text[i] != ',')
			continue;
		text[i] = '\0';
		if (i > start)
			ret->v[ret->n++] = text + start;
		start = i + 1;
	}
	return 0;
}

static int str_of(const struct jt_field *f, const char *text, const char **ret, struct err *err)
{
	int64_t n = (int64_t)strlen(text);

	if (n == 0 && f->min > 0)
		return err_set(err, ERR_INVALID, "%s: must not be empty", f->name);
	if (n < f->min || n > f->max)
		return err_set(err, ERR_INVALID,
			       "%s: must have a length from %" PRId64 " to %" PRId64, f->name,
			       f->min, f->max);
	*ret = text;
	return 0;
}

static int time_of(const struct jt_field *f, const char *text, int64_t *ret, struct err *err)
{
	if (clock_parse_iso(text, ret) < 0)
		return err_set(err, ERR_INVALID, "%s: must be a time like 2026-01-02T03:04:05Z",
			       f->name);
	return 0;
}

static int value_of(struct http_req *req, const struct jt_field *f, const char *text, void *m,
		    struct err *err)
{
	switch (f->type) {
	case JT_STR:
		return str_of(f, text, m, err);
	case JT_INT:
		return int_of(f->name, text, f->min, f->max, m, err);
	case JT_BOOL:
		return bool_of(f->name, text, m, err);
	case JT_TIME:
		return time_of(f, text, m, err);
	case JT_STRS:
		return strs_of(req, f, m, err);
	case JT_KV:
		return jt_parse_kv(text, f->name, (size_t)f->max, m, err);
	default:
		return err_set(err, ERR_INTERNAL, "%s: no query type", f->name);
	}
}

int api_query(struct http_req *req, const struct jt_table *t, void *out, struct err *err)
{
	for (size_t i = 0; i < t->n; i++) {
		const struct jt_field *f = &t->field[i];
		const char *text = http_query(req, f->name);

		if (!text && (f->flags & JT_REQUIRED))
			return err_set(err, ERR_INVALID, "%s: is required", f->name);
		/* An empty value is an absent one, but for strings, whose own rule decides. */
		if (!text || (!*text && f->type != JT_STR))
			continue;
		if (value_of(req, f, text, (char *)out + f->off, err) < 0)
			return -1;
	}
	return 0;
}
