/*
 * child.h - what happens between clone3 and the exec of caisson-init.
 *
 * The child shares the launcher's memory and, until it unshares them, its descriptors; it runs
 * on a stack of its own and makes raw system calls only (raw.h). The parent drives it in two
 * steps over a futex word, and reads its error straight from struct child:
 *
 *   parent                               child
 *   clone3                               waits for MAPPED
 *   uid_map, gid_map     ── MAPPED ──►   ids, session, keyring, proc, devpts, shm, mqueue, files
 *   overlay, /dev        ── BUILT  ──►   moves mounts, binds, masks, pivot_root, cgroups, caps,
 *                                        seccomp, exec
 */
#ifndef CAISSON_BOX_CHILD_H
#define CAISSON_BOX_CHILD_H

#include <linux/filter.h>
#include <linux/sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "box/cgroup.h"
#include "wire/priv_proto.h"

#define CHILD_MASKS_MAX	 32
#define CHILD_SPENT_MAX	 (PRIV_LAYERS_MAX + 2)
#define CHILD_STACK_SIZE (64u << 10)

enum child_go { GO_BORN, GO_MAPPED, GO_BUILT };

enum child_where { IN_PROC, IN_SYS };
enum child_mask_kind { MASK_FILE, MASK_DIR, MASK_READONLY };
struct child_mask {
	enum child_where where;
	enum child_mask_kind kind;
	const char *path; /* relative to /proc or /sys */
};
extern const struct child_mask child_masks[]; /* path NULL ends */

/* Descriptors the parent fills before BUILT. */
enum child_fd {
	CFD_ROOT,   /* the overlay, a detached mount */
	CFD_AT_DEV, /* mount points inside it, O_PATH */
	CFD_AT_PROC,
	CFD_AT_SYS,
	CFD_AT_HOSTS,
	CFD_AT_HOSTNAME,
	CFD_AT_RESOLV,
	CFD_DEV,   /* tmpfs with the device nodes, detached */
	CFD_SYSFS, /* detached, of the box's network namespace */
	CFD_LISTEN,
	CFD_STATUS,
	CFD_CGROUP,
	CFD_INIT,
	CFD_TASKS, /* the v1 groups' tasks files, CG_V1_MAX of them, -1 where there is none */
	CFD_TASKS_LAST = CFD_TASKS + CG_V1_MAX - 1,
	/* opened by the child while the table is shared; the parent closes them */
	CFD_FILES, /* tmpfs with the generated files */
	CFD_PROC,
	CFD_PTS,
	CFD_SHM,
	CFD_MQUEUE,
	CFD_MAX
};

#define CHILD_FILES_MAX 8
struct child_file {
	const char *name, *text;
	size_t len;
	int mode;
};

struct child {
	uint32_t go; /* futex word, enum child_go */
	int fd[CFD_MAX];
	/*
	 * Detached mounts that are of no more use. Closing one waits for RCU (0.4 ms); moved onto
	 * the old root they all go with it, at no cost.
	 */
	int spent[CHILD_SPENT_MAX];
	size_t nspent;
	const char *stage_root, *stage_files;
	const char *hostname;
	struct child_file file[CHILD_FILES_MAX]; /* name NULL ends */
	char shm_size[24];
	uint64_t nofile;
	bool no_new_privs, nest, cgroup2;
	const struct child_mask *const *mask;
	size_t nmasks;
	const struct sock_fprog *filter;
	/* out */
	uint32_t unshared; /* the child has its own descriptor table */
	int fail_step;	   /* index for child_step_name, or -1 */
	int fail_errno;
	int64_t exec_ns; /* CLOCK_MONOTONIC just before execveat */
};

/* clone3 with a stack in args; the child runs on it and never returns. -1 with errno. */
long child_clone(struct clone_args *args, struct child *c);
const char *child_step_name(int step);
/* Tell the child (parent's side). */
void child_go(struct child *c, enum child_go step);

#endif
