/*
 * What an agent may answer about files being put, found and watched, and what it gets for a lie.
 */
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/call.h"
#include "base/clock.h"
#include "unit/fakeagent.h"

#define WAIT_MS	    5000
#define ANSWERS_MAX 4

enum passes { PASS_NONE, PASS_FILE, PASS_READ_ONLY, PASS_WRITE_ONLY, PASS_PIPE, PASS_TWO };

/* What is said to one request; fresh: on a new connection. */
struct answer {
	uint16_t type;
	enum passes pass;
	bool fresh;
	uint8_t raw[256];
	size_t len;
};

/* The thread's until fake_end. */
struct fake {
	struct fakeagent at;
	struct answer answer[ANSWERS_MAX];
	size_t n;
};

static size_t passed_make(enum passes pass, int fds[2])
{
	char name[] = "/tmp/caisson-lie-XXXXXX";
	int ends[2];

	if (pass == PASS_NONE)
		return 0;
	if (pass == PASS_PIPE) {
		assert_int_equal(pipe(ends), 0);
		close(ends[1]);
		fds[0] = ends[0];
		return 1;
	}
	fds[0] = mkstemp(name);
	fds[1] = open(name, pass == PASS_READ_ONLY    ? O_RDONLY
			    : pass == PASS_WRITE_ONLY ? O_WRONLY
						      : O_RDWR);
	unlink(name);
	if (pass == PASS_TWO)
		return 2;
	close(fds[0]);
	fds[0] = fds[1];
	return 1;
}

static void answer_send(int conn, const struct answer *a)
{
	struct wire_frame f = {.len = (uint32_t)a->len, .type = a->type};
	uint8_t frame[WIRE_FRAME_HEAD + sizeof(a->raw)];
	int fds[2];
	size_t n = passed_make(a->pass, fds);

	wire_frame_put(frame, &f);
	memcpy(frame + WIRE_FRAME_HEAD, a->raw, a->len);
	fd_send(conn, frame, WIRE_FRAME_HEAD + a->len, fds, n, 0, NULL);
	fd_close_all(fds, n);
}

static void *fake_main(void *arg)
{
	struct fake *f = arg;
	char drop[4096];
	int conn = -1;

	for (size_t i = 0; i < f->n; i++) {
		if (f->answer[i].fresh) {
			if (conn >= 0)
				close(conn);
			conn = accept(f->at.listener, NULL, NULL);
		}
		(void)!read(conn, drop, sizeof(drop));
		answer_send(conn, &f->answer[i]);
	}
	close(conn);
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

static struct answer *say(struct fake *f, bool fresh, uint16_t type, enum passes pass,
			  struct wire_out *o)
{
	struct answer *a = &f->answer[f->n++];

	a->type = type;
	a->pass = pass;
	a->fresh = fresh;
	*o = wire_out_on(a->raw, sizeof(a->raw));
	return a;
}

static void put_with_wrong_descriptors_is_refused(void **state)
{
	static const enum passes wrong[] = {PASS_NONE, PASS_READ_ONLY, PASS_WRITE_ONLY, PASS_PIPE,
					    PASS_TWO};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
		struct fake f = {.n = 0};
		struct agent_put p = AGENT_PUT_INIT;
		struct err err = {.code = ERR_NONE};
		struct wire_out o;
		struct answer *a = say(&f, true, AGENT_OK, wrong[i], &o);

		wire_put_u8(&o, 1);
		a->len = o.len;
		fake_start(&f);
		assert_int_equal(agent_put(f.at.path, "", "/f", 0, 0644, &p, &err), -1);
		assert_int_equal(err.code, ERR_AGENT);
		fake_end(&f);
	}
}

static void a_commit_that_says_nonsense_has_failed(void **state)
{
	static const uint8_t bad[][10] = {{2}, {1, 0, 0}, {1, 0, 0, 0, 0, 0, 0, 0, 0, 9}};
	static const size_t len[] = {9, 3, 10};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(len); i++) {
		struct fake f = {.n = 0};
		struct agent_put p = AGENT_PUT_INIT;
		struct err err = {.code = ERR_NONE};
		struct wire_out o;
		struct answer *a = say(&f, true, AGENT_OK, PASS_FILE, &o);

		wire_put_u8(&o, 0);
		a->len = o.len;
		a = say(&f, false, AGENT_OK, PASS_NONE, &o);
		memcpy(a->raw, bad[i], len[i]);
		a->len = len[i];
		fake_start(&f);
		assert_int_equal(agent_put(f.at.path, "", "/f", 0, 0644, &p, &err), 0);
		assert_int_equal(agent_put_commit(&p, NULL, NULL, &err), -1);
		assert_int_equal(err.code, ERR_AGENT);
		assert_int_equal(p.fd, -1);
		assert_int_equal(p.conn, -1);
		fake_end(&f);
	}
}

/* Sandboxes outlive daemons: one that was started by an older one takes uploads as it used to. */
static void an_agent_that_knows_no_put_gets_an_open(void **state)
{
	struct fake f = {.n = 0};
	struct agent_put p = AGENT_PUT_INIT;
	struct err err = {.msg = ""};
	struct wire_out o;
	struct answer *a;
	bool atomic = true;

	(void)state;
	a = say(&f, true, AGENT_ERR, PASS_NONE, &o);
	wire_put_u16(&o, ERR_INVALID);
	wire_put_u32(&o, 0);
	wire_put_str(&o, "");
	wire_put_str(&o, "agent request 22: malformed");
	a->len = o.len;
	a = say(&f, true, AGENT_OK, PASS_WRITE_ONLY, &o);
	wire_put_str(&o, "f");
	wire_put_str(&o, "/f");
	wire_put_u8(&o, 'f');
	wire_put_u32(&o, 0644);
	wire_put_u32(&o, 0);
	wire_put_u32(&o, 0);
	wire_put_u64(&o, 0);
	wire_put_i64(&o, 0);
	wire_put_str(&o, "");
	a->len = o.len;
	fake_start(&f);
	assert_int_equal(agent_put(f.at.path, "", "/f", 0, 0644, &p, &err), 0);
	assert_int_equal(write(p.fd, "x", 1), 1);
	assert_int_equal(agent_put_commit(&p, NULL, &atomic, &err), 0);
	assert_false(atomic);
	fake_end(&f);
}

static int match_any(void *arg, const struct agent_match *m, struct err *err)
{
	(void)m;
	(void)err;
	++*(int *)arg;
	return 0;
}

static void finds_that_lie_are_refused(void **state)
{
	static const struct {
		uint32_t n, have;
		uint16_t type;
	} rows[] = {{0, 0, AGENT_MATCHES},  {2, 1, AGENT_MATCHES}, {1, 2, AGENT_MATCHES},
		    {99, 1, AGENT_MATCHES}, {1, 1, AGENT_NAMES},   {1, 1, AGENT_OK}};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct fake f = {.n = 0};
		struct err err = {.code = ERR_NONE};
		struct wire_out o;
		struct answer *a = say(&f, true, rows[i].type, PASS_NONE, &o);
		int seen = 0;

		wire_put_u32(&o, rows[i].n);
		for (uint32_t k = 0; k < rows[i].have; k++) {
			wire_put_str(&o, "/f");
			wire_put_u32(&o, 1);
			wire_put_u8(&o, 0);
			wire_put_str(&o, "text");
		}
		a->len = o.len;
		fake_start(&f);
		assert_int_equal(
			agent_find(f.at.path, "", "/", "t", 10, -1, match_any, &seen, NULL, &err),
			-1);
		assert_int_equal(err.code, ERR_AGENT);
		fake_end(&f);
	}
}

static int event_any(void *arg, const struct agent_event *e, struct err *err)
{
	(void)arg;
	(void)e;
	(void)err;
	return 0;
}

static void events_of_no_kind_are_refused(void **state)
{
	(void)state;
	for (int kind = 0; kind < 9; kind += 8) {
		struct fake f = {.n = 0};
		struct err err = {.code = ERR_NONE};
		struct wire_out o;
		struct answer *a = say(&f, true, AGENT_OK, PASS_NONE, &o);
		bool over = false;
		int watch;

		f.n++;
		a = &f.answer[1];
		*a = (struct answer){.type = AGENT_EVENTS};
		o = wire_out_on(a->raw, sizeof(a->raw));
		wire_put_u32(&o, 1);
		wire_put_u8(&o, (uint8_t)kind);
		wire_put_u8(&o, 'f');
		wire_put_str(&o, "/f");
		wire_put_str(&o, "");
		a->len = o.len;
		fake_start(&f);
		watch = agent_watch(f.at.path, "", "/", false, &err);
		assert_true(watch >= 0);
		/* The fake reads before it speaks. */
		assert_int_equal(send(watch, "x", 1, MSG_NOSIGNAL), 1);
		assert_int_equal(agent_watch_next(watch, -1, clock_mono_ms() + WAIT_MS, event_any,
						  NULL, &over, &err),
				 -1);
		assert_int_equal(err.code, ERR_AGENT);
		close(watch);
		fake_end(&f);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(put_with_wrong_descriptors_is_refused),
		cmocka_unit_test(a_commit_that_says_nonsense_has_failed),
		cmocka_unit_test(an_agent_that_knows_no_put_gets_an_open),
		cmocka_unit_test(finds_that_lie_are_refused),
		cmocka_unit_test(events_of_no_kind_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
