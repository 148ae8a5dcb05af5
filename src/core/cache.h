/*
 * cache.h - a few records kept in memory, for those that every call reads and rare calls change.
 *
 * Only this process writes the records, so whoever changes one clears the cache after the write;
 * then nothing old is ever found. A reader takes the generation from its miss, reads the record,
 * and puts it back under that generation: a clear in between makes the put a no-op. Safe from any
 * thread.
 */
#ifndef CAISSON_CORE_CACHE_H
#define CAISSON_CORE_CACHE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CACHE_ROWS    32
#define CACHE_KEY_MAX 256

struct cache {
	pthread_mutex_t lock; /* guards all below */
	uint64_t gen;
	size_t size; /* of a value */
	unsigned next;
	struct {
		size_t nkey; /* 0: free */
		char key[CACHE_KEY_MAX];
	} row[CACHE_ROWS];
	char *value; /* CACHE_ROWS of them */
};

void cache_init(struct cache *c, size_t value_size);
void cache_done(struct cache *c);
/* True: value is filled. Else *ret_gen is for cache_put. */
bool cache_get(struct cache *c, const void *key, size_t nkey, void *value, uint64_t *ret_gen);
void cache_put(struct cache *c, const void *key, size_t nkey, const void *value, uint64_t gen);
void cache_clear(struct cache *c);

#endif
