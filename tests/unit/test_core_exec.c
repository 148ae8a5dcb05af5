/*
 * test_core_exec.c - commands and files through the core, with a real caisson-init (root only).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "unit/agentbox.h"
#include "unit/corebox.h"

struct box {
	struct corebox c;
	struct agentbox a;
	char id[ID_LEN];
};

struct sunk {
	char *p;
	size_t n, cap, stop_at;
	uint64_t total;
};

static int group_setup(void **state)
{
	struct box *b = calloc(1, sizeof(*b));
	struct sandbox_spec spec = corebox_spec("box");
	struct sandbox s;

	if (!agentbox_possible()) {
		free(b);
		*state = NULL;
		print_message("skipped: needs root, busybox and build/caisson-init\n");
		return 0;
	}
	corebox_init(&b->c);
	assert_int_equal(agentbox_start(&b->a, 0), 0);
	fake_agent_one(b->c.fake, b->a.sock);
	corebox_open(&b->c);
	spec.user = "dev";
	assert_int_equal(sandbox_create(b->c.core, &b->c.who, &spec, -1, &s, NULL), 0);
	assert_int_equal(s.state, SB_STARTED);
	memcpy(b->id, s.id, ID_LEN);
	sandbox_done(&s);
	*state = b;
	return 0;
}

static int group_teardown(void **state)
{
	struct box *b = *state;

	if (!b)
		return 0;
	agentbox_stop(&b->a);
	corebox_done(&b->c);
	free(b);
	return 0;
}

static struct box *box_of(void **state)
{
	if (!*state)
		skip();
	return *state;
}

static int sink(void *arg, int stream, const void *p, size_t n, struct err *err)
{
	struct sunk *s = arg;

	(void)stream;
	s->total += n;
	if (s->stop_at && s->total > s->stop_at)
		return err_set(err, ERR_TOO_LARGE, "the sink is full");
	if (s->n + n + 1 > s->cap) {
		s->cap = (s->n + n + 1) * 2;
		s->p = realloc(s->p, s->cap);
		assert_non_null(s->p);
	}
	memcpy(s->p + s->n, p, n);
	s->n += n;
	s->p[s->n] = '\0';
	return 0;
}

static int run(struct box *b, const char *text, struct exec_spec spec, struct sunk *out,
	       struct exec_result *r, struct err *err)
{
	const char *argv[] = {text, NULL};

	spec.sandbox = b->id;
	if (!spec.argv) {
		spec.shell = true;
		spec.argv = argv;
	}
	memset(out, 0, out->stop_at ? offsetof(struct sunk, stop_at) : sizeof(*out));
	out->total = 0;
	return exec_run(b->c.core, &b->c.who, &spec, sink, out, -1, r, err);
}

static void exit_code_and_both_streams_arrive(void **state)
{
	struct box *b = box_of(state);
	struct exec_result r;
	struct sunk out = {0};
	struct err err = {0};

	assert_int_equal(run(b, "echo out; echo err >&2; exit 3", (struct exec_spec){.merge = true},
			     &out, &r, &err),
			 0);
	assert_int_equal(r.cause, EXEC_EXITED);
	assert_int_equal(r.exit_code, 3);
	assert_string_equal(out.p, "out\nerr\n");
	assert_int_equal(r.total_out, 8);
	free(out.p);
	assert_int_equal(run(b, "echo out; echo err >&2", (struct exec_spec){0}, &out, &r, &err),
			 0);
	assert_int_equal(r.total_out, 4);
	assert_int_equal(r.total_err, 4);
	free(out.p);
}

static void argv_needs_no_shell(void **state)
{
	struct box *b = box_of(state);
	const char *argv[] = {"echo", "a b", "$HOME", NULL};
	struct exec_result r;
	struct sunk out = {0};

	assert_int_equal(run(b, NULL, (struct exec_spec){.argv = argv}, &out, &r, NULL), 0);
	assert_string_equal(out.p, "a b $HOME\n");
	free(out.p);
}

static void environment_is_layered(void **state)
{
	struct box *b = box_of(state);
	struct kv env = {0}, set = {0};
	struct exec_result r;
	struct sunk out = {0};
	struct err err = {0};
	char want[256];
	const char *const unset[] = {"SB"};
	const struct sandbox_env_change add = {.set = &set}, drop = {.unset = unset, .nunset = 1};

	kv_set(&set, "SB", "from sandbox", NULL);
	kv_set(&set, "BOTH", "sandbox", NULL);
	assert_int_equal(sandbox_env(b->c.core, &b->c.who, b->id, &add, NULL, &err), 0);
	kv_set(&env, "BOTH", "x' \" $(id)", NULL);
	assert_int_equal(run(b, "echo \"$SB|$BOTH|$DAYTONA_SANDBOX_ID|$DAYTONA_SANDBOX_USER\"",
			     (struct exec_spec){.env = &env}, &out, &r, &err),
			 0);
	snprintf(want, sizeof(want), "from sandbox|x' \" $(id)|%s|dev\n", b->id);
	assert_string_equal(out.p, want);
	free(out.p);
	/* a48: what was removed is gone from the next command on. */
	assert_int_equal(sandbox_env(b->c.core, &b->c.who, b->id, &drop, NULL, &err), 0);
	assert_int_equal(run(b, "echo \"[$SB]\"", (struct exec_spec){0}, &out, &r, &err), 0);
	assert_string_equal(out.p, "[]\n");
	free(out.p);
	kv_done(&env);
	kv_done(&set);
}

static void a30_empty_commands_are_invalid(void **state)
{
	struct box *b = box_of(state);
	const char *none[] = {NULL};
	struct exec_result r;
	struct sunk out = {0};
	struct err err = {0};

	assert_int_equal(run(b, "", (struct exec_spec){0}, &out, &r, &err), -1);
	assert_int_equal(err.code, ERR_INVALID);
	assert_int_equal(run(b, " \n\t", (struct exec_spec){0}, &out, &r, &err), -1);
	assert_int_equal(err.code, ERR_INVALID);
	assert_int_equal(run(b, NULL, (struct exec_spec){.argv = none}, &out, &r, &err), -1);
	assert_int_equal(err.code, ERR_INVALID);
	assert_int_equal(run(b, "true", (struct exec_spec){.timeout_ms = -1}, &out, &r, &err), -1);
	assert_int_equal(err.code, ERR_INVALID);
}

static void a5_timeout_is_kept_and_distinct(void **state)
{
	struct box *b = box_of(state);
	struct exec_result r;
	struct sunk out = {0};
	int64_t began = clock_mono_ms();

	assert_int_equal(run(b, "echo before; sleep 60", (struct exec_spec){.timeout_ms = 300},
			     &out, &r, NULL),
			 0);
	assert_int_equal(r.cause, EXEC_TIMEOUT);
	assert_in_range(clock_mono_ms() - began, 290, 2500);
	assert_string_equal(out.p, "before\n");
	free(out.p);
}

static bool only_init(void *arg)
{
	return agentbox_processes(&((struct box *)arg)->a, false) == 0;
}

static void a6_timeout_kills_setsid_grandchild(void **state)
{
	struct box *b = box_of(state);
	struct exec_result r;
	struct sunk out = {0};

	assert_int_equal(run(b, "setsid sh -c 'sleep 300 & sleep 301' & sleep 302 & wait",
			     (struct exec_spec){.timeout_ms = 200}, &out, &r, NULL),
			 0);
	assert_int_equal(r.cause, EXEC_TIMEOUT);
	assert_true(corebox_until(only_init, b, 3000));
	free(out.p);
}

static void chatty_command_obeys_its_timeout(void **state)
{
	struct box *b = box_of(state);
	struct exec_result r;
	int64_t began = clock_mono_ms();
	const char *argv[] = {"yes", NULL};
	struct exec_spec spec = {.sandbox = b->id, .argv = argv, .timeout_ms = 300};

	assert_int_equal(exec_run(b->c.core, &b->c.who, &spec, NULL, NULL, -1, &r, NULL), 0);
	assert_int_equal(r.cause, EXEC_TIMEOUT);
	assert_true(r.total_out > 65536);
	assert_true(clock_mono_ms() - began < 3000);
}

static void background_child_does_not_hold_the_result(void **state)
{
	struct box *b = box_of(state);
	struct exec_result r;
	struct sunk out = {0};
	int64_t began = clock_mono_ms();

	assert_int_equal(run(b, "sleep 3 & echo done", (struct exec_spec){0}, &out, &r, NULL), 0);
	assert_true(clock_mono_ms() - began < 2000);
	assert_string_equal(out.p, "done\n");
	free(out.p);
}

static void a13_ten_megabytes_arrive_whole(void **state)
{
	struct box *b = box_of(state);
	struct exec_result r;
	struct sunk out = {0};

	assert_int_equal(
		run(b, "head -c 10000000 /dev/zero", (struct exec_spec){0}, &out, &r, NULL), 0);
	assert_int_equal(r.total_out, 10000000);
	assert_int_equal(out.n, 10000000);
	free(out.p);
}

static void a18_megabytes_of_input_arrive(void **state)
{
	enum { N = 8 << 20 };
	struct box *b = box_of(state);
	const char *argv[] = {"wc", "-c", NULL};
	struct exec_spec spec = {.argv = argv, .input_len = N};
	struct exec_result r;
	struct sunk out = {0};
	char *input = calloc(1, N);

	spec.input = input;
	assert_int_equal(run(b, NULL, spec, &out, &r, NULL), 0);
	assert_int_equal(strtoul(out.p, NULL, 10), N);
	free(out.p);
	/* Both ways at once: neither side may wait for the other. */
	argv[0] = "cat";
	argv[1] = NULL;
	assert_int_equal(run(b, NULL, spec, &out, &r, NULL), 0);
	assert_int_equal(out.n, N);
	free(out.p);
	/* A command that doesn't read isn't an error. */
	argv[0] = "true";
	assert_int_equal(run(b, NULL, spec, &out, &r, NULL), 0);
	assert_int_equal(r.exit_code, 0);
	free(input);
}

static void sink_that_refuses_kills_the_tree(void **state)
{
	struct box *b = box_of(state);
	struct exec_result r;
	struct sunk out = {.stop_at = 100000};
	struct err err = {0};

	assert_int_equal(run(b, "yes", (struct exec_spec){0}, &out, &r, &err), -1);
	assert_int_equal(err.code, ERR_TOO_LARGE);
	assert_true(corebox_until(only_init, b, 3000));
	free(out.p);
}

struct hangup {
	int fd;
	pthread_t thread;
};

static void *hang_up(void *arg)
{
	struct hangup *h = arg;

	usleep(200000);
	close(h->fd);
	return NULL;
}

static void client_that_hangs_up_kills_the_tree(void **state)
{
	struct box *b = box_of(state);
	const char *argv[] = {"sleep 60", NULL};
	struct exec_spec spec = {.sandbox = b->id, .shell = true, .argv = argv};
	struct exec_result r;
	struct err err = {0};
	struct hangup h;
	int sv[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv), 0);
	h.fd = sv[1];
	pthread_create(&h.thread, NULL, hang_up, &h);
	assert_int_equal(exec_run(b->c.core, &b->c.who, &spec, NULL, NULL, sv[0], &r, &err), -1);
	assert_int_equal(err.code, ERR_CANCELLED);
	pthread_join(h.thread, NULL);
	close(sv[0]);
	assert_true(corebox_until(only_init, b, 3000));
}

static void a15_terminal_keeps_its_tail(void **state)
{
	struct box *b = box_of(state);
	struct exec_result r;
	struct sunk out;

	for (int i = 0; i < 10; i++) {
		size_t lines = 0;

		memset(&out, 0, sizeof(out));
		assert_int_equal(
			run(b, "seq 1 20000", (struct exec_spec){.tty = true}, &out, &r, NULL), 0);
		for (size_t k = 0; k < out.n; k++)
			lines += out.p[k] == '\n';
		assert_int_equal(lines, 20000);
		free(out.p);
	}
}

static void a10_a33_codes_are_right_in_parallel_runs(void **state)
{
	struct box *b = box_of(state);
	struct exec_result r;
	struct sunk out = {0};

	for (int i = 0; i < 100; i++) {
		assert_int_equal(
			run(b, i % 2 ? "exit 3" : "exit 0", (struct exec_spec){0}, &out, &r, NULL),
			0);
		assert_int_equal(r.exit_code, i % 2 ? 3 : 0);
	}
}

/* ---- memory ---- */

static void a53_memory_death_says_so(void **state)
{
	struct box *b = box_of(state);
	struct exec_result r;
	struct sunk out = {0};

	/* The counter moved, the event is late: a killed command. */
	fake_oom(b->c.fake, b->id, "python3", false);
	assert_int_equal(run(b, "kill -9 $$", (struct exec_spec){0}, &out, &r, NULL), 0);
	assert_int_equal(r.cause, EXEC_OOM);
	assert_int_equal(r.oom_limit, 1u << 30);
	assert_true(r.oom_peak > 0);
	assert_string_equal(r.oom_victim, "unknown");
	/* From here on the books know of that kill. */
	fake_oom(b->c.fake, b->id, "python3", true);
	assert_int_equal(run(b, "kill -9 $$", (struct exec_spec){0}, &out, &r, NULL), 0);
	assert_int_equal(r.cause, EXEC_SIGNAL);
	assert_int_equal(r.signal, SIGKILL);
	assert_int_equal(r.exit_code, 137);
}

static void *oom_soon(void *arg)
{
	struct box *b = arg;

	usleep(150000);
	fake_oom(b->c.fake, b->id, "hog", true);
	return NULL;
}

static void a53_child_of_a_shell_counts_too(void **state)
{
	struct box *b = box_of(state);
	struct exec_result r;
	struct sunk out = {0};
	pthread_t t;

	pthread_create(&t, NULL, oom_soon, b);
	assert_int_equal(run(b, "sleep 0.4; exit 1", (struct exec_spec){0}, &out, &r, NULL), 0);
	pthread_join(t, NULL);
	assert_int_equal(r.cause, EXEC_OOM);
	assert_int_equal(r.exit_code, 1);
	assert_string_equal(r.oom_victim, "hog");
}

/* ---- files ---- */

static void relative_paths_start_at_the_working_directory(void **state)
{
	struct box *b = box_of(state);
	struct agent_info info;
	struct err err = {0};
	char dir[256];
	int fd;

	assert_int_equal(sandbox_home(b->c.core, &b->c.who, b->id, dir, sizeof(dir), &err), 0);
	assert_string_equal(dir, "/home/dev");
	assert_int_equal(sandbox_workdir(b->c.core, &b->c.who, b->id, dir, sizeof(dir), &err), 0);
	assert_string_equal(dir, "/home/dev");
	assert_int_equal(file_mkdir(b->c.core, &b->c.who, b->id, "a/b", 0755, &err), 0);
	fd = file_open(b->c.core, &b->c.who, b->id, "a/b/f", AGENT_OPEN_WRITE | AGENT_OPEN_CREATE,
		       0644, NULL, &err);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, "hello", 5), 5);
	close(fd);
	assert_int_equal(file_stat(b->c.core, &b->c.who, b->id, "/home/dev/a/b/f", &info, &err), 0);
	assert_int_equal(info.size, 5);
	assert_int_equal(info.uid, 1000);
	agent_info_done(&info);
	assert_int_equal(file_move(b->c.core, &b->c.who, b->id, "a/b/f", "g", &err), 0);
	assert_int_equal(file_remove(b->c.core, &b->c.who, b->id, "g", false, &err), 0);
	assert_int_equal(file_stat(b->c.core, &b->c.who, b->id, "g", &info, &err), -1);
	assert_int_equal(err.code, ERR_NOT_FOUND);
	assert_int_equal(file_remove(b->c.core, &b->c.who, b->id, "a", true, &err), 0);
}

static void calls_on_a_stopped_sandbox_are_a_clear_conflict(void **state)
{
	struct box *b = box_of(state);
	struct exec_result r;
	struct agent_info info;
	struct sunk out = {0};
	struct err err = {0};
	struct sandbox s;

	assert_int_equal(sandbox_stop(b->c.core, &b->c.who, b->id, true, -1, &s, NULL), 0);
	sandbox_done(&s);
	assert_int_equal(run(b, "true", (struct exec_spec){0}, &out, &r, &err), -1);
	assert_int_equal(err.code, ERR_CONFLICT);
	assert_string_equal(err.tag, "SANDBOX_NOT_STARTED");
	assert_non_null(strstr(err.msg, "start it first"));
	assert_int_equal(file_stat(b->c.core, &b->c.who, b->id, "/", &info, &err), -1);
	assert_int_equal(err.code, ERR_CONFLICT);
	assert_int_equal(sandbox_start(b->c.core, &b->c.who, b->id, -1, &s, NULL), 0);
	sandbox_done(&s);
}

static int by_time(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

static void exec_is_quick(void **state)
{
	enum { N = 300 };
	static int64_t took[N];
	struct box *b = box_of(state);
	const char *argv[] = {"/bin/true", NULL};
	struct exec_spec spec = {.sandbox = b->id, .argv = argv};
	struct exec_result r;

	for (int i = 0; i < N; i++) {
		took[i] = clock_mono_us();
		assert_int_equal(exec_run(b->c.core, &b->c.who, &spec, NULL, NULL, -1, &r, NULL),
				 0);
		took[i] = clock_mono_us() - took[i];
	}
	qsort(took, N, sizeof(*took), by_time);
	print_message("exec of busybox true: p50 %d p99 %d us\n", (int)took[N / 2],
		      (int)took[N * 99 / 100]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(exit_code_and_both_streams_arrive),
		cmocka_unit_test(argv_needs_no_shell),
		cmocka_unit_test(environment_is_layered),
		cmocka_unit_test(a30_empty_commands_are_invalid),
		cmocka_unit_test(a5_timeout_is_kept_and_distinct),
		cmocka_unit_test(a6_timeout_kills_setsid_grandchild),
		cmocka_unit_test(chatty_command_obeys_its_timeout),
		cmocka_unit_test(background_child_does_not_hold_the_result),
		cmocka_unit_test(a13_ten_megabytes_arrive_whole),
		cmocka_unit_test(a18_megabytes_of_input_arrive),
		cmocka_unit_test(sink_that_refuses_kills_the_tree),
		cmocka_unit_test(client_that_hangs_up_kills_the_tree),
		cmocka_unit_test(a15_terminal_keeps_its_tail),
		cmocka_unit_test(a10_a33_codes_are_right_in_parallel_runs),
		cmocka_unit_test(a53_memory_death_says_so),
		cmocka_unit_test(a53_child_of_a_shell_counts_too),
		cmocka_unit_test(relative_paths_start_at_the_working_directory),
		cmocka_unit_test(calls_on_a_stopped_sandbox_are_a_clear_conflict),
		cmocka_unit_test(exec_is_quick),
	};

	return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
