/*
 * errors.c - error bodies of the Daytona dialect (contract §2.6). SDKs choose the exception class
 * by status, source and code; the text is for people.
 */
#include "api/daytona/daytona.h"

#include <string.h>

#include "base/clock.h"

static const struct {
	enum err_code code;
	const char *text;
} generic_codes[] = {
	{ERR_INVALID, "BAD_REQUEST"},	      {ERR_LIMIT, "BAD_REQUEST"},
	{ERR_UNAUTHORIZED, "UNAUTHORIZED"},   {ERR_FORBIDDEN, "FORBIDDEN"},
	{ERR_NOT_FOUND, "NOT_FOUND"},	      {ERR_TIMEOUT, "REQUEST_TIMEOUT"},
	{ERR_CONFLICT, "CONFLICT"},	      {ERR_GONE, "GONE"},
	{ERR_TOO_LARGE, "PAYLOAD_TOO_LARGE"}, {ERR_UNPROCESSABLE, "UNPROCESSABLE_ENTITY"},
	{ERR_RATE, "TOO_MANY_REQUESTS"},      {ERR_NOT_BUILT, "NOT_IMPLEMENTED"},
	{ERR_AGENT, "BAD_GATEWAY"},	      {ERR_UNAVAILABLE, "SERVICE_UNAVAILABLE"},
	{ERR_NOMEM, "SERVICE_UNAVAILABLE"},   {ERR_UPSTREAM, "BAD_GATEWAY"},
};

static const char *code_of(const struct err *err)
{
	if (err->tag)
		return err->tag;
	for (size_t i = 0; i < ARRAY_LEN(generic_codes); i++)
		if (generic_codes[i].code == err->code)
			return generic_codes[i].text;
	return "INTERNAL_SERVER_ERROR";
}

void daytona_error_control(struct http_req *req, int status, const struct err *err, struct buf *out)
{
	struct jw w;

	jw_init(&w, out);
	jw_open(&w, '{');
	jw_kstr(&w, "path", http_path(req));
	jw_key(&w, "timestamp");
	jw_time(&w, clock_wall_ms());
	jw_kint(&w, "statusCode", status);
	jw_kstr(&w, "error", api_status_text(status));
	jw_kstr(&w, "message", err->msg);
	jw_kstr(&w, "code", code_of(err));
	jw_kstr(&w, "source", "DAYTONA_API");
	jw_close(&w, '}');
}

void daytona_error_members(struct jw *w, int status, const struct err *err, const char *path,
			   const char *method)
{
	jw_kint(w, "statusCode", status);
	jw_kstr(w, "message", err->msg);
	jw_kstr(w, "code", code_of(err));
	jw_key(w, "timestamp");
	jw_time(w, clock_wall_ms());
	jw_kstr(w, "path", path);
	jw_kstr(w, "method", method);
	jw_kstr(w, "source", "DAYTONA_DAEMON");
}

void daytona_error_toolbox(struct http_req *req, int status, const struct err *err, struct buf *out)
{
	struct jw w;

	jw_init(&w, out);
	jw_open(&w, '{');
	daytona_error_members(&w, status, err, http_path(req), http_method(req));
	jw_close(&w, '}');
}
