/*
 * toolbox.h - what the toolbox files of the Daytona dialect share.
 */
#ifndef CAISSON_API_DAYTONA_TOOLBOX_H
#define CAISSON_API_DAYTONA_TOOLBOX_H

#include "api/daytona/daytona.h"
#include "caisson/files.h"

#define TOOLBOX_PATH_MAX 4096

/* The sandbox of the URL. */
const char *toolbox_id(struct http_req *req);

/* ---- exec_output.c: what a command printed, as a JSON string or kept raw ---- */
/*
 * Besides its own ceiling each output is cut when those of all requests together come over a
 * bound, but not below a small share: what sandboxes print must not use up the daemon's memory.
 */
struct exec_output {
	struct http_req *req;
	struct jw *w;	 /* the open string it goes to, or NULL */
	struct buf *raw; /* else kept here */
	uint64_t max, kept;
	bool cut; /* more came than was kept */
};
/* False when keeping more bytes of memory would pass the bound of all requests. */
bool exec_output_room(struct http_req *req, uint64_t bytes);
#define EXEC_OUTPUT_SHARE (256u << 10)
int exec_output_sink(void *arg, int stream, const void *p, size_t n, struct err *err);
/* Members behind the result: exit code, and what this daemon adds when there is more to say. */
void exec_put_result(struct jw *w, const struct exec_result *r, bool cut);
/* ERR_TIMEOUT for a command that ran out of its time, else 0. */
int exec_check_timeout(const struct exec_result *r, int64_t timeout_s, struct err *err);

/* ---- artifacts.c ---- */
/*
 * Split what a program printed: text without artifact lines goes to text (a JSON string is open
 * in it), the charts as JSON values into charts (an array is open in it).
 */
void artifacts_split(const char *p, size_t n, struct jw *text, struct jw *charts);

/* ---- file_error.c: put the field before what a file call says of its path; both return -1 ---- */
int file_failed(const char *field, struct err *err);
int file_move_failed(const char *source, const char *destination, struct err *err);

/* ---- upload.c: a file being written ---- */
struct upload_file {
	struct core *core;
	const struct caller *who; /* of the request, which outlives the sink */
	const char *sandbox;
	struct file_put put; /* the whole file */
	int fd;		     /* or one that goes on at an offset; -1 */
	uint64_t bytes;
};
void upload_init(struct upload_file *f, struct http_req *req, const char *sandbox);
/* offset 0 replaces the file at upload_finish; else writing goes on in it there. */
int upload_open(struct upload_file *f, const char *path, uint64_t offset, struct err *err);
int upload_bytes(struct upload_file *f, const void *p, size_t n, struct err *err);
int upload_finish(struct upload_file *f, struct err *err);
void upload_close(struct upload_file *f); /* what was not finished is gone, but not at an offset */

/* ---- code_drivers.c: programs that read the code from standard input and run it ---- */
extern const char driver_python[], driver_typescript[];

/* ---- file_names.c ---- */
/* Content-Disposition parameters filename and filename* for name. raw: keep UTF-8 in the first. */
int disposition_add(struct buf *b, const char *name, bool raw, struct err *err);
/* Octal text such as 0755. */
int mode_parse(const char *field, const char *text, mode_t *ret, struct err *err);

#endif
