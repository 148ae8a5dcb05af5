/*
 * lsp_docs.c - documents: files of the sandbox as a language server sees them.
 *
 * There is no call that changes a document; it changes in the sandbox. So before each request the
 * file's time and size are compared with those that were sent, and a changed file is sent again.
 * Files that were opened only for a request stay open, a few of them.
 */
#include <string.h>

#include "base/clock.h"
#include "base/fd.h"
#include "core/files_int.h"
#include "core/lsp_int.h"
#include "lsp/say.h"

#define DOCS_MAX     1000
#define DOCS_BY_NEED 32
#define READ_MS	     30000
#define auto_info    auto_call(agent_info_done)

void lsp_path_tidy(char *path)
{
	char *to = path;

	for (const char *p = path; *p;) {
		size_t n;

		p += strspn(p, "/");
		n = strcspn(p, "/");
		if (n && !(n == 1 && *p == '.')) {
			*to++ = '/';
			memmove(to, p, n);
			to += n;
		}
		p += n;
	}
	if (to == path)
		*to++ = '/';
	*to = '\0';
}

static int hex_of(char ch)
{
	static const char digits[] = "0123456789abcdef";
	const char *at = ch ? strchr(digits, ch >= 'A' && ch <= 'F' ? ch + 32 : ch) : NULL;

	return at ? (int)(at - digits) : -1;
}

/* Percent-escapes, in place; false when there are none, or one that is none. */
static bool unescape(char *path)
{
	char *to = path;
	bool any = false;

	for (const char *p = path; *p; p++) {
		int hi = *p == '%' ? hex_of(p[1]) : -1, lo = hi >= 0 ? hex_of(p[2]) : -1;

		if (*p == '%' && (lo < 0 || hi * 16 + lo == 0))
			return false;
		any = any || lo >= 0;
		*to++ = lo >= 0 ? (char)(hi * 16 + lo) : *p;
		p += lo >= 0 ? 2 : 0;
	}
	*to = '\0';
	return any;
}

static int doc_failed(struct err *err)
{
	char text[ERR_MSG_MAX];

	if (err->code != ERR_NOT_FOUND && err->code != ERR_FORBIDDEN && err->code != ERR_INVALID)
		return -1;
	snprintf(text, sizeof(text), "%s", err->msg);
	snprintf(err->msg, sizeof(err->msg), "uri: %.500s", text);
	return -1;
}

/* SDKs put the path behind file:// as it is; escapes count where no file has that very name. */
int lsp_doc_path(const struct lsp_at *at, const char *uri, char out[AGENT_PATH_MAX],
		 struct err *err)
{
	char path[AGENT_PATH_MAX], plain[AGENT_PATH_MAX];
	struct agent_info info = {0};
	struct file_at f = {0};
	struct err why = {0};
	int rc;

	if (strncmp(uri, "file://", 7) != 0)
		return err_set(err, ERR_INVALID, "uri: must begin with file://");
	if (!uri[7] || strlen(uri + 7) >= AGENT_PATH_MAX)
		return err_set(err, ERR_INVALID, "uri: must hold a path of 1 to %d bytes",
			       AGENT_PATH_MAX - 1);
	snprintf(path, sizeof(path), "%s", uri + 7);
	snprintf(plain, sizeof(plain), "%s", uri + 7);
	if (unescape(plain) && file_stat(at->core, at->who, at->sandbox, path, &info, &why) < 0 &&
	    why.code == ERR_NOT_FOUND)
		snprintf(path, sizeof(path), "%s", plain);
	agent_info_done(&info);
	rc = file_begin(at->core, at->who, at->sandbox, path, &f, err);
	if (rc == 0) {
		snprintf(out, AGENT_PATH_MAX, "%s", f.path);
		lsp_path_tidy(out);
	}
	file_at_done(&f);
	return rc;
}

/* ---- what is open ---- */

static struct lsp_doc **doc_at(struct lsp_server *s, const char *uri)
{
	struct lsp_doc **p = &s->docs;

	while (*p && strcmp((*p)->uri, uri) != 0)
		p = &(*p)->next;
	return p;
}

static void doc_free(struct lsp_doc *d)
{
	free(d->uri);
	free(d);
}

void lsp_docs_free(struct lsp_server *s)
{
	while (s->docs) {
		struct lsp_doc *d = s->docs;

		s->docs = d->next;
		doc_free(d);
	}
}

void lsp_doc_drop(struct lsp_server *s, const char *uri)
{
	struct lsp_doc **p = doc_at(s, uri), *d = *p;

	if (!d)
		return;
	*p = d->next;
	s->ndocs--;
	if (s->state == LSP_READY && lsp_say_close(&s->out, uri, NULL) == 0)
		lsp_server_wake(s);
	doc_free(d);
}

/* Make room: of those opened by need, the one not used for longest goes. */
static void docs_thin(struct lsp_server *s)
{
	struct lsp_doc *oldest = NULL;
	size_t by_need = 0;
	char *uri;

	for (struct lsp_doc *d = s->docs; d; d = d->next) {
		if (d->asked)
			continue;
		by_need++;
		if (!oldest || d->used_ms < oldest->used_ms)
			oldest = d;
	}
	if (by_need < DOCS_BY_NEED)
		return;
	uri = strdup(oldest->uri);
	if (uri)
		lsp_doc_drop(s, uri);
	free(uri);
}

/* Whether the server has seen this state of the file. Locked. */
static bool doc_fresh(struct lsp_server *s, const char *uri, const struct agent_info *info,
		      bool asked)
{
	struct lsp_doc *d = *doc_at(s, uri);

	if (!d || d->mtime_ns != info->mtime_ns || d->size != info->size)
		return false;
	d->asked = d->asked || asked;
	d->used_ms = clock_mono_ms();
	return true;
}

static int doc_open(struct lsp_server *s, struct lsp_text *t, struct lsp_doc **ret, struct err *err)
{
	struct lsp_doc *d;

	docs_thin(s);
	if (s->ndocs >= DOCS_MAX)
		return err_set(err, ERR_LIMIT, "uri: %d documents are open, close some", DOCS_MAX);
	d = calloc(1, sizeof(*d));
	if (!d || !(d->uri = strdup(t->uri))) {
		free(d);
		return err_set(err, ERR_NOMEM, "out of memory");
	}
	if (lsp_say_open(&s->out, t, err) < 0) {
		doc_free(d);
		return -1;
	}
	d->next = s->docs;
	s->docs = d;
	s->ndocs++;
	*ret = d;
	return 0;
}

/* Locked. */
static int doc_put(struct lsp_server *s, const struct agent_info *info, struct lsp_text *t,
		   bool asked, struct err *err)
{
	struct lsp_doc *d = *doc_at(s, t->uri);

	if (s->state == LSP_ENDED)
		return lsp_server_ended(s, err);
	if (d) {
		t->version = d->version + 1;
		if (lsp_say_change(&s->out, t, err) < 0)
			return -1;
	} else if (doc_open(s, t, &d, err) < 0) {
		return -1;
	}
	d->version = t->version;
	d->mtime_ns = info->mtime_ns;
	d->size = info->size;
	d->asked = d->asked || asked;
	d->used_ms = clock_mono_ms();
	lsp_server_wake(s);
	return 0;
}

/* ---- reading ---- */

static int doc_read(const struct lsp_at *at, const char *path, struct buf *text, struct err *err)
{
	auto_close int fd =
		file_open(at->core, at->who, at->sandbox, path, AGENT_OPEN_READ, 0, NULL, err);
	int64_t deadline = clock_mono_ms() + READ_MS;
	ssize_t got = 1;

	if (fd < 0)
		return doc_failed(err);
	while (got > 0) {
		char *p = buf_reserve(text, 64 * 1024, err);

		if (!p || clock_mono_ms() > deadline)
			return err_set(err, ERR_TOO_LARGE, "uri: %.300s is larger than %u bytes",
				       path, LSP_TEXT_MAX);
		got = read(fd, p, 64 * 1024);
		if (got > 0)
			buf_commit(text, (size_t)got);
	}
	return got < 0 ? err_set(err, ERR_INVALID, "uri: %.300s can't be read", path) : 0;
}

int lsp_doc_sync(const struct lsp_at *at, struct lsp_server *s, const char *path, bool asked,
		 char **ret, struct err *err)
{
	auto_buf struct buf text = BUF_INIT(LSP_TEXT_MAX + 64 * 1024);
	auto_free char *uri = lsp_uri_of(path, err);
	auto_info struct agent_info info = {0};
	struct lsp_text t = {.uri = uri, .language = lsp_language_of(s->lang, path), .version = 1};
	bool fresh;
	int rc;

	if (!uri)
		return -1;
	if (file_stat(at->core, at->who, at->sandbox, path, &info, err) < 0)
		return doc_failed(err);
	if (info.type != 'f')
		return err_set(err, ERR_INVALID, "uri: %.300s is not a file", path);
	pthread_mutex_lock(&s->lock);
	fresh = doc_fresh(s, uri, &info, asked);
	pthread_mutex_unlock(&s->lock);
	if (!fresh) {
		if (doc_read(at, path, &text, err) < 0)
			return -1;
		t.text = buf_str(&text);
		t.n = text.len;
		pthread_mutex_lock(&s->lock);
		rc = doc_put(s, &info, &t, asked, err);
		pthread_mutex_unlock(&s->lock);
		if (rc < 0)
			return -1;
	}
	*ret = TAKE_PTR(uri);
	return 0;
}
