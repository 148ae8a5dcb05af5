/*
 * seccomp.h - the system call filter of sandboxes, built once and installed raw.
 *
 * What is allowed is a subset of what Docker's default profile allows. Refusals are errnos, never
 * kills: EPERM where the call is known and denied, ENOSYS for everything unknown or foreign (i386,
 * x32). clone3 hides its flags from a filter and is allowed: what it could make is refused by the
 * user namespace's own limit and by missing capabilities (child_no_nesting). The filter is a binary
 * tree over the call number, since the kernel runs it once per call number at installation: 0.5 ms
 * for a linear list, a fifth of that for the tree.
 */
#ifndef CAISSON_BOX_SECCOMP_H
#define CAISSON_BOX_SECCOMP_H

#include <linux/filter.h>
#include <stdbool.h>

#include "base/err.h"

#define SECCOMP_INSNS_MAX 512

struct seccomp_filter {
	struct sock_filter insn[SECCOMP_INSNS_MAX];
	struct sock_fprog prog; /* points into insn: do not copy the struct */
};

/* nest: user namespaces and classic mounts inside are allowed. */
int seccomp_build(struct seccomp_filter *f, bool nest, struct err *err);

enum seccomp_act {
	ACT_ENOSYS, /* the default of every number not in a table */
	ACT_ALLOW,
	ACT_EPERM,
	ACT_CLONE, /* no new namespaces, unless nesting */
	ACT_UNSHARE,
	ACT_SOCKET,
	ACT_SOCKETPAIR,
	ACT_IOCTL,
	ACT_PERSONALITY,
	ACT_MAX
};

struct seccomp_row {
	enum seccomp_act act;
	const char *const *name; /* NULL-terminated */
};
extern const struct seccomp_row seccomp_rows[]; /* seccomp_table.c; ends with name NULL */
extern const char *const seccomp_nest_names[];	/* allowed in addition when nesting */

#endif
