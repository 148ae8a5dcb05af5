/*
 * uids.h - ranges of 65536 user ids, one per start of a sandbox, never written to a disk.
 *
 * Several daemons share a machine, so ids are claimed in blocks of UIDS_BLOCK ranges under a lock
 * file each in /run/caisson. A block whose daemon died while its sandboxes live is left alone
 * until that daemon's successor has adopted them. Thread-safe.
 */
#ifndef CAISSON_BOX_UIDS_H
#define CAISSON_BOX_UIDS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

#define UIDS_RANGE 65536u

struct uids;

/* busy(arg, instance): does another daemon's dead instance still have living sandboxes? */
typedef bool (*uids_busy_fn)(void *arg, const char *instance);

struct uids *uids_open(const char *dir, const char *instance, uids_busy_fn busy, void *arg,
		       struct err *err);
void uids_close(struct uids *u);
int uids_claim(struct uids *u, uid_t *ret_base, struct err *err);
/* The range of a living sandbox found after a restart. */
int uids_adopt(struct uids *u, uid_t base, struct err *err);
void uids_release(struct uids *u, uid_t base);

#endif
