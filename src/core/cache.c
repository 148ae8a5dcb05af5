/*
 * cache.c - see cache.h. Linear and round robin: a daemon has few keys and snapshots in use.
 */
#include "core/cache.h"

#include <stdlib.h>
#include <string.h>

void cache_init(struct cache *c, size_t value_size)
{
	memset(c, 0, sizeof(*c));
	pthread_mutex_init(&c->lock, NULL);
	c->size = value_size;
	c->value = calloc(CACHE_ROWS, value_size); /* NULL: it just never holds anything */
}

void cache_done(struct cache *c)
{
	pthread_mutex_destroy(&c->lock);
	free(c->value);
}

static int cache_find(const struct cache *c, const void *key, size_t nkey)
{
	for (int i = 0; i < CACHE_ROWS; i++)
		if (c->row[i].nkey == nkey && memcmp(c->row[i].key, key, nkey) == 0)
			return i;
	return -1;
}

bool cache_get(struct cache *c, const void *key, size_t nkey, void *value, uint64_t *ret_gen)
{
	int i;

	pthread_mutex_lock(&c->lock);
	i = cache_find(c, key, nkey);
	if (i >= 0)
		memcpy(value, c->value + (size_t)i * c->size, c->size);
	*ret_gen = c->gen;
	pthread_mutex_unlock(&c->lock);
	return i >= 0;
}

void cache_put(struct cache *c, const void *key, size_t nkey, const void *value, uint64_t gen)
{
	int i;

	if (nkey == 0 || nkey > CACHE_KEY_MAX)
		return;
	pthread_mutex_lock(&c->lock);
	if (c->value && gen == c->gen) {
		i = cache_find(c, key, nkey);
		if (i < 0)
			i = (int)(c->next++ % CACHE_ROWS);
		memcpy(c->row[i].key, key, nkey);
		c->row[i].nkey = nkey;
		memcpy(c->value + (size_t)i * c->size, value, c->size);
	}
	pthread_mutex_unlock(&c->lock);
}

void cache_clear(struct cache *c)
{
	pthread_mutex_lock(&c->lock);
	c->gen++;
	for (int i = 0; i < CACHE_ROWS; i++)
		c->row[i].nkey = 0;
	pthread_mutex_unlock(&c->lock);
}
