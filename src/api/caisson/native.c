/*
 * native.c - hooks, errors and status of the native dialect.
 */
#include "api/caisson/native.h"

#include "caisson/dialects.h"

static int native_enter(struct http_req *req, const struct http_route *rt, struct err *err)
{
	return api_enter(req, &caisson_native_meta[rt->tag], "cli", err);
}

static void native_leave(struct http_req *req, const struct http_route *rt, int status,
			 const struct err *err)
{
	api_leave(req, &caisson_native_meta[rt->tag], status, err);
}

void native_error_members(struct jw *w, int status, const struct err *err)
{
	jw_kint(w, "statusCode", status);
	jw_kstr(w, "code", err->tag ? err->tag : err_code_name(err->code));
	jw_kstr(w, "message", err->msg);
}

static void native_error(struct http_req *req, int status, const struct err *err, struct buf *out)
{
	struct jw w;

	jw_init(&w, out);
	jw_open(&w, '{');
	native_error_members(&w, status, err);
	jw_kstr(&w, "requestId", http_request_id(req));
	jw_close(&w, '}');
}

int caisson_native_getStatus(struct http_req *req, struct err *err)
{
	auto_buf struct buf b = BUF_INIT(API_REPLY_MAX);
	const struct core_config *cfg = core_settings(api_core(req));
	char why[256] = "";
	bool ready = core_ready(api_core(req), why, sizeof(why));
	struct jw w;

	jw_init(&w, &b);
	jw_open(&w, '{');
	jw_kstr(&w, "version", cfg->version);
	jw_kstr(&w, "region", cfg->region);
	jw_kbool(&w, "ready", ready);
	jw_kstr(&w, "reason", ready ? NULL : why);
	jw_close(&w, '}');
	return api_reply(req, 200, &w, err);
}

const struct http_dialect caisson_native = {
	.name = "caisson_native",
	.prefix = CAISSON_NATIVE_PREFIX,
	.route = caisson_native_routes,
	.nroutes = CAISSON_NATIVE_NROUTES,
	.enter = native_enter,
	.leave = native_leave,
	.error = native_error,
	.ctx_free = api_ctx_free,
};
