/*
 * conn.c - see conn.h.
 */
#include "conn.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define HEAD_MAX  16384
#define CHUNK_MAX (1u << 20)

int64_t now_us(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

int conn_open(struct conn *c, const char *host, const char *port, const char *key)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list = NULL;
	int on = 1;
	*c = (struct conn){.fd = -1, .host = host, .key = key};
	c->in = malloc(CONN_REPLY_MAX + 1);
	if (!c->in || getaddrinfo(host, port, &hints, &list) != 0)
		return -1;
	c->fd = socket(list->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int rc = c->fd < 0 ? -1 : connect(c->fd, list->ai_addr, list->ai_addrlen);
	freeaddrinfo(list);
	if (rc == 0)
		setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	return rc;
}

void conn_close(struct conn *c)
{
	if (c->fd >= 0)
		close(c->fd);
	free(c->in);
	c->in = NULL;
	c->fd = -1;
}

static int send_all(int fd, const char *p, size_t n)
{
	while (n) {
		ssize_t got = send(fd, p, n, MSG_NOSIGNAL);
		if (got <= 0)
			return -1;
		p += got;
		n -= (size_t)got;
	}
	return 0;
}

static int send_request(struct conn *c, const char *method, const char *path, const char *body,
			uint64_t size)
{
	char head[HEAD_MAX];
	int n = snprintf(head, sizeof(head),
			 "%s %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n"
			 "Content-Type: %s\r\nContent-Length: %llu\r\n\r\n%s",
			 method, path, c->host, c->key,
			 body ? "application/json" : "application/octet-stream",
			 (unsigned long long)size, body ? body : "");
	return n >= (int)sizeof(head) ? -1 : send_all(c->fd, head, (size_t)n);
}

/* More bytes into in; -1 at the end of the stream or when it is full. */
static int more(struct conn *c)
{
	if (c->len == CONN_REPLY_MAX)
		return -1;
	ssize_t n = recv(c->fd, c->in + c->len, CONN_REPLY_MAX - c->len, 0);
	if (n <= 0)
		return -1;
	c->len += (size_t)n;
	c->in[c->len] = '\0';
	return 0;
}

static const char *header(const char *head, const char *name)
{
	size_t n = strlen(name);
	for (const char *p = strstr(head, "\r\n"); p; p = strstr(p + 2, "\r\n"))
		if (!strncasecmp(p + 2, name, n) && p[2 + n] == ':')
			return p + 3 + n;
	return NULL;
}

/* Reads the head; *at is where the body starts. */
static int read_head(struct conn *c, size_t *at)
{
	char *end;
	c->len = 0;
	c->in[0] = '\0';
	while (!(end = strstr(c->in, "\r\n\r\n")))
		if (more(c) < 0)
			return -1;
	end[2] = '\0';
	*at = (size_t)(end - c->in) + 4;
	c->status = strlen(c->in) > 12 ? (int)strtol(c->in + 9, NULL, 10) : -1;
	return 0;
}

static int read_chunks(struct conn *c, size_t at)
{
	size_t to = at;
	for (;;) {
		char *end;
		while (!(end = strstr(c->in + at, "\r\n")))
			if (more(c) < 0)
				return -1;
		size_t n = strtoul(c->in + at, NULL, 16), data = (size_t)(end - c->in) + 2;
		while (c->len < data + n + 2)
			if (more(c) < 0)
				return -1;
		if (n == 0)
			break;
		memmove(c->in + to, c->in + data, n);
		to += n;
		at = data + n + 2;
	}
	c->len = to;
	return 0;
}

static int read_reply(struct conn *c)
{
	size_t at;
	if (read_head(c, &at) < 0)
		return -1;
	const char *length = header(c->in, "Content-Length");
	const char *coding = header(c->in, "Transfer-Encoding");
	if (coding && read_chunks(c, at) < 0)
		return -1;
	if (!coding) {
		size_t want = at + (length ? strtoul(length, NULL, 10) : 0);
		while (c->len < want)
			if (more(c) < 0)
				return -1;
	}
	c->body = c->in + at;
	c->body_len = c->len - at;
	c->in[c->len] = '\0';
	return c->status;
}

int conn_call(struct conn *c, const char *method, const char *path, const char *body)
{
	if (send_request(c, method, path, body ? body : "", body ? strlen(body) : 0) < 0)
		return -1;
	return read_reply(c);
}

int conn_put(struct conn *c, const char *method, const char *path, uint64_t size)
{
	static char bytes[CHUNK_MAX];
	/* Zeros would become a hole, and cost nothing. */
	memset(bytes, 'x', sizeof(bytes));
	if (send_request(c, method, path, NULL, size) < 0)
		return -1;
	while (size) {
		size_t n = size < CHUNK_MAX ? (size_t)size : CHUNK_MAX;
		if (send_all(c->fd, bytes, n) < 0)
			return -1;
		size -= n;
	}
	return read_reply(c);
}

int64_t conn_drain(struct conn *c, const char *path)
{
	size_t at;
	if (send_request(c, "GET", path, "", 0) < 0 || read_head(c, &at) < 0)
		return -1;
	const char *length = header(c->in, "Content-Length");
	if (c->status != 200 || !length)
		return -1;
	uint64_t total = strtoull(length, NULL, 10), got = c->len - at;
	while (got < total) {
		ssize_t n = recv(c->fd, c->in, CHUNK_MAX, 0);
		if (n <= 0)
			return -1;
		got += (uint64_t)n;
	}
	return (int64_t)total;
}

void conn_field(const struct conn *c, const char *key, char *out, size_t cap)
{
	char quoted[64];
	snprintf(quoted, sizeof(quoted), "\"%s\":", key);
	const char *p = strstr(c->body, quoted);
	*out = '\0';
	if (!p)
		return;
	p += strlen(quoted);
	p += strspn(p, " \"");
	snprintf(out, cap, "%.*s", (int)strcspn(p, "\",}"), p);
}
