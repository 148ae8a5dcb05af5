/*
 * test_core_process.c - ids of processes over stops and starts, over the fake runner.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <pthread.h>
#include <string.h>

#include "base/clock.h"
#include "core/proc.h"
#include "unit/corebox.h"

#define TASK_A "00000000-0000-4000-8000-00000000000a"
#define TASK_B "00000000-0000-4000-8000-00000000000b"

struct box {
	struct corebox c;
	char id[ID_LEN];
};

static int setup(void **state)
{
	struct box *b = calloc(1, sizeof(*b));

	corebox_init(&b->c);
	corebox_open(&b->c);
	corebox_create(&b->c, "box", b->id);
	*state = b;
	return 0;
}

static int teardown(void **state)
{
	struct box *b = *state;

	corebox_done(&b->c);
	free(b);
	return 0;
}

static int note(struct box *b, const char *id, const char *task, struct err *err)
{
	auto_row struct sandbox_row row = {0};
	struct process_row p = {.kind = PROCESS_CONTEXT, .created_ms = clock_wall_ms()};

	assert_int_equal(store_sandbox_get(b->c.core->st, NULL, b->id, &row, NULL), 1);
	snprintf(p.sandbox, sizeof(p.sandbox), "%s", b->id);
	snprintf(p.id, sizeof(p.id), "%s", id);
	snprintf(p.task, sizeof(p.task), "%s", task);
	p.start = row.starts;
	return process_put(b->c.core, &p, NULL, err);
}

/* 1 it belongs to the sandbox's current start, 0 unknown, -1 an earlier start's. */
static int check_kind(struct box *b, enum process_kind kind, const char *id, char task[ID_LEN],
		      struct err *err)
{
	auto_at struct process_at at = {0};
	struct err why = {0};

	if (process_find(b->c.core, &b->c.who, b->id, kind, id, &at, &why) == 0) {
		if (task)
			memcpy(task, at.p.task, ID_LEN);
		return 1;
	}
	if (err)
		*err = why;
	return why.code == ERR_NOT_FOUND || (why.tag && strcmp(why.tag, "SANDBOX_NOT_STARTED") == 0)
		       ? 0
		       : -1;
}

static int check(struct box *b, const char *id, char task[ID_LEN], struct err *err)
{
	return check_kind(b, PROCESS_CONTEXT, id, task, err);
}

static void stop(struct box *b)
{
	struct sandbox s;

	assert_int_equal(sandbox_stop(b->c.core, &b->c.who, b->id, true, -1, &s, NULL), 0);
	assert_int_equal(s.state, SB_STOPPED);
	sandbox_done(&s);
}

static void start(struct box *b)
{
	struct sandbox s;

	assert_int_equal(sandbox_start(b->c.core, &b->c.who, b->id, -1, &s, NULL), 0);
	assert_int_equal(s.state, SB_STARTED);
	sandbox_done(&s);
}

static void noted_id_is_found_with_its_task(void **state)
{
	struct box *b = *state;
	char task[ID_LEN];

	assert_int_equal(note(b, "c1", TASK_A, NULL), 0);
	assert_int_equal(check(b, "c1", task, NULL), 1);
	assert_string_equal(task, TASK_A);
	assert_int_equal(check(b, "c2", task, NULL), 0);
	assert_int_equal(check_kind(b, PROCESS_PTY, "c1", NULL, NULL), 0);
}

static void taken_id_is_a_conflict_until_forgotten(void **state)
{
	struct box *b = *state;
	struct err err = {0};

	assert_int_equal(note(b, "c1", TASK_A, NULL), 0);
	assert_int_equal(note(b, "c1", TASK_B, &err), -1);
	assert_int_equal(err.code, ERR_CONFLICT);
	/* Who forgets a task that is not the id's any more forgets nothing. */
	assert_int_equal(process_forget(b->c.core, b->id, PROCESS_CONTEXT, "c1", TASK_B, NULL), 0);
	assert_int_equal(check(b, "c1", NULL, NULL), 1);
	assert_int_equal(process_forget(b->c.core, b->id, PROCESS_CONTEXT, "c1", TASK_A, NULL), 0);
	assert_int_equal(note(b, "c1", TASK_B, NULL), 0);
}

static void a3_id_of_before_a_stop_is_gone_with_that_reason(void **state)
{
	struct box *b = *state;
	struct err err = {0};

	assert_int_equal(note(b, "c1", TASK_A, NULL), 0);
	stop(b);
	assert_int_equal(check(b, "c1", NULL, &err), -1);
	assert_int_equal(err.code, ERR_GONE);
	assert_non_null(strstr(err.msg, "stopped"));
	start(b);
	assert_int_equal(check(b, "c1", NULL, &err), -1);
	assert_int_equal(err.code, ERR_GONE);
	/* The name may be used again, and then it is a new thing. */
	assert_int_equal(note(b, "c1", TASK_B, NULL), 0);
	assert_int_equal(check(b, "c1", NULL, NULL), 1);
}

static void nothing_is_noted_in_a_sandbox_that_is_not_started(void **state)
{
	struct box *b = *state;
	struct err err = {0};

	stop(b);
	assert_int_equal(note(b, "c1", TASK_A, &err), -1);
	assert_int_equal(err.code, ERR_CONFLICT);
	assert_int_equal(check(b, "c1", NULL, NULL), 0);
}

static void ids_survive_a_restart_of_the_daemon(void **state)
{
	struct box *b = *state;

	assert_int_equal(note(b, "c1", TASK_A, NULL), 0);
	corebox_close(&b->c);
	corebox_open(&b->c);
	assert_int_equal(check(b, "c1", NULL, NULL), 1);
}

static void ids_go_with_their_sandbox(void **state)
{
	struct box *b = *state;
	struct process_row *list;
	struct sandbox s;
	size_t n;

	assert_int_equal(note(b, "c1", TASK_A, NULL), 0);
	assert_int_equal(sandbox_delete(b->c.core, &b->c.who, b->id, &s, NULL), 0);
	sandbox_done(&s);
	assert_true(corebox_wait_state(&b->c, b->id, SB_STATE_MAX, 5000));
	assert_int_equal(
		store_process_list(b->c.core->st, b->id, PROCESS_CONTEXT, 1, &list, &n, NULL), 0);
	assert_int_equal(n, 0);
	free(list);
}

static void key_is_known_with_its_exec_and_body(void **state)
{
	struct box *b = *state;
	const uint8_t one[32] = {1}, two[32] = {2};
	struct process_row p = {.kind = PROCESS_EXEC, .start = 1, .created_ms = clock_wall_ms()};
	struct exec_key_row k = {0};

	memcpy(p.sandbox, b->id, ID_LEN);
	memcpy(p.id, TASK_A, ID_LEN);
	memcpy(p.task, TASK_A, ID_LEN);
	assert_int_equal(store_exec_key_get(b->c.core->st, b->id, "k", one, &k, NULL), 0);
	assert_int_equal(store_exec_key(b->c.core->st, &p, "k", one, &k, NULL), 1);
	memcpy(p.id, TASK_B, ID_LEN);
	assert_int_equal(store_exec_key(b->c.core->st, &p, "k", one, &k, NULL), 2);
	assert_string_equal(k.exec_id, TASK_A);
	assert_true(k.same);
	assert_false(k.started);
	assert_int_equal(store_exec_key_started(b->c.core->st, b->id, "k", NULL), 0);
	assert_int_equal(store_exec_key(b->c.core->st, &p, "k", two, &k, NULL), 2);
	assert_false(k.same);
	assert_true(k.started);
	/* Another start: nothing goes in, not even the key. */
	p.start = 7;
	assert_int_equal(store_exec_key(b->c.core->st, &p, "l", one, &k, NULL), 0);
	assert_int_equal(store_exec_key_get(b->c.core->st, b->id, "l", one, &k, NULL), 0);
}

#define T(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(noted_id_is_found_with_its_task),
		T(taken_id_is_a_conflict_until_forgotten),
		T(a3_id_of_before_a_stop_is_gone_with_that_reason),
		T(nothing_is_noted_in_a_sandbox_that_is_not_started),
		T(ids_survive_a_restart_of_the_daemon),
		T(ids_go_with_their_sandbox),
		T(key_is_known_with_its_exec_and_body),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
