/*
 * net_nl.h - batches of netlink messages: several messages in one send, one answer each.
 *
 * rtnetlink runs the messages of a batch in order and goes on after a failed one; a batch of
 * nf_tables is one transaction. Both answer every message, since each is sent with NLM_F_ACK.
 * A socket stays in the network namespace its thread was in when it was opened. Not thread-safe.
 */
#ifndef CAISSON_BOX_NET_NL_H
#define CAISSON_BOX_NET_NL_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct nlmsghdr;

#define NL_BATCH_BYTES 8192
#define NL_BATCH_MSGS  48
#define NL_TIMEOUT_MS  10000 /* the kernel answers in microseconds unless RTNL is jammed */

struct nl_sock {
	int fd;
	uint32_t seq;
};

struct nl_batch {
	char buf[NL_BATCH_BYTES] __attribute__((aligned(8)));
	size_t len;
	uint32_t n;
	uint32_t first; /* sequence number of message 0 */
	bool nft;	/* framed as one nf_tables transaction */
	bool full;
	int forgive[NL_BATCH_MSGS]; /* errno that counts as success for this message, or 0 */
};

int nl_open(struct nl_sock *s, int bus, struct err *err);
void nl_close(struct nl_sock *s);
#define auto_nl auto_call(nl_close)
#define NL_SOCK_INIT                                                                               \
	{                                                                                          \
		.fd = -1                                                                           \
	}

void nl_begin(struct nl_batch *b, struct nl_sock *s, bool nft);
/* A new message with an extra header of extra bytes (zeroed, at NLMSG_DATA). */
struct nlmsghdr *nl_add(struct nl_batch *b, uint16_t type, uint16_t flags, size_t extra,
			int forgive);
/* To be called when the message is whole: nl_add counts from its length. */
void nl_end(struct nl_batch *b, struct nlmsghdr *nlh);
/* Send and collect all answers; the first error that is not forgiven is reported. */
int nl_commit(struct nl_batch *b, struct nl_sock *s, const char *what, struct err *err);

typedef int (*nl_dump_fn)(void *arg, const struct nlmsghdr *nlh);
/* Send one dump request (seq is filled in) and feed every message to fn until it is done. */
int nl_dump(struct nl_sock *s, struct nlmsghdr *req, nl_dump_fn fn, void *arg, struct err *err);

#endif
