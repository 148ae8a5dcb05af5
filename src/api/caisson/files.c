/*
 * files.c - whole files into a sandbox, in one request or in pieces that survive a hang-up.
 *
 *   POST   …/uploads {path, size}        a new upload: id, offset 0
 *   PUT    …/uploads/{upload}?offset=N   bytes from there on; the last one makes it the file
 *   GET    …/uploads/{upload}            where to go on
 *   DELETE …/uploads/{upload}            it never was
 */
#include "api/caisson/native.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "caisson/files.h"

/* ---- one request ---- */

struct whole {
	struct file_put put;
	const struct caller *who;
	char path[AGENT_PATH_MAX];
};

struct whole_args {
	const char *path;
};
static const struct jt_field whole_fields[] = {
	{"path", JT_STR, JT_REQUIRED, offsetof(struct whole_args, path), 1, AGENT_PATH_MAX - 1,
	 NULL},
};
static const struct jt_table whole_table = {"", whole_fields, ARRAY_LEN(whole_fields)};

static int whole_data(void *arg, const void *p, size_t n, struct err *err)
{
	return file_put_write(&((struct whole *)arg)->put, p, n, err);
}

static int whole_end(void *arg, struct http_req *req, struct err *err)
{
	auto_buf struct buf b = BUF_INIT(API_REPLY_MAX);
	struct whole *u = arg;
	bool atomic = false;
	struct jw w;

	if (file_put_commit(&u->put, u->who, NULL, &atomic, err) < 0)
		return -1;
	jw_init(&w, &b);
	jw_open(&w, '{');
	jw_kstr(&w, "path", u->path);
	jw_key(&w, "bytes");
	jw_uint(&w, u->put.size);
	jw_kbool(&w, "atomic", atomic);
	jw_close(&w, '}');
	return api_reply(req, 200, &w, err);
}

static void whole_free(void *arg)
{
	file_put_done(&((struct whole *)arg)->put);
	free(arg);
}

static const struct http_sink whole_sink = {whole_data, whole_end, whole_free};

int caisson_native_putFile(struct http_req *req, struct err *err)
{
	struct whole_args a = {0};
	struct whole *u;

	if (api_query(req, &whole_table, &a, err) < 0)
		return -1;
	u = calloc(1, sizeof(*u));
	if (!u)
		return err_set(err, ERR_NOMEM, "out of memory");
	u->who = api_who(req);
	snprintf(u->path, sizeof(u->path), "%s", a.path);
	if (file_put_open(api_core(req), u->who, http_param(req, "id"), a.path, AGENT_PUT_PARENTS,
			  0644, &u->put, err) < 0) {
		free(u);
		return -1;
	}
	http_set_sink(req, &whole_sink, u);
	return 0;
}

/* ---- in pieces ---- */

#define HAS(member) offsetof(struct upload, member) /* offsetof needs the type as a token */

static const struct jt_field upload_fields[] = {
	{"id", JT_CHARS, 0, HAS(id), 0, 0, NULL},
	{"path", JT_CHARS, 0, HAS(path), 0, 0, NULL},
	{"size", JT_U64, 0, HAS(size), 0, 0, NULL},
	{"offset", JT_U64, 0, HAS(offset), 0, 0, NULL},
	{"complete", JT_BOOL, 0, HAS(complete), 0, 0, NULL},
	{"expiresAt", JT_TIME, 0, HAS(expires_ms), 0, 0, NULL},
};
const struct jt_table native_upload_table = {"Upload", upload_fields, ARRAY_LEN(upload_fields)};

/* The offset is a header, too: a HEAD has no body. */
static int reply_upload(struct http_req *req, int status, const struct upload *u, struct err *err)
{
	auto_buf struct buf b = BUF_INIT(API_REPLY_MAX);
	char offset[24];
	struct jw w;

	snprintf(offset, sizeof(offset), "%" PRIu64, u->offset);
	http_reply_header(req, "Upload-Offset", offset);
	jw_init(&w, &b);
	jw_open(&w, '{');
	jt_encode(&w, &native_upload_table, u);
	if (u->complete)
		jw_kbool(&w, "atomic", u->atomic);
	jw_close(&w, '}');
	return api_reply(req, status, &w, err);
}

struct upload_args {
	const char *path;
	int64_t size;
};
#define AT(member) offsetof(struct upload_args, member)
static const struct jt_field create_fields[] = {
	{"path", JT_STR, JT_REQUIRED, AT(path), 1, AGENT_PATH_MAX - 1, NULL},
	{"size", JT_INT, JT_REQUIRED, AT(size), 0, INT64_MAX, NULL},
};
const struct jt_table native_upload_create_table = {"UploadCreate", create_fields,
						    ARRAY_LEN(create_fields)};

int caisson_native_createUpload(struct http_req *req, struct err *err)
{
	auto_jt_doc struct jt_doc doc = {0};
	struct upload_args a = {0};
	struct upload u;

	if (api_body(req, &native_upload_create_table, &a, &doc, err) < 0 ||
	    upload_begin(api_core(req), api_who(req), http_param(req, "id"), a.path,
			 (uint64_t)a.size, &u, err) < 0)
		return -1;
	return reply_upload(req, 201, &u, err);
}

int caisson_native_getUpload(struct http_req *req, struct err *err)
{
	struct upload u;

	if (upload_get(api_core(req), api_who(req), http_param(req, "id"),
		       http_param(req, "upload"), &u, err) < 0)
		return -1;
	return reply_upload(req, 200, &u, err);
}

int caisson_native_deleteUpload(struct http_req *req, struct err *err)
{
	if (upload_cancel(api_core(req), api_who(req), http_param(req, "id"),
			  http_param(req, "upload"), err) < 0)
		return -1;
	return http_reply_empty(req, 204, err);
}

struct piece_args {
	int64_t offset;
};
static const struct jt_field piece_fields[] = {
	{"offset", JT_INT, JT_REQUIRED, offsetof(struct piece_args, offset), 0, INT64_MAX, NULL},
};
static const struct jt_table piece_table = {"", piece_fields, ARRAY_LEN(piece_fields)};

static int piece_data(void *arg, const void *p, size_t n, struct err *err)
{
	return upload_write(arg, p, n, err);
}

static int piece_end(void *arg, struct http_req *req, struct err *err)
{
	struct upload u;

	if (upload_end(arg, api_who(req), &u, err) < 0)
		return -1;
	return reply_upload(req, 200, &u, err);
}

static void piece_free(void *arg)
{
	upload_put_back(arg);
}

static const struct http_sink piece_sink = {piece_data, piece_end, piece_free};

int caisson_native_putUpload(struct http_req *req, struct err *err)
{
	struct piece_args a = {0};
	struct upload_piece *p;

	if (api_query(req, &piece_table, &a, err) < 0)
		return -1;
	p = upload_take(api_core(req), api_who(req), http_param(req, "id"),
			http_param(req, "upload"), (uint64_t)a.offset, err);
	if (!p)
		return -1;
	http_set_sink(req, &piece_sink, p);
	return 0;
}
