/*
 * ring.c - see ring.h.
 *
 * A stream starts in a small block of the heap, which grows by copying while it is the only one;
 * full-sized blocks are mapped, so that what is dropped goes back to the kernel. A block holds
 * runs: a head, then its bytes.
 */
#include "init/ring.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/scope.h"
#include "wire/agent_proto.h"

#define RING_BLOCK_MIN 1024
#define RING_BLOCK_MAX 65536
#define RING_RUN_MIN   64 /* a smaller rest of a block starts no run */

struct ring_run {
	uint64_t order;
	uint64_t len;
};

struct ring_block {
	struct ring_block *next;
	uint64_t first; /* stream offset of its first byte */
	uint32_t size;	/* of all, this head too */
	uint32_t used;	/* of data */
	uint32_t run;	/* where in data the last run begins */
	uint8_t data[];
};

size_t rings_mem;

static struct ring_run run_at(const struct ring_block *b, uint32_t at)
{
	struct ring_run run;

	memcpy(&run, b->data + at, sizeof(run));
	return run;
}

static size_t block_room(const struct ring_block *b)
{
	return b->size - sizeof(*b) - b->used;
}

static struct ring_block *block_new(size_t size)
{
	struct ring_block *b;

	if (size < RING_BLOCK_MAX) {
		b = malloc(size);
	} else {
		b = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		b = b == MAP_FAILED ? NULL : b;
	}
	if (!b)
		return NULL;
	*b = (struct ring_block){.size = (uint32_t)size};
	rings_mem += size;
	return b;
}

static void block_free(struct ring_block *b)
{
	rings_mem -= b->size;
	if (b->size < RING_BLOCK_MAX)
		free(b);
	else
		munmap(b, b->size);
}

/* Does what comes now continue the last run? An empty one (nothing came of a read) is free. */
static bool run_goes_on(const struct ring_block *b, uint64_t order)
{
	struct ring_run run;

	if (!b->used)
		return false;
	run = run_at(b, b->run);
	return run.len == 0 || run.order + run.len == order;
}

static void run_open(struct ring_block *b, uint64_t order)
{
	struct ring_run run = {.order = order};

	if (!run_goes_on(b, order)) {
		b->run = b->used;
		b->used += sizeof(run);
	} else if (run_at(b, b->run).len) {
		return;
	}
	memcpy(b->data + b->run, &run, sizeof(run));
}

static bool block_takes(const struct ring_block *b, uint64_t order)
{
	size_t room = block_room(b);

	return run_goes_on(b, order) ? room > 0 : room >= sizeof(struct ring_run) + RING_RUN_MIN;
}

static size_t size_for(size_t bytes)
{
	size_t size = RING_BLOCK_MIN;

	while (size < RING_BLOCK_MAX &&
	       size < bytes + sizeof(struct ring_block) + sizeof(struct ring_run))
		size *= 4;
	return size;
}

/* Size of the block to be made before want bytes go in, 0 when the last one does. */
static size_t size_wanted(const struct ring *r, uint64_t order, size_t want)
{
	const struct ring_block *b = r->tail;

	if (!b)
		return size_for(want);
	if (b != r->head || b->size == RING_BLOCK_MAX)
		return block_takes(b, order) ? 0 : RING_BLOCK_MAX;
	if (block_takes(b, order) && block_room(b) >= want + sizeof(struct ring_run))
		return 0;
	return size_for(b->used + want + sizeof(struct ring_run) + RING_RUN_MIN);
}

size_t ring_need(const struct ring *r, uint64_t order, size_t want)
{
	return size_wanted(r, order, want);
}

/* The only block, grown. */
static struct ring_block *block_grow(struct ring *r, size_t size)
{
	struct ring_block *old = r->tail, *b;

	if (size <= old->size)
		return old;
	b = block_new(size);
	if (!b)
		return old; /* its rest will do */
	memcpy(b->data, old->data, old->used);
	b->first = old->first;
	b->used = old->used;
	b->run = old->run;
	r->mem += b->size - old->size;
	r->head = r->tail = b;
	block_free(old);
	return b;
}

static struct ring_block *block_append(struct ring *r, size_t size)
{
	struct ring_block *b = block_new(size);

	if (!b)
		return NULL;
	b->first = r->total;
	r->mem += size;
	if (r->tail)
		r->tail->next = b;
	else
		r->head = b;
	r->tail = b;
	return b;
}

uint8_t *ring_room(struct ring *r, uint64_t order, size_t want, size_t *ret_room)
{
	size_t size = size_wanted(r, order, want), room;
	struct ring_block *b = r->tail;

	if (size && b && b == r->head && b->size < RING_BLOCK_MAX)
		b = block_grow(r, size);
	if (b && !block_takes(b, order))
		b = NULL;
	if (!b)
		b = block_append(r, size ? size : RING_BLOCK_MAX);
	if (!b)
		return NULL;
	run_open(b, order);
	room = block_room(b);
	*ret_room = room < want ? room : want;
	return b->data + b->used;
}

void ring_commit(struct ring *r, size_t n)
{
	struct ring_block *b = r->tail;
	struct ring_run run = run_at(b, b->run);

	run.len += n;
	memcpy(b->data + b->run, &run, sizeof(run));
	b->used += (uint32_t)n;
	r->total += n;
	while (r->total - r->first > TASK_RING_MAX && r->head != r->tail)
		ring_drop(r);
}

void ring_lost(struct ring *r, size_t n)
{
	ring_done(r);
	r->total += n;
	r->first = r->total;
}

void ring_drop(struct ring *r)
{
	struct ring_block *b = r->head;

	if (!b)
		return;
	r->head = b->next;
	if (!r->head)
		r->tail = NULL;
	r->first = r->head ? r->head->first : r->total;
	r->mem -= b->size;
	block_free(b);
}

void ring_done(struct ring *r)
{
	while (r->head)
		ring_drop(r);
}

static const struct ring_block *block_find(const struct ring *r, uint64_t at)
{
	const struct ring_block *b = r->head;

	if (r->tail && at >= r->tail->first)
		return r->tail;
	while (b && b->next && at >= b->next->first)
		b = b->next;
	return b;
}

size_t ring_peek(const struct ring *r, uint64_t at, const uint8_t **ret, uint64_t *ret_order)
{
	const struct ring_block *b;
	uint64_t off;

	if (at < r->first || at >= r->total)
		return 0;
	b = block_find(r, at);
	off = b->first;
	for (uint32_t i = 0; i < b->used;) {
		struct ring_run run = run_at(b, i);

		i += (uint32_t)sizeof(run);
		if (at < off + run.len) {
			*ret = b->data + i + (at - off);
			*ret_order = run.order + (at - off);
			return (size_t)(off + run.len - at);
		}
		off += run.len;
		i += (uint32_t)run.len;
	}
	return 0;
}
