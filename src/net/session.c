/*
 * session.c - DNS over TCP: one query of a client at a time, each over a connection upstream.
 *
 *   READ_QUERY ─whole─► ASK ─sent─► READ_REPLY ─whole─► WRITE_REPLY ─sent─► READ_QUERY
 *       └─ refused, malformed ───────────────────────────────┘
 *
 * Both sockets are edge-triggered: session_run goes on until the kernel says EAGAIN.
 */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/id.h"
#include "base/scope.h"
#include "net/role.h"

#define PREFIX 2 /* length in front of every message */

enum session_state { READ_QUERY, ASK, READ_REPLY, WRITE_REPLY };

struct session {
	struct io client, up;
	unsigned place;
	struct source *source;
	bool refuse;
	enum session_state state;
	int64_t deadline_ms;
	unsigned queries, tries, at;
	uint16_t id;
	struct dns_query q;
	size_t query_len, reply_len, done; /* lengths include the prefix; done: bytes moved */
	uint8_t query[PREFIX + DNS_QUERY_MAX];
	uint8_t reply[PREFIX + DNS_MESSAGE_MAX];
};

static size_t prefix_get(const uint8_t *p)
{
	return (size_t)p[0] << 8 | p[1];
}

static void prefix_put(uint8_t *p, size_t n)
{
	p[0] = (uint8_t)(n >> 8);
	p[1] = (uint8_t)n;
}

static void up_close(struct session *s)
{
	if (s->up.fd >= 0)
		close(s->up.fd);
	s->up.fd = -1;
}

static void session_free(struct role *r, struct session *s)
{
	up_close(s);
	close(s->client.fd);
	s->source->sessions--;
	r->session[s->place] = r->session[--r->nsessions];
	r->session[s->place]->place = s->place;
	r->session[r->nsessions] = NULL;
	free(s);
}

/* Read towards want bytes. 1: there; 0: not yet; -1: end or error. */
static int pull(int fd, uint8_t *p, size_t *done, size_t want)
{
	while (*done < want) {
		ssize_t n = recv(fd, p + *done, want - *done, MSG_DONTWAIT);

		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return 0;
		if (n <= 0)
			return -1;
		*done += (size_t)n;
	}
	return 1;
}

static int push(int fd, const uint8_t *p, size_t *done, size_t want)
{
	while (*done < want) {
		ssize_t n = send(fd, p + *done, want - *done, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n < 0 && (errno == EAGAIN || errno == EINTR || errno == ENOTCONN))
			return 0;
		if (n <= 0)
			return -1;
		*done += (size_t)n;
	}
	return 1;
}

/* A message with its prefix; max counts without it. */
static int pull_message(int fd, uint8_t *p, size_t *done, size_t max, size_t *ret_len)
{
	int n = *done < PREFIX ? pull(fd, p, done, PREFIX) : 1;

	if (n <= 0)
		return n;
	*ret_len = PREFIX + prefix_get(p);
	if (*ret_len > PREFIX + max || *ret_len < PREFIX + DNS_HEADER)
		return -1;
	return pull(fd, p, done, *ret_len);
}

static void session_say(struct session *s, int rcode)
{
	size_t n = dns_make_error(s->reply + PREFIX, s->query + PREFIX, &s->q, rcode);

	dns_set_id(s->reply + PREFIX, s->q.id);
	prefix_put(s->reply, n);
	s->reply_len = PREFIX + n;
	s->done = 0;
	s->state = WRITE_REPLY;
	up_close(s);
}

static void session_ready(struct role *r, struct io *io, uint32_t events);
static void session_up_ready(struct role *r, struct io *io, uint32_t events);

static int up_connect(struct role *r, struct session *s)
{
	const struct upstream *up = &r->up[s->at % r->nups];
	struct io io = {.fd = -1, .ready = session_up_ready};

	up_close(s);
	io.fd = socket(up->addr.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	s->up = io;
	if (io.fd < 0)
		return -1;
	id_random(&s->id, sizeof(s->id));
	dns_set_id(s->query + PREFIX, s->id);
	if (connect(io.fd, (const struct sockaddr *)&up->addr, up->len) < 0 && errno != EINPROGRESS)
		return -1;
	s->done = 0;
	s->state = ASK;
	return role_watch(r, &s->up, EPOLLIN | EPOLLOUT | EPOLLET, NULL);
}

static void session_ask(struct role *r, struct session *s)
{
	while (r->nups && s->tries < MIN(QUERY_TRIES, r->nups)) {
		s->at = r->current + s->tries++;
		if (up_connect(r, s) == 0)
			return;
	}
	session_say(s, DNS_SERVFAIL);
}

static void session_got_query(struct role *r, struct session *s)
{
	int rcode = dns_query_parse(s->query + PREFIX, s->query_len - PREFIX, &s->q);

	s->tries = 0;
	s->queries++;
	s->deadline_ms = r->now_ms + SESSION_QUERY_MS;
	if (rcode == DNS_NOERROR && s->refuse)
		rcode = DNS_REFUSED;
	if (rcode != DNS_NOERROR)
		session_say(s, rcode < 0 ? DNS_FORMERR : rcode);
	else
		session_ask(r, s);
}

/* One state's work. 1: the state changed, go on; 0: wait; -1: the session ends. */
static int session_step(struct role *r, struct session *s)
{
	int n = 0;

	switch (s->state) {
	case READ_QUERY:
		n = pull_message(s->client.fd, s->query, &s->done, DNS_QUERY_MAX, &s->query_len);
		if (n > 0)
			session_got_query(r, s);
		return n;
	case ASK:
		n = push(s->up.fd, s->query, &s->done, s->query_len);
		break;
	case READ_REPLY:
		n = pull_message(s->up.fd, s->reply, &s->done, DNS_MESSAGE_MAX, &s->reply_len);
		if (n > 0 && !dns_reply_matches(s->reply + PREFIX, s->reply_len - PREFIX, s->id,
						s->query + PREFIX, &s->q))
			n = -1;
		break;
	case WRITE_REPLY:
		n = push(s->client.fd, s->reply, &s->done, s->reply_len);
		if (n > 0 && s->queries >= SESSION_QUERIES)
			return -1;
		break;
	}
	if (n < 0 && s->state != WRITE_REPLY) {
		session_ask(r, s); /* this upstream failed: the next, or SERVFAIL */
		return 1;
	}
	if (n <= 0)
		return n;
	s->done = 0;
	if (s->state == READ_REPLY) {
		dns_set_id(s->reply + PREFIX, s->q.id);
		up_close(s);
	}
	s->state = s->state == WRITE_REPLY ? READ_QUERY : s->state + 1;
	return 1;
}

static void session_run(struct role *r, struct session *s)
{
	int n;

	do {
		if (s->state == READ_QUERY && s->done == 0)
			s->deadline_ms = r->now_ms + SESSION_QUERY_MS;
		n = session_step(r, s);
	} while (n > 0);
	if (n < 0)
		session_free(r, s);
}

static void session_ready(struct role *r, struct io *io, uint32_t events)
{
	struct session *s = container_of(io, struct session, client);

	if (events & (EPOLLERR | EPOLLHUP))
		session_free(r, s);
	else
		session_run(r, s);
}

static void session_up_ready(struct role *r, struct io *io, uint32_t events)
{
	(void)events;
	session_run(r, container_of(io, struct session, up));
}

static void session_new(struct role *r, int fd, const struct sockaddr_storage *from, bool refuse)
{
	struct source *source = source_get(r, (const struct sockaddr *)from);
	struct session *s;

	if (!source ||
	    !source_room(source->sessions, SOURCE_SESSIONS, r->nsessions, ROLE_SESSIONS) ||
	    !source_pass(source, r->now_ms) || !(s = malloc(sizeof(*s)))) {
		close(fd);
		return;
	}
	memset(s, 0, offsetof(struct session, query));
	s->client = (struct io){.fd = fd, .ready = session_ready};
	s->up.fd = -1;
	s->place = r->nsessions;
	s->source = source;
	s->refuse = refuse;
	source->sessions++;
	r->session[r->nsessions++] = s;
	if (role_watch(r, &s->client, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, NULL) < 0)
		session_free(r, s);
	else
		session_run(r, s);
}

static void accept_all(struct role *r, struct io *io, bool refuse)
{
	for (int i = 0; i < 32; i++) {
		struct sockaddr_storage from;
		socklen_t len = sizeof(from);
		int fd = accept4(io->fd, (struct sockaddr *)&from, &len,
				 SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd < 0)
			return;
		session_new(r, fd, &from, refuse);
	}
}

void session_accept(struct role *r, struct io *io, uint32_t events)
{
	(void)events;
	resolv_refresh(r);
	accept_all(r, io, false);
}

void session_refuse_accept(struct role *r, struct io *io, uint32_t events)
{
	(void)events;
	accept_all(r, io, true);
}

void session_sweep(struct role *r)
{
	for (unsigned i = r->nsessions; i-- > 0;)
		if (r->session[i]->deadline_ms <= r->now_ms)
			session_free(r, r->session[i]);
}
