/*
 * sandbox_create.c - POST /sandbox: CreateSandbox of contract §3.3 to a sandbox_spec.
 */
#include "api/daytona/daytona.h"

#include <openssl/sha.h>
#include <string.h>

#define MINUTES_MAX INT32_MAX /* the core has the rules; here is what a number may be at all */

struct create_args {
	struct sandbox_spec spec;
	struct kv env, labels;
	int64_t gpu;
	bool spot, kvm;
	const char *proxy, *otel, *linked;
	struct json_t *volumes, *build, *secrets, *gpu_type;
};

#define AT(member) offsetof(struct create_args, member) /* offsetof needs the type as a token */

static const struct jt_field create_fields[] = {
	{"name", JT_STR, 0, AT(spec.name), 1, 128, NULL},
	{"snapshot", JT_STR, 0, AT(spec.snapshot), 1, 128, NULL},
	{"user", JT_STR, 0, AT(spec.user), 1, 63, NULL},
	{"env", JT_KV, 0, AT(env), 0, 10000, NULL},
	{"labels", JT_KV, 0, AT(labels), 0, 10000, NULL},
	{"public", JT_BOOL, 0, AT(spec.is_public), 0, 0, NULL},
	{"networkBlockAll", JT_BOOL, 0, AT(spec.network_block_all), 0, 0, NULL},
	{"networkAllowList", JT_STR, 0, AT(spec.network_allow_list), 0, 4096, NULL},
	{"domainAllowList", JT_STR, 0, AT(spec.domain_allow_list), 0, 4096, NULL},
	{"outboundProxyUrl", JT_STR, 0, AT(proxy), 0, 4096, NULL},
	{"otelEndpointOverride", JT_STR, 0, AT(otel), 0, 4096, NULL},
	{"target", JT_STR, 0, AT(spec.target), 0, 63, NULL},
	{"cpu", JT_INT, 0, AT(spec.cpu), 1, INT32_MAX, NULL},
	{"gpu", JT_INT, 0, AT(gpu), 0, 0, "this release has no GPUs, must be 0 or absent"},
	{"gpuType", JT_JSON, 0, AT(gpu_type), 0, 0, NULL},
	{"spot", JT_BOOL, 0, AT(spot), 0, 0, NULL},
	{"memory", JT_GIB, 0, AT(spec.memory_mib), 512, INT32_MAX, NULL},
	{"disk", JT_INT, 0, AT(spec.disk_gib), 1, INT32_MAX, NULL},
	{"autoStopInterval", JT_INT, 0, AT(spec.auto_stop_min), 0, MINUTES_MAX, NULL},
	{"autoPauseInterval", JT_INT, 0, AT(spec.auto_pause_min), 0, MINUTES_MAX, NULL},
	{"autoArchiveInterval", JT_INT, 0, AT(spec.auto_archive_min), 0, 43200, NULL},
	{"autoDeleteInterval", JT_INT, 0, AT(spec.auto_delete_min), INT32_MIN, MINUTES_MAX, NULL},
	{"ttlMinutes", JT_INT, 0, AT(spec.ttl_min), 0, MINUTES_MAX, NULL},
	{"volumes", JT_JSON, 0, AT(volumes), 0, 0, NULL},
	{"buildInfo", JT_JSON, 0, AT(build), 0, 0, NULL},
	{"linkedSandbox", JT_STR, 0, AT(linked), 0, 128, NULL},
	{"secrets", JT_JSON, 0, AT(secrets), 0, 0, NULL},
	{"kvm", JT_BOOL, 0, AT(kvm), 0, 0, NULL},
	{"noNewPrivileges", JT_BOOL, 0, AT(spec.no_new_privs), 0, 0, NULL},
};
const struct jt_table daytona_create_table = {"CreateSandbox", create_fields,
					      ARRAY_LEN(create_fields)};

/* Refused aloud rather than ignored: who asks for it relies on it. */
static int refuse_unbuilt(const struct create_args *a, struct err *err)
{
	const struct {
		const char *name;
		bool set;
		const char *instead;
	} rows[] = {
		{"volumes", a->volumes && !jt_is_empty(a->volumes), ""},
		{"buildInfo", a->build,
		 "; import the image (POST /api/caisson/images) and name it in snapshot"},
		{"secrets", a->secrets && !jt_is_empty(a->secrets), ""},
		{"outboundProxyUrl", a->proxy && *a->proxy, ""},
		{"otelEndpointOverride", a->otel && *a->otel, ""},
		{"linkedSandbox", a->linked && *a->linked, ""},
		{"gpuType", a->gpu_type && !jt_is_empty(a->gpu_type), ""},
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (rows[i].set)
			return err_set(err, ERR_NOT_BUILT, "%s: not built in this version%s",
				       rows[i].name, rows[i].instead);
	if (a->spot)
		return err_set(err, ERR_INVALID, "spot: only GPU sandboxes may be spot ones");
	if (a->kvm)
		return err_set(err, ERR_INVALID, "kvm: containers have no /dev/kvm");
	return 0;
}

/* The digest of the body makes a replay of the same key with another body visible. */
static void take_idempotency(struct http_req *req, struct sandbox_spec *spec)
{
	const struct buf *b = http_body(req);

	spec->idempotency_key = http_header(req, "Idempotency-Key");
	if (spec->idempotency_key)
		SHA256((const unsigned char *)buf_str(b), b ? b->len : 0, spec->body_digest);
}

static const struct sandbox_spec spec_unset = {
	.cpu = SPEC_UNSET,
	.memory_mib = SPEC_UNSET,
	.disk_gib = SPEC_UNSET,
	.auto_stop_min = SPEC_UNSET,
	.auto_pause_min = SPEC_UNSET,
	.auto_archive_min = SPEC_UNSET,
	.auto_delete_min = SPEC_UNSET,
	.ttl_min = SPEC_UNSET,
};

static int create_with(struct http_req *req, struct create_args *a, struct err *err)
{
	auto_sandbox struct sandbox s = {0};

	if (refuse_unbuilt(a, err) < 0)
		return -1;
	take_idempotency(req, &a->spec);
	if (sandbox_create(api_core(req), api_who(req), &a->spec, http_client_fd(req), &s, err) < 0)
		return -1;
	api_target(req, s.id);
	return daytona_reply_sandbox(req, &s, err);
}

int daytona_control_createSandbox(struct http_req *req, struct err *err)
{
	struct create_args a = {.spec = spec_unset};
	auto_jt_doc struct jt_doc doc = {NULL};
	int r = api_body(req, &daytona_create_table, &a, &doc, err);

	a.spec.env = &a.env;
	a.spec.labels = &a.labels;
	if (r == 0)
		r = create_with(req, &a, err);
	jt_release(&daytona_create_table, &a);
	return r;
}
