/*
 * source.c - what each sandbox has under way and how fast it asks, so that none starves the rest.
 */
#include <netinet/in.h>
#include <string.h>

#include "base/scope.h"
#include "net/role.h"

/* The address alone: ports are the sandbox's to choose. */
static void key_of(const struct sockaddr *sa, struct sockaddr_storage *ret)
{
	memset(ret, 0, sizeof(*ret));
	ret->ss_family = sa->sa_family;
	if (sa->sa_family == AF_INET)
		((struct sockaddr_in *)ret)->sin_addr = ((const struct sockaddr_in *)sa)->sin_addr;
	else if (sa->sa_family == AF_INET6)
		((struct sockaddr_in6 *)ret)->sin6_addr =
			((const struct sockaddr_in6 *)sa)->sin6_addr;
}

static uint64_t key_hash(uint64_t seed, const struct sockaddr_storage *key)
{
	const uint8_t *p = (const uint8_t *)key;
	uint64_t h = seed;

	for (size_t i = 0; i < sizeof(struct sockaddr_in6); i++)
		h = (h ^ p[i]) * 0x100000001b3u;
	return h ^ h >> 29;
}

struct source *source_get(struct role *r, const struct sockaddr *sa)
{
	struct sockaddr_storage key;
	struct source *oldest = NULL;
	uint64_t h;

	key_of(sa, &key);
	h = key_hash(r->seed, &key);
	for (unsigned i = 0; i < SOURCE_PROBE; i++) {
		struct source *s = &r->source[(h + i) % SOURCE_SLOTS];

		if (s->used && !memcmp(&s->key, &key, sizeof(key)))
			return s;
		if (s->queries || s->sessions)
			continue;
		if (!oldest || !s->used || (oldest->used && s->seen_ms < oldest->seen_ms))
			oldest = s;
	}
	if (oldest)
		*oldest = (struct source){
			.key = key, .used = true, .tokens = SOURCE_BURST, .seen_ms = r->now_ms};
	return oldest;
}

bool source_room(unsigned own, unsigned own_max, unsigned all, unsigned max)
{
	return own < MIN(own_max, (max - all) / SOURCE_SHARE);
}

bool source_pass(struct source *s, int64_t now_ms)
{
	double gained = (double)(now_ms - s->seen_ms) * SOURCE_RATE / 1000;

	s->tokens = MIN(s->tokens + gained, (double)SOURCE_BURST);
	s->seen_ms = now_ms;
	if (s->tokens < 1)
		return false;
	s->tokens -= 1;
	return true;
}
