/*
 * host.h - inside of struct box_host, for the files of src/box alone.
 */
#ifndef CAISSON_BOX_HOST_H
#define CAISSON_BOX_HOST_H

#include <pthread.h>

#include "box/box.h"
#include "box/child.h"
#include "box/files.h"
#include "box/seccomp.h"
#include "box/uids.h"

#define HOST_CG_POOL_MAX 64
#define HOST_DYING_MAX	 4096 /* groups waiting for rmdir; beyond, the caller removes itself */

/* A group whose box has ended; limits of 0 when it is only to be removed. */
struct used_cg {
	char name[CG_NAME_LEN];
	struct cg_limits limits;
};

/* A ready group: its limits are set already, its v1 tasks files are open. */
struct host_cg {
	char name[CG_NAME_LEN];
	struct cg_limits limits;
	int tasks[CG_V1_MAX];
};

/* A run directory with its agent socket, bound and listening. */
struct rundir {
	char name[ID_LEN]; /* below boxes/: ".pool-<n>" until it is a box's */
	int sock;
};

struct box_host {
	struct box_config cfg; /* strings are owned copies */
	char boot_id[40];
	int run;   /* <run_dir> */
	int boxes; /* <run_dir>/boxes */
	int init;  /* sealed memfd with caisson-init */
	char stage_root[128], stage_files[128];
	struct cg_host cg;
	struct uids *uids;
	struct upper_store *uppers;
	struct seccomp_filter filter, filter_nest;
	struct host_files files;
	const struct child_mask *mask[CHILD_MASKS_MAX]; /* those this kernel has */
	size_t nmasks;

	pthread_t janitor;
	bool janitor_runs;
	pthread_mutex_t lock; /* guards what follows */
	pthread_cond_t work, done;
	struct host_cg cg_ready[HOST_CG_POOL_MAX];
	struct cg_limits cg_guess; /* limits of the last start: the next is likely the same */
	unsigned ncg_ready;
	int dev_ready[HOST_CG_POOL_MAX]; /* detached /dev mounts */
	unsigned ndev_ready;
	struct rundir room_ready[HOST_CG_POOL_MAX];
	unsigned nroom_ready, next_room;
	struct used_cg *dying; /* HOST_DYING_MAX */
	unsigned ndying;
	bool adopted;	    /* pools are filled only when leftovers can't be mistaken for theirs */
	int64_t claimed_ms; /* last claim of a group */
	bool stop, wanted, working;
	bool full; /* the pools, to the brim, when the janitor last looked */
};

struct box_launcher {
	struct box_host *host;
	int boxes, layers, v2; /* as the host's, but opened in this thread's mount namespace */
	int netns;	       /* to come back to */
	void *stack;
	struct child *child;
	struct files_text *text; /* what the child writes */
	char stage[160];	 /* own directory for the path fallback */
};

/* A child that does not die keeps its stack and struct for ever; the launcher gets new ones. */
void launcher_abandon(struct box_launcher *l);

int host_cg_claim(struct box_host *h, struct host_cg *ret, struct err *err);
void host_cg_close(struct host_cg *cg); /* the descriptors */
int host_dev_claim(struct box_host *h, struct err *err);
/* boxes/<id> with a listening agent.sock in it; returns the socket. */
int host_room_claim(struct box_host *h, const char *id, struct err *err);
/* The box has ended: its run directory goes back to the pool or away. */
void host_room_return(struct box_host *h, const char *id);
/* In the background: make the group ready again, or remove it. limits NULL: the latter. */
void host_cg_return(struct box_host *h, const char *name, const struct cg_limits *limits);
int host_janitor_start(struct box_host *h, struct err *err);
void host_janitor_stop(struct box_host *h);
void host_janitor_wake(struct box_host *h);

/* state.c: the file that lets the next runner adopt a box. */
int box_state_read(struct box_host *h, const char *id, struct box *ret, struct err *err);
uint64_t proc_start_ticks(pid_t pid); /* 0 when gone */
/* rundir.c: returns the listening agent socket. name is an id or a pool's name. */
int box_rundir_make(struct box_host *h, const char *name, struct err *err);
void box_rundir_remove(struct box_host *h, const char *name);
/* That of an ended box under a pool's name, with a new socket; on failure it may have either. */
int box_rundir_again(struct box_host *h, const char *id, const char *name, struct err *err);

#endif
