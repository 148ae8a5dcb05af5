/*
 * net_role.c - the process that answers the sandboxes' DNS queries.
 *
 * As root it only enters the uplink's network namespace; then it has a uid of its own, no
 * capability and no way to a file, a key or a record. It ends when the runner is gone.
 */
#include <errno.h>
#include <pwd.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/log.h"
#include "caisson/netrole.h"
#include "main/roles.h"

#define NET_USER	"caisson-net"
#define NET_UID_DEFAULT (ROLE_UID_DEFAULT + 1) /* not the api's: they can't signal each other */
#define NET_FILES	2048		       /* queries and sessions, see src/net/role.h */

static int net_prepare(struct err *err)
{
	const struct passwd *pw = getpwnam(NET_USER);
	const struct rlimit files = {NET_FILES, NET_FILES}, none = {0, 0};

	if (setns(NETROLE_FD_UPLINK, CLONE_NEWNET) < 0)
		return err_errno(err, ERR_INTERNAL, errno, "enter the uplink's namespace");
	close(NETROLE_FD_UPLINK);
	signal(SIGPIPE, SIG_IGN);
	/* A terminal's ^C reaches the whole group: the runner decides when, by SIGTERM. */
	signal(SIGINT, SIG_IGN);
	setrlimit(RLIMIT_NOFILE, &files);
	setrlimit(RLIMIT_CORE, &none);
	prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	if (role_drop(pw ? pw->pw_uid : NET_UID_DEFAULT, pw ? pw->pw_gid : NET_UID_DEFAULT, err) <
	    0)
		return -1;
	return role_seccomp_api(err);
}

int role_net(struct config *c)
{
	const struct netrole_config cfg = {
		.control = NETROLE_FD_CONTROL,
		.udp = NETROLE_FD_DNS,
		.tcp = NETROLE_FD_DNS + 1,
		.refuse_udp = NETROLE_FD_DNS + 2,
		.refuse_tcp = NETROLE_FD_DNS + 3,
		.resolvers = c->resolvers,
	};
	struct err err = {0};

	/* From the configuration file; it is the api's. */
	if (c->admin_key)
		explicit_bzero(c->admin_key, strlen(c->admin_key));
	if (net_prepare(&err) < 0 || netrole_main(&cfg, &err) < 0) {
		log_error("resolver: %s", err.msg);
		return 1;
	}
	return 0;
}
