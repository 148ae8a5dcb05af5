/*
 * refusal.c - requests that libmicrohttpd refuses by itself, answered in JSON like all others.
 *
 * The library answers heads that break the syntax or don't fit its memory with pages of its own,
 * and has no option for their text. It sends a reply by sendmsg, head and body apart, so the
 * sendmsg here stands in front of the C library's: a page of the library's on its way is replaced,
 * and everything else goes through as it is, for a look at its first bytes. Should another version
 * send otherwise, its pages go out as before. With TLS they do anyway: bytes come here encrypted.
 */
#include "http/refusal.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/scope.h"
#include "base/sys.h"

#define REFUSAL_MAX    1024
#define REFUSAL_WHY    200
#define REFUSAL_REASON 40
#define REFUSAL_STATUS "HTTP/1.1 "

/* Rules in our words, where the status tells enough. */
static const struct {
	int status;
	const char *code, *why;
} refusals[] = {
	{413, "ERR_TOO_LARGE", "Content-Length: is larger than anything that is taken here"},
	{414, "ERR_INVALID", "url: is longer than fits (about 40 KiB with the header)"},
	{431, "ERR_INVALID", "header: is longer than fits (about 40 KiB)"},
	{505, "ERR_INVALID", "request: must be HTTP/1.0 or HTTP/1.1"},
};

/* Text of the library up to a byte that ends it, fit for a JSON string. */
static void text_until(const char *at, const char *end, char stop, char *out, size_t cap)
{
	size_t len = 0;

	for (; at < end && *at != stop && len < cap - 1; at++)
		out[len++] =
			(char)(*at < 32 || *at > 126 || *at == '"' || *at == '\\' ? '\'' : *at);
	out[len] = '\0';
}

/* "HTTP/1.1 4xx reason\r\n…" and "<html>…": the status, or 0 for anything else. */
static int page_status(const char *head, size_t nhead, const char *page, size_t npage)
{
	static const char html[] = "<html><head><title>";
	const char *digit = head + sizeof(REFUSAL_STATUS) - 1;

	if (nhead < sizeof(REFUSAL_STATUS) + 3 || npage < sizeof(html) ||
	    memcmp(head, REFUSAL_STATUS, sizeof(REFUSAL_STATUS) - 1) != 0 ||
	    (digit[0] != '4' && digit[0] != '5') || memcmp(page, html, sizeof(html) - 1) != 0)
		return 0;
	/* Replies of ours name their type; the library's pages have none. */
	if (memmem(head, nhead, "Content-Type", 12))
		return 0;
	for (int i = 1; i < 3; i++)
		if (digit[i] < '0' || digit[i] > '9')
			return 0;
	return (digit[0] - '0') * 100 + (digit[1] - '0') * 10 + digit[2] - '0';
}

size_t refusal_of_page(const char *head, size_t nhead, const char *page, size_t npage, char *out,
		       size_t cap)
{
	int status = page_status(head, nhead, page, npage), n;
	char why[REFUSAL_WHY], reason[REFUSAL_REASON], when[CLOCK_ISO_LEN], body[REFUSAL_MAX];
	static const char open[] = "<body>";
	const char *code = "ERR_INVALID", *said;

	if (!status)
		return 0;
	said = memmem(page, npage, open, sizeof(open) - 1);
	text_until(said ? said + sizeof(open) - 1 : page + npage, page + npage, '<', why,
		   sizeof(why));
	text_until(head + sizeof(REFUSAL_STATUS) + 3, head + nhead, '\r', reason, sizeof(reason));
	for (size_t i = 0; i < sizeof(refusals) / sizeof(*refusals); i++) {
		if (refusals[i].status != status)
			continue;
		snprintf(why, sizeof(why), "%s", refusals[i].why);
		code = refusals[i].code;
	}
	clock_iso(clock_wall_ms(), when);
	n = snprintf(body, sizeof(body),
		     "{\"path\":\"\",\"timestamp\":\"%s\",\"statusCode\":%d,\"error\":\"%s\","
		     "\"code\":\"%s\",\"message\":\"%s\"}",
		     when, status, reason, code, why);
	n = snprintf(out, cap,
		     REFUSAL_STATUS "%d %s\r\nContent-Type: application/json\r\n"
				    "Content-Length: %d\r\nConnection: close\r\n\r\n%s",
		     status, reason, n, body);
	return n > 0 && (size_t)n < cap ? (size_t)n : 0;
}

/* libmicrohttpd.so finds this one first, being the program's. */
ssize_t sendmsg(int fd, const struct msghdr *msg, int flags)
{
	const struct iovec *v = msg->msg_iov;
	char text[2 * REFUSAL_MAX];
	size_t n;

	if (msg->msg_iovlen != 2 || msg->msg_control || v[0].iov_len < sizeof(REFUSAL_STATUS) ||
	    ((const char *)v[0].iov_base)[0] != 'H')
		return sys_sendmsg(fd, msg, flags);
	n = refusal_of_page(v[0].iov_base, v[0].iov_len, v[1].iov_base, v[1].iov_len, text,
			    sizeof(text));
	if (n == 0)
		return sys_sendmsg(fd, msg, flags);
	/* The last bytes of the connection, and few: what does not fit a send buffer is given up.
	 */
	struct iovec iov = {.iov_base = text, .iov_len = n};
	struct msghdr ours = {.msg_iov = &iov, .msg_iovlen = 1};

	if (sys_sendmsg(fd, &ours, flags) < 0)
		return -1;
	return (ssize_t)(v[0].iov_len + v[1].iov_len);
}
