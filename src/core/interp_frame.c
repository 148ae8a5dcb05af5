/*
 * interp_frame.c - see interp_frame.h.
 */
#include "core/interp_frame.h"

#include <string.h>

static const char mark_text[] = "\0caisson-interpreter ";
#define MARK_LEN (sizeof(mark_text) - 1)

/* Decimal digits only, at most 9 of them: false otherwise. */
static bool number_get(const char *p, size_t n, unsigned long *ret)
{
	unsigned long v = 0;

	if (n == 0 || n > 9)
		return false;
	for (size_t i = 0; i < n; i++) {
		if (p[i] < '0' || p[i] > '9')
			return false;
		v = v * 10 + (unsigned long)(p[i] - '0');
	}
	*ret = v;
	return true;
}

int interp_frame_get(const char *p, size_t n, struct interp_frame *ret, size_t *ret_used)
{
	size_t head = n < INTERP_HEAD_MAX ? n : INTERP_HEAD_MAX;
	const char *end = n ? memchr(p, '\n', head) : NULL;
	unsigned long size;

	if (n && !memchr("aoegxdz", p[0], 7))
		return -1;
	if (!end)
		return n < INTERP_HEAD_MAX ? 0 : -1;
	if (!number_get(p + 1, (size_t)(end - p) - 1, &size) || size > INTERP_FRAME_MAX)
		return -1;
	head = (size_t)(end - p) + 1;
	if (n - head < size)
		return 0;
	*ret = (struct interp_frame){.kind = (enum interp_frame_kind)p[0], .p = end + 1, .n = size};
	*ret_used = head + size;
	return 1;
}

const char *interp_mark_find(const char *p, size_t n, const char *nonce, size_t *ret_keep)
{
	char mark[MARK_LEN + INTERP_NONCE_LEN + 1];
	size_t len = strnlen(nonce, INTERP_NONCE_LEN - 1);
	const char *at;

	memcpy(mark, mark_text, MARK_LEN);
	memcpy(mark + MARK_LEN, nonce, len);
	len += MARK_LEN;
	mark[len++] = '\n';
	at = n ? memmem(p, n, mark, len) : NULL;
	*ret_keep = n < len - 1 ? n : len - 1;
	return at ? at + len : NULL;
}

/* ---- payloads: words between spaces ---- */

struct word {
	const char *p;
	size_t n;
};

static size_t words_get(const struct interp_frame *f, struct word *w, size_t max)
{
	const char *p = f->p, *end = f->p + f->n;
	size_t n = 0;

	for (; p < end && n < max; n++) {
		const char *stop = memchr(p, ' ', (size_t)(end - p));

		stop = stop ? stop : end;
		w[n] = (struct word){p, (size_t)(stop - p)};
		p = stop < end ? stop + 1 : end;
	}
	return p < end ? max + 1 : n;
}

static bool word_is(const struct word *w, const char *text)
{
	return w->n == strlen(text) && memcmp(w->p, text, w->n) == 0;
}

bool interp_attached_get(const struct interp_frame *f, const char *nonce, bool *ret_busy)
{
	struct word w[2];

	if (f->kind != FRAME_ATTACHED || words_get(f, w, 2) != 2 || !word_is(&w[0], nonce))
		return false;
	*ret_busy = word_is(&w[1], "busy");
	return *ret_busy || word_is(&w[1], "idle");
}

bool interp_error_get(const struct interp_frame *f, struct interp_text ret[3])
{
	const char *p = f->p, *end = f->p + f->n, *stop;

	if (f->kind != FRAME_ERROR)
		return false;
	for (int i = 0; i < 3; i++) {
		stop = p < end ? memchr(p, '\0', (size_t)(end - p)) : NULL;
		if (!stop != (i == 2))
			return false;
		stop = stop ? stop : end;
		ret[i] = (struct interp_text){p, (size_t)(stop - p)};
		p = stop + 1;
	}
	return true;
}

bool interp_lost_get(const struct interp_frame *f, int *ret_stream, uint64_t *ret_bytes)
{
	struct word w[2];
	unsigned long n;

	if (f->kind != FRAME_LOST || words_get(f, w, 2) != 2 || !number_get(w[1].p, w[1].n, &n))
		return false;
	*ret_stream = word_is(&w[0], "o") ? 1 : 2;
	*ret_bytes = n;
	return *ret_stream == 1 || word_is(&w[0], "e");
}

bool interp_done_get(const struct interp_frame *f, const char *nonce, enum interp_status *ret)
{
	static const char *const names[] = {
		[STATUS_COMPLETED] = "completed",
		[STATUS_INTERRUPTED] = "interrupted",
		[STATUS_TIMEOUT] = "timeout",
	};
	struct word w[2];

	if (f->kind != FRAME_DONE || words_get(f, w, 2) != 2 || !word_is(&w[0], nonce))
		return false;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (!word_is(&w[1], names[i]))
			continue;
		*ret = (enum interp_status)i;
		return true;
	}
	return false;
}

bool interp_dead_get(const struct interp_frame *f, bool *ret_timeout, bool *ret_signaled,
		     unsigned *ret_code)
{
	struct word w[3];
	size_t n = words_get(f, w, 3), i = 0;
	unsigned long code;

	if (f->kind != FRAME_DEAD || n > 3)
		return false;
	*ret_timeout = n == 3 && word_is(&w[0], "timeout");
	i = *ret_timeout;
	if (n != i + 2 || !number_get(w[i + 1].p, w[i + 1].n, &code) || code > 255)
		return false;
	*ret_signaled = word_is(&w[i], "signal");
	*ret_code = (unsigned)code;
	return *ret_signaled || word_is(&w[i], "exit");
}
