/*
 * listen.c - the daemon's listening socket, bound by root and inherited by the api process.
 */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/log.h"
#include "main/config_check.h"
#include "main/roles.h"

#define LISTEN_BACKLOG	1024
#define LISTEN_BIND_MS	3000 /* how long a killed predecessor's api process may hold the address */
#define LISTEN_PAUSE_US 20000

static int listen_one(const struct addrinfo *ai, const char *text, struct err *err)
{
	auto_close int fd = socket(ai->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int on = 1;

	if (fd < 0)
		return err_errno(err, ERR_INTERNAL, errno, "listen: socket");
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)); /* inherited by accept */
	/* The api process of a killed predecessor holds the socket until it has seen the end. */
	for (int64_t deadline = clock_mono_ms() + LISTEN_BIND_MS;;) {
		if (bind(fd, ai->ai_addr, ai->ai_addrlen) == 0 && listen(fd, LISTEN_BACKLOG) == 0)
			return TAKE_FD(fd);
		if (errno != EADDRINUSE || clock_left_ms(deadline) == 0)
			return err_errno(err, ERR_INVALID, errno, "listen: bind %s", text);
		usleep(LISTEN_PAUSE_US);
	}
}

int listen_open(const char *text, struct err *err)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
	struct addrinfo *list = NULL;
	char host[256], port[16];
	int fd, rc;

	if (config_listen_split(text, host, port, err) < 0)
		return -1;
	rc = getaddrinfo(*host ? host : NULL, port, &hints, &list);
	if (rc != 0)
		return err_set(err, ERR_INVALID, "listen: %s: %s", text, gai_strerror(rc));
	fd = listen_one(list, text, err);
	freeaddrinfo(list);
	return fd;
}

void listen_say(int fd)
{
	struct sockaddr_storage ss;
	socklen_t n = sizeof(ss);
	char host[NI_MAXHOST], port[NI_MAXSERV];

	if (getsockname(fd, (struct sockaddr *)&ss, &n) == 0 &&
	    getnameinfo((struct sockaddr *)&ss, n, host, sizeof(host), port, sizeof(port),
			NI_NUMERICHOST | NI_NUMERICSERV) == 0)
		log_info("listening on %s port %s", host, port);
}
