/*
 * test_core_task.c - sessions, terminals and detached execs through the core, with a real
 * caisson-init (root only).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "caisson/process.h"
#include "unit/agentbox.h"
#include "unit/corebox.h"

#define WAIT_MS 10000
#define DAY_MS	(24ll * 3600 * 1000)

struct box {
	struct corebox c;
	struct agentbox a;
	char id[ID_LEN];
};

static int setup(void **state)
{
	struct box *b = calloc(1, sizeof(*b));
	struct sandbox_spec spec = corebox_spec("box");
	struct sandbox s;

	*state = NULL;
	if (!agentbox_possible()) {
		free(b);
		print_message("skipped: needs root, busybox and build/caisson-init\n");
		return 0;
	}
	corebox_init(&b->c);
	assert_int_equal(agentbox_start(&b->a, 0), 0);
	fake_agent_one(b->c.fake, b->a.sock);
	corebox_open(&b->c);
	spec.user = "dev";
	spec.auto_stop_min = 1;
	assert_int_equal(sandbox_create(b->c.core, &b->c.who, &spec, -1, &s, NULL), 0);
	memcpy(b->id, s.id, ID_LEN);
	sandbox_done(&s);
	*state = b;
	return 0;
}

static int teardown(void **state)
{
	struct box *b = *state;

	if (!b)
		return 0;
	corebox_done(&b->c);
	agentbox_stop(&b->a);
	free(b);
	return 0;
}

static struct box *box_of(void **state)
{
	if (!*state)
		skip();
	return *state;
}

static int session(struct box *b, const char *id, struct err *err)
{
	return session_create(b->c.core, &b->c.who, b->id, id, err);
}

/* Run text to its end; its output as text. */
static void run(struct box *b, const char *id, const char *text, struct buf *out,
		struct task_info *end)
{
	const struct session_exec x = {.text = text};
	struct process_log *l = session_run(b->c.core, &b->c.who, b->id, id, &x, NULL);
	struct task_chunk c;
	int got;

	assert_non_null(l);
	while ((got = process_log_next(l, &c, end, -1, clock_mono_ms() + WAIT_MS, NULL)) ==
	       TASK_READ_DATA)
		buf_add(out, c.p, (size_t)c.n, NULL);
	assert_int_equal(got, TASK_READ_END);
	process_log_close(l);
}

static void session_runs_as_the_user_with_the_sandboxs_environment(void **state)
{
	auto_buf struct buf out = BUF_INIT(1 << 20);
	auto_task struct task_info end = {0};
	struct box *b = box_of(state);

	assert_int_equal(session(b, "s", NULL), 0);
	run(b, "s", "id -un; echo $DAYTONA_SANDBOX_ID; exit 5", &out, &end);
	assert_non_null(strstr(buf_str(&out), "dev\n"));
	assert_non_null(strstr(buf_str(&out), b->id));
	assert_int_equal(end.code, 5);
	assert_string_equal(end.label, "id -un; echo $DAYTONA_SANDBOX_ID; exit 5");
}

static void session_is_made_once_and_ended_ones_until_deleted(void **state)
{
	auto_buf struct buf out = BUF_INIT(1 << 20);
	auto_task struct task_info end = {0};
	struct err err = {0};
	struct box *b = box_of(state);

	assert_int_equal(session(b, "s", NULL), 0);
	assert_int_equal(session(b, "s", &err), -1);
	assert_int_equal(err.code, ERR_CONFLICT);
	run(b, "s", "exit 0", &out, &end);
	assert_int_equal(session(b, "s", &err), -1);
	assert_int_equal(session_delete(b->c.core, &b->c.who, b->id, "s", NULL), 0);
	assert_int_equal(session(b, "s", NULL), 0);
}

static void session_of_a_foreign_organization_is_not_found(void **state)
{
	struct session_view *v = NULL;
	struct err err = {0};
	struct caller other;
	size_t n;
	struct box *b = box_of(state);

	other = b->c.who;
	snprintf(other.org_id, sizeof(other.org_id), "other");
	assert_int_equal(session(b, "s", NULL), 0);
	assert_int_equal(session_list(b->c.core, &other, b->id, "s", &v, &n, &err), -1);
	assert_int_equal(err.code, ERR_NOT_FOUND);
}

/* A day of silence later. */
static enum sandbox_state idle(struct box *b)
{
	core_tick(b->c.core, clock_wall_ms() + DAY_MS);
	corebox_wait_state(&b->c, b->id, SB_STOPPED, 300);
	return corebox_state(&b->c, b->id);
}

static void e11_attached_client_is_activity_and_a_terminal_alone_is_not(void **state)
{
	const struct pty_spec spec = {.id = "t", .cols = 80, .rows = 24};
	struct process_log *l;
	struct box *b = box_of(state);

	assert_int_equal(pty_create(b->c.core, &b->c.who, b->id, &spec, NULL), 0);
	l = pty_attach(b->c.core, &b->c.who, b->id, "t", 0, NULL);
	assert_non_null(l);
	assert_int_equal(idle(b), SB_STARTED);
	process_log_close(l);
	assert_int_equal(idle(b), SB_STOPPED);
}

static void terminal_of_a_deleted_name_is_free(void **state)
{
	const struct pty_spec spec = {.id = "t", .cols = 80, .rows = 24};
	auto_pty struct pty_info p = {0};
	struct err err = {0};
	struct box *b = box_of(state);

	for (int i = 0; i < 3; i++) {
		assert_int_equal(pty_create(b->c.core, &b->c.who, b->id, &spec, NULL), 0);
		assert_int_equal(pty_create(b->c.core, &b->c.who, b->id, &spec, &err), -1);
		assert_int_equal(err.code, ERR_CONFLICT);
		assert_int_equal(pty_kill(b->c.core, &b->c.who, b->id, "t", NULL), 0);
		assert_int_equal(pty_get(b->c.core, &b->c.who, b->id, "t", &p, &err), -1);
		assert_int_equal(err.code, ERR_NOT_FOUND);
	}
}

static int detach(struct box *b, const char *text, const char *key, uint8_t digest,
		  struct exec_detached *ret, struct err *err)
{
	const char *const argv[] = {text, NULL};
	const struct exec_spec spec = {.sandbox = b->id, .shell = true, .argv = argv};
	const struct exec_key k = {.key = key, .digest = {digest}};

	return exec_detach(b->c.core, &b->c.who, &spec, false, &k, ret, err);
}

static void key_runs_once_and_says_lost_after_a_stop(void **state)
{
	auto_detached struct exec_detached one = {0}, two = {0}, three = {0};
	struct err err = {0};
	struct sandbox s;
	struct box *b = box_of(state);

	assert_int_equal(detach(b, "sleep 100", "k", 1, &one, NULL), 0);
	assert_false(one.existed);
	assert_int_equal(detach(b, "sleep 100", "k", 1, &two, NULL), 0);
	assert_true(two.existed);
	assert_string_equal(one.id, two.id);
	assert_int_equal(detach(b, "sleep 100", "k", 2, &three, &err), -1);
	assert_int_equal(err.code, ERR_CONFLICT);
	assert_int_equal(sandbox_stop(b->c.core, &b->c.who, b->id, true, -1, &s, NULL), 0);
	sandbox_done(&s);
	assert_int_equal(detach(b, "sleep 100", "k", 1, &three, NULL), 0);
	assert_true(three.lost);
	assert_string_equal(three.id, one.id);
}

static void key_needs_a_length(void **state)
{
	auto_detached struct exec_detached d = {0};
	struct err err = {0};
	char text[300];
	struct box *b = box_of(state);

	memset(text, 'k', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	assert_int_equal(detach(b, "true", text, 1, &d, &err), -1);
	assert_int_equal(err.code, ERR_INVALID);
	assert_int_equal(detach(b, "true", "", 1, &d, &err), -1);
	assert_int_equal(err.code, ERR_INVALID);
}

#define T(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(session_runs_as_the_user_with_the_sandboxs_environment),
		T(session_is_made_once_and_ended_ones_until_deleted),
		T(session_of_a_foreign_organization_is_not_found),
		T(e11_attached_client_is_activity_and_a_terminal_alone_is_not),
		T(terminal_of_a_deleted_name_is_free),
		T(key_runs_once_and_says_lost_after_a_stop),
		T(key_needs_a_length),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
