/*
 * role.h - shared by the files of src/net: one thread, one epoll, everything bounded.
 */
#ifndef CAISSON_NET_ROLE_H
#define CAISSON_NET_ROLE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/err.h"
#include "net/dns.h"

#define ROLE_UPSTREAMS 8
#define ROLE_QUERIES   1024 /* UDP queries under way, each with its own socket */
#define ROLE_SESSIONS  256  /* TCP clients */
/*
 * Of one sandbox; and never more than an eighth of what is still free, so that any number of
 * greedy ones together leave room for the next.
 */
#define SOURCE_QUERIES	 128
#define SOURCE_SESSIONS	 16
#define SOURCE_SHARE	 8
#define SOURCE_RATE	 500 /* queries a second of one sandbox */
#define SOURCE_BURST	 1000
#define UPSTREAM_TRY_MS	 2000 /* then the next upstream is asked */
#define QUERY_TRIES	 3
#define SESSION_QUERY_MS 6000 /* to answer, or to send the next query */
#define SESSION_QUERIES	 100
#define RESOLV_CHECK_MS	 5000 /* how often /etc/resolv.conf is looked at */
#define ROLE_SWEEP_MS	 100

struct role;
struct io {
	int fd;
	void (*ready)(struct role *r, struct io *io, uint32_t events);
};

struct upstream {
	struct sockaddr_storage addr;
	socklen_t len;
};

/* What one sandbox has under way. */
struct source {
	struct sockaddr_storage key; /* port 0 */
	bool used;
	unsigned queries, sessions;
	double tokens;
	int64_t seen_ms;
};

#define SOURCE_SLOTS 4096
#define SOURCE_PROBE 8

struct query;
struct session;
struct role {
	int epoll;
	bool end;
	int64_t now_ms;
	struct io control, udp, tcp, refuse_udp, refuse_tcp;
	const char *resolvers;
	struct upstream up[ROLE_UPSTREAMS];
	unsigned nups, current; /* current: the one that answered last */
	int64_t resolv_seen_ms, resolv_mtime_ns;
	struct query *query[ROLE_QUERIES];
	unsigned nqueries;
	struct session *session[ROLE_SESSIONS];
	unsigned nsessions;
	uint64_t seed;
	struct source source[SOURCE_SLOTS];
};

/* role.c */
int role_watch(struct role *r, struct io *io, uint32_t events, struct err *err);

/* resolv.c */
int resolv_load(struct role *r, struct err *err);
/* Re-read the file when it has changed; cheap, rate-limited by itself. */
void resolv_refresh(struct role *r);
bool resolv_parse(const char *text, struct upstream *ret); /* ADDR or ADDR#PORT */

/* source.c: never NULL-safe; NULL means the table is full of busy sources. */
struct source *source_get(struct role *r, const struct sockaddr *sa);
/* May one that has `own` under way begin another, with `all` of `max` taken? */
bool source_room(unsigned own, unsigned own_max, unsigned all, unsigned max);
bool source_pass(struct source *s, int64_t now_ms); /* takes a token */

/* query.c: UDP */
void query_readable(struct role *r, struct io *io, uint32_t events);
void query_refuse_readable(struct role *r, struct io *io, uint32_t events);
void query_sweep(struct role *r);

/* session.c: TCP */
void session_accept(struct role *r, struct io *io, uint32_t events);
void session_refuse_accept(struct role *r, struct io *io, uint32_t events);
void session_sweep(struct role *r);

#endif
