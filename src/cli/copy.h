/*
 * copy.h - files between here and a sandbox, through its toolbox.
 *
 * Folders are copied with what is below them. Names that come from the sandbox are single path
 * components or refused, and local files are made below a directory descriptor without following
 * links: a sandbox can't make a copy land elsewhere. Links inside a folder are skipped and counted.
 */
#ifndef CAISSON_CLI_COPY_H
#define CAISSON_CLI_COPY_H

#include "base/buf.h"
#include "cli/cli.h"
#include "cli/progress.h"

#define COPY_DEPTH_MAX 64
#define COPY_PATH_MAX  4096

struct copy {
	struct cli *c;
	const char *toolbox; /* base URL of the sandbox's toolbox */
	struct progress progress;
	uint64_t files, bytes, skipped;
	int fd; /* the file under way */
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
const char *copy_base(const char *path, char out[256]);

#endif
