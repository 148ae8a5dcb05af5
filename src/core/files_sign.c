/*
 * files_sign.c - signed links to files. See caisson/files.h.
 *
 * The signature is over verb, path and end of life, with a key of the sandbox; changing the key
 * makes all links void. Nothing about links is stored.
 */
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <string.h>

#include "base/clock.h"
#include "core/files_int.h"

#define SIGN_PREFIX "v1_"
#define SIGN_TEXT   "v1:files:"

static const char url_alphabet[] =
	"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

static void key_new(char out[SIGNING_KEY_LEN])
{
	unsigned char raw[SIGNING_KEY_LEN - 1];

	id_random(raw, sizeof(raw));
	for (size_t i = 0; i < sizeof(raw); i++)
		out[i] = url_alphabet[raw[i] & 63];
	out[sizeof(raw)] = '\0';
}

/* Base64 for URLs, without padding. */
static void base64url(const unsigned char *p, size_t n, char *out)
{
	uint32_t bits = 0;
	unsigned have = 0;

	for (size_t i = 0; i < n; i++) {
		bits = bits << 8 | p[i];
		for (have += 8; have >= 6; have -= 6)
			*out++ = url_alphabet[bits >> (have - 6) & 63];
	}
	if (have)
		*out++ = url_alphabet[bits << (6 - have) & 63];
	*out = '\0';
}

void signature_make(const char *key, const char *verb, const char *path, const char *expires,
		    char ret[SIGNATURE_LEN])
{
	auto_free char *text = NULL;
	unsigned char mac[EVP_MAX_MD_SIZE];
	unsigned n = 0;

	ret[0] = '\0';
	if (asprintf(&text, SIGN_TEXT "%s:%s:%s", verb, path, expires) < 0) {
		text = NULL;
		return;
	}
	if (!HMAC(EVP_sha256(), key, (int)strlen(key), (const unsigned char *)text, strlen(text),
		  mac, &n))
		return;
	memcpy(ret, SIGN_PREFIX, sizeof(SIGN_PREFIX));
	base64url(mac, n, ret + strlen(SIGN_PREFIX));
}

static int key_of(struct core *c, const char *sandbox_id, char ret[SIGNING_KEY_LEN],
		  struct err *err)
{
	return store_sign_get(c->st, sandbox_id, ret, SIGNING_KEY_LEN, err);
}

int signing_key_get(struct core *c, const struct caller *who, const char *id,
		    char ret[SIGNING_KEY_LEN], struct err *err)
{
	auto_row struct sandbox_row row = {0};
	char key[SIGNING_KEY_LEN];
	int got;

	if (row_need(c, who, id, &row, err) < 0)
		return -1;
	got = key_of(c, row.s.id, ret, err);
	if (got != 0)
		return got < 0 ? -1 : 0;
	key_new(key);
	/* Somebody else may have been first: his is the one. */
	if (store_sign_put(c->st, row.s.id, key, false, clock_wall_ms(), err) < 0)
		return -1;
	got = key_of(c, row.s.id, ret, err);
	if (got == 0)
		return err_set(err, ERR_NOT_FOUND, "sandbox %.64s not found", id);
	return got < 0 ? -1 : 0;
}

int signing_key_rotate(struct core *c, const struct caller *who, const char *id,
		       char ret[SIGNING_KEY_LEN], struct err *err)
{
	auto_row struct sandbox_row row = {0};
	char key[SIGNING_KEY_LEN];

	if (row_need(c, who, id, &row, err) < 0)
		return -1;
	key_new(key);
	if (store_sign_put(c->st, row.s.id, key, true, clock_wall_ms(), err) < 0)
		return -1;
	memcpy(ret, key, sizeof(key));
	return 0;
}

/* Seconds of the text, -1 when it is no number. */
static int64_t expires_parse(const char *text)
{
	int64_t v = 0;
	size_t n = strlen(text);

	if (!n || n > 15 || text[strspn(text, "0123456789")])
		return -1;
	for (; *text; text++)
		v = v * 10 + (*text - '0');
	return v;
}

static bool signature_is(const char *key, const char *verb, const char *path, const char *expires,
			 const char *given)
{
	char want[SIGNATURE_LEN];
	size_t n;

	signature_make(key, verb, path, expires, want);
	n = strlen(want);
	return n && strlen(given) == n && CRYPTO_memcmp(want, given, n) == 0;
}

int signature_check(struct core *c, const char *sandbox_id, const char *verb, const char *path,
		    const char *expires, const char *signature, struct caller *ret, struct err *err)
{
	auto_row struct sandbox_row row = {0};
	int64_t end_s = expires_parse(expires);
	char key[SIGNING_KEY_LEN];
	int got = 0;

	if (id_valid(sandbox_id) && end_s >= 0)
		got = store_sandbox_get(c->st, NULL, sandbox_id, &row, err);
	if (got > 0)
		got = key_of(c, sandbox_id, key, err);
	if (got < 0)
		return -1;
	/* One answer for all: a stranger learns nothing about ids. */
	if (got == 0 || !row.s.org_id[0] || !signature_is(key, verb, path, expires, signature))
		return err_set(err, ERR_UNAUTHORIZED, "signature: the link is not valid");
	if (end_s && end_s * 1000 <= clock_wall_ms())
		return err_set(err, ERR_UNAUTHORIZED, "expires: the link has expired");
	*ret = (struct caller){.key_name = "signed link", .perms = PERM_WRITE_SANDBOXES};
	memcpy(ret->org_id, row.s.org_id, ID_LEN);
	return 0;
}
