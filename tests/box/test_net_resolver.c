/*
 * test_net_resolver.c - the resolver under bad upstreams, forgers, floods and restarts.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/scope.h"
#include "lab_net.h"

#define FORGER_IP   "93.184.215.10" /* the fake host's own address */
#define FORGER_PORT 5399

static void claim(struct lab *lab, uint32_t flags, struct net_lease *ret)
{
	struct err err = {0};

	if (net_claim(lab->net, flags, ret, &err) < 0)
		fail_msg("net_claim: %s", err.msg);
}

/* An upstream that is gone answers by ICMP, and the next one is asked at once. */
static void dead_upstream_costs_nothing(void **state)
{
	struct lab lab = {.resolvers = FORGER_IP "#5398,9.9.9.9"};
	struct net_lease l;
	struct lab_dns r;
	int64_t start;

	(void)state;
	lab_open(&lab);
	lab_resolver_start(&lab);
	claim(&lab, 0, &l);
	for (int tcp = 0; tcp < 2; tcp++) {
		start = clock_mono_ms();
		assert_true(lab_dns(l.netns, l.resolver4, "good.test", 1, tcp, &r));
		assert_int_equal(r.answers, 1);
		assert_true(clock_mono_ms() - start < 500);
	}
	net_release(lab.net, &l);
	lab_close(&lab);
}

static void without_upstream_the_answer_is_servfail(void **state)
{
	struct lab lab = {.resolvers = FORGER_IP "#5398"};
	struct net_lease l;
	struct lab_dns r;

	(void)state;
	lab_open(&lab);
	lab_resolver_start(&lab);
	claim(&lab, 0, &l);
	for (int tcp = 0; tcp < 2; tcp++) {
		if (!lab_dns(l.netns, l.resolver4, "good.test", 1, tcp, &r))
			fail_msg("no answer over %s", tcp ? "TCP" : "UDP");
		assert_int_equal(r.rcode, 2);
	}
	net_release(lab.net, &l);
	lab_close(&lab);
}

/* Answers one query with three forged replies and then the true one. */
static void *forger(void *arg)
{
	int fd = *(int *)arg;
	uint8_t p[600];
	struct sockaddr_storage from;
	socklen_t len = sizeof(from);
	ssize_t n = recvfrom(fd, p, sizeof(p), 0, (struct sockaddr *)&from, &len);

	if (n < 12)
		return NULL;
	p[2] |= 0x80;
	p[3] = 3; /* NXDOMAIN marks the true one */
	for (int i = 0; i < 4; i++) {
		uint8_t lie[600];

		memcpy(lie, p, (size_t)n);
		lie[3] = i < 3 ? 0 : 3;
		lie[0] ^= (uint8_t)(i == 0);  /* wrong id */
		lie[13] ^= (uint8_t)(i == 1); /* another name */
		lie[2] ^= i == 2 ? 0x80 : 0;  /* no reply at all */
		sendto(fd, lie, (size_t)n, 0, (struct sockaddr *)&from, len);
	}
	return NULL;
}

static void forged_replies_are_ignored(void **state)
{
	struct lab lab = {.resolvers = FORGER_IP "#5399"};
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(FORGER_PORT)};
	struct net_lease l;
	struct lab_dns r;
	pthread_t t;
	int fd;

	(void)state;
	lab_open(&lab);
	lab_resolver_start(&lab);
	claim(&lab, 0, &l);
	fd = lab_socket(net_outside_fd(lab.net), AF_INET, SOCK_DGRAM, 0);
	inet_pton(AF_INET, FORGER_IP, &at.sin_addr);
	assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(pthread_create(&t, NULL, forger, &fd), 0);
	assert_true(lab_dns(l.netns, l.resolver4, "good.test", 1, false, &r));
	assert_int_equal(r.rcode, 3);
	pthread_join(t, NULL);
	close(fd);
	net_release(lab.net, &l);
	lab_close(&lab);
}

/* One sandbox asks as fast as it can, also for names that nobody answers. */
static void flood_of_one_sandbox_leaves_others_their_resolver(void **state)
{
	static const uint8_t slow[] = {0,   1,	 1,   0, 0,   1,   0,	0,   0, 0, 0, 0, 4, 's',
				       'l', 'o', 'w', 4, 't', 'e', 's', 't', 0, 0, 1, 0, 1};
	struct lab lab = {0};
	struct net_lease a, b;
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(53)};
	struct lab_dns r;
	int64_t start;
	int fd;

	(void)state;
	lab_open(&lab);
	lab_resolver_start(&lab);
	claim(&lab, 0, &a);
	claim(&lab, 0, &b);
	fd = lab_socket(a.netns, AF_INET, SOCK_DGRAM, 0);
	inet_pton(AF_INET, a.resolver4, &to.sin_addr);
	for (int i = 0; i < 5000; i++)
		sendto(fd, slow, sizeof(slow), MSG_DONTWAIT, (struct sockaddr *)&to, sizeof(to));
	start = clock_mono_ms();
	assert_true(lab_dns(b.netns, b.resolver4, "good.test", 1, false, &r));
	assert_int_equal(r.answers, 1);
	assert_true(lab_dns(b.netns, b.resolver4, "good.test", 1, true, &r));
	assert_true(clock_mono_ms() - start < 1000);
	close(fd);
	net_release(lab.net, &a);
	net_release(lab.net, &b);
	lab_close(&lab);
}

static void idle_tcp_clients_of_one_sandbox_leave_others_room(void **state)
{
	struct lab lab = {0};
	struct net_lease a, b;
	struct lab_dns r;
	int fd[400];

	(void)state;
	lab_open(&lab);
	lab_resolver_start(&lab);
	claim(&lab, 0, &a);
	claim(&lab, 0, &b);
	for (size_t i = 0; i < ARRAY_LEN(fd); i++)
		fd[i] = lab_connect(a.netns, a.resolver4, 53);
	assert_true(lab_dns(b.netns, b.resolver4, "good.test", 1, true, &r));
	assert_int_equal(r.answers, 1);
	for (size_t i = 0; i < ARRAY_LEN(fd); i++)
		if (fd[i] >= 0)
			close(fd[i]);
	net_release(lab.net, &a);
	net_release(lab.net, &b);
	lab_close(&lab);
}

static void restarted_resolver_serves_on_the_same_sockets(void **state)
{
	struct lab lab = {0};
	struct net_lease l;
	struct lab_dns r;

	(void)state;
	lab_open(&lab);
	lab_resolver_start(&lab);
	claim(&lab, 0, &l);
	assert_true(lab_dns(l.netns, l.resolver4, "good.test", 1, false, &r));
	lab_resolver_stop(&lab);
	lab_resolver_start(&lab);
	assert_true(lab_dns(l.netns, l.resolver4, "good.test", 28, true, &r));
	assert_int_equal(r.answers, 1);
	net_release(lab.net, &l);
	lab_close(&lab);
}

/* A daemon that starts while the resolver of the killed one still holds the address waits. */
static void new_daemon_gets_the_address_of_a_dying_resolver(void **state)
{
	struct lab lab = {0};
	struct net_lease l;
	struct lab_dns r;
	int old;
	pid_t old_pid;

	(void)state;
	lab_open(&lab);
	lab_resolver_start(&lab);
	old = lab.resolver_control;
	old_pid = lab.resolver;
	lab.resolver_control = -1;
	lab_keep(&lab);
	lab_open(&lab);
	close(old);
	lab_resolver_start(&lab);
	waitpid(old_pid, NULL, 0);
	claim(&lab, 0, &l);
	assert_true(lab_dns(l.netns, l.resolver4, "good.test", 1, false, &r));
	net_release(lab.net, &l);
	lab_close(&lab);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		lab_test(dead_upstream_costs_nothing),
		lab_test(without_upstream_the_answer_is_servfail),
		lab_test(forged_replies_are_ignored),
		lab_test(flood_of_one_sandbox_leaves_others_their_resolver),
		lab_test(idle_tcp_clients_of_one_sandbox_leave_others_room),
		lab_test(restarted_resolver_serves_on_the_same_sockets),
		lab_test(new_daemon_gets_the_address_of_a_dying_resolver),
	};

	lab_enter(argv);
	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
