/*
 * net_int.h - shared by the net*.c files only. The outside sees net.h.
 *
 *   sandbox ns            router ns (pinned at run_dir/router.ns)          outside
 *   eth0 (index 2)  <-->  cs<inst4><slot>  ... forward ...  uplink  <-->  cs<inst8>up
 *   198.18.a.b/32         no address; /32, /128 routes      169.254.x.y/30 on both sides
 *   default via 169.254.1.1 and fe80::1, permanent neighbours, no ARP, no link-local address
 *
 * Everything of a lease follows from its slot, a number that no two sandboxes which used the
 * network have in the life of a router: interface index and conntrack mark (slot +
 * NET_INDEX_BASE), name, addresses, MACs. So a stale packet, flow or set element of a dead lease
 * never matches a living one, and adoption needs no records. A lease through which not one packet
 * went is claimed again (net_unused.c).
 *
 *   making ─► settling ─► READY ─claim─► LIVE ─release─► RETURNED ─unused─► READY
 *                                                           └─used, or the pool is full─► DEAD
 */
#ifndef CAISSON_BOX_NET_INT_H
#define CAISSON_BOX_NET_INT_H

#include <limits.h>
#include <net/if.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "box/net.h"
#include "box/net_nl.h"

#define NET_RESOLVER4	 "169.254.1.1" /* on the router's lo; also every sandbox's gateway */
#define NET_GATEWAY6	 "fe80::1" /* nobody owns it: a permanent neighbour leads to the router */
#define NET_DNS_PORT	 53
#define NET_REFUSE_PORT	 5353 /* where the queries of blocked sandboxes end */
#define NET_INDEX_UPLINK 2
#define NET_INDEX_BASE	 1000
#define NET_SLOT_MAX	 (1u << 30)
#define NET_SLOT_BLOCK	 4096	     /* slots reserved at a time in run_dir/slot */
#define NET_V4_RANGE	 0xc6120000u /* 198.18.0.0/15, reserved for benchmarks: nobody's network */
#define NET_V4_COUNT	 (512u * 254u)
#define NET_GROUP_LEASE	 1 /* interface groups: deleting a whole group costs one RCU wait */
#define NET_GROUP_TRASH	 2

#define NET_FILES_ROOM	  4095 /* descriptors the table is made for at once */
#define NET_MAKERS	  2
#define NET_POOL_DEFAULT  16
#define NET_POOL_MAX	  1024
#define NET_CLAIM_WAIT_MS 15000 /* most a claim waits while the pool is empty */
#define NET_UNSURE_MS	  200	/* a returned lease with sockets may become clean for so long */
#define NET_UNSURE_LOOK	  20
#define NET_REST_MS	  10   /* without a claim for so long, the pool is filled to the brim */
#define NET_RECENT_MS	  1000 /* and for so long after one it is looked whether that is due */
#define NET_TICK_MS	  250  /* the dead are looked at this often */
#define NET_LOOK_MS	  2000 /* and the outside */
#define NET_IDLE_MS	  60000
#define NET_SETTLE_US	  200	/* between looks at an interface that doesn't send yet */
#define NET_SETTLE_MS	  3000	/* then it is used as it is */
#define NET_SETTLING	  16	/* of one maker */
#define NET_LINGER_MS	  30000 /* then a released interface is removed by force */

/* What follows from a slot. */
struct net_ids {
	uint32_t slot, ifindex;
	char name[IFNAMSIZ];
	struct in_addr ip4;
	struct in6_addr ip6;
	uint8_t mac_router[6], mac_box[6];
};

struct net_node {
	uint32_t slot;
	int netns;
	bool open; /* has its element in the set "open" */
	int64_t dead_ms;
	struct nl_sock in; /* while it settles: a socket inside */
	struct net_node *next;
};

#define NET_BUCKETS 1024
#define NET_UPLINKS 1024 /* instances a machine can have */

struct net {
	/* Constant after net_open. */
	char instance[9];
	char run_dir[PATH_MAX];
	int router;	 /* router namespace */
	int outside;	 /* uplink namespace */
	int claim_fd;	 /* locked claim on the uplink's address range */
	unsigned uplink; /* its number */
	bool v6;
	bool adopted_router; /* the router was there already */
	bool adoption_over;  /* net_adopted came; opener's thread only */
	unsigned pool;
	char *resolvers;
	char *allow_ranges;
	int dns[NET_DNS_FDS]; /* see net_dns_fds */

	/* Guards nft and node->open; held over one batch, 10 us. Makers have sockets of their own.
	 */
	pthread_mutex_t nft_lock;
	struct nl_sock nft;

	pthread_mutex_t lock; /* guards all below; held over no I/O */
	pthread_cond_t want;  /* makers: work to do */
	pthread_cond_t have;  /* claimers: something ready */
	struct net_node *ready;
	struct net_node *returned; /* released: may they be claimed again? */
	struct net_node *unsure;   /* of these, those to be looked at again */
	unsigned nready, nmaking, nreturned, nwaiting;
	int64_t claimed_ms;		       /* last claim */
	uint32_t making[NET_MAKERS];	       /* slot each maker works on, or 0 */
	struct net_node *settling[NET_MAKERS]; /* made, but the kernel doesn't send yet */
	struct net_node *live[NET_BUCKETS];
	unsigned nlive;
	struct net_node *dead;	   /* released: flows to be forgotten */
	pthread_mutex_t slot_lock; /* guards next_slot, slot_end; held over one small file */
	uint32_t first_slot, next_slot, slot_end; /* first_slot: of this process; constant */
	bool stop;
	int64_t make_failed_ms; /* back-off after a failure */
	struct err make_err;
	pthread_t maker[NET_MAKERS];
	unsigned nmakers;
	int up4, up6; /* the outside forwards: 1, 0, -1 unknown (maker 0 only) */
};

/* net_ids.c: pure. */
void net_ids(const struct net *n, uint32_t slot, struct net_ids *ret);
bool net_ids_parse(const struct net *n, const char *ifname, uint32_t *ret_slot);
void net_addr6(const struct net *n, unsigned subnet, uint32_t host, struct in6_addr *ret);

/* net_ns.c: namespaces and per-namespace files. */
/* Run fn(arg) on a thread of its own inside netns; its result and error are passed on. */
int net_in_ns(int netns, int (*fn)(void *arg, struct err *err), void *arg, struct err *err);
int net_ns_open_self(struct err *err);
/* A netlink socket that lives in netns. */
int net_ns_socket(int netns, int bus, struct nl_sock *ret, struct err *err);
/* Write a file below /proc/sys/net of the calling thread's namespace. */
int net_sysctl(const char *name, const char *value, struct err *err);
int net_sysctl_get(const char *name, char *out, size_t cap);

/* net_router.c */
int net_router_open(struct net *n, struct err *err);
void net_router_remove(struct net *n);
/* A slot number that this router has never used. */
int net_slot_take(struct net *n, uint32_t *ret, struct err *err);

/* net_uplink.c */
int net_uplink_claim(struct net *n, struct err *err);
int net_uplink_open(struct net *n, struct err *err);
void net_uplink_remove(struct net *n);
/* Look whether the outside forwards and has a default route; else refuse egress at once. */
void net_uplink_look(struct net *n, struct nl_sock *nft);

/* net_link.c: rtnetlink messages. */
/* ret_in: a socket inside, for net_link_sends. */
int net_link_make(struct net *n, struct nl_sock *rt, const struct net_ids *ids, int *ret_netns,
		  struct nl_sock *ret_in, struct err *err);
/*
 * Does this interface send already? The end of a pair that came up first gets its queue from the
 * kernel's link watcher, some time after the other end came up; until then it drops everything,
 * and a first packet lost costs its sender a second.
 */
bool net_link_sends(struct nl_sock *rt, int index);
#define NET_BOX_INDEX 2 /* of eth0 in every sandbox; lo is 1 */
struct nlmsghdr *net_msg_link(struct nl_batch *b, uint16_t type, uint16_t flags, int index);
void net_msg_up(struct nl_batch *b, int index);
void net_msg_up_noarp(struct nl_batch *b, int index);
void net_msg_addr(struct nl_batch *b, int index, int family, const void *ip, unsigned prefix);
void net_msg_neigh(struct nl_batch *b, int index, int family, const void *ip, const uint8_t mac[6]);
/* gw NULL: a host route straight to the interface; prefix 0: the default route. */
void net_msg_route(struct nl_batch *b, uint16_t type, int index, int family, const void *dst,
		   unsigned prefix, const void *gw);
/* Slots of all lease interfaces in the router; *ret is one malloc. */
int net_link_slots(struct net *n, struct nl_sock *rt, uint32_t **ret, size_t *ret_n,
		   struct err *err);
/* Delete the interfaces of these slots in one go (missing ones are fine). */
int net_link_remove(struct net *n, struct nl_sock *rt, const uint32_t *slot, size_t nslots,
		    struct err *err);

/* net_nft.c: the tables as text, loaded once by the nft program. */
int net_nft_load_router(struct net *n, struct err *err);
int net_nft_load_outside(struct net *n, struct err *err);
void net_nft_remove_outside(struct net *n);

/* net_elem.c: set elements as raw netlink, over any netfilter socket of the router. */
int net_elem_known(struct net *n, struct nl_sock *s, const struct net_ids *ids, struct err *err);
int net_elem_open(struct nl_sock *s, uint32_t slot, bool add, struct err *err);
/* What made the leases of a list known; they are open no more. */
int net_elem_forget(struct net *n, struct nl_sock *s, const struct net_node *list, struct err *err);
/* Bring the elements of an adopted lease to what they should be. */
int net_elem_sync(struct net *n, struct nl_sock *s, uint32_t slot, bool open, struct err *err);
/* Which families the outside forwards. */
int net_elem_up(struct nl_sock *s, bool up4, bool up6, struct err *err);
/* The element of one set that belongs to an interface. */
int net_elem_remove(struct net *n, struct nl_sock *s, const char *set, uint32_t ifindex,
		    struct err *err);
/* Interface index in each element of a set; *ret is one malloc. */
int net_elem_dump(struct nl_sock *s, const char *set, uint32_t **ret, size_t *ret_n,
		  struct err *err);
/* Forget the connections that carry this mark. */
int net_flows_flush(struct nl_sock *ct, uint32_t mark, struct err *err);

/* net_unused.c: releases of which nothing remains. procnet is /proc/thread-self/net. */
#define NET_FRESH_FILES 8
struct net_fresh {
	bool whole;
	char *text[NET_FRESH_FILES]; /* what a new namespace shows */
};
/* Of the namespace this thread is in, which nobody had yet. -1: no lease can be looked at. */
int net_fresh_read(const struct net *n, int procnet, struct net_fresh *ret);
void net_fresh_done(struct net_fresh *f);
enum net_use {
	NET_UNUSED,  /* the namespace this thread is in shows no more than a fresh one */
	NET_SOCKETS, /* it may, once the sockets in it are freed */
	NET_USED,
};
enum net_use net_use_of(const struct net *n, const struct net_fresh *fresh, int procnet);

/* net_bury.c: released leases whose interface is gone lose their elements and flows. */
void net_bury(struct net *n, struct nl_sock *rt, struct nl_sock *nft);

/* net_pool.c */
int net_pool_start(struct net *n, struct err *err);
/* Makers end, ready leases are dropped. */
void net_pool_stop(struct net *n);
/* The living lease of a slot; the caller holds lock. */
struct net_node *net_pool_find(struct net *n, uint32_t slot);
void net_pool_insert(struct net *n, struct net_node *node); /* caller holds lock */
void net_lease_fill(const struct net *n, const struct net_node *node, struct net_lease *ret);

#endif
