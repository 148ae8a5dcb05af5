/*
 * net_uplink.c - the one link between the router and the outside, and the claim on its addresses.
 *
 * The outside (usually the host's own namespace) gets one interface of ours, cs<instance>up, one
 * table of ours, and the switches of that interface only. Addresses: 169.254.192.0/20 in blocks
 * of four, one block an instance, claimed by a lock on /run/caisson/uplink/<number>; link-local
 * space is never routed, and this part of it is used by no cloud's metadata service. IPv6 takes
 * the instance's unique local prefix. ip_forward belongs to the host: while it is off, or there is
 * no default route, egress is refused at once, so that clients inside don't wait for nothing.
 */
#include "box/net_int.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <libmnl/libmnl.h>
#include <linux/if_link.h>
#include <linux/magic.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>

#include "base/clock.h"
#include "base/path.h"

#define CLAIM_PARENT "/run/caisson"
#define CLAIM_DIR    "/run/caisson/uplink"
#define CLAIM_BASE   0xa9fec000u /* 169.254.192.0 */
#define UPLINK_FILE  "uplink"	 /* in the run directory: the number of the kept router */

enum uplink_side { SIDE_OUTSIDE = 1, SIDE_ROUTER = 2 };

struct side {
	struct in_addr ip4;
	struct in6_addr ip6;
	uint8_t mac[6];
};

static void side_get(const struct net *n, enum uplink_side which, struct side *ret)
{
	uint32_t inst = htonl((uint32_t)strtoul(n->instance, NULL, 16));

	ret->ip4.s_addr = htonl(CLAIM_BASE + n->uplink * 4 + (uint32_t)which);
	net_addr6(n, 0, which, &ret->ip6);
	ret->mac[0] = 0x02;
	ret->mac[1] = (uint8_t)(0xcc + which);
	memcpy(ret->mac + 2, &inst, 4);
}

static void uplink_name(const struct net *n, char out[IFNAMSIZ])
{
	snprintf(out, IFNAMSIZ, "cs%sup", n->instance);
}

/* Does the claim's text name another instance whose router still stands? */
static bool claim_is_anothers(const struct net *n, const char *text)
{
	char path[PATH_MAX];
	struct statfs fs;
	size_t len = strcspn(text, "\n");

	if (len == 0 || len >= PATH_MAX - 16)
		return false;
	if (len == strlen(n->run_dir) && !memcmp(text, n->run_dir, len))
		return false;
	snprintf(path, sizeof(path), "%.*s/router.ns", (int)len, text);
	return statfs(path, &fs) == 0 && fs.f_type == NSFS_MAGIC;
}

/* The file of a number, locked, unless it belongs to a living or kept router of another. */
static int claim_lock(const struct net *n, unsigned number, int create)
{
	char path[64], text[PATH_MAX];
	struct stat st;
	auto_close int fd = -1;
	ssize_t got;

	snprintf(path, sizeof(path), CLAIM_DIR "/%u", number);
	fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | create, 0600);
	if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0)
		return -1;
	/* Somebody may have removed it between the open and the lock. */
	if (fstat(fd, &st) < 0 || st.st_nlink == 0)
		return -1;
	got = pread(fd, text, sizeof(text) - 1, 0);
	text[got > 0 ? got : 0] = '\0';
	return claim_is_anothers(n, text) ? -1 : TAKE_FD(fd);
}

/* Claims of instances that are dead for good: their files go. */
static void claims_prune(const struct net *n)
{
	char path[64];

	for (unsigned i = 0; i < NET_UPLINKS; i++) {
		auto_close int fd = i == n->uplink ? -1 : claim_lock(n, i, 0);

		if (fd < 0)
			continue;
		snprintf(path, sizeof(path), CLAIM_DIR "/%u", i);
		unlink(path);
	}
}

/* Returns the locked file, or -1 when the number is taken. */
static int claim_try(struct net *n, unsigned number)
{
	char text[PATH_MAX + 2];
	auto_close int fd = claim_lock(n, number, O_CREAT);

	if (fd < 0)
		return -1;
	snprintf(text, sizeof(text), "%s\n", n->run_dir);
	if (ftruncate(fd, 0) < 0 || pwrite(fd, text, strlen(text), 0) < 0)
		return -1;
	return TAKE_FD(fd);
}

int net_uplink_claim(struct net *n, struct err *err)
{
	auto_close int dir = open(n->run_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	unsigned start = (unsigned)(strtoul(n->instance, NULL, 16) % NET_UPLINKS);
	char text[16];

	if ((mkdir(CLAIM_PARENT, 0755) < 0 && errno != EEXIST) ||
	    (mkdir(CLAIM_DIR, 0700) < 0 && errno != EEXIST))
		return err_errno(err, ERR_INTERNAL, errno, "create " CLAIM_DIR);
	if (path_read_at(dir, UPLINK_FILE, text, sizeof(text), NULL) > 0)
		start = (unsigned)(strtoul(text, NULL, 10) % NET_UPLINKS);
	for (unsigned i = 0; i < NET_UPLINKS; i++) {
		n->uplink = (start + i) % NET_UPLINKS;
		n->claim_fd = claim_try(n, n->uplink);
		if (n->claim_fd < 0)
			continue;
		claims_prune(n);
		snprintf(text, sizeof(text), "%u\n", n->uplink);
		return path_write_at(dir, UPLINK_FILE, text, strlen(text), 0600, err);
	}
	return err_set(err, ERR_LIMIT, "all %d uplink ranges are in use, see " CLAIM_DIR,
		       NET_UPLINKS);
}

static void msg_side(struct nl_batch *b, const struct net *n, int index, enum uplink_side which)
{
	enum uplink_side far = which == SIDE_OUTSIDE ? SIDE_ROUTER : SIDE_OUTSIDE;
	struct side mine, peer;

	side_get(n, which, &mine);
	side_get(n, far, &peer);
	net_msg_up_noarp(b, index);
	net_msg_addr(b, index, AF_INET, &mine.ip4, 30);
	net_msg_neigh(b, index, AF_INET, &peer.ip4, peer.mac);
	if (n->v6) {
		net_msg_addr(b, index, AF_INET6, &mine.ip6, 126);
		net_msg_neigh(b, index, AF_INET6, &peer.ip6, peer.mac);
	}
}

/*
 * Made from the router's side, since veth takes the index asked for its main end only. The other
 * end is born outside with an index of its own.
 */
static void msg_pair(struct nl_batch *b, const struct net *n)
{
	struct ifinfomsg peer = {0};
	struct nlmsghdr *nlh =
		net_msg_link(b, RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, NET_INDEX_UPLINK);
	struct nlattr *info, *data, *nest;
	char name[IFNAMSIZ];
	struct side side;

	uplink_name(n, name);
	side_get(n, SIDE_ROUTER, &side);
	mnl_attr_put_strz(nlh, IFLA_IFNAME, "uplink");
	mnl_attr_put(nlh, IFLA_ADDRESS, 6, side.mac);
	info = mnl_attr_nest_start(nlh, IFLA_LINKINFO);
	mnl_attr_put_strz(nlh, IFLA_INFO_KIND, "veth");
	data = mnl_attr_nest_start(nlh, IFLA_INFO_DATA);
	nest = mnl_attr_nest_start(nlh, VETH_INFO_PEER);
	memcpy(mnl_nlmsg_get_payload_tail(nlh), &peer, sizeof(peer));
	nlh->nlmsg_len += MNL_ALIGN(sizeof(peer));
	side_get(n, SIDE_OUTSIDE, &side);
	mnl_attr_put_strz(nlh, IFLA_IFNAME, name);
	mnl_attr_put(nlh, IFLA_ADDRESS, 6, side.mac);
	mnl_attr_put_u32(nlh, IFLA_NET_NS_FD, (uint32_t)n->outside);
	mnl_attr_nest_end(nlh, nest);
	mnl_attr_nest_end(nlh, data);
	mnl_attr_nest_end(nlh, info);
	nl_end(b, nlh);
}

static int link_delete(struct nl_sock *rt, int index, struct err *err)
{
	struct nl_batch b;

	nl_begin(&b, rt, false);
	nl_end(&b, net_msg_link(&b, RTM_DELLINK, 0, index));
	b.forgive[0] = ENODEV;
	return nl_commit(&b, rt, "remove the uplink", err);
}

/* Only switches of our own interface. */
static int outside_sysctls(const struct net *n, const char *name, struct err *err)
{
	static const struct {
		const char *fmt, *value;
		bool v6, must;
	} row[] = {
		{"ipv4/conf/%s/forwarding", "1", false, true},
		{"ipv4/conf/%s/send_redirects", "0", false, false},
		{"ipv6/conf/%s/addr_gen_mode", "1", true, true},
		{"ipv6/conf/%s/accept_ra", "0", true, true},
		{"ipv6/conf/%s/forwarding", "1", true, true},
		{"ipv6/conf/%s/force_forwarding", "1", true, false}, /* Linux 6.17 */
	};
	char path[96];

	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		if (row[i].v6 && !n->v6)
			continue;
		snprintf(path, sizeof(path), row[i].fmt, name);
		if (net_sysctl(path, row[i].value, row[i].must ? err : NULL) < 0 && row[i].must)
			return -1;
	}
	return 0;
}

static int uplink_outside(void *arg, struct err *err)
{
	struct net *n = arg;
	auto_nl struct nl_sock rt = NL_SOCK_INIT;
	char name[IFNAMSIZ];
	struct nl_batch b;

	uplink_name(n, name);
	if (nl_open(&rt, NETLINK_ROUTE, err) < 0 || outside_sysctls(n, name, err) < 0)
		return -1;
	nl_begin(&b, &rt, false);
	msg_side(&b, n, (int)if_nametoindex(name), SIDE_OUTSIDE);
	return nl_commit(&b, &rt, "set up the uplink outside", err);
}

/* Whether one end is there (1 or 0), or its removal where it is. */
struct uplink_end {
	const char *name;
	bool remove;
};

static int uplink_end(void *arg, struct err *err)
{
	struct uplink_end *e = arg;
	auto_nl struct nl_sock rt = NL_SOCK_INIT;
	int index = (int)if_nametoindex(e->name);

	if (!index || !e->remove)
		return index != 0;
	if (nl_open(&rt, NETLINK_ROUTE, err) < 0)
		return -1;
	return link_delete(&rt, index, err);
}

static int uplink_make(void *arg, struct err *err)
{
	struct net *n = arg;
	auto_nl struct nl_sock rt = NL_SOCK_INIT;
	struct nl_batch b;

	if (nl_open(&rt, NETLINK_ROUTE, err) < 0)
		return -1;
	nl_begin(&b, &rt, false);
	msg_pair(&b, n);
	return nl_commit(&b, &rt, "make the uplink", err);
}

/* Both ends there, or a new pair: a kept router's outside may be another namespace now. */
static int uplink_pair(struct net *n, struct err *err)
{
	char name[IFNAMSIZ];
	struct uplink_end outside = {.name = name}, router = {.name = "uplink"};
	int has_outside, has_router;

	uplink_name(n, name);
	has_outside = net_in_ns(n->outside, uplink_end, &outside, err);
	has_router = net_in_ns(n->router, uplink_end, &router, err);
	if (has_outside < 0 || has_router < 0)
		return -1;
	if (has_outside && has_router)
		return 0;
	outside.remove = router.remove = true;
	if (net_in_ns(n->outside, uplink_end, &outside, err) < 0 ||
	    net_in_ns(n->router, uplink_end, &router, err) < 0)
		return -1;
	return net_in_ns(n->router, uplink_make, n, err);
}

static int uplink_router(void *arg, struct err *err)
{
	struct net *n = arg;
	auto_nl struct nl_sock rt = NL_SOCK_INIT;
	struct nl_batch b;
	struct side out;

	if (nl_open(&rt, NETLINK_ROUTE, err) < 0)
		return -1;
	side_get(n, SIDE_OUTSIDE, &out);
	nl_begin(&b, &rt, false);
	msg_side(&b, n, NET_INDEX_UPLINK, SIDE_ROUTER);
	net_msg_route(&b, RTM_NEWROUTE, NET_INDEX_UPLINK, AF_INET, NULL, 0, &out.ip4);
	if (n->v6)
		net_msg_route(&b, RTM_NEWROUTE, NET_INDEX_UPLINK, AF_INET6, NULL, 0, &out.ip6);
	return nl_commit(&b, &rt, "set up the uplink in the router", err);
}

/* The first packets of the first sandbox must not be the ones that are lost. */
static int uplink_settle(void *arg, struct err *err)
{
	const struct timespec nap = {.tv_nsec = NET_SETTLE_US * 1000L};
	int64_t deadline = clock_mono_ms() + NET_SETTLE_MS;
	auto_nl struct nl_sock rt = NL_SOCK_INIT;
	int index = (int)if_nametoindex(arg);

	if (nl_open(&rt, NETLINK_ROUTE, err) < 0)
		return -1;
	while (!net_link_sends(&rt, index) && clock_mono_ms() < deadline)
		nanosleep(&nap, NULL);
	return 0;
}

int net_uplink_open(struct net *n, struct err *err)
{
	char name[IFNAMSIZ];

	uplink_name(n, name);
	if (uplink_pair(n, err) < 0 || net_in_ns(n->outside, uplink_outside, n, err) < 0 ||
	    net_in_ns(n->router, uplink_router, n, err) < 0 ||
	    net_in_ns(n->outside, uplink_settle, name, err) < 0)
		return -1;
	n->up4 = n->up6 = -1;
	net_uplink_look(n, &n->nft);
	return net_nft_load_outside(n, err);
}

void net_uplink_remove(struct net *n)
{
	auto_close int dir = open(n->run_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	char path[64], name[IFNAMSIZ];
	struct uplink_end end = {.name = name, .remove = true};

	uplink_name(n, name);
	net_in_ns(n->outside, uplink_end, &end, NULL);
	net_nft_remove_outside(n);
	unlinkat(dir, UPLINK_FILE, 0);
	unlinkat(dir, "table", 0);
	snprintf(path, sizeof(path), CLAIM_DIR "/%u", n->uplink);
	unlink(path); /* while it is locked */
}

/* Interface of the route to a public address (nothing is sent), or 0. */
static int route_out(struct nl_sock *rt, int family, const void *ip, size_t len)
{
	char buf[512] __attribute__((aligned(8)));
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(buf);
	struct rtmsg *req = mnl_nlmsg_put_extra_header(nlh, sizeof(*req));
	const struct nlattr *attr;
	ssize_t got;

	nlh->nlmsg_type = RTM_GETROUTE;
	nlh->nlmsg_flags = NLM_F_REQUEST;
	nlh->nlmsg_seq = ++rt->seq;
	req->rtm_family = (uint8_t)family;
	req->rtm_dst_len = (uint8_t)(len * 8);
	mnl_attr_put(nlh, RTA_DST, len, ip);
	if (send(rt->fd, buf, nlh->nlmsg_len, 0) < 0)
		return 0;
	got = recv(rt->fd, buf, sizeof(buf), 0);
	if (got <= 0 || !mnl_nlmsg_ok(nlh, (int)got) || nlh->nlmsg_type != RTM_NEWROUTE)
		return 0;
	mnl_attr_for_each(attr, nlh, sizeof(*req))
	{
		if (mnl_attr_get_type(attr) == RTA_OIF)
			return (int)mnl_attr_get_u32(attr);
	}
	return 0;
}

static bool switch_on(const char *fmt, const char *ifname)
{
	char path[96], value[8];

	snprintf(path, sizeof(path), fmt, ifname);
	return net_sysctl_get(path, value, sizeof(value)) == 0 && value[0] != '0';
}

struct look {
	bool v6;
	int up4, up6;
};

/* In the outside: replies come in where requests go out, so that interface must forward. */
static int uplink_look(void *arg, struct err *err)
{
	static const uint8_t public4[4] = {1, 1, 1, 1};
	static const uint8_t public6[16] = {0x26, 0x06, 0x47, 0x00, 0x47, 0, 0,	   0,
					    0,	  0,	0,    0,    0,	  0, 0x11, 0x11};
	struct look *l = arg;
	auto_nl struct nl_sock rt = NL_SOCK_INIT;
	char name[IFNAMSIZ];
	int index;

	if (nl_open(&rt, NETLINK_ROUTE, err) < 0)
		return -1;
	index = route_out(&rt, AF_INET, public4, sizeof(public4));
	if (index && if_indextoname((unsigned)index, name))
		l->up4 = switch_on("ipv4/conf/%s/forwarding", name);
	index = l->v6 ? route_out(&rt, AF_INET6, public6, sizeof(public6)) : 0;
	if (index && if_indextoname((unsigned)index, name))
		l->up6 = switch_on("ipv6/conf/%s/forwarding", "all") ||
			 switch_on("ipv6/conf/%s/force_forwarding", name);
	return 0;
}

/*
 * A reset by nft, not the ICMP error of a missing route: such an error comes back while connect
 * still holds the socket and is lost, so the client would wait a second for its second SYN.
 */
void net_uplink_look(struct net *n, struct nl_sock *nft)
{
	struct look l = {.v6 = n->v6};

	if (net_in_ns(n->outside, uplink_look, &l, NULL) < 0 ||
	    (l.up4 == n->up4 && l.up6 == n->up6))
		return;
	if (net_elem_up(nft, l.up4, l.up6, NULL) < 0)
		return; /* tried again at the next look */
	n->up4 = l.up4;
	n->up6 = l.up6;
}
