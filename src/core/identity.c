/*
 * identity.c - keys, organizations, users: who asks and what they may.
 *
 * Keys are compared by their SHA-256, so neither the database nor the time of a comparison tells
 * a key. Keys in use are cached here, where all of them are written: a deleted key ends with the
 * call that deleted it.
 */
#include <openssl/sha.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "core/int.h"

#define KEY_RANDOM_BYTES  32
#define KEY_PREFIX	  "dtn_"
#define KEY_USED_EVERY_MS 60000 /* last_used is written at most this often */

static const struct {
	const char *name;
	uint32_t perm;
} perm_table[] = {
	{"write:registries", PERM_OTHER},
	{"delete:registries", PERM_OTHER},
	{"write:snapshots", PERM_WRITE_SNAPSHOTS},
	{"delete:snapshots", PERM_DELETE_SNAPSHOTS},
	{"write:sandboxes", PERM_WRITE_SANDBOXES},
	{"delete:sandboxes", PERM_DELETE_SANDBOXES},
	{"read:volumes", PERM_OTHER},
	{"write:volumes", PERM_OTHER},
	{"delete:volumes", PERM_OTHER},
	{"write:regions", PERM_OTHER},
	{"delete:regions", PERM_OTHER},
	{"read:runners", PERM_OTHER},
	{"write:runners", PERM_OTHER},
	{"delete:runners", PERM_OTHER},
	{"read:audit_logs", PERM_READ_AUDIT},
	{"manage:api_keys", PERM_MANAGE_API_KEYS},
	{"manage:secrets", PERM_OTHER},
	{"read:limits", PERM_OTHER},
	{"manage:sso", PERM_OTHER},
	{"read:billing", PERM_OTHER},
	{"manage:billing", PERM_OTHER},
};

/* The comma list's bits; names outside the contract are ERR_INVALID. */
static int perms_parse(const char *list, uint32_t *ret, struct err *err)
{
	uint32_t bits = 0;

	for (const char *at = list; *at;) {
		size_t n = strcspn(at, ","), i = 0;

		while (i < ARRAY_LEN(perm_table) &&
		       (strlen(perm_table[i].name) != n || strncmp(perm_table[i].name, at, n) != 0))
			i++;
		if (i == ARRAY_LEN(perm_table))
			return err_set(err, ERR_INVALID, "permissions: unknown permission %.*s",
				       (int)MIN(n, (size_t)64), at);
		bits |= perm_table[i].perm;
		at += n + (at[n] == ',');
	}
	*ret = bits;
	return 0;
}

static void perms_all(char *out, size_t cap)
{
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_LEN(perm_table); i++)
		n += (size_t)snprintf(out + n, cap - n, "%s%s", i ? "," : "", perm_table[i].name);
}

static void key_fill(struct key_row *row, const char *token)
{
	size_t n = strlen(token);

	SHA256((const unsigned char *)token, n, row->hash);
	/* Three characters of 64 tell keys apart and give nothing away; none of a short one. */
	snprintf(row->prefix, sizeof(row->prefix), "%.*s", n > 16 ? 4 : 0, token);
	snprintf(row->suffix, sizeof(row->suffix), "%s", n > 16 ? token + n - 3 : "");
	snprintf(row->k.masked, sizeof(row->k.masked), "%.8s********%.7s", row->prefix,
		 row->suffix);
	row->k.created_ms = clock_wall_ms();
}

int identity_open(struct core *c, const char *admin_key, struct err *err)
{
	struct key_row row = {0};

	snprintf(c->org.name, sizeof(c->org.name), "default");
	snprintf(c->user.name, sizeof(c->user.name), "admin");
	snprintf(c->user.email, sizeof(c->user.email), "admin@localhost");
	c->user.created_ms = c->org.created_ms = c->org.updated_ms = clock_wall_ms();
	if (store_user_ensure(c->st, &c->user, err) < 0)
		return -1;
	memcpy(c->org.created_by, c->user.id, ID_LEN);
	if (store_org_ensure(c->st, &c->org, err) < 0)
		return -1;
	if (!admin_key || !admin_key[0])
		return 0;
	memcpy(row.k.user_id, c->user.id, ID_LEN);
	memcpy(row.k.org_id, c->org.id, ID_LEN);
	snprintf(row.k.name, sizeof(row.k.name), "admin");
	perms_all(row.k.permissions, sizeof(row.k.permissions));
	key_fill(&row, admin_key);
	return store_key_replace(c->st, &row, err);
}

/* The key's row from memory, or from its record: 1, 0 unknown, -1. */
static int key_find(struct core *c, const uint8_t hash[STORE_HASH_LEN], struct key_row *ret,
		    struct err *err)
{
	uint64_t gen;
	int got;

	if (cache_get(&c->keys, hash, STORE_HASH_LEN, ret, &gen))
		return 1;
	got = store_key_find(c->st, hash, ret, err);
	if (got > 0)
		cache_put(&c->keys, hash, STORE_HASH_LEN, ret, gen);
	return got;
}

static void key_used(struct core *c, struct key_row *row, int64_t now_ms)
{
	if (row->k.last_used_ms + KEY_USED_EVERY_MS > now_ms)
		return;
	store_key_used(c->st, row->hash, now_ms, NULL);
	cache_clear(&c->keys);
}

int identity_check(struct core *c, const char *token, const char *org, struct caller *ret,
		   struct err *err)
{
	uint8_t hash[SHA256_DIGEST_LENGTH];
	struct key_row row;
	int64_t now = clock_wall_ms();
	int got;

	if (!token || !token[0])
		return err_set(err, ERR_UNAUTHORIZED,
			       "an API key is needed: Authorization: "
			       "Bearer KEY");
	SHA256((const unsigned char *)token, strlen(token), hash);
	got = key_find(c, hash, &row, err);
	if (got < 0)
		return -1;
	if (got == 0)
		return err_set(err, ERR_UNAUTHORIZED, "the API key is not valid");
	if (row.k.expires_ms && row.k.expires_ms <= now)
		return err_set(err, ERR_UNAUTHORIZED, "the API key has expired");
	if (org && org[0] && strcmp(org, row.k.org_id) != 0)
		return err_set(err, ERR_NOT_FOUND, "organization %.64s not found", org);
	memcpy(ret->user_id, row.k.user_id, ID_LEN);
	memcpy(ret->org_id, row.k.org_id, ID_LEN);
	memcpy(ret->key_name, row.k.name, sizeof(ret->key_name));
	memcpy(ret->key_prefix, row.prefix, sizeof(ret->key_prefix));
	memcpy(ret->key_suffix, row.suffix, sizeof(ret->key_suffix));
	ret->key_expires_ms = row.k.expires_ms;
	if (perms_parse(row.k.permissions, &ret->perms, NULL) < 0)
		ret->perms = 0;
	key_used(c, &row, now);
	return 0;
}

int identity_need(const struct caller *who, uint32_t perm, struct err *err)
{
	uint32_t lacks = perm & ~who->perms;

	if (!lacks)
		return 0;
	for (size_t i = 0; i < ARRAY_LEN(perm_table); i++)
		if (perm_table[i].perm & lacks)
			return err_set(err, ERR_FORBIDDEN, "this needs a key with permission %s",
				       perm_table[i].name);
	return err_set(err, ERR_FORBIDDEN, "this key may not do that");
}

/* ---- keys ---- */

/* Nobody hands out what they don't have: permissions, or a longer life. */
static int key_grant(const struct caller *who, const char *permissions, int64_t expires_ms,
		     struct err *err)
{
	uint32_t bits;

	if (strlen(permissions) >= sizeof(((struct api_key *)0)->permissions))
		return err_set(err, ERR_INVALID, "permissions: too many");
	if (perms_parse(permissions, &bits, err) < 0)
		return -1;
	if (who->key_expires_ms && (!expires_ms || expires_ms > who->key_expires_ms))
		return err_set(err, ERR_FORBIDDEN,
			       "expiresAt: must not be later than the end of the key that asks");
	return identity_need(who, bits, err);
}

/* Else a key of few rights could take away the keys of many. */
static int key_revoke(struct core *c, const struct caller *who, const char *name, struct err *err)
{
	struct key_row row;
	uint32_t bits = 0;
	int got;

	if (who->perms & PERM_MANAGE_API_KEYS || strcmp(name, who->key_name) == 0)
		return 0;
	got = store_key_get(c->st, who->org_id, who->user_id, name, &row, err);
	if (got <= 0)
		return got; /* the delete itself says that there is none */
	if (perms_parse(row.k.permissions, &bits, NULL) == 0 && !(bits & ~who->perms))
		return 0;
	return identity_need(who, PERM_MANAGE_API_KEYS, err);
}

int api_key_create(struct core *c, const struct caller *who, const char *name,
		   const char *permissions, int64_t expires_ms, struct api_key *ret,
		   struct err *err)
{
	struct key_row row = {0};
	char hex[2 * KEY_RANDOM_BYTES + 1];

	if (valid_key_name("name", name, err) < 0 ||
	    key_grant(who, permissions, expires_ms, err) < 0)
		return -1;
	if (expires_ms && expires_ms <= clock_wall_ms())
		return err_set(err, ERR_INVALID, "expiresAt: must be in the future");
	id_hex(hex, KEY_RANDOM_BYTES);
	snprintf(row.k.value, sizeof(row.k.value), KEY_PREFIX "%s", hex);
	key_fill(&row, row.k.value);
	memcpy(row.k.user_id, who->user_id, ID_LEN);
	memcpy(row.k.org_id, who->org_id, ID_LEN);
	snprintf(row.k.name, sizeof(row.k.name), "%s", name);
	snprintf(row.k.permissions, sizeof(row.k.permissions), "%s", permissions);
	row.k.expires_ms = expires_ms;
	if (store_key_insert(c->st, &row, err) < 0)
		return -1;
	*ret = row.k;
	return 0;
}

int api_key_list(struct core *c, const struct caller *who, struct api_key **ret, size_t *ret_n,
		 struct err *err)
{
	struct api_key *list;
	size_t n, kept = 0;

	if (store_key_list(c->st, who->org_id, &list, &n, err) < 0)
		return -1;
	for (size_t i = 0; i < n; i++)
		if ((who->perms & PERM_MANAGE_API_KEYS) ||
		    strcmp(list[i].user_id, who->user_id) == 0)
			list[kept++] = list[i];
	*ret = list;
	*ret_n = kept;
	return 0;
}

int api_key_get(struct core *c, const struct caller *who, const char *name, struct api_key *ret,
		struct err *err)
{
	struct key_row row;
	int got = store_key_get(c->st, who->org_id, who->user_id, name ? name : who->key_name, &row,
				err);

	if (got < 0)
		return -1;
	if (got == 0)
		return err_set(err, ERR_NOT_FOUND, "API key %.128s not found", name ? name : "");
	*ret = row.k;
	return 0;
}

int api_key_delete(struct core *c, const struct caller *who, const char *name, struct err *err)
{
	int n;

	if (key_revoke(c, who, name, err) < 0)
		return -1;
	n = store_key_delete(c->st, who->org_id, who->user_id, name, err);
	cache_clear(&c->keys);
	if (n == 0)
		return err_set(err, ERR_NOT_FOUND, "API key %.128s not found", name);
	return n < 0 ? -1 : 0;
}

/* ---- organizations, users ---- */

int org_get(struct core *c, const struct caller *who, const char *id, struct org *ret,
	    struct err *err)
{
	int got = 0;

	if (!id || strcmp(id, who->org_id) == 0)
		got = store_org_get(c->st, who->org_id, ret, err);
	if (got == 0)
		return err_set(err, ERR_NOT_FOUND, "organization %.64s not found", id ? id : "");
	return got < 0 ? -1 : 0;
}

int user_get(struct core *c, const struct caller *who, struct user *ret, struct err *err)
{
	int got = store_user_get(c->st, who->user_id, ret, err);

	if (got == 0)
		return err_set(err, ERR_NOT_FOUND, "user %s not found", who->user_id);
	return got < 0 ? -1 : 0;
}
