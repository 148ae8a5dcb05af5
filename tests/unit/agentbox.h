/*
 * agentbox.h - a real caisson-init as pid 1 of a small sandbox, for tests (root only).
 *
 * Own user, pid, mount, ipc and uts namespaces over a root of busybox and a few files below a
 * temporary directory; Docker's capabilities; no limits, no seccomp. Everything dies with
 * agentbox_stop.
 */
#ifndef CAISSON_TESTS_AGENTBOX_H
#define CAISSON_TESTS_AGENTBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "caisson/agent.h"

enum agentbox_flag {
	AGENTBOX_CGROUP = 1 << 0,    /* delegate a cgroup v2 directory, where there is one */
	AGENTBOX_NO_SHELL = 1 << 1,  /* as a distroless image */
	AGENTBOX_NO_PASSWD = 1 << 2, /* nor /etc/group */
	AGENTBOX_NO_CLONE3 = 1 << 3, /* ENOSYS from seccomp, as in a real sandbox */
	AGENTBOX_SMALL = 1 << 4,     /* /proc/meminfo tells of 64 MiB */
};

struct agentbox {
	char dir[64], root[80], sock[96], cgroup[128];
	pid_t pid; /* of caisson-init, outside */
	int64_t ready_us;
};

/* Can it run here (root, static busybox, built caisson-init)? */
bool agentbox_possible(void);
bool agentbox_cgroup_possible(void);
int agentbox_start(struct agentbox *b, unsigned flags);
void agentbox_stop(struct agentbox *b);
/* Write a file below the root from outside. */
void agentbox_write(const struct agentbox *b, const char *path, const char *text, mode_t mode,
		    uid_t uid);

struct agentbox_run {
	const char *const *argv, *const *env;
	const char *cwd, *user;
	uint32_t flags;
	const char *in; /* for SPAWN_STDIN */
	size_t in_len;
	int64_t timeout_ms; /* then the tree is killed; 0: 20 s */
};

struct agentbox_result {
	char *out, *err;
	size_t out_len, err_len;
	bool timed_out;
	struct agent_exit exit;
	struct agent_proc proc; /* closed; for pid, cwd, … */
	int64_t took_ms;
};

/* Spawn, pump until exit, drain, as an exec of the daemon does. -1 with err set by the spawn. */
int agentbox_exec(const struct agentbox *b, const struct agentbox_run *run,
		  struct agentbox_result *ret, struct err *err);
/* "sh -c text" as root; the result's out is the output of both streams. */
int agentbox_sh(const struct agentbox *b, const char *text, struct agentbox_result *ret);
/* The same, asserting: it prints out, or (quiet) nothing and ends well. */
void agentbox_says(const struct agentbox *b, const char *text, const char *out);
void agentbox_quiet(const struct agentbox *b, const char *text);
void agentbox_result_done(struct agentbox_result *r);
/* Processes inside but init, zombies included or alone. */
int agentbox_processes(const struct agentbox *b, bool only_zombies);

#endif
