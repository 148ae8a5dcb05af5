/*
 * fifo.h - named pipes between the agent and the shell of a session.
 *
 * A shell that runs already can be given descriptors by name only. The names lie in a directory of
 * root's on /dev, the one file system that is ours in every image; each FIFO belongs to the
 * session's user. Whoever inside may tamper with them can spoil sessions of his own, no more:
 * what is opened is checked to be a FIFO, and nothing here waits.
 */
#ifndef CAISSON_INIT_FIFO_H
#define CAISSON_INIT_FIFO_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define FIFO_DIR  "/dev/.caisson"
#define FIFO_NAME 32 /* room for a name */

/* "<session>.<serial><what>"; serial 0: of the session itself. */
void fifo_name(char out[FIFO_NAME], uint32_t session, uint32_t serial, char what);
/* Make it, owned by uid:gid, and open it non-blocking by mode (O_RDONLY, O_RDWR). */
int fifo_make(const char *name, uint32_t uid, uint32_t gid, int mode, struct err *err);
int fifo_open(const char *name, int mode, struct err *err); /* one that is there */
void fifo_remove(const char *name);

#endif
