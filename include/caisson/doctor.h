/*
 * doctor.h - `caissond check`: can this machine run sandboxes, and if not, what to do.
 *
 * Runs as root, makes nothing that stays, takes less than 200 ms. One line a check:
 * "ok|warn|FAIL  name  what was found", and for the last two how to mend it.
 */
#ifndef CAISSON_DOCTOR_H
#define CAISSON_DOCTOR_H

#include <stdint.h>
#include <stdio.h>

#include "base/err.h"

struct doctor_config {
	const char *data_dir, *run_dir, *cache_dir;
	const char *default_image; /* may be NULL */
	const char *uplink_netns;  /* may be NULL */
	uint64_t disk_low;
	/* Whether the records can be read, asked as the api process will; NULL: not asked. */
	int (*records)(void *arg, struct err *err);
	void *arg;
};

/* 0 when nothing fails (warnings are fine), 1 otherwise. */
int doctor_run(const struct doctor_config *cfg, FILE *out);

#endif
