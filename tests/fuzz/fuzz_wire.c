/*
 * fuzz_wire.c - a program of reads over any bytes: nothing is read beyond them, and a fault stays.
 */
#include <stdlib.h>
#include <string.h>

#include "lib/fuzz_replay.h"
#include "wire/wire.h"

static void strv_read(struct wire_in *in)
{
	size_t n;
	char **v = wire_get_strv(in, 1000, &n);

	for (size_t i = 0; v && i <= n; i++)
		if ((v[i] == NULL) != (i == n) || (v[i] && strlen(v[i]) > in->len))
			abort();
	if (!v && (!in->bad || n))
		abort();
	free(v);
}

static void step(struct wire_in *in, uint8_t op)
{
	char text[32];
	size_t n;

	switch (op % 8) {
	case 0:
		wire_get_u8(in);
		break;
	case 1:
		wire_get_u16(in);
		break;
	case 2:
		wire_get_u32(in);
		break;
	case 3:
		wire_get_i64(in);
		break;
	case 4:
		wire_get_str(in, text, sizeof(text));
		if (strlen(text) >= sizeof(text))
			abort();
		break;
	case 5:
		wire_get_bytes(in, &n);
		break;
	case 6:
		wire_get_count(in, 100, 4);
		break;
	default:
		strv_read(in);
		break;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t ops = size ? data[0] % 32 : 0;
	struct wire_in in;
	struct wire_frame f;

	if (size < ops + 1)
		return 0;
	if (size >= WIRE_FRAME_HEAD && wire_frame_get(data, 1000, &f) == 0 && f.len > 1000)
		abort();
	in = wire_in_on(data + 1 + ops, size - 1 - ops);
	for (size_t i = 0; i < ops; i++) {
		bool was = in.bad;

		step(&in, data[1 + i]);
		if (in.pos > in.len || (was && !in.bad))
			abort();
	}
	return 0;
}
