/*
 * test_core_rules.c - what callers may give and who may do what.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <fcntl.h>
#include <string.h>

#include "base/clock.h"
#include "unit/corebox.h"

static int setup(void **state)
{
	struct corebox *b = calloc(1, sizeof(*b));

	corebox_init(b);
	corebox_open(b);
	*state = b;
	return 0;
}

static int teardown(void **state)
{
	corebox_done(*state);
	free(*state);
	return 0;
}

/* ---- the table of refusals: what is set, the code, the field the text begins with ---- */

struct refusal {
	const char *field;
	enum err_code code;
	void (*set)(struct sandbox_spec *s);
	const char *also; /* in the text too */
};

static const char *long_name(size_t n)
{
	static char text[300];

	memset(text, 'a', n);
	text[n] = '\0';
	return text;
}

#define SET(fn, stmt)                                                                              \
	static void fn(struct sandbox_spec *s)                                                     \
	{                                                                                          \
		stmt;                                                                              \
	}
SET(name_long, s->name = long_name(129))
SET(name_dot, s->name = ".a")
SET(name_space, s->name = "a b")
SET(name_unicode, s->name = "h\xc3\xa9llo")
SET(name_slash, s->name = "../x")
SET(name_destroyed, s->name = "DESTROYED_x")
SET(user_hex, s->user = "0x0")
SET(user_neg, s->user = "-1")
SET(user_max, s->user = "4294967295")
SET(user_three, s->user = "1:0:0")
SET(user_space, s->user = " root")
SET(user_octal, s->user = "00")
SET(user_colon, s->user = "root:")
SET(user_long, s->user = long_name(64))
SET(stop_neg, s->auto_stop_min = -1)
SET(stop_huge, s->auto_stop_min = INT64_MAX)
SET(pause_neg, s->auto_pause_min = -1)
SET(both_timers, (s->auto_stop_min = 5, s->auto_pause_min = 5))
SET(pause_ephemeral, (s->auto_stop_min = 0, s->auto_pause_min = 5, s->auto_delete_min = 0))
SET(archive_high, s->auto_archive_min = 43201)
SET(archive_neg, s->auto_archive_min = -1)
SET(delete_high, s->auto_delete_min = INT64_MAX)
SET(ttl_neg, s->ttl_min = -1)
SET(cpu_zero, s->cpu = 0)
SET(cpu_neg, s->cpu = -1)
SET(cpu_high, s->cpu = 5)
SET(memory_high, s->memory_mib = 9 * 1024)
SET(disk_high, s->disk_gib = INT64_MAX)
SET(sized_snapshot, (s->snapshot = "caisson-small", s->cpu = 1))
SET(snapshot_unknown, s->snapshot = "nope")
SET(target_unknown, s->target = "mars")
SET(cidr_bad, s->network_allow_list = "10.0.0.0/33")
SET(cidr_plain, s->network_allow_list = "10.0.0.0")
SET(cidr_v6, s->network_allow_list = "::/0")
SET(cidr_many, s->network_allow_list = "1.1.1.1/32,1.1.1.1/32,1.1.1.1/32,1.1.1.1/32,1.1.1.1/32,"
				       "1.1.1.1/32,1.1.1.1/32,1.1.1.1/32,1.1.1.1/32,1.1.1.1/32,"
				       "1.1.1.1/32")
SET(cidr_good, s->network_allow_list = "192.0.2.0/24")
SET(domain_ip, s->domain_allow_list = "1.2.3.4")
SET(domain_one, s->domain_allow_list = "localhost")
SET(domain_url, s->domain_allow_list = "https://example.com")
SET(domain_good, s->domain_allow_list = "*.example.com")
SET(key_empty, s->idempotency_key = "")
SET(key_long, s->idempotency_key = long_name(256))

static const struct refusal refusals[] = {
	{"name: ", ERR_INVALID, name_long, "128"},
	{"name: ", ERR_INVALID, name_dot, "begin with"},
	{"name: ", ERR_INVALID, name_space, "A-Z"},
	{"name: ", ERR_INVALID, name_unicode, "A-Z"},
	{"name: ", ERR_INVALID, name_slash, "A-Z"},
	{"name: ", ERR_INVALID, name_destroyed, "DESTROYED_"},
	{"user: ", ERR_INVALID, user_hex, "uid"},
	{"user: ", ERR_INVALID, user_neg, "uid"},
	{"user: ", ERR_INVALID, user_max, "uid"},
	{"user: ", ERR_INVALID, user_three, "uid"},
	{"user: ", ERR_INVALID, user_space, "uid"},
	{"user: ", ERR_INVALID, user_octal, "uid"},
	{"user: ", ERR_INVALID, user_colon, "uid"},
	{"user: ", ERR_INVALID, user_long, "32"},
	{"autoStopInterval: ", ERR_INVALID, stop_neg, "0 to"},
	{"autoStopInterval: ", ERR_INVALID, stop_huge, "0 to"},
	{"autoPauseInterval: ", ERR_INVALID, pause_neg, "0 to"},
	{"autoPauseInterval: ", ERR_INVALID, both_timers, "autoStopInterval"},
	{"autoPauseInterval: ", ERR_INVALID, pause_ephemeral, "ephemeral"},
	{"autoArchiveInterval: ", ERR_INVALID, archive_high, "43200"},
	{"autoArchiveInterval: ", ERR_INVALID, archive_neg, "0 to"},
	{"autoDeleteInterval: ", ERR_INVALID, delete_high, "negative is off"},
	{"ttlMinutes: ", ERR_INVALID, ttl_neg, "0 to"},
	{"cpu: ", ERR_INVALID, cpu_zero, "1 or more"},
	{"cpu: ", ERR_INVALID, cpu_neg, "1 or more"},
	{"cpu: ", ERR_LIMIT, cpu_high, "--max-cpu"},
	{"memory: ", ERR_LIMIT, memory_high, "limit of one sandbox is 8 GiB"},
	{"disk: ", ERR_LIMIT, disk_high, "--max-disk"},
	{"cpu, memory, disk: ", ERR_INVALID, sized_snapshot, "snapshot"},
	{"snapshot: ", ERR_INVALID, snapshot_unknown, "nope"},
	{"target: ", ERR_NOT_FOUND, target_unknown, "local"},
	{"networkAllowList: ", ERR_INVALID, cidr_bad, "10.0.0.0/33"},
	{"networkAllowList: ", ERR_INVALID, cidr_plain, "range"},
	{"networkAllowList: ", ERR_INVALID, cidr_v6, "range"},
	{"networkAllowList: ", ERR_INVALID, cidr_many, "at most 10"},
	{"networkAllowList: ", ERR_NOT_BUILT, cidr_good, "networkBlockAll"},
	{"domainAllowList: ", ERR_INVALID, domain_ip, "domain name"},
	{"domainAllowList: ", ERR_INVALID, domain_one, "domain name"},
	{"domainAllowList: ", ERR_INVALID, domain_url, "domain name"},
	{"domainAllowList: ", ERR_NOT_BUILT, domain_good, "networkBlockAll"},
	{"Idempotency-Key: ", ERR_INVALID, key_empty, "255"},
	{"Idempotency-Key: ", ERR_INVALID, key_long, "255"},
};

static void refusals_name_field_and_rule(void **state)
{
	struct corebox *b = *state;

	for (size_t i = 0; i < ARRAY_LEN(refusals); i++) {
		struct sandbox_spec spec = corebox_spec(NULL);
		struct err err = {0};
		struct sandbox s;

		refusals[i].set(&spec);
		if (sandbox_create(b->core, &b->who, &spec, -1, &s, &err) == 0)
			fail_msg("row %zu (%s%s) was accepted", i, refusals[i].field,
				 refusals[i].also);
		if (err.code != refusals[i].code || strstr(err.msg, refusals[i].also) == NULL ||
		    strncmp(err.msg, refusals[i].field, strlen(refusals[i].field)) != 0)
			fail_msg("row %zu (%s%s): %s %s", i, refusals[i].field, refusals[i].also,
				 err_code_name(err.code), err.msg);
	}
	assert_int_equal(fake_count(b->fake, FAKE_START), 0);
}

static void e15_names_of_every_length_are_accepted(void **state)
{
	struct corebox *b = *state;
	char id[ID_LEN];

	for (size_t n = 1; n <= 128; n += 21)
		corebox_create(b, long_name(n), id);
	corebox_create(b, "1.2_3-", id);
}

static void e15_hostname_is_trimmed_and_plain(void **state)
{
	char host[64];

	(void)state;
	hostname_of(long_name(128), host);
	assert_int_equal(strlen(host), 63);
	hostname_of("1.a_b--", host);
	assert_string_equal(host, "1-a-b");
}

static void env_and_labels_are_bounded(void **state)
{
	static const char *const bad[] = {"", "1A", "A-B", "A B", "A=B", "h\xc3\xa9"};
	struct kv env = {0}, labels = {0};
	struct err err = {0};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		kv_set(&env, bad[i], "x", NULL);
		assert_int_equal(valid_env("env", &env, &err), -1);
		assert_memory_equal(err.msg, "env: ", 5);
		kv_done(&env);
	}
	kv_set(&labels, "", "x", NULL);
	assert_int_equal(valid_labels("labels", &labels, &err), -1);
	kv_done(&labels);
	kv_set(&labels, "a\nb", "x", NULL);
	assert_int_equal(valid_labels("labels", &labels, &err), -1);
	kv_done(&labels);
	for (int i = 0; i < 65; i++) {
		char key[8];

		snprintf(key, sizeof(key), "k%d", i);
		kv_set(&labels, key, "", NULL);
	}
	assert_int_equal(valid_labels("labels", &labels, &err), -1);
	assert_non_null(strstr(err.msg, "64"));
	kv_done(&labels);
}

static void e10_timer_setters_keep_their_meaning(void **state)
{
	struct corebox *b = *state;
	struct err err = {0};
	struct sandbox s;
	char id[ID_LEN];

	corebox_create(b, "box", id);
	assert_int_equal(sandbox_set_timer(b->core, &b->who, id, TIMER_DELETE, -7, &s, &err), 0);
	assert_int_equal(s.auto_delete_min, -1);
	sandbox_done(&s);
	assert_int_equal(sandbox_set_timer(b->core, &b->who, id, TIMER_ARCHIVE, 0, &s, &err), 0);
	assert_int_equal(s.auto_archive_min, 43200);
	sandbox_done(&s);
	assert_int_equal(sandbox_set_timer(b->core, &b->who, id, TIMER_TTL, 2, &s, &err), 0);
	assert_in_range(s.auto_destroy_ms - clock_wall_ms(), 110000, 120000);
	sandbox_done(&s);
	assert_int_equal(sandbox_set_timer(b->core, &b->who, id, TIMER_PAUSE, 3, &s, &err), -1);
	assert_int_equal(sandbox_set_timer(b->core, &b->who, id, TIMER_STOP, -1, &s, &err), -1);
	assert_int_equal(err.code, ERR_INVALID);
}

static void low_disk_refuses_creates(void **state)
{
	struct corebox *b = *state;
	struct sandbox_spec spec = corebox_spec(NULL);
	struct err err = {0};
	struct sandbox s;

	corebox_close(b);
	b->cfg.disk_low_bytes = 1ull << 30;
	fake_host(b->fake, 1ull << 29);
	corebox_open(b);
	assert_int_equal(sandbox_create(b->core, &b->who, &spec, -1, &s, &err), -1);
	assert_int_equal(err.code, ERR_UNAVAILABLE);
	assert_non_null(strstr(err.msg, "512 MiB"));
	assert_non_null(strstr(err.msg, "--disk-low"));
}

static void create_before_the_image_is_there_says_why(void **state)
{
	struct corebox *b = *state;
	struct sandbox_spec spec = corebox_spec(NULL);
	struct err err = {0};
	struct sandbox s;
	char why[160];

	corebox_close(b);
	fake_fail(b->fake, FAKE_DEFAULT, -1, ERR_UNAVAILABLE);
	corebox_attach(b);
	usleep(20000);
	assert_false(core_ready(b->core, why, sizeof(why)));
	assert_non_null(strstr(why, "default image"));
	assert_int_equal(sandbox_create(b->core, &b->who, &spec, -1, &s, &err), -1);
	assert_int_equal(err.code, ERR_UNAVAILABLE);
}

static bool image_given_up(void *arg)
{
	struct corebox *b = arg;
	bool imaging;

	pthread_mutex_lock(&b->core->state_lock);
	imaging = b->core->imaging;
	pthread_mutex_unlock(&b->core->state_lock);
	return !imaging;
}

static void refused_default_image_is_tried_a_few_times_only(void **state)
{
	struct corebox *b = *state;
	unsigned before;
	char why[160];

	corebox_close(b);
	before = fake_count(b->fake, FAKE_DEFAULT);
	fake_fail(b->fake, FAKE_DEFAULT, -1, ERR_INVALID);
	corebox_attach(b);
	assert_true(corebox_until(image_given_up, b, 10000));
	assert_int_equal(fake_count(b->fake, FAKE_DEFAULT) - before, 3);
	assert_false(core_ready(b->core, why, sizeof(why)));
	assert_non_null(strstr(why, "default image"));
}

static void daemon_without_a_default_image_is_ready_and_says_so_at_creates(void **state)
{
	struct corebox *b = *state;
	struct sandbox_spec spec = corebox_spec(NULL);
	auto_close int tar = open("/dev/null", O_RDONLY | O_CLOEXEC);
	struct err err = {0};
	struct image img;
	struct sandbox s;

	corebox_done(b);
	corebox_init(b);
	fake_fail(b->fake, FAKE_DEFAULT, -1, ERR_NOT_FOUND);
	corebox_open(b);
	for (int sized = 0; sized < 2; sized++) {
		spec.cpu = sized ? 1 : SPEC_UNSET;
		assert_int_equal(sandbox_create(b->core, &b->who, &spec, -1, &s, &err), -1);
		assert_int_equal(err.code, ERR_INVALID);
		assert_string_equal(err.msg, "snapshot: this daemon has no default image; name a "
					     "snapshot, or start caissond with --default-image");
	}
	assert_int_equal(image_import(b->core, &b->who, "own", tar, NULL, NULL, &img, NULL), 0);
	spec = corebox_spec(NULL);
	spec.snapshot = "own";
	assert_int_equal(sandbox_create(b->core, &b->who, &spec, -1, &s, &err), 0);
	assert_int_equal(s.state, SB_STARTED);
	sandbox_done(&s);
}

/* ---- identity ---- */

static void tokens_are_checked(void **state)
{
	struct corebox *b = *state;
	struct caller who = {0};
	struct err err = {0};
	char other[ID_LEN];

	id_new(other);
	assert_int_equal(identity_check(b->core, NULL, NULL, &who, &err), -1);
	assert_int_equal(err.code, ERR_UNAUTHORIZED);
	assert_int_equal(identity_check(b->core, "dtn_wrong", NULL, &who, &err), -1);
	assert_int_equal(err.code, ERR_UNAUTHORIZED);
	assert_null(strstr(err.msg, "wrong"));
	assert_int_equal(identity_check(b->core, COREBOX_KEY, other, &who, &err), -1);
	assert_int_equal(err.code, ERR_NOT_FOUND);
	assert_int_equal(identity_check(b->core, COREBOX_KEY, b->who.org_id, &who, &err), 0);
	assert_string_equal(who.key_prefix, "dtn_");
	assert_string_equal(who.key_suffix, "abc");
	assert_int_equal(identity_need(&who, PERM_WRITE_SANDBOXES | PERM_DELETE_SNAPSHOTS, &err),
			 0);
}

static void keys_are_made_shown_once_and_deleted(void **state)
{
	struct corebox *b = *state;
	struct api_key k, got, *list;
	struct caller who = {0};
	struct err err = {0};
	size_t n;

	assert_int_equal(api_key_create(b->core, &b->who, "ci", "write:sandboxes", 0, &k, &err), 0);
	assert_int_equal(strlen(k.value), 4 + 64);
	assert_memory_equal(k.value, "dtn_", 4);
	assert_null(strstr(k.masked, k.value + 8));
	assert_int_equal(identity_check(b->core, k.value, NULL, &who, &err), 0);
	assert_int_equal(who.perms, PERM_WRITE_SANDBOXES);
	assert_int_equal(identity_need(&who, PERM_DELETE_SANDBOXES, &err), -1);
	assert_int_equal(err.code, ERR_FORBIDDEN);
	assert_non_null(strstr(err.msg, "delete:sandboxes"));
	/* Nobody hands out more than they have. */
	assert_int_equal(api_key_create(b->core, &who, "up", "delete:sandboxes", 0, &got, &err),
			 -1);
	assert_int_equal(err.code, ERR_FORBIDDEN);
	assert_int_equal(api_key_create(b->core, &b->who, "ci", "", 0, &got, &err), -1);
	assert_int_equal(err.code, ERR_CONFLICT);
	assert_int_equal(api_key_list(b->core, &b->who, &list, &n, &err), 0);
	assert_int_equal(n, 2);
	assert_string_equal(list[1].value, "");
	free(list);
	assert_int_equal(api_key_get(b->core, &who, NULL, &got, &err), 0);
	assert_string_equal(got.name, "ci");
	assert_true(got.last_used_ms > 0);
	assert_int_equal(api_key_delete(b->core, &b->who, "ci", &err), 0);
	assert_int_equal(identity_check(b->core, k.value, NULL, &who, &err), -1);
	assert_int_equal(api_key_delete(b->core, &b->who, "ci", &err), -1);
	assert_int_equal(err.code, ERR_NOT_FOUND);
}

static void bad_keys_are_refused(void **state)
{
	struct corebox *b = *state;
	struct api_key k;
	struct err err = {0};

	assert_int_equal(api_key_create(b->core, &b->who, "", "", 0, &k, &err), -1);
	assert_int_equal(api_key_create(b->core, &b->who, "x", "fly", 0, &k, &err), -1);
	assert_memory_equal(err.msg, "permissions: ", 13);
	assert_int_equal(api_key_create(b->core, &b->who, "x", "", 5, &k, &err), -1);
	assert_memory_equal(err.msg, "expiresAt: ", 11);
}

static void expired_key_is_refused(void **state)
{
	struct corebox *b = *state;
	struct api_key k;
	struct caller who;
	struct err err = {0};

	assert_int_equal(api_key_create(b->core, &b->who, "x", "", clock_wall_ms() + 30, &k, &err),
			 0);
	assert_int_equal(identity_check(b->core, k.value, NULL, &who, &err), 0);
	usleep(40000);
	assert_int_equal(identity_check(b->core, k.value, NULL, &who, &err), -1);
	assert_int_equal(err.code, ERR_UNAUTHORIZED);
}

static void another_admin_key_replaces_the_first(void **state)
{
	struct corebox *b = *state;
	struct caller who;
	struct core *c;
	struct err err = {0};
	char org[ID_LEN];

	memcpy(org, b->who.org_id, ID_LEN);
	corebox_close(b);
	b->cfg.admin_key = "dtn_another_key_for_automation";
	c = core_open(&b->cfg, &err);
	assert_non_null(c);
	assert_int_equal(identity_check(c, COREBOX_KEY, NULL, &who, &err), -1);
	assert_int_equal(identity_check(c, b->cfg.admin_key, NULL, &who, &err), 0);
	assert_string_equal(who.org_id, org);
	core_close(c);
}

static void foreign_organization_sees_no_sandbox(void **state)
{
	struct corebox *b = *state;
	struct caller other = b->who;
	struct err err = {0};
	struct sandbox s;
	char id[ID_LEN];

	corebox_create(b, "box", id);
	id_new(other.org_id);
	assert_int_equal(sandbox_get(b->core, &other, id, &s, &err), -1);
	assert_int_equal(err.code, ERR_NOT_FOUND);
	assert_int_equal(sandbox_delete(b->core, &other, "box", &s, &err), -1);
	assert_int_equal(err.code, ERR_NOT_FOUND);
	assert_int_equal(sandbox_stop(b->core, &other, id, true, -1, &s, &err), -1);
	assert_int_equal(err.code, ERR_NOT_FOUND);
}

static void org_and_user_are_the_callers(void **state)
{
	struct corebox *b = *state;
	struct org org;
	struct user user;
	struct err err = {0};

	assert_int_equal(org_get(b->core, &b->who, NULL, &org, &err), 0);
	assert_string_equal(org.name, "default");
	assert_int_equal(org.max_cpu, 4);
	assert_int_equal(org.max_memory_gib, 8);
	assert_int_equal(org.max_disk_gib, 10);
	assert_int_equal(org_get(b->core, &b->who, "nope", &org, &err), -1);
	assert_int_equal(err.code, ERR_NOT_FOUND);
	assert_int_equal(user_get(b->core, &b->who, &user, &err), 0);
	assert_string_equal(user.name, "admin");
}

/* ---- images, snapshots ---- */

static void default_snapshots_are_there(void **state)
{
	static const struct {
		const char *name;
		unsigned cpu, memory, disk;
	} want[] = {{"caisson-small", 1, 1, 3},
		    {"caisson-medium", 2, 4, 8},
		    {"caisson-large", 4, 8, 10}};
	struct corebox *b = *state;
	struct snapshot_page page;
	struct snapshot s;

	for (size_t i = 0; i < ARRAY_LEN(want); i++) {
		assert_int_equal(snapshot_get(b->core, &b->who, want[i].name, &s, NULL), 0);
		assert_int_equal(s.cpu, want[i].cpu);
		assert_int_equal(s.memory_gib, want[i].memory);
		assert_int_equal(s.disk_gib, want[i].disk);
		assert_true(s.general);
		assert_string_equal(s.state, "active");
	}
	assert_int_equal(snapshot_list(b->core, &b->who, "LARGE", 1, 10, &page, NULL), 0);
	assert_int_equal(page.total, 1);
	free(page.item);
	assert_int_equal(snapshot_list(b->core, &b->who, NULL, 2, 2, &page, NULL), 0);
	assert_int_equal(page.n, 1);
	assert_int_equal(page.pages, 2);
	free(page.item);
}

static void imported_image_serves_creates_and_is_held_by_them(void **state)
{
	struct corebox *b = *state;
	struct sandbox_spec spec = corebox_spec("box");
	struct image img, *list;
	struct err err = {0};
	struct sandbox s;
	size_t n;

	assert_int_equal(image_import(b->core, &b->who, "busy", -1, NULL, NULL, &img, &err), 0);
	assert_int_equal(image_list(b->core, &b->who, &list, &n, NULL), 0);
	assert_int_equal(n, 2);
	free(list);
	spec.snapshot = "busy";
	assert_int_equal(sandbox_create(b->core, &b->who, &spec, -1, &s, &err), 0);
	assert_string_equal(s.user, "root");
	sandbox_done(&s);
	assert_int_equal(image_delete(b->core, &b->who, "busy", &err), -1);
	assert_int_equal(err.code, ERR_CONFLICT);
	assert_int_equal(sandbox_delete(b->core, &b->who, "box", &s, &err), 0);
	assert_true(corebox_wait_state(b, s.id, SB_STATE_MAX, 3000));
	sandbox_done(&s);
	assert_int_equal(image_delete(b->core, &b->who, "busy", &err), 0);
	assert_int_equal(fake_count(b->fake, FAKE_LAYER_REMOVE), 1);
	assert_int_equal(image_delete(b->core, &b->who, "default", &err), -1);
	assert_int_equal(err.code, ERR_CONFLICT);
	assert_int_equal(image_delete(b->core, &b->who, "busy", &err), -1);
	assert_int_equal(err.code, ERR_NOT_FOUND);
}

#define T(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(refusals_name_field_and_rule),
		T(e15_names_of_every_length_are_accepted),
		T(e15_hostname_is_trimmed_and_plain),
		T(env_and_labels_are_bounded),
		T(e10_timer_setters_keep_their_meaning),
		T(low_disk_refuses_creates),
		T(create_before_the_image_is_there_says_why),
		T(refused_default_image_is_tried_a_few_times_only),
		T(daemon_without_a_default_image_is_ready_and_says_so_at_creates),
		T(tokens_are_checked),
		T(keys_are_made_shown_once_and_deleted),
		T(bad_keys_are_refused),
		T(expired_key_is_refused),
		T(another_admin_key_replaces_the_first),
		T(foreign_organization_sees_no_sandbox),
		T(org_and_user_are_the_callers),
		T(default_snapshots_are_there),
		T(imported_image_serves_creates_and_is_held_by_them),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
