/*
 * net_router.c - the router namespace: made or found, pinned, its switches and its slot counter.
 *
 * The pin is a bind mount, so the namespace outlives a killed daemon and the next one adopts it.
 * After a reboot the file may still be there on a disk-backed /run, but it is no mount then.
 */
#include "box/net_int.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <libmnl/libmnl.h>
#include <linux/magic.h>
#include <linux/rtnetlink.h>
#include <sched.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "base/path.h"

#define PIN_FILE  "router.ns"
#define SLOT_FILE "slot"
#define LO_INDEX  1

static int pin_path(const struct net *n, char out[PATH_MAX], struct err *err)
{
	if ((size_t)snprintf(out, PATH_MAX, "%s/" PIN_FILE, n->run_dir) >= PATH_MAX)
		return err_set(err, ERR_INVALID, "run directory: path too long");
	return 0;
}

/* A namespace pinned at path, or -1 when there is none. */
static int pin_find(const char *path)
{
	struct statfs fs;
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

	if (fd < 0 || fstatfs(fd, &fs) < 0 || fs.f_type != NSFS_MAGIC)
		return -1;
	return TAKE_FD(fd);
}

static const struct {
	const char *name, *value;
	bool v6, must;
} router_sysctl[] = {
	{"ipv4/ip_forward", "1", false, true},
	/* nft pins the source of every packet; rp_filter would only get in the way of the resolver.
	 */
	{"ipv4/conf/all/rp_filter", "0", false, true},
	{"ipv4/conf/default/rp_filter", "0", false, true},
	{"ipv4/conf/all/send_redirects", "0", false, true},
	{"ipv4/conf/default/send_redirects", "0", false, true},
	{"ipv4/conf/all/accept_redirects", "0", false, true},
	/* Refusals are rate-limited by nft per sandbox; the kernel's limits would hang clients. */
	{"ipv4/icmp_ratelimit", "0", false, false},
	{"ipv4/icmp_msgs_per_sec", "100000", false, false},
	{"ipv4/icmp_msgs_burst", "10000", false, false},
	{"ipv6/icmp/ratelimit", "0", true, false},
	{"ipv6/conf/all/forwarding", "1", true, true},
	{"ipv6/conf/default/forwarding", "1", true, true},
	{"ipv6/conf/all/accept_ra", "0", true, true},
	{"ipv6/conf/default/accept_ra", "0", true, true},
	{"ipv6/conf/default/addr_gen_mode", "1", true, true},
	{"ipv6/conf/all/accept_redirects", "0", true, true},
	{"ipv6/conf/default/accept_redirects", "0", true, true},
	/* Windows are the ends' business; a packet taken for invalid would only be lost. */
	{"netfilter/nf_conntrack_tcp_be_liberal", "1", false, false},
	/* Closed connections count in no sandbox's budget (nf_conncount), so they must not pile up.
	 */
	{"netfilter/nf_conntrack_tcp_timeout_time_wait", "10", false, false},
	{"netfilter/nf_conntrack_tcp_timeout_close", "5", false, false},
	/* A day instead of five: dead leases' flows are flushed, this is for what was forgotten. */
	{"netfilter/nf_conntrack_tcp_timeout_established", "86400", false, false},
};

static int router_setup(void *arg, struct err *err)
{
	struct net *n = arg;
	auto_nl struct nl_sock rt = NL_SOCK_INIT;
	struct in_addr resolver;
	struct in6_addr self6;
	struct nl_batch b;

	for (size_t i = 0; i < ARRAY_LEN(router_sysctl); i++) {
		if (router_sysctl[i].v6 && !n->v6)
			continue;
		if (net_sysctl(router_sysctl[i].name, router_sysctl[i].value, err) < 0 &&
		    router_sysctl[i].must)
			return -1;
	}
	if (nl_open(&rt, NETLINK_ROUTE, err) < 0)
		return -1;
	inet_pton(AF_INET, NET_RESOLVER4, &resolver);
	net_addr6(n, 0, 3, &self6); /* source of the router's own ICMPv6 */
	nl_begin(&b, &rt, false);
	net_msg_up(&b, LO_INDEX);
	net_msg_addr(&b, LO_INDEX, AF_INET, &resolver, 32);
	if (n->v6)
		net_msg_addr(&b, LO_INDEX, AF_INET6, &self6, 128);
	return nl_commit(&b, &rt, "set up the router", err);
}

struct pin {
	const char *path;
	int ret;
};

static void *pin_thread(void *arg)
{
	struct pin *p = arg;

	p->ret = errno = 0;
	if (unshare(CLONE_NEWNET) < 0 ||
	    mount("/proc/thread-self/ns/net", p->path, NULL, MS_BIND, NULL) < 0)
		p->ret = errno;
	return NULL;
}

static int pin_make(const char *path, struct err *err)
{
	struct pin p = {.path = path};
	pthread_t t;
	int e;
	auto_close int file = open(path, O_RDONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

	if (file < 0)
		return err_errno(err, ERR_INTERNAL, errno, "create %s", path);
	e = pthread_create(&t, NULL, pin_thread, &p);
	if (e)
		return err_errno(err, ERR_NOMEM, e, "start a namespace thread");
	pthread_join(t, NULL);
	if (p.ret)
		return err_errno(err, ERR_INTERNAL, p.ret, "pin the router at %s", path);
	return 0;
}

int net_router_open(struct net *n, struct err *err)
{
	char path[PATH_MAX];

	if (pin_path(n, path, err) < 0)
		return -1;
	n->router = pin_find(path);
	n->adopted_router = n->router >= 0;
	if (!n->adopted_router) {
		if (pin_make(path, err) < 0)
			return -1;
		n->router = pin_find(path);
		if (n->router < 0)
			return err_set(err, ERR_INTERNAL, "%s is not a namespace", path);
	}
	return net_in_ns(n->router, router_setup, n, err);
}

void net_router_remove(struct net *n)
{
	auto_close int dir = open(n->run_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	char path[PATH_MAX];

	if (pin_path(n, path, NULL) < 0)
		return;
	umount2(path, MNT_DETACH | UMOUNT_NOFOLLOW);
	unlinkat(dir, PIN_FILE, 0);
	unlinkat(dir, SLOT_FILE, 0);
}

/* The counter is on file in blocks, so a killed daemon loses numbers but never repeats one. */
static int slot_block(struct net *n, struct err *err)
{
	auto_close int dir = open(n->run_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	char text[16];
	unsigned long first = 1;

	if (dir < 0)
		return err_errno(err, ERR_INTERNAL, errno, "open %s", n->run_dir);
	if (path_read_at(dir, SLOT_FILE, text, sizeof(text), NULL) > 0)
		first = strtoul(text, NULL, 10);
	if (first == 0 || first > NET_SLOT_MAX - NET_SLOT_BLOCK)
		first = 1;
	snprintf(text, sizeof(text), "%lu\n", first + NET_SLOT_BLOCK);
	if (path_write_at(dir, SLOT_FILE, text, strlen(text), 0600, err) < 0)
		return err_wrap(err, "reserve slots");
	n->next_slot = (uint32_t)first;
	n->slot_end = (uint32_t)first + NET_SLOT_BLOCK;
	return 0;
}

int net_slot_take(struct net *n, uint32_t *ret, struct err *err)
{
	int r = 0;

	pthread_mutex_lock(&n->slot_lock);
	if (n->next_slot == n->slot_end)
		r = slot_block(n, err);
	if (r == 0) {
		if (!n->first_slot)
			n->first_slot = n->next_slot;
		*ret = n->next_slot++;
	}
	pthread_mutex_unlock(&n->slot_lock);
	return r;
}
