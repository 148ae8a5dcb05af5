/*
 * net.c - see net.h: opening and closing a network, adoption after a restart, the audit.
 */
#include "box/net.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/sys.h"
#include "box/net_int.h"

/* Sets with elements of a lease; "open" first, so a lease that goes is shut before the rest. */
static const char *const lease_sets[] = {"open", "known4", "gen", "known6"};

static void net_free(struct net *n)
{
	int *fd[] = {&n->router, &n->outside, &n->claim_fd, &n->dns[0],
		     &n->dns[1], &n->dns[2],  &n->dns[3]};

	for (size_t i = 0; i < ARRAY_LEN(fd); i++)
		scope_close(fd[i]);
	nl_close(&n->nft);
	pthread_cond_destroy(&n->want);
	pthread_cond_destroy(&n->have);
	pthread_mutex_destroy(&n->lock);
	pthread_mutex_destroy(&n->nft_lock);
	pthread_mutex_destroy(&n->slot_lock);
	free(n->resolvers);
	free(n->allow_ranges);
	free(n);
}

static struct net *net_new(const struct net_config *cfg, struct err *err)
{
	struct net *n = calloc(1, sizeof(*n));
	pthread_condattr_t attr;

	if (!n)
		return (void)err_set(err, ERR_NOMEM, "out of memory"), NULL;
	n->router = n->outside = n->claim_fd = n->nft.fd = -1;
	n->dns[0] = n->dns[1] = n->dns[2] = n->dns[3] = -1;
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&n->want, &attr);
	pthread_cond_init(&n->have, &attr);
	pthread_condattr_destroy(&attr);
	pthread_mutex_init(&n->lock, NULL);
	pthread_mutex_init(&n->nft_lock, NULL);
	pthread_mutex_init(&n->slot_lock, NULL);
	snprintf(n->instance, sizeof(n->instance), "%s", cfg->instance);
	snprintf(n->run_dir, sizeof(n->run_dir), "%s", cfg->run_dir);
	n->pool = MIN(cfg->pool ? cfg->pool : NET_POOL_DEFAULT, NET_POOL_MAX);
	n->resolvers = cfg->resolvers ? strdup(cfg->resolvers) : NULL;
	n->allow_ranges = cfg->allow_ranges ? strdup(cfg->allow_ranges) : NULL;
	n->v6 = access("/proc/sys/net/ipv6/conf/all/forwarding", F_OK) == 0;
	return n;
}

static int config_check(const struct net_config *cfg, struct err *err)
{
	size_t len = cfg->instance ? strlen(cfg->instance) : 0;

	for (size_t i = 0; i < len; i++)
		if (!isxdigit((unsigned char)cfg->instance[i]) ||
		    isupper((unsigned char)cfg->instance[i]))
			len = 0;
	if (len != 8)
		return err_set(err, ERR_INVALID, "instance: must be 8 lower-case hex digits");
	if (!cfg->run_dir || cfg->run_dir[0] != '/' || strlen(cfg->run_dir) > PATH_MAX - 32)
		return err_set(err, ERR_INVALID, "run directory: must be an absolute path");
	return 0;
}

static int outside_open(struct net *n, const char *path, struct err *err)
{
	if (!path || !*path)
		n->outside = net_ns_open_self(err);
	else
		n->outside = open(path, O_RDONLY | O_CLOEXEC);
	if (n->outside < 0 && path)
		return err_errno(err, ERR_INVALID, errno, "uplink-netns: open %s", path);
	return n->outside < 0 ? -1 : 0;
}

/*
 * Leases live in descriptors. Growing the table of a process with threads waits for RCU, 20 ms
 * at some unlucky start each time it doubles; so it grows now.
 */
static void descriptors_make_room(int any)
{
	struct rlimit lim;
	int fd;

	if (getrlimit(RLIMIT_NOFILE, &lim) < 0)
		return;
	fd = fcntl(any, F_DUPFD_CLOEXEC, (int)MIN(lim.rlim_cur - 1, (rlim_t)NET_FILES_ROOM));
	if (fd >= 0)
		close(fd);
}

static int net_start(struct net *n, const struct net_config *cfg, struct err *err)
{
	if (mkdir(n->run_dir, 0755) < 0 && errno != EEXIST)
		return err_errno(err, ERR_INTERNAL, errno, "create %s", n->run_dir);
	if (outside_open(n, cfg->uplink_netns, err) < 0 || net_router_open(n, err) < 0 ||
	    net_uplink_claim(n, err) < 0)
		return -1;
	if (net_ns_socket(n->router, NETLINK_NETFILTER, &n->nft, err) < 0)
		return -1;
	/* The table before the link: there is no moment in which a packet passes unchecked. */
	if (net_nft_load_router(n, err) < 0 || net_uplink_open(n, err) < 0)
		return -1;
	descriptors_make_room(n->router);
	return net_pool_start(n, err);
}

struct net *net_open(const struct net_config *cfg, struct err *err)
{
	struct net *n;

	if (config_check(cfg, err) < 0)
		return NULL;
	n = net_new(cfg, err);
	if (!n)
		return NULL;
	if (net_start(n, cfg, err) == 0)
		return n;
	err_wrap(err, "network");
	net_close(n, n->adopted_router);
	return NULL;
}

static int remove_leases(struct net *n)
{
	auto_nl struct nl_sock rt = NL_SOCK_INIT;
	auto_free uint32_t *slot = NULL;
	size_t nslots = 0;

	if (net_ns_socket(n->router, NETLINK_ROUTE, &rt, NULL) < 0 ||
	    net_link_slots(n, &rt, &slot, &nslots, NULL) < 0)
		return -1;
	return net_link_remove(n, &rt, slot, nslots, NULL);
}

void net_close(struct net *n, bool keep)
{
	if (!n)
		return;
	/* A start that failed before adoption must not take living sandboxes' network away. */
	keep = keep || (n->adopted_router && !n->adoption_over);
	net_pool_stop(n);
	if (!keep && n->router >= 0) {
		remove_leases(n);
		if (n->outside >= 0 && n->claim_fd >= 0)
			net_uplink_remove(n);
		net_router_remove(n);
	}
	net_free(n);
}

/* Does this namespace belong to the slot? Its eth0 carries the slot in its hardware address. */
static int adopt_check(void *arg, struct err *err)
{
	const struct net_ids *ids = arg;
	struct ifreq req = {.ifr_name = "eth0"};
	auto_close int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (s < 0 || ioctl(s, SIOCGIFHWADDR, &req) < 0)
		return err_errno(err, ERR_CONFLICT, errno, "look at eth0");
	if (memcmp(req.ifr_hwaddr.sa_data, ids->mac_box, sizeof(ids->mac_box)) != 0)
		return err_set(err, ERR_CONFLICT, "the process is in another network");
	return 0;
}

int net_adopt(struct net *n, uint32_t slot, pid_t pid, uint32_t flags, struct net_lease *ret,
	      struct err *err)
{
	auto_close int pidfd = sys_pidfd_open(pid, 0);
	auto_close int netns = -1;
	struct net_ids ids;
	struct net_node *node;
	char path[48];
	int r;

	if (slot == 0 || slot > NET_SLOT_MAX)
		return err_set(err, ERR_INVALID, "lease %u: out of range", slot);
	snprintf(path, sizeof(path), "/proc/%d/ns/net", (int)pid);
	netns = open(path, O_RDONLY | O_CLOEXEC);
	/* Still alive after the open: the path led to that very process. */
	if (pidfd < 0 || netns < 0 || sys_pidfd_send_signal(pidfd, 0) < 0)
		return err_errno(err, ERR_GONE, errno, "process %d of lease %u", (int)pid, slot);
	net_ids(n, slot, &ids);
	if (net_in_ns(netns, adopt_check, &ids, err) < 0)
		return err_wrap(err, "adopt lease %u", slot);
	node = calloc(1, sizeof(*node));
	if (!node)
		return err_set(err, ERR_NOMEM, "out of memory");
	*node = (struct net_node){.slot = slot, .netns = TAKE_FD(netns), .in.fd = -1};
	pthread_mutex_lock(&n->lock);
	net_pool_insert(n, node);
	pthread_mutex_unlock(&n->lock);
	pthread_mutex_lock(&n->nft_lock);
	r = net_elem_sync(n, &n->nft, slot, !(flags & NET_BLOCK), err);
	node->open = r == 0 && !(flags & NET_BLOCK);
	pthread_mutex_unlock(&n->nft_lock);
	net_lease_fill(n, node, ret);
	if (r < 0)
		net_release(n, ret);
	return r;
}

/* A slot nobody answers for: of an earlier process and not adopted. */
static bool slot_is_stale(struct net *n, uint32_t slot)
{
	bool stale;

	pthread_mutex_lock(&n->slot_lock);
	stale = !n->first_slot || slot < n->first_slot || slot >= n->next_slot;
	pthread_mutex_unlock(&n->slot_lock);
	pthread_mutex_lock(&n->lock);
	stale = stale && !net_pool_find(n, slot);
	pthread_mutex_unlock(&n->lock);
	return stale;
}

static void stale_links_remove(struct net *n)
{
	auto_nl struct nl_sock rt = NL_SOCK_INIT;
	auto_free uint32_t *slot = NULL;
	size_t nslots = 0, keep = 0;

	if (net_ns_socket(n->router, NETLINK_ROUTE, &rt, NULL) < 0 ||
	    net_link_slots(n, &rt, &slot, &nslots, NULL) < 0)
		return;
	for (size_t i = 0; i < nslots; i++)
		if (slot_is_stale(n, slot[i]))
			slot[keep++] = slot[i];
	net_link_remove(n, &rt, slot, keep, NULL);
}

static void stale_elements_remove(struct net *n)
{
	auto_nl struct nl_sock nft = NL_SOCK_INIT;

	if (net_ns_socket(n->router, NETLINK_NETFILTER, &nft, NULL) < 0)
		return;
	for (size_t s = 0; s < ARRAY_LEN(lease_sets); s++) {
		auto_free uint32_t *index = NULL;
		size_t len = 0;

		net_elem_dump(&nft, lease_sets[s], &index, &len, NULL);
		for (size_t i = 0; i < len; i++)
			if (slot_is_stale(n, index[i] - NET_INDEX_BASE))
				net_elem_remove(n, &nft, lease_sets[s], index[i], NULL);
	}
}

void net_adopted(struct net *n)
{
	n->adoption_over = true;
	if (!n->adopted_router)
		return;
	stale_elements_remove(n); /* first: nothing of a dead lease passes any more */
	stale_links_remove(n);
}

static bool node_listed(const struct net_node *p, uint32_t slot)
{
	while (p && p->slot != slot)
		p = p->next;
	return p != NULL;
}

static bool slot_in_making(const struct net *n, uint32_t slot)
{
	for (size_t i = 0; i < NET_MAKERS; i++)
		if (n->making[i] == slot || node_listed(n->settling[i], slot))
			return true;
	return false;
}

/* How many of these slots are neither living nor ready nor under way to it. */
static int slots_unknown(struct net *n, const uint32_t *slot, size_t len)
{
	int unknown = 0;

	pthread_mutex_lock(&n->lock);
	for (size_t i = 0; i < len; i++)
		if (!net_pool_find(n, slot[i]) && !node_listed(n->ready, slot[i]) &&
		    !slot_in_making(n, slot[i]))
			unknown++;
	pthread_mutex_unlock(&n->lock);
	return unknown;
}

static int leftover_elements(struct net *n)
{
	auto_nl struct nl_sock nft = NL_SOCK_INIT;
	int count = 0;

	if (net_ns_socket(n->router, NETLINK_NETFILTER, &nft, NULL) < 0)
		return 1;
	for (size_t s = 0; s < ARRAY_LEN(lease_sets); s++) {
		auto_free uint32_t *index = NULL;
		size_t len = 0;

		net_elem_dump(&nft, lease_sets[s], &index, &len, NULL);
		for (size_t i = 0; i < len; i++)
			index[i] -= NET_INDEX_BASE;
		count += slots_unknown(n, index, len);
	}
	return count;
}

int net_leftovers(struct net *n)
{
	auto_nl struct nl_sock rt = NL_SOCK_INIT;
	auto_free uint32_t *slot = NULL;
	size_t nslots = 0;

	if (net_ns_socket(n->router, NETLINK_ROUTE, &rt, NULL) < 0 ||
	    net_link_slots(n, &rt, &slot, &nslots, NULL) < 0)
		return -1;
	return slots_unknown(n, slot, nslots) + leftover_elements(n);
}
