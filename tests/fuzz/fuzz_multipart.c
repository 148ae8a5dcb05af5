/*
 * fuzz_multipart.c - any body, cut anywhere, tells the same story as the whole body, and parts
 * begin and end in pairs.
 */
#include <stdlib.h>
#include <string.h>

#include "caisson/http.h"

struct story {
	struct buf text;
	int open;
};

static int on_part(void *arg, const char *name, const char *filename, const char *type,
		   struct err *err)
{
	struct story *s = arg;

	if (s->open++ || !*name)
		abort();
	return buf_addf(&s->text, err, "[%s|%s|%s|", name, filename, type);
}

static int on_data(void *arg, const void *p, size_t n, struct err *err)
{
	struct story *s = arg;

	if (!s->open || !n)
		abort();
	return buf_add(&s->text, p, n, err);
}

static int on_end(void *arg, struct err *err)
{
	struct story *s = arg;

	if (--s->open)
		abort();
	return buf_adds(&s->text, "]", err);
}

static const struct http_multipart_ops ops = {on_part, on_data, on_end};

/* step 0: all at once. Returns 0 when the body was good. */
static int tell(struct story *s, const uint8_t *data, size_t size, size_t step)
{
	struct http_multipart *m =
		http_multipart_new("multipart/form-data; boundary=b", &ops, s, NULL);
	int rc = 0;

	buf_init(&s->text, 1 << 22);
	s->open = 0;
	for (size_t at = 0; rc == 0 && at < size;) {
		size_t n = step ? MIN(step, size - at) : size;

		rc = http_multipart_feed(m, data + at, n, NULL);
		at += n;
	}
	if (rc == 0)
		rc = http_multipart_end(m, NULL);
	http_multipart_free(m);
	return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct story whole, cut;
	int a, b;

	if (size < 1)
		return 0;
	a = tell(&whole, data + 1, size - 1, 0);
	b = tell(&cut, data + 1, size - 1, 1 + data[0] % 16);
	if (a != b ||
	    (a == 0 && (whole.text.len != cut.text.len ||
			memcmp(buf_str(&whole.text), buf_str(&cut.text), whole.text.len))))
		abort();
	if (a == 0 && whole.open)
		abort();
	buf_done(&whole.text);
	buf_done(&cut.text);
	return 0;
}
