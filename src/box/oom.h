/*
 * oom.h - who the kernel killed for memory, from its log.
 *
 * The cgroup counters say that something was killed; only the log names the victim. Lines are
 * the kernel's, but a process name in them is the attacker's: it is the last thing parsed and
 * nothing after it is believed.
 */
#ifndef CAISSON_BOX_OOM_H
#define CAISSON_BOX_OOM_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/id.h"
#include "box/cgroup.h"

#define OOM_COMM_LEN 32

struct oom_victim {
	char cg[CG_NAME_LEN]; /* group of the box */
	char comm[OOM_COMM_LEN];
	pid_t pid; /* in our pid namespace */
};

struct oom_event {
	char id[ID_LEN];
	char comm[OOM_COMM_LEN];
	uint32_t pid; /* as the box numbers it; 0 when it is gone already */
	uint64_t limit, peak, kills;
};

/* The kernel log from now on, non-blocking. */
int oom_open(struct err *err);
/* Next victim below tree; 1 found, 0 nothing more for now, -1 the log is of no use. */
int oom_next(int fd, const char *tree, struct oom_victim *ret, struct err *err);
/* One record of /dev/kmsg; pure, for tests and fuzzing. */
bool oom_parse(const char *record, const char *tree, struct oom_victim *ret);
/* The victim's number inside its pid namespace, 0 when unknown. */
uint32_t oom_inner_pid(pid_t pid);

#endif
