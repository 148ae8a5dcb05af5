/*
 * frame.h - frames of the language server protocol: a head of lines, then a body of JSON.
 *
 * Pure: bytes in, bodies out. Whatever a server sends, no more than a head and a body of the
 * ceilings is held.
 */
#ifndef CAISSON_LSP_FRAME_H
#define CAISSON_LSP_FRAME_H

#include "base/buf.h"

#define LSP_HEAD_MAX 4096
#define LSP_BODY_MAX (4u << 20)
#define LSP_FEED_MAX (64u << 10) /* bytes of one feed */

struct lsp_frames {
	struct buf in;
	size_t used; /* bytes of the frame handed out last */
};

void lsp_frames_init(struct lsp_frames *f);
void lsp_frames_done(struct lsp_frames *f);
/* At most LSP_FEED_MAX bytes, after lsp_frames_next said 0. */
int lsp_frames_feed(struct lsp_frames *f, const void *p, size_t n, struct err *err);
/* 1: a body, valid until the next call; 0: more bytes are needed; -1: no such protocol. */
int lsp_frames_next(struct lsp_frames *f, const char **ret, size_t *ret_n, struct err *err);

/* One frame around n bytes of body. */
int lsp_frame_put(struct buf *out, const void *body, size_t n, struct err *err);

#endif
