/*
 * sandbox_dto.c - Sandbox and SandboxListItem of contract §3.3. Go clients refuse a reply without
 * one of the required keys and Python clients one with a wrong type, so all keys come from here.
 */
#include "api/daytona/daytona.h"

#include <stddef.h>
#include <string.h>

#define AT(member) offsetof(struct sandbox, member) /* offsetof needs the type as a token */

static const struct jt_field item_fields[] = {
	{"id", JT_CHARS, 0, AT(id), 0, 0, NULL},
	{"organizationId", JT_CHARS, 0, AT(org_id), 0, 0, NULL},
	{"name", JT_CHARS, 0, AT(name), 0, 0, NULL},
	{"target", JT_CHARS, 0, AT(region), 0, 0, NULL},
	{"sandboxClass", JT_LIT, 0, 0, 0, 0, "\"container\""},
	{"snapshot", JT_CHARS, JT_OMIT, AT(snapshot), 0, 0, NULL},
	{"user", JT_CHARS, 0, AT(user), 0, 0, NULL},
	{"errorReason", JT_CHARS, JT_OMIT, AT(error_reason), 0, 0, NULL},
	{"recoverable", JT_BOOL, 0, AT(recoverable), 0, 0, NULL},
	{"public", JT_BOOL, 0, AT(is_public), 0, 0, NULL},
	{"networkBlockAll", JT_BOOL, 0, AT(network_block_all), 0, 0, NULL},
	{"networkAllowList", JT_STR, JT_OMIT, AT(network_allow_list), 0, 0, NULL},
	{"domainAllowList", JT_STR, JT_OMIT, AT(domain_allow_list), 0, 0, NULL},
	{"cpu", JT_UINT, 0, AT(cpu), 0, 0, NULL},
	{"gpu", JT_LIT, 0, 0, 0, 0, "0"},
	{"spot", JT_LIT, 0, 0, 0, 0, "false"},
	{"memory", JT_GIB, 0, AT(memory_mib), 0, 0, NULL},
	{"disk", JT_UINT, 0, AT(disk_gib), 0, 0, NULL},
	{"labels", JT_KV, 0, AT(labels), 0, 0, NULL},
	{"autoStopInterval", JT_INT, 0, AT(auto_stop_min), 0, 0, NULL},
	{"autoPauseInterval", JT_INT, 0, AT(auto_pause_min), 0, 0, NULL},
	{"autoArchiveInterval", JT_INT, 0, AT(auto_archive_min), 0, 0, NULL},
	{"autoDeleteInterval", JT_INT, 0, AT(auto_delete_min), 0, 0, NULL},
	{"autoDestroyAt", JT_TIME, JT_OMIT, AT(auto_destroy_ms), 0, 0, NULL},
	{"createdAt", JT_TIME, 0, AT(created_ms), 0, 0, NULL},
	{"updatedAt", JT_TIME, 0, AT(updated_ms), 0, 0, NULL},
	{"lastActivityAt", JT_TIME, JT_OMIT, AT(last_activity_ms), 0, 0, NULL},
	{"daemonVersion", JT_LIT, 0, 0, 0, 0, "\"" CAISSON_VERSION "\""},
};
const struct jt_table daytona_sandbox_item_table = {"SandboxListItem", item_fields,
						    ARRAY_LEN(item_fields)};

/* What the whole Sandbox has beyond the list item. */
static const struct jt_field more_fields[] = {
	{"env", JT_KV, 0, AT(env), 0, 0, NULL},
	{"kvm", JT_LIT, 0, 0, 0, 0, "false"},
	{"volumes", JT_LIT, 0, 0, 0, 0, "[]"},
	{"noNewPrivileges", JT_BOOL, 0, AT(no_new_privs), 0, 0, NULL},
};
const struct jt_table daytona_sandbox_table = {"Sandbox", more_fields, ARRAY_LEN(more_fields)};

static void put_computed(struct jw *w, const struct sandbox *s, const char *base)
{
	jw_kstr(w, "state", sandbox_state_name(s->state));
	jw_kstr(w, "desiredState", sandbox_state_name(s->desired));
	jw_key(w, "toolboxProxyUrl");
	jw_text_open(w);
	jw_text_more(w, base, strlen(base));
	jw_text_more(w, DAYTONA_TOOLBOX_PREFIX, strlen(DAYTONA_TOOLBOX_PREFIX));
	jw_text_close(w);
}

void daytona_put_sandbox_item(struct jw *w, const struct sandbox *s, const char *base)
{
	jw_open(w, '{');
	jt_encode(w, &daytona_sandbox_item_table, s);
	put_computed(w, s, base);
	jw_close(w, '}');
}

void daytona_put_sandbox(struct jw *w, const struct sandbox *s, const char *base)
{
	jw_open(w, '{');
	jt_encode(w, &daytona_sandbox_item_table, s);
	jt_encode(w, &daytona_sandbox_table, s);
	put_computed(w, s, base);
	jw_close(w, '}');
}

int daytona_reply_sandbox(struct http_req *req, const struct sandbox *s, struct err *err)
{
	auto_buf struct buf b = BUF_INIT(API_REPLY_MAX);
	struct jw w;

	jw_init(&w, &b);
	daytona_put_sandbox(&w, s, http_base_url(req));
	return api_reply(req, 200, &w, err);
}
