/*
 * report.h - what unpacker, import worker and daemon say to one another: one record a write.
 *
 * A record is smaller than PIPE_BUF, so it is never torn. The worker doubts the unpacker's.
 */
#ifndef CAISSON_IMAGE_REPORT_H
#define CAISSON_IMAGE_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "caisson/image.h"

enum report_kind { REPORT_PROGRESS = 1, REPORT_DONE = 2, REPORT_FAILED = 3 };

struct report {
	uint32_t kind;
	int32_t code, errnum; /* of REPORT_FAILED */
	uint64_t bytes, files;
	char id[PRIV_LAYER_ID_LEN]; /* of the worker's REPORT_DONE */
	char msg[ERR_MSG_MAX];
};

/* Waits for room. Lost when the reader is gone: nobody is left to tell. */
void report_send(int fd, const struct report *r);
void report_send_err(int fd, const struct err *e);
/* The error of a REPORT_FAILED as one line of printable text; returns -1. */
int report_to_err(const struct report *r, struct err *err);
/* Is it a record an honest sender could have made? */
bool report_valid(const struct report *r);

#endif
