/*
 * ws.c - see ws.h. SHA-1 is here because the handshake names it and pid 1 and the command line
 * link no crypto library; it guards nothing.
 */
#include "wire/ws.h"

#include <string.h>

static bool op_known(unsigned op)
{
	return op <= WS_OP_BINARY || (op >= WS_OP_CLOSE && op <= WS_OP_PONG);
}

/* Payload length from the second byte on; 0 needs more, else bytes of the head so far. */
static int length_parse(const uint8_t *p, size_t n, uint64_t *ret_len, struct err *err)
{
	unsigned small = p[1] & 0x7f;
	size_t extra = small == 127 ? 8 : small == 126 ? 2 : 0;
	uint64_t len = 0;

	if (n < 2 + extra)
		return 0;
	for (size_t i = 0; i < extra; i++)
		len = len << 8 | p[2 + i];
	if ((extra == 2 && len < 126) || (extra == 8 && len < 65536))
		return err_set(err, ERR_INVALID, "frame: length not in its shortest form");
	if (len >> 63)
		return err_set(err, ERR_INVALID, "frame: length has its top bit set");
	*ret_len = extra ? len : small;
	return (int)(2 + extra);
}

int ws_head_parse(const void *bytes, size_t n, bool want_mask, struct ws_head *ret, struct err *err)
{
	const uint8_t *p = bytes;
	struct ws_head h;
	int at;

	if (n < 2)
		return 0;
	h.fin = p[0] & 0x80;
	h.op = p[0] & 0x0f;
	h.masked = p[1] & 0x80;
	if (p[0] & 0x70)
		return err_set(err, ERR_INVALID, "frame: reserved bits are set");
	if (!op_known(h.op))
		return err_set(err, ERR_INVALID, "frame: unknown opcode %u", h.op);
	if (h.masked != want_mask)
		return err_set(err, ERR_INVALID, "frame: must %sbe masked",
			       want_mask ? "" : "not ");
	if (h.op >= WS_OP_CLOSE && (!h.fin || (p[1] & 0x7f) > WS_CONTROL_MAX))
		return err_set(err, ERR_INVALID, "frame: control frames are whole and short");
	at = length_parse(p, n, &h.len, err);
	if (at <= 0)
		return at;
	memset(h.mask, 0, sizeof(h.mask));
	if (h.masked) {
		if (n < (size_t)at + 4)
			return 0;
		memcpy(h.mask, p + at, 4);
		at += 4;
	}
	*ret = h;
	return at;
}

size_t ws_head_write(const struct ws_head *h, uint8_t out[WS_HEAD_MAX])
{
	size_t extra = h->len > 65535 ? 8 : h->len > 125 ? 2 : 0;
	unsigned small = extra == 8 ? 127 : extra == 2 ? 126 : (unsigned)h->len;
	size_t at = 2;

	out[0] = (uint8_t)((h->fin ? 0x80 : 0) | (h->op & 0x0f));
	out[1] = (uint8_t)((h->masked ? 0x80 : 0) | small);
	for (size_t i = 0; i < extra; i++)
		out[at++] = (uint8_t)(h->len >> (8 * (extra - 1 - i)));
	if (h->masked) {
		memcpy(out + at, h->mask, 4);
		at += 4;
	}
	return at;
}

void ws_mask(void *bytes, size_t n, const uint8_t mask[4], uint64_t off)
{
	uint8_t *p = bytes, turned[8];
	uint64_t word, key;
	size_t i = 0;

	for (size_t k = 0; k < sizeof(turned); k++)
		turned[k] = mask[(off + k) & 3];
	memcpy(&key, turned, sizeof(key));
	for (; i + 8 <= n; i += 8) {
		memcpy(&word, p + i, 8);
		word ^= key;
		memcpy(p + i, &word, 8);
	}
	for (; i < n; i++)
		p[i] ^= turned[i & 7];
}

/* Length of the UTF-8 sequence at p (n bytes left), 0 when it is not one. */
static size_t utf8_sequence(const uint8_t *p, size_t n)
{
	static const struct {
		uint8_t first, last; /* of the lead byte */
		uint8_t low, high;   /* of the byte after it */
		uint8_t len;
	} form[] = {
		{0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3},
		{0xe1, 0xec, 0x80, 0xbf, 3}, {0xed, 0xed, 0x80, 0x9f, 3},
		{0xee, 0xef, 0x80, 0xbf, 3}, {0xf0, 0xf0, 0x90, 0xbf, 4},
		{0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4},
	};

	for (size_t i = 0; i < ARRAY_LEN(form); i++) {
		if (p[0] < form[i].first || p[0] > form[i].last)
			continue;
		if (n < form[i].len || p[1] < form[i].low || p[1] > form[i].high)
			return 0;
		for (size_t k = 2; k < form[i].len; k++)
			if ((p[k] & 0xc0) != 0x80)
				return 0;
		return form[i].len;
	}
	return 0;
}

bool ws_utf8_valid(const void *bytes, size_t n)
{
	const uint8_t *p = bytes;
	size_t i = 0;

	while (i < n) {
		uint64_t word;
		size_t len;

		/* Eight plain bytes at a time: nearly all text is ASCII. */
		if (i + 8 <= n) {
			memcpy(&word, p + i, 8);
			if (!(word & 0x8080808080808080ULL)) {
				i += 8;
				continue;
			}
		}
		len = p[i] < 0x80 ? 1 : utf8_sequence(p + i, n - i);
		if (!len)
			return false;
		i += len;
	}
	return true;
}

bool ws_close_code_valid(unsigned code)
{
	return (code >= 1000 && code <= 1003) || (code >= 1007 && code <= 1014) ||
	       (code >= 3000 && code <= 4999);
}

static const char base64_digits[] =
	"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static void base64_encode(const uint8_t *p, size_t n, char *out)
{
	size_t at = 0;

	for (size_t i = 0; i < n; i += 3) {
		uint32_t w = (uint32_t)p[i] << 16;

		if (i + 1 < n)
			w |= (uint32_t)p[i + 1] << 8;
		if (i + 2 < n)
			w |= p[i + 2];
		out[at++] = base64_digits[w >> 18 & 63];
		out[at++] = base64_digits[w >> 12 & 63];
		out[at++] = i + 1 < n ? base64_digits[w >> 6 & 63] : '=';
		out[at++] = i + 2 < n ? base64_digits[w & 63] : '=';
	}
	out[at] = '\0';
}

void ws_key_encode(const uint8_t raw[16], char out[WS_KEY_LEN])
{
	base64_encode(raw, 16, out);
}

bool ws_key_valid(const char *key)
{
	return key && strlen(key) == 24 && strspn(key, base64_digits) == 22 &&
	       strcmp(key + 22, "==") == 0;
}

static uint32_t rotl(uint32_t x, unsigned n)
{
	return x << n | x >> (32 - n);
}

static void sha1_block(uint32_t h[5], const uint8_t *p)
{
	uint32_t w[80], v[5];

	for (size_t i = 0; i < 16; i++)
		w[i] = (uint32_t)p[4 * i] << 24 | (uint32_t)p[4 * i + 1] << 16 |
		       (uint32_t)p[4 * i + 2] << 8 | p[4 * i + 3];
	for (size_t i = 16; i < 80; i++)
		w[i] = rotl(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
	memcpy(v, h, sizeof(v));
	for (size_t i = 0; i < 80; i++) {
		static const uint32_t round_key[] = {0x5a827999, 0x6ed9eba1, 0x8f1bbcdc,
						     0xca62c1d6};
		uint32_t f;

		if (i < 20)
			f = (v[1] & v[2]) | (~v[1] & v[3]);
		else if (i >= 40 && i < 60)
			f = (v[1] & v[2]) | (v[1] & v[3]) | (v[2] & v[3]);
		else
			f = v[1] ^ v[2] ^ v[3];
		f += rotl(v[0], 5) + v[4] + round_key[i / 20] + w[i];
		v[4] = v[3];
		v[3] = v[2];
		v[2] = rotl(v[1], 30);
		v[1] = v[0];
		v[0] = f;
	}
	for (size_t i = 0; i < 5; i++)
		h[i] += v[i];
}

void ws_accept_of(const char *key, char out[WS_ACCEPT_LEN])
{
	static const char guid[] = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
	uint32_t h[5] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
	uint8_t text[128] = {0}, digest[20];
	size_t n = strnlen(key, WS_KEY_LEN - 1);

	/* 24 + 36 bytes and the padding always fill exactly two blocks. */
	memcpy(text, key, n);
	memcpy(text + n, guid, sizeof(guid) - 1);
	n += sizeof(guid) - 1;
	text[n] = 0x80;
	text[126] = (uint8_t)(n * 8 >> 8);
	text[127] = (uint8_t)(n * 8);
	sha1_block(h, text);
	sha1_block(h, text + 64);
	for (size_t i = 0; i < sizeof(digest); i++)
		digest[i] = (uint8_t)(h[i / 4] >> (24 - 8 * (i % 4)));
	base64_encode(digest, sizeof(digest), out);
}
