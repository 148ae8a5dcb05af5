/*
 * config_check.c - rules on settings beyond their type. A value that some role would trip over
 * later is refused here, before anything starts, naming the setting.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include <openssl/pem.h>
#include <openssl/x509.h>

#include "main/config.h"
#include "main/config_check.h"

#define CHECK_LABELS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_"
#define CHECK_ITEM   128

bool config_key_valid(const char *key)
{
	size_t n = strlen(CONFIG_KEY_PREFIX);

	return strncmp(key, CONFIG_KEY_PREFIX, n) == 0 && strlen(key) == n + CONFIG_KEY_HEX &&
	       strspn(key + n, "0123456789abcdef") == CONFIG_KEY_HEX;
}

int config_listen_split(const char *text, char host[256], char port[16], struct err *err)
{
	const char *colon = strrchr(text, ':');
	size_t n = colon ? (size_t)(colon - text) : 0;

	if (!colon || !colon[1] || strlen(colon + 1) > 5 || n > 255 ||
	    strspn(colon + 1, "0123456789") != strlen(colon + 1) ||
	    strtol(colon + 1, NULL, 10) > 65535)
		return err_set(err, ERR_INVALID,
			       "listen: \"%s\" is not HOST:PORT with a port of 0 to 65535", text);
	if (n >= 2 && text[0] == '[' && text[n - 1] == ']') {
		text++;
		n -= 2;
	}
	memcpy(host, text, n);
	host[n] = '\0';
	snprintf(port, 16, "%s", colon + 1);
	return 0;
}

static bool address_valid(const char *text)
{
	unsigned char raw[16];

	return inet_pton(AF_INET, text, raw) == 1 || inet_pton(AF_INET6, text, raw) == 1;
}

/* ADDR, or ADDR#PORT where a port may follow. */
static bool resolver_valid(const char *text)
{
	char addr[CHECK_ITEM];
	const char *hash = strchr(text, '#');
	long port;
	char *end;

	if (!hash)
		return address_valid(text);
	snprintf(addr, sizeof(addr), "%.*s", (int)(hash - text), text);
	port = strtol(hash + 1, &end, 10);
	return address_valid(addr) && *end == '\0' && end != hash + 1 && port > 0 && port <= 65535;
}

static bool range_valid(const char *text)
{
	char addr[CHECK_ITEM];
	const char *slash = strchr(text, '/');
	long bits;
	char *end;

	if (!slash)
		return address_valid(text);
	snprintf(addr, sizeof(addr), "%.*s", (int)(slash - text), text);
	bits = strtol(slash + 1, &end, 10);
	return address_valid(addr) && *end == '\0' && end != slash + 1 && bits >= 0 &&
	       bits <= (strchr(addr, ':') ? 128 : 32);
}

static int list_check(const char *name, const char *list, bool (*valid)(const char *),
		      const char *what, struct err *err)
{
	while (list && *list) {
		char item[CHECK_ITEM];
		size_t n = strcspn(list, ",");
		const char *at = list + strspn(list, " ");
		int len = (int)(n - (size_t)(at - list));

		snprintf(item, sizeof(item), "%.*s", len < 0 ? 0 : len, at);
		item[strcspn(item, " ")] = '\0';
		if (n >= sizeof(item) || !valid(item))
			return err_set(err, ERR_INVALID, "%s: \"%.*s\" is not %s", name, (int)n,
				       list, what);
		list += n + (list[n] == ',');
	}
	return 0;
}

static int url_check(const char *url, struct err *err)
{
	size_t n = !url				      ? 0
		   : strncmp(url, "http://", 7) == 0  ? 7
		   : strncmp(url, "https://", 8) == 0 ? 8
						      : 0;

	if (url && (n == 0 || url[n] == '\0' || url[n] == '/' || strpbrk(url, " \t\"<>\\?#")))
		return err_set(err, ERR_INVALID,
			       "public-url: \"%s\" is not http:// or https:// and a host", url);
	return 0;
}

int config_check(const struct config *c, struct err *err)
{
	char host[256], port[16];

	if (config_listen_split(c->listen, host, port, err) < 0 ||
	    url_check(c->public_url, err) < 0)
		return -1;
	if (c->admin_key && !config_key_valid(c->admin_key))
		return err_set(err, ERR_INVALID,
			       "admin-key: must be %s and %d lower-case hex digits",
			       CONFIG_KEY_PREFIX, CONFIG_KEY_HEX);
	if (!c->region || strlen(c->region) > 63 || c->region[0] == '.' ||
	    strspn(c->region, CHECK_LABELS) != strlen(c->region))
		return err_set(err, ERR_INVALID,
			       "region: must be 1 to 63 of letters, digits, '.', '-' and '_', not "
			       "beginning with '.'");
	if (!c->tls_cert != !c->tls_key)
		return err_set(err, ERR_INVALID, "tls-cert, tls-key: one needs the other");
	if (list_check("resolvers", c->resolvers, resolver_valid, "an address or ADDR#PORT", err) <
	    0)
		return -1;
	if (list_check("trusted-proxies", c->trusted_proxies, address_valid, "an address", err) < 0)
		return -1;
	return list_check("net-allow-ranges", c->net_allow_ranges, range_valid,
			  "an address or CIDR", err);
}

/* Reading keys and certificates is OpenSSL's; its error queue tells nothing a person needs. */
int config_check_tls(const struct config *c, struct err *err)
{
	auto_fclose FILE *cert = c->tls_cert ? fopen(c->tls_cert, "re") : NULL;
	auto_fclose FILE *key = c->tls_key ? fopen(c->tls_key, "re") : NULL;
	X509 *x = cert ? PEM_read_X509(cert, NULL, NULL, NULL) : NULL;
	EVP_PKEY *k = key ? PEM_read_PrivateKey(key, NULL, NULL, NULL) : NULL;
	int rc = 0;

	if (c->tls_cert && !x)
		rc = err_set(err, ERR_INVALID, "tls-cert: %s holds no PEM certificate",
			     c->tls_cert);
	else if (c->tls_key && !k)
		rc = err_set(err, ERR_INVALID, "tls-key: %s holds no PEM private key", c->tls_key);
	else if (x && k && X509_check_private_key(x, k) != 1)
		rc = err_set(err, ERR_INVALID, "tls-key: is not the key of the tls-cert");
	X509_free(x);
	EVP_PKEY_free(k);
	return rc;
}
