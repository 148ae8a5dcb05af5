/*
 * test_http_upgrade.c - live WebSockets and event streams over raw sockets.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <pthread.h>
#include <stdatomic.h>

#include <cmocka.h>

#include "rawhttp.h"
#include "wire/ws.h"

#define WS_MAX 100000

static struct http_server *server;
static uint16_t port;
static atomic_int ended, joined;
static pthread_mutex_t listener_lock = PTHREAD_MUTEX_INITIALIZER;
static struct sio_conn *listener; /* listener_lock */

/* Echoes messages; "bye" closes with 4001; "flood" answers from eight threads at once. */
static void *flood(void *arg)
{
	char text[300];

	memset(text, 'f', sizeof(text));
	for (int i = 0; i < 20; i++)
		http_ws_send(arg, WS_BINARY, text, sizeof(text), clock_mono_ms() + 2000, NULL);
	return NULL;
}

static void flood_all(struct http_ws *ws)
{
	pthread_t t[8];
	size_t n = 0;

	while (n < ARRAY_LEN(t) && pthread_create(&t[n], NULL, flood, ws) == 0)
		n++;
	while (n)
		pthread_join(t[--n], NULL);
}

static void echo_main(struct http_ws *ws, void *arg)
{
	struct buf b = BUF_INIT(WS_MAX);
	int op;

	while ((op = http_ws_recv(ws, &b, WS_MAX, 0, NULL)) > 0 && op != WS_CLOSE) {
		if (strcmp(buf_str(&b), "bye") == 0)
			http_ws_close(ws, 4001, "as you wish");
		else if (strcmp(buf_str(&b), "flood") == 0)
			flood_all(ws);
		else
			http_ws_send(ws, (enum http_ws_op)op, b.data, b.len, 0, NULL);
	}
	buf_done(&b);
	free(arg);
	atomic_fetch_add(&ended, 1);
}

static int h_echo(struct http_req *req, struct err *err)
{
	void *arg = malloc(1);

	if (http_upgrade(req, http_ws_offered(req, 1), echo_main, arg, err) == 0)
		return 0;
	free(arg);
	return -1;
}

static int on_connect(void *arg, struct sio_conn *conn, const char *token, struct err *err)
{
	(void)arg;
	if (strcmp(token, "good") != 0)
		return err_set(err, ERR_UNAUTHORIZED, "wrong \"key\"");
	pthread_mutex_lock(&listener_lock);
	listener = conn;
	pthread_mutex_unlock(&listener_lock);
	atomic_fetch_add(&joined, 1);
	return 0;
}

static void on_disconnect(void *arg, struct sio_conn *conn)
{
	(void)arg;
	(void)conn;
	/* Waits for an emit under way, as the contract asks. */
	pthread_mutex_lock(&listener_lock);
	listener = NULL;
	pthread_mutex_unlock(&listener_lock);
	atomic_fetch_sub(&joined, 1);
}

static void events_main(struct http_ws *ws, void *arg)
{
	static const struct sio_ops ops = {on_connect, on_disconnect};

	sio_serve(ws, &ops, arg);
	atomic_fetch_add(&ended, 1);
}

static bool emit(const char *event, const char *json)
{
	bool ok;

	pthread_mutex_lock(&listener_lock);
	ok = listener && sio_emit(listener, event, json);
	pthread_mutex_unlock(&listener_lock);
	return ok;
}

static int h_events(struct http_req *req, struct err *err)
{
	return http_upgrade(req, NULL, events_main, NULL, err);
}

static int setup(void **state)
{
	static const struct http_route routes[] = {
		{"GET", "/echo", "echo", h_echo, HTTP_BODY_NONE, 0, 0},
		{"GET", "/events", "events", h_events, HTTP_BODY_NONE, 0, 0},
	};
	static const struct http_dialect d = {
		.name = "ws", .prefix = "", .route = routes, .nroutes = ARRAY_LEN(routes)};
	static const struct http_dialect *const dialects[] = {&d};
	struct http_config cfg = {.dialect = dialects, .ndialects = 1};

	(void)state;
	atomic_store(&ended, 0);
	cfg.listen_fd = raw_listen(&port);
	server = http_start(&cfg, NULL);
	return server ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	http_stop(server, 2000);
	return 0;
}

/* ---- a client ---- */

static int ws_open(const char *path, const char *extra)
{
	struct raw_reply r;
	char text[1024];
	int fd = raw_connect(port);

	snprintf(text, sizeof(text),
		 "GET %s HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: keep-alive, "
		 "Upgrade\r\n"
		 "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: "
		 "dGhlIHNhbXBsZSBub25jZQ==\r\n%s\r\n",
		 path, extra);
	assert_int_equal(raw_send(fd, text), 0);
	raw_reply_read(fd, &r, false);
	assert_int_equal(r.status, 101);
	assert_string_equal(raw_header(&r, "Sec-WebSocket-Accept"), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
	return fd;
}

static size_t frame_write(char *out, bool fin, uint8_t op, const void *p, size_t n)
{
	struct ws_head h = {.fin = fin, .op = op, .masked = true, .mask = {9, 8, 7, 6}, .len = n};
	size_t at = ws_head_write(&h, (uint8_t *)out);

	if (n)
		memcpy(out + at, p, n);
	ws_mask(out + at, n, h.mask, 0);
	return at + n;
}

static void frame_send(int fd, bool fin, uint8_t op, const char *p, size_t n)
{
	static char raw[WS_MAX + 100];

	raw_send_n(fd, raw, frame_write(raw, fin, op, p, n));
}

/* Next frame of the server: its opcode, -1 at the end. */
static int frame_read(int fd, char *out, size_t *ret_n)
{
	struct ws_head h;
	uint8_t raw[WS_HEAD_MAX];
	size_t n = 0;

	while (ws_head_parse(raw, n, false, &h, NULL) == 0) {
		if (raw_read(fd, (char *)raw + n, 1, 1) != 1)
			return -1;
		n++;
	}
	*ret_n = raw_read(fd, out, WS_MAX, h.len);
	out[*ret_n] = '\0';
	return *ret_n == h.len ? h.op : -1;
}

static void expect_frame(int fd, int op, const char *text)
{
	static char got[WS_MAX + 1];
	size_t n = 0;

	assert_int_equal(frame_read(fd, got, &n), op);
	assert_int_equal(n, strlen(text));
	assert_memory_equal(got, text, n);
}

static void expect_close(int fd, unsigned code)
{
	static char got[WS_MAX + 1];
	size_t n = 0;
	int op;

	do {
		op = frame_read(fd, got, &n);
	} while (op >= 0 && op != WS_OP_CLOSE);
	assert_int_equal(op, WS_OP_CLOSE);
	assert_true(n >= 2);
	assert_int_equal((unsigned char)got[0] << 8 | (unsigned char)got[1], code);
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

/* ---- facts ---- */

static void messages_are_echoed_and_fragments_joined(void **state)
{
	int fd = ws_open("/echo", "");

	(void)state;
	frame_send(fd, true, WS_OP_TEXT, "h\xc3\xa9llo", 6);
	expect_frame(fd, WS_OP_TEXT, "h\xc3\xa9llo");
	/* A character may be cut in two, and a ping may come between. */
	frame_send(fd, false, WS_OP_TEXT, "a\xc3", 2);
	frame_send(fd, true, WS_OP_PING, "p", 1);
	expect_frame(fd, WS_OP_PONG, "p");
	frame_send(fd, false, WS_OP_CONTINUE, "\xa9", 1);
	frame_send(fd, true, WS_OP_CONTINUE, "b", 1);
	expect_frame(fd, WS_OP_TEXT,
		     "a\xc3\xa9"
		     "b");
	frame_send(fd, true, WS_OP_BINARY, "", 0);
	expect_frame(fd, WS_OP_BINARY, "");
	close(fd);
	wait_for(&ended, 1);
}

static void frames_split_at_every_byte_arrive(void **state)
{
	int fd = ws_open("/echo", "");
	char raw[400], text[201];
	size_t n;

	(void)state;
	memset(text, 't', 200);
	text[200] = '\0';
	n = frame_write(raw, true, WS_OP_TEXT, text, 200);
	for (size_t i = 0; i < n; i++)
		raw_send_n(fd, raw + i, 1);
	expect_frame(fd, WS_OP_TEXT, text);
	close(fd);
}

static void frames_glued_to_the_request_are_not_lost(void **state)
{
	char text[1024];
	struct raw_reply r;
	int fd = raw_connect(port);
	size_t n = (size_t)snprintf(
		text, sizeof(text),
		"GET /echo HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n");

	(void)state;
	n += frame_write(text + n, true, WS_OP_TEXT, "early", 5);
	n += frame_write(text + n, true, WS_OP_TEXT, "bird", 4);
	raw_send_n(fd, text, n);
	raw_reply_read(fd, &r, false);
	assert_int_equal(r.status, 101);
	expect_frame(fd, WS_OP_TEXT, "early");
	expect_frame(fd, WS_OP_TEXT, "bird");
	close(fd);
}

static void subprotocol_is_the_second_offered(void **state)
{
	struct raw_reply r;
	int fd = raw_connect(port);

	(void)state;
	raw_send(fd,
		 "GET /echo HTTP/1.1\r\nHost: x\r\nUpgrade: WebSocket\r\nConnection: upgrade\r\n"
		 "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
		 "Sec-WebSocket-Protocol: one\r\nSec-WebSocket-Protocol: two~x, three\r\n\r\n");
	raw_reply_read(fd, &r, false);
	assert_int_equal(r.status, 101);
	assert_string_equal(raw_header(&r, "Sec-WebSocket-Protocol"), "two~x");
	close(fd);
}

static void bad_upgrades_are_refused(void **state)
{
	static const struct {
		int status;
		const char *head;
	} row[] = {
		{426, ""},
		{426, "Upgrade: websocket\r\n"},
		{426, "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 8\r\n"
		      "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"},
		{400, "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"},
		{400, "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
		      "Sec-WebSocket-Key: short\r\n"},
	};
	struct raw_reply r;
	char text[512];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		snprintf(text, sizeof(text), "GET /echo HTTP/1.1\r\nHost: x\r\n%s\r\n",
			 row[i].head);
		raw_ask(port, text, &r);
		if (r.status != row[i].status)
			fail_msg("row %zu: %d", i, r.status);
	}
}

static void peers_that_break_the_rules_are_told_why(void **state)
{
	static char big[WS_MAX + 1];
	int fd = ws_open("/echo", "");

	(void)state;
	raw_send_n(fd, "\x81\x05hello", 7);
	expect_close(fd, WS_CLOSE_PROTOCOL);
	close(fd);
	fd = ws_open("/echo", "");
	frame_send(fd, true, WS_OP_TEXT, "\xff", 1);
	expect_close(fd, WS_CLOSE_BAD_DATA);
	close(fd);
	fd = ws_open("/echo", "");
	frame_send(fd, false, WS_OP_BINARY, big, WS_MAX);
	frame_send(fd, true, WS_OP_CONTINUE, big, 1);
	expect_close(fd, WS_CLOSE_TOO_BIG);
	close(fd);
	fd = ws_open("/echo", "");
	frame_send(fd, true, WS_OP_CONTINUE, "x", 1);
	expect_close(fd, WS_CLOSE_PROTOCOL);
	close(fd);
	fd = ws_open("/echo", "");
	frame_send(fd, true, WS_OP_CLOSE, "\x03\xee", 2);
	expect_close(fd, WS_CLOSE_PROTOCOL);
	close(fd);
}

static void closing_is_answered_from_both_sides(void **state)
{
	int fd = ws_open("/echo", "");

	(void)state;
	frame_send(fd, true, WS_OP_CLOSE, "\x0f\xa0why", 5);
	expect_close(fd, 4000);
	assert_true(raw_is_closed(fd, 1000));
	close(fd);
	fd = ws_open("/echo", "");
	frame_send(fd, true, WS_OP_TEXT, "bye", 3);
	expect_close(fd, 4001);
	frame_send(fd, true, WS_OP_CLOSE, "\x0f\xa1", 2);
	assert_true(raw_is_closed(fd, 1000));
	close(fd);
	wait_for(&ended, 2);
}

static void a38_clients_leaving_under_concurrent_sends_harm_nobody(void **state)
{
	(void)state;
	for (int i = 0; i < 100; i++) {
		int fd = ws_open("/echo", "");

		frame_send(fd, true, WS_OP_TEXT, "flood", 5);
		if (i % 2)
			frame_send(fd, true, WS_OP_CLOSE, "\x03\xe8", 2);
		if (i % 3 == 0)
			poll(NULL, 0, 1);
		close(fd);
	}
	wait_for(&ended, 100);
}

static void stopping_server_says_1001(void **state)
{
	int fd = ws_open("/echo", "");
	int64_t begun = clock_mono_ms();
	char got[200];
	size_t n = 0;

	(void)state;
	http_stop(server, 5000);
	assert_true(clock_mono_ms() - begun < 4000);
	assert_int_equal(frame_read(fd, got, &n), WS_OP_CLOSE);
	assert_int_equal((unsigned char)got[0] << 8 | (unsigned char)got[1], WS_CLOSE_AWAY);
	close(fd);
	assert_int_equal(setup(NULL), 0);
}

static int sio_open(const char *connect)
{
	int fd = ws_open("/events", "");
	static char got[WS_MAX + 1];
	size_t n = 0;

	assert_int_equal(frame_read(fd, got, &n), WS_OP_TEXT);
	assert_memory_equal(got, "0{\"sid\":\"", 9);
	frame_send(fd, true, WS_OP_TEXT, connect, strlen(connect));
	return fd;
}

static void events_reach_a_client_with_a_key(void **state)
{
	int fd = sio_open("40{\"token\":\"good\"}");
	char got[1000];
	size_t n = 0;

	(void)state;
	assert_int_equal(frame_read(fd, got, &n), WS_OP_TEXT);
	assert_memory_equal(got, "40{\"sid\":\"", 10);
	assert_true(emit("a.b", "{\"x\":1}"));
	assert_true(emit("c", "2"));
	expect_frame(fd, WS_OP_TEXT, "42[\"a.b\",{\"x\":1}]");
	expect_frame(fd, WS_OP_TEXT, "42[\"c\",2]");
	frame_send(fd, true, WS_OP_TEXT, "2probe", 6);
	expect_frame(fd, WS_OP_TEXT, "3probe");
	frame_send(fd, true, WS_OP_TEXT, "41", 2);
	expect_close(fd, WS_CLOSE_NORMAL);
	close(fd);
	wait_for(&joined, 0);
}

static void event_client_without_a_key_is_refused(void **state)
{
	int fd = sio_open("40{\"token\":\"bad\"}");

	(void)state;
	expect_frame(fd, WS_OP_TEXT, "44{\"message\":\"wrong 'key'\"}");
	expect_close(fd, WS_CLOSE_NORMAL);
	close(fd);
	fd = sio_open("40/other,");
	expect_frame(fd, WS_OP_TEXT,
		     "44{\"message\":\"connect to the default namespace with a token\"}");
	close(fd);
	fd = sio_open("9what");
	expect_close(fd, WS_CLOSE_PROTOCOL);
	close(fd);
	assert_int_equal(atomic_load(&joined), 0);
}

static void slow_event_client_is_dropped(void **state)
{
	static char payload[60000];
	int fd = sio_open("40{\"token\":\"good\"}");
	int sent = 0;

	(void)state;
	wait_for(&joined, 1);
	payload[0] = '"';
	memset(payload + 1, 'x', sizeof(payload) - 3);
	payload[sizeof(payload) - 2] = '"';
	while (sent < 10000 && emit("e", payload))
		sent++;
	/* The queue's ceiling and what the kernel buffers, not more. */
	assert_true(sent > 10 && sent < 1000);
	close(fd);
	wait_for(&joined, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
		T(messages_are_echoed_and_fragments_joined),
		T(frames_split_at_every_byte_arrive),
		T(frames_glued_to_the_request_are_not_lost),
		T(subprotocol_is_the_second_offered),
		T(bad_upgrades_are_refused),
		T(peers_that_break_the_rules_are_told_why),
		T(closing_is_answered_from_both_sides),
		T(a38_clients_leaving_under_concurrent_sends_harm_nobody),
		T(stopping_server_says_1001),
		T(events_reach_a_client_with_a_key),
		T(event_client_without_a_key_is_refused),
		T(slow_event_client_is_dropped),
#undef T
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
