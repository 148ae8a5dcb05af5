/*
 * test_net_pool.c - claims and releases of networks: what a pool gives, and what never comes back.
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

#define MANY 1000

static int long_cmp(const void *a, const void *b)
{
	long x = *(const long *)a, y = *(const long *)b;

	return (x > y) - (x < y);
}

static void figure(const char *what, long *us, int n)
{
	qsort(us, (size_t)n, sizeof(*us), long_cmp);
	print_message("[ FIGURE   ] %s: p50 %ld us, p99 %ld us, n %d\n", what, us[n / 2],
		      us[n * 99 / 100], n);
}

static void d31_thousand_claims_and_releases_leave_nothing(void **state)
{
	struct lab lab = {.cfg.pool = 64};
	static struct net_lease l[MANY];
	static long us[MANY];
	int64_t start, t;
	int fds;

	(void)state;
	lab_open(&lab);
	lab_wait_full(lab.net);
	fds = lab_fds();
	start = clock_mono_us();
	for (int i = 0; i < MANY; i++)
		lab_claim(lab.net, 0, &l[i]);
	t = clock_mono_us() - start;
	print_message("[ FIGURE   ] refill: %ld leases a second\n", MANY * 1000000L / (long)t);
	assert_int_equal(lab_try(l[0].netns, LAB_WEB4, 80, true, NULL), 0);
	assert_int_equal(lab_try(l[MANY - 1].netns, LAB_WEB6, 80, true, NULL), 0);
	assert_int_equal(lab_try(l[MANY / 2].netns, l[3].ip4, 80, true, NULL), ECONNREFUSED);
	assert_true(lab_fds() <= fds + MANY + 64);
	/* With a thousand alive and the pool full again: what one claim costs. */
	for (int i = 0; i < 200; i++) {
		net_release(lab.net, &l[i]);
		lab_wait_full(lab.net);
		t = clock_mono_us();
		lab_claim(lab.net, 0, &l[i]);
		us[i] = (long)(clock_mono_us() - t);
	}
	figure("claim at 1000 live", us, 200);
	for (int i = 0; i < MANY; i++) {
		t = clock_mono_us();
		net_release(lab.net, &l[i]);
		us[i] = (long)(clock_mono_us() - t);
	}
	figure("release", us, MANY);
	t = clock_mono_ms();
	lab_wait_clean(lab.net);
	print_message("[ FIGURE   ] 1000 released and gone after %ld ms\n",
		      (long)(clock_mono_ms() - t));
	lab_wait_full(lab.net);
	assert_true(lab_fds() <= fds + 2 + (int)lab.net->pool / 4);
	lab_close(&lab);
}

/* Speed is the benchmark's business; what makes it is that a claim only takes what is there. */
static void claim_takes_a_ready_lease_and_makes_none(void **state)
{
	struct lab lab = {.cfg.pool = 32};
	struct net_lease l;
	static long us[300];

	(void)state;
	lab_open(&lab);
	for (int i = 0; i < 300; i++) {
		unsigned before;
		int64_t t;

		lab_wait_full(lab.net);
		before = lab_pool_ready(lab.net);
		t = clock_mono_us();
		lab_claim(lab.net, 0, &l);
		us[i] = (long)(clock_mono_us() - t);
		assert_in_range(lab_pool_ready(lab.net), before - 1, before);
		net_release(lab.net, &l);
	}
	figure("claim", us, 300);
	lab_close(&lab);
}

/* Does the slot come back while the whole pool is claimed and given back once? */
static bool slot_comes_back(struct net *n, uint32_t slot)
{
	struct net_lease l[5]; /* what a pool of four may hold */
	bool found = false;

	lab_wait_clean(n);
	lab_wait_full(n);
	for (size_t i = 0; i < ARRAY_LEN(l); i++) {
		lab_claim(n, 0, &l[i]);
		found = found || l[i].slot == slot;
	}
	for (size_t i = 0; i < ARRAY_LEN(l); i++)
		net_release(n, &l[i]);
	return found;
}

static void lease_nobody_used_is_claimed_again(void **state)
{
	struct lab lab = {.cfg.pool = 4};
	struct net_lease l;
	uint32_t slot;

	(void)state;
	lab_open(&lab);
	lab_wait_full(lab.net);
	lab_claim(lab.net, 0, &l);
	slot = l.slot;
	net_release(lab.net, &l);
	assert_true(slot_comes_back(lab.net, slot));
	/* It still is a network, opened and shut as any other. */
	lab_wait_full(lab.net);
	lab_claim(lab.net, NET_BLOCK, &l);
	assert_int_equal(lab_try(l.netns, LAB_WEB4, 80, true, NULL), ECONNREFUSED);
	net_release(lab.net, &l);
	lab_wait_clean(lab.net);
	lab_close(&lab);
}

/* Is the maker not sure yet about some lease? */
static bool looked_at(struct net *n)
{
	bool unsure;

	pthread_mutex_lock(&n->lock);
	unsure = n->nreturned > 0;
	pthread_mutex_unlock(&n->lock);
	return unsure;
}

static int held = -1; /* what a use leaves open */

static void use_uplink(const struct net_lease *l)
{
	assert_int_equal(lab_try(l->netns, LAB_WEB4, 80, true, NULL), 0);
}

static void use_refused(const struct net_lease *l)
{
	assert_int_equal(lab_try(l->netns, "10.1.1.1", 80, true, NULL), ECONNREFUSED);
}

static void use_datagram6(const struct net_lease *l)
{
	close(lab_datagram(l->netns, LAB_WEB6, 7));
}

static void use_loopback(const struct net_lease *l)
{
	assert_int_equal(lab_try(l->netns, "127.0.0.1", 80, true, NULL), ECONNREFUSED);
}

static void use_unroutable(const struct net_lease *l)
{
	int s = lab_socket(l->netns, AF_INET6, SOCK_DGRAM, 0);
	struct sockaddr_in6 to = {.sin6_family = AF_INET6, .sin6_port = 7, .sin6_scope_id = 1};

	to.sin6_addr.s6_addr[0] = 0xfe;
	to.sin6_addr.s6_addr[1] = 0x80;
	sendto(s, "x", 1, 0, (struct sockaddr *)&to, sizeof(to));
	close(s);
}

static void use_open_socket(const struct net_lease *l)
{
	held = lab_socket(l->netns, AF_UNIX, SOCK_STREAM, 0);
}

static void use_flow_label(const struct net_lease *l)
{
	int s = lab_socket(l->netns, AF_INET6, SOCK_DGRAM, 0);
	struct in6_flowlabel_req req = {.flr_action = IPV6_FL_A_GET,
					.flr_share = IPV6_FL_S_ANY,
					.flr_flags = IPV6_FL_F_CREATE,
					.flr_label = htonl(0x12345),
					.flr_linger = 6};

	inet_pton(AF_INET6, LAB_WEB6, &req.flr_dst);
	assert_int_equal(setsockopt(s, IPPROTO_IPV6, IPV6_FLOWLABEL_MGR, &req, sizeof(req)), 0);
	close(s);
}

/* Each leaves a trace that a successor could read, or something that could still reach it. */
static void lease_somebody_used_never_comes_back(void **state)
{
	static void (*const use[])(const struct net_lease *l) = {
		use_uplink,	use_refused,	 use_datagram6,	 use_loopback,
		use_unroutable, use_open_socket, use_flow_label,
	};
	struct lab lab = {.cfg.pool = 4};

	(void)state;
	lab_open(&lab);
	for (size_t i = 0; i < ARRAY_LEN(use); i++) {
		struct net_lease l;
		uint32_t slot;

		lab_wait_full(lab.net);
		lab_claim(lab.net, 0, &l);
		slot = l.slot;
		use[i](&l);
		net_release(lab.net, &l);
		/* While it is open the namespace can't go, and isn't given to anybody. */
		while (held >= 0 && looked_at(lab.net))
			poll(NULL, 0, 10);
		if (held >= 0)
			close(held);
		held = -1;
		if (slot_comes_back(lab.net, slot))
			fail_msg("use %zu shows to the next one", i);
	}
	lab_wait_clean(lab.net);
	lab_close(&lab);
}

struct burst {
	struct net *n;
	struct net_lease l;
	long us;
	int ret;
};

static void *burst_thread(void *arg)
{
	struct burst *b = arg;
	int64_t t = clock_mono_us();

	b->ret = net_claim(b->n, 0, &b->l, NULL);
	b->us = (long)(clock_mono_us() - t);
	return NULL;
}

static void burst_of_a_hundred_succeeds(void **state)
{
	struct lab lab = {0};
	static struct burst b[100];
	static long us[100];
	pthread_t t[100];

	(void)state;
	lab_open(&lab);
	for (int i = 0; i < 100; i++) {
		b[i] = (struct burst){.n = lab.net};
		assert_int_equal(pthread_create(&t[i], NULL, burst_thread, &b[i]), 0);
	}
	for (int i = 0; i < 100; i++) {
		pthread_join(t[i], NULL);
		assert_int_equal(b[i].ret, 0);
		us[i] = b[i].us;
	}
	figure("claim in a burst of 100", us, 100);
	assert_int_equal(lab_try(b[99].l.netns, LAB_WEB4, 80, true, NULL), 0);
	for (int i = 0; i < 100; i++)
		net_release(lab.net, &b[i].l);
	lab_wait_clean(lab.net);
	lab_close(&lab);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		lab_test(claim_takes_a_ready_lease_and_makes_none),
		lab_test(lease_nobody_used_is_claimed_again),
		lab_test(lease_somebody_used_never_comes_back),
		lab_test(burst_of_a_hundred_succeeds),
		lab_test(d31_thousand_claims_and_releases_leave_nothing),
	};

	lab_enter(argv);
	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
