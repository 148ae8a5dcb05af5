/*
 * signed.c - see signed.h; and the calls that give out and change the key of a sandbox.
 */
#include "api/daytona/signed.h"

#include <string.h>

#include "caisson/files.h"

/* Which verb the signature is over: a HEAD is let in by the link of its GET. */
static const struct {
	const char *op, *verb;
} signed_ops[] = {{"DownloadFile", "GET"}, {"HeadFile", "GET"}, {"UploadFile", "POST"}};

static const char *verb_of(const struct http_route *rt)
{
	for (size_t i = 0; i < ARRAY_LEN(signed_ops); i++)
		if (strcmp(rt->op, signed_ops[i].op) == 0)
			return signed_ops[i].verb;
	return NULL;
}

bool signed_link(struct http_req *req, const struct http_route *rt)
{
	return verb_of(rt) && http_query(req, "signature") && !http_header(req, "Authorization");
}

int signed_enter(struct http_req *req, const struct http_route *rt, struct err *err)
{
	const char *path = http_query(req, "path"), *expires = http_query(req, "expires");
	struct caller who;

	if (!path || !expires)
		return err_set(err, ERR_UNAUTHORIZED,
			       "signature: the link has no path or no expires");
	if (signature_check(api_core(req), http_param(req, "sandboxId"), verb_of(rt), path, expires,
			    http_query(req, "signature"), &who, err) < 0)
		return -1;
	return api_enter_as(req, &who, http_header(req, "X-Daytona-Source"), err);
}

static int reply_key(struct http_req *req, const char *key, struct err *err)
{
	auto_buf struct buf b = BUF_INIT(API_REPLY_MAX);
	struct jw w;

	jw_init(&w, &b);
	jw_str(&w, key);
	/* It would be a pity to find it in a cache. */
	http_reply_header(req, "Cache-Control", "no-store");
	return api_reply(req, 200, &w, err);
}

int daytona_control_getSandboxSigningKey(struct http_req *req, struct err *err)
{
	char key[SIGNING_KEY_LEN];

	if (signing_key_get(api_core(req), api_who(req), http_param(req, "sandboxId"), key, err) <
	    0)
		return -1;
	return reply_key(req, key, err);
}

int daytona_control_getSigningKey(struct http_req *req, struct err *err)
{
	return daytona_control_getSandboxSigningKey(req, err);
}

int daytona_control_rotateSigningKey(struct http_req *req, struct err *err)
{
	char key[SIGNING_KEY_LEN];

	if (signing_key_rotate(api_core(req), api_who(req), http_param(req, "sandboxId"), key,
			       err) < 0)
		return -1;
	return reply_key(req, key, err);
}
