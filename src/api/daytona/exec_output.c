/*
 * exec_output.c - output of one-shot commands under a ceiling, see toolbox.h. Beyond the ceiling
 * the command runs on and its bytes are counted, so that its exit code stays its own (A23).
 */
#include "api/daytona/toolbox.h"

#define OUTPUT_ALL 8 /* bound of all outputs in memory, as a multiple of the ceiling of one */

bool exec_output_room(struct http_req *req, uint64_t bytes)
{
	return http_held(req) + bytes <= OUTPUT_ALL * core_settings(api_core(req))->output_max;
}

/* Worst case: each byte becomes six of JSON, and a full buffer doubles. */
static bool output_fits(const struct exec_output *o, const struct buf *b, size_t n)
{
	if (o->kept + n <= EXEC_OUTPUT_SHARE || b->cap - b->len > 6 * n + 64)
		return true;
	return exec_output_room(o->req, MAX(b->cap, 6 * n));
}

static int output_keep(struct exec_output *o, struct buf *b, const void *p, size_t n,
		       struct err *err)
{
	int rc;

	if (o->raw) {
		rc = buf_add(b, p, n, err);
	} else {
		jw_text_more(o->w, p, n);
		rc = jw_end(o->w, err);
	}
	o->kept += n;
	http_hold(o->req, b->cap);
	return rc;
}

int exec_output_sink(void *arg, int stream, const void *p, size_t n, struct err *err)
{
	struct exec_output *o = arg;
	struct buf *b = o->raw ? o->raw : o->w->b;
	uint64_t room = o->max - o->kept;

	(void)stream;
	if (n > room) {
		n = (size_t)room;
		o->cut = true;
	}
	if (n && !output_fits(o, b, n)) {
		/* No gaps: what comes later is left out too. */
		o->max = o->kept;
		o->cut = true;
		return 0;
	}
	return n ? output_keep(o, b, p, n, err) : 0;
}

int exec_check_timeout(const struct exec_result *r, int64_t timeout_s, struct err *err)
{
	if (r->cause != EXEC_TIMEOUT)
		return 0;
	return err_tagged(err, ERR_TIMEOUT, "PROCESS_EXECUTION_TIMEOUT",
			  "command execution timeout: it ran longer than %lld s and was killed",
			  (long long)timeout_s);
}

static const char *const cause_names[] = {
	[EXEC_EXITED] = "exited",
	[EXEC_SIGNAL] = "signal",
	[EXEC_TIMEOUT] = "timeout",
	[EXEC_OOM] = "oom",
};

static void put_oom(struct jw *w, const struct exec_result *r)
{
	jw_key(w, "oom");
	jw_open(w, '{');
	jw_key(w, "limit");
	jw_uint(w, r->oom_limit);
	jw_key(w, "peak");
	jw_uint(w, r->oom_peak);
	jw_kstr(w, "victim", r->oom_victim);
	jw_close(w, '}');
}

void exec_put_result(struct jw *w, const struct exec_result *r, bool cut)
{
	/* A shell whose child the kernel killed may end with 0: the death must not look like
	 * success. */
	bool hidden = r->cause == EXEC_OOM && r->exit_code == 0;

	jw_kint(w, "exitCode", hidden ? 137 : r->exit_code);
	if (r->cause != EXEC_EXITED)
		jw_kstr(w, "cause", cause_names[r->cause]);
	if (r->cause == EXEC_OOM)
		put_oom(w, r);
	if (cut) {
		jw_kbool(w, "truncated", true);
		jw_key(w, "totalBytes");
		jw_uint(w, r->total_out + r->total_err);
	}
	if (r->cwd_fell_back)
		jw_kstr(w, "cwdFallback", r->cwd);
}
