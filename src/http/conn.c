/*
 * conn.c - connections: who may come in, how long they may dawdle, how they end.
 *
 * libmicrohttpd only knows inactivity, which one byte a minute satisfies; the sweep here bounds a
 * whole request head and the rate of a body.
 */
#include "http/internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/clock.h"
#include "base/log.h"

int http_cond_init(pthread_cond_t *c)
{
	pthread_condattr_t attr;
	int rc;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	rc = pthread_cond_init(c, &attr);
	pthread_condattr_destroy(&attr);
	return rc;
}

int conn_registry_init(struct http_server *s, struct err *err)
{
	int rc = pthread_mutex_init(&s->lock, NULL);

	if (rc == 0)
		rc = http_cond_init(&s->changed);
	return rc ? err_errno(err, ERR_NOMEM, rc, "make a lock") : 0;
}

/* IPv4 addresses mapped into IPv6 are told as IPv4, so that one client has one name. */
void addr_text(const struct sockaddr *sa, char out[HTTP_ADDR_LEN])
{
	out[0] = '\0';
	if (sa->sa_family == AF_INET) {
		const struct sockaddr_in *in = (const struct sockaddr_in *)sa;

		inet_ntop(AF_INET, &in->sin_addr, out, HTTP_ADDR_LEN);
	} else if (sa->sa_family == AF_INET6) {
		const struct sockaddr_in6 *in = (const struct sockaddr_in6 *)sa;

		if (IN6_IS_ADDR_V4MAPPED(&in->sin6_addr))
			inet_ntop(AF_INET, in->sin6_addr.s6_addr + 12, out, HTTP_ADDR_LEN);
		else
			inet_ntop(AF_INET6, &in->sin6_addr, out, HTTP_ADDR_LEN);
	}
}

bool addr_is_spared(const struct http_server *s, const char *addr)
{
	if (!*addr || strncmp(addr, "127.", 4) == 0 || strcmp(addr, "::1") == 0)
		return true;
	for (size_t i = 0; i < s->ntrusted; i++)
		if (strcmp(addr, s->trusted[i]) == 0)
			return true;
	return false;
}

bool conn_admit(struct http_server *s, const char *addr, const char **ret_why)
{
	bool spared = addr_is_spared(s, addr);
	size_t same = 0;
	bool ok = true;

	pthread_mutex_lock(&s->lock);
	if (s->nconns >= s->max_connections) {
		*ret_why = "too many connections; raise max_connections";
		ok = false;
	}
	for (struct http_conn *c = s->conns; ok && !spared && c; c = c->next)
		same += strcmp(c->addr, addr) == 0;
	pthread_mutex_unlock(&s->lock);
	if (ok && same >= s->max_per_address) {
		*ret_why = "too many connections from this address; raise max_per_address";
		ok = false;
	}
	return ok;
}

static void conn_enter(struct http_server *s, struct MHD_Connection *m, void **ctx)
{
	const union MHD_ConnectionInfo *fd, *sa;
	struct http_conn *c = calloc(1, sizeof(*c));

	*ctx = c;
	if (!c)
		return;
	fd = MHD_get_connection_info(m, MHD_CONNECTION_INFO_CONNECTION_FD);
	sa = MHD_get_connection_info(m, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
	c->srv = s;
	c->fd = fd ? fd->connect_fd : -1;
	if (sa && sa->client_addr)
		addr_text(sa->client_addr, c->addr);
	atomic_store(&c->since_ms, clock_mono_ms());
	pthread_mutex_lock(&s->lock);
	c->next = s->conns;
	if (c->next)
		c->next->prev = c;
	s->conns = c;
	s->nconns++;
	pthread_mutex_unlock(&s->lock);
}

static void conn_leave(struct http_server *s, void **ctx)
{
	struct http_conn *c = *ctx;

	*ctx = NULL;
	if (!c)
		return;
	pthread_mutex_lock(&s->lock);
	if (c->prev)
		c->prev->next = c->next;
	else
		s->conns = c->next;
	if (c->next)
		c->next->prev = c->prev;
	s->nconns--;
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->lock);
	free(c);
}

void conn_notify(void *cls, struct MHD_Connection *m, void **ctx,
		 enum MHD_ConnectionNotificationCode code)
{
	if (code == MHD_CONNECTION_NOTIFY_STARTED)
		conn_enter(cls, m, ctx);
	else
		conn_leave(cls, ctx);
}

void conn_set_state(struct http_conn *c, enum conn_state state)
{
	if (state == CONN_IDLE || state == CONN_BODY)
		atomic_store(&c->since_ms, clock_mono_ms());
	if (state == CONN_BODY)
		atomic_store(&c->body_bytes, 0);
	atomic_store(&c->state, state);
}

static bool conn_dawdles(const struct http_server *s, struct http_conn *c, int64_t now_ms)
{
	int64_t age = now_ms - atomic_load(&c->since_ms);

	switch (atomic_load(&c->state)) {
	case CONN_IDLE:
		if (atomic_load(&s->stopping))
			return true;
		return age > (int64_t)s->idle_timeout_s * 1000;
	case CONN_HEAD:
		return age > (int64_t)s->idle_timeout_s * 1000;
	case CONN_BODY:
		return age > HTTP_BODY_RATE_MS &&
		       atomic_load(&c->body_bytes) < (uint64_t)age / 1000 * HTTP_BODY_RATE_BPS;
	default:
		return false;
	}
}

void conn_sweep(struct http_server *s, int64_t now_ms)
{
	pthread_mutex_lock(&s->lock);
	for (struct http_conn *c = s->conns; c; c = c->next)
		if (conn_dawdles(s, c, now_ms))
			shutdown(c->fd, SHUT_RDWR);
	pthread_mutex_unlock(&s->lock);
}

/*
 * Closing a socket with unread bytes sends a reset, which can overtake the reply. So end our
 * side and read on for a while.
 */
void conn_linger(struct http_conn *c)
{
	int64_t until = clock_mono_ms() + HTTP_LINGER_MS;
	char junk[16384];
	size_t total = 0;

	shutdown(c->fd, SHUT_WR);
	while (total < HTTP_LINGER_MAX) {
		struct pollfd p = {.fd = c->fd, .events = POLLIN};
		ssize_t n;

		if (poll(&p, 1, clock_left_ms(until)) <= 0)
			return;
		n = recv(c->fd, junk, sizeof(junk), MSG_DONTWAIT);
		if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN))
			return;
		if (n > 0)
			total += (size_t)n;
		if (clock_mono_ms() >= until)
			return;
	}
}

void conn_send_raw(struct http_conn *c, int status, const char *head, const char *body, size_t n)
{
	char top[1024];
	struct iovec iov[2] = {{.iov_base = top}, {.iov_base = (void *)body, .iov_len = n}};
	struct msghdr msg = {.msg_iov = iov, .msg_iovlen = 2};

	if (c->srv->tls)
		return;
	iov[0].iov_len =
		(size_t)snprintf(top, sizeof(top),
				 "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\n"
				 "Content-Length: %zu\r\nConnection: close\r\n%s\r\n",
				 status, MHD_get_reason_phrase_for((unsigned)status), n, head);
	iov[0].iov_len = MIN(iov[0].iov_len, sizeof(top) - 1);
	/* Short enough for an empty send buffer; a client that never reads gets what fits. */
	(void)!sendmsg(c->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
	conn_linger(c);
}
