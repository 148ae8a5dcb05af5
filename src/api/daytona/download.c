/*
 * download.c - contents of files out of a sandbox: one by sendfile, many as a multipart reply that
 * is read while it is sent (contract §3.10).
 */
#include "api/daytona/toolbox.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define BULK_MAX      1000
#define BULK_BOUNDARY "DAYTONA-FILE-BOUNDARY"
#define HEAD_MAX      (64 << 10) /* a part's header: a path of 4 KiB three times as long */

struct download_args {
	const char *path;
};
static const struct jt_field download_fields[] = {
	{"path", JT_STR, JT_REQUIRED, offsetof(struct download_args, path), 1, TOOLBOX_PATH_MAX - 1,
	 NULL},
};
static const struct jt_table download_table = {"", download_fields, ARRAY_LEN(download_fields)};

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* ---- one file ---- */

struct range {
	uint64_t off, len;
	bool partial;
};

/* Digits at *p, which moves behind them; false without any or beyond 63 bits. */
static bool take_number(const char **p, uint64_t *ret)
{
	uint64_t v = 0;
	size_t n = strspn(*p, "0123456789");

	for (size_t i = 0; i < n; i++)
		v = v * 10 + (uint64_t)((*p)[i] - '0');
	*p += n;
	*ret = v;
	return n > 0 && n <= 18;
}

/*
 * One "bytes=a-b", "bytes=a-" or "bytes=-n"; anything else means the whole file (RFC 9110). False
 * when it starts beyond the end.
 */
static bool range_parse(const char *text, uint64_t size, struct range *r)
{
	uint64_t first = 0, last = UINT64_MAX - 1;
	bool has_first, has_last;

	*r = (struct range){.len = size};
	if (!text || strncmp(text, "bytes=", 6) != 0)
		return true;
	text += 6;
	has_first = take_number(&text, &first);
	if (*text++ != '-')
		return true;
	has_last = take_number(&text, &last);
	if (*text || (!has_first && !has_last) || (has_first && has_last && last < first))
		return true;
	if (!has_first)
		first = size - MIN(last, size);
	if (!has_last || !has_first)
		last = UINT64_MAX - 1;
	if (first >= size)
		return false;
	r->off = first;
	r->len = MIN(last - first + 1, size - first);
	r->partial = true;
	return true;
}

static int reply_beyond(struct http_req *req, uint64_t size, struct err *err)
{
	char text[48];

	snprintf(text, sizeof(text), "bytes */%" PRIu64, size);
	http_reply_header(req, "Content-Range", text);
	return http_reply_empty(req, 416, err);
}

int daytona_toolbox_DownloadFile(struct http_req *req, struct err *err)
{
	auto_buf struct buf name = BUF_INIT(HEAD_MAX);
	struct agent_info info = {0};
	struct download_args a = {0};
	char text[96];
	auto_close int fd = -1;
	struct range r;
	uint64_t size;

	if (api_query(req, &download_table, &a, err) < 0)
		return -1;
	fd = file_open(api_core(req), api_who(req), toolbox_id(req), a.path, AGENT_OPEN_READ, 0,
		       &info, err);
	if (fd < 0)
		return file_failed("path", err);
	size = info.size;
	agent_info_done(&info);
	if (!range_parse(http_header(req, "Range"), size, &r))
		return reply_beyond(req, size, err);
	if (buf_adds(&name, "attachment", err) < 0 ||
	    disposition_add(&name, base_name(a.path), false, err) < 0)
		return -1;
	http_reply_header(req, "Content-Disposition", buf_str(&name));
	http_reply_header(req, "Accept-Ranges", "bytes");
	if (r.partial) {
		snprintf(text, sizeof(text), "bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64, r.off,
			 r.off + r.len - 1, size);
		http_reply_header(req, "Content-Range", text);
	}
	return http_reply_fd(req, r.partial ? 206 : 200, "application/octet-stream", TAKE_FD(fd),
			     r.off, r.len, err);
}

/* ---- many files ---- */

/* Read by one thread, the one that sends. */
struct bulk {
	struct core *core;
	struct caller who;
	char sandbox[CORE_NAME_MAX], url[512];
	struct jt_doc doc; /* owns the texts of paths */
	struct jt_strs paths;
	size_t next;	 /* path to open */
	int fd;		 /* of the part being sent, or -1 */
	uint64_t left;	 /* of that part */
	struct buf text; /* header, error body or boundary waiting to be sent */
	bool closed;	 /* the closing boundary is in text */
};

static const struct jt_field paths_fields[] = {
	{"paths", JT_STRS, JT_REQUIRED, offsetof(struct bulk, paths), 1, BULK_MAX, NULL},
};
const struct jt_table daytona_paths_table = {"DownloadRequest", paths_fields,
					     ARRAY_LEN(paths_fields)};

static void bulk_free(void *arg)
{
	struct bulk *d = arg;

	if (!d)
		return;
	jt_release(&daytona_paths_table, d);
	jt_doc_done(&d->doc);
	buf_done(&d->text);
	if (d->fd >= 0)
		close(d->fd);
	free(d);
}

static int bulk_part(struct bulk *d, const char *name, const char *path, const char *type,
		     uint64_t len, struct err *err)
{
	if (buf_addf(&d->text, err,
		     "--" BULK_BOUNDARY "\r\nContent-Disposition: form-data; name=\"%s\"",
		     name) < 0)
		return -1;
	if (disposition_add(&d->text, path, true, err) < 0)
		return -1;
	return buf_addf(&d->text, err,
			"\r\nContent-Type: %s\r\nContent-Length: %" PRIu64 "\r\n\r\n", type, len);
}

static int bulk_error(struct bulk *d, const char *path, const struct err *why, struct err *err)
{
	auto_buf struct buf body = BUF_INIT(HEAD_MAX);
	struct jw w;

	jw_init(&w, &body);
	jw_open(&w, '{');
	daytona_error_members(&w, err_http_status(why->code), why, d->url, "POST");
	jw_close(&w, '}');
	if (jw_end(&w, err) < 0 ||
	    bulk_part(d, "error", path, "application/json", body.len, err) < 0 ||
	    buf_add(&d->text, body.data, body.len, err) < 0)
		return -1;
	return buf_adds(&d->text, "\r\n", err);
}

/* Puts the head of the next part, or the end, into text. */
static int bulk_next(struct bulk *d, struct err *err)
{
	struct agent_info info = {0};
	struct err why = {0};
	const char *path;

	if (d->next == d->paths.n) {
		d->closed = true;
		return buf_adds(&d->text, "--" BULK_BOUNDARY "--\r\n", err);
	}
	path = d->paths.v[d->next++];
	d->fd = file_open(d->core, &d->who, d->sandbox, path, AGENT_OPEN_READ, 0, &info, &why);
	if (d->fd < 0)
		return bulk_error(d, path, &why, err);
	d->left = info.size;
	agent_info_done(&info);
	return bulk_part(d, "file", path, "application/octet-stream", d->left, err);
}

/* The promised length can't be taken back: a file that shrank cuts the connection. */
static ssize_t bulk_read(struct bulk *d, void *p, size_t cap)
{
	ssize_t n;

	if (d->left == 0) {
		close(TAKE_FD(d->fd));
		d->fd = -1;
		return buf_adds(&d->text, "\r\n", NULL);
	}
	do
		n = read(d->fd, p, MIN(cap, d->left));
	while (n < 0 && errno == EINTR);
	if (n <= 0)
		return -1;
	d->left -= (uint64_t)n;
	return n;
}

static ssize_t bulk_pull(void *arg, void *p, size_t cap)
{
	struct bulk *d = arg;
	ssize_t n;

	for (;;) {
		if (d->text.len) {
			n = (ssize_t)MIN(cap, d->text.len);
			memcpy(p, d->text.data, (size_t)n);
			buf_eat(&d->text, (size_t)n);
			return n;
		}
		if (d->closed)
			return 0;
		if (d->fd < 0) {
			if (bulk_next(d, NULL) < 0)
				return -1;
			continue;
		}
		n = bulk_read(d, p, cap);
		if (n)
			return n;
	}
}

static int bulk_check(const struct bulk *d, struct err *err)
{
	for (size_t i = 0; i < d->paths.n; i++) {
		size_t n = strlen(d->paths.v[i]);

		if (n == 0 || n >= TOOLBOX_PATH_MAX)
			return err_set(err, ERR_INVALID,
				       "paths[%zu]: must have a length from 1 to %d", i,
				       TOOLBOX_PATH_MAX - 1);
	}
	return 0;
}

int daytona_toolbox_DownloadFiles(struct http_req *req, struct err *err)
{
	struct bulk *d = calloc(1, sizeof(*d));
	struct sandbox s = {0};

	if (!d)
		return err_set(err, ERR_NOMEM, "out of memory");
	d->fd = -1;
	d->core = api_core(req);
	d->who = *api_who(req);
	buf_init(&d->text, HEAD_MAX);
	snprintf(d->sandbox, sizeof(d->sandbox), "%s", toolbox_id(req));
	snprintf(d->url, sizeof(d->url), "%s", http_path(req));
	/* A missing sandbox is the call's own error, not that of each part. */
	if (api_body(req, &daytona_paths_table, d, &d->doc, err) < 0 || bulk_check(d, err) < 0 ||
	    sandbox_get(d->core, &d->who, d->sandbox, &s, err) < 0) {
		bulk_free(d);
		return -1;
	}
	sandbox_done(&s);
	return http_reply_stream(req, 200, "multipart/form-data; boundary=" BULK_BOUNDARY, -1,
				 bulk_pull, bulk_free, d, err);
}
