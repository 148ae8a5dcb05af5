/*
 * tar.c - a tree of a sandbox as a tar, out and in.
 *
 * The tar is read or made on a thread behind a pipe, so a slow side slows the other and nothing
 * is held. A tar that breaks off cuts the connection: it never looks whole.
 */
#include "api/caisson/native.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/fd.h"
#include "caisson/files.h"

#define TAR_STALL_MS 600000 /* most one side may keep the other waiting */
#define TAR_PIPE     (1 << 20)

/* The thread owns inner, result, err and r until it is joined. */
struct tar_job {
	struct core *core;
	struct caller who;
	char sandbox[CORE_NAME_MAX], path[AGENT_PATH_MAX];
	bool in;
	int outer, inner; /* ends of the pipe: the request's, the thread's */
	int client;
	pthread_t thread;
	bool running;
	struct untar_result r;
	struct err err;
	int result;
};

static void *job_main(void *arg)
{
	struct tar_job *j = arg;

	j->result =
		j->in ? file_untar(j->core, &j->who, j->sandbox, j->path, j->inner, &j->r, &j->err)
		      : file_tar(j->core, &j->who, j->sandbox, j->path, j->inner, &j->err);
	close(j->inner);
	j->inner = -1;
	return NULL;
}

static void job_join(struct tar_job *j)
{
	if (j->outer >= 0)
		close(j->outer);
	j->outer = -1;
	if (j->running)
		pthread_join(j->thread, NULL);
	j->running = false;
}

static void job_free(void *arg)
{
	struct tar_job *j = arg;

	job_join(j);
	if (j->inner >= 0)
		close(j->inner);
	free(j);
}

static int job_start(struct tar_job *j, struct err *err)
{
	int ends[2], rc;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_errno(err, ERR_NOMEM, errno, "pipe");
	j->inner = ends[j->in ? 0 : 1];
	j->outer = ends[j->in ? 1 : 0];
	fcntl(j->outer, F_SETPIPE_SZ, TAR_PIPE); /* best effort: fewer switches */
	if (fd_set_nonblock(j->outer, err) < 0)
		return -1;
	rc = pthread_create(&j->thread, NULL, job_main, j);
	if (rc)
		return err_errno(err, ERR_NOMEM, rc, "thread of a tar");
	j->running = true;
	return 0;
}

struct tar_args {
	const char *path;
};
static const struct jt_field tar_fields[] = {
	{"path", JT_STR, JT_REQUIRED, offsetof(struct tar_args, path), 1, AGENT_PATH_MAX - 1, NULL},
};
static const struct jt_table tar_table = {"", tar_fields, ARRAY_LEN(tar_fields)};

static struct tar_job *job_new(struct http_req *req, bool in, struct err *err)
{
	struct tar_args a = {0};
	struct tar_job *j;

	if (api_query(req, &tar_table, &a, err) < 0)
		return NULL;
	j = calloc(1, sizeof(*j));
	if (!j) {
		err_set(err, ERR_NOMEM, "out of memory");
		return NULL;
	}
	j->core = api_core(req);
	j->who = *api_who(req);
	j->in = in;
	j->inner = j->outer = -1;
	j->client = http_client_fd(req);
	snprintf(j->sandbox, sizeof(j->sandbox), "%s", http_param(req, "id"));
	snprintf(j->path, sizeof(j->path), "%s", a.path);
	if (job_start(j, err) == 0)
		return j;
	job_free(j);
	return NULL;
}

/* ---- out ---- */

static ssize_t out_pull(void *arg, void *p, size_t cap)
{
	struct tar_job *j = arg;
	ssize_t n;

	for (;;) {
		if (j->outer < 0)
			return j->result < 0 ? -1 : 0;
		if (fd_wait(j->outer, POLLIN, j->client, clock_mono_ms() + TAR_STALL_MS, NULL) < 0)
			return -1;
		n = read(j->outer, p, cap);
		if (n > 0)
			return n;
		if (n < 0 && errno != EAGAIN && errno != EINTR)
			return -1;
		if (n == 0)
			job_join(j);
	}
}

/* Until there is something to send: what goes wrong before it can still be said. */
static int out_begin(struct tar_job *j, struct err *err)
{
	int pending = fd_wait(j->outer, POLLIN, j->client, clock_mono_ms() + TAR_STALL_MS, err);

	if (pending < 0)
		return -1;
	if (pending & POLLIN)
		return 0;
	job_join(j);
	if (j->result == 0)
		return 0;
	*err = j->err;
	return -1;
}

int caisson_native_getTar(struct http_req *req, struct err *err)
{
	struct tar_job *j = job_new(req, false, err);

	if (!j)
		return -1;
	if (out_begin(j, err) < 0) {
		job_free(j);
		return -1;
	}
	return http_reply_stream(req, 200, "application/x-tar", -1, out_pull, job_free, j, err);
}

/* ---- in ---- */

static int in_data(void *arg, const void *p, size_t n, struct err *err)
{
	struct tar_job *j = arg;

	if (j->outer >= 0 && fd_write_all(j->outer, p, n, clock_mono_ms() + TAR_STALL_MS, err) == 0)
		return 0;
	job_join(j);
	if (j->result < 0) {
		*err = j->err;
		return -1;
	}
	return 0; /* what stands behind the end of the archive is read past */
}

static int in_end(void *arg, struct http_req *req, struct err *err)
{
	auto_buf struct buf b = BUF_INIT(API_REPLY_MAX);
	struct tar_job *j = arg;
	struct jw w;

	job_join(j);
	if (j->result < 0) {
		*err = j->err;
		return -1;
	}
	jw_init(&w, &b);
	jw_open(&w, '{');
	jw_kint(&w, "files", (int64_t)j->r.files);
	jw_kint(&w, "directories", (int64_t)j->r.dirs);
	jw_kint(&w, "links", (int64_t)j->r.links);
	jw_kint(&w, "bytes", (int64_t)j->r.bytes);
	jw_kint(&w, "skipped", (int64_t)j->r.skipped);
	jw_close(&w, '}');
	return api_reply(req, 200, &w, err);
}

static const struct http_sink in_sink = {in_data, in_end, job_free};

int caisson_native_putTar(struct http_req *req, struct err *err)
{
	struct tar_job *j = job_new(req, true, err);

	if (!j)
		return -1;
	http_set_sink(req, &in_sink, j);
	return 0;
}
