/*
 * git_url.c - URLs as users paste them, with user and password inside, split so that the secret
 * goes its own way. Only http and https URLs are taken apart: for any other scheme a user is part
 * of the address.
 */
#include <string.h>
#include <strings.h>

#include "core/git_int.h"

void git_url_done(struct git_url *u)
{
	free(u->clean);
	free(u->user);
	if (u->password)
		explicit_bzero(u->password, strlen(u->password));
	free(u->password);
	free(u->scope);
	*u = (struct git_url){0};
}

static int hex_digit(char ch)
{
	if (ch >= '0' && ch <= '9')
		return ch - '0';
	ch = (char)(ch | 32);
	return ch >= 'a' && ch <= 'f' ? ch - 'a' + 10 : -1;
}

/* n bytes with percent-escapes to a heap string; NULL with err. */
static char *decode(const char *field, const char *p, size_t n, struct err *err)
{
	char *out = malloc(n + 1), *to = out;
	int hi, lo;

	if (!out) {
		err_set(err, ERR_NOMEM, "out of memory");
		return NULL;
	}
	for (size_t i = 0; i < n; i++) {
		if (p[i] != '%') {
			*to++ = p[i];
			continue;
		}
		hi = n - i > 2 ? hex_digit(p[i + 1]) : -1;
		lo = hi >= 0 ? hex_digit(p[i + 2]) : -1;
		if (lo < 0 || hi * 16 + lo < 32 || hi * 16 + lo == 127) {
			err_set(err, ERR_INVALID, "%s: user or password has a bad percent-escape",
				field);
			free(out);
			return NULL;
		}
		*to++ = (char)(hi * 16 + lo);
		i += 2;
	}
	*to = '\0';
	return out;
}

static int split_user(const char *field, const char *info, size_t n, struct git_url *u,
		      struct err *err)
{
	const char *colon = memchr(info, ':', n);
	size_t user = colon ? (size_t)(colon - info) : n;

	u->user = decode(field, info, user, err);
	if (!u->user)
		return -1;
	if (!colon)
		return 0;
	u->password = decode(field, colon + 1, n - user - 1, err);
	return u->password ? 0 : -1;
}

static int split_http(const char *field, const char *url, size_t scheme, struct git_url *u,
		      struct err *err)
{
	const char *host = url + scheme, *end = host + strcspn(host, "/?#"), *at = NULL;
	size_t head = scheme;

	for (const char *p = host; p < end; p++)
		if (*p == '@')
			at = p;
	if (at && split_user(field, host, (size_t)(at - host), u, err) < 0)
		return -1;
	if (at)
		host = at + 1;
	if (host == end)
		return err_set(err, ERR_INVALID, "%s: has no host", field);
	if (asprintf(&u->clean, "%.*s%s", (int)head, url, host) < 0)
		u->clean = NULL;
	if (asprintf(&u->scope, "%.*s%.*s", (int)head, url, (int)(end - host), host) < 0)
		u->scope = NULL;
	return u->clean && u->scope ? 0 : err_set(err, ERR_NOMEM, "out of memory");
}

int git_url_split(const char *field, const char *url, struct git_url *ret, struct err *err)
{
	static const char *const schemes[] = {"http://", "https://"};
	auto_git_url struct git_url u = {0};

	if (!*url || strlen(url) >= GIT_URL_MAX)
		return err_set(err, ERR_INVALID, "%s: must be 1 to %d bytes", field,
			       GIT_URL_MAX - 1);
	if (*url == '-')
		return err_set(err, ERR_INVALID, "%s: must not begin with '-'", field);
	if (git_check_line(field, url, err) < 0)
		return -1;
	for (size_t i = 0; i < ARRAY_LEN(schemes) && !u.clean; i++) {
		size_t n = strlen(schemes[i]);

		if (strncasecmp(url, schemes[i], n) == 0 && split_http(field, url, n, &u, err) < 0)
			return -1;
	}
	if (!u.clean)
		u.clean = strdup(url);
	if (!u.clean)
		return err_set(err, ERR_NOMEM, "out of memory");
	*ret = u;
	u = (struct git_url){0};
	return 0;
}
