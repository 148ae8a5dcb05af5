/*
 * response.c - replies: bytes, JSON, descriptors, streams, errors.
 */
#include "http/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/log.h"
#include "wire/ws.h"

/* A pull may block for minutes; libmicrohttpd must not call that idleness. */
#define PULL_SLOW_MS 1000
#define PULL_BLOCK   (64u << 10)
#define FILE_BLOCK   (256u << 10)

struct puller {
	http_pull_fn pull;
	void (*free_fn)(void *arg);
	void *arg;
	struct MHD_Connection *mhd;
	unsigned idle_timeout_s;
};

void reply_drop(struct http_req *req)
{
	if (req->resp)
		MHD_destroy_response(req->resp);
	req->resp = NULL;
	req->status = 0;
}

void reply_heads_free(struct http_req *req)
{
	for (size_t i = 0; i < req->nheads; i++) {
		free(req->head[i].name);
		free(req->head[i].value);
	}
	free(req->head);
	req->head = NULL;
	req->nheads = 0;
}

void reply_leave(struct http_req *req)
{
	const struct http_dialect *d = req->match.dialect;

	if (!d || !d->leave || !req->entered || req->left)
		return;
	req->left = true;
	d->leave(req, req->match.route, req->status, req->fail_status ? &req->err : NULL);
}

void http_reply_header(struct http_req *req, const char *name, const char *value)
{
	struct http_reply_head *grown;
	struct http_reply_head h;

	/* A line break here would let a file name write headers. */
	if (!*name || name[strcspn(name, " :\r\n\t")] || value[strcspn(value, "\r\n")])
		return;
	h.name = strdup(name);
	h.value = strdup(value);
	grown = realloc(req->head, (req->nheads + 1) * sizeof(*grown));
	if (grown)
		req->head = grown;
	if (!grown || !h.name || !h.value) {
		free(h.name);
		free(h.value);
		return;
	}
	req->head[req->nheads++] = h;
}

int reply_set(struct http_req *req, int status, const char *type, struct MHD_Response *resp,
	      struct err *err)
{
	if (!resp)
		return err_set(err, ERR_NOMEM, "out of memory for a reply");
	if (req->resp) {
		MHD_destroy_response(resp);
		return err_set(err, ERR_INTERNAL, "second reply to one request");
	}
	if (type)
		MHD_add_response_header(resp, "Content-Type", type);
	req->resp = resp;
	req->status = status;
	return 0;
}

int http_reply(struct http_req *req, int status, const char *type, const void *p, size_t n,
	       struct err *err)
{
	return reply_set(req, status, type,
			 MHD_create_response_from_buffer(n, (void *)p, MHD_RESPMEM_MUST_COPY), err);
}

int http_reply_json(struct http_req *req, int status, char *text, struct err *err)
{
	struct MHD_Response *resp;

	if (!text)
		return err_set(err, ERR_NOMEM, "out of memory for a reply");
	resp = MHD_create_response_from_buffer(strlen(text), text, MHD_RESPMEM_MUST_FREE);
	if (!resp)
		free(text);
	return reply_set(req, status, "application/json", resp, err);
}

int http_reply_empty(struct http_req *req, int status, struct err *err)
{
	return reply_set(req, status, NULL,
			 MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT), err);
}

struct file_reply {
	int fd;
	uint64_t off;
};

static ssize_t file_block(void *cls, uint64_t pos, char *p, size_t cap)
{
	struct file_reply *f = cls;
	ssize_t n = pread(f->fd, p, cap, (off_t)(f->off + pos));

	/* It became shorter under our hands: the promised length can't be kept. */
	return n > 0 ? n : MHD_CONTENT_READER_END_WITH_ERROR;
}

static void file_free(void *cls)
{
	struct file_reply *f = cls;

	close(f->fd);
	free(f);
}

/*
 * Not by sendfile: libmicrohttpd 0.9.75 spins for ever when a file is truncated while it is sent,
 * and reading in large blocks is faster over loopback anyway (2.6 against 1.8 GB/s).
 */
int http_reply_fd(struct http_req *req, int status, const char *type, int fd, uint64_t off,
		  uint64_t len, struct err *err)
{
	struct file_reply *f = malloc(sizeof(*f));
	struct MHD_Response *resp;

	if (!f) {
		close(fd);
		return err_set(err, ERR_NOMEM, "out of memory for a reply");
	}
	*f = (struct file_reply){.fd = fd, .off = off};
	resp = MHD_create_response_from_callback(len, MIN(len, (uint64_t)FILE_BLOCK) + 1,
						 file_block, f, file_free);
	if (!resp)
		file_free(f);
	return reply_set(req, status, type, resp, err);
}

static void conn_timer(struct MHD_Connection *mhd, unsigned seconds)
{
	MHD_set_connection_option(mhd, MHD_CONNECTION_OPTION_TIMEOUT, seconds);
}

static ssize_t pull_block(void *cls, uint64_t pos, char *p, size_t cap)
{
	struct puller *u = cls;
	int64_t begun = clock_mono_ms();
	ssize_t n = u->pull(u->arg, p, cap);

	(void)pos;
	if (clock_mono_ms() - begun > PULL_SLOW_MS) {
		conn_timer(u->mhd, 0);
		conn_timer(u->mhd, u->idle_timeout_s);
	}
	if (n < 0)
		return MHD_CONTENT_READER_END_WITH_ERROR;
	return n == 0 ? MHD_CONTENT_READER_END_OF_STREAM : n;
}

static void pull_free(void *cls)
{
	struct puller *u = cls;

	if (u->free_fn)
		u->free_fn(u->arg);
	free(u);
}

int http_reply_stream(struct http_req *req, int status, const char *type, int64_t size,
		      http_pull_fn pull, void (*free_fn)(void *arg), void *arg, struct err *err)
{
	struct puller *u = calloc(1, sizeof(*u));
	struct MHD_Response *resp;

	if (!u) {
		if (free_fn)
			free_fn(arg);
		return err_set(err, ERR_NOMEM, "out of memory for a reply");
	}
	*u = (struct puller){pull, free_fn, arg, req->mhd, req->srv->idle_timeout_s};
	resp = MHD_create_response_from_callback(size < 0 ? MHD_SIZE_UNKNOWN : (uint64_t)size,
						 PULL_BLOCK, pull_block, u, pull_free);
	if (!resp)
		pull_free(u);
	return reply_set(req, status, type, resp, err);
}

/* s as the inside of a JSON string; bytes that are not UTF-8 become '?'. */
static void json_text(struct buf *out, const char *s)
{
	bool utf8 = ws_utf8_valid(s, strlen(s));

	for (; *s; s++) {
		unsigned char c = (unsigned char)*s;

		if (c == '"' || c == '\\')
			buf_addf(out, NULL, "\\%c", c);
		else if (c < 32 || c == 127)
			buf_addf(out, NULL, "\\u%04x", c);
		else if (c > 127 && !utf8)
			buf_add(out, "?", 1, NULL);
		else
			buf_add(out, s, 1, NULL);
	}
}

void reply_error_body(struct http_req *req, struct buf *out)
{
	const struct http_dialect *d = req->match.dialect;

	if (d && d->error) {
		d->error(req, req->fail_status, &req->err, out);
		return;
	}
	buf_addf(out, NULL, "{\"statusCode\":%d,\"code\":\"", req->fail_status);
	json_text(out, req->err.tag ? req->err.tag : err_code_name(req->err.code));
	buf_adds(out, "\",\"message\":\"", NULL);
	json_text(out, req->err.msg);
	buf_adds(out, "\",\"requestId\":\"", NULL);
	json_text(out, req->reqid);
	buf_adds(out, "\"}", NULL);
}

static bool head_is_set(const struct http_req *req, const char *name)
{
	for (size_t i = 0; i < req->nheads; i++)
		if (strcasecmp(req->head[i].name, name) == 0)
			return true;
	return false;
}

static void error_to_response(struct http_req *req)
{
	struct buf body = BUF_INIT(64u << 10);
	struct MHD_Response *resp;
	size_t n;
	char *text;

	reply_error_body(req, &body);
	n = body.len;
	text = buf_take(&body);
	resp = MHD_create_response_from_buffer(n, text, MHD_RESPMEM_MUST_FREE);
	if (!resp) {
		free(text);
		return;
	}
	MHD_add_response_header(resp, "Content-Type", "application/json");
	if (req->fail_status == 401)
		MHD_add_response_header(resp, "WWW-Authenticate", "Bearer");
	if (req->fail_status == 405 && req->match.allow[0])
		MHD_add_response_header(resp, "Allow", req->match.allow);
	if ((req->fail_status == 503 || req->fail_status == 429) &&
	    !head_is_set(req, "Retry-After"))
		MHD_add_response_header(resp, "Retry-After", "1");
	if (req->fail_status == 426)
		MHD_add_response_header(resp, "Sec-WebSocket-Version", "13");
	req->resp = resp;
	req->status = req->fail_status;
}

/* Keys travel in a header that browsers never add by themselves, so any origin may ask. */
static void cors_headers(struct http_req *req, struct MHD_Response *resp)
{
	if (!http_header(req, "Origin"))
		return;
	MHD_add_response_header(resp, "Access-Control-Allow-Origin", "*");
	MHD_add_response_header(resp, "Access-Control-Expose-Headers", "*");
}

static void access_log(const struct http_req *req)
{
	log_debug("%s %s %d %lld us", req->method, req->path ? req->path : "-", req->status,
		  (long long)(clock_mono_us() - req->begun_us));
}

enum MHD_Result reply_queue(struct http_req *req)
{
	enum MHD_Result ok;

	if (!req->fail_status && !req->resp) {
		err_set(&req->err, ERR_INTERNAL, "handler of %s gave no reply",
			req->match.route ? req->match.route->op : "?");
		req->fail_status = 500;
	}
	if (req->fail_status)
		error_to_response(req);
	reply_leave(req);
	access_log(req);
	/* Nobody is there to read it. */
	if (!req->resp || (req->fail_status && req->err.code == ERR_CANCELLED))
		return MHD_NO;
	for (size_t i = 0; i < req->nheads; i++)
		MHD_add_response_header(req->resp, req->head[i].name, req->head[i].value);
	MHD_add_response_header(req->resp, "X-Request-Id", req->reqid);
	MHD_add_response_header(req->resp, "X-Content-Type-Options", "nosniff");
	cors_headers(req, req->resp);
	if ((atomic_load(&req->srv->stopping) || req->conn->linger) && req->status != 101)
		MHD_add_response_header(req->resp, "Connection", "close");
	/* The handler may have taken longer than an idle connection may. */
	conn_timer(req->mhd, 0);
	conn_timer(req->mhd, req->srv->idle_timeout_s);
	ok = MHD_queue_response(req->mhd, (unsigned)req->status, req->resp);
	MHD_destroy_response(req->resp);
	req->resp = NULL;
	req->phase = REQ_REPLIED;
	return ok;
}
