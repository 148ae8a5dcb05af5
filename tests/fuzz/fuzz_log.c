/*
 * fuzz_log.c - a log split in pieces cut anywhere gives the streams of a plain reading at once.
 */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "wire/log_split.h"

#define SIZE_MAX_IN 65536

static int take(void *arg, int stream, const uint8_t *p, size_t n, struct err *err)
{
	struct buf *out = arg;
	if (n == 0 || (stream != 1 && stream != 2))
		abort();
	return buf_add(&out[stream - 1], p, n, err);
}

/* The simple version: the whole log is there. */
static void plain(const uint8_t *p, size_t n, struct buf *out)
{
	struct err err = {0};
	int stream = 1;
	for (size_t i = 0; i < n;) {
		if (n - i >= 3 && (p[i] == 1 || p[i] == 2) && p[i + 1] == p[i] &&
		    p[i + 2] == p[i]) {
			stream = p[i];
			i += 3;
			continue;
		}
		if (buf_add(&out[stream - 1], p + i++, 1, &err) < 0)
			abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct buf got[2], want[2];
	struct log_split s = {0};
	struct err err = {0};
	if (size < 1 || size > SIZE_MAX_IN)
		return 0;
	size_t step = 1 + data[0] % 7;
	data++;
	size--;
	for (int i = 0; i < 2; i++) {
		buf_init(&got[i], SIZE_MAX_IN * 2);
		buf_init(&want[i], SIZE_MAX_IN * 2);
	}
	plain(data, size, want);
	for (size_t at = 0; at < size; at += step)
		if (log_split_add(&s, data + at, size - at < step ? size - at : step, take, got,
				  &err) < 0)
			abort();
	if (log_split_end(&s, take, got, &err) < 0)
		abort();
	for (int i = 0; i < 2; i++) {
		if (got[i].len != want[i].len ||
		    (got[i].len && memcmp(got[i].data, want[i].data, got[i].len)))
			abort();
		buf_done(&got[i]);
		buf_done(&want[i]);
	}
	return 0;
}
