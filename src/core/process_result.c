/*
 * process_result.c - how a task ended, in the words of an exec.
 *
 * Memory exhaustion is known from the events of the sandbox, which are recorded with their time: a
 * task is blamed on one that fell into its life when it died like a killed one, or when it was the
 * only command then (A53). So the verdict is the same after a restart of this process.
 */
#include <signal.h>
#include <string.h>

#include "base/clock.h"
#include "core/proc.h"

#define OOM_SLACK_MS 300 /* between the kill, its event, and the end */
#define OOM_FRESH_MS 1000
#define OOM_STEP_MS  20
#define EXIT_OF_KILL (128 + SIGKILL)

/* "limit 1073741824, peak 1073741824, victim python3 (pid 17)", as box_oom writes it. */
static void oom_parse(const char *text, struct exec_result *r)
{
	const char *peak = strstr(text, "peak "), *victim = strstr(text, "victim "), *end;

	if (strncmp(text, "limit ", 6) == 0)
		r->oom_limit = strtoull(text + 6, NULL, 10);
	if (peak)
		r->oom_peak = strtoull(peak + 5, NULL, 10);
	if (!victim)
		return;
	victim += 7;
	end = strstr(victim, " (pid");
	snprintf(r->oom_victim, sizeof(r->oom_victim), "%.*s",
		 (int)(end ? end - victim : (long)strlen(victim)), victim);
}

static bool oom_seen(struct core *c, const char *sandbox, const struct task_info *t,
		     struct exec_result *r)
{
	char text[200];

	if (store_event_last(c->st, sandbox, "oom", t->started_ms - OOM_SLACK_MS,
			     t->ended_ms + OOM_SLACK_MS, text, sizeof(text), NULL) <= 0)
		return false;
	oom_parse(text, r);
	return true;
}

/* The kernel's counter is ahead of the event: wait for that a moment. */
static bool oom_due(struct core *c, const char *sandbox, const struct task_info *t,
		    struct exec_result *r, uint64_t known)
{
	int64_t end = clock_mono_ms() + OOM_SLACK_MS;
	struct runner_stats st = {0};

	if (clock_wall_ms() - t->ended_ms > OOM_FRESH_MS ||
	    c->run->ops->stats(c->run, sandbox, &st, NULL) < 0 || st.oom_kills <= known)
		return false;
	while (clock_mono_ms() < end) {
		if (oom_seen(c, sandbox, t, r))
			return true;
		usleep(OOM_STEP_MS * 1000);
	}
	r->oom_limit = st.mem_limit;
	r->oom_peak = st.mem_peak;
	snprintf(r->oom_victim, sizeof(r->oom_victim), "unknown");
	return true;
}

static void oom_judge(struct core *c, const char *sandbox, const struct task_info *t,
		      struct exec_result *r)
{
	struct slot *s = slot_get(c, sandbox);
	bool killed = r->signal == SIGKILL || r->exit_code == EXIT_OF_KILL;
	unsigned running;
	uint64_t known;

	pthread_mutex_lock(&c->slots.lock);
	running = s->running;
	known = s->oom.kills;
	pthread_mutex_unlock(&c->slots.lock);
	slot_put(c, s);
	if ((killed || running <= 1) &&
	    (oom_seen(c, sandbox, t, r) || (r->exit_code && oom_due(c, sandbox, t, r, known))))
		r->cause = EXEC_OOM;
}

int process_result(struct core *c, const char *sandbox, const struct task_info *t,
		   struct exec_result *ret, struct err *err)
{
	struct exec_result r = {.cause = EXEC_EXITED,
				.total_out = t->out_total,
				.total_err = t->err_total,
				.wall_us = (t->ended_ms - t->started_ms) * 1000,
				.cpu_us = (int64_t)(t->user_us + t->sys_us),
				.maxrss_kib = (int64_t)t->maxrss_kib};

	if (t->state != TASK_ENDED)
		return err_set(err, ERR_CONFLICT, "it has not ended yet");
	r.signal = t->signaled ? (int)t->code : 0;
	r.exit_code = t->signaled ? 128 + (int)t->code : (int)t->code;
	if (r.signal)
		r.cause = EXEC_SIGNAL;
	snprintf(r.cwd, sizeof(r.cwd), "%.1023s", t->cwd);
	if (t->cause == TASK_TIMED_OUT)
		r.cause = EXEC_TIMEOUT;
	else if (t->cause == TASK_EXITED || t->cause == TASK_SIGNALED)
		oom_judge(c, sandbox, t, &r);
	*ret = r;
	return 0;
}
