/*
 * fuzz_lsp.c - anything a language server may send: frames cut at any place hold what they said,
 * and each body is refused or read into what a reply may hold.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "lib/fuzz_replay.h"
#include "lsp/frame.h"
#include "lsp/msg.h"

static void use(const char *s)
{
	static volatile size_t sum;

	sum += s ? strlen(s) : 0;
}

static void try_symbols(const struct lsp_msg *m)
{
	struct lsp_symbols s;

	if (lsp_msg_symbols(m, "file:///x", &s, NULL) < 0)
		return;
	if (s.n > LSP_SYMBOLS_MAX)
		abort();
	for (size_t i = 0; i < s.n; i++) {
		use(s.v[i].name);
		use(s.v[i].uri);
		if (s.v[i].start.line < 0 || s.v[i].kind < 0)
			abort();
	}
	lsp_symbols_done(&s);
}

static void try_completions(const struct lsp_msg *m)
{
	struct lsp_completions c;

	if (lsp_msg_completions(m, &c, NULL) < 0)
		return;
	for (size_t i = 0; i < c.n; i++) {
		if (!c.v[i].label)
			abort();
		use(c.v[i].documentation);
		use(c.v[i].insert);
	}
	lsp_completions_done(&c);
}

static void try_body(const char *p, size_t n)
{
	auto_buf struct buf out = BUF_INIT(1 << 20);
	struct lsp_msg m;

	if (lsp_msg_parse(p, n, &m, NULL) < 0)
		return;
	try_symbols(&m);
	try_completions(&m);
	if (m.kind == LSP_REQUEST && lsp_msg_answer(&m, "file:///", &out, NULL) == 0 && !out.len)
		abort();
	lsp_msg_done(&m);
}

/* The first byte is the size of the pieces; a body alone is tried too. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t step = size ? 1 + data[0] : 1, n;
	struct lsp_frames f;
	const char *body;
	int rc = 0;

	if (!size)
		return 0;
	data++;
	size--;
	try_body((const char *)data, size);
	lsp_frames_init(&f);
	for (size_t at = 0; at < size && rc == 0; at += step) {
		if (lsp_frames_feed(&f, data + at, MIN(step, size - at), NULL) < 0)
			break;
		while ((rc = lsp_frames_next(&f, &body, &n, NULL)) > 0) {
			if (n > LSP_BODY_MAX || body < f.in.data || body + n > f.in.data + f.in.len)
				abort();
			try_body(body, n);
		}
	}
	lsp_frames_done(&f);
	return 0;
}
