/*
 * runner.h - what the core asks of whatever runs sandboxes.
 *
 * Two implementations: runner_priv (the root process over the privileged protocol) and the fake
 * of the tests. Calls block, are safe from any thread, and obey the deadline of the caller's
 * patience themselves (RUNNER_CALL_MS). The runner holds no policy: it is told ids and numbers.
 */
#ifndef CAISSON_RUNNER_H
#define CAISSON_RUNNER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/id.h"
#include "wire/priv_proto.h"

#define RUNNER_CALL_MS 60000 /* most a call may take; imports have no limit */
#define RUNNER_IP_LEN  46

struct runner_start {
	const char *id;		  /* UUID of the sandbox */
	bool fresh;		  /* make a new, empty upper; else the kept one must exist */
	const char *const *layer; /* layer ids, top first */
	size_t nlayers;
	uint64_t mem_bytes, disk_bytes;
	uint32_t cpu_milli, pids_max, nofile;
	uint32_t flags; /* enum priv_start_flag */
	const char *hostname;
};

struct runner_started {
	uint32_t pid;
	char ip4[RUNNER_IP_LEN], ip6[RUNNER_IP_LEN];
	uint32_t total_us; /* time spent in the runner */
	bool serves;	   /* pid 1 told the runner that it takes calls; else ask it */
};

struct runner_stats {
	uint64_t cpu_us, mem_bytes, mem_peak, mem_limit, mem_cache, oom_kills;
	uint32_t pids, cpu_milli;
};

struct runner_layer {
	char id[PRIV_LAYER_ID_LEN];
	uint64_t bytes, files;
};

struct runner_host {
	uint64_t disk_total, disk_free, mem_total;
	uint32_t cpus, live;
};

struct runner_live {
	char id[ID_LEN];
	uint32_t pid;
};

struct runner_list {
	struct runner_live *live; /* one malloc each, freed by runner_list_done */
	size_t nlive;
	char (*upper)[ID_LEN];
	size_t nuppers;
};
void runner_list_done(struct runner_list *l);

/* Called on the runner's reader thread; must not call back into the runner and must be quick. */
struct runner_events {
	void (*exited)(void *arg, const char *id, uint32_t pid);
	void (*oom)(void *arg, const char *id, uint32_t pid, const char *comm, uint64_t limit,
		    uint64_t peak, uint64_t kills);
	void (*lost)(void *arg); /* the runner is gone: the process must end */
	void *arg;
};

typedef void (*runner_progress_fn)(void *arg, uint64_t bytes, uint64_t files);

struct runner;
struct runner_ops {
	int (*start)(struct runner *, const struct runner_start *, struct runner_started *ret,
		     struct err *);
	int (*kill)(struct runner *, const char *id, struct err *);
	int (*remove)(struct runner *, const char *id, struct err *);
	int (*stats)(struct runner *, const char *id, struct runner_stats *ret, struct err *);
	int (*list)(struct runner *, struct runner_list *ret, struct err *);
	int (*net)(struct runner *, const char *id, uint32_t flags, struct err *);
	int (*import)(struct runner *, int tar_fd, uint64_t max_bytes, runner_progress_fn,
		      void *arg, struct runner_layer *ret, struct err *);
	int (*default_image)(struct runner *, runner_progress_fn, void *arg,
			     struct runner_layer *ret, struct err *);
	int (*layer_remove)(struct runner *, const char *layer, struct err *);
	int (*host)(struct runner *, struct runner_host *ret, struct err *);
	/* Path of the agent socket of a sandbox (for connect), into out. */
	int (*agent_path)(struct runner *, const char *id, char out[108], struct err *);
	void (*free)(struct runner *);
};

struct runner {
	const struct runner_ops *ops;
};

/* The runner behind the inherited SEQPACKET descriptor (ownership taken). */
struct runner *runner_priv_open(int sock, const struct runner_events *ev, struct err *err);
/*
 * Tell the root process over the same descriptor, opened or not, that this process serves (why is
 * "") or why it could not start and ends. Waits for no answer; a lost message is no error.
 */
void runner_priv_ready(int sock, const char *why);

#endif
