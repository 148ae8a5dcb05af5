/*
 * dispatch.c - one request from its first line to its reply, as libmicrohttpd calls us.
 *
 *           fits              all bytes came
 *   NEW ─────────► TAKE ─────────────────────► REPLIED
 *    │               │ sink or ceiling said no     ▲
 *    │  refused      ▼                             │
 *    └────────────► DRAIN ─────────────────────────┤
 *    │               └── too much: raw reply ──────┤
 *    └── refused with a long body: early reply ────┘
 *
 * libmicrohttpd takes a reply only right after the head or after the last byte of a body. Between
 * them a refused body is read and dropped up to a bound; past it the reply is written to the
 * socket directly and the connection ends.
 */
#include "http/internal.h"

#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/log.h"

void *request_line(void *cls, const char *uri, struct MHD_Connection *c)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
	struct http_req *req;

	if (!info || !info->socket_context)
		return NULL;
	req = req_new(cls, uri);
	if (!req)
		return NULL;
	req->conn = info->socket_context;
	req->mhd = c;
	conn_set_state(req->conn, CONN_HEAD);
	return req;
}

static uint64_t body_ceiling(const struct http_route *rt)
{
	if (rt->body_max)
		return rt->body_max;
	return rt->body == HTTP_BODY_STREAM ? UINT64_MAX : HTTP_BODY_DEFAULT;
}

static int refuse_too_large(struct http_req *req)
{
	struct err err;

	err_set(&err, ERR_TOO_LARGE, "body: at most %llu bytes",
		(unsigned long long)body_ceiling(req->match.route));
	return req_fail(req, 413, &err);
}

/* Browsers ask before they send a key; any plain OPTIONS is answered the same way. */
static int reply_options(struct http_req *req, struct err *err)
{
	const char *headers = http_header(req, "Access-Control-Request-Headers");
	const char *allow = req->match.allow;
	char methods[128];

	if (http_reply_empty(req, 204, err) < 0)
		return -1;
	snprintf(methods, sizeof(methods), "OPTIONS%s%s", *allow ? ", " : "", allow);
	http_reply_header(req, "Allow", methods);
	if (!http_header(req, "Origin"))
		return 0;
	http_reply_header(req, "Access-Control-Allow-Methods", methods);
	http_reply_header(req, "Access-Control-Allow-Headers", headers ? headers : "*");
	http_reply_header(req, "Access-Control-Max-Age", "600");
	return 0;
}

/* Find the route and let the dialect judge the caller. 1: a reply is already set. */
static int request_route(struct http_req *req)
{
	struct err err = {0};
	const struct http_dialect *d;

	router_find(req->srv->router, req->method, req->raw_path, &req->match);
	d = req->match.dialect;
	if (!req->match.route && strcmp(req->method, "OPTIONS") == 0)
		return reply_options(req, &err) < 0 ? req_fail(req, 0, &err) : 1;
	if (!req->match.route && req->match.allow[0]) {
		err_tagged(&err, ERR_INVALID, "METHOD_NOT_ALLOWED",
			   "method: %.20s is not possible here, only %s", req->method,
			   req->match.allow);
		return req_fail(req, 405, &err);
	}
	if (!req->match.route) {
		err_set(&err, ERR_NOT_FOUND, "no such route: %s %.200s", req->method, req->path);
		return req_fail(req, 404, &err);
	}
	if (req_decode_params(req, &err) < 0)
		return req_fail(req, 0, &err);
	req->entered = true;
	if (d->enter && d->enter(req, req->match.route, &err) < 0)
		return req_fail(req, 0, &err);
	if (!req->match.route->fn) {
		err_set(&err, ERR_NOT_BUILT, "%s is not built in this release",
			req->match.route->op);
		return req_fail(req, 501, &err);
	}
	return 0;
}

static int request_open(struct http_req *req)
{
	const struct http_route *rt;
	struct err err = {0};
	int rc;

	if (req_parse(req, &err) < 0) {
		req->conn->linger = true;
		return req_fail(req, req->fail_status, &err);
	}
	rc = request_route(req);
	if (rc != 0)
		return rc;
	rt = req->match.route;
	if (req->length > body_ceiling(rt))
		return refuse_too_large(req);
	if (rt->body != HTTP_BODY_STREAM)
		return 0;
	if (rt->fn(req, &err) < 0)
		return req_fail(req, 0, &err);
	return req->has_sink ? 0 : 1;
}

/* Whether to answer at once instead of reading a body nobody wants. */
static bool reply_is_early(const struct http_req *req)
{
	if (!req->has_body)
		return req->conn->linger;
	if (req->conn->linger || MHD_lookup_connection_value(req->mhd, MHD_HEADER_KIND, "Expect"))
		return true;
	/* Somebody with a key gets the courtesy of a drained body, up to a bound. */
	if (req->fail_status == 413 || !req->entered || req->fail_status == 401)
		return req->length > HTTP_EARLY_MAX;
	return req->length > HTTP_DRAIN_MAX;
}

static enum MHD_Result request_begin(struct http_req *req, const char *method)
{
	int rc;

	req->method = method;
	conn_set_state(req->conn, CONN_WORK);
	rc = request_open(req);
	req->phase = rc == 0 ? REQ_TAKE : REQ_DRAIN;
	req->drain_until_ms = clock_mono_ms() + HTTP_DRAIN_MS;
	if (rc != 0 && reply_is_early(req)) {
		req->conn->linger = true;
		return reply_queue(req);
	}
	if (req->has_body)
		conn_set_state(req->conn, CONN_BODY);
	return MHD_YES;
}

static int body_keep(struct http_req *req, const char *data, size_t n)
{
	struct err err = {0};
	size_t before = req->body.cap;

	if (!before)
		buf_init(&req->body, (size_t)body_ceiling(req->match.route));
	if (req->seen > body_ceiling(req->match.route))
		return refuse_too_large(req);
	if (buf_add(&req->body, data, n, &err) < 0)
		return req_fail(req, 0, &err);
	if (atomic_fetch_add(&req->srv->bodies, req->body.cap - before) > HTTP_BODIES_MAX) {
		err_set(&err, ERR_UNAVAILABLE, "too many request bodies in memory; try again");
		return req_fail(req, 0, &err);
	}
	return 0;
}

static int body_take(struct http_req *req, const char *data, size_t n)
{
	struct err err = {0};
	int rc;

	if (req->has_sink) {
		/* The sink may block on a sandbox; that is not the client dawdling. */
		atomic_store(&req->conn->state, CONN_WORK);
		rc = req->sink.data(req->sink_arg, data, n, &err);
		atomic_store(&req->conn->state, CONN_BODY);
		return rc < 0 ? req_fail(req, 0, &err) : 0;
	}
	if (req->match.route->body == HTTP_BODY_WHOLE)
		return body_keep(req, data, n);
	return req->seen > HTTP_BODY_DEFAULT ? refuse_too_large(req) : 0;
}

/* Reply past libmicrohttpd and end the connection. */
static enum MHD_Result request_cut(struct http_req *req)
{
	struct buf body = BUF_INIT(64u << 10);
	char head[HTTP_REQID_MAX + 32];

	if (!req->fail_status) {
		struct err err;

		err_set(&err, ERR_TOO_LARGE, "body: too much of it was not wanted");
		req_fail(req, 0, &err);
	}
	reply_error_body(req, &body);
	req->status = req->fail_status;
	reply_leave(req);
	snprintf(head, sizeof(head), "X-Request-Id: %s\r\n", req->reqid);
	conn_send_raw(req->conn, req->status, head, body.data ? body.data : "", body.len);
	buf_done(&body);
	req->phase = REQ_REPLIED;
	return MHD_NO;
}

static enum MHD_Result request_data(struct http_req *req, const char *data, size_t n)
{
	req->seen += n;
	atomic_fetch_add(&req->conn->body_bytes, n);
	if (req->phase == REQ_TAKE && body_take(req, data, n) < 0) {
		req->phase = REQ_DRAIN;
		req->seen = 0;
		req->drain_until_ms = clock_mono_ms() + HTTP_DRAIN_MS;
		if (req->fail_status == 413 && !req->srv->tls)
			return request_cut(req);
	}
	if (req->phase == REQ_DRAIN &&
	    (req->seen > HTTP_DRAIN_MAX || clock_mono_ms() > req->drain_until_ms))
		return request_cut(req);
	return MHD_YES;
}

static enum MHD_Result request_run(struct http_req *req)
{
	struct err err = {0};
	int rc = 0;

	conn_set_state(req->conn, CONN_WORK);
	if (req->phase == REQ_TAKE && req->has_sink)
		rc = req->sink.end(req->sink_arg, req, &err);
	else if (req->phase == REQ_TAKE)
		rc = req->match.route->fn(req, &err);
	if (rc < 0)
		req_fail(req, 0, &err);
	return reply_queue(req);
}

enum MHD_Result request_step(void *cls, struct MHD_Connection *c, const char *url,
			     const char *method, const char *version, const char *data,
			     size_t *size, void **ctx)
{
	struct http_req *req = *ctx;
	size_t n = *size;

	(void)cls;
	(void)c;
	(void)url;
	(void)version;
	if (!req)
		return MHD_NO;
	if (req->phase == REQ_NEW)
		return request_begin(req, method);
	if (req->phase == REQ_REPLIED)
		return MHD_NO;
	if (n) {
		*size = 0;
		return request_data(req, data, n);
	}
	return request_run(req);
}

void request_completed(void *cls, struct MHD_Connection *c, void **ctx,
		       enum MHD_RequestTerminationCode why)
{
	struct http_req *req = *ctx;

	(void)cls;
	(void)c;
	*ctx = NULL;
	if (!req)
		return;
	if (req->entered && !req->left) {
		req->status = req->fail_status = 499;
		err_set(&req->err, ERR_CANCELLED, "client hung up");
		reply_leave(req);
	}
	if (req->conn->linger && why == MHD_REQUEST_TERMINATED_COMPLETED_OK)
		conn_linger(req->conn);
	if (!req->conn->upgraded)
		conn_set_state(req->conn, CONN_IDLE);
	req_free(req);
	log_set_request(NULL);
}

void http_set_sink(struct http_req *req, const struct http_sink *sink, void *arg)
{
	req->sink = *sink;
	req->sink_arg = arg;
	req->has_sink = true;
}
