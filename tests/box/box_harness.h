/*
 * box_harness.h - boxes on temporary directories, and commands inside of them, for tests/box.
 *
 * bh_enter first: the test moves into a network namespace of its own, so that the router, its
 * addresses and its rules never meet the machine's. Everything made is below one temporary
 * directory and one instance name, and bh_close fails the test when anything is left over.
 */
#ifndef CAISSON_TEST_BOX_HARNESS_H
#define CAISSON_TEST_BOX_HARNESS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "box/box.h"
#include "wire/agent_proto.h"

#define BH_OUT_MAX 262144
#define BH_RUN_MS  20000

struct bh {
	char dir[64], instance[9];
	char data[96], run[96], layers[96], cache[96];
	const char *init; /* caisson-init of the build unless set before bh_open */
	struct net *net;
	struct box_host *host;
	/* The launcher lives on a thread of its own, since it changes what its thread sees. */
	pthread_t thread;
	pid_t launcher_tid; /* 0: none */
	int jobs[2];	    /* pipe of struct bh_job pointers to it */
	int answers[2];
};

struct bh_result {
	bool signaled;
	unsigned code;	      /* exit code or signal */
	char out[BH_OUT_MAX]; /* stdout and stderr */
};

void bh_enter(void);
void bh_open(struct bh *h);   /* new directories */
void bh_reopen(struct bh *h); /* the same again, as a new runner would */
void bh_forget(struct bh *h); /* as a runner that dies: closes nothing of the kernel's */
void bh_close(struct bh *h);  /* ends, checks for leftovers, removes the directories */
/* A layer: the test root (base) or an empty directory; returns its path, to be changed freely. */
const char *bh_layer(struct bh *h, int n, bool base);
const char *bh_layer_id(int n);

/* Defaults: 256 MiB, 1 cpu, 128 pids, 1024 files, host name "box", layer 1. */
struct box_spec bh_spec(const char *id);
/* box_start on the launcher's thread. */
int bh_try_start(struct bh *h, const struct box_spec *s, struct box **ret, struct err *err);
struct box *bh_start(struct bh *h, const struct box_spec *s); /* fails the test */
struct box *bh_new(struct bh *h, char id[ID_LEN]);	      /* fresh with defaults */
void bh_kill(struct bh *h, struct box *b); /* processes and runtime; the upper stays */
void bh_delete(struct bh *h, struct box *b);
void bh_agent_path(const struct bh *h, const struct box *b, char out[108]);

/* Run argv as user (NULL: root); fails the test when the agent does. */
void bh_run(struct bh *h, struct box *b, const char *user, const char *const *argv,
	    struct bh_result *ret);
/* The same with shell text; returns the exit code, output in ret. */
unsigned bh_sh(struct bh *h, struct box *b, const char *text, struct bh_result *ret);
/* Run /probe with this name: every line of its output must start with "ok". */
void bh_probe(struct bh *h, struct box *b, const char *user, const char *name);

/* Have instance and dir removed when the program ends, whatever a failed test left there. */
void bh_wipe_at_exit(const char *instance, const char *dir);

int bh_open_fds(void);
/* Processes that live in cgroups of this instance. */
int bh_processes(const struct bh *h);

#endif
