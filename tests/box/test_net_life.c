/*
 * test_net_life.c - networks over the life of a daemon: restarts, adoption, kills, the host's
 * settings.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/in6.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/scope.h"
#include "box/net_int.h"
#include "lab_net.h"

/* A process that stands for a sandbox: it only holds the namespace. */
static pid_t holder_start(int netns, bool with_us)
{
	pid_t pid = fork();

	if (pid == 0) {
		if (with_us)
			prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (setns(netns, CLONE_NEWNET) < 0)
			_exit(1);
		closefrom(0);
		for (;;)
			pause();
	}
	return pid;
}

static void holder_stop(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static bool in_namespace(pid_t pid, int netns)
{
	char path[64], a[64] = "", b[64] = "";

	snprintf(path, sizeof(path), "/proc/%d/ns/net", (int)pid);
	if (readlink(path, a, sizeof(a) - 1) < 0)
		return false;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", netns);
	if (readlink(path, b, sizeof(b) - 1) < 0)
		return false;
	return !strcmp(a, b);
}

static pid_t holder_ready(int netns)
{
	pid_t pid = holder_start(netns, true);
	int64_t end = clock_mono_ms() + LAB_WAIT_MS;

	while (!in_namespace(pid, netns) && clock_mono_ms() < end)
		poll(NULL, 0, 1);
	assert_true(in_namespace(pid, netns));
	return pid;
}

static void restart_adopts_and_flows_live_on(void **state)
{
	struct lab lab = {0};
	struct net_lease kept, lost, got;
	struct err err = {0};
	pid_t pid, other;
	int fd;

	(void)state;
	lab_open(&lab);
	lab_claim(lab.net, 0, &kept);
	lab_claim(lab.net, 0, &lost);
	pid = holder_ready(kept.netns);
	other = holder_ready(lost.netns);
	fd = lab_connect(kept.netns, LAB_WEB4, 7);
	assert_true(lab_echo(fd, "before"));
	lab_keep(&lab);
	assert_true(lab_echo(fd, "nobody at home"));

	/* A start that fails before adoption takes nothing away. */
	lab_open(&lab);
	net_close(lab.net, false);
	assert_true(lab_echo(fd, "still there"));
	lab_open(&lab);
	assert_true(lab_echo(fd, "not adopted yet"));
	assert_int_equal(net_adopt(lab.net, kept.slot, pid, 0, &got, &err), 0);
	assert_string_equal(got.ip4, kept.ip4);
	assert_string_equal(got.ip6, kept.ip6);
	net_adopted(lab.net);
	assert_true(lab_echo(fd, "after"));
	assert_int_equal(lab_try(got.netns, LAB_WEB6, 80, true, NULL), 0);
	close(fd);
	lab_wait_clean(lab.net); /* the lease nobody adopted is gone, though its process lives */
	holder_stop(other);
	holder_stop(pid);
	net_release(lab.net, &got);
	lab_wait_clean(lab.net);
	lab_close(&lab);
}

/* An upgrade brings another text: the table is replaced under living flows. */
static void changed_table_takes_the_living_along(void **state)
{
	struct lab lab = {0};
	struct net_lease open, shut, got, got_shut;
	struct err err = {0};
	pid_t pid, pid_shut;
	int fd;

	(void)state;
	lab_open(&lab);
	lab_claim(lab.net, 0, &open);
	lab_claim(lab.net, NET_BLOCK, &shut);
	pid = holder_ready(open.netns);
	pid_shut = holder_ready(shut.netns);
	fd = lab_connect(open.netns, LAB_WEB4, 7);
	assert_true(lab_echo(fd, "old table"));
	lab_keep(&lab);
	lab.cfg.allow_ranges = "10.1.2.0/24";
	lab_open(&lab);
	assert_true(lab_echo(fd, "new table, not adopted yet"));
	assert_int_equal(net_adopt(lab.net, open.slot, pid, 0, &got, &err), 0);
	assert_int_equal(net_adopt(lab.net, shut.slot, pid_shut, NET_BLOCK, &got_shut, &err), 0);
	net_adopted(lab.net);
	assert_int_equal(lab_try(got.netns, "10.1.2.3", 80, true, NULL), 0);
	assert_int_equal(lab_try(got_shut.netns, "10.1.2.3", 80, true, NULL), ECONNREFUSED);
	assert_true(lab_echo(fd, "adopted"));
	close(fd);
	holder_stop(pid);
	holder_stop(pid_shut);
	net_release(lab.net, &got);
	net_release(lab.net, &got_shut);
	lab_wait_clean(lab.net);
	lab_close(&lab);
}

static void adoption_refuses_a_process_of_another_network(void **state)
{
	struct lab lab = {0};
	struct net_lease a, b, got;
	struct err err = {0};
	pid_t pid;

	(void)state;
	lab_open(&lab);
	lab_claim(lab.net, 0, &a);
	lab_claim(lab.net, 0, &b);
	pid = holder_ready(a.netns);
	lab_keep(&lab);
	lab_open(&lab);
	assert_int_equal(net_adopt(lab.net, b.slot, pid, 0, &got, &err), -1);
	assert_int_equal(err.code, ERR_CONFLICT);
	assert_int_equal(net_adopt(lab.net, a.slot, getpid(), 0, &got, &err), -1);
	assert_int_equal(err.code, ERR_CONFLICT);
	assert_int_equal(net_adopt(lab.net, 0, pid, 0, &got, &err), -1);
	assert_int_equal(err.code, ERR_INVALID);
	holder_stop(pid);
	assert_int_equal(net_adopt(lab.net, a.slot, pid, 0, &got, &err), -1);
	assert_int_equal(err.code, ERR_GONE);
	net_adopted(lab.net);
	lab_wait_clean(lab.net);
	lab_close(&lab);
}

struct shared {
	uint32_t slot;
	int ready;
};

/* The daemon of the next test: claims, leaves the pool full, and is killed. */
static void doomed(struct lab *lab, struct shared *s, int netns_out)
{
	struct net_lease l;
	struct err err = {0};
	char c = 'x';

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	lab->net = net_open(&lab->cfg, &err);
	if (!lab->net || net_claim(lab->net, NET_BLOCK, &l, &err) < 0)
		_exit(1);
	s->slot = l.slot;
	s->ready = holder_start(l.netns, false);
	while (!in_namespace(s->ready, l.netns))
		poll(NULL, 0, 1);
	if (write(netns_out, &c, 1) != 1)
		_exit(1);
	for (;;)
		pause();
}

static void killed_daemon_leaves_an_adoptable_router(void **state)
{
	struct shared *s =
		mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct lab lab = {0};
	struct net_lease got;
	struct err err = {0};
	int pipefd[2];
	pid_t pid;
	char c;

	(void)state;
	/* The first open and close only choose the instance. */
	lab_open(&lab);
	lab_close(&lab);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	assert_int_equal(pipe(pipefd), 0);
	pid = fork();
	if (pid == 0)
		doomed(&lab, s, pipefd[1]);
	close(pipefd[1]);
	assert_int_equal(read(pipefd[0], &c, 1), 1);
	close(pipefd[0]);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);

	lab_open(&lab);
	assert_int_equal(net_adopt(lab.net, s->slot, s->ready, NET_BLOCK, &got, &err), 0);
	net_adopted(lab.net);
	assert_int_equal(lab_try(got.netns, LAB_WEB4, 80, true, NULL), ECONNREFUSED);
	net_release(lab.net, &got);
	kill(s->ready, SIGKILL);
	waitpid(s->ready, NULL, 0);
	lab_wait_clean(lab.net);
	lab_close(&lab);
	munmap(s, sizeof(*s));
}

static void forward_set(const char *value4, const char *value6)
{
	char four[64], six[64];
	const char *const argv[] = {"sysctl", "-qw", four, six, NULL};

	snprintf(four, sizeof(four), "net.ipv4.ip_forward=%s", value4);
	snprintf(six, sizeof(six), "net.ipv6.conf.all.forwarding=%s", value6);
	assert_int_equal(lab_run(getenv("CAISSON_TEST_UPLINK"), argv), 0);
}

/* A host that doesn't forward must make clients fail at once, not hang. */
static void d20_host_without_forwarding_fails_fast(void **state)
{
	struct lab lab = {0};
	struct net_lease l;
	int64_t us;

	(void)state;
	forward_set("1", "0");
	lab_open(&lab);
	lab_claim(lab.net, 0, &l);
	assert_int_equal(lab_try(l.netns, LAB_WEB4, 80, true, NULL), 0);
	assert_int_equal(lab_try(l.netns, LAB_WEB6, 80, true, &us), ECONNREFUSED);
	assert_true(us < LAB_FAST_US);
	forward_set("1", "1");
	for (int i = 0; i < 300 && lab_try(l.netns, LAB_WEB6, 80, true, NULL) != 0; i++)
		poll(NULL, 0, 20);
	assert_int_equal(lab_try(l.netns, LAB_WEB6, 80, true, NULL), 0);
	net_release(lab.net, &l);
	lab_close(&lab);
}

static void operator_exception_opens_just_that_range(void **state)
{
	struct lab lab = {.cfg.allow_ranges = "10.1.2.0/24, fd12:3456::/64"};
	struct net_lease l;
	struct err err = {0};

	(void)state;
	lab_open(&lab);
	lab_claim(lab.net, 0, &l);
	assert_int_equal(lab_try(l.netns, "10.1.2.3", 80, true, NULL), 0);
	assert_int_equal(lab_try(l.netns, "fd12:3456::1", 80, true, NULL), 0);
	assert_int_equal(lab_try(l.netns, "172.16.5.5", 80, true, NULL), ECONNREFUSED);
	lab_keep(&lab);
	lab.cfg.allow_ranges = "10.1.2.0/33";
	assert_null(net_open(&lab.cfg, &err));
	assert_int_equal(err.code, ERR_INVALID);
	lab.cfg.allow_ranges = "nonsense";
	assert_null(net_open(&lab.cfg, &err));
	lab.cfg.allow_ranges = NULL;
	lab_open(&lab);
	net_adopted(lab.net);
	lab_wait_clean(lab.net);
	lab_close(&lab);
	close(l.netns);
}

/* The same without a default route outside: no packet could come back. */
static void uplink_without_default_route_fails_fast(void **state)
{
	static const char *const del[] = {"ip", "route", "del", "default", NULL};
	static const char *const add[] = {"ip",	 "route",	 "add", "default",
					  "via", "93.184.215.1", NULL};
	const char *uplink = getenv("CAISSON_TEST_UPLINK");
	struct lab lab = {0};
	struct net_lease l;
	int64_t us;
	int e;

	(void)state;
	assert_int_equal(lab_run(uplink, del), 0);
	lab_open(&lab);
	lab_claim(lab.net, 0, &l);
	e = lab_try(l.netns, LAB_WEB4, 80, true, &us);
	assert_int_equal(lab_run(uplink, add), 0);
	assert_int_equal(e, ECONNREFUSED);
	assert_true(us < LAB_FAST_US);
	net_release(lab.net, &l);
	lab_close(&lab);
}

/* One sandbox that opens all it can is stopped at its budget; its neighbour notices nothing. */
static void flows_of_one_sandbox_are_bounded(void **state)
{
	struct lab lab = {0};
	struct net_lease a, b;
	static int fd[6000];
	int64_t end;
	int opened = 0;

	(void)state;
	lab_open(&lab);
	lab_claim(lab.net, 0, &a);
	lab_claim(lab.net, 0, &b);
	memset(fd, -1, sizeof(fd));
	/* Datagrams: each new port is a flow, and none waits. */
	for (size_t i = 0; i < ARRAY_LEN(fd); i++) {
		fd[i] = lab_datagram(a.netns, LAB_WEB4, 7);
		if (i % 1000 == 999)
			poll(NULL, 0, 1000);
		opened++;
	}
	assert_int_equal(opened, ARRAY_LEN(fd));
	assert_in_range(lab_flows(&lab), 3000, 4200);
	assert_int_equal(lab_try(b.netns, LAB_WEB4, 80, true, NULL), 0);
	for (size_t i = 0; i < ARRAY_LEN(fd); i++)
		close(fd[i]);
	net_release(lab.net, &a);
	net_release(lab.net, &b);
	lab_wait_clean(lab.net);
	end = clock_mono_ms() + LAB_WAIT_MS;
	/* Forgotten, but for a closed connection that waits its ten seconds. */
	while (lab_flows(&lab) > 2 && clock_mono_ms() < end)
		poll(NULL, 0, 20);
	assert_in_range(lab_flows(&lab), 0, 2);
	lab_close(&lab);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		lab_test(restart_adopts_and_flows_live_on),
		lab_test(changed_table_takes_the_living_along),
		lab_test(adoption_refuses_a_process_of_another_network),
		lab_test(killed_daemon_leaves_an_adoptable_router),
		lab_test(d20_host_without_forwarding_fails_fast),
		lab_test(operator_exception_opens_just_that_range),
		lab_test(uplink_without_default_route_fails_fast),
		lab_test(flows_of_one_sandbox_are_bounded),
	};

	lab_enter(argv);
	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
