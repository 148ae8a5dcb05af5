/*
 * log_split.h - a session's log as the toolbox sends it: bytes with three-byte marks that say whose
 * they are.
 *
 * 01 01 01 begins standard output, 02 02 02 standard error; a mark may be cut anywhere between two
 * messages. Fewer of these bytes in a row are text. Pure.
 */
#ifndef CAISSON_WIRE_LOG_SPLIT_H
#define CAISSON_WIRE_LOG_SPLIT_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Zeroed: before any mark, where bytes count as standard output. */
struct log_split {
	int stream; /* 1 or 2: of the bytes that come; 0 before any mark */
	int held;   /* bytes of a mark that has begun, 0…2 */
	uint8_t mark;
};

/* fn gets runs of bytes of one stream, 1 or 2; returning -1 stops. */
typedef int (*log_split_fn)(void *arg, int stream, const uint8_t *p, size_t n, struct err *err);
int log_split_add(struct log_split *s, const uint8_t *p, size_t n, log_split_fn fn, void *arg,
		  struct err *err);
/* At the end of the log: what was held was no mark. */
int log_split_end(struct log_split *s, log_split_fn fn, void *arg, struct err *err);

#endif
