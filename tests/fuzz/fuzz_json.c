/*
 * fuzz_json.c - any bytes: refused, or decoded without a fault; any text written is valid JSON
 * again, in whatever chunks it comes.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "jtab/jtab.h"

struct thing {
	const char *name;
	bool on;
	int64_t count, when;
	struct kv env;
	struct jt_strs list;
	struct json_t *any;
};

static const struct jt_field fields[] = {
	{"n", JT_STR, 0, offsetof(struct thing, name), 0, 100, NULL},
	{"b", JT_BOOL, 0, offsetof(struct thing, on), 0, 0, NULL},
	{"i", JT_INT, 0, offsetof(struct thing, count), -5, 1000, NULL},
	{"t", JT_TIME, 0, offsetof(struct thing, when), 0, 0, NULL},
	{"e", JT_KV, 0, offsetof(struct thing, env), 0, 16, NULL},
	{"l", JT_STRS, 0, offsetof(struct thing, list), 0, 16, NULL},
	{"j", JT_JSON, 0, offsetof(struct thing, any), 0, 0, NULL},
};
static const struct jt_table table = {"", fields, sizeof(fields) / sizeof(fields[0])};

static void check_decode(const char *p, size_t n)
{
	struct jt_doc doc = {NULL};
	struct thing t = {0};
	struct err err = {0};

	if (jt_parse(&doc, p, n, &err) < 0) {
		if (err.code != ERR_INVALID || !err.msg[0])
			abort();
		return;
	}
	if (jt_decode(&doc, &table, &t, &err) < 0 && err.code != ERR_INVALID)
		abort();
	jt_release(&table, &t);
	jt_doc_done(&doc);
}

static void check_write(const char *p, size_t n, size_t step)
{
	struct buf b = BUF_INIT(16u << 20);
	struct jt_doc doc = {NULL};
	struct jw w;

	jw_init(&w, &b);
	jw_open(&w, '{');
	jw_key(&w, "n");
	jw_text_open(&w);
	for (size_t i = 0; i < n; i += step)
		jw_text_more(&w, p + i, MIN(step, n - i));
	jw_text_close(&w);
	jw_close(&w, '}');
	if (jw_end(&w, NULL) < 0 || !utf8_valid(b.data, b.len))
		abort();
	if (!memchr(p, '\0', n) && jt_parse(&doc, b.data, b.len, NULL) < 0)
		abort();
	jt_doc_done(&doc);
	buf_done(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *p = (const char *)data;

	check_decode(p, size);
	check_write(p, size, 1);
	check_write(p, size, 3);
	check_write(p, size, size ? size : 1);
	return 0;
}
