/*
 * sandbox_ops.c - what is done with one sandbox over the control API.
 */
#include "api/daytona/daytona.h"

#include <string.h>

#define MINUTES_MAX INT32_MAX /* the core has the rules; here is what a number may be at all */

static const char *id_of(struct http_req *req)
{
	return http_param(req, "sandboxIdOrName");
}

int daytona_control_getSandbox(struct http_req *req, struct err *err)
{
	auto_sandbox struct sandbox s = {0};

	if (sandbox_get(api_core(req), api_who(req), id_of(req), &s, err) < 0)
		return -1;
	return daytona_reply_sandbox(req, &s, err);
}

int daytona_control_startSandbox(struct http_req *req, struct err *err)
{
	auto_sandbox struct sandbox s = {0};

	if (sandbox_start(api_core(req), api_who(req), id_of(req), http_client_fd(req), &s, err) <
	    0)
		return -1;
	return daytona_reply_sandbox(req, &s, err);
}

struct recover_args {
	bool skip_start;
};
static const struct jt_field recover_fields[] = {
	{"skipStart", JT_BOOL, 0, offsetof(struct recover_args, skip_start), 0, 0, NULL},
};
static const struct jt_table recover_table = {"", recover_fields, ARRAY_LEN(recover_fields)};

int daytona_control_recoverSandbox(struct http_req *req, struct err *err)
{
	auto_sandbox struct sandbox s = {0};
	struct recover_args a = {false};

	if (api_query(req, &recover_table, &a, err) < 0 ||
	    sandbox_recover(api_core(req), api_who(req), id_of(req), !a.skip_start,
			    http_client_fd(req), &s, err) < 0)
		return -1;
	return daytona_reply_sandbox(req, &s, err);
}

struct stop_args {
	bool force;
};
static const struct jt_field stop_fields[] = {
	{"force", JT_BOOL, 0, offsetof(struct stop_args, force), 0, 0, NULL},
};
static const struct jt_table stop_table = {"", stop_fields, ARRAY_LEN(stop_fields)};

int daytona_control_stopSandbox(struct http_req *req, struct err *err)
{
	auto_sandbox struct sandbox s = {0};
	struct stop_args a = {false};

	if (api_query(req, &stop_table, &a, err) < 0)
		return -1;
	if (sandbox_stop(api_core(req), api_who(req), id_of(req), a.force, http_client_fd(req), &s,
			 err) < 0)
		return -1;
	return daytona_reply_sandbox(req, &s, err);
}

int daytona_control_deleteSandbox(struct http_req *req, struct err *err)
{
	auto_sandbox struct sandbox s = {0};

	if (sandbox_delete(api_core(req), api_who(req), id_of(req), &s, err) < 0)
		return -1;
	api_target(req, s.id);
	return daytona_reply_sandbox(req, &s, err);
}

struct labels_args {
	struct kv labels;
};
static const struct jt_field labels_fields[] = {
	{"labels", JT_KV, JT_REQUIRED, offsetof(struct labels_args, labels), 0, 10000, NULL},
};
const struct jt_table daytona_labels_table = {"SandboxLabels", labels_fields,
					      ARRAY_LEN(labels_fields)};

static int reply_labels(struct http_req *req, const struct kv *labels, struct err *err)
{
	auto_buf struct buf b = BUF_INIT(API_REPLY_MAX);
	struct jw w;

	jw_init(&w, &b);
	jw_open(&w, '{');
	jw_key(&w, "labels");
	jw_kv(&w, labels);
	jw_close(&w, '}');
	return api_reply(req, 200, &w, err);
}

int daytona_control_replaceLabels(struct http_req *req, struct err *err)
{
	auto_jt_doc struct jt_doc doc = {NULL};
	auto_sandbox struct sandbox s = {0};
	struct labels_args a = {{0}};
	int r = api_body(req, &daytona_labels_table, &a, &doc, err);

	if (r == 0)
		r = sandbox_set_labels(api_core(req), api_who(req), id_of(req), &a.labels, &s, err);
	if (r == 0)
		r = reply_labels(req, &s.labels, err);
	jt_release(&daytona_labels_table, &a);
	return r;
}

int daytona_control_updatePublicStatus(struct http_req *req, struct err *err)
{
	const char *v = http_param(req, "isPublic");
	auto_sandbox struct sandbox s = {0};
	bool on = strcmp(v, "true") == 0;

	if (!on && strcmp(v, "false") != 0)
		return err_set(err, ERR_INVALID, "isPublic: must be true or false");
	if (sandbox_set_public(api_core(req), api_who(req), id_of(req), on, &s, err) < 0)
		return -1;
	return daytona_reply_sandbox(req, &s, err);
}

static int set_timer(struct http_req *req, enum sandbox_timer t, const char *param, int64_t min,
		     struct err *err)
{
	auto_sandbox struct sandbox s = {0};
	int64_t minutes;

	if (api_param_int(req, param, min, MINUTES_MAX, &minutes, err) < 0)
		return -1;
	if (sandbox_set_timer(api_core(req), api_who(req), id_of(req), t, minutes, &s, err) < 0)
		return -1;
	return daytona_reply_sandbox(req, &s, err);
}

int daytona_control_setAutostopInterval(struct http_req *req, struct err *err)
{
	return set_timer(req, TIMER_STOP, "interval", 0, err);
}

int daytona_control_setAutoPauseInterval(struct http_req *req, struct err *err)
{
	return set_timer(req, TIMER_PAUSE, "interval", 0, err);
}

int daytona_control_setAutoArchiveInterval(struct http_req *req, struct err *err)
{
	return set_timer(req, TIMER_ARCHIVE, "interval", 0, err);
}

int daytona_control_setAutoDeleteInterval(struct http_req *req, struct err *err)
{
	return set_timer(req, TIMER_DELETE, "interval", INT32_MIN, err);
}

int daytona_control_setTtl(struct http_req *req, struct err *err)
{
	return set_timer(req, TIMER_TTL, "ttlMinutes", 0, err);
}

int daytona_control_updateLastActivity(struct http_req *req, struct err *err)
{
	if (sandbox_touch(api_core(req), api_who(req), http_param(req, "sandboxId"), err) < 0)
		return -1;
	return http_reply_empty(req, 201, err);
}

int daytona_control_getToolboxProxyUrl(struct http_req *req, struct err *err)
{
	auto_buf struct buf b = BUF_INIT(API_REPLY_MAX), url = BUF_INIT(4096);
	auto_sandbox struct sandbox s = {0};
	struct jw w;

	if (sandbox_get(api_core(req), api_who(req), http_param(req, "sandboxId"), &s, err) < 0)
		return -1;
	if (buf_addf(&url, err, "%s%s", http_base_url(req), DAYTONA_TOOLBOX_PREFIX) < 0)
		return -1;
	jw_init(&w, &b);
	jw_open(&w, '{');
	jw_kstr(&w, "url", buf_str(&url));
	jw_close(&w, '}');
	return api_reply(req, 200, &w, err);
}
