/*
 * Tasks with either side hostile or careless: clients that vanish, fill every table and send
 * nonsense to a real caisson-init, and an agent of our own making that lies to a reader.
 */
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cmocka.h>

#include "agent/call.h"
#include "base/clock.h"
#include "base/id.h"
#include "unit/taskbox.h"
#include "wire/task_msg.h"

static struct agentbox box;

static int box_up(void **state)
{
	(void)state;
	return agentbox_start(&box, AGENTBOX_CGROUP);
}

static int box_end(void **state)
{
	(void)state;
	agentbox_stop(&box);
	return 0;
}

static void box_is_well(void)
{
	taskbox_start(&box, "well", TASK_DETACHED, 0, "echo well");
	taskbox_expect(&box, "well", "well\n");
	taskbox_remove(&box, "well");
}

static int ask(const struct agent_req *r)
{
	int sock = agent_call_open(box.sock, clock_mono_ms() + 5000, NULL);

	assert_true(sock >= 0);
	assert_int_equal(agent_call_send(sock, r, clock_mono_ms() + 5000, NULL), 0);
	return sock;
}

/* ---- clients ---- */

static void a26_starts_cut_off_leave_tasks_or_nothing(void **state)
{
	static const char *const argv[] = {"true", NULL};
	size_t fds = taskbox_fds(&box);
	char id[16];

	(void)state;
	for (int i = 0; i < 500; i++) {
		struct agent_req r = {.verb = AGENT_TASK_START,
				      .id = id,
				      .kind = TASK_DETACHED,
				      .argv = {argv, 1}};

		snprintf(id, sizeof(id), "a%d", i);
		close(ask(&r));
	}
	/* Each of them began, was known, and can be removed. */
	for (int i = 0; i < 500; i++) {
		struct err err = {.code = ERR_NONE};

		snprintf(id, sizeof(id), "a%d", i);
		if (agent_task_remove(box.sock, id, &err) < 0)
			assert_int_equal(err.code, ERR_NOT_FOUND);
	}
	taskbox_empty(&box);
	taskbox_fds_at_most(&box, fds);
	box_is_well();
}

static void waiting_clients_that_vanish_leave_nothing(void **state)
{
	static uint8_t data[100000];
	size_t fds = taskbox_fds(&box);
	struct agent_req wait[] = {
		{.verb = AGENT_TASK_READ, .id = "v", .streams = TASK_OUT, .follow = true},
		{.verb = AGENT_TASK_WRITE, .id = "v", .data = {data, sizeof(data)}},
		{.verb = AGENT_TASK_KILL, .id = "v", .grace_ms = 600000},
		{.verb = AGENT_TASK_READ, .id = "v", .streams = 0, .follow = true},
	};

	(void)state;
	taskbox_start(&box, "v", TASK_DETACHED, TASK_STDIN, "trap '' TERM; yes");
	for (int i = 0; i < 100; i++) {
		int sock[ARRAY_LEN(wait)];

		for (size_t k = 0; k < ARRAY_LEN(wait); k++)
			sock[k] = ask(&wait[k]);
		for (size_t k = 0; k < ARRAY_LEN(wait); k++)
			close(sock[k]);
	}
	taskbox_remove(&box, "v");
	taskbox_empty(&box);
	taskbox_fds_at_most(&box, fds);
	box_is_well();
}

static void those_who_wait_for_a_removed_task_are_told(void **state)
{
	struct agent_req read = {
		.verb = AGENT_TASK_READ, .id = "w", .streams = TASK_OUT, .follow = true};
	auto_reply struct agent_reply r = {.nfds = 0};
	auto_close int sock = -1;

	(void)state;
	taskbox_start(&box, "w", TASK_DETACHED, 0, "sleep 300");
	sock = ask(&read);
	agent_hello(box.sock, clock_mono_ms() + 1000, NULL); /* the read was taken before this */
	taskbox_remove(&box, "w");
	assert_int_equal(agent_call_recv(sock, &r, clock_mono_ms() + 5000, NULL), 0);
	assert_int_equal(r.type, AGENT_OK); /* its end, for it was killed first */
}

static void random_requests_do_no_harm(void **state)
{
	(void)state;
	for (int i = 0; i < 2000; i++) {
		uint8_t raw[WIRE_FRAME_HEAD + 120];
		struct wire_frame f = {.len = (uint32_t)(i % 120),
				       .type = (uint16_t)(AGENT_TASK_START + i % 11)};
		auto_close int fd = agent_call_open(box.sock, clock_mono_ms() + 2000, NULL);

		id_random(raw, sizeof(raw));
		/* Half of them nearly right: a string of one byte comes first. */
		if (i % 2)
			memcpy(raw + WIRE_FRAME_HEAD, "\1\0\0\0x", 5);
		wire_frame_put(raw, &f);
		send(fd, raw, WIRE_FRAME_HEAD + f.len, MSG_NOSIGNAL);
	}
	box_is_well();
}

static void a_second_request_of_one_who_waits_ends_the_wait(void **state)
{
	struct agent_req read = {
		.verb = AGENT_TASK_READ, .id = "t", .streams = TASK_OUT, .follow = true};
	auto_close int sock = -1;
	struct pollfd p = {.events = POLLIN};
	char c;

	(void)state;
	taskbox_start(&box, "t", TASK_DETACHED, 0, "sleep 300");
	sock = ask(&read);
	assert_int_equal(agent_call_send(sock, &read, clock_mono_ms() + 1000, NULL), 0);
	p.fd = sock;
	assert_int_equal(poll(&p, 1, 5000), 1);
	assert_true(recv(sock, &c, 1, 0) <= 0);
	taskbox_remove(&box, "t");
}

/* ---- ceilings ---- */

static void the_table_has_a_ceiling_and_drops_the_oldest_ended(void **state)
{
	struct task_info t;
	struct err err;
	char id[16];

	(void)state;
	for (int i = 0; i < 1030; i++) {
		snprintf(id, sizeof(id), "n%d", i);
		taskbox_start(&box, id, TASK_DETACHED, 0, "true");
		taskbox_wait(&box, id, &t);
		task_info_done(&t);
	}
	assert_int_equal(agent_task_get(box.sock, "n0", &t, &err), -1);
	assert_int_equal(err.code, ERR_NOT_FOUND);
	taskbox_get(&box, "n1029", &t);
	task_info_done(&t);
	for (int i = 0; i < 1030; i++) {
		snprintf(id, sizeof(id), "n%d", i);
		agent_task_remove(box.sock, id, NULL);
	}
	assert_true(taskbox_rss_kib(&box) < 2048);
}

static void tasks_that_run_are_never_dropped(void **state)
{
	struct err err = {.code = ERR_NONE};
	struct task_info t;
	char id[16];
	int n = 0;

	(void)state;
	taskbox_session(&box, "full", "");
	assert_int_equal(agent_task_exec(box.sock, "full", "r", "sleep 300", 0, 0, NULL, NULL), 0);
	for (; n < 1100; n++) {
		snprintf(id, sizeof(id), "q%d", n);
		if (agent_task_exec(box.sock, "full", id, "echo no", 0, 0, NULL, &err) < 0)
			break;
	}
	assert_int_equal(err.code, ERR_LIMIT);
	assert_int_equal(n, 1022);
	taskbox_get(&box, "q0", &t);
	assert_int_equal(t.state, TASK_QUEUED);
	task_info_done(&t);
	taskbox_remove(&box, "full");
	taskbox_empty(&box);
	box_is_well();
}

static void queued_commands_have_a_ceiling_of_bytes(void **state)
{
	static char text[900000];
	struct err err = {.code = ERR_NONE};
	char id[16];
	int n = 0;

	(void)state;
	memset(text, ' ', sizeof(text) - 1);
	text[0] = ':';
	taskbox_session(&box, "big", "");
	assert_int_equal(agent_task_exec(box.sock, "big", "r", "sleep 300", 0, 0, NULL, NULL), 0);
	for (; n < 100; n++) {
		snprintf(id, sizeof(id), "b%d", n);
		if (agent_task_exec(box.sock, "big", id, text, 0, 0, NULL, &err) < 0)
			break;
	}
	assert_int_equal(err.code, ERR_UNAVAILABLE);
	assert_true(n > 4 && n < 10);
	assert_true(taskbox_rss_kib(&box) < 16 * 1024);
	taskbox_remove(&box, "big");
	box_is_well();
}

static void many_sessions_live_side_by_side(void **state)
{
	size_t fds = taskbox_fds(&box);
	char id[16];

	(void)state;
	for (int i = 0; i < 100; i++) {
		snprintf(id, sizeof(id), "s%d", i);
		taskbox_session(&box, id, i % 2 ? "dev" : "");
	}
	for (int i = 0; i < 100; i++) {
		snprintf(id, sizeof(id), "s%d", i);
		taskbox_says(&box, id, "echo $((6 * 7))", 0, "42\n");
	}
	for (int i = 0; i < 100; i++) {
		snprintf(id, sizeof(id), "s%d", i);
		taskbox_remove(&box, id);
	}
	taskbox_empty(&box);
	taskbox_fds_at_most(&box, fds + 1); /* the directory of FIFOs stays open */
}

/* ---- inside ---- */

static void the_agent_survives_a_sandbox_without_processes_left(void **state)
{
	struct err err;
	const char *const argv[] = {"ulimit -u 40; :(){ :|:& };:; sleep 1", NULL};
	struct task_spec s = {.id = "bomb", .kind = TASK_DETACHED, .timeout_ms = 500};
	struct task_info t;

	(void)state;
	s.spawn = (struct agent_spawn){.argv = argv, .user = "dev", .flags = SPAWN_SHELL};
	assert_int_equal(agent_task_start(box.sock, &s, NULL, NULL, &err), 0);
	taskbox_wait(&box, "bomb", &t);
	task_info_done(&t);
	assert_int_equal(agent_task_kill(box.sock, "bomb", 0, &t, NULL), 0);
	task_info_done(&t);
	taskbox_empty(&box);
	taskbox_remove(&box, "bomb");
	box_is_well();
}

static void what_stands_in_the_place_of_fifos_is_not_followed(void **state)
{
	struct err err;
	struct task_spec s = {.id = "x", .kind = TASK_SESSION, .spawn = {.user = ""}};
	struct task_info t;

	(void)state;
	taskbox_start(&box, "evil", TASK_DETACHED, 0,
		      "rm -rf /dev/.caisson; ln -s /tmp /dev/.caisson; echo done");
	taskbox_wait(&box, "evil", &t);
	task_info_done(&t);
	assert_int_equal(agent_task_start(box.sock, &s, NULL, NULL, &err), -1);
	assert_int_equal(err.code, ERR_UNAVAILABLE);
	taskbox_remove(&box, "evil");
	taskbox_start(&box, "evil", TASK_DETACHED, 0,
		      "rm /dev/.caisson; mkdir -m 777 /dev/.caisson; echo done");
	taskbox_wait(&box, "evil", &t);
	task_info_done(&t);
	assert_int_equal(agent_task_start(box.sock, &s, NULL, NULL, &err), -1);
	taskbox_remove(&box, "evil");
	taskbox_start(&box, "evil", TASK_DETACHED, 0, "rm -r /dev/.caisson");
	taskbox_wait(&box, "evil", &t);
	task_info_done(&t);
	taskbox_remove(&box, "evil");
	taskbox_empty(&box);
	taskbox_session(&box, "x", "");
	taskbox_says(&box, "x", "echo ok", 0, "ok\n");
	taskbox_remove(&box, "x");
}

/* ---- a lying agent ---- */

struct liar {
	int listener;
	char path[64];
	const uint8_t *p;
	size_t n;
	pthread_t thread;
};

static void *liar_main(void *arg)
{
	struct liar *l = arg;
	auto_close int sock = accept(l->listener, NULL, NULL);
	uint8_t raw[4096];

	recv(sock, raw, sizeof(raw), 0);
	send(sock, l->p, l->n, MSG_NOSIGNAL);
	recv(sock, raw, sizeof(raw), 0);
	return NULL;
}

static void liar_start(struct liar *l, const uint8_t *p, size_t n)
{
	static unsigned k;
	struct sockaddr_un addr = {.sun_family = AF_UNIX};

	snprintf(l->path, sizeof(l->path), "/tmp/caisson-liar-%d-%u", getpid(), k++);
	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", l->path);
	l->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	l->p = p;
	l->n = n;
	assert_int_equal(bind(l->listener, (struct sockaddr *)&addr, sizeof(addr)), 0);
	assert_int_equal(listen(l->listener, 1), 0);
	pthread_create(&l->thread, NULL, liar_main, l);
}

static void liar_stop(struct liar *l)
{
	pthread_join(l->thread, NULL);
	close(l->listener);
	unlink(l->path);
}

static void frame_end(uint8_t *raw, struct wire_out *o, uint16_t type)
{
	struct wire_frame f = {.type = type, .len = (uint32_t)o->len};

	wire_frame_put(raw, &f);
}

static size_t put_data(uint8_t *raw, uint8_t stream, uint64_t offset, const char *text)
{
	struct wire_out o = wire_out_on(raw + WIRE_FRAME_HEAD, 200);

	wire_put_u8(&o, stream);
	wire_put_u64(&o, offset);
	wire_put_bytes(&o, text, strlen(text));
	frame_end(raw, &o, AGENT_DATA);
	return WIRE_FRAME_HEAD + o.len;
}

static size_t put_gap(uint8_t *raw, uint8_t stream, uint64_t from, uint64_t to)
{
	struct wire_out o = wire_out_on(raw + WIRE_FRAME_HEAD, 200);

	wire_put_u8(&o, stream);
	wire_put_u64(&o, from);
	wire_put_u64(&o, to);
	frame_end(raw, &o, AGENT_GAP);
	return WIRE_FRAME_HEAD + o.len;
}

static int read_lies(const uint8_t *p, size_t n, struct err *err)
{
	struct liar l;
	struct task_reader *r;
	struct task_chunk c;
	int rc;

	liar_start(&l, p, n);
	r = task_reader_open(l.path, "id", TASK_OUT, 5, 0, true, err);
	assert_non_null(r);
	while ((rc = task_reader_next(r, &c, NULL, -1, clock_mono_ms() + 2000, err)) > 0 &&
	       rc != TASK_READ_END)
		continue;
	task_reader_close(r);
	liar_stop(&l);
	return rc;
}

static void lies_about_output_are_faults(void **state)
{
	uint8_t raw[16][256];
	size_t n[16], k = 0;
	struct err err;

	(void)state;
	n[k] = put_data(raw[k], 1, 4, "a"), k++; /* before the offset asked for */
	n[k] = put_data(raw[k], 1, 6, "a"), k++; /* behind it, without a gap */
	n[k] = put_data(raw[k], 2, 0, "a"), k++; /* a stream not asked for */
	n[k] = put_data(raw[k], 3, 5, "a"), k++; /* no stream */
	n[k] = put_data(raw[k], 1, 5, ""), k++;	 /* nothing */
	n[k] = put_gap(raw[k], 1, 5, 5), k++;	 /* no gap */
	n[k] = put_gap(raw[k], 1, 5, 4), k++;	 /* backwards */
	n[k] = put_gap(raw[k], 1, 6, 9), k++;	 /* elsewhere */
	n[k] = put_gap(raw[k], 1, 5, UINT64_MAX), k++;
	n[k] = put_data(raw[k], 1, 5, "a"), raw[k][4] = AGENT_TASKS, k++; /* no such reply */
	n[k] = put_data(raw[k], 1, 5, "a"), raw[k][0]--, k++;		  /* short */
	n[k] = put_data(raw[k], 1, 5, "a"), raw[k][3] = 0x7f, k++;	  /* over the limit */
	n[k] = put_data(raw[k], 1, 5, "a"), raw[k][4] = AGENT_OK, k++;	  /* no record */
	for (size_t i = 0; i < k; i++) {
		assert_int_equal(read_lies(raw[i], n[i], &err), -1);
		assert_int_equal(err.code, ERR_AGENT);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a26_starts_cut_off_leave_tasks_or_nothing),
		cmocka_unit_test(waiting_clients_that_vanish_leave_nothing),
		cmocka_unit_test(those_who_wait_for_a_removed_task_are_told),
		cmocka_unit_test(random_requests_do_no_harm),
		cmocka_unit_test(a_second_request_of_one_who_waits_ends_the_wait),
		cmocka_unit_test(the_table_has_a_ceiling_and_drops_the_oldest_ended),
		cmocka_unit_test(tasks_that_run_are_never_dropped),
		cmocka_unit_test(queued_commands_have_a_ceiling_of_bytes),
		cmocka_unit_test(many_sessions_live_side_by_side),
		cmocka_unit_test(the_agent_survives_a_sandbox_without_processes_left),
		cmocka_unit_test(what_stands_in_the_place_of_fifos_is_not_followed),
		cmocka_unit_test(lies_about_output_are_faults),
	};

	if (!agentbox_possible()) {
		printf("skipped: needs root, busybox and build/caisson-init\n");
		return 77;
	}
	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests_name("hostile tasks", tests, box_up, box_end);
}
