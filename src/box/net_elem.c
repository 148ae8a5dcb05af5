/*
 * net_elem.c - elements of the router table's sets, as raw nf_tables batches; forgetting flows.
 *
 * One exact element costs 6 to 11 us whatever the number of sandboxes; the nft program costs
 * 23 ms. Keys are the concatenations of share/caisson.nft, each field padded to 4 bytes.
 */
#include "box/net_int.h"

#include <arpa/inet.h>
#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_conntrack.h>
#include <string.h>

#define TABLE	   "caisson"
#define ELEM_BATCH 24 /* messages of about 140 bytes: well below NL_BATCH_BYTES */

struct elem {
	const char *set;
	const void *key;
	size_t key_len;
	const uint32_t *data; /* of a map, else NULL */
};

static void elem_add(struct nl_batch *b, const struct elem *e, bool add, int forgive)
{
	uint16_t op = add ? NFT_MSG_NEWSETELEM : NFT_MSG_DELSETELEM;
	struct nlmsghdr *nlh = nl_add(b, (uint16_t)(NFNL_SUBSYS_NFTABLES << 8 | op),
				      add ? NLM_F_CREATE : 0, sizeof(struct nfgenmsg), forgive);
	struct nfgenmsg *nfg = mnl_nlmsg_get_payload(nlh);
	struct nlattr *list, *elem, *value;

	nfg->nfgen_family = NFPROTO_INET;
	nfg->version = NFNETLINK_V0;
	mnl_attr_put_strz(nlh, NFTA_SET_ELEM_LIST_TABLE, TABLE);
	mnl_attr_put_strz(nlh, NFTA_SET_ELEM_LIST_SET, e->set);
	list = mnl_attr_nest_start(nlh, NFTA_SET_ELEM_LIST_ELEMENTS);
	elem = mnl_attr_nest_start(nlh, NFTA_LIST_ELEM);
	value = mnl_attr_nest_start(nlh, NFTA_SET_ELEM_KEY);
	mnl_attr_put(nlh, NFTA_DATA_VALUE, e->key_len, e->key);
	mnl_attr_nest_end(nlh, value);
	if (e->data && add) {
		value = mnl_attr_nest_start(nlh, NFTA_SET_ELEM_DATA);
		mnl_attr_put(nlh, NFTA_DATA_VALUE, sizeof(*e->data), e->data);
		mnl_attr_nest_end(nlh, value);
	}
	mnl_attr_nest_end(nlh, elem);
	mnl_attr_nest_end(nlh, list);
	nl_end(b, nlh);
}

struct key4 {
	uint32_t ifindex;
	uint8_t mac[6], pad[2];
	struct in_addr ip;
};
struct key6 {
	uint32_t ifindex;
	uint8_t mac[6], pad[2];
	struct in6_addr ip;
};
struct key_open {
	uint32_t ifindex, mark;
};

/* The elements that make a lease known; only: NULL or the one set meant. */
static void known_add(struct nl_batch *b, const struct net_ids *ids, const char *only, bool v6,
		      bool add, int forgive)
{
	struct key4 k4 = {.ifindex = ids->ifindex, .ip = ids->ip4};
	struct key6 k6 = {.ifindex = ids->ifindex, .ip = ids->ip6};
	const struct elem elem[] = {
		{"known4", &k4, sizeof(k4), NULL},
		{"gen", &ids->ifindex, sizeof(ids->ifindex), &ids->ifindex},
		{"known6", &k6, sizeof(k6), NULL},
	};

	memcpy(k4.mac, ids->mac_box, 6);
	memcpy(k6.mac, ids->mac_box, 6);
	for (size_t i = 0; i < ARRAY_LEN(elem) - (v6 ? 0 : 1); i++)
		if (!only || !strcmp(only, elem[i].set))
			elem_add(b, &elem[i], add, forgive);
}

static void open_add(struct nl_batch *b, uint32_t ifindex, bool add, int forgive)
{
	struct key_open k = {.ifindex = ifindex, .mark = ifindex};
	const struct elem elem = {"open", &k, sizeof(k), NULL};

	elem_add(b, &elem, add, forgive);
}

int net_elem_known(struct net *n, struct nl_sock *s, const struct net_ids *ids, struct err *err)
{
	struct nl_batch b;

	nl_begin(&b, s, true);
	known_add(&b, ids, NULL, n->v6, true, 0);
	return nl_commit(&b, s, "elements of a lease", err);
}

int net_elem_open(struct nl_sock *s, uint32_t slot, bool add, struct err *err)
{
	struct nl_batch b;

	nl_begin(&b, s, true);
	open_add(&b, slot + NET_INDEX_BASE, add, 0);
	return nl_commit(&b, s, add ? "open a lease" : "shut a lease", err);
}

int net_elem_forget(struct net *n, struct nl_sock *s, const struct net_node *list, struct err *err)
{
	struct net_ids ids;
	struct nl_batch b;
	int r = 0;

	nl_begin(&b, s, true);
	for (; list; list = list->next) {
		net_ids(n, list->slot, &ids);
		known_add(&b, &ids, NULL, n->v6, false, 0);
		if (list->next && b.n + 3 <= ELEM_BATCH)
			continue;
		/* A batch that fails is all undone: what stays is found by the next audit. */
		if (nl_commit(&b, s, "forget leases", err) < 0)
			r = -1;
		nl_begin(&b, s, true);
	}
	return r;
}

struct dump {
	uint32_t *index;
	size_t len, cap;
};

static int dump_add(struct dump *d, uint32_t index)
{
	if (d->len == d->cap) {
		size_t cap = d->cap ? d->cap * 2 : 64;
		uint32_t *grown = reallocarray(d->index, cap, sizeof(*grown));

		if (!grown)
			return -1;
		d->index = grown;
		d->cap = cap;
	}
	d->index[d->len++] = index;
	return 0;
}

/* The first four bytes of the element's key. */
static int dump_key(struct dump *d, const struct nlattr *elem)
{
	const struct nlattr *a, *v;
	uint32_t index;

	mnl_attr_for_each_nested(a, elem)
	{
		if (mnl_attr_get_type(a) != NFTA_SET_ELEM_KEY)
			continue;
		v = mnl_attr_get_payload(a);
		if (mnl_attr_get_payload_len(a) < sizeof(*v) + sizeof(index) ||
		    mnl_attr_get_type(v) != NFTA_DATA_VALUE)
			continue;
		memcpy(&index, mnl_attr_get_payload(v), sizeof(index));
		if (dump_add(d, index) < 0)
			return -1;
	}
	return 0;
}

static int dump_msg(void *arg, const struct nlmsghdr *nlh)
{
	const struct nlattr *attr, *elem;

	mnl_attr_for_each(attr, nlh, sizeof(struct nfgenmsg))
	{
		if (mnl_attr_get_type(attr) != NFTA_SET_ELEM_LIST_ELEMENTS)
			continue;
		mnl_attr_for_each_nested(elem, attr)
		{
			if (dump_key(arg, elem) < 0)
				return -1;
		}
	}
	return 0;
}

int net_elem_dump(struct nl_sock *s, const char *set, uint32_t **ret, size_t *ret_n,
		  struct err *err)
{
	char buf[512] __attribute__((aligned(8)));
	struct nlmsghdr *req = mnl_nlmsg_put_header(buf);
	struct nfgenmsg *nfg;
	struct dump d = {0};
	int r;

	req->nlmsg_type = NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_GETSETELEM;
	req->nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
	nfg = mnl_nlmsg_put_extra_header(req, sizeof(*nfg));
	nfg->nfgen_family = NFPROTO_INET;
	nfg->version = NFNETLINK_V0;
	mnl_attr_put_strz(req, NFTA_SET_ELEM_LIST_TABLE, TABLE);
	mnl_attr_put_strz(req, NFTA_SET_ELEM_LIST_SET, set);
	r = nl_dump(s, req, dump_msg, &d, err);
	if (r < 0) {
		free(d.index);
		return err_wrap(err, "elements of set %s", set);
	}
	*ret = d.index;
	*ret_n = d.len;
	return 0;
}

int net_elem_remove(struct net *n, struct nl_sock *s, const char *set, uint32_t ifindex,
		    struct err *err)
{
	struct net_ids ids;
	struct nl_batch b;

	if (ifindex < NET_INDEX_BASE)
		return 0;
	net_ids(n, ifindex - NET_INDEX_BASE, &ids);
	nl_begin(&b, s, true);
	if (!strcmp(set, "open"))
		open_add(&b, ifindex, false, ENOENT);
	else
		known_add(&b, &ids, set, n->v6, false, ENOENT);
	return nl_commit(&b, s, "remove a stale element", err);
}

int net_elem_sync(struct net *n, struct nl_sock *s, uint32_t slot, bool open, struct err *err)
{
	struct net_ids ids;
	struct nl_batch b;

	/* Adding what is there is no error; removing what is not would fail the whole batch. */
	net_ids(n, slot, &ids);
	nl_begin(&b, s, true);
	known_add(&b, &ids, NULL, n->v6, true, 0);
	open_add(&b, ids.ifindex, true, 0);
	if (!open)
		open_add(&b, ids.ifindex, false, 0);
	return nl_commit(&b, s, "elements of an adopted lease", err);
}

int net_elem_up(struct nl_sock *s, bool up4, bool up6, struct err *err)
{
	static const uint8_t proto[2] = {NFPROTO_IPV4, NFPROTO_IPV6};
	const bool up[2] = {up4, up6};
	struct nl_batch b;

	nl_begin(&b, s, true);
	for (int i = 0; i < 2; i++) {
		const struct elem elem = {"up", &proto[i], 1, NULL};

		elem_add(&b, &elem, true, 0);
		if (!up[i])
			elem_add(&b, &elem, false, 0);
	}
	return nl_commit(&b, s, "state of the uplink", err);
}

int net_flows_flush(struct nl_sock *ct, uint32_t mark, struct err *err)
{
	struct nl_batch b;
	struct nlmsghdr *nlh;
	struct nfgenmsg *nfg;

	nl_begin(&b, ct, false);
	nlh = nl_add(&b, NFNL_SUBSYS_CTNETLINK << 8 | IPCTNL_MSG_CT_DELETE, 0,
		     sizeof(struct nfgenmsg), ENOENT);
	nfg = mnl_nlmsg_get_payload(nlh);
	nfg->nfgen_family = AF_UNSPEC;
	nfg->version = NFNETLINK_V0;
	mnl_attr_put_u32(nlh, CTA_MARK, htonl(mark));
	mnl_attr_put_u32(nlh, CTA_MARK_MASK, UINT32_MAX);
	nl_end(&b, nlh);
	return nl_commit(&b, ct, "forget flows", err);
}
