/*
 * test_net.c - a sandbox's network from inside: what it reaches, what it never reaches, how fast
 * it is told, and that nothing stays behind. Runs beside a fake internet (tests/lib/fakenet.py).
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/ip.h>
#include <netinet/udp.h>
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
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/scope.h"
#include "lab_net.h"

static struct lab lab;

static void claim(uint32_t flags, struct net_lease *ret)
{
	struct err err = {0};

	if (net_claim(lab.net, flags, ret, &err) < 0)
		fail_msg("net_claim: %s", err.msg);
}

static void wait_clean(struct net *n)
{
	int64_t end = clock_mono_ms() + 10000;

	while (net_leftovers(n) != 0 && clock_mono_ms() < end)
		poll(NULL, 0, 20);
	assert_int_equal(net_leftovers(n), 0);
}

static void http_says(int netns, const char *ip, const char *who)
{
	static const char ask[] = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
	char buf[512] = "";
	int fd = lab_connect(netns, ip, 80);
	size_t got = 0;
	ssize_t n;

	assert_true(fd >= 0);
	assert_int_equal(send(fd, ask, strlen(ask), 0), strlen(ask));
	fcntl(fd, F_SETFL, 0);
	while ((n = recv(fd, buf + got, sizeof(buf) - 1 - got, 0)) > 0)
		got += (size_t)n;
	close(fd);
	if (!strstr(buf, who))
		fail_msg("%s answered \"%s\"", ip, buf);
}

static void egress_is_translated_on_both_families(void **state)
{
	struct net_lease l;

	(void)state;
	claim(0, &l);
	http_says(l.netns, LAB_WEB4, "from ::ffff:93.184.215.10\n");
	http_says(l.netns, LAB_WEB6, "from 2a00:1450:4001::10\n");
	assert_int_equal(lab_try(l.netns, LAB_WEB4, 7, false, NULL), 0);
	assert_int_equal(lab_try(l.netns, LAB_WEB6, 7, false, NULL), 0);
	net_release(lab.net, &l);
}

/* The first packet of a new lease must not wait for a tentative address. */
static void d20_ipv6_works_at_once(void **state)
{
	struct net_lease l;
	int64_t us;

	(void)state;
	claim(0, &l);
	assert_int_equal(lab_try(l.netns, LAB_WEB6, 80, true, &us), 0);
	assert_true(us < LAB_FAST_US);
	net_release(lab.net, &l);
}

static void resolver_answers_over_udp_and_tcp(void **state)
{
	struct net_lease l;
	struct lab_dns r;

	(void)state;
	claim(0, &l);
	for (int tcp = 0; tcp < 2; tcp++) {
		assert_true(lab_dns(l.netns, l.resolver4, "good.test", 1, tcp, &r));
		assert_int_equal(r.rcode, 0);
		assert_int_equal(r.answers, 1);
		assert_true(lab_dns(l.netns, l.resolver4, "good.test", 28, tcp, &r));
		assert_int_equal(r.answers, 1);
		assert_true(lab_dns(l.netns, l.resolver4, "none.test", 1, tcp, &r));
		assert_int_equal(r.rcode, 3);
	}
	assert_true(lab_dns(l.netns, l.resolver4, "big.test", 16, false, &r));
	assert_true(r.truncated);
	assert_true(lab_dns(l.netns, l.resolver4, "big.test", 16, true, &r));
	assert_false(r.truncated);
	assert_true(r.len > 3000);
	net_release(lab.net, &l);
}

static const char *const denied[] = {
	"10.1.2.3",
	"172.16.5.5",
	"192.168.1.1",
	"169.254.169.254",
	"169.254.9.9",
	"100.64.1.1",
	"100.100.100.200",
	"192.0.2.1",
	"198.51.100.1",
	"203.0.113.1",
	"192.88.99.1",
	"240.0.0.1",
	"0.1.2.3",
	"198.18.77.7",
	"169.254.1.1",
	"169.254.192.1",
	"fd00:ec2::254",
	"fd12:3456::1",
	"64:ff9b::a9fe:a9fe",
	"2002:a9fe:a9fe::1",
	"2001:db8::1",
	"fec0::1",
	"100::1",
	/* the host's own, public and not */
	"93.184.215.10",
	"2a00:1450:4001::10",
};

static void every_denied_range_refuses_fast(void **state)
{
	struct net_lease l;
	long before = lab_forbidden();
	int64_t us;

	(void)state;
	claim(0, &l);
	for (size_t i = 0; i < ARRAY_LEN(denied); i++) {
		for (int tcp = 0; tcp < 2; tcp++) {
			int e = lab_try(l.netns, denied[i], tcp ? 8080 : 7, tcp, &us);

			if (e == 0 || e == ETIMEDOUT || us > LAB_FAST_US)
				fail_msg("%s %s: %s after %ld us", denied[i], tcp ? "tcp" : "udp",
					 strerror(e), (long)us);
		}
	}
	assert_int_equal(lab_forbidden(), before);
	net_release(lab.net, &l);
}

/* Forms that never leave the sandbox's own stack, or lead nowhere: no answer may come. */
static void mapped_and_multicast_forms_reach_nothing(void **state)
{
	static const char *const form[] = {
		"::ffff:169.254.169.254", "::ffff:10.1.2.3", "ff02::1", "ff0e::1", "224.0.0.1",
		"255.255.255.255",	  "fe80::1",	     "fe80::2"};
	struct net_lease l;
	long before = lab_forbidden();

	(void)state;
	claim(0, &l);
	for (size_t i = 0; i < ARRAY_LEN(form); i++)
		assert_int_not_equal(lab_try(l.netns, form[i], 80, true, NULL), 0);
	assert_int_equal(lab_forbidden(), before);
	net_release(lab.net, &l);
}

static void siblings_are_unreachable(void **state)
{
	struct net_lease a, b;
	int fd4, fd6;
	int64_t us;

	(void)state;
	claim(0, &a);
	claim(0, &b);
	fd4 = lab_listen(b.netns, b.ip4, 9000);
	fd6 = lab_listen(b.netns, b.ip6, 9000);
	assert_int_equal(lab_try(a.netns, b.ip4, 9000, true, &us), ECONNREFUSED);
	assert_true(us < LAB_FAST_US);
	assert_int_equal(lab_try(a.netns, b.ip6, 9000, true, &us), ECONNREFUSED);
	assert_true(us < LAB_FAST_US);
	/* itself it reaches */
	assert_int_equal(lab_try(b.netns, b.ip4, 9000, true, NULL), 0);
	close(fd4);
	close(fd6);
	net_release(lab.net, &a);
	net_release(lab.net, &b);
}

/* Root of the host in the sandbox's namespace sends what root inside can't. */
static void send_spoofed(int netns, const char *from, const char *to, const char *text)
{
	struct {
		struct iphdr ip;
		struct udphdr udp;
		char text[32];
	} __attribute__((packed)) p = {0};
	struct sockaddr_in dst = {.sin_family = AF_INET};
	int fd = lab_socket(netns, AF_INET, SOCK_RAW, IPPROTO_RAW);

	p.ip.version = 4;
	p.ip.ihl = 5;
	p.ip.ttl = 9;
	p.ip.protocol = IPPROTO_UDP;
	p.ip.tot_len = htons(sizeof(p));
	inet_pton(AF_INET, from, &p.ip.saddr);
	inet_pton(AF_INET, to, &p.ip.daddr);
	p.udp.source = htons(1234);
	p.udp.dest = htons(9);
	p.udp.len = htons(sizeof(p.udp) + sizeof(p.text));
	snprintf(p.text, sizeof(p.text), "%s", text);
	dst.sin_addr.s_addr = p.ip.daddr;
	assert_int_equal(sendto(fd, &p, sizeof(p), 0, (struct sockaddr *)&dst, sizeof(dst)),
			 sizeof(p));
	close(fd);
}

static void wait_logged(const char *text)
{
	int64_t end = clock_mono_ms() + LAB_WAIT_MS;

	while (!lab_logged(text) && clock_mono_ms() < end)
		poll(NULL, 0, 10);
	assert_int_not_equal(lab_logged(text), 0);
}

static void spoofed_sources_are_dropped(void **state)
{
	struct net_lease a, b;

	(void)state;
	claim(0, &a);
	claim(0, &b);
	send_spoofed(a.netns, b.ip4, LAB_WEB4, "spoof-sibling");
	send_spoofed(a.netns, "93.184.216.99", LAB_WEB4, "spoof-public");
	send_spoofed(a.netns, "169.254.192.2", LAB_WEB4, "spoof-uplink");
	send_spoofed(a.netns, a.ip4, LAB_WEB4, "honest-one");
	wait_logged("honest-one");
	assert_int_equal(lab_logged("spoof-"), 0);
	net_release(lab.net, &a);
	net_release(lab.net, &b);
}

static void foreign_mac_is_dropped(void **state)
{
	struct net_lease a;
	char path[64];
	const char *const argv[] = {"ip", "link", "set", "eth0", "address", "02:cb:ff:ff:ff:01",
				    NULL};

	(void)state;
	claim(0, &a);
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)getpid(), a.netns);
	assert_int_equal(lab_run(path, argv), 0);
	assert_int_equal(lab_try(a.netns, LAB_WEB4, 80, true, NULL), ETIMEDOUT);
	net_release(lab.net, &a);
}

static void blocked_sandbox_has_no_egress_and_leaks_no_name(void **state)
{
	static const char *const to[] = {LAB_WEB4,  LAB_WEB6,	"9.9.9.9",
					 "8.8.8.8", "10.1.2.3", "93.184.215.10"};
	struct net_lease l;
	struct lab_dns r;
	int64_t us;

	(void)state;
	claim(NET_BLOCK, &l);
	for (size_t i = 0; i < ARRAY_LEN(to); i++) {
		for (int tcp = 0; tcp < 2; tcp++) {
			assert_int_not_equal(lab_try(l.netns, to[i], 53, tcp, &us), 0);
			assert_true(us < LAB_FAST_US);
		}
	}
	for (int tcp = 0; tcp < 2; tcp++) {
		assert_true(lab_dns(l.netns, l.resolver4, "d10-secret.test", 1, tcp, &r));
		assert_int_equal(r.rcode, 5);
	}
	assert_false(lab_dns(l.netns, "8.8.8.8", "d10-secret.test", 1, false, &r));
	assert_int_equal(lab_logged("d10-secret"), 0);
	/* Its own loopback works. */
	int fd = lab_listen(l.netns, "127.0.0.1", 80);
	assert_int_equal(lab_try(l.netns, "127.0.0.1", 80, true, NULL), 0);
	close(fd);
	net_release(lab.net, &l);
}

static void blocking_cuts_flows_and_unblocking_opens(void **state)
{
	struct net_lease l;
	struct err err = {0};
	struct lab_dns r;
	int fd;

	(void)state;
	claim(0, &l);
	fd = lab_connect(l.netns, LAB_WEB4, 19);
	assert_true(lab_drain(fd, 100) > 0);
	assert_int_equal(net_set_flags(lab.net, &l, NET_BLOCK, &err), 0);
	lab_drain(fd, 10);
	assert_int_equal(lab_drain(fd, 300), 0);
	close(fd);
	assert_int_equal(lab_try(l.netns, LAB_WEB4, 80, true, NULL), ECONNREFUSED);
	assert_true(lab_dns(l.netns, l.resolver4, "good.test", 1, false, &r));
	assert_int_equal(r.rcode, 5);
	assert_int_equal(net_set_flags(lab.net, &l, 0, &err), 0);
	assert_int_equal(lab_try(l.netns, LAB_WEB4, 80, true, NULL), 0);
	assert_true(lab_dns(l.netns, l.resolver4, "good.test", 1, false, &r));
	assert_int_equal(r.rcode, 0);
	net_release(lab.net, &l);
}

static void release_cuts_flows(void **state)
{
	struct net_lease l;
	int fd;

	(void)state;
	claim(0, &l);
	/* The socket keeps the namespace alive, as a process slow to die would. */
	fd = lab_connect(l.netns, LAB_WEB4, 19);
	assert_true(lab_drain(fd, 100) > 0);
	net_release(lab.net, &l);
	lab_drain(fd, 10);
	assert_int_equal(lab_drain(fd, 300), 0);
	close(fd);
	wait_clean(lab.net);
}

/* In a child without rights: bind port 80, then ping ip by an ordinary socket. */
static int unprivileged(int netns, const char *ip)
{
	static const uint8_t echo[8] = {8, 0, 0, 0, 0, 0, 0, 1};
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(80)};
	struct timeval patience = {.tv_sec = 2};
	uint8_t reply[64];
	int fd;

	if (setns(netns, CLONE_NEWNET) < 0 || setgid(4711) < 0 || setuid(4711) < 0)
		return 1;
	fd = socket(AF_INET, SOCK_STREAM, 0);
	if (bind(fd, (struct sockaddr *)&at, sizeof(at)) < 0)
		return 2;
	fd = socket(AF_INET, SOCK_DGRAM, IPPROTO_ICMP);
	if (fd < 0)
		return 3;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	inet_pton(AF_INET, ip, &at.sin_addr);
	if (sendto(fd, echo, sizeof(echo), 0, (struct sockaddr *)&at, sizeof(at)) < 0)
		return 4;
	return recv(fd, reply, sizeof(reply), 0) == sizeof(echo) && reply[0] == 0 ? 0 : 5;
}

static void ports_below_1024_and_ping_work_without_rights(void **state)
{
	static const char *const to[] = {LAB_WEB4, "169.254.1.1"};
	struct net_lease l;
	int status;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(to); i++) {
		claim(0, &l);
		pid_t pid = fork();

		if (pid == 0)
			_exit(unprivileged(l.netns, to[i]));
		waitpid(pid, &status, 0);
		assert_int_equal(WEXITSTATUS(status), 0);
		net_release(lab.net, &l);
	}
}

static int open_lab(void **state)
{
	(void)state;
	lab_open(&lab);
	lab_resolver_start(&lab);
	return 0;
}

static int close_lab(void **state)
{
	(void)state;
	lab_close(&lab);
	return 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(egress_is_translated_on_both_families),
		cmocka_unit_test(d20_ipv6_works_at_once),
		cmocka_unit_test(resolver_answers_over_udp_and_tcp),
		cmocka_unit_test(every_denied_range_refuses_fast),
		cmocka_unit_test(mapped_and_multicast_forms_reach_nothing),
		cmocka_unit_test(siblings_are_unreachable),
		cmocka_unit_test(spoofed_sources_are_dropped),
		cmocka_unit_test(foreign_mac_is_dropped),
		cmocka_unit_test(blocked_sandbox_has_no_egress_and_leaks_no_name),
		cmocka_unit_test(blocking_cuts_flows_and_unblocking_opens),
		cmocka_unit_test(release_cuts_flows),
		cmocka_unit_test(ports_below_1024_and_ping_work_without_rights),
	};

	lab_enter(argv);
	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests(tests, open_lab, close_lab);
}
