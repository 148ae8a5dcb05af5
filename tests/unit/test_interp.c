/*
 * test_interp.c - the interpreter without a sandbox: frames of the runner, attaching over pipes to
 * one that is played here, and turns.
 */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "core/interp_link.h"

/* ---- frames ---- */

static void frames_are_taken_whole_or_not_at_all(void **state)
{
	static const char text[] = "o5\nhelloe0\nd11\nn completed";
	struct interp_frame f;
	size_t used;

	(void)state;
	for (size_t n = 0; n < 8; n++)
		assert_int_equal(interp_frame_get(text, n, &f, &used), 0);
	assert_int_equal(interp_frame_get(text, sizeof(text) - 1, &f, &used), 1);
	assert_int_equal(used, 8);
	assert_int_equal(f.kind, FRAME_OUT);
	assert_memory_equal(f.p, "hello", 5);
	assert_int_equal(interp_frame_get(text + 8, sizeof(text) - 9, &f, &used), 1);
	assert_true(f.kind == FRAME_ERR && f.n == 0 && used == 3);
}

static void what_is_no_frame_is_refused(void **state)
{
	static const char *const bad[] = {"q1\nx", "o\n",	   "o-1\n", "o 1\n",
					  "o1x\n", "o999999999\n", "o+1\n", "o1234567890123",
					  "\n",	   "1\n"};
	struct interp_frame f;
	size_t used;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_int_equal(interp_frame_get(bad[i], strlen(bad[i]), &f, &used), -1);
}

static struct interp_frame frame_of(int kind, const char *p, size_t n)
{
	return (struct interp_frame){.kind = (enum interp_frame_kind)kind, .p = p, .n = n};
}

static void payloads_are_read_strictly(void **state)
{
	struct interp_frame f = frame_of('x', "A\0b\0c d", 7);
	struct interp_text t[3];
	enum interp_status s;
	bool a, b;
	unsigned code;
	uint64_t n;
	int stream;

	(void)state;
	assert_true(interp_error_get(&f, t) && t[2].n == 3 && memcmp(t[2].p, "c d", 3) == 0);
	f = frame_of('x', "A\0b", 3);
	assert_false(interp_error_get(&f, t));
	f = frame_of('x', "A\0b\0c\0d", 7);
	assert_false(interp_error_get(&f, t));
	f = frame_of('d', "n timeout", 9);
	assert_true(interp_done_get(&f, "n", &s) && s == STATUS_TIMEOUT);
	assert_false(interp_done_get(&f, "m", &s));
	f = frame_of('d', "n timeout x", 11);
	assert_false(interp_done_get(&f, "n", &s));
	f = frame_of('a', "n busy", 6);
	assert_true(interp_attached_get(&f, "n", &a) && a);
	f = frame_of('g', "e 77", 4);
	assert_true(interp_lost_get(&f, &stream, &n) && stream == 2 && n == 77);
	f = frame_of('z', "timeout signal 9", 16);
	assert_true(interp_dead_get(&f, &a, &b, &code) && a && b && code == 9);
	f = frame_of('z', "exit 3", 6);
	assert_true(interp_dead_get(&f, &a, &b, &code) && !a && !b && code == 3);
	f = frame_of('z', "exit 300", 8);
	assert_false(interp_dead_get(&f, &a, &b, &code));
	f = frame_of('z', "", 0);
	assert_false(interp_dead_get(&f, &a, &b, &code));
}

static void a_mark_is_found_where_it_is_whole(void **state)
{
	static const char text[] = "xx\0caisson-interpreter n1\nrest";
	size_t keep, whole = sizeof("xx\0caisson-interpreter n1\n") - 1;

	(void)state;
	assert_ptr_equal(interp_mark_find(text, sizeof(text) - 1, "n1", &keep), text + whole);
	assert_null(interp_mark_find(text, sizeof(text) - 1, "n2", &keep));
	for (size_t n = 0; n < whole; n++) {
		assert_null(interp_mark_find(text, n, "n1", &keep));
		assert_true(keep <= n);
	}
}

/* ---- a link to a runner played here ---- */

struct played {
	struct interp_link link;
	int in, out; /* the runner's ends */
};

static void played_open(struct played *p)
{
	int a[2], b[2];

	interp_link_init(&p->link);
	assert_int_equal(pipe2(a, O_CLOEXEC), 0);
	assert_int_equal(pipe2(b, O_CLOEXEC), 0);
	p->in = a[0];
	p->link.in = a[1];
	p->link.out = b[0];
	p->out = b[1];
	fcntl(p->link.in, F_SETFL, O_NONBLOCK);
	fcntl(p->link.out, F_SETFL, O_NONBLOCK);
}

static void played_close(struct played *p)
{
	interp_link_done(&p->link);
	close(p->in);
	if (p->out >= 0)
		close(p->out);
}

static void say(int fd, const void *p, size_t n)
{
	assert_int_equal(write(fd, p, n), n);
}

/* Reads up to the line that begins with word; its second word into out. */
static void line_await(int fd, const char *word, char *out, size_t cap)
{
	char line[256];
	size_t n = 0;

	for (;;) {
		assert_int_equal(read(fd, line + n, 1), 1);
		if (line[n++] != '\n' && n < sizeof(line))
			continue;
		line[n - 1] = '\0';
		n = 0;
		if (strncmp(line, word, strlen(word)) == 0)
			break;
	}
	snprintf(out, cap, "%s", line + strlen(word) + 1);
}

static void *runner_that_has_history(void *arg)
{
	static const char old[] = "6\nhalf of an old frame\0caisson-interpreter old\n";
	struct played *p = arg;
	char nonce[64], text[256];

	say(p->out, old, sizeof(old) - 1);
	line_await(p->in, "attach", nonce, sizeof(nonce));
	/* The mark in two pieces, as pipes may deliver it. */
	say(p->out, "\0caisson-", 9);
	poll(NULL, 0, 20);
	snprintf(text, sizeof(text), "interpreter %s\na%zu\n%s idle", nonce, strlen(nonce) + 5,
		 nonce);
	say(p->out, text, strlen(text));
	return NULL;
}

static void attaching_passes_over_what_was_before(void **state)
{
	struct played p;
	pthread_t t;
	struct interp_frame f;
	struct err err;

	(void)state;
	played_open(&p);
	assert_int_equal(pthread_create(&t, NULL, runner_that_has_history, &p), 0);
	assert_int_equal(interp_link_attach(&p.link, false, NULL, NULL, &err), 0);
	pthread_join(t, NULL);
	assert_false(p.link.busy);
	assert_int_equal(interp_link_next(&p.link, &f, &err), 0);
	say(p.out, "o2\nhi", 5);
	assert_int_equal(interp_link_next(&p.link, &f, &err), 1);
	assert_memory_equal(f.p, "hi", 2);
	played_close(&p);
}

static void a_runner_that_ends_at_its_start_is_quoted(void **state)
{
	struct played p;
	struct err err;

	(void)state;
	played_open(&p);
	say(p.out, "sh: python3: \x1b[31mbroken\n", 25);
	close(p.out);
	p.out = -1;
	assert_int_equal(interp_link_attach(&p.link, false, NULL, NULL, &err), -1);
	assert_int_equal(err.code, ERR_GONE);
	assert_non_null(strstr(err.msg, "broken"));
	assert_null(strchr(err.msg, '\x1b'));
	played_close(&p);
}

static bool yes(void *arg)
{
	(void)arg;
	return true;
}

static void a_client_that_goes_ends_the_wait(void **state)
{
	struct played p;
	struct err err;

	(void)state;
	played_open(&p);
	assert_int_equal(interp_link_attach(&p.link, false, yes, NULL, &err), -1);
	assert_int_equal(err.code, ERR_CANCELLED);
	played_close(&p);
}

static void a_broken_stream_is_an_error_and_not_a_loop(void **state)
{
	struct played p;
	struct interp_frame f;
	struct err err;

	(void)state;
	played_open(&p);
	say(p.out, "what?", 5);
	assert_int_equal(interp_link_next(&p.link, &f, &err), -1);
	assert_int_equal(err.code, ERR_AGENT);
	played_close(&p);
}

static void a_run_goes_out_as_one_line_with_its_length(void **state)
{
	auto_kv struct kv env = {0};
	struct played p;
	struct err err;
	char line[200];

	(void)state;
	played_open(&p);
	assert_int_equal(kv_set(&env, "A", "b=c", NULL), 0);
	assert_int_equal(interp_link_run(&p.link, "x = 1\n", &env, 1500, &err), 0);
	line_await(p.in, "run", line, sizeof(line));
	/* "x = 1\n\0A=b=c" */
	assert_string_equal(line + strlen(p.link.nonce), " 1500 16 eCA9IDEKAEE9Yj1j");
	played_close(&p);
}

/* ---- turns ---- */

struct queue {
	struct turns turns;
	int order[8];
	int n;
};

struct waiter {
	struct queue *q;
	int number;
};

static void *waiter_main(void *arg)
{
	struct waiter *w = arg;
	struct turn me;

	turn_take(&w->q->turns, &me, "k", NULL, NULL, NULL);
	w->q->order[w->q->n++] = w->number;
	turn_leave(&w->q->turns, &me);
	return NULL;
}

static size_t turns_count(struct turns *t)
{
	size_t n = 0;

	pthread_mutex_lock(&t->lock);
	for (struct turn *p = t->first; p; p = p->next)
		n++;
	pthread_mutex_unlock(&t->lock);
	return n;
}

static void turns_come_in_order_and_keys_do_not_wait_for_each_other(void **state)
{
	struct queue q = {.n = 0};
	struct waiter w[5];
	struct turn first, other;
	pthread_t t[5];

	(void)state;
	turns_init(&q.turns);
	assert_int_equal(turn_take(&q.turns, &first, "k", NULL, NULL, NULL), 0);
	assert_int_equal(turn_take(&q.turns, &other, "l", NULL, NULL, NULL), 0);
	for (int i = 0; i < 5; i++) {
		w[i] = (struct waiter){&q, i};
		pthread_create(&t[i], NULL, waiter_main, &w[i]);
		while (turns_count(&q.turns) < (size_t)i + 3)
			poll(NULL, 0, 1);
	}
	assert_int_equal(q.n, 0);
	turn_leave(&q.turns, &first);
	for (int i = 0; i < 5; i++)
		pthread_join(t[i], NULL);
	for (int i = 0; i < 5; i++)
		assert_int_equal(q.order[i], i);
	turn_leave(&q.turns, &other);
	assert_null(q.turns.first);
	turns_done(&q.turns);
}

static void who_goes_leaves_the_queue(void **state)
{
	struct turns turns;
	struct turn first, gone;
	struct err err;

	(void)state;
	turns_init(&turns);
	assert_int_equal(turn_take(&turns, &first, "k", yes, NULL, NULL), 0);
	assert_int_equal(turn_take(&turns, &gone, "k", yes, NULL, &err), -1);
	assert_int_equal(err.code, ERR_CANCELLED);
	assert_int_equal(turns_count(&turns), 1);
	turn_leave(&turns, &first);
	turns_done(&turns);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(frames_are_taken_whole_or_not_at_all),
		cmocka_unit_test(what_is_no_frame_is_refused),
		cmocka_unit_test(payloads_are_read_strictly),
		cmocka_unit_test(a_mark_is_found_where_it_is_whole),
		cmocka_unit_test(attaching_passes_over_what_was_before),
		cmocka_unit_test(a_runner_that_ends_at_its_start_is_quoted),
		cmocka_unit_test(a_client_that_goes_ends_the_wait),
		cmocka_unit_test(a_broken_stream_is_an_error_and_not_a_loop),
		cmocka_unit_test(a_run_goes_out_as_one_line_with_its_length),
		cmocka_unit_test(turns_come_in_order_and_keys_do_not_wait_for_each_other),
		cmocka_unit_test(who_goes_leaves_the_queue),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
