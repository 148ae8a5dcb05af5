/*
 * net_bury.c - the end of released leases, in batches and behind the callers' backs.
 *
 *   released: no element in "open", so every packet is refused; still known, so refusals reach
 *   it: the kernel's orphaned TCP sockets get a reset and let go of the namespace, which they
 *   would hold for minutes otherwise. The namespace dies, the pair with it (0.2 ms each in a
 *   batch, 20 ms when deleted one by one).
 *      └─ interface gone ─► elements removed, flows flushed by their mark, node freed
 *      └─ NET_LINGER_MS  ─► interface removed by force, then as above
 */
#include "box/net_int.h"

#include <string.h>

#include "base/clock.h"

static int u32_cmp(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

static bool u32_has(const uint32_t *list, size_t n, uint32_t v)
{
	return n && bsearch(&v, list, n, sizeof(v), u32_cmp) != NULL;
}

/* Those of list whose interface may still be there (in slot) go back; returns the others. */
static struct net_node *bury_pick(struct net *n, struct net_node *list, bool known, uint32_t *slot,
				  size_t nslots)
{
	struct net_node *picked = NULL, *next;

	if (nslots)
		qsort(slot, nslots, sizeof(*slot), u32_cmp);
	pthread_mutex_lock(&n->lock);
	for (; list; list = next) {
		struct net_node **to = &picked;

		if (!known || u32_has(slot, nslots, list->slot))
			to = &n->dead;

		next = list->next;
		list->next = *to;
		*to = list;
	}
	pthread_mutex_unlock(&n->lock);
	return picked;
}

/* Interfaces that something still holds long after the release. */
static void bury_by_force(struct net *n, struct nl_sock *rt)
{
	int64_t old = clock_mono_ms() - NET_LINGER_MS;
	uint32_t slot[NL_BATCH_MSGS];
	size_t len = 0;

	pthread_mutex_lock(&n->lock);
	for (struct net_node *p = n->dead; p && len < ARRAY_LEN(slot); p = p->next)
		if (p->dead_ms < old)
			slot[len++] = p->slot;
	pthread_mutex_unlock(&n->lock);
	net_link_remove(n, rt, slot, len, NULL);
}

/*
 * Only leases that have flows are flushed: one flush walks the machine's whole table. Every new
 * flow of a sandbox passed the set "flows", which lists the interfaces that have any.
 */
static void bury_flows(struct nl_sock *nft, const struct net_node *list)
{
	auto_free uint32_t *index = NULL;
	size_t len = 0;

	net_elem_dump(nft, "flows", &index, &len, NULL);
	if (len)
		qsort(index, len, sizeof(*index), u32_cmp);
	for (; list; list = list->next)
		if (u32_has(index, len, list->slot + NET_INDEX_BASE))
			net_flows_flush(nft, list->slot + NET_INDEX_BASE, NULL);
}

void net_bury(struct net *n, struct nl_sock *rt, struct nl_sock *nft)
{
	auto_free uint32_t *slot = NULL;
	struct net_node *list, *next;
	size_t nslots = 0;
	bool known;

	/* Taken before the interfaces are listed: one made and released meanwhile isn't judged. */
	pthread_mutex_lock(&n->lock);
	list = TAKE_PTR(n->dead);
	pthread_mutex_unlock(&n->lock);
	if (!list)
		return;
	known = net_link_slots(n, rt, &slot, &nslots, NULL) == 0;
	list = bury_pick(n, list, known, slot, nslots);
	bury_by_force(n, rt);
	if (list)
		bury_flows(nft, list);
	net_elem_forget(n, nft, list, NULL);
	for (; list; list = next) {
		next = list->next;
		free(list);
	}
}
