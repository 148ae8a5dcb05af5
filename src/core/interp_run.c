/*
 * interp_run.c - one run of code in a context: wait for the turn, attach, run, read to its end.
 *
 * The warden inside keeps the time; a deadline of our own is for one that does not. A run whose
 * reader leaves goes on, and whoever is next in the context waits for its end.
 */
#include "core/interp_int.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/fd.h"

#define RUN_GRACE_MS  8000 /* over the time: interrupt, two seconds, kill, and the last output */
#define RUN_SLICE_MS  100
#define DEATH_MS      1000 /* from the warden's last word to its end */
#define DEATH_STEP_MS 2

struct interp {
	struct process_at at;
	struct turn turn;
	bool has_turn, running;
	bool hidden; /* the default context */
	struct interp_link link;
	int64_t deadline_ms; /* 0 none */
	char text[INTERP_TEXT_MAX];
};

int interp_fd(const struct interp *i)
{
	return i->link.out;
}

void interp_alive(struct interp *i)
{
	interp_link_alive(&i->link);
}

void interp_close(struct interp *i)
{
	if (!i)
		return;
	if (i->running)
		interp_link_detach(&i->link);
	interp_link_done(&i->link);
	if (i->has_turn)
		turn_leave(&i->at.core->turns, &i->turn);
	process_at_done(&i->at);
	free(i);
}

/* ---- opening ---- */

static int spec_check(const struct interp_spec *s, struct err *err)
{
	if (strlen(s->code) > INTERP_CODE_MAX)
		return err_set(err, ERR_INVALID, "code: must be at most %u bytes", INTERP_CODE_MAX);
	if (s->timeout_ms < 0)
		return err_set(err, ERR_INVALID, "timeout: must be 0 or more");
	return s->env ? valid_env("envs", s->env, err) : 0;
}

static int run_queue(struct interp *i, const struct interp_spec *s, struct err *err)
{
	char key[TURN_KEY_MAX];

	snprintf(key, sizeof(key), "%s/%s", i->at.row.s.id,
		 i->hidden ? INTERP_DEFAULT : i->at.p.task);
	if (process_count(&i->at, err) < 0 ||
	    turn_take(&i->at.core->turns, &i->turn, key, s->gone, s->arg, err) < 0)
		return -1;
	i->has_turn = true;
	return 0;
}

/* With the turn: the default context's process is there, maybe a new one. */
static int default_ready(struct interp *i, const struct interp_spec *s, struct err *err)
{
	auto_process struct process_row old = {0};
	auto_task struct task_info t = {0};
	struct process_at *at = &i->at;
	struct err why = {0};
	int room = process_free(at, PROCESS_CONTEXT, INTERP_DEFAULT, true, &old, err);

	if (room < 0)
		return -1;
	if (room == 0) {
		at->p = old;
		old = (struct process_row){0};
		if (interp_attach(at, &i->link, s->gone, s->arg, &why) == 0)
			return 0;
		if (why.code != ERR_AGENT &&
		    (why.code != ERR_GONE || !why.tag || strcmp(why.tag, "CONTEXT_ENDED") != 0)) {
			if (err)
				*err = why;
			return -1;
		}
		/* It died under our eyes, or hangs: its state is lost either way. */
		interp_link_done(&i->link);
		interp_link_init(&i->link);
		old = at->p;
		at->p = (struct process_row){0};
	}
	if (old.task[0] && old.start == at->row.starts)
		interp_drop(at, old.task);
	process_row_init(at, PROCESS_CONTEXT, INTERP_DEFAULT, &at->p);
	return interp_start(at, &at->p, old.id[0] ? old.task : NULL, &i->link, &t, err);
}

/* Another's run goes on: its end is awaited, its output is nobody's. */
static int run_await_idle(struct interp *i, const struct interp_spec *s, struct err *err)
{
	struct interp_frame f;
	int got;

	while (i->link.busy) {
		if (s->gone && s->gone(s->arg))
			return err_set(err, ERR_CANCELLED, "the client went while it was queued");
		got = interp_link_next(&i->link, &f, err);
		if (got < 0)
			return -1;
		if (got && f.kind == FRAME_DONE)
			i->link.busy = false;
		else if ((got && f.kind == FRAME_DEAD) || i->link.ended)
			return err_tagged(err, ERR_GONE, "CONTEXT_ENDED",
					  "context %s has ended under the run before this one",
					  i->at.p.id);
		else if (!got)
			fd_wait(i->link.out, POLLIN, -1, clock_mono_ms() + RUN_SLICE_MS, NULL);
	}
	return 0;
}

static int run_ready(struct interp *i, const struct interp_spec *s, struct err *err)
{
	struct err why = {0};

	if (!i->hidden)
		return interp_attach(&i->at, &i->link, s->gone, s->arg, err) < 0
			       ? -1
			       : run_await_idle(i, s, err);
	if (default_ready(i, s, err) < 0)
		return -1;
	if (run_await_idle(i, s, &why) == 0)
		return 0;
	if (why.code == ERR_GONE) {
		interp_link_done(&i->link);
		interp_link_init(&i->link);
		process_row_done(&i->at.p);
		return default_ready(i, s, err);
	}
	if (err)
		*err = why;
	return -1;
}

static int run_begin(struct interp *i, const struct caller *who, const struct interp_spec *s,
		     struct err *err)
{
	struct core *c = i->at.core;

	i->hidden = interp_is_default(s->context);
	if ((i->hidden ? process_begin(c, who, s->sandbox, &i->at, err)
		       : process_find(c, who, s->sandbox, PROCESS_CONTEXT, s->context, &i->at,
				      err)) < 0)
		return -1;
	if (run_queue(i, s, err) < 0 || run_ready(i, s, err) < 0)
		return -1;
	if (interp_link_run(&i->link, s->code, s->env, s->timeout_ms, err) < 0)
		return process_failed(&i->at, err);
	i->running = true;
	if (s->timeout_ms)
		i->deadline_ms = clock_mono_ms() + s->timeout_ms + RUN_GRACE_MS;
	return 0;
}

struct interp *interp_open(struct core *c, const struct caller *who, const struct interp_spec *s,
			   struct err *err)
{
	struct interp *i;

	if (spec_check(s, err) < 0)
		return NULL;
	i = calloc(1, sizeof(*i));
	if (!i) {
		err_set(err, ERR_NOMEM, "out of memory");
		return NULL;
	}
	i->at.core = c;
	interp_link_init(&i->link);
	if (run_begin(i, who, s, err) < 0) {
		interp_close(i);
		return NULL;
	}
	return i;
}

/* ---- reading ---- */

/* Its end, so that whoever asks later is told it; then nothing of it lives. */
static void death_await(struct interp *i, struct task_info *ret)
{
	int64_t end = clock_mono_ms() + DEATH_MS;

	while (agent_task_get(i->at.agent, i->at.p.task, ret, NULL) == 0 &&
	       ret->state != TASK_ENDED && clock_mono_ms() < end) {
		task_info_done(ret);
		poll(NULL, 0, DEATH_STEP_MS);
	}
	if (ret->state != TASK_ENDED) {
		task_info_done(ret);
		agent_task_kill(i->at.agent, i->at.p.task, 0, ret, NULL);
	} else {
		agent_task_kill(i->at.agent, i->at.p.task, 0, NULL, NULL);
	}
}

/* A stop says so in the row before it ends what runs, so one look is enough. */
static int stop_look(struct interp *i, struct err *err)
{
	auto_row struct sandbox_row row = {0};
	const struct sandbox_row *was = &i->at.row;

	if (store_sandbox_get(i->at.core->st, NULL, was->s.id, &row, NULL) > 0 &&
	    row.s.state == SB_STARTED && row.starts == was->starts)
		return 0;
	return err_tagged(err, ERR_GONE, "SANDBOX_STOPPED",
			  "sandbox %s was stopped or deleted while the code ran", was->s.id);
}

static int run_died(struct interp *i, bool timeout, struct interp_event *ret, struct err *err)
{
	auto_task struct task_info t = {0};
	struct err why = {.code = ERR_GONE};

	i->running = false;
	if (stop_look(i, err) < 0)
		return -1;
	death_await(i, &t);
	if (t.state != TASK_ENDED) {
		err_set(&why, ERR_GONE, "the sandbox's agent hung up");
		process_failed(&i->at, &why);
		if (err)
			*err = why;
		return -1;
	}
	interp_death(&i->at, &t, i->text);
	ret->kind = INTERP_END;
	ret->end = timeout ? INTERP_TIMED_OUT : INTERP_DIED;
	ret->text.p = i->text;
	ret->text.n = strlen(i->text);
	if (!i->hidden)
		return 0;
	agent_task_remove(i->at.agent, i->at.p.task, NULL);
	process_forget(i->at.core, i->at.row.s.id, PROCESS_CONTEXT, INTERP_DEFAULT, i->at.p.task,
		       NULL);
	return 0;
}

static int take_done(struct interp *i, const struct interp_frame *f, struct interp_event *ret)
{
	static const enum interp_end ends[] = {
		[STATUS_COMPLETED] = INTERP_COMPLETED,
		[STATUS_INTERRUPTED] = INTERP_INTERRUPTED,
		[STATUS_TIMEOUT] = INTERP_TIMED_OUT,
	};
	enum interp_status s;

	if (!interp_done_get(f, i->link.nonce, &s))
		return 0;
	i->running = false;
	ret->kind = INTERP_END;
	ret->end = ends[s];
	return 0;
}

/* What a frame tells; one that makes no sense here is passed over. */
static int take_frame(struct interp *i, const struct interp_frame *f, struct interp_event *ret,
		      struct err *err)
{
	struct interp_text t[3];
	bool timeout, signaled;
	unsigned code;

	switch (f->kind) {
	case FRAME_OUT:
	case FRAME_ERR:
		ret->kind = INTERP_OUTPUT;
		ret->stream = f->kind == FRAME_OUT ? 1 : 2;
		ret->p = f->p;
		ret->n = f->n;
		return 0;
	case FRAME_LOST:
		if (interp_lost_get(f, &ret->stream, &ret->n))
			ret->kind = INTERP_LOST;
		return 0;
	case FRAME_ERROR:
		if (!interp_error_get(f, t))
			return 0;
		ret->kind = INTERP_ERROR;
		ret->name.p = t[0].p;
		ret->name.n = t[0].n;
		ret->text.p = t[1].p;
		ret->text.n = t[1].n;
		ret->traceback.p = t[2].p;
		ret->traceback.n = t[2].n;
		return 0;
	case FRAME_DEAD:
		timeout = interp_dead_get(f, &timeout, &signaled, &code) && timeout;
		return run_died(i, timeout, ret, err);
	default:
		return take_done(i, f, ret);
	}
}

int interp_next(struct interp *i, struct interp_event *ret, struct err *err)
{
	struct interp_frame f;
	int got;

	*ret = (struct interp_event){.kind = INTERP_NONE};
	got = interp_link_next(&i->link, &f, err);
	if (got < 0)
		return -1;
	if (got)
		return take_frame(i, &f, ret, err);
	if (i->link.ended)
		return run_died(i, false, ret, err);
	if (i->deadline_ms && clock_mono_ms() > i->deadline_ms) {
		agent_task_kill(i->at.agent, i->at.p.task, 0, NULL, NULL);
		return run_died(i, true, ret, err);
	}
	return 0;
}
