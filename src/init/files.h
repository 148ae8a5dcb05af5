/*
 * files.h - between the files about searching, putting and watching, inside caisson-init.
 */
#ifndef CAISSON_INIT_FILES_H
#define CAISSON_INIT_FILES_H

#include "init/init.h"

/* ---- walk.c: all entries below a directory ---- */

#define WALK_DEPTH_MAX 64
#define WALK_MS_MAX    60000 /* of one walk; what is left then is told by more */

struct walk {
	struct job *job; /* whose hang-up ends the walk */
	void *arg;
	/*
	 * An entry: path is w->path, type a DT_ value, never unknown. Returns -1 to end with err,
	 * WALK_STOP to end well, WALK_SKIP not to go into a directory, else WALK_ON.
	 */
	int (*fn)(struct walk *w, int dirfd, const char *name, unsigned char type, struct err *err);
	bool more;	 /* something was left out: depth, length, time */
	int64_t end_ms;	 /* monotonic */
	uint32_t looked; /* entries */
	size_t len;
	char path[PATH_MAX + NAME_MAX + 2];
};
enum walk_next { WALK_ON, WALK_SKIP, WALK_STOP };

/*
 * fd (taken) is the directory w->path names. Symlinks are not followed, proc and its like not
 * entered; what vanished meanwhile or may not be read is left out.
 */
int walk_run(struct walk *w, int fd, struct err *err);

/* ---- find.c: FIND and SEARCH ---- */
int find_run(struct job *j, struct err *err);
int search_run(struct job *j, struct err *err);

/* ---- put.c, put_attr.c: PUT and COMMIT ---- */
struct put {
	struct user user;
	int dir;	  /* of the target */
	int tmp, tmp_dir; /* the staged file, read and write, and where it is */
	int old;	  /* the target for writing in place, or -1: it gets replaced */
	bool fresh;	  /* nothing was there */
	bool has_mode;	  /* mode goes on a file written in place */
	mode_t mode;
	struct stat st;			       /* of the target unless fresh */
	char name[NAME_MAX + 1], tmp_name[32]; /* tmp_name "": it has none yet */
	char path[];			       /* as asked for, for messages */
};
int put_run(struct job *j, const struct user *u, struct err *err);    /* fills j->put */
int put_commit(struct job *j, const struct user *u, struct err *err); /* of j->put */
/* The staged file goes, unless it was committed. Frees p; NULL is fine. */
void put_free(struct put *p);
/* Owner, mode and attributes of p->st on the staged file. 1 done, 0 it can't have them. */
int put_attrs_copy(const struct put *p, int old_path_fd);

/* ---- watch.c: WATCH, on a thread of its own ---- */
#define WATCH_MAX 16			       /* at once */
int watch_run(struct job *j, struct err *err); /* until hang-up */

/* ---- fsop.c ---- */
/* Make what is missing of the folders before path's last name. */
int open_parents(const char *path, struct err *err);
/* Refuse what is no regular file. */
int kind_check(const struct stat *st, const char *path, struct err *err);
/* Open the file behind an O_PATH descriptor with our rights if u owns it. -1 with errno. */
int open_as_owner(const struct user *u, int path_fd, const struct stat *st, int flags);

/* ---- job.c ---- */
bool job_gone(const struct job *j); /* the daemon hung up */

#endif
