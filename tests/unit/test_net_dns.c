/*
 * test_net_dns.c - reading DNS messages, the resolver list, and the per-sandbox budget.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <netinet/in.h>
#include <arpa/inet.h>

#include <cmocka.h>

#include "base/scope.h"
#include "net/dns.h"
#include "net/role.h"

/* id 0x1234, RD, one question: good.test A IN */
static const uint8_t good[] = {0x12, 0x34, 1,	0, 0,	1,   0,	  0,   0, 0, 0, 0, 4, 'g',
			       'o',  'o',  'd', 4, 't', 'e', 's', 't', 0, 0, 1, 0, 1};

static void query_with_one_question_is_forwarded(void **state)
{
	struct dns_query q;

	(void)state;
	assert_int_equal(dns_query_parse(good, sizeof(good), &q), DNS_NOERROR);
	assert_int_equal(q.id, 0x1234);
	assert_int_equal(q.qtype, 1);
	assert_int_equal(q.question_end, sizeof(good));
	assert_int_equal(q.udp_size, DNS_UDP_PLAIN);
}

static void every_cut_of_a_query_is_refused(void **state)
{
	struct dns_query q;

	(void)state;
	for (size_t n = 0; n < DNS_HEADER; n++)
		assert_int_equal(dns_query_parse(good, n, &q), -1);
	for (size_t n = DNS_HEADER; n < sizeof(good); n++)
		assert_int_equal(dns_query_parse(good, n, &q), DNS_FORMERR);
}

/* What one changed byte makes of the query. */
static void odd_queries_get_the_answer_they_deserve(void **state)
{
	static const struct {
		size_t at;
		uint8_t value;
		int rcode;
	} row[] = {
		{2, 0x81, -1},		 /* a reply */
		{2, 0x29, DNS_NOTIMP},	 /* opcode UPDATE */
		{5, 0, DNS_FORMERR},	 /* no question */
		{5, 2, DNS_FORMERR},	 /* two */
		{7, 1, DNS_FORMERR},	 /* an answer in it */
		{9, 1, DNS_FORMERR},	 /* an authority */
		{11, 3, DNS_FORMERR},	 /* more records than OPT and a signature */
		{12, 0xc0, DNS_FORMERR}, /* a compression pointer in the name */
		{12, 64, DNS_FORMERR},	 /* a label of 64 */
		{12, 40, DNS_FORMERR},	 /* beyond the end */
		{24, 252, DNS_REFUSED},	 /* AXFR */
		{24, 28, DNS_NOERROR},	 /* AAAA */
		{26, 3, DNS_NOERROR},	 /* class CH */
	};
	uint8_t p[sizeof(good)];
	struct dns_query q;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		memcpy(p, good, sizeof(good));
		p[row[i].at] = row[i].value;
		assert_int_equal(dns_query_parse(p, sizeof(p), &q), row[i].rcode);
	}
}

static void name_of_255_bytes_passes_and_of_256_does_not(void **state)
{
	uint8_t p[400] = {0, 1, 1, 0, 0, 1};
	struct dns_query q;
	size_t n = DNS_HEADER;

	(void)state;
	for (int i = 0; i < 3; i++) {
		p[n] = 63;
		memset(p + n + 1, 'a', 63);
		n += 64;
	}
	p[n] = 61;
	memset(p + n + 1, 'b', 61);
	n += 62 + 1 + 4;
	assert_int_equal(dns_query_parse(p, n, &q), DNS_NOERROR);
	p[n - 67] = 62;
	assert_int_equal(dns_query_parse(p, n + 1, &q), DNS_FORMERR);
}

static void edns_size_is_taken_within_bounds(void **state)
{
	static const uint8_t opt[] = {0, 0, 41, 0x10, 0x00, 0, 0, 0, 0, 0, 0};
	static const struct {
		uint8_t hi, lo;
		size_t size;
	} row[] = {{0x04, 0xd0, 1232}, {0, 0, 512}, {0xff, 0xff, DNS_UDP_MAX}};
	uint8_t p[sizeof(good) + sizeof(opt)];
	struct dns_query q;

	(void)state;
	memcpy(p, good, sizeof(good));
	memcpy(p + sizeof(good), opt, sizeof(opt));
	p[11] = 1;
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		p[sizeof(good) + 3] = row[i].hi;
		p[sizeof(good) + 4] = row[i].lo;
		assert_int_equal(dns_query_parse(p, sizeof(p), &q), DNS_NOERROR);
		assert_int_equal(q.udp_size, row[i].size);
	}
}

static void bytes_behind_the_question_need_a_count(void **state)
{
	uint8_t p[sizeof(good) + 4] = {0};
	struct dns_query q;

	(void)state;
	memcpy(p, good, sizeof(good));
	assert_int_equal(dns_query_parse(p, sizeof(p), &q), DNS_FORMERR);
}

static void reply_must_carry_id_and_question(void **state)
{
	uint8_t p[sizeof(good)];
	struct dns_query q;

	(void)state;
	assert_int_equal(dns_query_parse(good, sizeof(good), &q), 0);
	memcpy(p, good, sizeof(good));
	assert_false(dns_reply_matches(p, sizeof(p), 0x1234, good, &q)); /* not a reply */
	p[2] |= 0x80;
	assert_true(dns_reply_matches(p, sizeof(p), 0x1234, good, &q));
	assert_false(dns_reply_matches(p, sizeof(p), 0x1235, good, &q));
	assert_false(dns_reply_matches(p, sizeof(p) - 1, 0x1234, good, &q));
	p[13] = 'G'; /* a forger must match the case too */
	assert_false(dns_reply_matches(p, sizeof(p), 0x1234, good, &q));
	p[5] = 0; /* an empty reply that isn't an error */
	assert_false(dns_reply_matches(p, DNS_HEADER, 0x1234, good, &q));
	p[3] = DNS_SERVFAIL;
	assert_true(dns_reply_matches(p, DNS_HEADER, 0x1234, good, &q));
}

static void error_repeats_the_question(void **state)
{
	uint8_t out[sizeof(good)];
	struct dns_query q;

	(void)state;
	dns_query_parse(good, sizeof(good), &q);
	assert_int_equal(dns_make_error(out, good, &q, DNS_REFUSED), sizeof(good));
	assert_true(dns_reply_matches(out, sizeof(out), 0x1234, good, &q));
	assert_int_equal(out[2], 0x81); /* QR, RD kept */
	assert_int_equal(out[3], 0x80 | DNS_REFUSED);
	assert_memory_equal(out + DNS_HEADER, good + DNS_HEADER, sizeof(good) - DNS_HEADER);
}

static void resolver_texts(void **state)
{
	static const struct {
		const char *text;
		bool valid;
		int port;
	} row[] = {
		{"9.9.9.9", true, 53},
		{"127.0.0.53", true, 53},
		{"9.9.9.9#5353", true, 5353},
		{"2620:fe::fe", true, 53},
		{"2620:fe::fe#1", true, 1},
		{"9.9.9.9#0", false, 0},
		{"9.9.9.9#", false, 0},
		{"9.9.9.9#65536", false, 0},
		{"9.9.9.9#-1", false, 0},
		{"9.9.9.9# 1", false, 0},
		{"fe80::1%eth0", false, 0},
		{"dns.test", false, 0},
		{"", false, 0},
	};
	struct upstream up;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		assert_int_equal(resolv_parse(row[i].text, &up), row[i].valid);
		if (row[i].valid)
			assert_int_equal(ntohs(((struct sockaddr_in *)&up.addr)->sin_port),
					 row[i].port);
	}
}

static void source_runs_dry_and_recovers(void **state)
{
	struct role *r = calloc(1, sizeof(*r));
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(1000)}, b = a;
	struct source *s;
	int passed = 0;

	(void)state;
	a.sin_addr.s_addr = htonl(0xc6120001);
	b.sin_addr.s_addr = htonl(0xc6120002);
	s = source_get(r, (struct sockaddr *)&a);
	while (passed < 5000 && source_pass(s, 0))
		passed++;
	assert_int_equal(passed, SOURCE_BURST);
	assert_true(source_pass(source_get(r, (struct sockaddr *)&b), 0));
	assert_true(source_pass(s, 1000));
	a.sin_port = htons(2000); /* another port is the same sandbox */
	assert_ptr_equal(source_get(r, (struct sockaddr *)&a), s);
	free(r);
}

/* A full table of busy sources refuses newcomers instead of losing count of somebody. */
static void busy_sources_are_never_evicted(void **state)
{
	struct role *r = calloc(1, sizeof(*r));
	struct sockaddr_in a = {.sin_family = AF_INET};
	unsigned given = 0;

	(void)state;
	for (uint32_t i = 0; i < SOURCE_SLOTS * 4; i++) {
		struct source *s;

		a.sin_addr.s_addr = htonl(i);
		s = source_get(r, (struct sockaddr *)&a);
		if (!s)
			continue;
		assert_int_equal(s->queries, 0);
		s->queries = 1;
		given++;
	}
	assert_in_range(given, SOURCE_SLOTS / 2, SOURCE_SLOTS);
	free(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(query_with_one_question_is_forwarded),
		cmocka_unit_test(every_cut_of_a_query_is_refused),
		cmocka_unit_test(odd_queries_get_the_answer_they_deserve),
		cmocka_unit_test(name_of_255_bytes_passes_and_of_256_does_not),
		cmocka_unit_test(edns_size_is_taken_within_bounds),
		cmocka_unit_test(bytes_behind_the_question_need_a_count),
		cmocka_unit_test(reply_must_carry_id_and_question),
		cmocka_unit_test(error_repeats_the_question),
		cmocka_unit_test(resolver_texts),
		cmocka_unit_test(source_runs_dry_and_recovers),
		cmocka_unit_test(busy_sources_are_never_evicted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
