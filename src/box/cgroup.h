/*
 * cgroup.h - the control groups of sandboxes, on pure v2 and on hybrid hosts.
 *
 * Every sandbox has one group of the v2 tree, below caisson-<instance>, outside any unit: birth
 * (CLONE_INTO_CGROUP), kill, populated events and the agent's delegated subtree work there on
 * both layouts. Limits are v2 files on a pure host; on a hybrid host they are set in the v1
 * hierarchies that hold the controllers, in groups of the same name, which the inside can't see
 * or write. Names are ours alone: "s" and hex digits. Thread-safe: only descriptors are shared.
 */
#ifndef CAISSON_BOX_CGROUP_H
#define CAISSON_BOX_CGROUP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

#define CG_NAME_LEN 20 /* "s" + 16 hex digits + NUL, and room */
#define CG_PATH_MAX 256

enum cg_layout { CG_LAYOUT_V2, CG_LAYOUT_HYBRID };

enum cg_v1 { CG_V1_MEMORY, CG_V1_CPU, CG_V1_PIDS, CG_V1_DEVICES, CG_V1_MAX };

struct cg_limits {
	uint64_t mem_bytes;
	uint32_t cpu_milli, pids_max;
};

struct cg_stats {
	uint64_t cpu_us, mem_bytes, mem_peak, mem_limit, mem_cache, oom_kills;
	uint32_t pids;
};

struct cg_host {
	enum cg_layout layout;
	char v2_mount[CG_PATH_MAX]; /* where cgroup2 is mounted */
	char tree[32];		    /* caisson-<instance> */
	int v2;			    /* the tree's directory in v2 */
	int v1[CG_V1_MAX];	    /* the same in each v1 hierarchy, -1 where absent */
};

/* Find the mounts and say what is there; makes nothing. v1 paths are "" where absent. */
int cg_probe(struct cg_host *ret, char v1_path[CG_V1_MAX][CG_PATH_MAX], struct err *err);
/* Probe and make the instance's tree. */
int cg_host_open(struct cg_host *h, const char *instance, struct err *err);
/* remove: rmdir the (empty) tree too. */
void cg_host_close(struct cg_host *h, bool remove);

int cg_create(const struct cg_host *h, char ret_name[CG_NAME_LEN], struct err *err);
int cg_set_limits(const struct cg_host *h, const char *name, const struct cg_limits *l,
		  struct err *err);
/* The tasks files of the v1 groups, for a process that moves itself; -1 where there is none. */
int cg_open_tasks(const struct cg_host *h, const char *name, int ret[CG_V1_MAX], struct err *err);
int cg_attach_v2(const struct cg_host *h, const char *name, pid_t pid, struct err *err);
/* Give the v2 group to the mapped root, with a ceiling of descendants. */
int cg_delegate(const struct cg_host *h, const char *name, uid_t uid, struct err *err);
int cg_open(const struct cg_host *h, const char *name, struct err *err); /* O_PATH, v2 */

/* Kill everything in it and below; does not wait. Missing groups are fine. */
void cg_kill(const struct cg_host *h, const char *name);
/* Wait until no process is left; 0, or -1 with ERR_TIMEOUT. Missing groups are empty. */
int cg_wait_empty(const struct cg_host *h, const char *name, int64_t deadline_ms, struct err *err);
/*
 * Make an empty group as good as new, under a new name, so that its hierarchies need not make
 * another: 0 done, with its limits and device rules as they were; -1 it is not worth it or not
 * possible, and whatever is left of either name is to be removed. What can't be set back (kills for
 * memory, memory beyond CG_RENEW_MAX that others hold) makes it impossible; the v2 group, whose
 * counters the inside may see, is always a new one.
 */
#define CG_RENEW_MAX (1u << 20)
int cg_renew(const struct cg_host *h, const char *name, char ret_name[CG_NAME_LEN]);
/* Remove the groups; 1 while the kernel still says busy (try again), 0 when gone. */
int cg_remove(const struct cg_host *h, const char *name);
bool cg_populated(const struct cg_host *h, const char *name);
bool cg_contains(const struct cg_host *h, const char *name, pid_t pid);

int cg_stats_get(const struct cg_host *h, const char *name, struct cg_stats *ret, struct err *err);
/* Calls fn for every group below the tree (v2 and v1, so a name may come twice). */
void cg_each(const struct cg_host *h, void (*fn)(void *arg, const char *name), void *arg);

#endif
