/*
 * interp.c - what the native dialect adds to the code interpreter: stopping what runs.
 */
#include "api/caisson/native.h"

#include "caisson/interp.h"

int caisson_native_interruptContext(struct http_req *req, struct err *err)
{
	auto_sandbox struct sandbox s = {0};

	if (sandbox_get(api_core(req), api_who(req), http_param(req, "id"), &s, err) < 0)
		return -1;
	api_target(req, s.id);
	if (interp_interrupt(api_core(req), api_who(req), s.id, http_param(req, "contextId"), err) <
	    0)
		return -1;
	return http_reply_empty(req, 204, err);
}
