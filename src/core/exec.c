/*
 * exec.c - commands in a sandbox: open, and the verdict at the end. The pump is exec_run.c.
 *
 * A running command is activity (E11): a sandbox with one is not idle, whatever it prints. What
 * a command left in the background is not: it doesn't hold the sandbox up.
 *
 * Memory exhaustion is known from the runner's events and counter. A command is blamed on it when
 * kills happened between its spawn and its end, and either it died like a killed one or it was the
 * only command then, so that the victim can only have been its own child (A53).
 */
#include <string.h>
#include <signal.h>

#include "base/clock.h"
#include "base/log.h"
#include "core/exec.h"

#define OOM_EVENT_MS 300 /* how long the event may lag behind the exit */
#define EXIT_OF_KILL (128 + SIGKILL)
#define CUT_LOOKS    6
#define CUT_PAUSE_MS 20

/* ---- what is spawned ---- */

int exec_spec_valid(const struct exec_spec *s, struct err *err)
{
	if (!s->argv || !s->argv[0] || !s->argv[0][0])
		return err_set(err, ERR_INVALID, "command: must not be empty");
	if (s->shell && s->argv[0][strspn(s->argv[0], " \t\r\n")] == '\0')
		return err_set(err, ERR_INVALID, "command: must not be blank");
	if (s->timeout_ms < 0)
		return err_set(err, ERR_INVALID, "timeout: must be 0 or more");
	if (s->env && valid_env("env", s->env, err) < 0)
		return -1;
	if (s->user && s->user[0] && valid_user("user", s->user, err) < 0)
		return -1;
	if (s->cwd && strlen(s->cwd) >= AGENT_PATH_MAX)
		return err_set(err, ERR_INVALID, "cwd: must be at most %d bytes",
			       AGENT_PATH_MAX - 1);
	return 0;
}

static int env_build(const struct sandbox_row *row, const struct kv *more, struct kv *env,
		     struct err *err)
{
	const struct {
		const char *name, *value;
	} own[] = {
		{"DAYTONA_SANDBOX_ID", row->s.id},
		{"DAYTONA_SANDBOX_SNAPSHOT", row->s.snapshot},
		{"DAYTONA_SANDBOX_USER", row->s.user},
		{"DAYTONA_ORGANIZATION_ID", row->s.org_id},
		{"DAYTONA_REGION_ID", row->s.region},
	};

	for (size_t i = 0; i < ARRAY_LEN(own); i++)
		if (kv_set(env, own[i].name, own[i].value, err) < 0)
			return -1;
	if (kv_merge(env, &row->s.env, err) < 0)
		return -1;
	return more ? kv_merge(env, more, err) : 0;
}

/* "K=V" strings behind their pointers, in one block. */
static const char **env_strings(const struct kv *env, struct err *err)
{
	size_t bytes = 0, at;
	const char **v;
	char *text;

	for (size_t i = 0; i < env->n; i++)
		bytes += strlen(env->pair[i].key) + strlen(env->pair[i].value) + 2;
	v = malloc((env->n + 1) * sizeof(*v) + bytes);
	if (!v) {
		err_set(err, ERR_NOMEM, "out of memory");
		return NULL;
	}
	text = (char *)(v + env->n + 1);
	for (size_t i = 0; i < env->n; i++) {
		at = (size_t)snprintf(text, bytes, "%s=%s", env->pair[i].key, env->pair[i].value);
		v[i] = text;
		text += at + 1;
		bytes -= at + 1;
	}
	v[env->n] = NULL;
	return v;
}

const char **spawn_env(const struct sandbox_row *row, const struct kv *more, struct err *err)
{
	auto_kv struct kv env = {0};

	return env_build(row, more, &env, err) < 0 ? NULL : env_strings(&env, err);
}

static uint32_t spawn_flags(const struct exec_spec *spec, bool want_stdin)
{
	return (spec->shell ? SPAWN_SHELL : 0) | (spec->tty ? SPAWN_TTY : 0) |
	       (want_stdin ? SPAWN_STDIN : 0) | (spec->merge ? SPAWN_MERGE : 0) |
	       (spec->cwd ? 0 : SPAWN_CWD_FALLBACK);
}

/* ---- open ---- */

static int handle_spawn(struct exec_handle *h, const struct caller *who,
			const struct sandbox_row *row, const struct exec_spec *spec,
			bool want_stdin, struct err *err)
{
	auto_free const char **envv = spawn_env(row, spec->env, err);
	char cwd[AGENT_PATH_MAX], path[108];
	struct agent_spawn as = {.argv = spec->argv,
				 .user = spec->user && spec->user[0] ? spec->user : row->s.user,
				 .flags = spawn_flags(spec, want_stdin),
				 .cols = spec->cols,
				 .rows = spec->rows};

	if (!envv || h->core->run->ops->agent_path(h->core->run, row->s.id, path, err) < 0)
		return -1;
	if (spec->cwd) {
		if (path_of(h->core, row, path, spec->cwd, cwd, err) < 0)
			return -1;
		as.cwd = cwd;
	} else if (row->s.workdir[0]) {
		as.cwd = row->s.workdir;
	}
	as.env = envv;
	if (agent_spawn(path, &as, &h->proc, clock_mono_ms() + AGENT_CALL_MS, err) < 0)
		return agent_failed(h->core, who, row->s.id, err);
	return 0;
}

struct exec_handle *exec_open(struct core *c, const struct caller *who,
			      const struct exec_spec *spec, bool want_stdin, struct err *err)
{
	auto_row struct sandbox_row row = {0};
	struct exec_handle *h;

	if (exec_spec_valid(spec, err) < 0 || row_started(c, who, spec->sandbox, &row, err) < 0)
		return NULL;
	h = calloc(1, sizeof(*h));
	if (!h) {
		err_set(err, ERR_NOMEM, "out of memory");
		return NULL;
	}
	h->core = c;
	h->proc = (struct agent_proc)AGENT_PROC_INIT;
	h->slot = slot_get(c, row.s.id);
	h->counted = slot_exec_begin(c, h->slot, err) == 0;
	pthread_mutex_lock(&c->slots.lock);
	h->before = h->slot->oom;
	pthread_mutex_unlock(&c->slots.lock);
	h->began_us = clock_mono_us();
	if (!h->counted || handle_spawn(h, who, &row, spec, want_stdin, err) < 0) {
		exec_free(h);
		return NULL;
	}
	return h;
}

struct agent_proc *exec_proc(struct exec_handle *h)
{
	return &h->proc;
}

void exec_free(struct exec_handle *h)
{
	if (!h)
		return;
	agent_proc_done(&h->proc); /* a tree that still runs is killed by the hang-up */
	if (h->counted)
		slot_exec_end(h->core, h->slot);
	slot_put(h->core, h->slot);
	free(h);
}

/* ---- the verdict ---- */

static void oom_fill(struct exec_result *r, const struct slot_oom *o)
{
	r->oom_limit = o->limit;
	r->oom_peak = o->peak;
	snprintf(r->oom_victim, sizeof(r->oom_victim), "%s", o->victim);
}

/* Kills since h began, as of now; waits for an event that is due. Returns the running commands. */
static unsigned oom_look(struct exec_handle *h, bool due, struct slot_oom *ret)
{
	struct slots *s = &h->core->slots;
	int64_t end = clock_mono_ms() + OOM_EVENT_MS, left;
	unsigned running;

	pthread_mutex_lock(&s->lock);
	while (due && h->slot->oom.seq == h->before.seq && (left = end - clock_mono_ms()) > 0)
		cond_wait_ms(&s->change, &s->lock, left);
	*ret = h->slot->oom;
	running = h->slot->running;
	pthread_mutex_unlock(&s->lock);
	return running;
}

static void oom_judge(struct exec_handle *h, struct exec_result *r)
{
	bool killed = r->signal == SIGKILL || r->exit_code == EXIT_OF_KILL;
	struct runner_stats st = {0};
	struct runner *run = h->core->run;
	struct slot_oom now;
	unsigned running = oom_look(h, false, &now);
	bool moved = now.seq != h->before.seq;

	/* A failed command may be ahead of its event: the counter tells at once. */
	if (!moved && r->exit_code != 0 && run->ops->stats(run, h->slot->id, &st, NULL) == 0 &&
	    st.oom_kills > h->before.kills) {
		running = oom_look(h, true, &now);
		moved = true;
		if (now.seq == h->before.seq) {
			now.limit = st.mem_limit;
			now.peak = st.mem_peak;
			snprintf(now.victim, sizeof(now.victim), "unknown");
		}
	}
	if (!moved)
		return;
	oom_fill(r, &now);
	if (killed || running <= 1)
		r->cause = EXEC_OOM;
}

void exec_end(struct exec_handle *h, const struct agent_exit *ex, bool timed_out,
	      struct exec_result *ret)
{
	struct exec_result r = {.cause = EXEC_EXITED,
				.total_out = ret->total_out,
				.total_err = ret->total_err,
				.wall_us = clock_mono_us() - h->began_us};

	if (ex) {
		r.signal = ex->signaled ? (int)ex->code : 0;
		r.exit_code = ex->signaled ? 128 + (int)ex->code : (int)ex->code;
		r.cpu_us = (int64_t)(ex->user_us + ex->sys_us);
		r.maxrss_kib = (int64_t)ex->maxrss_kib;
	} else {
		r.signal = SIGKILL;
		r.exit_code = EXIT_OF_KILL;
	}
	if (r.signal)
		r.cause = EXEC_SIGNAL;
	snprintf(r.cwd, sizeof(r.cwd), "%.1023s", h->proc.cwd);
	r.cwd_fell_back = h->proc.cwd_fell_back;
	if (timed_out)
		r.cause = EXEC_TIMEOUT;
	else
		oom_judge(h, &r);
	*ret = r;
}

/* The news of the stop may be a moment behind; without any, err stays. */
void exec_cut(struct exec_handle *h, const struct caller *who, struct err *err)
{
	const char *id = h->slot->id, *how = NULL;

	if (!err || (err->code != ERR_AGENT && err->code != ERR_GONE))
		return;
	for (int i = 0; i < CUT_LOOKS && !how; i++) {
		auto_row struct sandbox_row row = {0};
		struct err why = {0};

		if (i)
			usleep(CUT_PAUSE_MS * 1000);
		if (row_need(h->core, who, id, &row, &why) < 0)
			how = why.code == ERR_NOT_FOUND ? "deleted" : NULL;
		else if (row.s.state == SB_DESTROYING || row.s.state == SB_DESTROYED)
			how = "deleted";
		else if (row.s.state != SB_STARTED)
			how = "stopped";
	}
	if (how)
		err_tagged(err, ERR_GONE, "SANDBOX_STOPPED",
			   "sandbox %s was %s while the command ran", id, how);
}

/* ---- the runner's event ---- */

void box_oom(struct core *c, const char *id, const char *comm, uint64_t limit, uint64_t peak,
	     uint64_t kills, uint32_t pid)
{
	struct slot *s = slot_get(c, id);
	struct history_item item = {
		.at_ms = clock_wall_ms(), .kind = "oom", .limit = limit, .peak = peak};

	snprintf(item.victim, sizeof(item.victim), "%s", comm);
	snprintf(item.text, sizeof(item.text), "limit %llu, peak %llu, victim %.32s (pid %u)",
		 (unsigned long long)limit, (unsigned long long)peak, comm, pid);
	pthread_mutex_lock(&c->slots.lock);
	s->oom.seq++;
	s->oom.limit = limit;
	s->oom.peak = peak;
	s->oom.kills = MAX(kills, s->oom.kills);
	snprintf(s->oom.victim, sizeof(s->oom.victim), "%s", comm);
	pthread_cond_broadcast(&c->slots.change);
	pthread_mutex_unlock(&c->slots.lock);
	slot_put(c, s);
	publish_oom(c, id, &item);
}
