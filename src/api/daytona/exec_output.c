/*
 * exec_output.c - output of one-shot commands under a ceiling, see toolbox.h. Beyond the ceiling
 * the command runs on and its bytes are counted, so that its exit code stays its own (A23).
 */
#include "api/daytona/toolbox.h"

int exec_output_sink(void *arg, int stream, const void *p, size_t n, struct err *err)
{
	struct exec_output *o = arg;
	uint64_t room = o->max - o->kept;

	(void)stream;
	if (n > room) {
		n = (size_t)room;
		o->cut = true;
	}
	o->kept += n;
	if (o->raw)
		return buf_add(o->raw, p, n, err);
	jw_text_more(o->w, p, n);
	return jw_end(o->w, err);
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
