/*
 * upload.c - contents of files into a sandbox, written while the body comes in: nothing is held
 * back, so a full disk or a slow one slows the client (contract §3.10). The file takes its place
 * when all of it is there; what is cut leaves nothing.
 */
#include "api/daytona/toolbox.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

void upload_init(struct upload_file *f, struct http_req *req, const char *sandbox)
{
	*f = (struct upload_file){.core = api_core(req),
				  .who = api_who(req),
				  .sandbox = sandbox,
				  .put = FILE_PUT_INIT,
				  .fd = -1};
}

int upload_open(struct upload_file *f, const char *path, uint64_t offset, struct err *err)
{
	f->bytes = 0;
	if (!offset)
		return file_put_open(f->core, f->who, f->sandbox, path, AGENT_PUT_PARENTS, 0644,
				     &f->put, err);
	f->fd = file_open(f->core, f->who, f->sandbox, path,
			  AGENT_OPEN_WRITE | AGENT_OPEN_CREATE | AGENT_OPEN_PARENTS, 0644, NULL,
			  err);
	if (f->fd < 0)
		return -1;
	if (lseek(f->fd, (off_t)offset, SEEK_SET) < 0)
		return err_errno(err, ERR_INVALID, errno, "offset: cannot continue at %llu",
				 (unsigned long long)offset);
	return 0;
}

int upload_bytes(struct upload_file *f, const void *p, size_t n, struct err *err)
{
	const char *s = p;

	if (f->fd < 0) {
		f->bytes += n;
		return file_put_write(&f->put, p, n, err);
	}
	while (n) {
		ssize_t k = write(f->fd, s, n);

		if (k < 0 && errno == EINTR)
			continue;
		if (k < 0)
			return err_errno(err, err_code_of_errno(errno), errno, "write");
		s += k;
		n -= (size_t)k;
		f->bytes += (uint64_t)k;
	}
	return 0;
}

int upload_finish(struct upload_file *f, struct err *err)
{
	int rc = f->fd < 0 ? file_put_commit(&f->put, f->who, NULL, NULL, err) : 0;

	upload_close(f);
	return rc;
}

void upload_close(struct upload_file *f)
{
	file_put_done(&f->put);
	if (f->fd >= 0)
		close(f->fd);
	f->fd = -1;
}

/* ---- one file: upload-v2 and the older upload ---- */

struct one {
	struct upload_file file;
	char sandbox[CORE_NAME_MAX], path[TOOLBOX_PATH_MAX];
	uint64_t offset;
	struct http_multipart *form; /* NULL: the body is the file */
	bool seen;		     /* the file's part has begun */
	bool current;		     /* this part is the file */
};

static void one_free(void *arg)
{
	struct one *u = arg;

	upload_close(&u->file);
	http_multipart_free(u->form);
	free(u);
}

static int one_open(struct one *u, struct err *err)
{
	return upload_open(&u->file, u->path, u->offset, err) < 0 ? file_failed("path", err) : 0;
}

static int one_part(void *arg, const char *name, const char *filename, const char *type,
		    struct err *err)
{
	struct one *u = arg;

	(void)type;
	u->current = !u->seen && (strcmp(name, "file") == 0 || *filename);
	if (!u->current)
		return 0;
	u->seen = true;
	return one_open(u, err);
}

static int one_bytes(void *arg, const void *p, size_t n, struct err *err)
{
	struct one *u = arg;

	return u->current ? upload_bytes(&u->file, p, n, err) : 0;
}

static int one_part_end(void *arg, struct err *err)
{
	(void)err;
	((struct one *)arg)->current = false;
	return 0;
}

static const struct http_multipart_ops one_ops = {one_part, one_bytes, one_part_end};

static int one_data(void *arg, const void *p, size_t n, struct err *err)
{
	struct one *u = arg;

	return u->form ? http_multipart_feed(u->form, p, n, err) : one_bytes(u, p, n, err);
}

static int one_end(void *arg, struct http_req *req, struct err *err)
{
	auto_buf struct buf b = BUF_INIT(API_REPLY_MAX);
	struct one *u = arg;
	const char *slash = strrchr(u->path, '/');
	struct jw w;

	if (u->form && http_multipart_end(u->form, err) < 0)
		return -1;
	if (u->form && !u->seen)
		return err_set(err, ERR_INVALID, "file: is required");
	if (upload_finish(&u->file, err) < 0)
		return file_failed("path", err);
	jw_init(&w, &b);
	jw_open(&w, '{');
	jw_kstr(&w, "name", slash ? slash + 1 : u->path);
	jw_kstr(&w, "path", u->path);
	jw_kstr(&w, "type", "file");
	jw_key(&w, "bytes");
	jw_uint(&w, u->file.bytes);
	jw_close(&w, '}');
	return api_reply(req, 200, &w, err);
}

static const struct http_sink one_sink = {one_data, one_end, one_free};

struct one_args {
	const char *path;
	int64_t offset;
};
static const struct jt_field one_fields[] = {
	{"path", JT_STR, JT_REQUIRED, offsetof(struct one_args, path), 1, TOOLBOX_PATH_MAX - 1,
	 NULL},
	{"offset", JT_INT, 0, offsetof(struct one_args, offset), 0, INT64_MAX, NULL},
};
static const struct jt_table one_table = {"", one_fields, ARRAY_LEN(one_fields)};

static int one_begin(struct one *u, const char *type, struct err *err)
{
	if (type && strncasecmp(type, "multipart/form-data", 19) == 0) {
		u->form = http_multipart_new(type, &one_ops, u, err);
		return u->form ? 0 : -1;
	}
	u->current = true;
	return one_open(u, err);
}

int daytona_toolbox_UploadFile(struct http_req *req, struct err *err)
{
	struct one_args a = {0};
	struct one *u;

	if (api_query(req, &one_table, &a, err) < 0)
		return -1;
	u = calloc(1, sizeof(*u));
	if (!u)
		return err_set(err, ERR_NOMEM, "out of memory");
	snprintf(u->sandbox, sizeof(u->sandbox), "%s", toolbox_id(req));
	snprintf(u->path, sizeof(u->path), "%s", a.path);
	u->offset = (uint64_t)a.offset;
	upload_init(&u->file, req, u->sandbox);
	if (one_begin(u, http_header(req, "Content-Type"), err) < 0) {
		one_free(u);
		return -1;
	}
	http_set_sink(req, &one_sink, u);
	return 0;
}

int daytona_toolbox_UploadFileLegacy(struct http_req *req, struct err *err)
{
	return daytona_toolbox_UploadFile(req, err);
}
