/*
 * image.h - root file systems: unpacking archives and keeping them as shared layers.
 *
 * The store is a directory of trees, <cache>/layers/<sha-256 of the archive>/, owned by root in
 * a 0700 parent and shared read-only by every data directory of the machine. A layer appears by
 * one rename, after everything in it is on the disk; it is never written again.
 *
 * Archives are hostile. They are parsed in a child that sees nothing but the new tree: chroot,
 * no network, five capabilities, seccomp (see image/confine.h). What it says is believed only
 * as far as numbers go; the layer's id is computed outside of it.
 *
 * All calls are for one thread at a time per store, in the root process.
 */
#ifndef CAISSON_IMAGE_H
#define CAISSON_IMAGE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "wire/priv_proto.h"

/* Ceilings of one archive; 0 takes the default. Errors name the limit that was met. */
struct image_limits {
	uint64_t bytes_max;  /* data written, each file and directory at least 4 KiB: 32 GiB */
	uint64_t files_max;  /* entries: 2,000,000 */
	uint64_t tar_max;    /* bytes of the archive as it comes: 16 GiB */
	uint32_t ratio_max;  /* unpacked over packed, beyond the first 256 MiB: 250 */
	uint32_t depth_max;  /* components of a path: 128 */
	int64_t time_max_ms; /* 30 min */
	/*
	 * Not a ceiling: the archive is one layer of several, and what it hides of those below is
	 * kept in the overlay's form (0/0 devices, trusted.overlay.opaque). Its id is another one.
	 */
	bool stacked;
};

struct image_layer {
	char id[PRIV_LAYER_ID_LEN];
	uint64_t bytes, files;
};

struct image_store;

/*
 * cache_dir is made if missing. instance (8 hex digits) and data_dir name the user of layers: a
 * layer goes when the last instance whose data directory still exists has let go of it.
 */
int image_store_open(const char *cache_dir, const char *instance, const char *data_dir,
		     struct image_store **ret, struct err *err);
void image_store_close(struct image_store *s);

/* True for exactly 64 lower-case hex digits: the only thing that is ever made a path (C8). */
bool image_layer_id_valid(const char *id);

/* 1 and the layer claimed for this instance, 0 when there is none of this id. */
int image_store_get(struct image_store *s, const char *id, struct image_layer *ret,
		    struct err *err);
/* The same by the archive's file (device, inode, size, times), without reading it. */
int image_store_get_by_file(struct image_store *s, int tar_fd, struct image_layer *ret,
			    struct err *err);
/* O_PATH descriptor of the layer's root directory; ERR_NOT_FOUND. */
int image_store_open_layer(struct image_store *s, const char *id, struct err *err);
/* Give up this instance's claim; without other claims the tree leaves the store at once. */
int image_store_remove(struct image_store *s, const char *id, struct err *err);
/* Delete what removals and dead imports left behind. Slow: for a child or a thread. */
int image_store_collect(struct image_store *s, struct err *err);

/*
 * An import under way in a child process, for an event loop: poll job.fd for input and call
 * image_job_step. tar_fd may be a file, a pipe or a socket (tar; plain, gzip, bzip2, xz, zstd).
 */
struct image_job {
	pid_t pid; /* our direct child: wait for nobody else's */
	int fd;
	size_t have;
	char msg[1024];
};
#define IMAGE_JOB_INIT                                                                             \
	{                                                                                          \
		.pid = -1, .fd = -1                                                                \
	}

int image_job_start(struct image_store *s, int tar_fd, const struct image_limits *limits,
		    struct image_job *job, struct err *err);
/*
 * Take what the child has said; never blocks. 0 = still at work (*bytes and *files so far), 1 =
 * done, *ret is in the store and claimed; -1 = failed. After 1 or -1 call image_job_done.
 */
int image_job_step(struct image_job *job, uint64_t *bytes, uint64_t *files, struct image_layer *ret,
		   struct err *err);
/* Ends the child if it still runs, reaps it, closes fd. For a job never started: nothing. */
void image_job_done(struct image_job *job);

typedef void (*image_progress_fn)(void *arg, uint64_t bytes, uint64_t files);

/* The three above in a row; blocks. Finds a known archive file without reading it. */
int image_store_import(struct image_store *s, int tar_fd, const struct image_limits *limits,
		       image_progress_fn progress, void *arg, struct image_layer *ret,
		       struct err *err);

#endif
