/*
 * interp_frame.h - what the interpreter's runner writes, see share/interpreter/runner.py; pure.
 *
 * The bytes come out of a sandbox: any of them may be forged, cut or missing.
 */
#ifndef CAISSON_CORE_INTERP_FRAME_H
#define CAISSON_CORE_INTERP_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define INTERP_FRAME_MAX (256u << 10) /* bytes of one frame's payload */
#define INTERP_HEAD_MAX	 12	      /* letter, digits, newline */
#define INTERP_NONCE_LEN 33	      /* 32 hex digits and NUL */

enum interp_frame_kind {
	FRAME_ATTACHED = 'a',
	FRAME_OUT = 'o',
	FRAME_ERR = 'e',
	FRAME_LOST = 'g',
	FRAME_ERROR = 'x',
	FRAME_DONE = 'd',
	FRAME_DEAD = 'z',
};

struct interp_frame {
	enum interp_frame_kind kind;
	const char *p; /* payload, within the bytes parsed */
	size_t n;
};
/* The frame p[0..n) begins with: 1 whole, *ret_used bytes of it; 0 more is needed; -1 not one. */
int interp_frame_get(const char *p, size_t n, struct interp_frame *ret, size_t *ret_used);

/* The bytes behind the mark of nonce, NULL when it is not whole in p[0..n); then *ret_keep last
 * bytes may be its start. */
const char *interp_mark_find(const char *p, size_t n, const char *nonce, size_t *ret_keep);

/* ---- payloads ---- */

/* FRAME_ATTACHED: is it of nonce, and does a run go on? */
bool interp_attached_get(const struct interp_frame *f, const char *nonce, bool *ret_busy);
/* FRAME_ERROR: name, text, traceback. */
struct interp_text {
	const char *p;
	size_t n;
};
bool interp_error_get(const struct interp_frame *f, struct interp_text ret[3]);
/* FRAME_LOST: stream 1 or 2 and a count. */
bool interp_lost_get(const struct interp_frame *f, int *ret_stream, uint64_t *ret_bytes);
enum interp_status { STATUS_COMPLETED, STATUS_INTERRUPTED, STATUS_TIMEOUT };
/* FRAME_DONE of the run nonce; of another one false. */
bool interp_done_get(const struct interp_frame *f, const char *nonce, enum interp_status *ret);
/* FRAME_DEAD: exit code, or signal as 128 and up; whether it was killed for its time. */
bool interp_dead_get(const struct interp_frame *f, bool *ret_timeout, bool *ret_signaled,
		     unsigned *ret_code);

#endif
