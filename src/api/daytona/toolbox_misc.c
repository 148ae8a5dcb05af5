/*
 * toolbox_misc.c - directories, environment, metrics and version of a sandbox (contract §3.14).
 */
#include "api/daytona/toolbox.h"

#include <string.h>

const char *toolbox_id(struct http_req *req)
{
	return http_param(req, "sandboxId");
}

static int reply_pair(struct http_req *req, const char *key, const char *value, struct err *err)
{
	auto_buf struct buf b = BUF_INIT(API_REPLY_MAX);
	struct jw w;

	jw_init(&w, &b);
	jw_open(&w, '{');
	jw_kstr(&w, key, value);
	jw_close(&w, '}');
	return api_reply(req, 200, &w, err);
}

int daytona_toolbox_GetUserHomeDir(struct http_req *req, struct err *err)
{
	char dir[TOOLBOX_PATH_MAX];

	if (sandbox_home(api_core(req), api_who(req), toolbox_id(req), dir, sizeof(dir), err) < 0)
		return -1;
	return reply_pair(req, "dir", dir, err);
}

int daytona_toolbox_GetProjectDir(struct http_req *req, struct err *err)
{
	return daytona_toolbox_GetUserHomeDir(req, err);
}

int daytona_toolbox_GetWorkDir(struct http_req *req, struct err *err)
{
	char dir[TOOLBOX_PATH_MAX];

	if (sandbox_workdir(api_core(req), api_who(req), toolbox_id(req), dir, sizeof(dir), err) <
	    0)
		return -1;
	return reply_pair(req, "dir", dir, err);
}

int daytona_toolbox_GetVersion(struct http_req *req, struct err *err)
{
	auto_sandbox struct sandbox s = {0};

	if (sandbox_get(api_core(req), api_who(req), toolbox_id(req), &s, err) < 0)
		return -1;
	return reply_pair(req, "version", core_settings(api_core(req))->version, err);
}

int daytona_toolbox_GetSystemMetrics(struct http_req *req, struct err *err)
{
	auto_buf struct buf b = BUF_INIT(API_REPLY_MAX);
	struct sandbox_metrics m;
	struct jw w;

	if (sandbox_metrics(api_core(req), api_who(req), toolbox_id(req), &m, err) < 0)
		return -1;
	jw_init(&w, &b);
	jw_open(&w, '{');
	/* Clients insist on an integer; a part of a core counts as one. */
	jw_kint(&w, "cpuCount", (m.s.cpu_milli + 999) / 1000);
	jw_key(&w, "cpuUsedPct");
	jw_double(&w, m.cpu_used_pct);
	jw_kint(&w, "memTotal", (int64_t)m.s.mem_limit);
	jw_kint(&w, "memUsed", (int64_t)m.s.mem_bytes);
	jw_kint(&w, "memCache", (int64_t)m.s.mem_cache);
	jw_kint(&w, "diskTotal", (int64_t)m.disk_total);
	jw_kint(&w, "diskUsed", (int64_t)m.disk_used);
	jw_kint(&w, "diskFree", (int64_t)m.disk_free);
	jw_kint(&w, "pids", m.s.pids);
	jw_kint(&w, "networkRxBytes", (int64_t)m.net.rx_bytes);
	jw_kint(&w, "networkTxBytes", (int64_t)m.net.tx_bytes);
	jw_kint(&w, "networkRxPackets", (int64_t)m.net.rx_packets);
	jw_kint(&w, "networkTxPackets", (int64_t)m.net.tx_packets);
	jw_key(&w, "timestamp");
	jw_time(&w, m.at_ms);
	jw_kint(&w, "timestampUnix", m.at_ms / 1000);
	jw_close(&w, '}');
	return api_reply(req, 200, &w, err);
}

/* ---- environment ---- */

struct env_args {
	struct kv set;
	struct jt_strs unset;
	const char *prefix;
};

#define AT(member) offsetof(struct env_args, member) /* offsetof needs the type as a token */

static const struct jt_field env_fields[] = {
	{"set", JT_KV, 0, AT(set), 0, 1000, NULL},
	{"unset", JT_STRS, 0, AT(unset), 0, 1000, NULL},
	{"unsetValuePrefix", JT_STR, 0, AT(prefix), 0, 4096, NULL},
};
const struct jt_table daytona_env_table = {"EnvUpdate", env_fields, ARRAY_LEN(env_fields)};

static int env_change(struct http_req *req, const struct env_args *a, struct err *err)
{
	const struct sandbox_env_change change = {.set = &a->set,
						  .unset = a->unset.v,
						  .nunset = a->unset.n,
						  .unset_value_prefix = a->prefix};
	auto_buf struct buf b = BUF_INIT(API_REPLY_MAX);
	auto_kv struct kv now = {0};
	struct jw w;

	if (sandbox_env(api_core(req), api_who(req), toolbox_id(req), &change, &now, err) < 0)
		return -1;
	jw_init(&w, &b);
	jw_kv(&w, &now);
	return api_reply(req, 200, &w, err);
}

int daytona_toolbox_UpdateEnv(struct http_req *req, struct err *err)
{
	auto_jt_doc struct jt_doc doc = {NULL};
	struct env_args a = {0};
	int r = api_body(req, &daytona_env_table, &a, &doc, err);

	if (r == 0)
		r = env_change(req, &a, err);
	jt_release(&daytona_env_table, &a);
	return r;
}
