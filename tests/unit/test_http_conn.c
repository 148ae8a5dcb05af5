/*
 * test_http_conn.c - connections: slow ones, cut ones, too many, the end of the server.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "httptoy.h"

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
	toy_wait_for(&toy.running, 0);
	toy_wait_for(&toy.left, atomic_load(&toy.entered));
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
	raw_ask(toy.port,
		"GET /toy/about/x HTTP/1.1\r\nHost: h\r\n"
		"X-Forwarded-For: 7.7.7.7, <b>, 10.0.0.9\r\n\r\n",
		&r);
	assert_string_equal(r.body, "x 10.0.0.9 http://h /toy/about/x");
	http_stop(toy.server, 1000);
	toy_start(NULL, 0);
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
	toy_wait_for(&toy.running, 1);
	assert_int_equal(pthread_create(&t, NULL, stopper, NULL), 0);
	assert_true(raw_is_closed(idle, 500));
	raw_reply_read(busy, &r, true);
	assert_string_equal(r.body, "rested");
	pthread_join(t, NULL);
	assert_true(clock_mono_ms() - begun < 3000);
	close(busy);
	close(idle);
	toy_start(NULL, 0);
}

static void stop_cuts_what_outlives_the_grace(void **state)
{
	int fd = raw_connect(toy.port);
	int64_t begun = clock_mono_ms();

	(void)state;
	raw_send(fd, "GET /toy/nap?ms=60000 HTTP/1.1\r\n" HOST "\r\n");
	toy_wait_for(&toy.running, 1);
	http_stop(toy.server, 200);
	assert_true(clock_mono_ms() - begun < 5000);
	assert_int_equal(atomic_load(&toy.cancelled), 1);
	close(fd);
	toy_start(NULL, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(fn) cmocka_unit_test_setup_teardown(fn, toy_setup, toy_teardown)
		T(slow_head_is_cut_off),
		T(handler_may_take_longer_than_idle_connections_live),
		T(a26_hangup_ends_a_blocked_handler),
		T(stop_lets_a_request_finish_and_drops_idle_ones),
		T(stop_cuts_what_outlives_the_grace),
		cmocka_unit_test_setup_teardown(forwarded_headers_count_only_from_proxies,
						toy_setup_proxied, toy_teardown),
		cmocka_unit_test_setup_teardown(connection_over_the_cap_gets_503, toy_setup_small,
						toy_teardown),
#undef T
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
