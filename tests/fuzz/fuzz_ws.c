/*
 * fuzz_ws.c - frame heads that are accepted are written back as the same bytes; text is UTF-8
 * exactly when a plain decoder says so; connect packets of event clients stay in bounds.
 */
#include <stdlib.h>
#include <string.h>

#include "http/socketio.h"
#include "wire/ws.h"

/* The simple version: one code point at a time by the definition. */
static bool utf8_simple(const uint8_t *p, size_t n)
{
	for (size_t i = 0; i < n;) {
		size_t more = p[i] < 0x80	? 0
			      : p[i] >> 5 == 6	? 1
			      : p[i] >> 4 == 14 ? 2
			      : p[i] >> 3 == 30 ? 3
						: 9;
		static const uint32_t least[] = {0, 0x80, 0x800, 0x10000};
		uint32_t c = more == 0 ? p[i] : p[i] & (0x3fu >> more);

		if (more == 9 || more >= n - i)
			return false;
		for (size_t k = 1; k <= more; k++) {
			if (p[i + k] >> 6 != 2)
				return false;
			c = c << 6 | (p[i + k] & 0x3f);
		}
		if (c < least[more] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
			return false;
		i += more + 1;
	}
	return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t raw[WS_HEAD_MAX];
	char token[32], *packet;
	struct ws_head h;
	int n;

	for (int masked = 0; masked < 2; masked++) {
		n = ws_head_parse(data, size, masked, &h, NULL);
		if (n > (int)size || n > WS_HEAD_MAX)
			abort();
		if (n > 0 && (ws_head_write(&h, raw) != (size_t)n || memcmp(raw, data, (size_t)n)))
			abort();
	}
	if (ws_utf8_valid(data, size) != utf8_simple(data, size))
		abort();
	packet = malloc(size + 3);
	if (!packet)
		return 0;
	memcpy(packet, "40", 2);
	memcpy(packet + 2, data, size);
	packet[size + 2] = '\0';
	if (sio_connect_token(packet, token, sizeof(token)) && strlen(token) >= sizeof(token))
		abort();
	free(packet);
	return 0;
}
