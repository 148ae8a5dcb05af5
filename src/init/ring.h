/*
 * ring.h - the kept output of one stream of a task: the newest bytes, with their offsets.
 *
 * Bytes lie in blocks, oldest first; when the stream has more than TASK_RING_MAX, whole blocks go
 * from the front and ring->first tells how far. Each run of bytes carries its place among those of
 * both streams of its task, so a reader can merge them in the order they were read.
 *
 * Blocks of all rings together have a ceiling (rings_limit); who makes room is not decided here.
 */
#ifndef CAISSON_INIT_RING_H
#define CAISSON_INIT_RING_H

#include <stddef.h>
#include <stdint.h>

struct ring_block;

struct ring {
	struct ring_block *head, *tail;
	uint64_t first, total; /* stream offsets: the oldest kept byte, one past the newest */
	size_t mem;	       /* bytes of the blocks */
};

extern size_t rings_mem; /* of all rings; touched by ring.c alone */

/*
 * Where the next at most want bytes of the stream may be put; their count in *ret_room (>= 1).
 * order: bytes of both streams so far. NULL when there is no memory. Confirm with ring_commit.
 */
uint8_t *ring_room(struct ring *r, uint64_t order, size_t want, size_t *ret_room);
void ring_commit(struct ring *r, size_t n);
void ring_lost(struct ring *r, size_t n); /* n bytes passed by that nobody could keep */
/* The kept bytes from offset at on that lie together, and their place. 0: none. */
size_t ring_peek(const struct ring *r, uint64_t at, const uint8_t **ret, uint64_t *ret_order);
void ring_drop(struct ring *r); /* the oldest block */
void ring_done(struct ring *r); /* forget the bytes; the offsets stay */

/* Bytes a ring_room(want) would allocate, at most; the caller makes room for them first. */
size_t ring_need(const struct ring *r, uint64_t order, size_t want);

#endif
