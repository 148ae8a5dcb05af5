/*
 * api.c - see api.h. The one place where a bearer token becomes a caller and a call an audit row.
 */
#include "api/api.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

struct api_ctx {
	struct caller who;
	char target[CORE_NAME_MAX];
};

static const struct {
	const char *name;
	uint32_t bit;
} api_perms[] = {
	{"write:sandboxes", PERM_WRITE_SANDBOXES}, {"delete:sandboxes", PERM_DELETE_SANDBOXES},
	{"write:snapshots", PERM_WRITE_SNAPSHOTS}, {"delete:snapshots", PERM_DELETE_SNAPSHOTS},
	{"manage:api_keys", PERM_MANAGE_API_KEYS}, {"read:audit_logs", PERM_READ_AUDIT},
};

struct core *api_core(struct http_req *req)
{
	return http_app(req);
}

const struct caller *api_who(struct http_req *req)
{
	return &((const struct api_ctx *)http_ctx(req))->who;
}

void api_target(struct http_req *req, const char *id)
{
	struct api_ctx *ctx = http_ctx(req);

	if (ctx)
		snprintf(ctx->target, sizeof(ctx->target), "%s", id);
}

void api_ctx_free(void *ctx)
{
	free(ctx);
}

/* The token behind "Bearer ", or NULL. */
static const char *bearer_of(struct http_req *req)
{
	const char *h = http_header(req, "Authorization");

	if (!h || strncasecmp(h, "Bearer ", 7) != 0)
		return NULL;
	h += 7;
	return h + strspn(h, " ");
}

static int need_permission(const struct caller *who, const char *name, struct err *err)
{
	for (size_t i = 0; i < ARRAY_LEN(api_perms); i++)
		if (strcmp(name, api_perms[i].name) == 0)
			return identity_need(who, api_perms[i].bit, err);
	return identity_need(who, PERM_OTHER, err);
}

static void fill_origin(struct http_req *req, struct caller *who, const char *source)
{
	const char *agent = http_header(req, "User-Agent");

	snprintf(who->address, sizeof(who->address), "%s", http_remote(req));
	snprintf(who->user_agent, sizeof(who->user_agent), "%s", agent ? agent : "");
	snprintf(who->source, sizeof(who->source), "%s", source ? source : "");
}

int api_enter(struct http_req *req, const struct http_route_meta *meta, const char *source,
	      struct err *err)
{
	const char *token = bearer_of(req);
	struct api_ctx *ctx;

	if (!meta->auth)
		return 0;
	if (!token || !*token)
		return err_set(err, ERR_UNAUTHORIZED,
			       "an API key is needed: Authorization: Bearer <key>");
	ctx = calloc(1, sizeof(*ctx));
	if (!ctx)
		return err_set(err, ERR_NOMEM, "out of memory");
	if (identity_check(api_core(req), token, http_header(req, "X-Daytona-Organization-ID"),
			   &ctx->who, err) < 0) {
		free(ctx);
		return -1;
	}
	fill_origin(req, &ctx->who, source);
	http_set_ctx(req, ctx);
	return meta->permission ? need_permission(&ctx->who, meta->permission, err) : 0;
}

int api_enter_as(struct http_req *req, const struct caller *who, const char *source,
		 struct err *err)
{
	struct api_ctx *ctx = calloc(1, sizeof(*ctx));

	if (!ctx)
		return err_set(err, ERR_NOMEM, "out of memory");
	ctx->who = *who;
	fill_origin(req, &ctx->who, source);
	http_set_ctx(req, ctx);
	return 0;
}

/* What the path names, when the handler did not say it. */
static const char *path_target(struct http_req *req)
{
	static const char *const params[] = {"sandboxIdOrName", "sandboxId", "id", "name"};

	for (size_t i = 0; i < ARRAY_LEN(params); i++)
		if (*http_param(req, params[i]))
			return http_param(req, params[i]);
	return "";
}

void api_leave(struct http_req *req, const struct http_route_meta *meta, int status,
	       const struct err *err)
{
	const struct api_ctx *ctx = http_ctx(req);
	struct audit_entry e = {0};

	if (!meta->action || !ctx)
		return;
	e.action = meta->action;
	e.target_type = meta->target;
	e.target_id = ctx->target[0] ? ctx->target : path_target(req);
	e.error = err && err->code != ERR_NONE ? err->msg : NULL;
	e.status = status;
	audit_write(api_core(req), &ctx->who, &e);
}

const char *api_status_text(int status)
{
	static const struct {
		int status;
		const char *text;
	} rows[] = {
		{400, "Bad Request"},
		{401, "Unauthorized"},
		{403, "Forbidden"},
		{404, "Not Found"},
		{405, "Method Not Allowed"},
		{408, "Request Timeout"},
		{409, "Conflict"},
		{410, "Gone"},
		{413, "Payload Too Large"},
		{414, "URI Too Long"},
		{415, "Unsupported Media"},
		{422, "Unprocessable Entity"},
		{426, "Upgrade Required"},
		{429, "Too Many Requests"},
		{431, "Request Header Fields Too Large"},
		{499, "Client Closed Request"},
		{500, "Internal Server Error"},
		{501, "Not Implemented"},
		{502, "Bad Gateway"},
		{503, "Service Unavailable"},
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (rows[i].status == status)
			return rows[i].text;
	return status >= 500 ? "Internal Server Error" : "Bad Request";
}

int api_body(struct http_req *req, const struct jt_table *t, void *out, struct jt_doc *doc,
	     struct err *err)
{
	const struct buf *b = http_body(req);

	if (jt_parse(doc, buf_str(b), b ? b->len : 0, err) < 0)
		return -1;
	return jt_decode(doc, t, out, err);
}

int api_reply(struct http_req *req, int status, struct jw *w, struct err *err)
{
	char *text;

	if (jw_end(w, err) < 0)
		return -1;
	text = buf_take(w->b);
	if (!text)
		return err_set(err, ERR_NOMEM, "out of memory");
	return http_reply_json(req, status, text, err);
}
