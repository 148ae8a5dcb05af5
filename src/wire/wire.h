/*
 * wire.h - length-checked reading and writing of the daemon's own messages.
 *
 * Little-endian, no padding. A string is u32 length and its bytes, without NUL inside; a list is
 * u32 count and its items. The reader is for hostile bytes: the first fault makes it sticky-bad,
 * every later get returns zero or "", and wire_in_end() tells. Nothing here does I/O.
 */
#ifndef CAISSON_WIRE_WIRE_H
#define CAISSON_WIRE_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WIRE_LIST_MAX 65536 /* items in one list */

struct wire_out {
	uint8_t *p;
	size_t len;
	size_t cap;
	bool overflow; /* something did not fit; the message must not be sent */
};

struct wire_in {
	const uint8_t *p;
	size_t len;
	size_t pos;
	bool bad;
};

static inline struct wire_out wire_out_on(void *p, size_t cap)
{
	return (struct wire_out){.p = p, .cap = cap};
}

static inline struct wire_in wire_in_on(const void *p, size_t len)
{
	return (struct wire_in){.p = p, .len = len};
}

void wire_put_u8(struct wire_out *o, uint8_t v);
void wire_put_u16(struct wire_out *o, uint16_t v);
void wire_put_u32(struct wire_out *o, uint32_t v);
void wire_put_u64(struct wire_out *o, uint64_t v);
void wire_put_i64(struct wire_out *o, int64_t v);
void wire_put_bytes(struct wire_out *o, const void *p, size_t n);
void wire_put_str(struct wire_out *o, const char *s);			/* NULL writes "" */
void wire_put_strv(struct wire_out *o, const char *const *v, size_t n); /* v may be NULL if n = 0 */

uint8_t wire_get_u8(struct wire_in *in);
uint16_t wire_get_u16(struct wire_in *in);
uint32_t wire_get_u32(struct wire_in *in);
uint64_t wire_get_u64(struct wire_in *in);
int64_t wire_get_i64(struct wire_in *in);
bool wire_get_bool(struct wire_in *in); /* any byte but 0 and 1 is bad */
/* Borrow bytes from the message; NULL with *n = 0 when bad. */
const uint8_t *wire_get_bytes(struct wire_in *in, size_t *n);
/* Copy a string of at most cap - 1 bytes; longer or with NUL inside is bad and gives "". */
void wire_get_str(struct wire_in *in, char *dst, size_t cap);
/* Count of a list whose items are at least item_min bytes each, so a lie costs nothing. */
size_t wire_get_count(struct wire_in *in, size_t max, size_t item_min);
/*
 * A list of strings as one malloc'ed block (pointers, then text), NULL-terminated like argv; free()
 * it. NULL when bad or out of memory (then in->bad is set).
 */
char **wire_get_strv(struct wire_in *in, size_t max, size_t *ret_n);
/* True when everything was read without fault and no byte is left over. */
bool wire_in_end(const struct wire_in *in);

/* ---- frames on stream sockets: header, then payload ---- */

#define WIRE_FRAME_HEAD 8
#define WIRE_FRAME_MAX	(4u << 20) /* payload bytes; each protocol sets its own lower ceiling */

struct wire_frame {
	uint32_t len;  /* payload bytes */
	uint16_t type; /* verb or reply of the protocol */
	uint16_t flags;
};

void wire_frame_put(uint8_t head[WIRE_FRAME_HEAD], const struct wire_frame *f);
/* -1 when the length is over max. */
int wire_frame_get(const uint8_t head[WIRE_FRAME_HEAD], uint32_t max, struct wire_frame *ret);

#endif
