/*
 * id.c - see id.h. Randomness is the kernel's; a failure of getrandom is not survivable.
 */
#include "base/id.h"

#include <stdint.h>
#include <string.h>
#include <sys/random.h>

void id_random(void *out, size_t n)
{
	char *p = out;

	while (n) {
		ssize_t got = getrandom(p, MIN(n, (size_t)256), 0);

		if (got < 0)
			abort();
		p += got;
		n -= (size_t)got;
	}
}

static void hex_of(char *out, const uint8_t *raw, size_t n)
{
	static const char digits[] = "0123456789abcdef";

	for (size_t i = 0; i < n; i++) {
		out[2 * i] = digits[raw[i] >> 4];
		out[2 * i + 1] = digits[raw[i] & 15];
	}
	out[2 * n] = '\0';
}

void id_hex(char *out, size_t nbytes)
{
	uint8_t raw[64];

	while (nbytes) {
		size_t n = MIN(nbytes, sizeof(raw));

		id_random(raw, n);
		hex_of(out, raw, n);
		out += 2 * n;
		nbytes -= n;
	}
}

/* Version 4, variant 1 of RFC 9562. */
void id_new(char out[ID_LEN])
{
	static const int group[] = {4, 2, 2, 2, 6};
	uint8_t raw[16];
	const uint8_t *p = raw;

	id_random(raw, sizeof(raw));
	raw[6] = (uint8_t)((raw[6] & 0x0f) | 0x40);
	raw[8] = (uint8_t)((raw[8] & 0x3f) | 0x80);
	for (size_t i = 0; i < ARRAY_LEN(group); i++) {
		if (i)
			*out++ = '-';
		hex_of(out, p, (size_t)group[i]);
		out += 2 * group[i];
		p += group[i];
	}
}

bool id_valid(const char *s)
{
	if (strlen(s) != ID_LEN - 1)
		return false;
	for (int i = 0; i < ID_LEN - 1; i++) {
		bool dash = i == 8 || i == 13 || i == 18 || i == 23;
		bool hex = (s[i] >= '0' && s[i] <= '9') || (s[i] >= 'a' && s[i] <= 'f');

		if (dash ? s[i] != '-' : !hex)
			return false;
	}
	return true;
}
