/*
 * net_dns.c - the resolver's sockets, bound in the router for the process that serves them.
 *
 * The root process keeps them, so the resolver can be restarted without losing a query, and never
 * reads from them itself.
 */
#include "box/net_int.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

#define DNS_BACKLOG  128
#define DNS_RCVBUF   (4 << 20) /* the bursts that nft grants several sandboxes at once */
#define DNS_BIND_MS  3000      /* a killed daemon's resolver holds the address until it notices */
#define DNS_PAUSE_MS 20

static int dns_bind(int fd, const struct sockaddr_in *addr, struct err *err)
{
	const struct timespec pause = {.tv_nsec = DNS_PAUSE_MS * 1000000L};
	int64_t deadline = clock_mono_ms() + DNS_BIND_MS;

	while (bind(fd, (const struct sockaddr *)addr, sizeof(*addr)) < 0) {
		if (errno != EADDRINUSE || clock_mono_ms() > deadline)
			return err_errno(err, ERR_INTERNAL, errno, "bind resolver port %d",
					 ntohs(addr->sin_port));
		nanosleep(&pause, NULL);
	}
	return 0;
}

static int dns_socket(int type, unsigned port, struct err *err)
{
	struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
	auto_close int fd = socket(AF_INET, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int one = 1, room = DNS_RCVBUF;

	if (fd < 0)
		return err_errno(err, ERR_NOMEM, errno, "resolver socket");
	setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof(room));
	inet_pton(AF_INET, NET_RESOLVER4, &addr.sin_addr);
	if (type == SOCK_STREAM)
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (dns_bind(fd, &addr, err) < 0)
		return -1;
	if (type == SOCK_STREAM && listen(fd, DNS_BACKLOG) < 0)
		return err_errno(err, ERR_INTERNAL, errno, "listen on the resolver's port");
	return TAKE_FD(fd);
}

/* Runs in the router. */
static int dns_open(void *arg, struct err *err)
{
	static const struct {
		int type;
		unsigned port;
	} row[NET_DNS_FDS] = {
		{SOCK_DGRAM, NET_DNS_PORT},
		{SOCK_STREAM, NET_DNS_PORT},
		{SOCK_DGRAM, NET_REFUSE_PORT},
		{SOCK_STREAM, NET_REFUSE_PORT},
	};
	struct net *n = arg;

	for (size_t i = 0; i < NET_DNS_FDS; i++) {
		n->dns[i] = dns_socket(row[i].type, row[i].port, err);
		if (n->dns[i] < 0)
			return -1;
	}
	return 0;
}

int net_dns_fds(struct net *n, int ret[NET_DNS_FDS], struct err *err)
{
	int r = n->dns[0] < 0 ? net_in_ns(n->router, dns_open, n, err) : 0;

	if (r < 0) {
		for (size_t i = 0; i < NET_DNS_FDS; i++) {
			scope_close(&n->dns[i]);
			n->dns[i] = -1;
		}
		return -1;
	}
	memcpy(ret, n->dns, sizeof(n->dns));
	return 0;
}

int net_outside_fd(const struct net *n)
{
	return n->outside;
}
