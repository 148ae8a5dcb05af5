/*
 * pack.h - a folder as a tar stream.
 */
#ifndef CAISSON_CLI_PACK_H
#define CAISSON_CLI_PACK_H

#include <sys/stat.h>

#include "base/err.h"

/*
 * Write what is below dir to fd as a pax tar: owners by number, modes, times, hard links and
 * extended attributes kept, other mounts left out. Sockets are skipped. Blocks as fd does.
 */
int pack_dir(const char *dir, int fd, struct err *err);
/* Write the file of in (st is its) to out as a pax tar of one entry, its holes as holes. */
int pack_sparse(int in, const struct stat *st, const char *name, int out, struct err *err);

#endif
