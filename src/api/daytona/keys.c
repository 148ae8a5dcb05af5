/*
 * keys.c - API keys of the caller's organization.
 */
#include "api/daytona/daytona.h"

#include <string.h>

struct key_args {
	const char *name;
	struct jt_strs permissions;
	int64_t expires_ms;
};

static const struct jt_field key_fields[] = {
	{"name", JT_STR, JT_REQUIRED, offsetof(struct key_args, name), 1, 128, NULL},
	{"permissions", JT_STRS, JT_REQUIRED, offsetof(struct key_args, permissions), 0, 64, NULL},
	{"expiresAt", JT_TIME, 0, offsetof(struct key_args, expires_ms), 0, 0, NULL},
};
const struct jt_table daytona_key_create_table = {"CreateApiKey", key_fields,
						  ARRAY_LEN(key_fields)};

static void put_permissions(struct jw *w, const char *list)
{
	jw_key(w, "permissions");
	jw_open(w, '[');
	while (*list) {
		size_t n = strcspn(list, ",");

		if (n)
			jw_strn(w, list, n);
		list += n + (list[n] == ',');
	}
	jw_close(w, ']');
}

static void put_when(struct jw *w, const char *key, int64_t ms)
{
	jw_key(w, key);
	if (ms)
		jw_time(w, ms);
	else
		jw_raw(w, "null");
}

/* fresh: the reply of create, the only one with the plain value. */
static void put_key(struct jw *w, const struct api_key *k, bool fresh)
{
	jw_open(w, '{');
	jw_kstr(w, "name", k->name);
	jw_kstr(w, "value", fresh ? k->value : k->masked);
	put_when(w, "createdAt", k->created_ms);
	put_permissions(w, k->permissions);
	put_when(w, "expiresAt", k->expires_ms);
	if (!fresh) {
		put_when(w, "lastUsedAt", k->last_used_ms);
		jw_kstr(w, "userId", k->user_id);
		jw_kstr(w, "organizationId", k->org_id);
	}
	jw_close(w, '}');
}

static int reply_key(struct http_req *req, int status, const struct api_key *k, bool fresh,
		     struct err *err)
{
	auto_buf struct buf b = BUF_INIT(API_REPLY_MAX);
	struct jw w;

	jw_init(&w, &b);
	put_key(&w, k, fresh);
	return api_reply(req, status, &w, err);
}

static int create_key(struct http_req *req, const struct key_args *a, struct err *err)
{
	auto_buf struct buf list = BUF_INIT(sizeof(((struct api_key *)0)->permissions) - 1);
	struct api_key k = {0};

	for (size_t i = 0; i < a->permissions.n; i++) {
		const char *p = a->permissions.v[i];

		if (!*p || strchr(p, ','))
			return err_set(err, ERR_INVALID, "permissions[%zu]: unknown permission", i);
		if (buf_addf(&list, err, "%s%s", i ? "," : "", p) < 0)
			return err_set(err, ERR_INVALID, "permissions: too long");
	}
	if (api_key_create(api_core(req), api_who(req), a->name, buf_str(&list), a->expires_ms, &k,
			   err) < 0)
		return -1;
	api_target(req, k.name);
	return reply_key(req, 201, &k, true, err);
}

int daytona_control_createApiKey(struct http_req *req, struct err *err)
{
	auto_jt_doc struct jt_doc doc = {NULL};
	struct key_args a = {0};
	int r = api_body(req, &daytona_key_create_table, &a, &doc, err);

	if (r == 0)
		r = create_key(req, &a, err);
	jt_release(&daytona_key_create_table, &a);
	return r;
}

int daytona_control_listApiKeys(struct http_req *req, struct err *err)
{
	auto_buf struct buf b = BUF_INIT(API_REPLY_MAX);
	auto_free struct api_key *keys = NULL;
	struct jw w;
	size_t n;

	if (api_key_list(api_core(req), api_who(req), &keys, &n, err) < 0)
		return -1;
	jw_init(&w, &b);
	jw_open(&w, '[');
	for (size_t i = 0; i < n; i++)
		put_key(&w, &keys[i], false);
	jw_close(&w, ']');
	return api_reply(req, 200, &w, err);
}

static int get_key(struct http_req *req, const char *name, struct err *err)
{
	struct api_key k = {0};

	if (api_key_get(api_core(req), api_who(req), name, &k, err) < 0)
		return -1;
	return reply_key(req, 200, &k, false, err);
}

int daytona_control_getCurrentApiKey(struct http_req *req, struct err *err)
{
	return get_key(req, NULL, err);
}

int daytona_control_getApiKey(struct http_req *req, struct err *err)
{
	return get_key(req, http_param(req, "name"), err);
}

int daytona_control_deleteApiKey(struct http_req *req, struct err *err)
{
	api_target(req, http_param(req, "name"));
	if (api_key_delete(api_core(req), api_who(req), http_param(req, "name"), err) < 0)
		return -1;
	return http_reply_empty(req, 204, err);
}

int daytona_control_deleteApiKeyForUser(struct http_req *req, struct err *err)
{
	if (strcmp(http_param(req, "userId"), api_who(req)->user_id) != 0)
		return err_set(err, ERR_NOT_FOUND, "no user %.40s", http_param(req, "userId"));
	return daytona_control_deleteApiKey(req, err);
}
