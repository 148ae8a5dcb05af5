/*
 * progress.h - one line on standard error that tells how far long work is; only on a terminal.
 */
#ifndef CAISSON_CLI_PROGRESS_H
#define CAISSON_CLI_PROGRESS_H

#include <stdint.h>
#include <sys/types.h>

#include "cli/cli.h"

struct progress {
	const char *label; /* shown escaped; borrowed */
	int64_t total;	   /* bytes, -1 unknown */
	int64_t done;
	int64_t began_ms, shown_ms;
	bool on, drawn;
};

void progress_begin(struct progress *p, const struct cli *c, const char *label, int64_t total);
void progress_add(struct progress *p, int64_t bytes);
/* The next bytes of a tar, counted; 0 at its end. */
ssize_t progress_read(struct progress *p, int fd, void *out, size_t cap, struct err *err);
/* Removes the line. */
void progress_end(struct progress *p);

#endif
