/*
 * fuzz_dns.c - the forwarder's reading of queries and replies: never beyond the bytes given, and
 * whatever it answers is itself a well-formed reply to that question.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "net/dns.h"
#include "net/role.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fuzz_reply(const uint8_t *query, const struct dns_query *q, const uint8_t *p, size_t n)
{
	uint8_t *copy = malloc(n ? n : 1);
	size_t cut;

	memcpy(copy, p, n);
	if (n >= DNS_HEADER && dns_reply_matches(copy, n, q->id, query, q)) {
		cut = dns_truncate(copy, n, q);
		assert(cut <= n && cut >= DNS_HEADER);
		assert(dns_reply_matches(copy, cut, q->id, query, q) || cut == DNS_HEADER);
	}
	free(copy);
}

static void fuzz_resolver(const uint8_t *data, size_t size)
{
	char text[96];
	struct upstream up;
	size_t n = size < sizeof(text) - 1 ? size : sizeof(text) - 1;

	memcpy(text, data, n);
	text[n] = '\0';
	if (resolv_parse(text, &up))
		assert(up.len > 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct dns_query q, again;
	uint8_t out[DNS_QUERY_MAX];
	uint8_t *query;
	size_t split, n;
	int rcode;

	fuzz_resolver(data, size);
	if (size < 2)
		return 0;
	/* The first two bytes say where the query ends and the reply begins. */
	split = (size_t)(data[0] << 8 | data[1]) % (size - 1);
	query = malloc(split + 1);
	memcpy(query, data + 2, split < size - 2 ? split : size - 2);
	split = split < size - 2 ? split : size - 2;
	rcode = dns_query_parse(query, split, &q);
	if (rcode >= 0) {
		assert(q.question_end >= DNS_HEADER && q.question_end <= split);
		assert(q.udp_size >= DNS_UDP_PLAIN && q.udp_size <= DNS_UDP_MAX);
		n = dns_make_error(out, query, &q, DNS_SERVFAIL);
		assert(n == q.question_end && dns_query_parse(out, n, &again) == -1);
		fuzz_reply(query, &q, data + 2 + split, size - 2 - split);
	}
	free(query);
	return 0;
}
