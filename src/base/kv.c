/*
 * kv.c - see kv.h. Linear: maps here have tens of entries.
 */
#include "base/kv.h"

#include <string.h>

void kv_done(struct kv *kv)
{
	for (size_t i = 0; i < kv->n; i++) {
		free(kv->pair[i].key);
		free(kv->pair[i].value);
	}
	free(kv->pair);
	*kv = (struct kv){0};
}

static struct kv_pair *kv_find(const struct kv *kv, const char *key)
{
	for (size_t i = 0; i < kv->n; i++)
		if (strcmp(kv->pair[i].key, key) == 0)
			return &kv->pair[i];
	return NULL;
}

const char *kv_get(const struct kv *kv, const char *key)
{
	const struct kv_pair *p = kv_find(kv, key);

	return p ? p->value : NULL;
}

int kv_set(struct kv *kv, const char *key, const char *value, struct err *err)
{
	struct kv_pair *p = kv_find(kv, key);
	auto_free char *v = strdup(value);
	auto_free char *k = NULL;

	if (!v)
		return err_set(err, ERR_NOMEM, "out of memory");
	if (p) {
		free(p->value);
		p->value = TAKE_PTR(v);
		return 0;
	}
	k = strdup(key);
	p = realloc(kv->pair, (kv->n + 1) * sizeof(*p));
	if (p)
		kv->pair = p;
	if (!k || !p)
		return err_set(err, ERR_NOMEM, "out of memory");
	kv->pair[kv->n++] = (struct kv_pair){TAKE_PTR(k), TAKE_PTR(v)};
	return 0;
}

void kv_unset(struct kv *kv, const char *key)
{
	struct kv_pair *p = kv_find(kv, key);
	size_t i;

	if (!p)
		return;
	i = (size_t)(p - kv->pair);
	free(p->key);
	free(p->value);
	memmove(p, p + 1, (kv->n - i - 1) * sizeof(*p));
	kv->n--;
}

int kv_merge(struct kv *dst, const struct kv *src, struct err *err)
{
	for (size_t i = 0; i < src->n; i++)
		if (kv_set(dst, src->pair[i].key, src->pair[i].value, err) < 0)
			return -1;
	return 0;
}

int kv_copy(struct kv *dst, const struct kv *src, struct err *err)
{
	kv_done(dst);
	return kv_merge(dst, src, err);
}
