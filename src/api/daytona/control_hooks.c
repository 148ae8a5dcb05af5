/*
 * control_hooks.c - the two dialects of the Daytona contract as the server sees them.
 */
#include "api/daytona/signed.h"
#include "caisson/dialects.h"

static const char *source_of(struct http_req *req)
{
	return http_header(req, "X-Daytona-Source");
}

static int control_enter(struct http_req *req, const struct http_route *rt, struct err *err)
{
	http_reply_header(req, "X-Daytona-Api-Version", CAISSON_VERSION);
	return api_enter(req, &daytona_control_meta[rt->tag], source_of(req), err);
}

static void control_leave(struct http_req *req, const struct http_route *rt, int status,
			  const struct err *err)
{
	api_leave(req, &daytona_control_meta[rt->tag], status, err);
}

static int toolbox_enter(struct http_req *req, const struct http_route *rt, struct err *err)
{
	if (signed_link(req, rt))
		return signed_enter(req, rt, err);
	return api_enter(req, &daytona_toolbox_meta[rt->tag], source_of(req), err);
}

static void toolbox_leave(struct http_req *req, const struct http_route *rt, int status,
			  const struct err *err)
{
	api_leave(req, &daytona_toolbox_meta[rt->tag], status, err);
}

const struct http_dialect daytona_control = {
	.name = "daytona_control",
	.prefix = DAYTONA_CONTROL_PREFIX,
	.route = daytona_control_routes,
	.nroutes = DAYTONA_CONTROL_NROUTES,
	.enter = control_enter,
	.leave = control_leave,
	.error = daytona_error_control,
	.ctx_free = api_ctx_free,
};

const struct http_dialect daytona_toolbox = {
	.name = "daytona_toolbox",
	.prefix = DAYTONA_TOOLBOX_PREFIX,
	.route = daytona_toolbox_routes,
	.nroutes = DAYTONA_TOOLBOX_NROUTES,
	.enter = toolbox_enter,
	.leave = toolbox_leave,
	.error = daytona_error_toolbox,
	.ctx_free = api_ctx_free,
};
