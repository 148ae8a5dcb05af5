/*
 * Odd and hostile clients against a real caisson-init.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cmocka.h>

#include "agent/call.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/id.h"
#include "unit/agentbox.h"

static struct agentbox box;

static int box_start(void **state)
{
	(void)state;
	return agentbox_start(&box, 0);
}

static int box_end(void **state)
{
	(void)state;
	agentbox_stop(&box);
	return 0;
}

static int box_connect(void)
{
	return agent_call_open(box.sock, clock_mono_ms() + 2000, NULL);
}

static void box_is_well(void)
{
	const char *const argv[] = {"echo", "well", NULL};
	struct agentbox_run run = {.argv = argv};
	struct agentbox_result r;

	assert_int_equal(agent_hello(box.sock, clock_mono_ms() + 2000, NULL), 0);
	assert_int_equal(agentbox_exec(&box, &run, &r, NULL), 0);
	assert_string_equal(r.out, "well\n");
	agentbox_result_done(&r);
}

static void half_a_frame_blocks_nobody(void **state)
{
	uint8_t head[WIRE_FRAME_HEAD];
	struct wire_frame f = {.len = 1000, .type = AGENT_SPAWN};
	int fds[50];

	(void)state;
	wire_frame_put(head, &f);
	for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
		fds[i] = box_connect();
		assert_true(fds[i] >= 0);
		assert_true(send(fds[i], head, 1 + i % WIRE_FRAME_HEAD, 0) > 0);
	}
	box_is_well();
	fd_close_all(fds, ARRAY_LEN(fds));
}

static void a_request_in_single_bytes_is_served(void **state)
{
	uint8_t raw[WIRE_FRAME_HEAD + 64];
	struct wire_out o = wire_out_on(raw + WIRE_FRAME_HEAD, 64);
	struct agent_req req = {.verb = AGENT_USER, .user = "dev"};
	struct wire_frame f = {.type = AGENT_USER};
	auto_reply struct agent_reply r = {.nfds = 0};
	auto_close int fd = box_connect();

	(void)state;
	agent_req_put(&o, &req);
	f.len = (uint32_t)o.len;
	wire_frame_put(raw, &f);
	for (size_t i = 0; i < WIRE_FRAME_HEAD + o.len; i++) {
		assert_int_equal(send(fd, raw + i, 1, 0), 1);
		poll(NULL, 0, 1);
	}
	assert_int_equal(agent_call_recv(fd, &r, clock_mono_ms() + 2000, NULL), 0);
	assert_int_equal(r.type, AGENT_OK);
}

static void frames_over_the_limit_are_refused(void **state)
{
	uint8_t head[WIRE_FRAME_HEAD];
	struct wire_frame f = {.len = AGENT_REQUEST_MAX + 1, .type = AGENT_SPAWN};
	auto_reply struct agent_reply r = {.nfds = 0};
	auto_close int fd = box_connect();
	struct err err;

	(void)state;
	wire_frame_put(head, &f);
	assert_int_equal(send(fd, head, sizeof(head), 0), sizeof(head));
	assert_int_equal(agent_call_recv(fd, &r, clock_mono_ms() + 2000, &err), -1);
	assert_int_equal(err.code, ERR_INVALID);
	box_is_well();
}

static void a_request_of_a_mebibyte_works(void **state)
{
	static char text[60000];
	const char *argv[17] = {"true"};
	struct agentbox_run run = {.argv = argv};
	struct agentbox_result r;
	struct err err;

	(void)state;
	memset(text, 'a', sizeof(text) - 1);
	for (size_t i = 1; i < 16; i++)
		argv[i] = text;
	assert_int_equal(agentbox_exec(&box, &run, &r, &err), 0);
	agentbox_result_done(&r);
}

static void random_bytes_do_no_harm(void **state)
{
	(void)state;
	for (int i = 0; i < 300; i++) {
		uint8_t raw[200];
		auto_close int fd = box_connect();
		struct wire_frame f = {.len = (uint32_t)(i % 190), .type = (uint16_t)(i % 21)};

		id_random(raw, sizeof(raw));
		if (i % 3)
			wire_frame_put(raw, &f);
		send(fd, raw, sizeof(raw), MSG_NOSIGNAL);
	}
	box_is_well();
}

static void connections_over_the_limit_are_told(void **state)
{
	static int fds[600];
	size_t refused = 0;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(fds); i++)
		fds[i] = box_connect();
	for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
		struct pollfd p = {.fd = fds[i], .events = POLLIN};

		refused += poll(&p, 1, i > 500 ? 100 : 0) > 0;
	}
	assert_true(refused >= 80 && refused <= 100);
	fd_close_all(fds, ARRAY_LEN(fds));
	box_is_well();
}

static void silent_clients_are_dropped_in_time(void **state)
{
	auto_close int fd = box_connect();
	struct pollfd p = {.fd = fd, .events = POLLIN};
	int64_t began = clock_mono_ms();
	char c;

	(void)state;
	assert_int_equal(poll(&p, 1, 8000), 1);
	assert_int_equal(recv(fd, &c, 1, 0), 0);
	assert_true(clock_mono_ms() - began >= 4000);
}

static void a_second_request_on_a_running_exec_ends_it(void **state)
{
	const char *const argv[] = {"sleep", "100", NULL};
	struct agent_spawn s = {.argv = argv, .user = ""};
	struct agent_req again = {.verb = AGENT_HELLO};
	struct agent_proc p = AGENT_PROC_INIT;
	struct pollfd f;
	struct agent_exit e;

	(void)state;
	assert_int_equal(agent_spawn(box.sock, &s, &p, clock_mono_ms() + 2000, NULL), 0);
	assert_int_equal(agent_call_send(p.conn, &again, clock_mono_ms() + 1000, NULL), 0);
	f = (struct pollfd){.fd = p.conn, .events = POLLIN};
	assert_int_equal(poll(&f, 1, 2000), 1);
	assert_int_equal(agent_proc_exit(&p, &e, NULL), -1);
	agent_proc_done(&p);
	box_is_well();
}

static void slow_readers_of_a_listing_block_nobody(void **state)
{
	struct agent_req req = {
		.verb = AGENT_LIST, .user = "", .path = "/proc", .depth = 4, .max = 200000};
	int fds[20];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
		fds[i] = box_connect();
		assert_int_equal(agent_call_send(fds[i], &req, clock_mono_ms() + 1000, NULL), 0);
	}
	box_is_well();
	fd_close_all(fds, ARRAY_LEN(fds));
}

static void e25_a_stopped_agent_costs_one_deadline(void **state)
{
	int64_t began = clock_mono_ms();
	struct err err;

	(void)state;
	kill(box.pid, SIGSTOP);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(agent_hello(box.sock, clock_mono_ms() + 100, &err), -1);
		assert_int_equal(err.code, ERR_TIMEOUT);
	}
	assert_true(clock_mono_ms() - began < 1500);
	kill(box.pid, SIGCONT);
	box_is_well();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(half_a_frame_blocks_nobody),
		cmocka_unit_test(a_request_in_single_bytes_is_served),
		cmocka_unit_test(frames_over_the_limit_are_refused),
		cmocka_unit_test(a_request_of_a_mebibyte_works),
		cmocka_unit_test(random_bytes_do_no_harm),
		cmocka_unit_test(connections_over_the_limit_are_told),
		cmocka_unit_test(silent_clients_are_dropped_in_time),
		cmocka_unit_test(a_second_request_on_a_running_exec_ends_it),
		cmocka_unit_test(slow_readers_of_a_listing_block_nobody),
		cmocka_unit_test(e25_a_stopped_agent_costs_one_deadline),
	};

	if (!agentbox_possible()) {
		printf("skipped: needs root, a static /bin/busybox and build/caisson-init\n");
		return 0;
	}
	return cmocka_run_group_tests(tests, box_start, box_end);
}
