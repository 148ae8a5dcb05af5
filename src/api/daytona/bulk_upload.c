/*
 * bulk_upload.c - many files in one form (contract §3.10): for each i a part files[i].path and,
 * somewhere behind it, files[i].file; httpx sends all paths first. What goes wrong with one file is
 * told with the others' success (B13).
 */
#include "api/daytona/toolbox.h"

#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

#define BULK_FILES_MAX 10000
#define REASON_MAX     300 /* bytes of the first file's error in the message of all */

struct bulk_row {
	char *path;
	char *error; /* NULL: written */
	uint64_t bytes;
};

/* A path that waits for its file; key is "files[3]". */
struct bulk_path {
	char key[32];
	char *path; /* NULL: taken */
};

enum bulk_state { BULK_SKIP, BULK_PATH, BULK_FILE };

struct bulk_upload {
	struct upload_file file;
	struct http_multipart *form;
	char sandbox[CORE_NAME_MAX];
	struct buf path; /* value of the path part being read; of the file being written */
	char key[32];	 /* of the path part being read */
	struct bulk_path *wait;
	size_t nwait, hint;    /* files come in the order of their paths, so look from hint on */
	enum bulk_state state; /* of the part being read */
	struct bulk_row *row;
	size_t n, nerrors;
};

static void bulk_upload_free(void *arg)
{
	struct bulk_upload *u = arg;

	upload_close(&u->file);
	http_multipart_free(u->form);
	buf_done(&u->path);
	for (size_t i = 0; i < u->n; i++) {
		free(u->row[i].path);
		free(u->row[i].error);
	}
	for (size_t i = 0; i < u->nwait; i++)
		free(u->wait[i].path);
	free(u->wait);
	free(u->row);
	free(u);
}

static int add_row(struct bulk_upload *u, const char *path, const struct err *why, struct err *err)
{
	struct bulk_row *row;

	if (u->n == BULK_FILES_MAX)
		return err_set(err, ERR_TOO_LARGE, "files: at most %d in one request",
			       BULK_FILES_MAX);
	row = realloc(u->row, (u->n + 1) * sizeof(*row));
	if (!row)
		return err_set(err, ERR_NOMEM, "out of memory");
	u->row = row;
	row[u->n] = (struct bulk_row){.path = strdup(path), .bytes = u->file.bytes};
	if (why && asprintf(&row[u->n].error, "%s: %s", path, why->msg) < 0)
		row[u->n].error = NULL;
	if (!row[u->n].path || (why && !row[u->n].error)) {
		free(row[u->n].path);
		free(row[u->n].error);
		return err_set(err, ERR_NOMEM, "out of memory");
	}
	u->nerrors += why != NULL;
	u->n++;
	return 0;
}

/* A part's name is "<key>.path" or "<key>.file"; *ret_n is the length of the key. */
static enum bulk_state part_kind(const char *name, size_t *ret_n)
{
	size_t n = strlen(name);

	if (n <= 5 || n - 5 >= sizeof(((struct bulk_upload *)0)->key))
		return BULK_SKIP;
	*ret_n = n - 5;
	if (strcmp(name + n - 5, ".path") == 0)
		return BULK_PATH;
	return strcmp(name + n - 5, ".file") == 0 ? BULK_FILE : BULK_SKIP;
}

static int wait_add(struct bulk_upload *u, struct err *err)
{
	struct bulk_path *w;

	if (u->nwait == BULK_FILES_MAX)
		return err_set(err, ERR_TOO_LARGE, "files: at most %d in one request",
			       BULK_FILES_MAX);
	w = realloc(u->wait, (u->nwait + 1) * sizeof(*w));
	if (!w)
		return err_set(err, ERR_NOMEM, "out of memory");
	u->wait = w;
	w += u->nwait;
	memcpy(w->key, u->key, sizeof(w->key));
	w->path = strdup(buf_str(&u->path));
	if (!w->path)
		return err_set(err, ERR_NOMEM, "out of memory");
	u->nwait++;
	return 0;
}

/* The path of key moves into u->path; false when none waits. */
static bool wait_take(struct bulk_upload *u, const char *key, size_t nkey)
{
	for (size_t i = 0; i < u->nwait; i++) {
		struct bulk_path *w = &u->wait[(u->hint + i) % u->nwait];

		if (!w->path || strncmp(w->key, key, nkey) != 0 || w->key[nkey])
			continue;
		u->hint = (size_t)(w - u->wait) + 1;
		buf_clear(&u->path);
		buf_adds(&u->path, w->path, NULL);
		free(TAKE_PTR(w->path));
		return true;
	}
	return false;
}

static int begin_file(struct bulk_upload *u, const char *name, size_t nkey, struct err *err)
{
	struct err why = {0};

	u->file.bytes = 0;
	if (!wait_take(u, name, nkey)) {
		u->state = BULK_SKIP;
		err_set(&why, ERR_INVALID, "no path came before the file");
		return add_row(u, name, &why, err);
	}
	if (upload_open(&u->file, buf_str(&u->path), 0, &why) == 0)
		return 0;
	u->state = BULK_SKIP;
	return add_row(u, buf_str(&u->path), &why, err);
}

static int bulk_part(void *arg, const char *name, const char *filename, const char *type,
		     struct err *err)
{
	struct bulk_upload *u = arg;
	size_t nkey = 0;

	(void)filename;
	(void)type;
	u->state = part_kind(name, &nkey);
	if (u->state == BULK_FILE)
		return begin_file(u, name, nkey, err);
	if (u->state == BULK_PATH) {
		snprintf(u->key, sizeof(u->key), "%.*s", (int)nkey, name);
		buf_clear(&u->path);
	}
	return 0;
}

static int bulk_bytes(void *arg, const void *p, size_t n, struct err *err)
{
	struct bulk_upload *u = arg;
	struct err why = {0};

	if (u->state == BULK_PATH) {
		if (buf_add(&u->path, p, n, &why) == 0)
			return 0;
		return err_set(err, ERR_INVALID, "%s.path: must have a length from 1 to %d", u->key,
			       TOOLBOX_PATH_MAX - 1);
	}
	if (u->state != BULK_FILE || upload_bytes(&u->file, p, n, &why) == 0)
		return 0;
	/* The rest of this file is read past; the next one has its own chance. */
	u->state = BULK_SKIP;
	upload_close(&u->file);
	return add_row(u, buf_str(&u->path), &why, err);
}

static int bulk_part_end(void *arg, struct err *err)
{
	struct bulk_upload *u = arg;
	enum bulk_state was = u->state;
	struct err why = {0};

	u->state = BULK_SKIP;
	if (was == BULK_PATH && (!u->path.len || strlen(buf_str(&u->path)) != u->path.len))
		return err_set(err, ERR_INVALID, "%s.path: must not be empty or hold a NUL",
			       u->key);
	if (was == BULK_PATH)
		return wait_add(u, err);
	if (was != BULK_FILE)
		return 0;
	if (upload_finish(&u->file, &why) < 0)
		return add_row(u, buf_str(&u->path), &why, err);
	return add_row(u, buf_str(&u->path), NULL, err);
}

static const struct http_multipart_ops bulk_ops = {bulk_part, bulk_bytes, bulk_part_end};

static int bulk_data(void *arg, const void *p, size_t n, struct err *err)
{
	return http_multipart_feed(((struct bulk_upload *)arg)->form, p, n, err);
}

static void put_rows(struct jw *w, const struct bulk_upload *u)
{
	jw_key(w, "files");
	jw_open(w, '[');
	for (size_t i = 0; i < u->n; i++) {
		if (u->row[i].error)
			continue;
		jw_open(w, '{');
		jw_kstr(w, "path", u->row[i].path);
		jw_key(w, "bytes");
		jw_uint(w, u->row[i].bytes);
		jw_close(w, '}');
	}
	jw_close(w, ']');
	if (!u->nerrors)
		return;
	jw_key(w, "errors");
	jw_open(w, '[');
	for (size_t i = 0; i < u->n; i++)
		if (u->row[i].error)
			jw_str(w, u->row[i].error);
	jw_close(w, ']');
}

/* A path whose file never came is an error of that file. */
static int wait_report(struct bulk_upload *u, struct err *err)
{
	struct err why = {0};

	err_set(&why, ERR_INVALID, "no file came for the path");
	for (size_t i = 0; i < u->nwait; i++)
		if (u->wait[i].path && add_row(u, u->wait[i].path, &why, err) < 0)
			return -1;
	return 0;
}

/* Many clients show only the message, so it holds the first reason, cut when long. */
static void say_failed(const struct bulk_upload *u, struct err *why)
{
	const char *first = "";
	size_t i = 0;

	while (i < u->n && !u->row[i].error)
		i++;
	if (i < u->n)
		first = u->row[i].error;
	err_set(why, ERR_INVALID, "%zu of %zu files were not written: %.*s", u->nerrors, u->n,
		(int)utf8_floor(first, strnlen(first, REASON_MAX)), first);
}

static int bulk_end(void *arg, struct http_req *req, struct err *err)
{
	auto_buf struct buf b = BUF_INIT(API_REPLY_MAX);
	struct bulk_upload *u = arg;
	struct err why = {0};
	struct jw w;

	if (http_multipart_end(u->form, err) < 0)
		return -1;
	if (u->n == 0)
		return err_set(err, ERR_INVALID, "files: at least one is required");
	if (wait_report(u, err) < 0)
		return -1;
	jw_init(&w, &b);
	jw_open(&w, '{');
	put_rows(&w, u);
	if (u->nerrors) {
		say_failed(u, &why);
		daytona_error_members(&w, 400, &why, http_path(req), http_method(req));
	}
	jw_close(&w, '}');
	return api_reply(req, u->nerrors ? 400 : 200, &w, err);
}

static const struct http_sink bulk_sink = {bulk_data, bulk_end, bulk_upload_free};

int daytona_toolbox_UploadFiles(struct http_req *req, struct err *err)
{
	const char *type = http_header(req, "Content-Type");
	auto_sandbox struct sandbox s = {0};
	struct bulk_upload *u;

	/* A missing sandbox is the call's own error, not that of each file. */
	if (sandbox_get(api_core(req), api_who(req), toolbox_id(req), &s, err) < 0)
		return -1;
	u = calloc(1, sizeof(*u));
	if (!u)
		return err_set(err, ERR_NOMEM, "out of memory");
	snprintf(u->sandbox, sizeof(u->sandbox), "%s", toolbox_id(req));
	buf_init(&u->path, TOOLBOX_PATH_MAX - 1);
	upload_init(&u->file, req, u->sandbox);
	u->form = http_multipart_new(type ? type : "", &bulk_ops, u, err);
	if (!u->form) {
		bulk_upload_free(u);
		return -1;
	}
	http_set_sink(req, &bulk_sink, u);
	return 0;
}
