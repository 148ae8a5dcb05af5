/*
 * test_http_server.c - a toy dialect behind the real server, driven over raw sockets.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <pthread.h>
#include <stdatomic.h>

#include <cmocka.h>

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
	const char *n = http_query(req, "n");

	*left = (int)strtol(n ? n : "3", NULL, 10);
	return http_reply_stream(req, 200, "text/plain", -1, pull_some, free, left, err);
}

static int h_fd(struct http_req *req, struct err *err)
{
	FILE *f = tmpfile();

	fputs("0123456789", f);
	fflush(f);
	int fd = dup(fileno(f));

	fclose(f);
	return http_reply_fd(req, 200, "application/octet-stream", fd, 2, 5, err);
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

static int start(const char *trusted, unsigned max_connections)
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

static int setup(void **state)
{
	(void)state;
	return start(NULL, 0);
}

static int setup_proxied(void **state)
{
	(void)state;
	return start("127.0.0.1, 10.0.0.9", 0);
}

static int setup_small(void **state)
{
	(void)state;
	return start(NULL, 2);
}

static int teardown(void **state)
{
	(void)state;
	http_stop(toy.server, 2000);
	return 0;
}

static void wait_for(atomic_int *what, int value)
{
	int64_t until = clock_mono_ms() + RAW_WAIT_MS;

	while (atomic_load(what) != value) {
		if (clock_mono_ms() > until)
			fail_msg("is %d, not %d", atomic_load(what), value);
		poll(NULL, 0, 1);
	}
}

static void pipelined_requests_answer_in_order(void **state)
{
	struct raw_reply r;
	int fd = raw_connect(toy.port);

	(void)state;
	assert_int_equal(raw_send(fd, "GET /toy/empty HTTP/1.1\r\n" HOST "\r\n"
				      "POST /toy/echo HTTP/1.1\r\n" HOST
				      "Content-Length: 5\r\n\r\nhello"
				      "GET /toy/none HTTP/1.1\r\n" HOST "\r\n"
				      "GET /toy/stream HTTP/1.1\r\n" HOST "\r\n"),
			 0);
	raw_reply_read(fd, &r, true);
	assert_int_equal(r.status, 200);
	assert_string_equal(r.body, "{}");
	raw_reply_read(fd, &r, true);
	assert_string_equal(r.body, "hello");
	raw_reply_read(fd, &r, true);
	assert_int_equal(r.status, 404);
	raw_reply_read(fd, &r, true);
	assert_string_equal(r.body, "piece;piece;piece;");
	close(fd);
}

static void each_request_has_its_status(void **state)
{
	static const struct {
		int status;
		const char *request;
	} row[] = {
		{200, "GET /toy/empty HTTP/1.0\r\n\r\n"},
		{200, "GET /toy/empty/ HTTP/1.1\r\n" HOST "\r\n"},
		{200, "HEAD /toy/empty HTTP/1.1\r\n" HOST "\r\n"},
		{200, "GET http://toy/toy/empty HTTP/1.1\r\n" HOST "\r\n"},
		{200, "POST /toy/empty HTTP/1.1\r\n" HOST "Content-Length: 3\r\n\r\nabc"},
		{200, "GET /openapi.json HTTP/1.1\r\n" HOST "\r\n"},
		{200, "GET /openapi/toy.json HTTP/1.1\r\n" HOST "\r\n"},
		{404, "GET /openapi/toy HTTP/1.1\r\n" HOST "\r\n"},
		{404, "GET /toy/none HTTP/1.1\r\n" HOST "\r\n"},
		{404, "GET / HTTP/1.1\r\n" HOST "\r\n"},
		{405, "PUT /toy/empty HTTP/1.1\r\n" HOST "\r\n"},
		{501, "GET /toy/later HTTP/1.1\r\n" HOST "\r\n"},
		{500, "GET /toy/silent HTTP/1.1\r\n" HOST "\r\n"},
		{400, "GET /toy/em%00pty HTTP/1.1\r\n" HOST "\r\n"},
		{400, "GET /toy/em%4 HTTP/1.1\r\n" HOST "\r\n"},
		{400, "GET /toy/%ff HTTP/1.1\r\n" HOST "\r\n"},
		{400, "GET /toy/empty?x=%00 HTTP/1.1\r\n" HOST "\r\n"},
		{400, "GET /toy/empty HTTP/1.1\r\n" HOST HOST "\r\n"},
		{400, "GET /toy/empty HTTP/1.1\r\nHost: a b\r\n\r\n"},
		{400, "POST /toy/echo HTTP/1.1\r\n" HOST
		      "Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc"},
		{400, "POST /toy/echo HTTP/1.1\r\n" HOST
		      "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
		{400, "POST /toy/echo HTTP/1.1\r\n" HOST "Transfer-Encoding: gzip\r\n\r\nabc"},
		{401, "POST /toy/private HTTP/1.1\r\n" HOST "Content-Length: 3\r\n\r\nabc"},
		{200, "POST /toy/private HTTP/1.1\r\n" HOST
		      "X-Key: good\r\nContent-Length: 3\r\n\r\nabc"},
		{404, "POST /toy/upload?refuse HTTP/1.1\r\n" HOST "Content-Length: 3\r\n\r\nabc"},
	};
	struct raw_reply r;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		raw_ask(toy.port, row[i].request, &r);
		if (r.status != row[i].status)
			fail_msg("row %zu: %d, not %d: %s", i, r.status, row[i].status, r.body);
		if (r.status >= 400 && !strstr(r.body, "\"message\":\""))
			fail_msg("row %zu: not our error body: %s", i, r.body);
	}
}

/* libmicrohttpd refuses these itself, with a text of its own. */
static void malformed_lengths_are_400(void **state)
{
	static const char *const row[] = {
		"POST /toy/echo HTTP/1.1\r\n" HOST "Content-Length: -1\r\n\r\n",
		"POST /toy/echo HTTP/1.1\r\n" HOST "Content-Length: 0x10\r\n\r\n",
		"POST /toy/echo HTTP/1.1\r\n" HOST "Content-Length: 99999999999999999999\r\n\r\n",
		"POST /toy/echo HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\nzz\r\n",
	};
	struct raw_reply r;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		raw_ask(toy.port, row[i], &r);
		/* 413: a length that fits no number is called too large. */
		if (r.status != 400 && r.status != 413)
			fail_msg("row %zu: %d", i, r.status);
	}
}

static void errors_keep_headers_but_not_forged_ones(void **state)
{
	struct raw_reply r;

	(void)state;
	raw_ask(toy.port, "GET /toy/fail HTTP/1.1\r\n" HOST "\r\n", &r);
	assert_int_equal(r.status, 429);
	assert_string_equal(raw_header(&r, "Retry-After"), "7");
	assert_null(raw_header(&r, "Set-Cookie"));
	assert_non_null(strstr(r.body, "slow \\\"down\\\"\\u0001"));
	assert_int_equal(atomic_load(&toy.last_status), 429);
}

static void options_and_405_name_the_methods(void **state)
{
	struct raw_reply r;

	(void)state;
	raw_ask(toy.port, "PUT /toy/empty HTTP/1.1\r\n" HOST "\r\n", &r);
	assert_string_equal(raw_header(&r, "Allow"), "GET, POST");
	raw_ask(toy.port,
		"OPTIONS /toy/empty HTTP/1.1\r\n" HOST "Origin: http://x\r\n"
		"Access-Control-Request-Headers: authorization\r\n\r\n",
		&r);
	assert_int_equal(r.status, 204);
	assert_string_equal(raw_header(&r, "Access-Control-Allow-Methods"), "OPTIONS, GET, POST");
	assert_string_equal(raw_header(&r, "Access-Control-Allow-Headers"), "authorization");
	assert_string_equal(raw_header(&r, "Access-Control-Allow-Origin"), "*");
}

static void request_ids_are_kept_when_plain(void **state)
{
	struct raw_reply r;

	(void)state;
	raw_ask(toy.port, "GET /toy/empty HTTP/1.1\r\n" HOST "X-Request-Id: my-id.1\r\n\r\n", &r);
	assert_string_equal(raw_header(&r, "X-Request-Id"), "my-id.1");
	raw_ask(toy.port, "GET /toy/empty HTTP/1.1\r\n" HOST "X-Request-Id: a b\"c\r\n\r\n", &r);
	assert_int_equal(strlen(raw_header(&r, "X-Request-Id")), 16);
}

static void declared_body_over_the_ceiling_is_refused_unread(void **state)
{
	struct raw_reply r;
	int fd = raw_connect(toy.port);

	(void)state;
	raw_send(fd, "POST /toy/echo HTTP/1.1\r\n" HOST "Content-Length: 99999999\r\n\r\n");
	raw_reply_read(fd, &r, true);
	assert_int_equal(r.status, 413);
	assert_string_equal(raw_header(&r, "Connection"), "close");
	close(fd);
}

static void small_body_over_the_ceiling_keeps_the_connection(void **state)
{
	char big[5000];
	struct raw_reply r;
	int fd = raw_connect(toy.port);

	(void)state;
	memset(big, 'x', sizeof(big));
	raw_send(fd, "POST /toy/echo HTTP/1.1\r\n" HOST "Content-Length: 5000\r\n\r\n");
	raw_send_n(fd, big, sizeof(big));
	raw_reply_read(fd, &r, true);
	assert_int_equal(r.status, 413);
	raw_send(fd, "GET /toy/empty HTTP/1.1\r\n" HOST "\r\n");
	raw_reply_read(fd, &r, true);
	assert_int_equal(r.status, 200);
	close(fd);
}

static void chunked_body_over_the_ceiling_gets_its_reply(void **state)
{
	char chunk[4096 + 8] = "1000\r\n";
	struct raw_reply r;
	int fd = raw_connect(toy.port);

	(void)state;
	memset(chunk + 6, 'x', 4096);
	memcpy(chunk + 6 + 4096, "\r\n", 2);
	raw_send(fd, "POST /toy/echo HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n");
	for (int i = 0; i < 256; i++)
		if (raw_send_n(fd, chunk, sizeof(chunk)) < 0)
			break;
	raw_reply_read(fd, &r, true);
	assert_int_equal(r.status, 413);
	close(fd);
}

static void expected_continue_is_refused_before_the_body(void **state)
{
	struct raw_reply r;
	int fd = raw_connect(toy.port);

	(void)state;
	raw_send(fd, "POST /toy/private HTTP/1.1\r\n" HOST
		     "Expect: 100-continue\r\nContent-Length: 500\r\n\r\n");
	raw_reply_read(fd, &r, true);
	assert_int_equal(r.status, 401);
	close(fd);
	fd = raw_connect(toy.port);
	raw_send(fd, "POST /toy/private HTTP/1.1\r\n" HOST
		     "X-Key: good\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n");
	raw_reply_read(fd, &r, true);
	assert_int_equal(r.status, 100);
	raw_send(fd, "abc");
	raw_reply_read(fd, &r, true);
	assert_string_equal(r.body, "abc");
	close(fd);
}

static void too_long_and_too_many_are_refused(void **state)
{
	static char request[80000];
	struct raw_reply r;
	size_t n;

	(void)state;
	memset(request, 'a', sizeof(request));
	memcpy(request, "GET /toy/", 9);
	snprintf(request + 20000, 100, " HTTP/1.1\r\n" HOST "\r\n");
	raw_ask(toy.port, request, &r);
	assert_int_equal(r.status, 414);
	n = (size_t)snprintf(request, sizeof(request), "GET /toy/empty HTTP/1.1\r\n" HOST);
	for (int i = 0; i < 200; i++)
		n += (size_t)snprintf(request + n, sizeof(request) - n, "X-%d: y\r\n", i);
	snprintf(request + n, sizeof(request) - n, "\r\n");
	raw_ask(toy.port, request, &r);
	assert_int_equal(r.status, 431);
}

static void uploads_arrive_byte_exact_and_refusals_drain(void **state)
{
	static char block[100000];
	struct raw_reply r;
	int fd = raw_connect(toy.port);
	unsigned sum = 0;
	char want[64];

	(void)state;
	for (size_t i = 0; i < sizeof(block); i++) {
		block[i] = (char)(i * 31 >> 3);
		sum = sum * 31 + (unsigned char)block[i];
	}
	raw_send(fd, "POST /toy/upload HTTP/1.1\r\n" HOST "Content-Length: 100000\r\n\r\n");
	raw_send_n(fd, block, sizeof(block));
	raw_reply_read(fd, &r, true);
	snprintf(want, sizeof(want), "100000 %u", sum);
	assert_string_equal(r.body, want);
	raw_send(fd, "POST /toy/upload HTTP/1.1\r\n" HOST "Content-Length: 8000000\r\n\r\n");
	for (int i = 0; i < 80; i++)
		assert_int_equal(raw_send_n(fd, block, sizeof(block)), 0);
	raw_reply_read(fd, &r, true);
	assert_int_equal(r.status, 400);
	assert_non_null(strstr(r.body, "disk: at most 3 MB"));
	raw_send(fd, "GET /toy/empty HTTP/1.1\r\n" HOST "\r\n");
	raw_reply_read(fd, &r, true);
	assert_int_equal(r.status, 200);
	close(fd);
	wait_for(&toy.freed, 2);
}

static void aborted_upload_frees_its_sink_and_leaves(void **state)
{
	int fd = raw_connect(toy.port);

	(void)state;
	raw_send(fd, "POST /toy/upload HTTP/1.1\r\n" HOST "Content-Length: 1000\r\n\r\nabc");
	wait_for(&toy.entered, 1);
	close(fd);
	wait_for(&toy.freed, 1);
	wait_for(&toy.left, 1);
	assert_int_equal(atomic_load(&toy.last_status), 499);
}

static void descriptors_and_streams_are_sent(void **state)
{
	struct raw_reply r;
	int fd;

	(void)state;
	raw_ask(toy.port, "GET /toy/fd HTTP/1.1\r\n" HOST "\r\n", &r);
	assert_string_equal(r.body, "23456");
	raw_ask(toy.port, "HEAD /toy/fd HTTP/1.1\r\n" HOST "\r\n", &r);
	assert_string_equal(raw_header(&r, "Content-Length"), "5");
	assert_int_equal(r.len, 0);
	fd = raw_connect(toy.port);
	raw_send(fd, "GET /toy/stream?n=-1 HTTP/1.1\r\n" HOST "\r\n");
	assert_true(raw_is_closed(fd, RAW_WAIT_MS));
	close(fd);
}

static void slow_head_is_cut_off(void **state)
{
	int fd = raw_connect(toy.port);
	bool cut = false;

	(void)state;
	raw_send(fd, "GET /toy/empty HTTP/1.1\r\n");
	/* Each byte would renew a mere inactivity timeout of one second. */
	for (int i = 0; i < 40 && !cut; i++) {
		cut = raw_is_closed(fd, 200) || raw_send(fd, "X") < 0;
	}
	assert_true(cut);
	close(fd);
}

static void handler_may_take_longer_than_idle_connections_live(void **state)
{
	struct raw_reply r;

	(void)state;
	raw_ask(toy.port, "GET /toy/nap?ms=2500 HTTP/1.1\r\n" HOST "\r\n", &r);
	assert_int_equal(r.status, 200);
	assert_string_equal(r.body, "rested");
}

static void a26_hangup_ends_a_blocked_handler(void **state)
{
	(void)state;
	for (int i = 0; i < 500; i++) {
		int fd = raw_connect(toy.port);

		raw_send(fd, "GET /toy/nap?ms=60000 HTTP/1.1\r\n" HOST "\r\n");
		if (i % 3 == 0)
			poll(NULL, 0, 1);
		close(fd);
	}
	/* Those that were read at all are over; no handler is left behind. */
	wait_for(&toy.running, 0);
	wait_for(&toy.left, atomic_load(&toy.entered));
	assert_true(atomic_load(&toy.cancelled) > 0);
}

static void forwarded_headers_count_only_from_proxies(void **state)
{
	static const char request[] = "GET /toy/about/a%2Fb HTTP/1.1\r\nHost: real:1\r\n"
				      "X-Forwarded-For: 6.6.6.6, 7.7.7.7, 10.0.0.9\r\n"
				      "X-Forwarded-Proto: https\r\nX-Forwarded-Host: front\r\n\r\n";
	struct raw_reply r;

	(void)state;
	raw_ask(toy.port, request, &r);
	assert_string_equal(r.body, "a/b 7.7.7.7 https://front /toy/about/a/b");
	http_stop(toy.server, 1000);
	start(NULL, 0);
	raw_ask(toy.port, request, &r);
	assert_string_equal(r.body, "a/b 127.0.0.1 http://real:1 /toy/about/a/b");
}

static void connection_over_the_cap_gets_503(void **state)
{
	struct raw_reply r;
	int a = raw_connect(toy.port), b = raw_connect(toy.port), c;

	(void)state;
	raw_send(a, "GET /toy/empty HTTP/1.1\r\n" HOST "\r\n");
	raw_reply_read(a, &r, true);
	raw_send(b, "GET /toy/empty HTTP/1.1\r\n" HOST "\r\n");
	raw_reply_read(b, &r, true);
	c = raw_connect(toy.port);
	raw_reply_read(c, &r, true);
	assert_int_equal(r.status, 503);
	close(a);
	close(b);
	close(c);
}

static void *stopper(void *arg)
{
	(void)arg;
	http_stop(toy.server, 5000);
	return NULL;
}

static void stop_lets_a_request_finish_and_drops_idle_ones(void **state)
{
	struct raw_reply r;
	int busy = raw_connect(toy.port), idle = raw_connect(toy.port);
	int64_t begun = clock_mono_ms();
	pthread_t t;

	(void)state;
	raw_send(idle, "GET /toy/empty HTTP/1.1\r\n" HOST "\r\n");
	raw_reply_read(idle, &r, true);
	raw_send(busy, "GET /toy/nap?ms=700 HTTP/1.1\r\n" HOST "\r\n");
	wait_for(&toy.running, 1);
	assert_int_equal(pthread_create(&t, NULL, stopper, NULL), 0);
	assert_true(raw_is_closed(idle, 500));
	raw_reply_read(busy, &r, true);
	assert_string_equal(r.body, "rested");
	pthread_join(t, NULL);
	assert_true(clock_mono_ms() - begun < 3000);
	close(busy);
	close(idle);
	start(NULL, 0);
}

static void stop_cuts_what_outlives_the_grace(void **state)
{
	int fd = raw_connect(toy.port);
	int64_t begun = clock_mono_ms();

	(void)state;
	raw_send(fd, "GET /toy/nap?ms=60000 HTTP/1.1\r\n" HOST "\r\n");
	wait_for(&toy.running, 1);
	http_stop(toy.server, 200);
	assert_true(clock_mono_ms() - begun < 5000);
	assert_int_equal(atomic_load(&toy.cancelled), 1);
	close(fd);
	start(NULL, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
		T(pipelined_requests_answer_in_order),
		T(each_request_has_its_status),
		T(malformed_lengths_are_400),
		T(errors_keep_headers_but_not_forged_ones),
		T(options_and_405_name_the_methods),
		T(request_ids_are_kept_when_plain),
		T(declared_body_over_the_ceiling_is_refused_unread),
		T(small_body_over_the_ceiling_keeps_the_connection),
		T(chunked_body_over_the_ceiling_gets_its_reply),
		T(expected_continue_is_refused_before_the_body),
		T(too_long_and_too_many_are_refused),
		T(uploads_arrive_byte_exact_and_refusals_drain),
		T(aborted_upload_frees_its_sink_and_leaves),
		T(descriptors_and_streams_are_sent),
		T(slow_head_is_cut_off),
		T(handler_may_take_longer_than_idle_connections_live),
		T(a26_hangup_ends_a_blocked_handler),
		T(stop_lets_a_request_finish_and_drops_idle_ones),
		T(stop_cuts_what_outlives_the_grace),
		cmocka_unit_test_setup_teardown(forwarded_headers_count_only_from_proxies,
						setup_proxied, teardown),
		cmocka_unit_test_setup_teardown(connection_over_the_cap_gets_503, setup_small,
						teardown),
#undef T
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
