/*
 * upper.h - the store of what sandboxes wrote: one directory each with the overlay's upper and
 * work parts, and the trash they end in.
 *
 * The rest of the runner knows uppers only through these calls, so a store with quotas or
 * snapshots can take this one's place. boxes/<id>/{upper,work} and boxes/.pool-<n> are below the
 * data directory, root's alone. Ids on disk are canonical (0 is the sandbox's root); nothing here
 * ever follows or opens a path inside an upper but to delete it. Thread-safe.
 */
#ifndef CAISSON_BOX_UPPER_H
#define CAISSON_BOX_UPPER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/id.h"

struct upper_store;

/* data_dir is an open directory (not kept); pool is how many empty uppers are kept ready. */
struct upper_store *upper_store_open(int data_dir, unsigned pool, struct err *err);
void upper_store_close(struct upper_store *s);

/* A new, empty upper of this id; ERR_CONFLICT when there is one. */
int upper_create(struct upper_store *s, const char *id, struct err *err);
/* ERR_NOT_FOUND when there is none. Makes it mountable again after any kind of end. */
int upper_check(struct upper_store *s, const char *id, struct err *err);
/*
 * Out of sight in one rename; in the background the tree is deleted, or, when nothing was ever
 * written into it, becomes a ready upper again. Missing is success.
 * root is the mount of it that is the last, or -1; it is the store's from now on, also on failure.
 */
int upper_retire(struct upper_store *s, const char *id, int root, struct err *err);
/* All ids with an upper; *ret is one malloc, NULL when there are none. */
int upper_list(struct upper_store *s, char (**ret)[ID_LEN], size_t *ret_n, struct err *err);
/*
 * Make ready uppers until the pool is full, or, unless brim is set, half full: the rest
 * is left to those that come back empty. Returns whether it is full. For a background thread.
 */
bool upper_refill(struct upper_store *s, bool brim);
/* Wait until the trash is empty; for tests and an orderly end. */
int upper_settle(struct upper_store *s, int64_t deadline_ms, struct err *err);

#endif
