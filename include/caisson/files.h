/*
 * files.h - files in a sandbox beyond single calls: searching, replacing text, writing whole files,
 * uploads that go on after a hang-up, watching, trees as tar, links that are signed.
 *
 * Part of core.h: the same callers, the same errors. Everything inside the sandbox goes through its
 * agent, as the sandbox's user; relative paths start at the working directory.
 */
#ifndef CAISSON_FILES_H
#define CAISSON_FILES_H

#include "caisson/core.h"

/* ---- searching (files_find.c) ---- */

/* Lines with the text pattern, in a file or all text files below a directory. */
int file_find(struct core *c, const struct caller *who, const char *id, const char *path,
	      const char *pattern, int client, agent_match_fn fn, void *arg, bool *ret_more,
	      struct err *err);
/* Paths below the directory whose last name fits the shell pattern. */
int file_search(struct core *c, const struct caller *who, const char *id, const char *path,
		const char *pattern, int client, agent_name_fn fn, void *arg, bool *ret_more,
		struct err *err);

/* ---- writing (files_put.c) ---- */

/* A file being written: it takes its place at the commit, whole, or nothing happens. */
struct file_put {
	struct core *core;
	char id[ID_LEN];
	struct agent_put put;
	uint64_t size;	  /* bytes taken so far */
	uint64_t hole;	  /* the last of them: zeros that need no block */
	uint64_t touched; /* size at the last note of activity */
};
#define FILE_PUT_INIT                                                                              \
	{                                                                                          \
		.put = AGENT_PUT_INIT                                                              \
	}
/* flags: enum agent_put_flag */
int file_put_open(struct core *c, const struct caller *who, const char *id, const char *path,
		  uint32_t flags, mode_t mode, struct file_put *ret, struct err *err);
/* Long runs of zeros become holes. */
int file_put_write(struct file_put *f, const void *p, size_t n, struct err *err);
void file_put_skip(struct file_put *f, uint64_t n); /* n zeros */
/* mtime_ns may be NULL. *ret_atomic (or NULL): false when it was written in place. */
int file_put_commit(struct file_put *f, const struct caller *who, const int64_t *mtime_ns,
		    bool *ret_atomic, struct err *err);
void file_put_done(struct file_put *f); /* drops what was not committed */
#define auto_file_put auto_call(file_put_done)

/* ---- replacing text (files_replace.c) ---- */

#define FILE_REPLACE_MAX (1ull << 30) /* bytes of a file it is done in */
/*
 * Each occurrence of the bytes pattern in the file becomes value; a file without any isn't touched.
 * path_out is the absolute path, also on failure once it is known, else path itself.
 */
int file_replace(struct core *c, const struct caller *who, const char *id, const char *path,
		 const char *pattern, const char *value, char path_out[AGENT_PATH_MAX],
		 uint64_t *ret_count, struct err *err);

/* ---- uploads in pieces (files_upload.c) ---- */

#define UPLOAD_IDLE_MS (3600 * 1000) /* without a call for so long it is dropped */
#define UPLOADS_MAX    1024	     /* of the daemon at once */
#define UPLOADS_BOX    64	     /* of one sandbox */

struct upload {
	char id[ID_LEN], sandbox[ID_LEN];
	char path[AGENT_PATH_MAX]; /* absolute */
	uint64_t size;		   /* as announced */
	uint64_t offset;	   /* bytes that are there: where to go on */
	int64_t expires_ms;	   /* wall */
	bool complete, atomic;	   /* the file stands */
};
/* What came is kept in the sandbox, unseen, until size bytes are there; then it is the file. */
int upload_begin(struct core *c, const struct caller *who, const char *sandbox, const char *path,
		 uint64_t size, struct upload *ret, struct err *err);
int upload_get(struct core *c, const struct caller *who, const char *sandbox, const char *upload,
	       struct upload *ret, struct err *err);
int upload_cancel(struct core *c, const struct caller *who, const char *sandbox, const char *upload,
		  struct err *err);
/* One piece: take it, write, put it back. Another writer meanwhile is ERR_CONFLICT, and so is an
 * offset other than the upload's. */
struct upload_piece;
struct upload_piece *upload_take(struct core *c, const struct caller *who, const char *sandbox,
				 const char *upload, uint64_t offset, struct err *err);
int upload_write(struct upload_piece *p, const void *data, size_t n, struct err *err);
/* Commits when all is there. */
int upload_end(struct upload_piece *p, const struct caller *who, struct upload *ret,
	       struct err *err);
void upload_put_back(struct upload_piece *p); /* what came stays; NULL is fine */

/* ---- watching (files_watch.c) ---- */

struct file_watch;
struct file_watch *file_watch_open(struct core *c, const struct caller *who, const char *id,
				   const char *path, bool recursive, struct err *err);
/* As agent_watch_next. */
int file_watch_next(struct file_watch *w, int client, int64_t deadline_ms, agent_event_fn fn,
		    void *arg, bool *ret_over, struct err *err);
void file_watch_free(struct file_watch *w);

/* ---- trees (files_tar.c, files_untar.c) ---- */

/* The tree at path as a POSIX tar, names relative to it, holes as holes, written to fd (a pipe). */
int file_tar(struct core *c, const struct caller *who, const char *id, const char *path, int fd,
	     struct err *err);
struct untar_result {
	uint64_t files, dirs, links, bytes, skipped; /* skipped: devices and the like */
};
/* The tar (or a compressed one) from fd below the directory path, which is made. Names with ".."
 * are refused, links come last. */
int file_untar(struct core *c, const struct caller *who, const char *id, const char *path, int fd,
	       struct untar_result *ret, struct err *err);

/* ---- signed links (files_sign.c) ---- */

#define SIGNING_KEY_LEN 33 /* 32 characters and a NUL */
/* The sandbox's key, made at the first call. */
int signing_key_get(struct core *c, const struct caller *who, const char *id,
		    char ret[SIGNING_KEY_LEN], struct err *err);
int signing_key_rotate(struct core *c, const struct caller *who, const char *id,
		       char ret[SIGNING_KEY_LEN], struct err *err);
/* "v1_…" for the verb GET or POST. */
#define SIGNATURE_LEN 64
void signature_make(const char *key, const char *verb, const char *path, const char *expires,
		    char ret[SIGNATURE_LEN]);
/* Who holds a good link may do what it says, in the sandbox of this id, as a caller of its
 * organization. ERR_UNAUTHORIZED otherwise. */
int signature_check(struct core *c, const char *sandbox_id, const char *verb, const char *path,
		    const char *expires, const char *signature, struct caller *ret,
		    struct err *err);

#endif
