/*
 * task.c - the table of tasks: ids, records, deadlines, forgetting.
 */
#include "init/task.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

static struct task *first, *last;
static struct task *slots[TASKS_MAX];
static size_t ntasks, held;
static uint64_t made;
static int64_t due_ms;

struct task *task_first(void)
{
	return first;
}

int task_unknown(const char *id, struct err *err)
{
	return err_tagged(err, ERR_NOT_FOUND, "PROCESS_NOT_FOUND", "no process %.160s", id);
}

int task_over(const struct task *t, struct err *err)
{
	if (t->kind == TASK_SESSION)
		return err_tagged(err, ERR_GONE, "SESSION_ENDED", "session %s has ended", t->id);
	return err_tagged(err, ERR_GONE, "COMMAND_ALREADY_COMPLETED", "process %s has ended",
			  t->id);
}

bool task_hold(size_t n)
{
	size_t ceiling = MAX(task_logs_ceiling() / TASK_HOLD_SHARE, (size_t)TASK_HOLD_MIN);

	if (held > ceiling || n > ceiling - held)
		return false;
	held += n;
	return true;
}

void task_release(size_t n)
{
	held -= n;
}

/* ---- finding ---- */

static struct task *task_by_id(const char *id)
{
	for (struct task *t = last; t; t = t->prev)
		if (strcmp(t->id, id) == 0)
			return t;
	return NULL;
}

struct task *task_find(const char *id)
{
	struct task *t = task_by_id(id);

	return t && !t->removed ? t : NULL;
}

bool task_id_taken(const char *id)
{
	return task_by_id(id) != NULL;
}

uint64_t task_tag(const struct task *t, enum task_fd which)
{
	return LOOP_TAG_TASK | (uint64_t)t->slot << 2 | which;
}

struct task *task_by_tag(uint64_t tag, enum task_fd *ret_which)
{
	*ret_which = (enum task_fd)(tag & 3);
	return slots[(tag & ~LOOP_TAG_TASK) >> 2];
}

/* ---- making and forgetting ---- */

static bool task_has_children(const struct task *session)
{
	for (const struct task *t = first; t; t = t->next)
		if (t->shell == session)
			return true;
	return false;
}

/*
 * What nobody can miss: it has ended, and nothing writes to it any more. To stop reading what a
 * process left in the background still writes would end that process.
 */
static bool task_spent(const struct task *t)
{
	return t->state == TASK_ENDED && !t->removed && !t->killing && !task_streams_open(t) &&
	       !(t->kind == TASK_SESSION && task_has_children(t));
}

static int table_room(struct init *in, struct err *err)
{
	struct task *old = NULL;

	if (ntasks < TASKS_MAX)
		return 0;
	for (struct task *t = first; t; t = t->next)
		if (task_spent(t) && (!old || t->ended_ms < old->ended_ms))
			old = t;
	if (!old)
		return err_set(err, ERR_LIMIT,
			       "processes: %d are kept in this sandbox, end or delete some",
			       TASKS_MAX);
	task_free(in, old);
	return 0;
}

static int task_check(const char *id, const char *label, struct err *err)
{
	if (!*id || strlen(id) > TASK_ID_MAX)
		return err_set(err, ERR_INVALID, "id: must have 1 to %d bytes", TASK_ID_MAX);
	if (strlen(label) > TASK_LABEL_MAX)
		return err_set(err, ERR_INVALID, "label: is over %d bytes", TASK_LABEL_MAX);
	return 0;
}

struct task *task_new(struct init *in, const char *id, const char *parent, const char *label,
		      struct err *err)
{
	struct task *t;

	if (task_check(id, label, err) < 0 || table_room(in, err) < 0)
		return NULL;
	t = calloc(1, sizeof(*t));
	if (t) {
		t->id = strdup(id);
		t->parent = strdup(parent);
		t->label = strdup(label);
	}
	if (!t || !t->id || !t->parent || !t->label) {
		if (t) {
			free(t->id);
			free(t->parent);
			free(t->label);
		}
		free(t);
		err_set(err, ERR_NOMEM, "out of memory");
		return NULL;
	}
	t->fd[0] = t->fd[1] = t->fd[2] = -1;
	t->exec.master = -1;
	t->created_ms = clock_wall_ms();
	t->seq = ++made;
	while (slots[t->slot])
		t->slot++;
	slots[t->slot] = t;
	t->prev = last;
	if (last)
		last->next = t;
	else
		first = t;
	last = t;
	ntasks++;
	return t;
}

void task_free(struct init *in, struct task *t)
{
	/* Whoever waits for the end of the record finds its memory given back. */
	for (int i = 0; i < 2; i++)
		ring_done(&t->ring[i]);
	task_ops_gone(in, t);
	for (int i = 0; i < 3; i++)
		task_close(in, t, (enum task_fd)i);
	if (t->exec.pid) {
		tree_kill(&t->exec);
		tree_retire(&t->exec);
	}
	if (t->kind == TASK_COMMAND)
		command_forget(t);
	session_free(t);
	*(t->prev ? &t->prev->next : &first) = t->next;
	*(t->next ? &t->next->prev : &last) = t->prev;
	slots[t->slot] = NULL;
	ntasks--;
	free(t->id);
	free(t->parent);
	free(t->label);
	free(t->cwd);
	free(t);
}

/* ---- records ---- */

void task_rec(const struct task *t, struct task_rec *ret)
{
	*ret = (struct task_rec){
		.id = t->id,
		.parent = t->parent,
		.label = t->label,
		.cwd = t->cwd ? t->cwd : "",
		.kind = t->kind,
		.state = t->state,
		.how = t->how,
		.cause = t->cause,
		.code = t->code,
		.pid = t->pid,
		.uid = t->uid,
		.gid = t->gid,
		.cols = t->cols,
		.rows = t->rows,
		.created_ms = (uint64_t)t->created_ms,
		.started_ms = (uint64_t)t->started_ms,
		.ended_ms = (uint64_t)t->ended_ms,
		.out_first = t->ring[0].first,
		.out_total = t->ring[0].total,
		.err_first = t->ring[1].first,
		.err_total = t->ring[1].total,
		.user_us = t->user_us,
		.sys_us = t->sys_us,
		.maxrss_kib = t->maxrss_kib,
	};
}

int task_reply(struct init *in, struct conn *c, const struct task *t, int existed, const int *fds,
	       size_t nfds)
{
	static uint8_t raw[TASK_REPLY_MAX];
	struct wire_out o = wire_out_on(raw, sizeof(raw));
	struct task_rec rec;

	task_rec(t, &rec);
	task_rec_put(&o, &rec);
	if (existed >= 0)
		wire_put_u8(&o, (uint8_t)existed);
	return conn_send(in, c, AGENT_OK, raw, o.len, fds, nfds, true);
}

/* ---- deadlines ---- */

void task_due(int64_t at_ms)
{
	if (at_ms && (!due_ms || at_ms < due_ms))
		due_ms = at_ms;
}

int64_t tasks_due(void)
{
	return due_ms;
}

static int64_t task_nearest(const struct task *t)
{
	const int64_t at[] = {t->timeout_at, t->kill_at, t->poll_at, t->eof_at, t->forget_at};
	int64_t nearest = 0;

	for (size_t i = 0; i < ARRAY_LEN(at); i++)
		if (at[i] && (!nearest || at[i] < nearest))
			nearest = at[i];
	return nearest;
}

/* Timers may free any task, so the search begins anew after each. */
void tasks_expire(struct init *in)
{
	int64_t now;

	if (!due_ms)
		return;
	now = clock_mono_ms();
	while (due_ms && due_ms <= now) {
		struct task *expired = NULL;

		due_ms = 0;
		for (struct task *t = first; t && !expired; t = t->next) {
			int64_t at = task_nearest(t);

			if (at && at <= now)
				expired = t;
			task_due(at);
		}
		if (expired)
			task_timers(in, expired, now);
	}
}
