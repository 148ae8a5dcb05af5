/*
 * dns.h - what the forwarder needs to know of a DNS message: header, question, EDNS size. Pure.
 *
 * All functions take hostile bytes with their length and read nothing beyond it. Names in a
 * query's question are plain labels; a compression pointer there is malformed.
 */
#ifndef CAISSON_NET_DNS_H
#define CAISSON_NET_DNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DNS_HEADER	12
#define DNS_UDP_PLAIN	512  /* most a client without EDNS takes */
#define DNS_UDP_MAX	4096 /* most we send over UDP whatever the client says */
#define DNS_QUERY_MAX	1232 /* longest query that is forwarded */
#define DNS_MESSAGE_MAX 65535

enum dns_rcode {
	DNS_NOERROR = 0,
	DNS_FORMERR = 1,
	DNS_SERVFAIL = 2,
	DNS_NOTIMP = 4,
	DNS_REFUSED = 5,
};

struct dns_query {
	uint16_t id;
	uint16_t qtype, qclass;
	size_t question_end; /* offset behind the question; DNS_HEADER when there is none */
	size_t udp_size;     /* longest UDP reply the client takes */
};

/*
 * Returns DNS_NOERROR for a query to forward, another rcode for the answer it deserves, -1 for
 * bytes that deserve none (no header, or itself a reply). ret is filled unless -1.
 */
int dns_query_parse(const uint8_t *p, size_t n, struct dns_query *ret);
/* Is p a reply with this id to that very question (letters' case included)? */
bool dns_reply_matches(const uint8_t *p, size_t n, uint16_t id, const uint8_t *query,
		       const struct dns_query *q);
void dns_set_id(uint8_t *p, uint16_t id);
/* Header and question of query as a reply with this rcode; out holds question_end bytes. */
size_t dns_make_error(uint8_t *out, const uint8_t *query, const struct dns_query *q, int rcode);
/* Cut a reply to its question and mark it truncated; returns its new length. */
size_t dns_truncate(uint8_t *p, size_t n, const struct dns_query *q);

#endif
