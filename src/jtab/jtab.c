/*
 * jtab.c - decoding, see jtab.h. The one user of jansson in the daemon.
 */
#include "jtab/jtab.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <string.h>

#include "base/clock.h"

/* Where we are, for the texts of errors. */
struct jt_at {
	const char *path; /* of the object, "" at the root */
	const struct jt_field *f;
};

static int jt_bad(const struct jt_at *at, struct err *err, const char *rule)
{
	return err_set(err, ERR_INVALID, "%s%s%s: %s", at->path, at->path[0] ? "." : "",
		       at->f->name, rule);
}

static int jt_bad_range(const struct jt_at *at, struct err *err, const char *what)
{
	return err_set(err, ERR_INVALID, "%s%s%s: %s from %" PRId64 " to %" PRId64, at->path,
		       at->path[0] ? "." : "", at->f->name, what, at->f->min, at->f->max);
}

void jt_doc_done(struct jt_doc *doc)
{
	json_decref(doc->root);
	doc->root = NULL;
}

/* jansson recurses once a level; a small thread stack must not depend on its own limit. */
static int jt_check_depth(const char *p, size_t n, struct err *err)
{
	bool in_string = false;
	int depth = 0;

	for (size_t i = 0; i < n; i++) {
		if (in_string) {
			if (p[i] == '\\')
				i++;
			else if (p[i] == '"')
				in_string = false;
			continue;
		}
		if (p[i] == '"')
			in_string = true;
		else if (p[i] == '{' || p[i] == '[')
			depth++;
		else if (p[i] == '}' || p[i] == ']')
			depth--;
		if (depth > JT_DEPTH_MAX)
			return err_set(err, ERR_INVALID, "body: nested deeper than %d levels",
				       JT_DEPTH_MAX);
	}
	return 0;
}

/*
 * A number beyond 64 bits makes jansson refuse the whole text. Read it once more with integers as
 * reals, so that the field's own rule can name the field; the reals of other fields do no harm,
 * since the first overflow found ends the search.
 */
static int jt_blame_overflow(const char *p, size_t n, struct err *err)
{
	json_error_t je;
	json_t *root = json_loadb(p, n, JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL, &je);
	const char *key, *found = "body";
	json_t *v;

	json_object_foreach(root, key, v)
	{
		if (json_is_real(v) && fabs(json_real_value(v)) >= 9.2e18)
			found = key;
	}
	err_set(err, ERR_INVALID, "%s: must be an integer of at most 63 bits", found);
	json_decref(root);
	return -1;
}

/* The parser's own words are for programmers; what callers do send by mistake gets ours. */
static int jt_blame_syntax(const json_error_t *je, struct err *err)
{
	enum json_error_code code = json_error_code(je);

	if (code == json_error_null_character || code == json_error_null_byte_in_key)
		return err_set(err, ERR_INVALID,
			       "body: text must not hold a NUL character (line %d column %d)",
			       je->line, je->column);
	return err_set(err, ERR_INVALID, "body: not valid JSON at line %d column %d: %s", je->line,
		       je->column, je->text);
}

int jt_parse(struct jt_doc *doc, const char *p, size_t n, struct err *err)
{
	json_error_t je;

	doc->root = NULL;
	if (n == 0) {
		doc->root = json_object();
		return doc->root ? 0 : err_set(err, ERR_NOMEM, "out of memory");
	}
	if (jt_check_depth(p, n, err) < 0)
		return -1;
	/* Any value is read, so that one that is no object is told apart from broken text. */
	doc->root = json_loadb(p, n, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &je);
	if (!doc->root && json_error_code(&je) == json_error_numeric_overflow)
		return jt_blame_overflow(p, n, err);
	if (!doc->root)
		return jt_blame_syntax(&je, err);
	if (!json_is_object(doc->root)) {
		jt_doc_done(doc);
		return err_set(err, ERR_INVALID, "body: must be a JSON object");
	}
	return 0;
}

static int get_str(const struct jt_at *at, json_t *v, void *dst, struct err *err)
{
	size_t n = json_string_length(v);

	if (!json_is_string(v))
		return jt_bad(at, err, "must be a string");
	if ((int64_t)n < at->f->min && n == 0)
		return jt_bad(at, err, "must not be empty");
	if ((int64_t)n < at->f->min || (int64_t)n > at->f->max)
		return jt_bad_range(at, err, "must have a length");
	*(const char **)dst = json_string_value(v);
	return 0;
}

static int get_bool(const struct jt_at *at, json_t *v, void *dst, struct err *err)
{
	if (!json_is_boolean(v))
		return jt_bad(at, err, "must be true or false");
	*(bool *)dst = json_is_true(v);
	return 0;
}

static int get_int(const struct jt_at *at, json_t *v, void *dst, struct err *err)
{
	int64_t n;

	if (!json_is_integer(v))
		return jt_bad(at, err, "must be an integer");
	n = json_integer_value(v);
	if (n < at->f->min || n > at->f->max)
		return at->f->lit ? jt_bad(at, err, at->f->lit)
				  : jt_bad_range(at, err, "must be an integer");
	*(int64_t *)dst = n;
	return 0;
}

static int get_time(const struct jt_at *at, json_t *v, void *dst, struct err *err)
{
	int64_t ms;

	if (!json_is_string(v) || clock_parse_iso(json_string_value(v), &ms) < 0)
		return jt_bad(at, err, "must be a time like 2026-01-02T03:04:05Z");
	*(int64_t *)dst = ms;
	return 0;
}

static int get_kv(const struct jt_at *at, json_t *v, void *dst, struct err *err)
{
	size_t n = json_object_size(v);
	struct kv *kv = dst;
	const char *key;
	json_t *item;

	if (!json_is_object(v))
		return jt_bad(at, err, "must be an object of strings");
	if ((int64_t)n > at->f->max)
		return jt_bad_range(at, err, "must have a number of entries");
	kv_done(kv);
	kv->pair = calloc(n + 1, sizeof(*kv->pair));
	if (!kv->pair)
		return err_set(err, ERR_NOMEM, "out of memory");
	json_object_foreach(v, key, item)
	{
		if (!json_is_string(item))
			return err_set(err, ERR_INVALID, "%s%s%s.%.100s: must be a string",
				       at->path, at->path[0] ? "." : "", at->f->name, key);
		kv->pair[kv->n].key = strdup(key);
		kv->pair[kv->n].value = strdup(json_string_value(item));
		kv->n++;
		if (!kv->pair[kv->n - 1].key || !kv->pair[kv->n - 1].value)
			return err_set(err, ERR_NOMEM, "out of memory");
	}
	return 0;
}

static int get_strs(const struct jt_at *at, json_t *v, void *dst, struct err *err)
{
	size_t n = json_array_size(v);
	struct jt_strs *s = dst;

	if (!json_is_array(v))
		return jt_bad(at, err, "must be an array of strings");
	if ((int64_t)n < at->f->min || (int64_t)n > at->f->max)
		return jt_bad_range(at, err, "must have a number of items");
	free(s->v);
	*s = (struct jt_strs){.v = calloc(n + 1, sizeof(*s->v)), .n = n};
	if (!s->v)
		return err_set(err, ERR_NOMEM, "out of memory");
	for (size_t i = 0; i < n; i++) {
		s->v[i] = json_string_value(json_array_get(v, i));
		if (!s->v[i])
			return err_set(err, ERR_INVALID, "%s%s%s[%zu]: must be a string", at->path,
				       at->path[0] ? "." : "", at->f->name, i);
	}
	return 0;
}

static int get_gib(const struct jt_at *at, json_t *v, void *dst, struct err *err)
{
	double asked = json_is_number(v) ? json_number_value(v) * 1024 : -1;
	bool ok = asked >= (double)at->f->min && asked <= (double)at->f->max;
	int64_t mib = ok ? (int64_t)asked : 0;

	if (!ok || (double)mib != asked || (mib != 512 && mib % 1024))
		return jt_bad(at, err, "must be 0.5 or a whole number, 1 or more");
	*(int64_t *)dst = mib;
	return 0;
}

static int get_json(const struct jt_at *at, json_t *v, void *dst, struct err *err)
{
	(void)at;
	(void)err;
	*(json_t **)dst = v;
	return 0;
}

static int (*const jt_get[])(const struct jt_at *, json_t *, void *, struct err *) = {
	[JT_STR] = get_str, [JT_BOOL] = get_bool, [JT_INT] = get_int,	[JT_TIME] = get_time,
	[JT_KV] = get_kv,   [JT_STRS] = get_strs, [JT_JSON] = get_json, [JT_GIB] = get_gib,
};

int jt_decode_in(const struct json_t *obj, const char *path, const struct jt_table *t, void *out,
		 struct err *err)
{
	for (size_t i = 0; i < t->n; i++) {
		const struct jt_field *f = &t->field[i];
		struct jt_at at = {path, f};
		json_t *v = json_object_get(obj, f->name);

		if ((!v || json_is_null(v)) && (f->flags & JT_REQUIRED))
			return jt_bad(&at, err, "is required");
		if (!v || json_is_null(v))
			continue;
		if (jt_get[f->type](&at, v, (char *)out + f->off, err) < 0)
			return -1;
	}
	return 0;
}

int jt_decode(const struct jt_doc *doc, const struct jt_table *t, void *out, struct err *err)
{
	return jt_decode_in(doc->root, "", t, out, err);
}

void jt_release(const struct jt_table *t, void *out)
{
	for (size_t i = 0; i < t->n; i++) {
		void *m = (char *)out + t->field[i].off;

		if (t->field[i].type == JT_KV)
			kv_done(m);
		if (t->field[i].type == JT_STRS) {
			free(((struct jt_strs *)m)->v);
			*(struct jt_strs *)m = (struct jt_strs){0};
		}
	}
}

bool jt_is_empty(const struct json_t *v)
{
	return json_object_size(v) + json_array_size(v) == 0 &&
	       (json_is_object(v) || json_is_array(v));
}

bool jt_is_object(const struct json_t *v)
{
	return json_is_object(v);
}

void jt_dump(struct jw *w, const struct json_t *v)
{
	auto_free char *text = json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY);

	jw_raw(w, text ? text : "null");
}

int jt_parse_kv(const char *text, const char *path, size_t max, struct kv *ret, struct err *err)
{
	const struct jt_field f = {.name = path, .type = JT_KV, .max = (int64_t)max};
	const struct jt_at at = {"", &f};
	auto_jt_doc struct jt_doc doc = {NULL};

	if (jt_parse(&doc, text, strlen(text), NULL) < 0)
		return jt_bad(&at, err, "must be a JSON object of strings");
	return get_kv(&at, doc.root, ret, err);
}
