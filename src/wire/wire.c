/*
 * wire.c - see wire.h.
 */
#include "wire/wire.h"

#include <stdlib.h>
#include <string.h>

static void put_raw(struct wire_out *o, const void *p, size_t n)
{
	if (o->overflow || n > o->cap - o->len) {
		o->overflow = true;
		return;
	}
	if (n)
		memcpy(o->p + o->len, p, n);
	o->len += n;
}

static void put_le(struct wire_out *o, uint64_t v, size_t n)
{
	uint8_t b[8];

	for (size_t i = 0; i < n; i++)
		b[i] = (uint8_t)(v >> (8 * i));
	put_raw(o, b, n);
}

void wire_put_u8(struct wire_out *o, uint8_t v)
{
	put_le(o, v, 1);
}

void wire_put_u16(struct wire_out *o, uint16_t v)
{
	put_le(o, v, 2);
}

void wire_put_u32(struct wire_out *o, uint32_t v)
{
	put_le(o, v, 4);
}

void wire_put_u64(struct wire_out *o, uint64_t v)
{
	put_le(o, v, 8);
}

void wire_put_i64(struct wire_out *o, int64_t v)
{
	put_le(o, (uint64_t)v, 8);
}

void wire_put_bytes(struct wire_out *o, const void *p, size_t n)
{
	if (n > UINT32_MAX) {
		o->overflow = true;
		return;
	}
	wire_put_u32(o, (uint32_t)n);
	put_raw(o, p, n);
}

void wire_put_str(struct wire_out *o, const char *s)
{
	wire_put_bytes(o, s, s ? strlen(s) : 0);
}

void wire_put_strv(struct wire_out *o, const char *const *v, size_t n)
{
	wire_put_u32(o, (uint32_t)n);
	for (size_t i = 0; i < n; i++)
		wire_put_str(o, v[i]);
}

static const uint8_t *get_raw(struct wire_in *in, size_t n)
{
	const uint8_t *p;

	if (in->bad || n > in->len - in->pos) {
		in->bad = true;
		return NULL;
	}
	p = in->p + in->pos;
	in->pos += n;
	return p;
}

static uint64_t get_le(struct wire_in *in, size_t n)
{
	const uint8_t *p = get_raw(in, n);
	uint64_t v = 0;

	for (size_t i = 0; p && i < n; i++)
		v |= (uint64_t)p[i] << (8 * i);
	return v;
}

uint8_t wire_get_u8(struct wire_in *in)
{
	return (uint8_t)get_le(in, 1);
}

uint16_t wire_get_u16(struct wire_in *in)
{
	return (uint16_t)get_le(in, 2);
}

uint32_t wire_get_u32(struct wire_in *in)
{
	return (uint32_t)get_le(in, 4);
}

uint64_t wire_get_u64(struct wire_in *in)
{
	return get_le(in, 8);
}

int64_t wire_get_i64(struct wire_in *in)
{
	return (int64_t)get_le(in, 8);
}

bool wire_get_bool(struct wire_in *in)
{
	uint8_t v = wire_get_u8(in);

	if (v > 1)
		in->bad = true;
	return v == 1;
}

const uint8_t *wire_get_bytes(struct wire_in *in, size_t *n)
{
	size_t len = wire_get_u32(in);
	const uint8_t *p = get_raw(in, len);

	*n = p ? len : 0;
	return p;
}

void wire_get_str(struct wire_in *in, char *dst, size_t cap)
{
	size_t n;
	const uint8_t *p = wire_get_bytes(in, &n);

	if (!p || n >= cap || memchr(p, 0, n)) {
		in->bad = true;
		dst[0] = '\0';
		return;
	}
	if (n)
		memcpy(dst, p, n);
	dst[n] = '\0';
}

size_t wire_get_count(struct wire_in *in, size_t max, size_t item_min)
{
	size_t n = wire_get_u32(in);

	if (in->bad || n > max || (item_min && n > (in->len - in->pos) / item_min)) {
		in->bad = true;
		return 0;
	}
	return n;
}

char **wire_get_strv(struct wire_in *in, size_t max, size_t *ret_n)
{
	size_t n = wire_get_count(in, max < WIRE_LIST_MAX ? max : WIRE_LIST_MAX, 4);
	size_t room = in->len - in->pos; /* text plus its lengths: enough for text plus NULs */
	char **v, *text;

	*ret_n = 0;
	if (in->bad)
		return NULL;
	v = malloc((n + 1) * sizeof(*v) + room + 1);
	if (!v) {
		in->bad = true;
		return NULL;
	}
	text = (char *)(v + n + 1);
	for (size_t i = 0; i < n; i++) {
		size_t len;
		const uint8_t *p = wire_get_bytes(in, &len);

		if (!p || memchr(p, 0, len)) {
			in->bad = true;
			free(v);
			return NULL;
		}
		memcpy(text, p, len);
		text[len] = '\0';
		v[i] = text;
		text += len + 1;
	}
	v[n] = NULL;
	*ret_n = n;
	return v;
}

bool wire_in_end(const struct wire_in *in)
{
	return !in->bad && in->pos == in->len;
}

void wire_frame_put(uint8_t head[WIRE_FRAME_HEAD], const struct wire_frame *f)
{
	struct wire_out o = wire_out_on(head, WIRE_FRAME_HEAD);

	wire_put_u32(&o, f->len);
	wire_put_u16(&o, f->type);
	wire_put_u16(&o, f->flags);
}

int wire_frame_get(const uint8_t head[WIRE_FRAME_HEAD], uint32_t max, struct wire_frame *ret)
{
	struct wire_in in = wire_in_on(head, WIRE_FRAME_HEAD);
	struct wire_frame f = {0};

	f.len = wire_get_u32(&in);
	f.type = wire_get_u16(&in);
	f.flags = wire_get_u16(&in);
	if (f.len > max)
		return -1;
	*ret = f;
	return 0;
}
