/*
 * request.c - the request as handlers read it.
 *
 * The head is judged here before anything acts on it. libmicrohttpd is lenient where two servers
 * in a row could disagree about where a body ends, so such heads are refused and the connection
 * with them.
 */
#include "http/internal.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/id.h"
#include "base/log.h"
#include "wire/ws.h"

struct http_req *req_new(struct http_server *s, const char *uri)
{
	struct http_req *req = calloc(1, sizeof(*req));

	if (!req)
		return NULL;
	req->srv = s;
	req->begun_us = clock_mono_us();
	req->uri = strdup(uri);
	if (!req->uri) {
		free(req);
		return NULL;
	}
	return req;
}

static void body_forget(struct http_req *req)
{
	atomic_fetch_sub(&req->srv->bodies, req->body.cap);
	buf_done(&req->body);
}

void req_free(struct http_req *req)
{
	if (!req)
		return;
	if (req->ws)
		ws_abandon(req->ws);
	reply_drop(req);
	reply_heads_free(req);
	if (req->has_sink && req->sink.free)
		req->sink.free(req->sink_arg);
	if (req->ctx && req->match.dialect && req->match.dialect->ctx_free)
		req->match.dialect->ctx_free(req->ctx);
	for (size_t i = 0; i < req->match.nparams; i++)
		free(req->param[i]);
	for (size_t i = 0; i < HTTP_OFFERED_MAX; i++)
		free(req->offered[i]);
	body_forget(req);
	http_hold(req, 0);
	url_query_done(&req->query);
	free(req->base_url);
	free(req->path);
	free(req->uri);
	free(req);
}

int req_fail(struct http_req *req, int status, const struct err *err)
{
	req->err = *err;
	/* A status set on the way (414, 426, 431) has no code of its own and wins. */
	if (status || !req->fail_status)
		req->fail_status = status ? status : err_http_status(err->code);
	reply_drop(req);
	return -1;
}

/* What the walk over the header fields collects. */
struct head_scan {
	size_t fields, hosts, lengths, encodings;
	const char *encoding, *length;
	bool bad_bytes, nul, folded;
	const char *head, *end; /* where the library has the head, cut into strings in place */
	const char *at;		/* end of the value before; NULL unknown */
};

/* Between two strings of the head there is nothing but what the library wrote and trimmed. */
static bool gap_is_empty(const char *p, const char *end)
{
	for (; p < end; p++)
		if (*p && !strchr(" \t\r\n", *p))
			return false;
	return true;
}

/* The library takes a NUL for the end of a value and hides the rest, which others may read. */
static void head_scan_gap(struct head_scan *h, const char *key, const char *value)
{
	bool inside = key >= h->head && key < h->end;

	/* A folded line is put together elsewhere. */
	h->folded |= !inside;
	if (inside && h->at && h->at <= key && !gap_is_empty(h->at, key))
		h->nul = true;
	h->at = value && value >= h->head && value < h->end ? value + strlen(value) : NULL;
}

static enum MHD_Result head_scan_one(void *cls, enum MHD_ValueKind kind, const char *key,
				     const char *value)
{
	struct head_scan *h = cls;

	(void)kind;
	h->fields++;
	if (h->head)
		head_scan_gap(h, key, value);
	if (strcasecmp(key, "Host") == 0)
		h->hosts++;
	if (strcasecmp(key, "Content-Length") == 0) {
		h->lengths++;
		h->length = value;
	}
	if (strcasecmp(key, "Transfer-Encoding") == 0) {
		h->encodings++;
		h->encoding = value;
	}
	/* A space before the colon, or a folded line, is where parsers disagree. */
	if (!*key || key[strcspn(key, " \t\r\n")])
		h->bad_bytes = true;
	return MHD_YES;
}

static int head_check(struct http_req *req, struct err *err)
{
	struct head_scan h = {0};
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(req->mhd, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
	char *end;

	if (info) {
		h.head = req->method;
		h.end = req->method + info->header_size;
	}
	MHD_get_connection_values(req->mhd, MHD_HEADER_KIND, head_scan_one, &h);
	if (h.fields > HTTP_HEADERS_MAX)
		return req->fail_status = 431,
		       err_set(err, ERR_INVALID, "header: at most %d fields", HTTP_HEADERS_MAX);
	if (h.bad_bytes || h.folded)
		return err_set(err, ERR_INVALID, "header: malformed field name, or a folded line");
	if (h.nul || (h.at && !gap_is_empty(h.at, h.end)))
		return err_set(err, ERR_INVALID, "header: a value holds a NUL byte");
	if (h.hosts > 1)
		return err_set(err, ERR_INVALID, "Host: given twice");
	if (h.lengths > 1 || (h.lengths && h.encodings) || h.encodings > 1)
		return err_set(err, ERR_INVALID, "header: the body's length is ambiguous");
	if (h.encoding && strcasecmp(h.encoding, "chunked") != 0)
		return err_set(err, ERR_INVALID, "Transfer-Encoding: only chunked is understood");
	if (h.length) {
		if (!isdigit((unsigned char)h.length[0]) || strlen(h.length) > 18)
			return err_set(err, ERR_INVALID, "Content-Length: must be a number");
		req->length = strtoull(h.length, &end, 10);
		if (*end)
			return err_set(err, ERR_INVALID, "Content-Length: must be a number");
	}
	req->chunked = h.encoding != NULL;
	req->has_body = req->chunked || req->length;
	return 0;
}

/* Set raw_path, still escaped, and with it whose error bodies apply. The query, or NULL. */
static char *target_split(struct http_req *req)
{
	char *query;

	req->raw_path = req->uri;
	/* The absolute form is for proxies, but HTTP/1.1 servers must take it. */
	if (strncasecmp(req->raw_path, "http://", 7) == 0) {
		char *slash = strchr(req->raw_path + 7, '/');

		req->raw_path = slash ? slash : req->raw_path + strlen(req->raw_path);
	}
	query = strchr(req->raw_path, '?');
	if (query)
		*query++ = '\0';
	req->match.dialect = router_dialect(req->srv->router, req->raw_path);
	return query;
}

static int path_decode(struct http_req *req, struct err *err)
{
	auto_free char *path = strdup(req->raw_path);

	if (!path)
		return err_set(err, ERR_NOMEM, "out of memory");
	if (url_decode(path, strlen(path), false, "url", err) < 0)
		return -1;
	if (!ws_utf8_valid(path, strlen(path)))
		return err_set(err, ERR_INVALID, "url: path must be UTF-8");
	req->path = path;
	path = NULL;
	return 0;
}

static int target_parse(struct http_req *req, size_t len, char *query, struct err *err)
{
	if (len > URL_MAX) {
		req->raw_path[strnlen(req->raw_path, URL_SHOWN)] = '\0';
		req->fail_status = 414;
		return err_tagged(err, ERR_INVALID, "URI_TOO_LONG", "url: at most %d bytes",
				  URL_MAX);
	}
	if (req->raw_path[0] != '/' && strcmp(req->raw_path, "*") != 0)
		return err_set(err, ERR_INVALID, "url: must begin with /");
	if (path_decode(req, err) < 0)
		return -1;
	return query ? url_query_parse(query, &req->query, err) : 0;
}

static void reqid_choose(struct http_req *req)
{
	static const char good[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
	const char *given = http_header(req, "X-Request-Id");

	if (given && *given && strlen(given) <= HTTP_REQID_MAX && !given[strspn(given, good)])
		snprintf(req->reqid, sizeof(req->reqid), "%s", given);
	else
		id_hex(req->reqid, 8);
	log_set_request(req->reqid);
}

static bool addr_is_trusted(const struct http_server *s, const char *addr)
{
	for (size_t i = 0; i < s->ntrusted; i++)
		if (strcmp(addr, s->trusted[i]) == 0)
			return true;
	return false;
}

/* The last entry of the comma list that ends at *end, which moves before it; false when none. */
static bool list_pop(const char *list, const char **end, char out[HTTP_ADDR_LEN])
{
	const char *at;

	while (*end > list && strchr(", \t", (*end)[-1]))
		(*end)--;
	at = *end;
	while (at > list && !strchr(", \t", at[-1]))
		at--;
	if (at == *end || *end - at >= HTTP_ADDR_LEN)
		return false;
	snprintf(out, HTTP_ADDR_LEN, "%.*s", (int)(*end - at), at);
	*end = at;
	return true;
}

/* The right-most address the proxies saw that is not one of them. */
static void remote_choose(struct http_req *req)
{
	const char *seen = http_header(req, "X-Forwarded-For");
	const char *end = seen ? seen + strlen(seen) : NULL;
	char addr[HTTP_ADDR_LEN];
	uint8_t raw[16];

	snprintf(req->remote, sizeof(req->remote), "%s", req->conn->addr);
	while (seen && addr_is_trusted(req->srv, req->remote) && list_pop(seen, &end, addr)) {
		/* Anything but an address ends the chain: it was not our proxy that wrote it. */
		if (inet_pton(strchr(addr, ':') ? AF_INET6 : AF_INET, addr, raw) != 1)
			return;
		memcpy(req->remote, addr, sizeof(addr));
	}
}

int req_parse(struct http_req *req, struct err *err)
{
	size_t len = strlen(req->uri);
	char *query = target_split(req);
	const char *host;

	reqid_choose(req);
	remote_choose(req);
	if (head_check(req, err) < 0 || target_parse(req, len, query, err) < 0)
		return -1;
	host = http_header(req, "Host");
	if (host && host[strspn(host, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				      "0123456789.-_:[]")])
		return err_set(err, ERR_INVALID, "Host: must be a name and a port");
	return 0;
}

int req_decode_params(struct http_req *req, struct err *err)
{
	const struct route_match *m = &req->match;

	for (size_t i = 0; i < m->nparams; i++) {
		req->param[i] = strndup(m->param[i].at, m->param[i].len);
		if (!req->param[i])
			return err_set(err, ERR_NOMEM, "out of memory");
		if (url_decode(req->param[i], m->param[i].len, false, "url", err) < 0)
			return -1;
	}
	return 0;
}

void *http_app(struct http_req *req)
{
	return req->srv->app;
}

void http_set_ctx(struct http_req *req, void *ctx)
{
	req->ctx = ctx;
}

void *http_ctx(struct http_req *req)
{
	return req->ctx;
}

const char *http_method(struct http_req *req)
{
	return req->method;
}

const char *http_path(struct http_req *req)
{
	if (req->path)
		return req->path;
	/* The target breaks a rule; its error body shows it as it came. */
	return req->raw_path ? req->raw_path : "";
}

const char *http_param(struct http_req *req, const char *name)
{
	const char *have;

	for (size_t i = 0; req->match.route && i < req->match.nparams; i++) {
		size_t len = route_param_name(req->match.route, i, &have);

		if (strlen(name) == len && memcmp(name, have, len) == 0)
			return req->param[i] ? req->param[i] : "";
	}
	return "";
}

const char *http_query(struct http_req *req, const char *name)
{
	return url_query_get(&req->query, name, 0);
}

const char *http_query_nth(struct http_req *req, const char *name, size_t i)
{
	return url_query_get(&req->query, name, i);
}

const char *http_header(struct http_req *req, const char *name)
{
	return MHD_lookup_connection_value(req->mhd, MHD_HEADER_KIND, name);
}

const struct buf *http_body(struct http_req *req)
{
	return &req->body;
}

const char *http_remote(struct http_req *req)
{
	return req->remote;
}

int http_client_fd(struct http_req *req)
{
	return req->conn ? req->conn->fd : -1;
}

const char *http_request_id(struct http_req *req)
{
	return req->reqid;
}

void http_hold(struct http_req *req, uint64_t bytes)
{
	/* Unsigned, so a smaller figure than before subtracts. */
	atomic_fetch_add(&req->srv->held, bytes - req->held);
	req->held = bytes;
}

uint64_t http_held(struct http_req *req)
{
	return atomic_load(&req->srv->held);
}

static void local_authority(const struct http_req *req, char *out, size_t cap)
{
	struct sockaddr_storage ss = {0};
	socklen_t len = sizeof(ss);
	char addr[HTTP_ADDR_LEN];
	unsigned port = 0;

	if (req->conn)
		getsockname(req->conn->fd, (struct sockaddr *)&ss, &len);
	addr_text((struct sockaddr *)&ss, addr);
	/* The port is at the same place in both families. */
	port = ntohs(((struct sockaddr_in *)&ss)->sin_port);
	snprintf(out, cap, strchr(addr, ':') ? "[%s]:%u" : "%s:%u", addr, port);
}

const char *http_base_url(struct http_req *req)
{
	static const char good[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				   "0123456789.-_:[]";
	const char *scheme = req->srv->tls ? "https" : "http";
	const char *host = http_header(req, "Host"), *given;
	char local[HTTP_ADDR_LEN + 16];

	if (req->srv->public_url)
		return req->srv->public_url;
	if (req->base_url)
		return req->base_url;
	if (req->conn && addr_is_trusted(req->srv, req->conn->addr)) {
		given = http_header(req, "X-Forwarded-Proto");
		if (given && (strcmp(given, "http") == 0 || strcmp(given, "https") == 0))
			scheme = given;
		given = http_header(req, "X-Forwarded-Host");
		if (given && *given && !given[strspn(given, good)])
			host = given;
	}
	if (!host || !*host) {
		local_authority(req, local, sizeof(local));
		host = local;
	}
	if (asprintf(&req->base_url, "%s://%s", scheme, host) < 0)
		req->base_url = NULL;
	return req->base_url ? req->base_url : "";
}
