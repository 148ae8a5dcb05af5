/*
 * resolv.c - the upstream resolvers: the operator's list, else the machine's resolv.conf.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/stat.h>

#include "base/scope.h"
#include "net/role.h"

#define RESOLV_CONF "/etc/resolv.conf"
#define RESOLV_MAX  16384
#define DNS_PORT    53

/* A number of 1 to 65535, or 0. */
static unsigned port_parse(const char *s)
{
	unsigned long v;
	char *end;

	errno = 0;
	v = strtoul(s, &end, 10);
	if (errno || *end || end == s || *s < '0' || *s > '9' || v > 65535)
		return 0;
	return (unsigned)v;
}

bool resolv_parse(const char *text, struct upstream *ret)
{
	char host[64];
	const char *hash = strchr(text, '#');
	size_t len = hash ? (size_t)(hash - text) : strlen(text);
	unsigned port = hash ? port_parse(hash + 1) : DNS_PORT;
	struct sockaddr_in *v4 = (struct sockaddr_in *)&ret->addr;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&ret->addr;

	if (len >= sizeof(host) || !port)
		return false;
	memcpy(host, text, len);
	host[len] = '\0';
	memset(ret, 0, sizeof(*ret));
	if (inet_pton(AF_INET, host, &v4->sin_addr) == 1) {
		v4->sin_family = AF_INET;
		v4->sin_port = htons((uint16_t)port);
		ret->len = sizeof(*v4);
		return true;
	}
	/* A zone (fe80::1%eth0) has no meaning in another namespace: such a server is left out. */
	if (inet_pton(AF_INET6, host, &v6->sin6_addr) == 1) {
		v6->sin6_family = AF_INET6;
		v6->sin6_port = htons((uint16_t)port);
		ret->len = sizeof(*v6);
		return true;
	}
	return false;
}

static void resolv_file(struct role *r, char *text)
{
	struct upstream up[ROLE_UPSTREAMS];
	unsigned n = 0;
	char *line;

	while ((line = strsep(&text, "\n")) && n < ROLE_UPSTREAMS) {
		char *word = strsep(&line, " \t");

		if (!word || strcmp(word, "nameserver") != 0)
			continue;
		while (line && (word = strsep(&line, " \t")) && !*word)
			;
		if (line || *word)
			n += resolv_parse(word, &up[n]);
	}
	memcpy(r->up, up, n * sizeof(*up));
	r->nups = n;
	r->current = 0;
}

static int resolv_read(struct role *r)
{
	char text[RESOLV_MAX];
	struct stat st;
	auto_close int fd = open(RESOLV_CONF, O_RDONLY | O_CLOEXEC);
	ssize_t got;
	int64_t mtime;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -1;
	mtime = st.st_mtim.tv_sec * 1000000000LL + st.st_mtim.tv_nsec;
	if (mtime == r->resolv_mtime_ns)
		return 0;
	got = read(fd, text, sizeof(text) - 1);
	if (got < 0)
		return -1;
	text[got] = '\0';
	resolv_file(r, text);
	r->resolv_mtime_ns = mtime;
	return 0;
}

int resolv_load(struct role *r, struct err *err)
{
	auto_free char *copy = NULL;
	char *rest, *item;

	if (!r->resolvers || !*r->resolvers) {
		resolv_read(r); /* without the file every query fails, until it is there */
		return 0;
	}
	rest = copy = strdup(r->resolvers);
	if (!copy)
		return err_set(err, ERR_NOMEM, "out of memory");
	while ((item = strsep(&rest, ", ")) && r->nups < ROLE_UPSTREAMS) {
		if (!*item)
			continue;
		if (!resolv_parse(item, &r->up[r->nups++]))
			return err_set(err, ERR_INVALID,
				       "resolvers: \"%s\" is not ADDRESS or ADDRESS#PORT", item);
	}
	return 0;
}

void resolv_refresh(struct role *r)
{
	if ((r->resolvers && *r->resolvers) || r->now_ms - r->resolv_seen_ms < RESOLV_CHECK_MS)
		return;
	r->resolv_seen_ms = r->now_ms;
	resolv_read(r);
}
