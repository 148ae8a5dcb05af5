/*
 * lab_net.h - what the network tests share: a network of their own in the fake internet, sockets
 * that live in a lease, and the resolver process.
 */
#ifndef CAISSON_TEST_LAB_NET_H
#define CAISSON_TEST_LAB_NET_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "box/net.h"

#define LAB_WEB4    "93.184.216.34"
#define LAB_WEB6    "2606:2800:220:1::34"
#define LAB_FAST_US 150000 /* a refusal slower than this hangs clients */
#define LAB_WAIT_MS 3000

/* Re-executes the program inside tests/lib/fakenet.py unless it is there already. */
void lab_enter(char **argv);

struct lab {
	char run_dir[64];
	struct net_config cfg;
	struct net *net;
	const char *resolvers; /* NULL: those of the fake internet */
	pid_t resolver;
	int resolver_control;
};

/* Opens a network with a run directory and an instance of its own. */
void lab_open(struct lab *l);
void lab_close(struct lab *l);
void lab_keep(struct lab *l); /* closes as a restarting daemon does */
/* Teardown of every test: closes what a failed one left open. */
int lab_teardown(void **state);
#define lab_test(fn) cmocka_unit_test_teardown(fn, lab_teardown)
void lab_resolver_start(struct lab *l);
void lab_resolver_stop(struct lab *l);

/* A socket in the network namespace netns (-1: the caller's). */
int lab_socket(int netns, int family, int type, int protocol);
/* Connect (TCP) or send a datagram and wait for an answer (UDP); returns 0 or an errno. */
int lab_try(int netns, const char *ip, int port, bool tcp, int64_t *ret_us);
/* A connected TCP socket or -1. */
int lab_connect(int netns, const char *ip, int port);
/* A socket that has sent one datagram. */
int lab_datagram(int netns, const char *ip, int port);
/* A socket listening on ip:port in netns. */
int lab_listen(int netns, const char *ip, int port);
/* Sends text and reads the echo within LAB_WAIT_MS. */
bool lab_echo(int fd, const char *text);
/* Bytes that arrive within ms. */
long lab_drain(int fd, int ms);

/* Ask the resolver; returns the rcode or -1, the number of answers in ret_answers. */
struct lab_dns {
	int rcode, answers;
	bool truncated;
	long len;
};
bool lab_dns(int netns, const char *server, const char *name, int qtype, bool tcp,
	     struct lab_dns *ret);

/* Packets to forbidden addresses that reached the fake internet so far. */
long lab_forbidden(void);
/* Lines of the fake internet's log that hold text. */
int lab_logged(const char *text);
/* Run argv in a namespace (path); returns its exit code. */
int lab_run(const char *netns, const char *const *argv);
int lab_fds(void);
/* Tracked connections in the router. */
long lab_flows(const struct lab *l);

/* Claim a lease; fails the test otherwise. */
void lab_claim(struct net *n, uint32_t flags, struct net_lease *ret);
/* Until what was released is clean, and how many leases are ready, until the pool is full. */
void lab_wait_clean(struct net *n);
unsigned lab_pool_ready(struct net *n);
void lab_wait_full(struct net *n);

#endif
