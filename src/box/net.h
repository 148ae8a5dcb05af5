/*
 * net.h - sandbox networks: one router namespace of the daemon's own, a pool of ready network
 * namespaces behind it, one nft table (share/caisson.nft), one uplink.
 *
 * Root process only. A lease is a network namespace with a veth to the router, addressed, up,
 * firewalled. Inside root has no rights over it, since the host's user namespace owns it. Claiming
 * takes microseconds; making leases and letting them die is the makers' work, as is finding out
 * that one was never used and can be claimed again (net_unused.c). The router
 * namespace outlives this process (pinned below the run directory), so running sandboxes keep
 * their network over a restart. Thread-safe.
 */
#ifndef CAISSON_BOX_NET_H
#define CAISSON_BOX_NET_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

#define NET_IP_LEN 46

struct net_config {
	const char *instance;	  /* 8 hex digits, part of every kernel name */
	const char *run_dir;	  /* /run/caisson/<instance> */
	const char *uplink_netns; /* path of a namespace to use as the outside; NULL: the host's */
	const char *resolvers;	  /* comma list of upstream resolvers; NULL: /etc/resolv.conf */
	unsigned pool;		  /* ready leases kept, default 16 */
	const char *allow_ranges; /* operator's exceptions to the deny list, comma CIDRs or NULL */
};

enum net_flag {
	NET_BLOCK = 1 << 0, /* no egress but the resolver; equals PRIV_START_NET_BLOCK */
};

struct net_lease {
	int netns;     /* the namespace; setns() it before clone3 */
	uint32_t slot; /* identifies the lease over a restart */
	char ip4[NET_IP_LEN], ip6[NET_IP_LEN];
	char resolver4[NET_IP_LEN]; /* nameserver line of the sandbox */
};

struct net;
struct net *net_open(const struct net_config *cfg, struct err *err);
int net_claim(struct net *n, uint32_t flags, struct net_lease *ret, struct err *err);
/*
 * No process may be left in it. Policy elements gone at once, flows cut; what nobody used goes back
 * to the pool, of the rest the veth dies by itself.
 */
void net_release(struct net *n, struct net_lease *lease);
/* After a restart: slot is in use by a living sandbox whose pid 1 is pid; refills lease. */
int net_adopt(struct net *n, uint32_t slot, pid_t pid, uint32_t flags, struct net_lease *ret,
	      struct err *err);
/* Adoption is over: every slot that was not adopted is leftover and is cleaned. */
void net_adopted(struct net *n);
int net_set_flags(struct net *n, const struct net_lease *lease, uint32_t flags, struct err *err);
/*
 * keep: leave the router for adoption; else remove everything of this instance. A router that was
 * found at net_open is always kept until net_adopted was called.
 */
void net_close(struct net *n, bool keep);
#define NET_DNS_FDS 4
/*
 * For `caissond net` (caisson/netrole.h): UDP, TCP socket of the resolver, then the same two for
 * sandboxes without egress. Made at the first call, which must come before any other thread calls;
 * the descriptors stay n's, the child gets duplicates.
 */
int net_dns_fds(struct net *n, int ret[NET_DNS_FDS], struct err *err);
/* The namespace that process must enter to ask upstream; stays n's. */
int net_outside_fd(const struct net *n);
/* For the audit: leftovers of this instance in kernel objects (0 when clean). */
int net_leftovers(struct net *n);

#endif
