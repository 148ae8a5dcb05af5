/*
 * An agent of our own making against the daemon's calls: descriptors, frames, errors and lists that
 * no agent should send.
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
#include "unit/fakeagent.h"

enum fake_fd { FAKE_NONE, FAKE_FILE, FAKE_PIPE_R, FAKE_PIPE_W, FAKE_DEV, FAKE_PROC, FAKE_SOCK };

struct fake {
	struct fakeagent at;
	const uint8_t *reply;
	size_t len;
	enum fake_fd fd[FD_PASS_MAX];
	size_t nfds;
	int hold_ms;
};

static int fake_fd_make(enum fake_fd kind)
{
	int p[2];

	switch (kind) {
	case FAKE_FILE:
		return memfd_create("fake", MFD_CLOEXEC);
	case FAKE_PIPE_R:
	case FAKE_PIPE_W:
		assert_int_equal(pipe2(p, O_CLOEXEC), 0);
		close(p[kind == FAKE_PIPE_R]);
		return p[kind == FAKE_PIPE_W];
	case FAKE_DEV:
		return open("/dev/zero", O_RDONLY | O_CLOEXEC);
	case FAKE_PROC:
		return open("/proc/self/status", O_RDONLY | O_CLOEXEC);
	default:
		return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	}
}

static void *fake_main(void *arg)
{
	struct fake *f = arg;
	int fds[FD_PASS_MAX];
	char drop[4096];
	int conn = accept(f->at.listener, NULL, NULL);

	(void)!read(conn, drop, sizeof(drop));
	for (size_t i = 0; i < f->nfds; i++)
		fds[i] = fake_fd_make(f->fd[i]);
	if (f->len)
		fd_send(conn, f->reply, f->len, fds, f->nfds, 0, NULL);
	poll(NULL, 0, f->hold_ms);
	close(conn);
	fd_close_all(fds, f->nfds);
	return NULL;
}

static void fake_start(struct fake *f)
{
	fakeagent_start(&f->at, fake_main, f);
}

static void fake_end(struct fake *f)
{
	fakeagent_end(&f->at);
}

static size_t frame(uint8_t *raw, uint16_t type, const struct wire_out *o)
{
	struct wire_frame f = {.len = (uint32_t)o->len, .type = type};

	wire_frame_put(raw, &f);
	return WIRE_FRAME_HEAD + o->len;
}

static size_t info_frame(uint8_t raw[256])
{
	struct wire_out o = wire_out_on(raw + WIRE_FRAME_HEAD, 200);

	wire_put_str(&o, "name");
	wire_put_str(&o, "/name");
	wire_put_u8(&o, 'f');
	wire_put_u32(&o, 0644);
	wire_put_u32(&o, 0);
	wire_put_u32(&o, 0);
	wire_put_u64(&o, 0);
	wire_put_i64(&o, 0);
	wire_put_str(&o, "");
	return frame(raw, AGENT_OK, &o);
}

/* The reply to PORTS claims n ports and holds those of port. */
static int ports_of_fake(uint32_t n, const uint16_t *port, size_t have, size_t *ret_n)
{
	uint8_t raw[256];
	struct wire_out o = wire_out_on(raw + WIRE_FRAME_HEAD, 200);
	struct fake f = {.reply = raw};
	auto_free uint16_t *got = NULL;
	int rc;

	wire_put_u32(&o, n);
	for (size_t i = 0; i < have; i++)
		wire_put_u16(&o, port[i]);
	f.len = frame(raw, AGENT_OK, &o);
	fake_start(&f);
	rc = agent_ports(f.at.path, &got, ret_n, NULL);
	fake_end(&f);
	return rc;
}

static void lists_of_ports_that_lie_are_refused(void **state)
{
	static const uint16_t port[] = {1, 22, 3000}, twice[] = {7, 7}, down[] = {9, 8};
	size_t n = 9;

	(void)state;
	assert_int_equal(ports_of_fake(3, port, 3, &n), 0);
	assert_int_equal(n, 3);
	assert_int_equal(ports_of_fake(0, port, 0, &n), 0);
	assert_int_equal(n, 0);
	assert_int_equal(ports_of_fake(4, port, 3, &n), -1);
	assert_int_equal(ports_of_fake(2, port, 3, &n), -1);
	assert_int_equal(ports_of_fake(UINT32_MAX, port, 3, &n), -1);
	assert_int_equal(ports_of_fake(2, twice, 2, &n), -1);
	assert_int_equal(ports_of_fake(2, down, 2, &n), -1);
}

static size_t spawned_frame(uint8_t raw[256])
{
	struct wire_out o = wire_out_on(raw + WIRE_FRAME_HEAD, 200);

	wire_put_u32(&o, 7);
	wire_put_u32(&o, 0);
	wire_put_u32(&o, 0);
	wire_put_str(&o, "/");
	wire_put_u8(&o, 0);
	return frame(raw, AGENT_SPAWNED, &o);
}

static void descriptors_of_the_wrong_kind_are_refused_for_files(void **state)
{
	static const enum fake_fd kinds[] = {FAKE_PIPE_R, FAKE_DEV, FAKE_PROC, FAKE_SOCK};
	uint8_t raw[256];
	size_t n = info_frame(raw);

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		struct fake f = {.reply = raw, .len = n, .fd = {kinds[i]}, .nfds = 1};
		struct err err = {.code = ERR_NONE};

		fake_start(&f);
		assert_int_equal(agent_open(f.at.path, "", "/name", AGENT_OPEN_READ, 0, NULL, &err),
				 -1);
		assert_true(err.code == ERR_AGENT || err.code == ERR_INVALID);
		fake_end(&f);
	}
}

static void a_file_opened_otherwise_than_asked_is_refused(void **state)
{
	uint8_t raw[256];
	struct fake f = {.reply = raw, .len = info_frame(raw), .fd = {FAKE_FILE}, .nfds = 1};
	struct err err = {.code = ERR_NONE};

	(void)state;
	fake_start(&f); /* a memfd is open for reading and writing */
	assert_int_equal(agent_open(f.at.path, "", "/name", AGENT_OPEN_READ, 0, NULL, &err), -1);
	assert_int_equal(err.code, ERR_AGENT);
	fake_end(&f);
}

static void too_few_or_too_many_descriptors_are_refused(void **state)
{
	uint8_t raw[256];
	size_t n = info_frame(raw);

	(void)state;
	for (size_t k = 0; k < 4; k++) {
		struct fake f = {
			.reply = raw, .len = n, .fd = {FAKE_FILE, FAKE_FILE, FAKE_FILE}, .nfds = k};
		struct agent_info i;
		struct err err = {.code = ERR_NONE};

		if (k == 1)
			continue;
		fake_start(&f);
		assert_int_equal(agent_open(f.at.path, "", "/name",
					    AGENT_OPEN_READ | AGENT_OPEN_WRITE, 0, &i, &err),
				 -1);
		assert_int_equal(err.code, ERR_AGENT);
		fake_end(&f);
	}
}

static void streams_of_the_wrong_kind_are_refused(void **state)
{
	static const enum fake_fd sets[][2] = {{FAKE_PIPE_W, FAKE_PIPE_R},
					       {FAKE_PIPE_R, FAKE_SOCK},
					       {FAKE_FILE, FAKE_PIPE_R},
					       {FAKE_DEV, FAKE_PIPE_R}};
	const char *const argv[] = {"x", NULL};
	struct agent_spawn s = {.argv = argv, .user = ""};
	uint8_t raw[256];
	size_t n = spawned_frame(raw);

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(sets); i++) {
		struct fake f = {.reply = raw, .len = n, .fd = {sets[i][0], sets[i][1]}, .nfds = 2};
		struct agent_proc p = AGENT_PROC_INIT;
		struct err err = {.code = ERR_NONE};

		fake_start(&f);
		assert_int_equal(agent_spawn(f.at.path, &s, &p, clock_mono_ms() + 2000, &err), -1);
		assert_int_equal(err.code, ERR_AGENT);
		assert_int_equal(p.conn, -1);
		fake_end(&f);
	}
}

static void malformed_replies_are_the_agents_fault(void **state)
{
	static const struct {
		const char *raw;
		size_t len;
		enum err_code code;
	} rows[] = {
		{"\x00\x00\x00\x00\x64\x00\x00\x00", 8, ERR_AGENT},	     /* empty OK */
		{"\xff\xff\xff\x7f\x64\x00\x00\x00", 8, ERR_AGENT},	     /* frame of 2 GiB */
		{"\x00\x00\x00\x00\x64\x00\x01\x00", 8, ERR_AGENT},	     /* unknown flag */
		{"\x01\x00\x00\x00\x65\x00\x00\x00x", 9, ERR_AGENT},	     /* half an ERR */
		{"\x08\x00\x00\x00\x67\x00\x00\x00xxxxxxxx", 16, ERR_AGENT}, /* EXITED */
		{"\x08\x00\x00", 3, ERR_GONE},				     /* hang-up */
		{"", 0, ERR_GONE},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct fake f = {.reply = (const uint8_t *)rows[i].raw, .len = rows[i].len};
		struct err err = {.code = ERR_NONE};

		fake_start(&f);
		assert_int_equal(agent_hello(f.at.path, clock_mono_ms() + 2000, &err), -1);
		assert_int_equal(err.code, rows[i].code);
		fake_end(&f);
	}
}

static void errors_keep_only_what_an_agent_may_say(void **state)
{
	static const struct {
		uint16_t code;
		const char *tag;
		enum err_code want;
		const char *want_tag;
	} rows[] = {
		{ERR_NOT_FOUND, "FILE_NOT_FOUND", ERR_NOT_FOUND, "FILE_NOT_FOUND"},
		{ERR_NOT_FOUND, "MADE_UP", ERR_NOT_FOUND, NULL},
		{ERR_UNAUTHORIZED, "", ERR_AGENT, NULL},
		{ERR_NONE, "", ERR_AGENT, NULL},
		{999, "", ERR_AGENT, NULL},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		uint8_t raw[256];
		struct wire_out o = wire_out_on(raw + WIRE_FRAME_HEAD, 200);
		struct fake f = {.reply = raw};
		struct err err = {.code = ERR_NONE};

		wire_put_u16(&o, rows[i].code);
		wire_put_u32(&o, 2);
		wire_put_str(&o, rows[i].tag);
		wire_put_str(&o, "text\x1b[31m\n");
		f.len = frame(raw, AGENT_ERR, &o);
		fake_start(&f);
		assert_int_equal(agent_hello(f.at.path, clock_mono_ms() + 2000, &err), -1);
		assert_int_equal(err.code, rows[i].want);
		assert_null(strchr(err.msg, '\x1b'));
		if (rows[i].want_tag)
			assert_string_equal(err.tag, rows[i].want_tag);
		else
			assert_null(err.tag);
		fake_end(&f);
	}
}

static void a_trickling_agent_costs_one_deadline(void **state)
{
	static const uint8_t raw[] = {100, 0, 0};
	struct fake f = {.reply = raw, .len = sizeof(raw), .hold_ms = 600};
	struct err err = {.code = ERR_NONE};
	int64_t began = clock_mono_ms();

	(void)state;
	fake_start(&f);
	assert_int_equal(agent_hello(f.at.path, clock_mono_ms() + 200, &err), -1);
	assert_int_equal(err.code, ERR_TIMEOUT);
	assert_true(clock_mono_ms() - began < 500);
	fake_end(&f);
}

static int entry_ignore(void *arg, const struct agent_info *i, struct err *err)
{
	(void)arg;
	(void)i;
	(void)err;
	return 0;
}

static void listings_that_lie_are_refused(void **state)
{
	static const struct {
		uint32_t n;
		const char *name;
	} rows[] = {{0, "a"}, {2, "a"}, {1000, "a"}, {1, ".."}, {1, "a/b"}, {1, ""}};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		uint8_t raw[256];
		struct wire_out o = wire_out_on(raw + WIRE_FRAME_HEAD, 200);
		struct fake f = {.reply = raw};
		struct err err = {.code = ERR_NONE};

		wire_put_u32(&o, rows[i].n);
		wire_put_str(&o, rows[i].name);
		wire_put_str(&o, "/p");
		wire_put_u8(&o, 'f');
		for (int k = 0; k < 7; k++)
			wire_put_u32(&o, 0);
		wire_put_str(&o, "");
		f.len = frame(raw, AGENT_ENTRIES, &o);
		fake_start(&f);
		assert_int_equal(
			agent_list(f.at.path, "", "/p", 1, 10, entry_ignore, NULL, NULL, &err), -1);
		assert_int_equal(err.code, ERR_AGENT);
		fake_end(&f);
	}
}

static void a_missing_agent_is_gone(void **state)
{
	struct err err;

	(void)state;
	assert_int_equal(agent_hello("/tmp/caisson-no-such.sock", clock_mono_ms() + 100, &err), -1);
	assert_int_equal(err.code, ERR_GONE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(descriptors_of_the_wrong_kind_are_refused_for_files),
		cmocka_unit_test(a_file_opened_otherwise_than_asked_is_refused),
		cmocka_unit_test(too_few_or_too_many_descriptors_are_refused),
		cmocka_unit_test(streams_of_the_wrong_kind_are_refused),
		cmocka_unit_test(malformed_replies_are_the_agents_fault),
		cmocka_unit_test(errors_keep_only_what_an_agent_may_say),
		cmocka_unit_test(a_trickling_agent_costs_one_deadline),
		cmocka_unit_test(listings_that_lie_are_refused),
		cmocka_unit_test(a_missing_agent_is_gone),
		cmocka_unit_test(lists_of_ports_that_lie_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
