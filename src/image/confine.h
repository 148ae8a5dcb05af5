/*
 * confine.h - what the process that parses an archive is left with.
 *
 * Afterwards "/" is the tree being filled and nothing else is mounted; no network, no other
 * processes in sight; capabilities CHOWN, DAC_OVERRIDE, FOWNER, FSETID and SETFCAP (0/0 devices
 * need no MKNOD); no_new_privs; an allow-list of about 60 system calls, without executable
 * mappings; ceilings on memory, file size and descriptors. The tree is mounted noexec, so
 * that no library of the image can be loaded by ours (CVE-2019-14271).
 */
#ifndef CAISSON_IMAGE_CONFINE_H
#define CAISSON_IMAGE_CONFINE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

/*
 * As fork(), in new network, ipc, uts and pid namespaces; the child dies with the caller.
 * The caller must have one thread.
 */
pid_t confine_fork(struct err *err);

/* Close every descriptor from 3 on but keep[n]. */
void confine_close_others(const int *keep, size_t n);

/* In the child: root is a directory. Returns a descriptor of the new "/"; root stays open. */
int confine_enter(int root, uint64_t file_max, struct err *err);

#endif
