/*
 * net_ids.c - what follows from a slot number: names, indexes, addresses. Pure.
 */
#include "box/net_int.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NAME_FMT "cs%.4s%x" /* cs + 4 + at most 8: below IFNAMSIZ */

static void mac_set(uint8_t mac[6], uint8_t side, uint32_t slot)
{
	uint32_t be = htonl(slot);

	mac[0] = 0x02; /* locally administered, unicast */
	mac[1] = side;
	memcpy(mac + 2, &be, 4);
}

/* A unique local prefix that carries the instance: fdca:<inst4>:<inst4>:<subnet>::<host>. */
void net_addr6(const struct net *n, unsigned subnet, uint32_t host, struct in6_addr *ret)
{
	uint32_t inst = htonl((uint32_t)strtoul(n->instance, NULL, 16));
	uint16_t sub = htons((uint16_t)subnet);
	uint32_t h = htonl(host);

	memset(ret, 0, sizeof(*ret));
	ret->s6_addr[0] = 0xfd;
	ret->s6_addr[1] = 0xca;
	memcpy(ret->s6_addr + 2, &inst, 4);
	memcpy(ret->s6_addr + 6, &sub, 2);
	memcpy(ret->s6_addr + 12, &h, 4);
}

void net_ids(const struct net *n, uint32_t slot, struct net_ids *ret)
{
	uint32_t i = slot % NET_V4_COUNT;

	memset(ret, 0, sizeof(*ret));
	ret->slot = slot;
	ret->ifindex = slot + NET_INDEX_BASE;
	snprintf(ret->name, sizeof(ret->name), NAME_FMT, n->instance, slot);
	/* No .0 and no .255: some programs refuse such addresses of their own. */
	ret->ip4.s_addr = htonl(NET_V4_RANGE + i / 254 * 256 + 1 + i % 254);
	net_addr6(n, 1, slot, &ret->ip6);
	mac_set(ret->mac_router, 0xca, slot);
	mac_set(ret->mac_box, 0xcb, slot);
}

bool net_ids_parse(const struct net *n, const char *ifname, uint32_t *ret_slot)
{
	char want[IFNAMSIZ];
	unsigned long slot;
	char *end;

	if (strncmp(ifname, "cs", 2) != 0 || strncmp(ifname + 2, n->instance, 4) != 0)
		return false;
	errno = 0;
	slot = strtoul(ifname + 6, &end, 16);
	if (errno || *end || slot > NET_SLOT_MAX)
		return false;
	snprintf(want, sizeof(want), NAME_FMT, n->instance, (uint32_t)slot);
	if (strcmp(want, ifname) != 0)
		return false;
	*ret_slot = (uint32_t)slot;
	return true;
}
