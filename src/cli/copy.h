/*
 * copy.h - files between here and a sandbox, through its toolbox.
 *
 * Folders are copied with what is below them. Names that come from the sandbox are single path
 * components or refused, and local files are made below a directory descriptor without following
 * links: a sandbox can't make a copy land elsewhere. Links inside a folder are copied as links,
 * with the target they have. What can't be copied is left out, counted and named.
 */
#ifndef CAISSON_CLI_COPY_H
#define CAISSON_CLI_COPY_H

#include <sys/stat.h>

#include "base/buf.h"
#include "cli/cli.h"
#include "cli/progress.h"

#define COPY_DEPTH_MAX	64
#define COPY_PATH_MAX	4096
#define COPY_LINKS_MAX	64 /* made at once */
#define COPY_LEFT_SHOWN 20

struct copy {
	struct cli *c;
	const char *toolbox; /* base URL of the sandbox's toolbox */
	const char *sandbox; /* its id */
	struct progress progress;
	uint64_t files, bytes, links;
	uint64_t skipped;	     /* left out */
	char *left[COPY_LEFT_SHOWN]; /* the first of them, and why */
	int fd;			     /* the file under way */
	bool holes;		     /* zeros that come become holes of it */
	/* Links on the way up that are still to be made, and the shell text that makes them. */
	char *link[COPY_LINKS_MAX];
	size_t nlinks;
	struct buf shell;
};

int copy_up(struct copy *k, const char *local, const char *remote, struct err *err);
int copy_down(struct copy *k, const char *remote, const char *local, struct err *err);

/* ---- shared by both directions ---- */
/* toolbox + "/files" + what + "?path=…" */
int copy_url(struct copy *k, const char *what, const char *path, struct buf *url, struct err *err);
/* FileInfo of path; 0 with *ret NULL when it is not there. */
int copy_info(struct copy *k, const char *path, json_t **ret, struct err *err);
/* dir + "/" + name into out. */
int copy_join(const char *dir, const char *name, char out[COPY_PATH_MAX], struct err *err);
/* path is not copied. */
void copy_leave(struct copy *k, const char *path, const char *why);
/* A link of ours to be made at remote; it is there after copy_links_flush, or left out. */
int copy_link_up(struct copy *k, int dirfd, const char *name, const char *remote, struct err *err);
int copy_links_flush(struct copy *k, struct err *err);
int copy_link_down(struct copy *k, const char *remote, const char *target, int dirfd,
		   const char *name, struct err *err);
bool copy_is_sparse(const struct stat *st);
int copy_sparse_up(struct copy *k, int fd, const struct stat *st, const char *remote,
		   struct err *err);
void copy_done(struct copy *k);
const char *copy_base(const char *path, char out[256]);

#endif
