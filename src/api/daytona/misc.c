/*
 * misc.c - configuration, health, regions, organizations, the user and snapshots: reads only.
 */
#include "api/daytona/daytona.h"

#include <string.h>

#define SNAPSHOT_DEFAULT "caisson-small"

/* ---- configuration and health ---- */

static void put_url(struct jw *w, const char *key, const char *base, const char *rest)
{
	jw_key(w, key);
	jw_text_open(w);
	jw_text_more(w, base, strlen(base));
	jw_text_more(w, rest, strlen(rest));
	jw_text_close(w);
}

int daytona_control_ConfigController_getConfig(struct http_req *req, struct err *err)
{
	auto_buf struct buf b = BUF_INIT(API_REPLY_MAX);
	const char *base = http_base_url(req);
	struct jw w;

	jw_init(&w, &b);
	jw_open(&w, '{');
	jw_kstr(&w, "version", core_settings(api_core(req))->version);
	jw_key(&w, "oidc");
	jw_raw(&w, "{\"issuer\":\"\",\"clientId\":\"\",\"audience\":\"\",\"provider\":\"auth0\"}");
	jw_kbool(&w, "linkedAccountsEnabled", false);
	jw_key(&w, "announcements");
	jw_raw(&w, "{}");
	put_url(&w, "proxyTemplateUrl", base, "/preview/{{sandboxId}}/{{PORT}}");
	put_url(&w, "proxyToolboxUrl", base, DAYTONA_TOOLBOX_PREFIX);
	jw_kstr(&w, "defaultSnapshot", SNAPSHOT_DEFAULT);
	put_url(&w, "dashboardUrl", base, "");
	jw_kint(&w, "maxAutoArchiveInterval", 43200);
	jw_kbool(&w, "maintananceMode", false);
	jw_kstr(&w, "environment", "production");
	jw_close(&w, '}');
	return api_reply(req, 200, &w, err);
}

static int reply_health(struct http_req *req, int status, const char *text, const char *why,
			struct err *err)
{
	auto_buf struct buf b = BUF_INIT(API_REPLY_MAX);
	struct jw w;

	jw_init(&w, &b);
	jw_open(&w, '{');
	jw_kstr(&w, "status", text);
	jw_kstr(&w, "version", core_settings(api_core(req))->version);
	jw_kstr(&w, "reason", why);
	jw_close(&w, '}');
	return api_reply(req, status, &w, err);
}

/* Scripts wait for this one to know that creates will work, so it says no until they do. */
int daytona_control_HealthController_live(struct http_req *req, struct err *err)
{
	char why[256] = "";

	if (core_ready(api_core(req), why, sizeof(why)))
		return reply_health(req, 200, "ok", NULL, err);
	return reply_health(req, 503, "starting", why, err);
}

int daytona_control_HealthController_check(struct http_req *req, struct err *err)
{
	return daytona_control_HealthController_live(req, err);
}

/* ---- regions: the one this daemon is ---- */

static void put_region(struct jw *w, const char *name, const struct org *o)
{
	jw_open(w, '{');
	jw_kstr(w, "id", name);
	jw_kstr(w, "name", name);
	jw_key(w, "organizationId");
	jw_raw(w, "null");
	jw_kstr(w, "regionType", "shared");
	jw_key(w, "createdAt");
	jw_time(w, o->created_ms);
	jw_key(w, "updatedAt");
	jw_time(w, o->updated_ms);
	jw_close(w, '}');
}

static int reply_regions(struct http_req *req, bool array, struct err *err)
{
	auto_buf struct buf b = BUF_INIT(API_REPLY_MAX);
	struct org o = {0};
	struct jw w;

	if (org_get(api_core(req), api_who(req), NULL, &o, err) < 0)
		return -1;
	jw_init(&w, &b);
	if (array)
		jw_open(&w, '[');
	put_region(&w, core_settings(api_core(req))->region, &o);
	if (array)
		jw_close(&w, ']');
	return api_reply(req, 200, &w, err);
}

int daytona_control_listAvailableRegions(struct http_req *req, struct err *err)
{
	return reply_regions(req, true, err);
}

int daytona_control_listSharedRegions(struct http_req *req, struct err *err)
{
	return reply_regions(req, true, err);
}

int daytona_control_getRegionById(struct http_req *req, struct err *err)
{
	if (strcmp(http_param(req, "id"), core_settings(api_core(req))->region) != 0)
		return err_set(err, ERR_NOT_FOUND, "no region %.64s", http_param(req, "id"));
	return reply_regions(req, false, err);
}

/* ---- the organization and its one member ---- */

#define AT(member) offsetof(struct org, member)	  /* offsetof needs the type as a token */
#define NEVER	   "\"1970-01-01T00:00:00.000Z\"" /* required dates that mean nothing here */

static const struct jt_field org_fields[] = {
	{"id", JT_CHARS, 0, AT(id), 0, 0, NULL},
	{"name", JT_CHARS, 0, AT(name), 0, 0, NULL},
	{"createdBy", JT_CHARS, 0, AT(created_by), 0, 0, NULL},
	{"personal", JT_LIT, 0, 0, 0, 0, "true"},
	{"createdAt", JT_TIME, 0, AT(created_ms), 0, 0, NULL},
	{"updatedAt", JT_TIME, 0, AT(updated_ms), 0, 0, NULL},
	{"suspended", JT_LIT, 0, 0, 0, 0, "false"},
	{"suspendedAt", JT_LIT, 0, 0, 0, 0, NEVER},
	{"suspensionReason", JT_LIT, 0, 0, 0, 0, "\"\""},
	{"suspendedUntil", JT_LIT, 0, 0, 0, 0, NEVER},
	{"suspensionCleanupGracePeriodHours", JT_LIT, 0, 0, 0, 0, "0"},
	{"maxCpuPerSandbox", JT_UINT, 0, AT(max_cpu), 0, 0, NULL},
	{"maxMemoryPerSandbox", JT_UINT, 0, AT(max_memory_gib), 0, 0, NULL},
	{"maxDiskPerSandbox", JT_UINT, 0, AT(max_disk_gib), 0, 0, NULL},
	{"secretQuota", JT_LIT, 0, 0, 0, 0, "0"},
	{"maxSecretsPerSandbox", JT_LIT, 0, 0, 0, 0, "0"},
	{"snapshotDeactivationTimeoutMinutes", JT_LIT, 0, 0, 0, 0, "20160"},
	{"sandboxLimitedNetworkEgress", JT_LIT, 0, 0, 0, 0, "false"},
	{"previewWarningEnabled", JT_LIT, 0, 0, 0, 0, "false"},
	{"ssoEnabled", JT_LIT, 0, 0, 0, 0, "false"},
	{"authenticatedRateLimit", JT_LIT, 0, 0, 0, 0, "null"},
	{"sandboxCreateRateLimit", JT_LIT, 0, 0, 0, 0, "null"},
	{"sandboxLifecycleRateLimit", JT_LIT, 0, 0, 0, 0, "null"},
	{"experimentalConfig", JT_LIT, 0, 0, 0, 0, "{}"},
	{"otelConfig", JT_LIT, 0, 0, 0, 0, "null"},
	{"authenticatedRateLimitTtlSeconds", JT_LIT, 0, 0, 0, 0, "null"},
	{"sandboxCreateRateLimitTtlSeconds", JT_LIT, 0, 0, 0, 0, "null"},
	{"sandboxLifecycleRateLimitTtlSeconds", JT_LIT, 0, 0, 0, 0, "null"},
	{"defaultQueueTimeout", JT_LIT, 0, 0, 0, 0, "null"},
	{"scimEnabled", JT_LIT, 0, 0, 0, 0, "false"},
};
const struct jt_table daytona_organization_table = {"Organization", org_fields,
						    ARRAY_LEN(org_fields)};

static int reply_org(struct http_req *req, const char *id, bool array, struct err *err)
{
	auto_buf struct buf b = BUF_INIT(API_REPLY_MAX);
	struct org o = {0};
	struct jw w;

	if (org_get(api_core(req), api_who(req), id, &o, err) < 0)
		return -1;
	jw_init(&w, &b);
	if (array)
		jw_open(&w, '[');
	jw_open(&w, '{');
	jt_encode(&w, &daytona_organization_table, &o);
	jw_kstr(&w, "defaultRegionId", core_settings(api_core(req))->region);
	jw_close(&w, '}');
	if (array)
		jw_close(&w, ']');
	return api_reply(req, 200, &w, err);
}

int daytona_control_listOrganizations(struct http_req *req, struct err *err)
{
	return reply_org(req, NULL, true, err);
}

int daytona_control_getOrganization(struct http_req *req, struct err *err)
{
	return reply_org(req, http_param(req, "organizationId"), false, err);
}

int daytona_control_listOrganizationMembers(struct http_req *req, struct err *err)
{
	auto_buf struct buf b = BUF_INIT(API_REPLY_MAX);
	struct org o = {0};
	struct user u = {0};
	struct jw w;

	if (org_get(api_core(req), api_who(req), http_param(req, "organizationId"), &o, err) < 0 ||
	    user_get(api_core(req), api_who(req), &u, err) < 0)
		return -1;
	jw_init(&w, &b);
	jw_open(&w, '[');
	jw_open(&w, '{');
	jw_kstr(&w, "userId", u.id);
	jw_kstr(&w, "organizationId", o.id);
	jw_kstr(&w, "name", u.name);
	jw_kstr(&w, "email", u.email);
	jw_kstr(&w, "role", "owner");
	jw_key(&w, "assignedRoles");
	jw_raw(&w, "[]");
	jw_key(&w, "createdAt");
	jw_time(&w, u.created_ms);
	jw_key(&w, "updatedAt");
	jw_time(&w, u.created_ms);
	jw_close(&w, '}');
	jw_close(&w, ']');
	return api_reply(req, 200, &w, err);
}

static const struct jt_field user_fields[] = {
	{"id", JT_CHARS, 0, offsetof(struct user, id), 0, 0, NULL},
	{"name", JT_CHARS, 0, offsetof(struct user, name), 0, 0, NULL},
	{"email", JT_CHARS, 0, offsetof(struct user, email), 0, 0, NULL},
	{"emailVerified", JT_LIT, 0, 0, 0, 0, "true"},
	{"publicKeys", JT_LIT, 0, 0, 0, 0, "[]"},
	{"createdAt", JT_TIME, 0, offsetof(struct user, created_ms), 0, 0, NULL},
};
const struct jt_table daytona_user_table = {"User", user_fields, ARRAY_LEN(user_fields)};

int daytona_control_getAuthenticatedUser(struct http_req *req, struct err *err)
{
	auto_buf struct buf b = BUF_INIT(API_REPLY_MAX);
	struct user u = {0};
	struct jw w;

	if (user_get(api_core(req), api_who(req), &u, err) < 0)
		return -1;
	jw_init(&w, &b);
	jw_open(&w, '{');
	jt_encode(&w, &daytona_user_table, &u);
	jw_close(&w, '}');
	return api_reply(req, 200, &w, err);
}
