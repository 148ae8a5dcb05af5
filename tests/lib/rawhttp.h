/*
 * rawhttp.h - an HTTP client of raw sockets for tests, and a server to point it at. Every wait
 * has a deadline, so a bug is a failed assertion and not a hung test.
 */
#ifndef CAISSON_TESTS_RAWHTTP_H
#define CAISSON_TESTS_RAWHTTP_H

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdarg.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/fd.h"
#include "caisson/http.h"

#define RAW_WAIT_MS 10000

/* A listening socket on loopback; its port in *ret_port. */
static inline int raw_listen(uint16_t *ret_port)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	socklen_t len = sizeof(a);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(listen(fd, 1024), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &len), 0);
	*ret_port = ntohs(a.sin_port);
	return fd;
}

static inline int raw_connect(uint16_t port)
{
	struct sockaddr_in a = {.sin_family = AF_INET,
				.sin_port = htons(port),
				.sin_addr = {htonl(INADDR_LOOPBACK)}};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	return fd;
}

/* 0, or -1 when the server has closed. */
static inline int raw_send_n(int fd, const void *p, size_t n)
{
	return send(fd, p, n, MSG_NOSIGNAL) == (ssize_t)n ? 0 : -1;
}

static inline int raw_send(int fd, const char *text)
{
	return raw_send_n(fd, text, strlen(text));
}

/* Bytes that come until the server closes or want of them are there. */
static inline size_t raw_read(int fd, char *out, size_t cap, size_t want)
{
	int64_t until = clock_mono_ms() + RAW_WAIT_MS;
	size_t n = 0;

	while (n < want && n < cap) {
		struct pollfd p = {.fd = fd, .events = POLLIN};
		ssize_t got;

		if (poll(&p, 1, clock_left_ms(until)) <= 0)
			fail_msg("no answer in time, %zu bytes so far", n);
		got = recv(fd, out + n, MIN(cap, want) - n, 0);
		if (got <= 0)
			break;
		n += (size_t)got;
	}
	return n;
}

struct raw_reply {
	int status; /* 0: the connection ended without one */
	char head[4096];
	char body[65536];
	size_t len;
};

static inline const char *raw_header(const struct raw_reply *r, const char *name)
{
	static char value[512];
	char want[80];
	const char *at;

	snprintf(want, sizeof(want), "\r\n%s: ", name);
	at = strcasestr(r->head, want);
	if (!at)
		return NULL;
	at += strlen(want);
	snprintf(value, sizeof(value), "%.*s", (int)strcspn(at, "\r"), at);
	return value;
}

static inline void raw_chunks(int fd, struct raw_reply *r)
{
	for (;;) {
		char line[32];
		size_t n = 0, size;

		while (n < sizeof(line) - 1 && raw_read(fd, line + n, 1, 1) == 1)
			if (line[n++] == '\n')
				break;
		line[n] = '\0';
		if (!n)
			return;
		size = strtoul(line, NULL, 16);
		assert_true(r->len + size < sizeof(r->body));
		r->len += raw_read(fd, r->body + r->len, size, size);
		if (raw_read(fd, line, 2, 2) != 2 || !size)
			return;
	}
}

/* One reply; has_body false for replies to HEAD. */
static inline void raw_reply_read(int fd, struct raw_reply *r, bool has_body)
{
	const char *length;
	size_t n = 0;

	memset(r, 0, sizeof(*r));
	while (n < sizeof(r->head) - 1 && raw_read(fd, r->head + n, 1, 1) == 1) {
		n++;
		if (n >= 4 && memcmp(r->head + n - 4, "\r\n\r\n", 4) == 0)
			break;
	}
	if (strncmp(r->head, "HTTP/1.", 7) != 0)
		return;
	r->status = (int)strtol(r->head + 9, NULL, 10);
	if (!has_body || r->status == 101 || r->status == 100)
		return;
	length = raw_header(r, "Content-Length");
	if (length) {
		size_t want = strtoul(length, NULL, 10);

		r->len = raw_read(fd, r->body, sizeof(r->body) - 1, want);
	} else if (raw_header(r, "Transfer-Encoding")) {
		raw_chunks(fd, r);
	}
	r->body[r->len] = '\0';
}

/* A request text to a reply on a connection of its own. */
static inline void raw_ask(uint16_t port, const char *request, struct raw_reply *r)
{
	int fd = raw_connect(port);

	assert_int_equal(raw_send(fd, request), 0);
	raw_reply_read(fd, r, strncmp(request, "HEAD", 4) != 0);
	close(fd);
}

/* Whether the server closes within wait_ms; what it still sends is thrown away. */
static inline bool raw_is_closed(int fd, int wait_ms)
{
	int64_t until = clock_mono_ms() + wait_ms;
	char junk[4096];

	for (;;) {
		struct pollfd p = {.fd = fd, .events = POLLIN};

		if (poll(&p, 1, clock_left_ms(until)) <= 0)
			return false;
		if (recv(fd, junk, sizeof(junk), 0) <= 0)
			return true;
	}
}

#endif
