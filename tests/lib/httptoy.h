/*
 * httptoy.h - a toy dialect behind the real server, for tests over raw sockets. Include it after
 * cmocka.h; the program then has one server, toy.
 */
#ifndef CAISSON_TESTS_HTTPTOY_H
#define CAISSON_TESTS_HTTPTOY_H

#include <pthread.h>
#include <stdatomic.h>

#include "rawhttp.h"

#define HOST "Host: toy\r\n"

struct toy {
	struct http_server *server;
	uint16_t port;
	atomic_int entered, left, cancelled, running, freed;
	atomic_int last_status;
};

static struct toy toy;

static int h_empty(struct http_req *req, struct err *err)
{
	return http_reply(req, 200, "application/json", "{}", 2, err);
}

static int h_echo(struct http_req *req, struct err *err)
{
	const struct buf *b = http_body(req);

	return http_reply(req, 200, "text/plain", buf_str(b), b->len, err);
}

/* Blocks until the time of ?ms= or the client's hang-up. */
static int h_nap(struct http_req *req, struct err *err)
{
	const char *ms = http_query(req, "ms");
	struct err why = {0};

	atomic_fetch_add(&toy.running, 1);
	fd_wait(-1, 0, http_client_fd(req), clock_mono_ms() + strtol(ms ? ms : "0", NULL, 10),
		&why);
	atomic_fetch_sub(&toy.running, 1);
	if (why.code == ERR_CANCELLED) {
		atomic_fetch_add(&toy.cancelled, 1);
		return err_set(err, ERR_CANCELLED, "client hung up");
	}
	return http_reply(req, 200, "text/plain", "rested", 6, err);
}

static int h_fail(struct http_req *req, struct err *err)
{
	http_reply_header(req, "Retry-After", "7");
	http_reply_header(req, "X-Bad", "a\r\nSet-Cookie: stolen");
	http_reply(req, 200, "text/plain", "not this", 8, err);
	return err_set(err, ERR_RATE, "slow \"down\"\x01");
}

static int h_silent(struct http_req *req, struct err *err)
{
	(void)req;
	(void)err;
	return 0;
}

static int h_about(struct http_req *req, struct err *err)
{
	char text[512];
	int n = snprintf(text, sizeof(text), "%s %s %s %s", http_param(req, "name"),
			 http_remote(req), http_base_url(req), http_path(req));

	return http_reply(req, 200, "text/plain", text, (size_t)n, err);
}

struct upload {
	size_t n;
	unsigned sum;
};

static int up_data(void *arg, const void *p, size_t n, struct err *err)
{
	struct upload *u = arg;

	for (size_t i = 0; i < n; i++)
		u->sum = u->sum * 31 + ((const unsigned char *)p)[i];
	u->n += n;
	if (u->n > 3000000)
		return err_set(err, ERR_LIMIT, "disk: at most 3 MB");
	return 0;
}

static int up_end(void *arg, struct http_req *req, struct err *err)
{
	struct upload *u = arg;
	char text[64];
	int n = snprintf(text, sizeof(text), "%zu %u", u->n, u->sum);

	return http_reply(req, 200, "text/plain", text, (size_t)n, err);
}

static void up_free(void *arg)
{
	atomic_fetch_add(&toy.freed, 1);
	free(arg);
}

static int h_upload(struct http_req *req, struct err *err)
{
	static const struct http_sink sink = {up_data, up_end, up_free};

	if (http_query(req, "refuse"))
		return err_set(err, ERR_NOT_FOUND, "no such box");
	http_set_sink(req, &sink, calloc(1, sizeof(struct upload)));
	return 0;
}

static ssize_t pull_some(void *arg, void *p, size_t cap)
{
	int *left = arg;

	(void)cap;
	if (*left == -1)
		return -1;
	if (*left == 0)
		return 0;
	(*left)--;
	memcpy(p, "piece;", 6);
	return 6;
}

static int h_stream(struct http_req *req, struct err *err)
{
	int *left = malloc(sizeof(*left));
	const char *n = http_query(req, "n"), *size = http_query(req, "size");

	*left = (int)strtol(n ? n : "3", NULL, 10);
	return http_reply_stream(req, 200, "text/plain", size ? strtol(size, NULL, 10) : -1,
				 pull_some, free, left, err);
}

static int h_fd(struct http_req *req, struct err *err)
{
	FILE *f = tmpfile();

	fputs("0123456789", f);
	fflush(f);
	int fd = dup(fileno(f));

	fclose(f);
	return http_reply_fd(req, 200, "application/octet-stream", fd, 2,
			     http_query(req, "truncated") ? 50
			     : http_query(req, "empty")	  ? 0
							  : 5,
			     err);
}

static const struct http_route routes[] = {
	{"GET", "/empty", "empty", h_empty, HTTP_BODY_NONE, 0, 0},
	{"POST", "/empty", "emptyPost", h_empty, HTTP_BODY_NONE, 0, 0},
	{"POST", "/echo", "echo", h_echo, HTTP_BODY_WHOLE, 4096, 0},
	{"GET", "/nap", "nap", h_nap, HTTP_BODY_NONE, 0, 0},
	{"GET", "/fail", "fail", h_fail, HTTP_BODY_NONE, 0, 0},
	{"GET", "/silent", "silent", h_silent, HTTP_BODY_NONE, 0, 0},
	{"GET", "/about/{name}", "about", h_about, HTTP_BODY_NONE, 0, 0},
	{"POST", "/upload", "upload", h_upload, HTTP_BODY_STREAM, 0, 0},
	{"GET", "/stream", "stream", h_stream, HTTP_BODY_NONE, 0, 0},
	{"GET", "/fd", "fd", h_fd, HTTP_BODY_NONE, 0, 0},
	{"GET", "/later", "later", NULL, HTTP_BODY_NONE, 0, 0},
	{"POST", "/private", "private", h_echo, HTTP_BODY_WHOLE, 64u << 20, 1},
};

static int toy_enter(struct http_req *req, const struct http_route *rt, struct err *err)
{
	const char *key = http_header(req, "X-Key");

	atomic_fetch_add(&toy.entered, 1);
	if (rt->tag == 1 && (!key || strcmp(key, "good") != 0))
		return err_set(err, ERR_UNAUTHORIZED, "key: missing or wrong");
	return 0;
}

static void toy_leave(struct http_req *req, const struct http_route *rt, int status,
		      const struct err *err)
{
	(void)req;
	(void)rt;
	(void)err;
	atomic_store(&toy.last_status, status);
	atomic_fetch_add(&toy.left, 1);
}

static const struct http_dialect toy_dialect = {
	.name = "toy",
	.prefix = "/toy",
	.route = routes,
	.nroutes = ARRAY_LEN(routes),
	.enter = toy_enter,
	.leave = toy_leave,
};

static inline int toy_start(const char *trusted, unsigned max_connections)
{
	static const struct http_dialect *const dialects[] = {&toy_dialect};
	static const struct http_spec spec = {"toy", "{\"x\":1}", 7};
	struct http_config cfg = {
		.dialect = dialects,
		.ndialects = 1,
		.trusted_proxies = trusted,
		.max_connections = max_connections,
		.idle_timeout_s = 1,
		.spec = &spec,
		.nspecs = 1,
	};
	struct err err = {0};

	memset(&toy, 0, sizeof(toy));
	cfg.listen_fd = raw_listen(&toy.port);
	toy.server = http_start(&cfg, &err);
	if (!toy.server)
		fail_msg("%s", err.msg);
	return 0;
}

static inline int toy_setup(void **state)
{
	(void)state;
	return toy_start(NULL, 0);
}

static inline int toy_setup_proxied(void **state)
{
	(void)state;
	return toy_start("127.0.0.1, 10.0.0.9", 0);
}

static inline int toy_setup_small(void **state)
{
	(void)state;
	return toy_start(NULL, 2);
}

static inline int toy_teardown(void **state)
{
	(void)state;
	http_stop(toy.server, 2000);
	return 0;
}

static inline void toy_wait_for(atomic_int *what, int value)
{
	int64_t until = clock_mono_ms() + RAW_WAIT_MS;

	while (atomic_load(what) != value) {
		if (clock_mono_ms() > until)
			fail_msg("is %d, not %d", atomic_load(what), value);
		poll(NULL, 0, 1);
	}
}

#endif
