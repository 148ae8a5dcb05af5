/*
 * query.c - DNS over UDP: each query gets a socket, a port and an id of its own upstream.
 *
 * The socket is connected, so only the upstream's answers arrive, and the kernel picks a random
 * port for it: with the random id a blind forger has 32 bits to guess (RFC 5452). The reply goes
 * out of the socket the query came in by, so it comes from the address that was asked.
 */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/id.h"
#include "base/scope.h"
#include "net/role.h"

#define READ_BATCH 64 /* queries taken from the socket before other work gets a turn */

struct query {
	struct io io;	/* to the upstream */
	unsigned place; /* in role.query */
	struct source *source;
	struct sockaddr_storage from;
	socklen_t from_len;
	uint16_t id; /* upstream */
	unsigned tries, up;
	int64_t deadline_ms;
	struct dns_query q;
	size_t len;
	uint8_t msg[DNS_QUERY_MAX];
};

static void reply_to(struct role *r, const struct sockaddr_storage *to, socklen_t to_len,
		     const void *p, size_t n)
{
	/* A full socket buffer loses the reply, as a full network would; the client asks again. */
	sendto(r->udp.fd, p, n, MSG_DONTWAIT | MSG_NOSIGNAL, (const struct sockaddr *)to, to_len);
}

static void query_free(struct role *r, struct query *q)
{
	if (q->io.fd >= 0)
		close(q->io.fd);
	q->source->queries--;
	r->query[q->place] = r->query[--r->nqueries];
	r->query[q->place]->place = q->place;
	r->query[r->nqueries] = NULL;
	free(q);
}

static void query_fail(struct role *r, struct query *q, int rcode)
{
	uint8_t out[DNS_QUERY_MAX];

	reply_to(r, &q->from, q->from_len, out, dns_make_error(out, q->msg, &q->q, rcode));
	query_free(r, q);
}

static void query_answered(struct role *r, struct io *io, uint32_t events);

static int query_send(struct role *r, struct query *q)
{
	const struct upstream *up = &r->up[q->up % r->nups];

	if (q->io.fd >= 0)
		close(q->io.fd);
	q->io.fd = socket(up->addr.ss_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (q->io.fd < 0)
		return -1;
	id_random(&q->id, sizeof(q->id));
	dns_set_id(q->msg, q->id);
	q->deadline_ms = r->now_ms + UPSTREAM_TRY_MS;
	if (connect(q->io.fd, (const struct sockaddr *)&up->addr, up->len) < 0 ||
	    send(q->io.fd, q->msg, q->len, MSG_NOSIGNAL) != (ssize_t)q->len)
		return -1;
	return role_watch(r, &q->io, EPOLLIN, NULL);
}

/* Ask the next upstream, or give up. */
static void query_retry(struct role *r, struct query *q)
{
	while (q->tries < QUERY_TRIES && r->nups) {
		q->tries++;
		q->up++;
		if (query_send(r, q) == 0)
			return;
	}
	dns_set_id(q->msg, q->q.id);
	query_fail(r, q, DNS_SERVFAIL);
}

static void query_answered(struct role *r, struct io *io, uint32_t events)
{
	struct query *q = container_of(io, struct query, io);
	uint8_t buf[DNS_UDP_MAX + 1];
	ssize_t n = recv(io->fd, buf, sizeof(buf), 0);

	(void)events;
	if (n < 0) {
		if (errno != EAGAIN && errno != EINTR)
			query_retry(r, q); /* the upstream's port is closed */
		return;
	}
	dns_set_id(q->msg, q->id);
	if (n > DNS_UDP_MAX || !dns_reply_matches(buf, (size_t)n, q->id, q->msg, &q->q))
		return; /* not ours: the true answer may still come */
	r->current = q->up;
	if ((size_t)n > q->q.udp_size)
		n = (ssize_t)dns_truncate(buf, (size_t)n, &q->q);
	dns_set_id(buf, q->q.id);
	reply_to(r, &q->from, q->from_len, buf, (size_t)n);
	query_free(r, q);
}

static void query_start(struct role *r, const uint8_t *msg, size_t len, const struct dns_query *dq,
			const struct sockaddr_storage *from, socklen_t from_len,
			struct source *source)
{
	struct query *q = calloc(1, sizeof(*q));

	if (!q)
		return;
	*q = (struct query){.io = {-1, query_answered},
			    .place = r->nqueries,
			    .source = source,
			    .from = *from,
			    .from_len = from_len,
			    .up = r->current,
			    .tries = 1,
			    .q = *dq,
			    .len = len};
	memcpy(q->msg, msg, len);
	source->queries++;
	r->query[r->nqueries++] = q;
	if (!r->nups || query_send(r, q) < 0)
		query_retry(r, q);
}

static void query_take(struct role *r, const uint8_t *msg, size_t len,
		       const struct sockaddr_storage *from, socklen_t from_len)
{
	struct source *source = source_get(r, (const struct sockaddr *)from);
	struct dns_query q;
	uint8_t out[DNS_QUERY_MAX + DNS_HEADER];
	int rcode = dns_query_parse(msg, len, &q);

	if (rcode < 0 || !source || !source_pass(source, r->now_ms))
		return;
	if (rcode == DNS_NOERROR &&
	    !source_room(source->queries, SOURCE_QUERIES, r->nqueries, ROLE_QUERIES))
		rcode = DNS_SERVFAIL;
	if (rcode != DNS_NOERROR)
		reply_to(r, from, from_len, out, dns_make_error(out, msg, &q, rcode));
	else
		query_start(r, msg, len, &q, from, from_len, source);
}

void query_readable(struct role *r, struct io *io, uint32_t events)
{
	uint8_t buf[DNS_UDP_MAX];

	(void)events;
	resolv_refresh(r);
	for (int i = 0; i < READ_BATCH; i++) {
		struct sockaddr_storage from;
		socklen_t from_len = sizeof(from);
		ssize_t n = recvfrom(io->fd, buf, sizeof(buf), MSG_DONTWAIT | MSG_TRUNC,
				     (struct sockaddr *)&from, &from_len);

		if (n < 0)
			return;
		if (n <= (ssize_t)sizeof(buf))
			query_take(r, buf, (size_t)n, &from, from_len);
	}
}

void query_refuse_readable(struct role *r, struct io *io, uint32_t events)
{
	uint8_t buf[DNS_UDP_MAX], out[DNS_UDP_MAX];

	(void)events;
	(void)r;
	for (int i = 0; i < READ_BATCH; i++) {
		struct sockaddr_storage from;
		socklen_t from_len = sizeof(from);
		struct dns_query q;
		size_t len;
		ssize_t n = recvfrom(io->fd, buf, sizeof(buf), MSG_DONTWAIT | MSG_TRUNC,
				     (struct sockaddr *)&from, &from_len);

		if (n < 0)
			return;
		if (n > (ssize_t)sizeof(buf) || dns_query_parse(buf, (size_t)n, &q) < 0)
			continue;
		len = dns_make_error(out, buf, &q, DNS_REFUSED);
		sendto(io->fd, out, len, MSG_DONTWAIT | MSG_NOSIGNAL, (struct sockaddr *)&from,
		       from_len);
	}
}

void query_sweep(struct role *r)
{
	/* From the end: freeing one moves the last into its place. */
	for (unsigned i = r->nqueries; i-- > 0;)
		if (r->query[i]->deadline_ms <= r->now_ms)
			query_retry(r, r->query[i]);
}
