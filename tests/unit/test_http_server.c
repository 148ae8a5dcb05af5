/*
 * test_http_server.c - requests and replies, over raw sockets.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "httptoy.h"

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
	toy_wait_for(&toy.freed, 2);
}

static void aborted_upload_frees_its_sink_and_leaves(void **state)
{
	int fd = raw_connect(toy.port);

	(void)state;
	raw_send(fd, "POST /toy/upload HTTP/1.1\r\n" HOST "Content-Length: 1000\r\n\r\nabc");
	toy_wait_for(&toy.entered, 1);
	close(fd);
	toy_wait_for(&toy.freed, 1);
	toy_wait_for(&toy.left, 1);
	assert_int_equal(atomic_load(&toy.last_status), 499);
}

/* libmicrohttpd's own sendfile would spin here for ever. */
static void body_shorter_than_promised_cuts_the_connection(void **state)
{
	static const char *const row[] = {
		"GET /toy/fd?truncated HTTP/1.1\r\n" HOST "\r\n",
		"GET /toy/stream?size=100 HTTP/1.1\r\n" HOST "\r\n",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		int fd = raw_connect(toy.port);

		raw_send(fd, row[i]);
		if (!raw_is_closed(fd, RAW_WAIT_MS))
			fail_msg("row %zu", i);
		close(fd);
	}
}

static void descriptors_and_streams_are_sent(void **state)
{
	struct raw_reply r;
	int fd;

	(void)state;
	raw_ask(toy.port, "GET /toy/fd HTTP/1.1\r\n" HOST "\r\n", &r);
	assert_string_equal(r.body, "23456");
	raw_ask(toy.port, "GET /toy/fd?empty HTTP/1.1\r\n" HOST "\r\n", &r);
	assert_string_equal(raw_header(&r, "Content-Length"), "0");
	raw_ask(toy.port, "GET /toy/stream?size=18 HTTP/1.1\r\n" HOST "\r\n", &r);
	assert_string_equal(r.body, "piece;piece;piece;");
	raw_ask(toy.port, "HEAD /toy/fd HTTP/1.1\r\n" HOST "\r\n", &r);
	assert_string_equal(raw_header(&r, "Content-Length"), "5");
	assert_int_equal(r.len, 0);
	fd = raw_connect(toy.port);
	raw_send(fd, "GET /toy/stream?n=-1 HTTP/1.1\r\n" HOST "\r\n");
	assert_true(raw_is_closed(fd, RAW_WAIT_MS));
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(fn) cmocka_unit_test_setup_teardown(fn, toy_setup, toy_teardown)
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
		T(body_shorter_than_promised_cuts_the_connection),
#undef T
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
