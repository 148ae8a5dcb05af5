/*
 * files_int.h - what the files about files in a sandbox share.
 */
#ifndef CAISSON_CORE_FILES_INT_H
#define CAISSON_CORE_FILES_INT_H

#include "caisson/files.h"
#include "core/exec.h"

/* A started sandbox, its agent and an absolute path in it. */
struct file_at {
	struct sandbox_row row;
	char agent[108];
	char path[AGENT_PATH_MAX];
};
void file_at_done(struct file_at *f);
#define auto_file auto_call(file_at_done)
/* path NULL: the working directory. Counts as activity. */
int file_begin(struct core *c, const struct caller *who, const char *id, const char *path,
	       struct file_at *f, struct err *err);
/* file_put_open on what file_begin found. */
int file_put_at(struct core *c, const struct file_at *f, uint32_t flags, mode_t mode,
		struct file_put *ret, struct err *err);

/* A name of an archive as "/a/b", "" for the top itself; one that goes up is ERR_INVALID. */
int untar_name(const char *name, char *out, size_t cap, struct err *err);

#endif
