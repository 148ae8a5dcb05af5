/*
 * lab_net.c - see lab_net.h. Also linked into the other tests of this folder, which ignore it.
 */
#include "lab_net.h"
#include "box/net_int.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
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
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/id.h"
#include "caisson/netrole.h"

void lab_enter(char **argv)
{
	char self[4096];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (getenv("CAISSON_TEST_UPLINK") || n < 0)
		return;
	self[n] = '\0';
	if (geteuid() != 0) {
		fprintf(stderr, "%s: needs root\n", argv[0]);
		exit(1);
	}
	execl(TEST_TOP "/tests/lib/fakenet.py", "fakenet.py", "--", self, argv[1], NULL);
	perror("run fakenet.py");
	exit(1);
}

/* A failed test jumps out of its frame, so what it has open is noted here. */
static struct {
	struct net *net;
	char run_dir[sizeof(((struct lab *)0)->run_dir)];
	int control;
	pid_t resolver;
} opened = {.control = -1};

void lab_open(struct lab *l)
{
	static char instance[9];
	struct err err = {0};

	if (!l->run_dir[0]) {
		id_hex(instance, 4);
		snprintf(l->run_dir, sizeof(l->run_dir), "%s/%s", getenv("CAISSON_TEST_DIR"),
			 instance);
		l->cfg.instance = instance;
		l->cfg.run_dir = l->run_dir;
		l->cfg.uplink_netns = getenv("CAISSON_TEST_UPLINK");
		l->resolver_control = -1;
	}
	l->net = net_open(&l->cfg, &err);
	if (!l->net)
		fail_msg("net_open: %s", err.msg);
	opened.net = l->net;
	memcpy(opened.run_dir, l->run_dir, sizeof(opened.run_dir));
}

void lab_keep(struct lab *l)
{
	opened.net = NULL;
	net_close(l->net, true);
	l->net = NULL;
}

void lab_close(struct lab *l)
{
	lab_resolver_stop(l);
	opened.net = NULL;
	net_close(l->net, false);
	l->net = NULL;
	rmdir(l->run_dir);
}

int lab_teardown(void **state)
{
	(void)state;
	if (opened.control >= 0) {
		close(opened.control);
		waitpid(opened.resolver, NULL, 0);
		opened.control = -1;
	}
	if (opened.net) {
		net_close(opened.net, false);
		rmdir(opened.run_dir);
		opened.net = NULL;
	}
	return 0;
}

static void resolver_child(struct lab *l, const int dns[NET_DNS_FDS], int control)
{
	const struct netrole_config cfg = {
		.control = control,
		.udp = dns[0],
		.tcp = dns[1],
		.refuse_udp = dns[2],
		.refuse_tcp = dns[3],
		.resolvers = l->resolvers ? l->resolvers : getenv("CAISSON_TEST_RESOLVERS"),
	};
	struct err err = {0};

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (setns(net_outside_fd(l->net), CLONE_NEWNET) < 0)
		_exit(9);
	/* Without an exec it would hold the pool's namespaces. */
	for (int fd = 3; fd < 4096; fd++)
		if (fd != control && fd != dns[0] && fd != dns[1] && fd != dns[2] && fd != dns[3])
			close(fd);
	_exit(netrole_main(&cfg, &err) < 0);
}

void lab_resolver_start(struct lab *l)
{
	int dns[NET_DNS_FDS], pair[2];
	struct err err = {0};

	if (net_dns_fds(l->net, dns, &err) < 0)
		fail_msg("net_dns_fds: %s", err.msg);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	l->resolver = fork();
	if (l->resolver == 0) {
		close(pair[0]);
		resolver_child(l, dns, pair[1]);
	}
	close(pair[1]);
	l->resolver_control = opened.control = pair[0];
	opened.resolver = l->resolver;
}

void lab_resolver_stop(struct lab *l)
{
	int status = -1;

	if (l->resolver_control < 0)
		return;
	/* The end of the control socket ends it: nothing else is sent. */
	close(l->resolver_control);
	l->resolver_control = opened.control = -1;
	waitpid(l->resolver, &status, 0);
	assert_int_equal(status, 0);
}

struct ns_socket {
	int netns, family, type, protocol, ret;
};

static void *ns_socket_thread(void *arg)
{
	struct ns_socket *s = arg;

	if (setns(s->netns, CLONE_NEWNET) == 0)
		s->ret = socket(s->family, s->type | SOCK_CLOEXEC, s->protocol);
	return NULL;
}

int lab_socket(int netns, int family, int type, int protocol)
{
	struct ns_socket s = {netns, family, type, protocol, -1};
	pthread_t t;

	if (netns < 0)
		return socket(family, type | SOCK_CLOEXEC, protocol);
	assert_int_equal(pthread_create(&t, NULL, ns_socket_thread, &s), 0);
	pthread_join(t, NULL);
	assert_true(s.ret >= 0);
	return s.ret;
}

static socklen_t lab_addr(const char *ip, int port, struct sockaddr_storage *ret)
{
	struct sockaddr_in *v4 = (struct sockaddr_in *)ret;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)ret;

	memset(ret, 0, sizeof(*ret));
	if (inet_pton(AF_INET, ip, &v4->sin_addr) == 1) {
		v4->sin_family = AF_INET;
		v4->sin_port = htons((uint16_t)port);
		return sizeof(*v4);
	}
	assert_int_equal(inet_pton(AF_INET6, ip, &v6->sin6_addr), 1);
	v6->sin6_family = AF_INET6;
	v6->sin6_port = htons((uint16_t)port);
	return sizeof(*v6);
}

/* Waits for events on a non-blocking socket; the socket's error, ETIMEDOUT or 0. */
static int wait_ready(int fd, short events)
{
	struct pollfd p = {.fd = fd, .events = events};
	int e = 0;
	socklen_t n = sizeof(e);

	if (poll(&p, 1, LAB_WAIT_MS) <= 0)
		return ETIMEDOUT;
	getsockopt(fd, SOL_SOCKET, SO_ERROR, &e, &n);
	return e;
}

static int open_to(int netns, const char *ip, int port, bool tcp, int *ret_errnum)
{
	struct sockaddr_storage to;
	socklen_t len = lab_addr(ip, port, &to);
	int fd = lab_socket(netns, to.ss_family, (tcp ? SOCK_STREAM : SOCK_DGRAM) | SOCK_NONBLOCK,
			    0);

	*ret_errnum = 0;
	if (connect(fd, (struct sockaddr *)&to, len) < 0)
		*ret_errnum = errno == EINPROGRESS ? wait_ready(fd, POLLOUT) : errno;
	return fd;
}

int lab_try(int netns, const char *ip, int port, bool tcp, int64_t *ret_us)
{
	int64_t start = clock_mono_us();
	int e, fd = open_to(netns, ip, port, tcp, &e);
	char c = 'x';

	if (!e && !tcp) {
		if (send(fd, &c, 1, 0) < 0)
			e = errno;
		else
			e = wait_ready(fd, POLLIN);
	}
	if (ret_us)
		*ret_us = clock_mono_us() - start;
	close(fd);
	return e;
}

int lab_connect(int netns, const char *ip, int port)
{
	int e, fd = open_to(netns, ip, port, true, &e);

	if (!e)
		return fd;
	close(fd);
	return -1;
}

int lab_datagram(int netns, const char *ip, int port)
{
	int e, fd = open_to(netns, ip, port, false, &e);

	send(fd, "x", 1, MSG_NOSIGNAL);
	return fd;
}

int lab_listen(int netns, const char *ip, int port)
{
	struct sockaddr_storage at;
	socklen_t len = lab_addr(ip, port, &at);
	int fd = lab_socket(netns, at.ss_family, SOCK_STREAM, 0);

	assert_int_equal(bind(fd, (struct sockaddr *)&at, len), 0);
	assert_int_equal(listen(fd, 8), 0);
	return fd;
}

bool lab_echo(int fd, const char *text)
{
	char buf[256];
	size_t want = strlen(text), got = 0;

	if (send(fd, text, want, MSG_NOSIGNAL) != (ssize_t)want)
		return false;
	while (got < want && wait_ready(fd, POLLIN) == 0) {
		ssize_t n = recv(fd, buf + got, want - got, 0);

		if (n <= 0)
			return false;
		got += (size_t)n;
	}
	return got == want && !memcmp(buf, text, want);
}

long lab_drain(int fd, int ms)
{
	int64_t end = clock_mono_ms() + ms;
	char buf[4096];
	long sum = 0;

	while (clock_mono_ms() < end) {
		struct pollfd p = {.fd = fd, .events = POLLIN};
		ssize_t n;

		if (poll(&p, 1, clock_left_ms(end)) <= 0)
			break;
		n = recv(fd, buf, sizeof(buf), MSG_DONTWAIT);
		if (n <= 0)
			break;
		sum += n;
	}
	return sum;
}

static size_t dns_make(uint8_t *p, const char *name, int qtype)
{
	static const uint8_t head[12] = {0x12, 0x34, 1, 0, 0, 1};
	size_t n = sizeof(head);

	memcpy(p, head, n);
	while (*name) {
		size_t len = strcspn(name, ".");

		p[n++] = (uint8_t)len;
		memcpy(p + n, name, len);
		n += len;
		name += len + (name[len] == '.');
	}
	p[n++] = 0;
	p[n++] = 0;
	p[n++] = (uint8_t)qtype;
	p[n++] = 0;
	p[n++] = 1;
	return n;
}

bool lab_dns(int netns, const char *server, const char *name, int qtype, bool tcp,
	     struct lab_dns *ret)
{
	uint8_t query[300], buf[8192];
	size_t len = dns_make(query + 2, name, qtype);
	int e, fd = open_to(netns, server, 53, tcp, &e);
	size_t skip = tcp ? 2 : 0, got = 0;

	query[0] = (uint8_t)(len >> 8);
	query[1] = (uint8_t)len;
	if (e || send(fd, query + 2 - skip, len + skip, MSG_NOSIGNAL) < 0) {
		close(fd);
		return false;
	}
	while (wait_ready(fd, POLLIN) == 0) {
		ssize_t n = recv(fd, buf + got, sizeof(buf) - got, 0);

		if (n <= 0)
			break;
		got += (size_t)n;
		if (!tcp || (got > 2 && got >= 2u + (buf[0] << 8 | buf[1])))
			break;
	}
	close(fd);
	if (got < skip + 12 || memcmp(buf + skip, query + 2, 2) != 0)
		return false;
	ret->rcode = buf[skip + 3] & 15;
	ret->answers = buf[skip + 6] << 8 | buf[skip + 7];
	ret->truncated = buf[skip + 2] & 2;
	ret->len = (long)(got - skip);
	return true;
}

int lab_run(const char *netns, const char *const *argv)
{
	char option[64];
	const char *full[32] = {"nsenter", option};
	int status = -1;
	size_t n = 2;
	pid_t pid;

	snprintf(option, sizeof(option), "--net=%s", netns);
	while (*argv && n < 31)
		full[n++] = *argv++;
	pid = fork();
	if (pid == 0) {
		execvp(full[0], (char *const *)full);
		_exit(127);
	}
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

long lab_forbidden(void)
{
	char command[256], line[256];
	long packets = -1;
	FILE *f;

	snprintf(command, sizeof(command), "nsenter --net=%s nft list counter inet watch forbidden",
		 getenv("CAISSON_TEST_INET"));
	f = popen(command, "r");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		const char *p = strstr(line, "packets ");

		if (p)
			packets = strtol(p + 8, NULL, 10);
	}
	pclose(f);
	return packets;
}

int lab_logged(const char *text)
{
	FILE *f = fopen(getenv("CAISSON_TEST_LOG"), "re");
	char line[512];
	int n = 0;

	assert_non_null(f);
	while (fgets(line, sizeof(line), f))
		n += strstr(line, text) != NULL;
	fclose(f);
	return n;
}

int lab_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	int n = 0;

	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

static void *flows_thread(void *arg)
{
	const struct lab *l = ((void **)arg)[0];
	long *ret = ((void **)arg)[1];
	char path[128], text[32] = "";
	int fd;

	snprintf(path, sizeof(path), "%s/router.ns", l->run_dir);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (setns(fd, CLONE_NEWNET) == 0) {
		close(fd);
		fd = open("/proc/sys/net/netfilter/nf_conntrack_count", O_RDONLY | O_CLOEXEC);
		if (read(fd, text, sizeof(text) - 1) > 0)
			*ret = strtol(text, NULL, 10);
	}
	close(fd);
	return NULL;
}

long lab_flows(const struct lab *l)
{
	long n = -1;
	void *arg[2] = {(void *)l, &n};
	pthread_t t;

	assert_int_equal(pthread_create(&t, NULL, flows_thread, arg), 0);
	pthread_join(t, NULL);
	return n;
}

/* ---- leases and the pool ---- */

void lab_claim(struct net *n, uint32_t flags, struct net_lease *ret)
{
	struct err err = {0};

	if (net_claim(n, flags, ret, &err) < 0)
		fail_msg("net_claim: %s", err.msg);
}

void lab_wait_clean(struct net *n)
{
	int64_t end = clock_mono_ms() + 20000;

	while (net_leftovers(n) != 0 && clock_mono_ms() < end)
		poll(NULL, 0, 20);
	assert_int_equal(net_leftovers(n), 0);
}

unsigned lab_pool_ready(struct net *n)
{
	unsigned ready;

	pthread_mutex_lock(&n->lock);
	ready = n->nready;
	pthread_mutex_unlock(&n->lock);
	return ready;
}

void lab_wait_full(struct net *n)
{
	int64_t end = clock_mono_ms() + 60000;

	while (lab_pool_ready(n) < n->pool && clock_mono_ms() < end)
		poll(NULL, 0, 5);
	assert_in_range(lab_pool_ready(n), n->pool, n->pool + n->pool / 4);
}
