/*
 * base64.c - see base64.h.
 */
#include "base/base64.h"

#include <stdint.h>

#define GROUPS 256 /* of three bytes at a time */

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static void group_encode(const uint8_t *p, size_t n, char out[4])
{
	uint32_t w = (uint32_t)p[0] << 16 | (n > 1 ? (uint32_t)p[1] << 8 : 0) | (n > 2 ? p[2] : 0);

	out[0] = digits[w >> 18 & 63];
	out[1] = digits[w >> 12 & 63];
	out[2] = n > 1 ? digits[w >> 6 & 63] : '=';
	out[3] = n > 2 ? digits[w & 63] : '=';
}

int base64_encode(const void *p, size_t n, struct buf *out, struct err *err)
{
	const uint8_t *from = p;
	char text[GROUPS * 4];

	while (n) {
		size_t used = 0;

		for (; n && used < sizeof(text); used += 4) {
			size_t part = MIN(n, (size_t)3);

			group_encode(from, part, text + used);
			from += part;
			n -= part;
		}
		if (buf_add(out, text, used, err) < 0)
			return -1;
	}
	return 0;
}

static int digit_value(char c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	if (c == '+' || c == '-')
		return 62;
	return c == '/' || c == '_' ? 63 : -1;
}

/* The last two, three or four digits, and all before them, four at a time. */
static int group_decode(const char *p, size_t n, uint8_t out[3])
{
	uint32_t w = 0;

	for (size_t i = 0; i < 4; i++) {
		int v = i < n ? digit_value(p[i]) : 0;

		if (v < 0)
			return -1;
		w = w << 6 | (uint32_t)v;
	}
	out[0] = (uint8_t)(w >> 16);
	out[1] = (uint8_t)(w >> 8);
	out[2] = (uint8_t)w;
	/* What is left over must be zero: one text for each run of bytes. */
	return (n == 2 && (w & 0xffff)) || (n == 3 && (w & 0xff)) ? -1 : (int)n - 1;
}

int base64_decode(const char *p, size_t n, struct buf *out, struct err *err)
{
	size_t padded = n;
	uint8_t bytes[GROUPS * 3];

	while (n && n > padded - MIN(padded, (size_t)2) && p[n - 1] == '=')
		n--;
	if (n % 4 == 1 || (n != padded && padded % 4))
		return err_set(err, ERR_INVALID, "base64: bad length");
	while (n) {
		size_t used = 0;

		while (n && used + 3 <= sizeof(bytes)) {
			size_t part = MIN(n, (size_t)4);
			int got = group_decode(p, part, bytes + used);

			if (got < 0)
				return err_set(err, ERR_INVALID, "base64: bad character");
			used += (size_t)got;
			p += part;
			n -= part;
		}
		if (buf_add(out, bytes, used, err) < 0)
			return -1;
	}
	return 0;
}
