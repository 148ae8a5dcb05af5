/*
 * box.h - the container: one sandbox's processes, root, limits and network, started and ended.
 *
 * Root process only. A box is what lives between a start and an end; what it wrote (its upper)
 * outlives it. A start happens on a launcher, which belongs to one thread; everything else may be
 * called from any thread, but for one box only by one thread at a time (src/priv sees to that).
 * Nothing of a client reaches this layer but ids, numbers and one host name.
 */
#ifndef CAISSON_BOX_BOX_H
#define CAISSON_BOX_BOX_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/id.h"
#include "box/cgroup.h"
#include "box/net.h"
#include "box/upper.h"
#include "wire/priv_proto.h"

#define BOX_START_MS	 10000 /* most a start may take until pid 1 says it is ready */
#define BOX_KILL_MS	 15000 /* most a kill waits for the last process to be gone */
#define BOX_HOSTNAME_LEN 64

struct box_config {
	const char *instance;	/* 8 hex digits */
	const char *data_dir;	/* holds boxes/ and trash/ */
	const char *run_dir;	/* <run_root>/<instance>; made */
	const char *run_root;	/* /run/caisson: uid locks shared by all daemons */
	const char *layers_dir; /* <cache>/layers */
	const char *init_path;	/* caisson-init */
	struct net *net;	/* not owned */
	gid_t api_gid;		/* may connect to agent sockets */
	unsigned upper_pool, cgroup_pool;
	bool durable; /* fsync inside reaches the disk; else uppers are mounted volatile */
};

struct box_host;
struct box_host *box_host_open(const struct box_config *cfg, struct err *err);
/* clean: no box lives; remove kernel objects and the run directory. */
void box_host_close(struct box_host *h, bool clean);
const struct cg_host *box_host_cgroups(const struct box_host *h);
struct upper_store *box_host_uppers(const struct box_host *h);
/* Wait until pools are full and background removal is through; for tests and benchmarks. */
void box_host_settle(struct box_host *h, int64_t deadline_ms);

struct box_spec {
	const char *id;
	bool fresh; /* make a new upper; else it must exist */
	const char *const *layer;
	size_t nlayers;
	uint64_t mem_bytes, disk_bytes;
	uint32_t cpu_milli, pids_max, nofile;
	uint32_t flags; /* enum priv_start_flag */
	const char *hostname;
};

/* Every field in its range; ERR_INVALID names the field and the rule. */
int box_spec_check(const struct box_spec *s, struct err *err);

/* Where the time of a start goes, in microseconds since its begin. */
enum box_mark {
	MARK_CLAIMED, /* uid range, cgroup, upper, network */
	MARK_CLONED,
	MARK_MAPPED,
	MARK_SOCKET, /* limits, agent socket, cgroup descriptor */
	MARK_BUILT,  /* overlay, /dev, files */
	MARK_EXEC,   /* the child's own clock, just before execveat */
	MARK_READY,
	MARK_MAX
};
extern const char *const box_mark_name[MARK_MAX];

struct box {
	char id[ID_LEN];
	char cg[CG_NAME_LEN]; /* "" until claimed */
	pid_t pid;	      /* pid 1 of the box, in our pid namespace; 0 until born */
	int pidfd;	      /* -1 until born */
	int root;   /* its root file system, kept so that its end is not pid 1's work; -1 adopted */
	bool child; /* born of this process, so it is ours to reap */
	bool leased;
	struct net_lease lease;
	uid_t uid_base; /* 0 until claimed */
	uint64_t start_ticks;
	uint32_t flags, cpu_milli;
	uint64_t mem_bytes;
	struct cg_limits limits; /* what its group was set to; all 0 when adopted */
	uint32_t mark_us[MARK_MAX];
};

/* One launcher per thread: its own mount namespace and credentials. Open, use and close there. */
struct box_launcher;
struct box_launcher *box_launcher_open(struct box_host *h, struct err *err);
void box_launcher_close(struct box_launcher *l);

/*
 * Start; *ret is a heap object that ends in box_end. On failure nothing is left but, if it was
 * there before, the upper. ERR_NOT_FOUND: no such upper or layer; ERR_CONFLICT: upper exists;
 * ERR_TIMEOUT: pid 1 was not ready in BOX_START_MS.
 */
int box_start(struct box_launcher *l, const struct box_spec *s, struct box **ret, struct err *err);

/* Kill every process and wait. Idempotent. ERR_TIMEOUT when some do not end (the box stays). */
int box_kill(struct box_host *h, struct box *b, struct err *err);
/* Give everything back and free b; its processes must be dead. The upper stays. */
void box_end(struct box_host *h, struct box *b);

/* Write the state file again after a change of flags. */
int box_save(struct box_host *h, const struct box *b, struct err *err);
void box_host_size(const struct box_host *h, uint64_t *ret_mem, uint32_t *ret_cpus);
int box_stats(struct box_host *h, const struct box *b, struct cg_stats *ret, struct err *err);

/*
 * After a restart: take back what lives. fn gets each box (owned by the callee); everything else
 * of this instance (cgroups, processes, run directories) is killed and removed.
 */
int box_adopt(struct box_host *h, void (*fn)(void *arg, struct box *b), void *arg, struct err *err);

#endif
