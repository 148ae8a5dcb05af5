/*
 * The wire format: what is written is read back, and no bytes can make the reader leave them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/scope.h"
#include "wire/agent_msg.h"
#include "wire/task_msg.h"
#include "wire/wire.h"

static void numbers_and_strings_come_back(void **state)
{
	uint8_t raw[256];
	struct wire_out o = wire_out_on(raw, sizeof(raw));
	struct wire_in in;
	char text[16];

	(void)state;
	wire_put_u8(&o, 0xfe);
	wire_put_u16(&o, 0xfedc);
	wire_put_u32(&o, 0xfedcba98);
	wire_put_u64(&o, 0xfedcba9876543210);
	wire_put_i64(&o, INT64_MIN);
	wire_put_str(&o, "text");
	wire_put_str(&o, NULL);
	assert_false(o.overflow);
	in = wire_in_on(raw, o.len);
	assert_int_equal(wire_get_u8(&in), 0xfe);
	assert_int_equal(wire_get_u16(&in), 0xfedc);
	assert_int_equal(wire_get_u32(&in), 0xfedcba98);
	assert_true(wire_get_u64(&in) == 0xfedcba9876543210);
	assert_true(wire_get_i64(&in) == INT64_MIN);
	wire_get_str(&in, text, sizeof(text));
	assert_string_equal(text, "text");
	wire_get_str(&in, text, sizeof(text));
	assert_string_equal(text, "");
	assert_true(wire_in_end(&in));
}

static void bytes_are_little_endian_without_padding(void **state)
{
	static const uint8_t want[] = {0x01, 0x03, 0x02, 0x02, 0, 0, 0, 'o', 'k'};
	uint8_t raw[16];
	struct wire_out o = wire_out_on(raw, sizeof(raw));

	(void)state;
	wire_put_u8(&o, 1);
	wire_put_u16(&o, 0x0203);
	wire_put_str(&o, "ok");
	assert_int_equal(o.len, sizeof(want));
	assert_memory_equal(raw, want, sizeof(want));
}

static void what_does_not_fit_is_an_overflow_and_stays_out(void **state)
{
	uint8_t raw[5] = {0};
	struct wire_out o = wire_out_on(raw, 4);

	(void)state;
	wire_put_u16(&o, 1);
	wire_put_u32(&o, 0xffffffff);
	assert_true(o.overflow);
	assert_int_equal(o.len, 2);
	assert_int_equal(raw[4], 0);
	wire_put_u8(&o, 1);
	assert_int_equal(o.len, 2);
}

static void a_fault_sticks(void **state)
{
	static const uint8_t raw[] = {1, 2, 3};
	struct wire_in in = wire_in_on(raw, sizeof(raw));

	(void)state;
	assert_int_equal(wire_get_u32(&in), 0);
	assert_true(in.bad);
	assert_int_equal(wire_get_u8(&in), 0);
	assert_false(wire_in_end(&in));
}

static void left_over_bytes_are_seen(void **state)
{
	static const uint8_t raw[] = {1, 2};
	struct wire_in in = wire_in_on(raw, sizeof(raw));

	(void)state;
	wire_get_u8(&in);
	assert_false(wire_in_end(&in));
}

static void bad_strings_are_refused(void **state)
{
	static const struct {
		const char *raw;
		size_t len;
	} rows[] = {
		{"\x05\0\0\0abcd", 8}, /* longer than the message */
		{"\xff\xff\xff\xff"
		 "abcd",
		 8},			    /* length of all ones */
		{"\x03\0\0\0a\0b", 7},	    /* NUL inside */
		{"\x08\0\0\0abcdefgh", 12}, /* no room for its NUL */
		{"\x01\0\0", 3},	    /* half a length */
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct wire_in in = wire_in_on(rows[i].raw, rows[i].len);
		char text[8] = "unset";

		wire_get_str(&in, text, sizeof(text));
		assert_true(in.bad);
		assert_string_equal(text, "");
	}
}

static void a_count_can_not_lie(void **state)
{
	static const uint8_t raw[] = {3, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8};
	struct wire_in in = wire_in_on(raw, sizeof(raw));

	(void)state;
	assert_int_equal(wire_get_count(&in, 100, 4), 0); /* 3 items of 4 bytes in 8 bytes */
	assert_true(in.bad);
	in = wire_in_on(raw, sizeof(raw));
	assert_int_equal(wire_get_count(&in, 2, 1), 0);
	assert_true(in.bad);
	in = wire_in_on(raw, sizeof(raw));
	assert_int_equal(wire_get_count(&in, 100, 1), 3);
}

static void string_lists_come_back(void **state)
{
	static const char *const v[] = {"a", "", "long text"};
	uint8_t raw[64];
	struct wire_out o = wire_out_on(raw, sizeof(raw));
	struct wire_in in;
	char **got;
	size_t n;

	(void)state;
	wire_put_strv(&o, v, 3);
	in = wire_in_on(raw, o.len);
	got = wire_get_strv(&in, 10, &n);
	assert_non_null(got);
	assert_int_equal(n, 3);
	assert_string_equal(got[2], "long text");
	assert_null(got[3]);
	assert_true(wire_in_end(&in));
	free(got);
	in = wire_in_on(raw, o.len);
	assert_null(wire_get_strv(&in, 2, &n));
}

static void a_bool_is_0_or_1(void **state)
{
	static const uint8_t raw[] = {0, 1, 2};
	struct wire_in in = wire_in_on(raw, sizeof(raw));

	(void)state;
	assert_false(wire_get_bool(&in));
	assert_true(wire_get_bool(&in));
	wire_get_bool(&in);
	assert_true(in.bad);
}

static void frames_over_the_ceiling_are_refused(void **state)
{
	struct wire_frame f = {.len = 1000, .type = 7, .flags = 3}, got;
	uint8_t head[WIRE_FRAME_HEAD];

	(void)state;
	wire_frame_put(head, &f);
	assert_int_equal(wire_frame_get(head, 1000, &got), 0);
	assert_int_equal(got.len, 1000);
	assert_int_equal(got.type, 7);
	assert_int_equal(got.flags, 3);
	assert_int_equal(wire_frame_get(head, 999, &got), -1);
}

/* ---- requests of the agent ---- */

static const uint16_t verbs[] = {
	AGENT_HELLO,	   AGENT_SPAWN,	     AGENT_SIGNAL,	AGENT_RESIZE,	   AGENT_KILL,
	AGENT_STAT,	   AGENT_LIST,	     AGENT_OPEN,	AGENT_MKDIR,	   AGENT_RENAME,
	AGENT_REMOVE,	   AGENT_SETATTR,    AGENT_USER,	AGENT_STATFS,	   AGENT_TERM,
	AGENT_FIND,	   AGENT_SEARCH,     AGENT_PUT,		AGENT_COMMIT,	   AGENT_WATCH,
	AGENT_LINK,	   AGENT_TASK_START, AGENT_TASK_EXEC,	AGENT_TASK_GET,	   AGENT_TASK_LIST,
	AGENT_TASK_READ,   AGENT_TASK_WRITE, AGENT_TASK_SIGNAL, AGENT_TASK_RESIZE, AGENT_TASK_KILL,
	AGENT_TASK_REMOVE, AGENT_TASK_ATTACH};

static struct agent_req sample(uint16_t verb)
{
	static const char *const argv[] = {"sh", "-c", ""};
	static const char *const env[] = {"A=b"};

	return (struct agent_req){.verb = verb,
				  .user = "dev:sudo",
				  .path = "/p",
				  .to = "/to",
				  .owner = "o",
				  .group = "g",
				  .cwd = "/",
				  .pattern = "*.c",
				  .mtime_ns = 1ull << 60,
				  .has_mtime = true,
				  .id = "id",
				  .parent = "session",
				  .label = "{}",
				  .text = "echo \"'",
				  .kind = TASK_PTY,
				  .tflags = TASK_STDIN,
				  .streams = 6,
				  .timeout_ms = 1ull << 40,
				  .out_from = 7,
				  .err_from = UINT64_MAX,
				  .eof = true,
				  .data = {(const uint8_t *)"a\0b", 3},
				  .hard = true,
				  .argv = {argv, 3},
				  .env = {env, 1},
				  .flags = 5,
				  .mode = 0644,
				  .depth = 2,
				  .max = 100,
				  .sig = 9,
				  .grace_ms = 10,
				  .cols = 80,
				  .rows = 24,
				  .follow = true,
				  .recursive = true,
				  .has_mode = true,
				  .tree = true,
				  .parents = true};
}

static size_t sample_put(uint16_t verb, uint8_t *raw, size_t cap)
{
	struct wire_out o = wire_out_on(raw, cap);
	struct agent_req r = sample(verb);

	agent_req_put(&o, &r);
	assert_false(o.overflow);
	return o.len;
}

static void every_verb_comes_back(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(verbs); i++) {
		uint8_t raw[512], again[512];
		size_t n = sample_put(verbs[i], raw, sizeof(raw));
		struct wire_out o = wire_out_on(again, sizeof(again));
		struct agent_req r;

		assert_true(agent_verb_known(verbs[i]));
		assert_string_not_equal(agent_verb_name(verbs[i]), "");
		assert_int_equal(agent_req_get(verbs[i], raw, n, &r), 0);
		agent_req_put(&o, &r);
		assert_int_equal(sample_put(verbs[i], raw, sizeof(raw)), o.len);
		assert_memory_equal(raw, again, o.len);
		agent_req_done(&r);
	}
}

static void spawn_fields_are_where_they_belong(void **state)
{
	uint8_t raw[512];
	size_t n = sample_put(AGENT_SPAWN, raw, sizeof(raw));
	struct agent_req r;

	(void)state;
	assert_int_equal(agent_req_get(AGENT_SPAWN, raw, n, &r), 0);
	assert_int_equal(r.argv.n, 3);
	assert_string_equal(r.argv.v[1], "-c");
	assert_string_equal(r.argv.v[2], "");
	assert_null(r.argv.v[3]);
	assert_string_equal(r.env.v[0], "A=b");
	assert_string_equal(r.cwd, "/");
	assert_string_equal(r.user, "dev:sudo");
	assert_int_equal(r.cols, 80);
	assert_int_equal(r.rows, 24);
	agent_req_done(&r);
}

static void the_bytes_of_a_write_may_be_any(void **state)
{
	uint8_t raw[512];
	size_t n = sample_put(AGENT_TASK_WRITE, raw, sizeof(raw));
	struct agent_req r;

	(void)state;
	assert_int_equal(agent_req_get(AGENT_TASK_WRITE, raw, n, &r), 0);
	assert_int_equal(r.data.n, 3);
	assert_memory_equal(r.data.p, "a\0b", 3);
	assert_true(r.eof);
	agent_req_done(&r);
}

static const struct task_rec rec_sample = {.id = "id",
					   .parent = "p",
					   .label = "l",
					   .cwd = "/",
					   .kind = TASK_COMMAND,
					   .state = TASK_ENDED,
					   .how = AGENT_EXIT_SIGNAL,
					   .cause = TASK_LOST,
					   .code = 9,
					   .pid = 3,
					   .uid = 1,
					   .gid = 2,
					   .cols = 80,
					   .rows = 24,
					   .created_ms = 5,
					   .started_ms = 6,
					   .ended_ms = 7,
					   .out_first = 1ull << 40,
					   .out_total = 1ull << 41,
					   .err_first = 8,
					   .err_total = 9,
					   .user_us = 10,
					   .sys_us = 11,
					   .maxrss_kib = 12};

static void a_task_comes_back(void **state)
{
	uint8_t raw[512], again[512];
	struct wire_out o = wire_out_on(raw, sizeof(raw)), p = wire_out_on(again, sizeof(again));
	struct task_rec got;
	struct wire_in in;

	(void)state;
	task_rec_put(&o, &rec_sample);
	assert_false(o.overflow);
	assert_int_equal(o.len, task_rec_size(&rec_sample));
	in = wire_in_on(raw, o.len);
	task_rec_get(&in, &got);
	assert_true(wire_in_end(&in));
	assert_string_equal(got.label, "l");
	assert_int_equal(got.out_total, 1ull << 41);
	assert_int_equal(got.state, TASK_ENDED);
	task_rec_put(&p, &got);
	task_rec_put(&o, &rec_sample);
	o.len /= 2;
	assert_int_equal(p.len, o.len);
	assert_memory_equal(again, raw + o.len, o.len);
}

static void a_task_of_impossible_values_is_refused(void **state)
{
	static char long_id[TASK_ID_MAX + 2];
	struct task_rec bad[8];
	uint8_t raw[1024];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		bad[i] = rec_sample;
	bad[0].kind = 0;
	bad[1].kind = TASK_INTERPRETER + 1;
	bad[2].state = TASK_ENDED + 1;
	bad[3].cause = TASK_LOST + 1;
	bad[4].out_first = bad[4].out_total + 1;
	bad[5].err_first = bad[5].err_total + 1;
	bad[6].code = 256;
	memset(long_id, 'i', TASK_ID_MAX + 1);
	bad[7].id = long_id;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct wire_out o = wire_out_on(raw, sizeof(raw));
		struct task_rec got;
		struct wire_in in;

		task_rec_put(&o, &bad[i]);
		in = wire_in_on(raw, o.len);
		task_rec_get(&in, &got);
		assert_true(in.bad);
	}
}

static void requests_cut_or_padded_are_refused(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(verbs); i++) {
		uint8_t raw[513];
		size_t n = sample_put(verbs[i], raw, 512);
		struct agent_req r;

		for (size_t cut = 0; cut < n; cut++) {
			sample_put(verbs[i], raw, 512);
			assert_int_equal(agent_req_get(verbs[i], raw, cut, &r), -1);
		}
		sample_put(verbs[i], raw, 512);
		raw[n] = 0;
		assert_int_equal(agent_req_get(verbs[i], raw, n + 1, &r), -1);
	}
}

static void unknown_verbs_are_refused(void **state)
{
	static const uint16_t odd[] = {0, 7, 9, 39, 51, AGENT_OK, AGENT_ERR, 65535};
	uint8_t raw[1];
	struct agent_req r;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(odd); i++) {
		assert_false(agent_verb_known(odd[i]));
		assert_int_equal(agent_req_get(odd[i], raw, 0, &r), -1);
	}
}

static void a_user_over_its_ceiling_is_refused(void **state)
{
	char user[AGENT_USER_MAX + 1];
	uint8_t raw[512];
	struct wire_out o = wire_out_on(raw, sizeof(raw));
	struct agent_req r = {.verb = AGENT_USER, .user = user};

	(void)state;
	memset(user, 'u', AGENT_USER_MAX);
	user[AGENT_USER_MAX] = '\0';
	agent_req_put(&o, &r);
	assert_int_equal(agent_req_get(AGENT_USER, raw, o.len, &r), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers_and_strings_come_back),
		cmocka_unit_test(bytes_are_little_endian_without_padding),
		cmocka_unit_test(what_does_not_fit_is_an_overflow_and_stays_out),
		cmocka_unit_test(a_fault_sticks),
		cmocka_unit_test(left_over_bytes_are_seen),
		cmocka_unit_test(bad_strings_are_refused),
		cmocka_unit_test(a_count_can_not_lie),
		cmocka_unit_test(string_lists_come_back),
		cmocka_unit_test(a_bool_is_0_or_1),
		cmocka_unit_test(frames_over_the_ceiling_are_refused),
		cmocka_unit_test(every_verb_comes_back),
		cmocka_unit_test(spawn_fields_are_where_they_belong),
		cmocka_unit_test(requests_cut_or_padded_are_refused),
		cmocka_unit_test(unknown_verbs_are_refused),
		cmocka_unit_test(the_bytes_of_a_write_may_be_any),
		cmocka_unit_test(a_task_comes_back),
		cmocka_unit_test(a_task_of_impossible_values_is_refused),
		cmocka_unit_test(a_user_over_its_ceiling_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
