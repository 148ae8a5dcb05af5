/*
 * dns.c - see dns.h.
 */
#include "net/dns.h"

#include <string.h>

#define FLAG_QR	    0x8000
#define FLAG_OPCODE 0x7800
#define FLAG_AA	    0x0400
#define FLAG_TC	    0x0200
#define FLAG_RD	    0x0100
#define FLAG_RA	    0x0080
#define FLAG_CD	    0x0010

#define NAME_MAX_LEN  255
#define LABEL_MAX_LEN 63
#define TYPE_OPT      41
#define TYPE_IXFR     251
#define TYPE_AXFR     252
#define OPT_FIXED     11 /* root name, type, class, ttl, length */

static uint16_t get16(const uint8_t *p)
{
	return (uint16_t)(p[0] << 8 | p[1]);
}

static void put16(uint8_t *p, uint16_t v)
{
	p[0] = (uint8_t)(v >> 8);
	p[1] = (uint8_t)v;
}

/* Offset behind the uncompressed name at off, or 0 when it is not one. */
static size_t name_end(const uint8_t *p, size_t n, size_t off)
{
	size_t start = off;

	while (off < n) {
		uint8_t len = p[off++];

		if (len == 0)
			return off - start <= NAME_MAX_LEN ? off : 0;
		if (len > LABEL_MAX_LEN || off + len > n)
			return 0;
		off += len;
	}
	return 0;
}

/* The UDP size of the OPT record, where it is the first record behind the question. */
static size_t edns_size(const uint8_t *p, size_t n, size_t off)
{
	size_t size;

	if (n < off + OPT_FIXED || p[off] != 0 || get16(p + off + 1) != TYPE_OPT)
		return DNS_UDP_PLAIN;
	size = get16(p + off + 3);
	if (size < DNS_UDP_PLAIN)
		return DNS_UDP_PLAIN;
	return size < DNS_UDP_MAX ? size : DNS_UDP_MAX;
}

int dns_query_parse(const uint8_t *p, size_t n, struct dns_query *ret)
{
	uint16_t flags;
	size_t end;

	if (n < DNS_HEADER)
		return -1;
	flags = get16(p + 2);
	if (flags & FLAG_QR)
		return -1;
	*ret = (struct dns_query){
		.id = get16(p), .question_end = DNS_HEADER, .udp_size = DNS_UDP_PLAIN};
	if (flags & FLAG_OPCODE)
		return DNS_NOTIMP;
	/* One question, nothing answered, at most OPT and a signature behind it. */
	if (get16(p + 4) != 1 || get16(p + 6) || get16(p + 8) || get16(p + 10) > 2)
		return DNS_FORMERR;
	end = name_end(p, n, DNS_HEADER);
	if (!end || end + 4 > n)
		return DNS_FORMERR;
	ret->qtype = get16(p + end);
	ret->qclass = get16(p + end + 2);
	ret->question_end = end + 4;
	if (get16(p + 10))
		ret->udp_size = edns_size(p, n, ret->question_end);
	if (n > DNS_QUERY_MAX || (!get16(p + 10) && n != ret->question_end))
		return DNS_FORMERR;
	if (ret->qtype == TYPE_AXFR || ret->qtype == TYPE_IXFR)
		return DNS_REFUSED;
	return DNS_NOERROR;
}

bool dns_reply_matches(const uint8_t *p, size_t n, uint16_t id, const uint8_t *query,
		       const struct dns_query *q)
{
	if (n < DNS_HEADER || get16(p) != id || !(get16(p + 2) & FLAG_QR))
		return false;
	/* Some servers leave the question out of an error. */
	if (get16(p + 4) == 0)
		return (get16(p + 2) & 15) != DNS_NOERROR && !get16(p + 6);
	return get16(p + 4) == 1 && n >= q->question_end &&
	       !memcmp(p + DNS_HEADER, query + DNS_HEADER, q->question_end - DNS_HEADER);
}

void dns_set_id(uint8_t *p, uint16_t id)
{
	put16(p, id);
}

size_t dns_make_error(uint8_t *out, const uint8_t *query, const struct dns_query *q, int rcode)
{
	uint16_t keep = get16(query + 2) & (FLAG_OPCODE | FLAG_RD | FLAG_CD);

	memcpy(out, query, q->question_end);
	put16(out + 2, (uint16_t)(FLAG_QR | FLAG_RA | keep | rcode));
	put16(out + 4, q->question_end > DNS_HEADER);
	memset(out + 6, 0, 6);
	return q->question_end;
}

size_t dns_truncate(uint8_t *p, size_t n, const struct dns_query *q)
{
	size_t end = get16(p + 4) == 1 && n >= q->question_end ? q->question_end : DNS_HEADER;

	put16(p + 2, (uint16_t)((get16(p + 2) & ~FLAG_AA) | FLAG_TC));
	put16(p + 4, end > DNS_HEADER);
	memset(p + 6, 0, 6);
	return end;
}
