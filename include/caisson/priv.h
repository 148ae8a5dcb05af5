/*
 * priv.h - the runner: the root process that starts and ends boxes for the api process.
 *
 * priv_main is called by the daemon role with root, no other thread running, SIGPIPE ignored and
 * standard descriptors open; it returns an exit code after SIGTERM or SIGINT. It owns the data
 * directory (lock, instance, boxes/, trash/), the instance's run directory and every kernel
 * object of the instance. It reads no JSON, no SQL and nothing of a client but through the
 * privileged protocol (wire/priv_proto.h).
 */
#ifndef CAISSON_PRIV_H
#define CAISSON_PRIV_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

#define PRIV_NET_FDS 4 /* as NET_DNS_FDS */

struct priv_config {
	const char *data_dir;	   /* exists, root's */
	const char *run_root;	   /* /run/caisson */
	const char *cache_dir;	   /* /var/cache/caisson */
	const char *default_image; /* archive file, or NULL: DEFAULT answers ERR_NOT_FOUND */
	const char *init_path;	   /* caisson-init */
	const char *uplink_netns;  /* NULL: the machine's own */
	const char *resolvers;	   /* NULL: /etc/resolv.conf */
	const char *net_allow_ranges;
	unsigned net_pool, upper_pool;
	uint64_t disk_low; /* fresh starts are refused below this much free disk */
	gid_t api_gid;
	bool destroy_on_exit; /* SIGTERM ends every box and removes what they wrote */
	bool durable;	      /* fsync inside boxes reaches the disk */

	/*
	 * Start the api process; sock is its end of the SEQPACKET pair (dup it, it is closed
	 * afterwards). Called on the main thread while others run, so only exec-safe work between
	 * the fork and the exec. Returns the pid of a direct child, -1 with err.
	 */
	pid_t (*spawn_api)(void *arg, int sock, struct err *err);
	/*
	 * Instead of spawn_api, for debugging: run the api role on a thread of this process.
	 * Returns a descriptor (taken) that is readable once it has ended, which ends priv_main
	 * too. stop_api asks it to end.
	 */
	int (*thread_api)(void *thread_arg, int sock, struct err *err);
	void (*stop_api)(void *thread_arg);
	void *thread_arg;
	/*
	 * Start `caissond net` (caisson/netrole.h): control is its end of a pipe whose end of file
	 * means that we are gone. NULL: no resolver process (tests).
	 */
	pid_t (*spawn_net)(void *arg, int control, const int dns[PRIV_NET_FDS], int uplink,
			   struct err *err);
	void *arg;
};

/* The lock of the data directory and its instance id, taken early by who needs them early. */
#define PRIV_INSTANCE_LEN 9
int priv_main(const struct priv_config *cfg);

#endif
