/*
 * exec_json.c - execs as JSON objects, and output collected for them.
 */
#include "api/caisson/exec_rest.h"

#include <string.h>

#include "base/base64.h"
#include "base/clock.h"
#include "base/utf8.h"

#define SHARE	  (256u << 10) /* of each stream, whatever others hold */
#define HOLD_ALL  8	       /* bound of all outputs in memory, in ceilings of one */
#define HOLD_EACH 8	       /* bytes of memory for one of output: raw, and six in JSON */
#define WAIT_MS	  30000

static const char *const cause_names[] = {
	[EXEC_EXITED] = "exited",
	[EXEC_SIGNAL] = "signal",
	[EXEC_TIMEOUT] = "timeout",
	[EXEC_OOM] = "oom",
};
static const char *const state_names[] = {
	[TASK_QUEUED] = "queued",
	[TASK_RUNNING] = "running",
	[TASK_ENDED] = "ended",
};

static void put_u64(struct jw *w, const char *key, uint64_t v)
{
	jw_key(w, key);
	jw_uint(w, v);
}

static void put_time(struct jw *w, const char *key, int64_t ms)
{
	if (!ms)
		return;
	jw_key(w, key);
	jw_time(w, ms);
}

void exec_put_end(struct jw *w, const struct exec_result *r)
{
	/* A shell whose child the kernel killed may end with 0: it must not look like success. */
	bool hidden = r->cause == EXEC_OOM && r->exit_code == 0;

	jw_kint(w, "exitCode", hidden ? 137 : r->exit_code);
	jw_kstr(w, "cause", cause_names[r->cause]);
	if (r->signal)
		jw_kint(w, "signal", r->signal);
	if (r->cause == EXEC_OOM) {
		jw_key(w, "oom");
		jw_open(w, '{');
		put_u64(w, "limit", r->oom_limit);
		put_u64(w, "peak", r->oom_peak);
		jw_kstr(w, "victim", r->oom_victim);
		jw_close(w, '}');
	}
	if (r->cwd_fell_back)
		jw_kstr(w, "cwdFallback", r->cwd);
}

void exec_put_lost(struct jw *w, const char *sandbox)
{
	jw_kstr(w, "state", "lost");
	jw_kstr(w, "cause", "lost");
	jw_key(w, "exitCode");
	jw_raw(w, "null");
	jw_kstr(w, "reason", "the sandbox was stopped; whether it came to its end is not known");
	jw_kstr(w, "sandboxId", sandbox);
}

static void put_stream(struct jw *w, const char *key, uint64_t first, uint64_t total)
{
	jw_key(w, key);
	jw_open(w, '{');
	put_u64(w, "first", first);
	put_u64(w, "total", total);
	jw_close(w, '}');
}

void exec_put(struct jw *w, struct core *c, const char *sandbox, const struct task_info *t)
{
	struct exec_result r = {0};

	jw_open(w, '{');
	jw_kstr(w, "id", t->id);
	jw_kstr(w, "sandboxId", sandbox);
	jw_kstr(w, "state", state_names[t->state]);
	jw_kint(w, "pid", t->pid);
	jw_kstr(w, "cwd", t->cwd);
	if (t->cols)
		jw_kint(w, "cols", t->cols);
	if (t->rows)
		jw_kint(w, "rows", t->rows);
	put_time(w, "createdAt", t->created_ms);
	put_time(w, "startedAt", t->started_ms);
	put_time(w, "endedAt", t->ended_ms);
	put_stream(w, "stdout", t->out_first, t->out_total);
	put_stream(w, "stderr", t->err_first, t->err_total);
	if (t->state == TASK_ENDED && process_result(c, sandbox, t, &r, NULL) == 0) {
		exec_put_end(w, &r);
		put_u64(w, "cpuUs", (uint64_t)r.cpu_us);
		put_u64(w, "maxRssKib", (uint64_t)r.maxrss_kib);
	}
	jw_close(w, '}');
}

/* ---- collected output ---- */

void exec_keep_init(struct exec_keep *k, struct http_req *req, bool base64, uint64_t max)
{
	uint64_t most = core_settings(api_core(req))->output_max;

	*k = (struct exec_keep){.req = req, .base64 = base64, .max = max ? MIN(max, most) : most};
	buf_init(&k->b[0], (size_t)k->max + 1);
	buf_init(&k->b[1], (size_t)k->max + 1);
}

void exec_keep_done(struct exec_keep *k)
{
	buf_done(&k->b[0]);
	buf_done(&k->b[1]);
}

/* Bounded by itself and, with all other requests, by the memory of the daemon. */
static size_t keep_room(struct exec_keep *k, const struct buf *b, size_t n)
{
	uint64_t most = HOLD_ALL * core_settings(api_core(k->req))->output_max;
	size_t room = (size_t)MIN(k->max - b->len, (uint64_t)n);

	if (b->len + room > SHARE && http_held(k->req) + HOLD_EACH * room > most)
		room = 0;
	return room;
}

int exec_keep_sink(void *arg, int stream, const void *p, size_t n, struct err *err)
{
	struct exec_keep *k = arg;
	int i = stream == 2;
	struct buf *b = &k->b[i];
	size_t room;

	/* No gaps: after the first byte left out nothing more of the stream is kept. */
	room = k->first[i] + b->len == k->total[i] ? keep_room(k, b, n) : 0;
	k->total[i] += n;
	k->cut = k->cut || room < n;
	if (room && buf_add(b, p, room, err) < 0)
		return -1;
	http_hold(k->req, HOLD_EACH * (k->b[0].len + k->b[1].len));
	return 0;
}

int exec_keep_log(struct exec_keep *k, struct process_log *log, struct task_info *end,
		  struct err *err)
{
	int client = http_client_fd(k->req), got;
	struct task_chunk c;

	while ((got = process_log_next(log, &c, end, client, clock_mono_ms() + WAIT_MS, err)) >=
	       0) {
		if (got == TASK_READ_END)
			break;
		if (got == TASK_READ_GAP) {
			/* What comes before the first kept byte is a later begin, else a hole. */
			if (!k->b[c.stream == 2].len)
				k->first[c.stream == 2] = c.offset + c.n;
			k->total[c.stream == 2] = c.offset + c.n;
			k->cut = true;
		}
		if (got == TASK_READ_DATA) {
			if (!k->b[c.stream == 2].len && !k->total[c.stream == 2])
				k->first[c.stream == 2] = k->total[c.stream == 2] = c.offset;
			if (exec_keep_sink(k, c.stream, c.p, (size_t)c.n, err) < 0)
				return -1;
		}
	}
	return got < 0 ? -1 : 0;
}

static void keep_text(struct jw *w, const struct exec_keep *k, int i, const char *key)
{
	const struct buf *b = &k->b[i];
	auto_buf struct buf text = BUF_INIT(BASE64_LEN((size_t)k->max + 3) + 1);
	size_t n = b->len, floor = n;

	jw_key(w, key);
	if (k->base64) {
		if (base64_encode(b->data, b->len, &text, &w->first) < 0)
			w->failed = true;
		jw_strn(w, buf_str(&text), text.len);
		return;
	}
	/* A character that was cut at the ceiling is left out, not replaced. */
	if (k->cut && n)
		floor = utf8_floor(b->data, n);
	jw_strn(w, buf_str(b), n - floor < 4 ? floor : n);
}

void exec_keep_put(struct jw *w, const struct exec_keep *k)
{
	static const char *const names[][3] = {{"stdout", "stdoutBytes", "stdoutFirst"},
					       {"stderr", "stderrBytes", "stderrFirst"}};

	for (int i = 0; i < 2; i++) {
		keep_text(w, k, i, names[i][0]);
		put_u64(w, names[i][1], k->total[i]);
		if (k->first[i])
			put_u64(w, names[i][2], k->first[i]);
	}
	jw_kstr(w, "encoding", k->base64 ? "base64" : "text");
	jw_kbool(w, "truncated", k->cut);
}
