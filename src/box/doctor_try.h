/*
 * doctor_try.h - checks of the doctor that really do the thing, in a place of their own.
 */
#ifndef CAISSON_BOX_DOCTOR_TRY_H
#define CAISSON_BOX_DOCTOR_TRY_H

#include <stdbool.h>

#include "base/err.h"

/* An overlay of idmapped directories below dir (made and removed), written to as a box's root. */
int try_overlay(const char *dir, bool *ret_by_fd, struct err *err);
/* A device node in a new tmpfs opens. */
int try_device(struct err *err);
/* All namespaces in one clone3, with the v2 cgroup of `cgroup2` as birth place. */
int try_clone(const char *cgroup2, struct err *err);
/* nf_tables answers in a new network namespace. */
int try_nft(struct err *err);

#endif
