/*
 * images.c - import, list and delete root file systems.
 *
 * An import reads a descriptor to its end while the body comes in callbacks, so a thread runs the
 * import behind a pipe: a slow unpack fills the pipe and so slows the client.
 */
#include "api/caisson/native.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/fd.h"

#define IMPORT_STALL_MS 600000 /* most the unpack may keep one write waiting */
#define PIPE_SIZE	(1 << 20)

#define AT(member) offsetof(struct image, member) /* offsetof needs the type as a token */

static const struct jt_field image_fields[] = {
	{"id", JT_CHARS, 0, AT(id), 0, 0, NULL},
	{"name", JT_CHARS, 0, AT(name), 0, 0, NULL},
	{"layer", JT_CHARS, 0, AT(layer), 0, 0, NULL},
	{"user", JT_CHARS, JT_OMIT, AT(user), 0, 0, NULL},
	{"workdir", JT_CHARS, JT_OMIT, AT(workdir), 0, 0, NULL},
	{"bytes", JT_U64, 0, AT(bytes), 0, 0, NULL},
	{"files", JT_U64, 0, AT(files), 0, 0, NULL},
	{"createdAt", JT_TIME, 0, AT(created_ms), 0, 0, NULL},
};
const struct jt_table native_image_table = {"Image", image_fields, ARRAY_LEN(image_fields)};

static void put_image(struct jw *w, const struct image *i)
{
	jw_open(w, '{');
	jt_encode(w, &native_image_table, i);
	jw_close(w, '}');
}

/* The import's thread owns tar, result and err until it is joined. */
struct import {
	struct core *core;
	struct caller who;
	char name[CORE_NAME_MAX];
	int body; /* write end, the sink's */
	int tar;  /* read end, the thread's */
	pthread_t thread;
	bool running;
	struct image image;
	struct err err;
	int result;
};

static void import_progress(void *arg, uint64_t bytes, uint64_t files)
{
	(void)arg;
	(void)bytes;
	(void)files;
}

static void *import_main(void *arg)
{
	struct import *im = arg;

	im->result = image_import(im->core, &im->who, im->name, im->tar, import_progress, NULL,
				  &im->image, &im->err);
	/* A sink that waits for room in the pipe gets EPIPE and asks why. */
	close(im->tar);
	im->tar = -1;
	return NULL;
}

static void import_join(struct import *im)
{
	if (im->body >= 0)
		close(im->body);
	im->body = -1;
	if (im->running)
		pthread_join(im->thread, NULL);
	im->running = false;
}

static void import_free(void *arg)
{
	struct import *im = arg;

	import_join(im);
	if (im->tar >= 0)
		close(im->tar);
	free(im);
}

static int import_data(void *arg, const void *p, size_t n, struct err *err)
{
	struct import *im = arg;

	if (fd_write_all(im->body, p, n, clock_mono_ms() + IMPORT_STALL_MS, err) == 0)
		return 0;
	import_join(im);
	if (im->result < 0)
		*err = im->err;
	return -1;
}

static int import_end(void *arg, struct http_req *req, struct err *err)
{
	auto_buf struct buf b = BUF_INIT(API_REPLY_MAX);
	struct import *im = arg;
	struct jw w;

	import_join(im);
	if (im->result < 0) {
		*err = im->err;
		return -1;
	}
	jw_init(&w, &b);
	put_image(&w, &im->image);
	return api_reply(req, 201, &w, err);
}

static const struct http_sink import_sink = {import_data, import_end, import_free};

struct import_args {
	const char *name;
};
static const struct jt_field import_fields[] = {
	{"name", JT_STR, JT_REQUIRED, offsetof(struct import_args, name), 1, 128, NULL},
};
static const struct jt_table import_table = {"", import_fields, ARRAY_LEN(import_fields)};

static int import_start(struct import *im, struct err *err)
{
	int ends[2], rc;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_errno(err, ERR_NOMEM, errno, "pipe");
	im->tar = ends[0];
	im->body = ends[1];
	fcntl(im->body, F_SETPIPE_SZ, PIPE_SIZE); /* best effort: fewer switches */
	if (fd_set_nonblock(im->body, err) < 0)
		return -1;
	rc = pthread_create(&im->thread, NULL, import_main, im);
	if (rc)
		return err_errno(err, ERR_NOMEM, rc, "import thread");
	im->running = true;
	return 0;
}

int caisson_native_createImage(struct http_req *req, struct err *err)
{
	struct import_args a = {0};
	struct import *im;

	if (api_query(req, &import_table, &a, err) < 0)
		return -1;
	im = calloc(1, sizeof(*im));
	if (!im)
		return err_set(err, ERR_NOMEM, "out of memory");
	im->core = api_core(req);
	im->who = *api_who(req);
	im->body = im->tar = -1;
	snprintf(im->name, sizeof(im->name), "%s", a.name);
	api_target(req, a.name);
	if (import_start(im, err) < 0) {
		import_free(im);
		return -1;
	}
	http_set_sink(req, &import_sink, im);
	return 0;
}

int caisson_native_listImages(struct http_req *req, struct err *err)
{
	auto_buf struct buf b = BUF_INIT(API_REPLY_MAX);
	auto_free struct image *images = NULL;
	size_t n = 0;
	struct jw w;

	if (image_list(api_core(req), api_who(req), &images, &n, err) < 0)
		return -1;
	jw_init(&w, &b);
	jw_open(&w, '{');
	jw_key(&w, "items");
	jw_open(&w, '[');
	for (size_t i = 0; i < n; i++)
		put_image(&w, &images[i]);
	jw_close(&w, ']');
	jw_close(&w, '}');
	return api_reply(req, 200, &w, err);
}

int caisson_native_deleteImage(struct http_req *req, struct err *err)
{
	if (image_delete(api_core(req), api_who(req), http_param(req, "name"), err) < 0)
		return -1;
	return http_reply_empty(req, 204, err);
}
