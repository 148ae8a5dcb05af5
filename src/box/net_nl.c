/*
 * net_nl.c - see net_nl.h.
 */
#include "box/net_nl.h"

#include <arpa/inet.h>
#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

int nl_open(struct nl_sock *s, int bus, struct err *err)
{
	struct timeval tv = {.tv_sec = NL_TIMEOUT_MS / 1000};
	struct sockaddr_nl addr = {.nl_family = AF_NETLINK};
	int one = 1, big = 1 << 20;
	auto_close int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, bus);

	if (fd < 0)
		return err_errno(err, ERR_NOMEM, errno, "open netlink socket %d", bus);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &big, sizeof(big));
	/* Error answers without a copy of the request: a batch's answers fit the buffer. */
	setsockopt(fd, SOL_NETLINK, NETLINK_CAP_ACK, &one, sizeof(one));
	setsockopt(fd, SOL_NETLINK, NETLINK_EXT_ACK, &one, sizeof(one));
	setsockopt(fd, SOL_NETLINK, NETLINK_GET_STRICT_CHK, &one, sizeof(one));
	if (bind(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0)
		return err_errno(err, ERR_INTERNAL, errno, "bind netlink socket");
	s->fd = TAKE_FD(fd);
	s->seq = 1;
	return 0;
}

void nl_close(struct nl_sock *s)
{
	if (s->fd >= 0)
		close(s->fd);
	s->fd = -1;
}

static void nl_frame(struct nl_batch *b, uint16_t type, uint32_t seq)
{
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(b->buf + b->len);
	struct nfgenmsg *nfg = mnl_nlmsg_put_extra_header(nlh, sizeof(*nfg));

	nlh->nlmsg_type = type;
	nlh->nlmsg_flags = NLM_F_REQUEST;
	nlh->nlmsg_seq = seq;
	nfg->nfgen_family = AF_UNSPEC;
	nfg->version = NFNETLINK_V0;
	nfg->res_id = htons(NFNL_SUBSYS_NFTABLES);
	b->len += MNL_ALIGN(nlh->nlmsg_len);
}

void nl_begin(struct nl_batch *b, struct nl_sock *s, bool nft)
{
	b->len = 0;
	b->n = 0;
	b->nft = nft;
	b->full = false;
	b->first = s->seq + 1;
	if (nft)
		nl_frame(b, NFNL_MSG_BATCH_BEGIN, s->seq);
}

struct nlmsghdr *nl_add(struct nl_batch *b, uint16_t type, uint16_t flags, size_t extra,
			int forgive)
{
	struct nlmsghdr *nlh;

	/* Our messages are below 512 bytes; a batch that outgrows its buffer is our own bug. */
	if (b->n >= NL_BATCH_MSGS || b->len + 1024 > sizeof(b->buf)) {
		b->full = true;
		b->len = b->nft ? MNL_ALIGN(sizeof(*nlh) + sizeof(struct nfgenmsg)) : 0;
		b->n = 0;
	}
	nlh = mnl_nlmsg_put_header(b->buf + b->len);
	nlh->nlmsg_type = type;
	nlh->nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | flags;
	nlh->nlmsg_seq = b->first + b->n;
	mnl_nlmsg_put_extra_header(nlh, extra);
	b->forgive[b->n++] = forgive;
	return nlh;
}

void nl_end(struct nl_batch *b, struct nlmsghdr *nlh)
{
	b->len += MNL_ALIGN(nlh->nlmsg_len);
}

/* The kernel's own explanation, where it gives one. */
static const char *nl_ext_ack(const struct nlmsghdr *nlh)
{
	const struct nlattr *attr;
	size_t off = sizeof(struct nlmsghdr) + sizeof(struct nlmsgerr);

	if (!(nlh->nlmsg_flags & NLM_F_ACK_TLVS) || !(nlh->nlmsg_flags & NLM_F_CAPPED))
		return "";
	mnl_attr_for_each(attr, nlh, off - sizeof(struct nlmsghdr))
	{
		if (mnl_attr_get_type(attr) == NLMSGERR_ATTR_MSG &&
		    mnl_attr_validate(attr, MNL_TYPE_NUL_STRING) >= 0)
			return mnl_attr_get_str(attr);
	}
	return "";
}

/* One answer: returns 1 when it settles a message of the batch. */
static int nl_answer(struct nl_batch *b, const struct nlmsghdr *nlh, int *ret_errnum,
		     const char *what, struct err *err)
{
	const struct nlmsgerr *e;
	uint32_t i = nlh->nlmsg_seq - b->first;
	int errnum;

	if (nlh->nlmsg_type != NLMSG_ERROR ||
	    nlh->nlmsg_len < sizeof(struct nlmsghdr) + sizeof(struct nlmsgerr))
		return 0;
	e = mnl_nlmsg_get_payload(nlh);
	errnum = -e->error;
	if (i >= b->n) {
		/* An error on the frame of a transaction stands for the whole of it. */
		if (!errnum || !b->nft || nlh->nlmsg_seq != b->first - 1)
			return 0;
		*ret_errnum = errnum;
		err_errno(err, ERR_INTERNAL, errnum, "%s", what);
		return (int)b->n;
	}
	if (errnum && errnum != b->forgive[i] && !*ret_errnum) {
		const char *why = nl_ext_ack(nlh);

		*ret_errnum = errnum;
		err_errno(err, ERR_INTERNAL, errnum, "%s, message %u%s%s", what, i,
			  *why ? ", " : "", why);
	}
	return 1;
}

static int nl_collect(struct nl_batch *b, struct nl_sock *s, const char *what, struct err *err)
{
	char buf[16384] __attribute__((aligned(8)));
	uint32_t settled = 0;
	int errnum = 0;

	while (settled < b->n) {
		ssize_t got = recv(s->fd, buf, sizeof(buf), 0);
		const struct nlmsghdr *nlh = (const struct nlmsghdr *)buf;
		int left = (int)got;

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return err_errno(err, ERR_INTERNAL, got ? errno : EPIPE, "%s: no answer",
					 what);
		for (; mnl_nlmsg_ok(nlh, left); nlh = mnl_nlmsg_next(nlh, &left))
			settled += (uint32_t)nl_answer(b, nlh, &errnum, what, err);
	}
	return errnum ? -1 : 0;
}

int nl_commit(struct nl_batch *b, struct nl_sock *s, const char *what, struct err *err)
{
	if (b->full)
		return err_set(err, ERR_INTERNAL, "%s: batch too long", what);
	if (!b->n)
		return 0;
	s->seq = b->first + b->n;
	if (b->nft)
		nl_frame(b, NFNL_MSG_BATCH_END, s->seq++);
	if (send(s->fd, b->buf, b->len, 0) < 0)
		return err_errno(err, ERR_INTERNAL, errno, "%s: send", what);
	return nl_collect(b, s, what, err);
}

int nl_dump(struct nl_sock *s, struct nlmsghdr *req, nl_dump_fn fn, void *arg, struct err *err)
{
	char buf[32768] __attribute__((aligned(8)));

	req->nlmsg_seq = ++s->seq;
	if (send(s->fd, req, req->nlmsg_len, 0) < 0)
		return err_errno(err, ERR_INTERNAL, errno, "netlink dump: send");
	for (;;) {
		ssize_t got = recv(s->fd, buf, sizeof(buf), 0);
		const struct nlmsghdr *nlh = (const struct nlmsghdr *)buf;
		int left = (int)got;

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return err_errno(err, ERR_INTERNAL, got ? errno : EPIPE,
					 "netlink dump: no answer");
		for (; mnl_nlmsg_ok(nlh, left); nlh = mnl_nlmsg_next(nlh, &left)) {
			if (nlh->nlmsg_seq != req->nlmsg_seq)
				continue;
			if (nlh->nlmsg_type == NLMSG_DONE)
				return 0;
			if (nlh->nlmsg_type == NLMSG_ERROR) {
				const struct nlmsgerr *e = mnl_nlmsg_get_payload(nlh);

				return e->error ? err_errno(err, ERR_INTERNAL, -e->error,
							    "netlink dump")
						: 0;
			}
			if (fn(arg, nlh) < 0)
				return -1;
		}
	}
}
