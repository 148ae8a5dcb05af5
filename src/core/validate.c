/*
 * validate.c - the rules for what a caller gives; each refusal names the field and the rule.
 *
 *   name      1 to 128 of A-Z a-z 0-9 . _ - and a letter or digit first. The hostname inside is
 *             the name with . and _ as -, cut to 63 (E15).
 *   env       names are C identifiers of at most 256, values at most 128 KiB (the kernel's bound
 *             of one string), 1024 of them, 512 KiB together.
 *   labels    64 pairs; keys 1 to 255 bytes, values at most 1024, UTF-8, no control characters.
 *   user      name, uid, name:group or uid:gid; nothing that two parsers could read differently
 *             (CVE-2026-30892).
 *   minutes   0 to ten years where nothing narrower is said; E10.
 */
#include <ctype.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>

#include "base/utf8.h"
#include "core/int.h"

#define NAME_LEN_MAX	 128
#define KEY_NAME_LEN_MAX 128
#define ENV_MAX		 1024
#define ENV_NAME_MAX	 256
#define ENV_VALUE_MAX	 (128u * 1024 - ENV_NAME_MAX - 2)
#define ENV_TOTAL_MAX	 (512u * 1024)
#define LABELS_MAX	 64
#define LABEL_KEY_MAX	 255
#define LABEL_VALUE_MAX	 1024
#define USER_ID_MAX	 4294967294ll /* 2^32 - 1 means "leave alone" to the kernel */
#define USER_PART_MAX	 32
#define MINUTES_MAX	 (10ll * 365 * 24 * 60)
#define ARCHIVE_MAX	 43200
#define LISTS_MAX	 10
#define IDEM_KEY_MAX	 255

static bool name_char(char ch)
{
	return isalnum((unsigned char)ch) || ch == '.' || ch == '_' || ch == '-';
}

int valid_name(const char *field, const char *name, struct err *err)
{
	size_t n = strlen(name);
	bool ok = n >= 1 && n <= NAME_LEN_MAX && isalnum((unsigned char)name[0]);

	for (size_t i = 0; ok && i < n; i++)
		ok = name_char(name[i]);
	/* The form of a deleted sandbox's name, which must stay free for it. */
	if (ok && strncmp(name, "DESTROYED_", 10) == 0)
		return err_set(err, ERR_INVALID, "%s: must not begin with DESTROYED_", field);
	if (!ok)
		return err_set(err, ERR_INVALID,
			       "%s: must be 1 to %d characters of A-Z, a-z, 0-9, '.', '_', '-' and "
			       "begin with a letter or digit",
			       field, NAME_LEN_MAX);
	return 0;
}

int valid_key_name(const char *field, const char *name, struct err *err)
{
	size_t n = name ? strlen(name) : 0;

	if (n < 1 || n > KEY_NAME_LEN_MAX || !utf8_plain(name, n))
		return err_set(err, ERR_INVALID,
			       "%s: must be 1 to %d bytes of UTF-8 without control characters",
			       field, KEY_NAME_LEN_MAX);
	return 0;
}

static bool env_name(const char *s)
{
	size_t n = strlen(s);
	bool ok = n >= 1 && n <= ENV_NAME_MAX && !isdigit((unsigned char)s[0]);

	for (size_t i = 0; ok && i < n; i++)
		ok = isalnum((unsigned char)s[i]) || s[i] == '_';
	return ok;
}

int valid_env(const char *field, const struct kv *env, struct err *err)
{
	size_t total = 0;

	if (env->n > ENV_MAX)
		return err_set(err, ERR_INVALID, "%s: at most %d variables, %zu given", field,
			       ENV_MAX, env->n);
	for (size_t i = 0; i < env->n; i++) {
		const char *key = env->pair[i].key;
		size_t n = strlen(env->pair[i].value);

		if (!env_name(key))
			return err_set(err, ERR_INVALID,
				       "%s: the name '%.64s' must be letters, digits and '_', not "
				       "begin with a digit, and have at most %d characters",
				       field, key, ENV_NAME_MAX);
		if (n > ENV_VALUE_MAX)
			return err_set(
				err, ERR_INVALID,
				"%s: the value of %.64s has %zu bytes, at most %u are allowed",
				field, key, n, ENV_VALUE_MAX);
		total += n + strlen(key) + 2;
	}
	if (total > ENV_TOTAL_MAX)
		return err_set(err, ERR_INVALID, "%s: %zu bytes together, at most %u are allowed",
			       field, total, ENV_TOTAL_MAX);
	return 0;
}

static bool label_text(const char *s, size_t min, size_t max)
{
	size_t n = strlen(s);

	return n >= min && n <= max && utf8_plain(s, n);
}

int valid_labels(const char *field, const struct kv *labels, struct err *err)
{
	if (labels->n > LABELS_MAX)
		return err_set(err, ERR_INVALID, "%s: at most %d labels, %zu given", field,
			       LABELS_MAX, labels->n);
	for (size_t i = 0; i < labels->n; i++) {
		if (!label_text(labels->pair[i].key, 1, LABEL_KEY_MAX))
			return err_set(err, ERR_INVALID,
				       "%s: a key must be 1 to %d bytes of UTF-8 without control "
				       "characters",
				       field, LABEL_KEY_MAX);
		if (!label_text(labels->pair[i].value, 0, LABEL_VALUE_MAX))
			return err_set(err, ERR_INVALID,
				       "%s: the value of '%.64s' must be at most %d bytes of UTF-8 "
				       "without control characters",
				       field, labels->pair[i].key, LABEL_VALUE_MAX);
	}
	return 0;
}

/* A number below 2^32 - 1 without sign or leading zero, or a name that begins with a letter. */
static bool user_part(const char *s, size_t n)
{
	int64_t v = 0;

	if (n == 0 || n > USER_PART_MAX)
		return false;
	if (isdigit((unsigned char)s[0])) {
		for (size_t i = 0; i < n; i++) {
			if (!isdigit((unsigned char)s[i]) || n > 10)
				return false;
			v = v * 10 + (s[i] - '0');
		}
		return v <= USER_ID_MAX && (n == 1 || s[0] != '0');
	}
	if (!isalpha((unsigned char)s[0]) && s[0] != '_')
		return false;
	for (size_t i = 0; i < n; i++)
		if (!name_char(s[i]))
			return false;
	return true;
}

int valid_user(const char *field, const char *user, struct err *err)
{
	size_t n = strcspn(user, ":");
	const char *group = user[n] ? user + n + 1 : NULL;

	if (!user_part(user, n) || (group && !user_part(group, strlen(group))) ||
	    strlen(user) >= CORE_USER_MAX)
		return err_set(err, ERR_INVALID,
			       "%s: must be a name, a uid, name:group or uid:gid, each part at "
			       "most %d characters",
			       field, USER_PART_MAX);
	return 0;
}

static const struct {
	const char *field;
	int64_t min, max;
} timer_table[] = {
	[TIMER_STOP] = {"autoStopInterval", 0, MINUTES_MAX},
	[TIMER_PAUSE] = {"autoPauseInterval", 0, MINUTES_MAX},
	[TIMER_ARCHIVE] = {"autoArchiveInterval", 0, ARCHIVE_MAX},
	[TIMER_DELETE] = {"autoDeleteInterval", INT64_MIN + 1, MINUTES_MAX},
	[TIMER_TTL] = {"ttlMinutes", 0, MINUTES_MAX},
};

int valid_timer(enum sandbox_timer t, int64_t minutes, struct err *err)
{
	if (minutes >= timer_table[t].min && minutes <= timer_table[t].max)
		return 0;
	if (t == TIMER_DELETE)
		return err_set(err, ERR_INVALID,
			       "%s: must be at most %" PRId64 " minutes; negative is off, 0 is on "
			       "stop",
			       timer_table[t].field, timer_table[t].max);
	return err_set(err, ERR_INVALID, "%s: must be 0 to %" PRId64 " minutes",
		       timer_table[t].field, timer_table[t].max);
}

static int valid_timers(const struct sandbox_spec *s, struct err *err)
{
	const int64_t value[] = {
		[TIMER_STOP] = s->auto_stop_min,
		[TIMER_PAUSE] = s->auto_pause_min,
		[TIMER_ARCHIVE] = s->auto_archive_min,
		[TIMER_DELETE] = s->auto_delete_min,
		[TIMER_TTL] = s->ttl_min,
	};

	for (int t = 0; t <= TIMER_TTL; t++)
		if (value[t] != SPEC_UNSET && valid_timer((enum sandbox_timer)t, value[t], err) < 0)
			return -1;
	if (s->auto_stop_min > 0 && s->auto_pause_min > 0)
		return err_set(err, ERR_INVALID,
			       "autoPauseInterval: must be 0 when "
			       "autoStopInterval is not 0");
	if (s->auto_pause_min > 0 && s->auto_delete_min == 0)
		return err_set(err, ERR_INVALID,
			       "autoPauseInterval: must be 0 for an ephemeral "
			       "sandbox (autoDeleteInterval 0)");
	return 0;
}

/* ---- network lists: checked, and refused until they can be enforced ---- */

static bool cidr_ok(const char *s, size_t n)
{
	char text[32];
	unsigned a[4], bits;
	int used = 0;

	if (n >= sizeof(text))
		return false;
	memcpy(text, s, n);
	text[n] = '\0';
	if (strspn(text, "0123456789./") != n ||
	    sscanf(text, "%3u.%3u.%3u.%3u/%2u%n", &a[0], &a[1], &a[2], &a[3], &bits, &used) != 5)
		return false;
	return (size_t)used == n && a[0] < 256 && a[1] < 256 && a[2] < 256 && a[3] < 256 &&
	       bits <= 32;
}

/* Labels of letters, digits and '-'; at least two; the last of letters only. */
static bool domain_ok(const char *s, size_t n)
{
	size_t labels = 0, start;

	if (n > 2 && s[0] == '*' && s[1] == '.')
		s += 2, n -= 2;
	if (n == 0 || n > 253)
		return false;
	for (size_t i = 0; i <= n; labels++, i++) {
		bool alpha = true;

		for (start = i; i < n && s[i] != '.'; i++) {
			if (!isalnum((unsigned char)s[i]) && s[i] != '-')
				return false;
			alpha = alpha && isalpha((unsigned char)s[i]);
		}
		if (i == start || i - start > 63 || s[start] == '-' || s[i - 1] == '-' ||
		    (i == n && (!alpha || i - start < 2)))
			return false;
	}
	return labels >= 2;
}

static int valid_list(const char *field, const char *list, bool (*ok)(const char *, size_t),
		      const char *rule, struct err *err)
{
	int count = 0;

	for (const char *at = list; *at;) {
		size_t n = strcspn(at, ",");
		const char *s = at + strspn(at, " \t");
		const char *end = at + n;

		at += n + (at[n] == ',');
		while (end > s && (end[-1] == ' ' || end[-1] == '\t'))
			end--;
		if (end <= s)
			continue;
		if (++count > LISTS_MAX)
			return err_set(err, ERR_INVALID, "%s: at most %d entries", field,
				       LISTS_MAX);
		if (!ok(s, (size_t)(end - s)))
			return err_set(err, ERR_INVALID, "%s: '%.*s' is not %s", field,
				       (int)MIN(end - s, 80), s, rule);
	}
	return count;
}

static int valid_lists(const struct sandbox_spec *s, struct err *err)
{
	int n = 0, m = 0;

	if (s->network_allow_list)
		n = valid_list("networkAllowList", s->network_allow_list, cidr_ok,
			       "an IPv4 range like 192.0.2.0/24", err);
	if (n >= 0 && s->domain_allow_list)
		m = valid_list("domainAllowList", s->domain_allow_list, domain_ok,
			       "a domain name like example.com or *.example.com", err);
	if (n < 0 || m < 0)
		return -1;
	/* A list that is stored and not enforced would be an open door with a lock painted on. */
	if ((n > 0 || m > 0) && !s->network_block_all)
		return err_set(err, ERR_NOT_BUILT,
			       "%s: allow lists are not enforced by this version; use "
			       "networkBlockAll",
			       n > 0 ? "networkAllowList" : "domainAllowList");
	return 0;
}

/* ---- resources ---- */

/* Whole GiB, the half one rounded up; 0 for what is neither. */
static int64_t memory_units(int64_t mib)
{
	if (mib == SPEC_UNSET)
		return SPEC_UNSET;
	if (mib == CORE_MEMORY_LEAST_MIB)
		return 1;
	return mib > 0 && mib % 1024 == 0 ? mib / 1024 : 0;
}

int valid_limits(const struct org *org, const struct sandbox_spec *s, struct err *err)
{
	const struct {
		const char *field, *unit, *flag;
		int64_t asked;
		unsigned max;
	} table[] = {
		{"cpu", "cores", "--max-cpu", s->cpu, org->max_cpu},
		{"memory", "GiB", "--max-memory", memory_units(s->memory_mib), org->max_memory_gib},
		{"disk", "GiB", "--max-disk", s->disk_gib, org->max_disk_gib},
	};

	for (size_t i = 0; i < ARRAY_LEN(table); i++) {
		if (table[i].asked == SPEC_UNSET)
			continue;
		if (table[i].asked < 1)
			return err_set(err, ERR_INVALID,
				       "%s: must be a whole number of %s, 1 or more%s",
				       table[i].field, table[i].unit, i == 1 ? ", or 0.5" : "");
		if (table[i].asked > table[i].max)
			return err_set(err, ERR_LIMIT,
				       "%s: %" PRId64
				       " %s asked, the limit of one sandbox is %u %s; "
				       "ask for less, or start caissond with a higher %s",
				       table[i].field, table[i].asked, table[i].unit, table[i].max,
				       table[i].unit, table[i].flag);
	}
	return 0;
}

int valid_spec(const struct sandbox_spec *s, struct err *err)
{
	bool sized =
		s->cpu != SPEC_UNSET || s->memory_mib != SPEC_UNSET || s->disk_gib != SPEC_UNSET;
	size_t nkey = s->idempotency_key ? strlen(s->idempotency_key) : 1;

	if (s->name && s->name[0] && valid_name("name", s->name, err) < 0)
		return -1;
	if (s->user && s->user[0] && valid_user("user", s->user, err) < 0)
		return -1;
	if (s->env && valid_env("env", s->env, err) < 0)
		return -1;
	if (s->labels && valid_labels("labels", s->labels, err) < 0)
		return -1;
	if (s->snapshot && s->snapshot[0] && sized)
		return err_set(err, ERR_INVALID,
			       "cpu, memory, disk: cannot specify sandbox "
			       "resources when using a snapshot");
	if (nkey < 1 || nkey > IDEM_KEY_MAX)
		return err_set(err, ERR_INVALID, "Idempotency-Key: must be 1 to %d characters",
			       IDEM_KEY_MAX);
	return valid_timers(s, err) < 0 || valid_lists(s, err) < 0 ? -1 : 0;
}

int valid_path(const char *path, struct err *err)
{
	size_t n = path ? strlen(path) : 0;

	if (n == 0 || n >= PATH_MAX)
		return err_tagged(err, ERR_INVALID, "INVALID_FILE_PATH",
				  "path: must be 1 to %d bytes", PATH_MAX - 1);
	return 0;
}

void hostname_of(const char *name, char out[64])
{
	size_t n = 0;

	for (; name[n] && n < 63; n++)
		out[n] = isalnum((unsigned char)name[n]) ? name[n] : '-';
	while (n && out[n - 1] == '-')
		n--;
	out[n] = '\0';
}
