/*
 * frame.c - see frame.h. The length is the only line of a head that means something; it must be
 * there once, in digits.
 */
#include "lsp/frame.h"

#include <string.h>
#include <strings.h>

static const char length_name[] = "Content-Length:";

void lsp_frames_init(struct lsp_frames *f)
{
	*f = (struct lsp_frames){.in = BUF_INIT(LSP_HEAD_MAX + LSP_BODY_MAX + LSP_FEED_MAX)};
}

void lsp_frames_done(struct lsp_frames *f)
{
	buf_done(&f->in);
}

int lsp_frames_feed(struct lsp_frames *f, const void *p, size_t n, struct err *err)
{
	if (f->used)
		buf_eat(&f->in, f->used);
	f->used = 0;
	return buf_add(&f->in, p, n, err);
}

static int bad_head(struct err *err)
{
	return err_set(err, ERR_UPSTREAM, "the language server sent a malformed frame");
}

/* The number of a length's line, of n bytes. */
static int length_of(const char *p, size_t n, size_t *ret)
{
	size_t v = 0, i = 0;

	while (i < n && (p[i] == ' ' || p[i] == '\t'))
		i++;
	if (i == n)
		return -1;
	for (; i < n; i++) {
		if (p[i] < '0' || p[i] > '9' || v > LSP_BODY_MAX)
			return -1;
		v = v * 10 + (size_t)(p[i] - '0');
	}
	*ret = v;
	return v <= LSP_BODY_MAX ? 0 : -1;
}

/* A head of n bytes, each line with its end. */
static int parse_head(const char *p, size_t n, size_t *ret_body, struct err *err)
{
	const size_t name = sizeof(length_name) - 1;
	bool seen = false;

	while (n) {
		const char *end = memmem(p, n, "\r\n", 2);
		size_t line = end ? (size_t)(end - p) : n;

		if (!end)
			return bad_head(err);
		if (line >= name && strncasecmp(p, length_name, name) == 0) {
			if (seen || length_of(p + name, line - name, ret_body) < 0)
				return bad_head(err);
			seen = true;
		} else if (!memchr(p, ':', line)) {
			return bad_head(err);
		}
		p += line + 2;
		n -= line + 2;
	}
	return seen ? 0 : bad_head(err);
}

int lsp_frames_next(struct lsp_frames *f, const char **ret, size_t *ret_n, struct err *err)
{
	const char *p, *end;
	size_t have, head, body = 0;

	if (f->used)
		buf_eat(&f->in, f->used);
	f->used = 0;
	p = buf_str(&f->in);
	have = f->in.len;
	end = memmem(p, MIN(have, (size_t)LSP_HEAD_MAX), "\r\n\r\n", 4);
	if (!end)
		return have < LSP_HEAD_MAX ? 0 : bad_head(err);
	head = (size_t)(end - p) + 4;
	if (parse_head(p, head - 2, &body, err) < 0)
		return -1;
	if (have - head < body)
		return 0;
	f->used = head + body;
	*ret = p + head;
	*ret_n = body;
	return 1;
}

int lsp_frame_put(struct buf *out, const void *body, size_t n, struct err *err)
{
	size_t before = out->len;

	if (buf_addf(out, err, "Content-Length: %zu\r\n\r\n", n) == 0 &&
	    buf_add(out, body, n, err) == 0)
		return 0;
	out->len = before;
	return -1;
}
