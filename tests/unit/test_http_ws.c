/*
 * test_http_ws.c - WebSocket frames and Socket.IO connect packets as bytes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "http/socketio.h"
#include "wire/ws.h"

static void heads_round_trip_and_wait_for_all_bytes(void **state)
{
	static const uint64_t len[] = {0, 1, 125, 126, 65535, 65536, 1ULL << 40};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(len); i++) {
		for (int masked = 0; masked < 2; masked++) {
			struct ws_head h = {.fin = true,
					    .op = WS_OP_BINARY,
					    .masked = masked,
					    .mask = {1, 2, 3, 4},
					    .len = len[i]};
			struct ws_head back;
			uint8_t raw[WS_HEAD_MAX];
			size_t n = ws_head_write(&h, raw);

			for (size_t k = 0; k < n; k++)
				assert_int_equal(ws_head_parse(raw, k, masked, &back, NULL), 0);
			assert_int_equal(ws_head_parse(raw, n, masked, &back, NULL), n);
			assert_true(back.len == len[i] && back.op == WS_OP_BINARY && back.fin);
			if (masked)
				assert_memory_equal(back.mask, h.mask, 4);
		}
	}
}

static void forbidden_heads_are_refused(void **state)
{
	static const struct {
		uint8_t raw[14];
		size_t n;
	} row[] = {
		{{0x82, 0x00}, 2},				/* not masked */
		{{0xc2, 0x80, 0, 0, 0, 0}, 6},			/* reserved bit */
		{{0x83, 0x80, 0, 0, 0, 0}, 6},			/* unknown opcode */
		{{0x8b, 0x80, 0, 0, 0, 0}, 6},			/* unknown control */
		{{0x09, 0x80, 0, 0, 0, 0}, 6},			/* ping in fragments */
		{{0x89, 0xfe, 0, 126, 0, 0, 0, 0}, 8},		/* long ping */
		{{0x82, 0xfe, 0, 125, 0, 0, 0, 0}, 8},		/* length not shortest */
		{{0x82, 0xff, 0, 0, 0, 0, 0, 0, 255, 255}, 14}, /* length not shortest */
		{{0x82, 0xff, 0x80}, 14},			/* top bit */
	};
	struct ws_head h;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++)
		if (ws_head_parse(row[i].raw, row[i].n, true, &h, NULL) != -1)
			fail_msg("row %zu was accepted", i);
}

static void mask_in_pieces_is_mask_at_once(void **state)
{
	static const uint8_t mask[4] = {0xde, 0xad, 0xbe, 0xef};
	uint8_t whole[64], pieces[64];

	(void)state;
	for (size_t cut = 0; cut <= sizeof(whole); cut++) {
		for (size_t i = 0; i < sizeof(whole); i++)
			whole[i] = pieces[i] = (uint8_t)(i * 7);
		ws_mask(whole, sizeof(whole), mask, 0);
		ws_mask(pieces, cut, mask, 0);
		ws_mask(pieces + cut, sizeof(pieces) - cut, mask, cut);
		assert_memory_equal(whole, pieces, sizeof(whole));
	}
	for (size_t i = 0; i < sizeof(whole); i++)
		assert_int_equal(whole[i], (uint8_t)(i * 7) ^ mask[i & 3]);
}

static void utf8_is_checked_strictly(void **state)
{
	static const struct {
		const char *text;
		bool good;
	} row[] = {
		{"", true},
		{"plain ascii text of some length", true},
		{"h\xc3\xa9llo \xe6\x97\xa5\xe6\x9c\xac \xf0\x9f\x98\x80", true},
		{"\xf4\x8f\xbf\xbf", true},
		{"\xed\x9f\xbf\xee\x80\x80", true},
		{"\x80", false},
		{"\xc3", false},
		{"\xc0\xaf", false},
		{"\xe0\x80\xaf", false},
		{"\xed\xa0\x80", false},
		{"\xf4\x90\x80\x80", false},
		{"\xf5\x80\x80\x80", false},
		{"12345678\xff", false},
		{"1234567\xe2\x82", false},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++)
		if (ws_utf8_valid(row[i].text, strlen(row[i].text)) != row[i].good)
			fail_msg("row %zu", i);
}

static void close_codes_on_the_wire(void **state)
{
	static const unsigned good[] = {1000, 1001, 1003, 1007, 1011, 3000, 4008, 4999};
	static const unsigned bad[] = {0, 999, 1004, 1005, 1006, 1015, 2000, 2999, 5000, 65535};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(good); i++)
		assert_true(ws_close_code_valid(good[i]));
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_false(ws_close_code_valid(bad[i]));
}

static void handshake_key_of_the_standard(void **state)
{
	char accept[WS_ACCEPT_LEN], key[WS_KEY_LEN];

	(void)state;
	ws_accept_of("dGhlIHNhbXBsZSBub25jZQ==", accept);
	assert_string_equal(accept, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
	ws_key_encode((const uint8_t *)"the sample nonce", key);
	assert_string_equal(key, "dGhlIHNhbXBsZSBub25jZQ==");
	assert_true(ws_key_valid(key));
	assert_false(ws_key_valid(NULL));
	assert_false(ws_key_valid("short=="));
	assert_false(ws_key_valid("dGhlIHNhbXBsZSBub25jZQ="));
	assert_false(ws_key_valid("dGhlIHNhbXBsZSBub25 ZQ=="));
}

static void connect_packets_give_their_token(void **state)
{
	static const struct {
		const char *packet, *token; /* NULL: refused */
	} row[] = {
		{"40{\"token\":\"dtn_12\"}", "dtn_12"},
		{"40{ \"a\" : [1,{\"token\":\"no\"},\"]\"] , \"token\" : \"x\" }", "x"},
		{"40/,{\"token\":\"x\"}", "x"},
		{"40", ""},
		{"40{}", ""},
		{"40{\"token\":null}", ""},
		{"40{\"tokens\":\"x\"}", ""},
		{"40/ns,{\"token\":\"x\"}", NULL},
		{"41", NULL},
		{"40[]", NULL},
		{"40{\"token\":\"x\"", NULL},
		{"40{\"token\":\"x", NULL},
		{"40{\"token\" \"x\"}", NULL},
		{"40{\"token\":\"\\u0041\"}", NULL},
		{"40{\"token\":\"0123456789012345\"}", NULL},
		{"40{\"a\":\"\\", NULL},
	};
	char token[16];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		bool ok = sio_connect_token(row[i].packet, token, sizeof(token));

		if (ok != (row[i].token != NULL) || (ok && strcmp(token, row[i].token) != 0))
			fail_msg("row %zu: %d %s", i, ok, token);
	}
}

static void deep_nesting_in_a_connect_packet_is_harmless(void **state)
{
	static char packet[65536];
	char token[16];

	(void)state;
	memcpy(packet, "40{\"a\":", 7);
	memset(packet + 7, '[', sizeof(packet) - 8);
	assert_false(sio_connect_token(packet, token, sizeof(token)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(heads_round_trip_and_wait_for_all_bytes),
		cmocka_unit_test(forbidden_heads_are_refused),
		cmocka_unit_test(mask_in_pieces_is_mask_at_once),
		cmocka_unit_test(utf8_is_checked_strictly),
		cmocka_unit_test(close_codes_on_the_wire),
		cmocka_unit_test(handshake_key_of_the_standard),
		cmocka_unit_test(connect_packets_give_their_token),
		cmocka_unit_test(deep_nesting_in_a_connect_packet_is_harmless),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
