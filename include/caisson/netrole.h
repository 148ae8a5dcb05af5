/*
 * netrole.h - the `caissond net` process: the resolver of the sandboxes.
 *
 * It forwards DNS queries that arrive on sockets the root process bound in the router namespace
 * (net_dns_fds) to the upstream resolvers, from the namespace it runs in. Queries on the refuse
 * sockets (sandboxes without egress) are answered REFUSED at once; no name of theirs leaves.
 * It reads hostile bytes and nothing else: the caller has entered the uplink's namespace and
 * given up root and capabilities before. Returns when control reaches its end of file.
 */
#ifndef CAISSON_NETROLE_H
#define CAISSON_NETROLE_H

#include "base/err.h"

/* Descriptors `caissond net` is started with. */
enum netrole_fd {
	NETROLE_FD_CONTROL = 3, /* its end of file means: the root process is gone */
	NETROLE_FD_DNS = 4,	/* 4 descriptors in the order of net_dns_fds */
	NETROLE_FD_UPLINK = 8,	/* the uplink namespace; entered before root is given up */
};

struct netrole_config {
	int control;
	int udp, tcp;		    /* bound (and listening) sockets: forwarded */
	int refuse_udp, refuse_tcp; /* the same for sandboxes without egress */
	const char *resolvers;	    /* comma list of ADDR or ADDR#PORT; NULL: /etc/resolv.conf */
};

/* Descriptors are taken over. 0 at the end of control, -1 when it could not work at all. */
int netrole_main(const struct netrole_config *cfg, struct err *err);

#endif
