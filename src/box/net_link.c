/*
 * net_link.c - rtnetlink: a lease's veth pair with its addresses, routes and neighbours.
 *
 * Both ends go without ARP: every neighbour is permanent, there is no on-link prefix and no
 * link-local address, so nothing inside can fill a neighbour table, and IPv6 has no tentative
 * phase (field fault D20: stalls of seconds).
 */
#include "box/net_int.h"

#include <arpa/inet.h>
#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <sched.h>
#include <string.h>

#define LO_INDEX 1

static const struct in_addr any4;

static size_t ip_len(int family)
{
	return family == AF_INET ? 4 : 16;
}

struct nlmsghdr *net_msg_link(struct nl_batch *b, uint16_t type, uint16_t flags, int index)
{
	struct nlmsghdr *nlh = nl_add(b, type, flags, sizeof(struct ifinfomsg), 0);
	struct ifinfomsg *ifi = mnl_nlmsg_get_payload(nlh);

	ifi->ifi_index = index;
	return nlh;
}

static void msg_flags(struct nl_batch *b, int index, unsigned flags)
{
	struct nlmsghdr *nlh = net_msg_link(b, RTM_NEWLINK, 0, index);
	struct ifinfomsg *ifi = mnl_nlmsg_get_payload(nlh);

	ifi->ifi_flags = flags;
	ifi->ifi_change = flags;
	nl_end(b, nlh);
}

void net_msg_up(struct nl_batch *b, int index)
{
	msg_flags(b, index, IFF_UP);
}

void net_msg_up_noarp(struct nl_batch *b, int index)
{
	msg_flags(b, index, IFF_UP | IFF_NOARP);
}

void net_msg_addr(struct nl_batch *b, int index, int family, const void *ip, unsigned prefix)
{
	struct nlmsghdr *nlh = nl_add(b, RTM_NEWADDR, NLM_F_CREATE | NLM_F_REPLACE,
				      sizeof(struct ifaddrmsg), EEXIST);
	struct ifaddrmsg *ifa = mnl_nlmsg_get_payload(nlh);

	ifa->ifa_family = (uint8_t)family;
	ifa->ifa_prefixlen = (uint8_t)prefix;
	ifa->ifa_index = (uint32_t)index;
	ifa->ifa_scope = RT_SCOPE_UNIVERSE;
	mnl_attr_put(nlh, IFA_LOCAL, ip_len(family), ip);
	mnl_attr_put(nlh, IFA_ADDRESS, ip_len(family), ip);
	if (family == AF_INET6)
		mnl_attr_put_u32(nlh, IFA_FLAGS, IFA_F_NODAD | IFA_F_PERMANENT);
	nl_end(b, nlh);
}

void net_msg_neigh(struct nl_batch *b, int index, int family, const void *ip, const uint8_t mac[6])
{
	struct nlmsghdr *nlh =
		nl_add(b, RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_REPLACE, sizeof(struct ndmsg), 0);
	struct ndmsg *nd = mnl_nlmsg_get_payload(nlh);

	nd->ndm_family = (uint8_t)family;
	nd->ndm_ifindex = index;
	nd->ndm_state = NUD_PERMANENT;
	mnl_attr_put(nlh, NDA_DST, ip_len(family), ip);
	mnl_attr_put(nlh, NDA_LLADDR, 6, mac);
	nl_end(b, nlh);
}

void net_msg_route(struct nl_batch *b, uint16_t type, int index, int family, const void *dst,
		   unsigned prefix, const void *gw)
{
	bool add = type == RTM_NEWROUTE;
	struct nlmsghdr *nlh = nl_add(b, type, add ? NLM_F_CREATE | NLM_F_REPLACE : 0,
				      sizeof(struct rtmsg), add ? EEXIST : ESRCH);
	struct rtmsg *rt = mnl_nlmsg_get_payload(nlh);

	rt->rtm_family = (uint8_t)family;
	rt->rtm_dst_len = (uint8_t)prefix;
	rt->rtm_table = RT_TABLE_MAIN;
	rt->rtm_protocol = RTPROT_STATIC;
	rt->rtm_type = RTN_UNICAST;
	rt->rtm_scope = gw || family == AF_INET6 ? RT_SCOPE_UNIVERSE : RT_SCOPE_LINK;
	if (prefix)
		mnl_attr_put(nlh, RTA_DST, ip_len(family), dst);
	if (gw) {
		/* The gateway is on no prefix of ours: take our word for it. */
		rt->rtm_flags = RTNH_F_ONLINK;
		mnl_attr_put(nlh, RTA_GATEWAY, ip_len(family), gw);
	}
	mnl_attr_put_u32(nlh, RTA_OIF, (uint32_t)index);
	nl_end(b, nlh);
}

/*
 * No link-local address. (Through /proc/sys it would be a trap: the write fails and restarts in
 * a busy loop for as long as anybody holds RTNL.)
 */
static void msg_no_link_local(struct nl_batch *b, int index)
{
	struct nlmsghdr *nlh = net_msg_link(b, RTM_NEWLINK, 0, index);
	struct nlattr *spec = mnl_attr_nest_start(nlh, IFLA_AF_SPEC);
	struct nlattr *inet6 = mnl_attr_nest_start(nlh, AF_INET6);

	mnl_attr_put_u8(nlh, IFLA_INET6_ADDR_GEN_MODE, IN6_ADDR_GEN_MODE_NONE);
	mnl_attr_nest_end(nlh, inet6);
	mnl_attr_nest_end(nlh, spec);
	nl_end(b, nlh);
}

/* One queue each way: by default there is one a processor, and every one has its sysfs folder. */
static void attr_one_queue(struct nlmsghdr *nlh)
{
	mnl_attr_put_u32(nlh, IFLA_NUM_TX_QUEUES, 1);
	mnl_attr_put_u32(nlh, IFLA_NUM_RX_QUEUES, 1);
}

/* The pair, the far end born in the namespace netns with its index, name and MAC. */
static void msg_veth(struct nl_batch *b, const struct net_ids *ids, int netns)
{
	struct ifinfomsg peer = {.ifi_index = NET_BOX_INDEX};
	struct nlmsghdr *nlh =
		net_msg_link(b, RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, (int)ids->ifindex);
	struct nlattr *info, *data, *nest;

	mnl_attr_put_strz(nlh, IFLA_IFNAME, ids->name);
	mnl_attr_put(nlh, IFLA_ADDRESS, 6, ids->mac_router);
	mnl_attr_put_u32(nlh, IFLA_GROUP, NET_GROUP_LEASE);
	attr_one_queue(nlh);
	info = mnl_attr_nest_start(nlh, IFLA_LINKINFO);
	mnl_attr_put_strz(nlh, IFLA_INFO_KIND, "veth");
	data = mnl_attr_nest_start(nlh, IFLA_INFO_DATA);
	nest = mnl_attr_nest_start(nlh, VETH_INFO_PEER);
	memcpy(mnl_nlmsg_get_payload_tail(nlh), &peer, sizeof(peer));
	nlh->nlmsg_len += MNL_ALIGN(sizeof(peer));
	mnl_attr_put_strz(nlh, IFLA_IFNAME, "eth0");
	mnl_attr_put(nlh, IFLA_ADDRESS, 6, ids->mac_box);
	mnl_attr_put_u32(nlh, IFLA_NET_NS_FD, (uint32_t)netns);
	attr_one_queue(nlh);
	mnl_attr_nest_end(nlh, nest);
	mnl_attr_nest_end(nlh, data);
	mnl_attr_nest_end(nlh, info);
	nl_end(b, nlh);
}

static int link_box_side(struct net *n, struct nl_sock *in, const struct net_ids *ids,
			 struct err *err)
{
	struct nl_batch b;
	struct in_addr gw4;
	struct in6_addr gw6;

	inet_pton(AF_INET, NET_RESOLVER4, &gw4);
	inet_pton(AF_INET6, NET_GATEWAY6, &gw6);
	nl_begin(&b, in, false);
	net_msg_up(&b, LO_INDEX);
	if (n->v6)
		msg_no_link_local(&b, NET_BOX_INDEX);
	net_msg_up_noarp(&b, NET_BOX_INDEX);
	net_msg_addr(&b, NET_BOX_INDEX, AF_INET, &ids->ip4, 32);
	net_msg_neigh(&b, NET_BOX_INDEX, AF_INET, &gw4, ids->mac_router);
	net_msg_route(&b, RTM_NEWROUTE, NET_BOX_INDEX, AF_INET, &any4, 0, &gw4);
	if (n->v6) {
		net_msg_addr(&b, NET_BOX_INDEX, AF_INET6, &ids->ip6, 128);
		net_msg_neigh(&b, NET_BOX_INDEX, AF_INET6, &gw6, ids->mac_router);
		net_msg_route(&b, RTM_NEWROUTE, NET_BOX_INDEX, AF_INET6, NULL, 0, &gw6);
	}
	return nl_commit(&b, in, "set up the sandbox's end", err);
}

static int link_router_side(struct net *n, struct nl_sock *rt, const struct net_ids *ids,
			    struct err *err)
{
	struct nl_batch b;
	int index = (int)ids->ifindex;

	nl_begin(&b, rt, false);
	net_msg_up_noarp(&b, index);
	net_msg_neigh(&b, index, AF_INET, &ids->ip4, ids->mac_box);
	net_msg_route(&b, RTM_NEWROUTE, index, AF_INET, &ids->ip4, 32, NULL);
	if (n->v6) {
		net_msg_neigh(&b, index, AF_INET6, &ids->ip6, ids->mac_box);
		net_msg_route(&b, RTM_NEWROUTE, index, AF_INET6, &ids->ip6, 128, NULL);
	}
	return nl_commit(&b, rt, "set up the router's end", err);
}

/*
 * Root inside has no rights over its own network: what it may want is opened here. Each of these
 * costs a walk over the names of all namespaces. Router advertisements need no switch: without a
 * link-local address none is asked for, and the router neither sends nor forwards any.
 */
static int link_box_sysctls(struct err *err)
{
	if (net_sysctl("ipv4/ip_unprivileged_port_start", "0", err) < 0)
		return -1;
	return net_sysctl("ipv4/ping_group_range", "0 2147483647", err);
}

int net_link_make(struct net *n, struct nl_sock *rt, const struct net_ids *ids, int *ret_netns,
		  struct nl_sock *ret_in, struct err *err)
{
	auto_nl struct nl_sock in = NL_SOCK_INIT;
	auto_close int netns = -1;
	struct nl_batch b;
	int r;

	if (unshare(CLONE_NEWNET) < 0)
		return err_errno(err, ERR_NOMEM, errno, "make a network namespace");
	netns = net_ns_open_self(err);
	r = netns < 0 ? -1 : link_box_sysctls(err);
	if (r == 0)
		r = nl_open(&in, NETLINK_ROUTE, err);
	/* Back at once: a maker that stays would keep a released namespace alive. */
	if (setns(n->router, CLONE_NEWNET) < 0)
		return err_errno(err, ERR_INTERNAL, errno, "return to the router");
	if (r < 0)
		return -1;
	nl_begin(&b, rt, false);
	msg_veth(&b, ids, netns);
	if (nl_commit(&b, rt, "make a veth pair", err) < 0)
		return -1;
	if (link_box_side(n, &in, ids, err) < 0 || link_router_side(n, rt, ids, err) < 0)
		return -1; /* the pair dies with the namespace */
	*ret_netns = TAKE_FD(netns);
	*ret_in = in;
	in.fd = -1;
	return 0;
}

bool net_link_sends(struct nl_sock *rt, int index)
{
	char buf[8192] __attribute__((aligned(8)));
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(buf);
	struct ifinfomsg *ifi = mnl_nlmsg_put_extra_header(nlh, sizeof(*ifi));
	const struct nlattr *attr;
	ssize_t got;

	nlh->nlmsg_type = RTM_GETLINK;
	nlh->nlmsg_flags = NLM_F_REQUEST;
	nlh->nlmsg_seq = ++rt->seq;
	ifi->ifi_index = index;
	mnl_attr_put_u32(nlh, IFLA_EXT_MASK, RTEXT_FILTER_SKIP_STATS);
	if (send(rt->fd, buf, nlh->nlmsg_len, 0) < 0)
		return false;
	got = recv(rt->fd, buf, sizeof(buf), 0);
	if (got <= 0 || !mnl_nlmsg_ok(nlh, (int)got) || nlh->nlmsg_type != RTM_NEWLINK)
		return false;
	mnl_attr_for_each(attr, nlh, sizeof(*ifi))
	{
		if (mnl_attr_get_type(attr) == IFLA_QDISC)
			return strcmp(mnl_attr_get_str(attr), "noop") != 0;
	}
	return false;
}

struct slots {
	const struct net *n;
	uint32_t *slot;
	size_t len, cap;
};

static int slots_add(void *arg, const struct nlmsghdr *nlh)
{
	struct slots *s = arg;
	const struct nlattr *attr;
	uint32_t slot;

	if (nlh->nlmsg_type != RTM_NEWLINK)
		return 0;
	mnl_attr_for_each(attr, nlh, sizeof(struct ifinfomsg))
	{
		if (mnl_attr_get_type(attr) != IFLA_IFNAME ||
		    !net_ids_parse(s->n, mnl_attr_get_str(attr), &slot))
			continue;
		if (s->len == s->cap) {
			size_t cap = s->cap ? s->cap * 2 : 64;
			uint32_t *grown = reallocarray(s->slot, cap, sizeof(*grown));

			if (!grown)
				return -1;
			s->slot = grown;
			s->cap = cap;
		}
		s->slot[s->len++] = slot;
	}
	return 0;
}

int net_link_slots(struct net *n, struct nl_sock *rt, uint32_t **ret, size_t *ret_n,
		   struct err *err)
{
	char buf[256] __attribute__((aligned(8)));
	struct nlmsghdr *req = mnl_nlmsg_put_header(buf);
	struct slots s = {.n = n};

	req->nlmsg_type = RTM_GETLINK;
	req->nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
	mnl_nlmsg_put_extra_header(req, sizeof(struct ifinfomsg));
	mnl_attr_put_u32(req, IFLA_EXT_MASK, RTEXT_FILTER_SKIP_STATS);
	if (nl_dump(rt, req, slots_add, &s, err) < 0) {
		free(s.slot);
		return err_wrap(err, "list the router's interfaces");
	}
	*ret = s.slot;
	*ret_n = s.len;
	return 0;
}

int net_link_remove(struct net *n, struct nl_sock *rt, const uint32_t *slot, size_t nslots,
		    struct err *err)
{
	struct nl_batch b;
	struct nlmsghdr *nlh;

	(void)n;
	if (!nslots)
		return 0;
	nl_begin(&b, rt, false);
	for (size_t i = 0; i < nslots; i++) {
		nlh = net_msg_link(&b, RTM_NEWLINK, 0, (int)slot[i] + NET_INDEX_BASE);
		b.forgive[b.n - 1] = ENODEV;
		mnl_attr_put_u32(nlh, IFLA_GROUP, NET_GROUP_TRASH);
		nl_end(&b, nlh);
		if (b.n == NL_BATCH_MSGS || i + 1 == nslots) {
			if (nl_commit(&b, rt, "gather dead interfaces", err) < 0)
				return -1;
			nl_begin(&b, rt, false);
		}
	}
	nlh = net_msg_link(&b, RTM_DELLINK, 0, 0);
	b.forgive[0] = ENODEV;
	mnl_attr_put_u32(nlh, IFLA_GROUP, NET_GROUP_TRASH);
	nl_end(&b, nlh);
	return nl_commit(&b, rt, "remove dead interfaces", err);
}
