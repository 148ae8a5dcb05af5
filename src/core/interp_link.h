/*
 * interp_link.h - one conversation with a runner of the interpreter, over its two pipes.
 *
 * A link is begun by attaching: whatever the pipes hold of earlier ones is passed over up to a
 * mark that only this link knows. Both sides outlive it.
 */
#ifndef CAISSON_CORE_INTERP_LINK_H
#define CAISSON_CORE_INTERP_LINK_H

#include "base/buf.h"
#include "base/kv.h"
#include "core/interp_frame.h"
#include "core/turn.h"

#define LINK_START_MS 30000 /* for a runner to answer, a slow start of Python included */

struct interp_link {
	int in, out;
	struct buf buf;
	size_t eaten;		      /* of buf: frames handed out */
	char nonce[INTERP_NONCE_LEN]; /* of the run */
	int64_t alive_ms;	      /* when the runner was told last that we live */
	bool busy;		      /* another's run goes on */
	bool ended;		      /* the runner has closed its end */
};
void interp_link_init(struct interp_link *l);
void interp_link_done(struct interp_link *l);

/* l->in and l->out are set. The program text goes first to a fresh one. gone as in turn.h. An
 * error of the runner's start holds what it said. */
int interp_link_attach(struct interp_link *l, bool fresh, turn_gone_fn gone, void *arg,
		       struct err *err);
int interp_link_run(struct interp_link *l, const char *code, const struct kv *env,
		    int64_t timeout_ms, struct err *err);
/* The reader lives; said to the runner now and then. */
void interp_link_alive(struct interp_link *l);
/* Nobody reads this run any more. */
void interp_link_detach(struct interp_link *l);
/* The next frame, valid until the next call: 1, 0 nothing whole yet or ended, -1 a broken
 * stream. Does not block; poll l->out for reading. */
int interp_link_next(struct interp_link *l, struct interp_frame *ret, struct err *err);

/* ---- interp_text.c: the runner and what starts it ---- */
extern const char interp_boot[], interp_runner[], interp_runner_end[];

#endif
