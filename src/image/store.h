/*
 * store.h - inside of the layer store, for store.c and the import worker.
 *
 *   <cache>/layers/<id>/          a tree, whole and on the disk from the moment it has this name
 *   <cache>/layers/.meta/<id>     "bytes files"
 *   <cache>/layers/.ref/<id>.<i>  the data directory of instance <i>, which uses the layer
 *   <cache>/layers/.key/<k>       archive file <k> (device, inode, size, mtime) -> id
 *   <cache>/layers/.tmp/<uuid>/   being filled (its maker holds a flock) or to be deleted
 *   <cache>/layers/.lock          flock: renames and claims, never held over slow work
 */
#ifndef CAISSON_IMAGE_STORE_H
#define CAISSON_IMAGE_STORE_H

#include <limits.h>
#include <sys/stat.h>

#include "base/id.h"
#include "caisson/image.h"

#define STORE_KEY_LEN 96

struct image_store {
	int layers, meta, ref, key, tmp; /* directories */
	char instance[16];
	char data_dir[PATH_MAX];
};

/* A descriptor whose close gives the lock back. */
int store_lock(struct image_store *s, struct err *err);
/* A locked new directory below .tmp; its name into name. */
int store_tmp_new(struct image_store *s, char name[ID_LEN], struct err *err);
/* Name a finished, synced tree; the same layer made by another meanwhile wins. Claims it. */
int store_publish(struct image_store *s, const char *tmp, const struct image_layer *layer,
		  struct err *err);
/* 1 and the key's name when fd is a file that only root can have written; else 0. */
int store_key_of(int fd, char key[STORE_KEY_LEN]);
int store_key_set(struct image_store *s, const char *key, const char *id, struct err *err);

#endif
