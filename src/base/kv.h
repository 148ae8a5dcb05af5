/*
 * kv.h - an ordered map of short strings: env, labels, headers. Keys are unique.
 */
#ifndef CAISSON_BASE_KV_H
#define CAISSON_BASE_KV_H

#include <stddef.h>

#include "base/err.h"

struct kv_pair {
	char *key;
	char *value;
};

struct kv {
	struct kv_pair *pair;
	size_t n;
};

void kv_done(struct kv *kv);
#define auto_kv auto_call(kv_done)

const char *kv_get(const struct kv *kv, const char *key); /* NULL when absent */
/* Copies; replaces an old value. */
int kv_set(struct kv *kv, const char *key, const char *value, struct err *err);
void kv_unset(struct kv *kv, const char *key);
int kv_copy(struct kv *dst, const struct kv *src, struct err *err);
/* All pairs of src over those of dst. */
int kv_merge(struct kv *dst, const struct kv *src, struct err *err);

#endif
