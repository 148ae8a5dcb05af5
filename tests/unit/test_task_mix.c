/*
 * Many clients that do anything to the same few tasks, in any order, and hang
 * up at any moment: the agent lives, and afterwards nothing is left.
 */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/call.h"
#include "base/clock.h"
#include "unit/taskbox.h"

#define CLIENTS 12
#define IDS	10
#define MIX_MS	4000

static struct agentbox box;

struct client {
	pthread_t thread;
	unsigned seed;
	int64_t end_ms;
	size_t done, unreached;
};

static const char *const text[] = {"echo hi",
				   "sleep 0.05",
				   "yes | head -c 300000",
				   "exit 3",
				   "cat",
				   "sleep 5",
				   "kill -9 $$",
				   "(sleep 0.2; echo l) &",
				   "trap '' TERM; sleep 3",
				   "read a; echo $a",
				   "seq 1 3000 >&2; seq 300",
				   "setsid sleep 1 & echo x",
				   "while :; do :; done"};

static const uint16_t verb[] = {AGENT_TASK_START,  AGENT_TASK_START,  AGENT_TASK_EXEC,
				AGENT_TASK_EXEC,   AGENT_TASK_EXEC,   AGENT_TASK_LIST,
				AGENT_TASK_READ,   AGENT_TASK_READ,   AGENT_TASK_WRITE,
				AGENT_TASK_SIGNAL, AGENT_TASK_RESIZE, AGENT_TASK_KILL,
				AGENT_TASK_REMOVE, AGENT_TASK_GET,    AGENT_TASK_ATTACH};

static unsigned dice(struct client *c, unsigned sides)
{
	return (unsigned)rand_r(&c->seed) % sides;
}

static void request_make(struct client *c, struct agent_req *r, const char **argv)
{
	static const uint8_t data[60000];

	r->verb = verb[dice(c, ARRAY_LEN(verb))];
	r->text = argv[0] = text[dice(c, ARRAY_LEN(text))];
	r->user = dice(c, 3) ? "" : "dev";
	r->kind = r->verb == AGENT_TASK_START ? 1 + dice(c, 5) : 0;
	r->argv = (struct agent_strv){argv, r->kind != TASK_SESSION};
	r->flags = r->kind != TASK_SESSION ? SPAWN_SHELL : 0;
	r->tflags = r->kind != TASK_SESSION && r->kind != TASK_PTY ? dice(c, 16) : 0;
	r->timeout_ms = dice(c, 4) ? 0 : 1 + dice(c, 300);
	r->streams = dice(c, 4) << 1;
	r->follow = dice(c, 2);
	r->out_from = dice(c, 3) ? 0 : TASK_TAIL;
	r->data = (struct agent_bytes){data, dice(c, sizeof(data))};
	r->eof = dice(c, 3) == 0;
	r->sig = 1 + dice(c, 31);
	r->tree = dice(c, 2);
	r->grace_ms = dice(c, 200);
}

/* Some replies, or none: then the client has gone. */
static void replies_take(struct client *c, int sock)
{
	for (unsigned n = dice(c, 6); n; n--) {
		auto_reply struct agent_reply r = {.nfds = 0};

		if (agent_call_recv(sock, &r, clock_mono_ms() + 1 + dice(c, 100), NULL) < 0 ||
		    r.type == AGENT_OK)
			return;
	}
}

static void *client_main(void *arg)
{
	struct client *c = arg;

	while (clock_mono_ms() < c->end_ms) {
		char id[8], parent[8];
		const char *argv[2] = {NULL};
		struct agent_req r = {.id = id, .parent = parent};
		auto_close int sock = agent_call_open(box.sock, clock_mono_ms() + 5000, NULL);

		snprintf(id, sizeof(id), "i%u", dice(c, IDS));
		snprintf(parent, sizeof(parent), "i%u", dice(c, IDS));
		request_make(c, &r, argv);
		if (sock < 0 || agent_call_send(sock, &r, clock_mono_ms() + 5000, NULL) < 0)
			c->unreached++;
		else
			replies_take(c, sock);
		c->done++;
	}
	return NULL;
}

static void any_order_of_operations_leaves_nothing(void **state)
{
	struct client c[CLIENTS];
	size_t done = 0, fds = taskbox_fds(&box);
	char id[8];

	(void)state;
	for (unsigned i = 0; i < CLIENTS; i++) {
		c[i] = (struct client){.seed = i + 1, .end_ms = clock_mono_ms() + MIX_MS};
		assert_int_equal(pthread_create(&c[i].thread, NULL, client_main, &c[i]), 0);
	}
	for (size_t i = 0; i < CLIENTS; i++) {
		pthread_join(c[i].thread, NULL);
		assert_int_equal(c[i].unreached, 0);
		done += c[i].done;
	}
	assert_true(done > 100);
	assert_int_equal(agent_hello(box.sock, clock_mono_ms() + 5000, NULL), 0);
	for (int i = 0; i < IDS; i++) {
		snprintf(id, sizeof(id), "i%d", i);
		agent_task_remove(box.sock, id, NULL);
	}
	agent_term(box.sock, 5000, NULL); /* what ended tasks left behind */
	taskbox_empty(&box);
	assert_int_equal(agentbox_processes(&box, true), 0);
	taskbox_fds_at_most(&box, fds + 1); /* the directory of FIFOs stays open */
	assert_true(taskbox_rss_kib(&box) < 2048);
}

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(any_order_of_operations_leaves_nothing),
	};

	if (!agentbox_possible()) {
		printf("skipped: needs root, busybox and build/caisson-init\n");
		return 77;
	}
	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests_name("mixed tasks", tests, box_up, box_end);
}
