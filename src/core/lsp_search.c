/*
 * lsp_search.c - symbols of a whole project for servers that can't search: the symbols of its
 * files, asked file by file and kept by the file's time and size.
 *
 * Bounded in folders, files, symbols and time; what a bound cut is said. Folders that hold what
 * others wrote are left out, and so are hidden ones.
 */
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "core/lsp_int.h"
#include "lsp/msg.h"
#include "lsp/say.h"

#define DIRS_MAX  2000
#define FILES_MAX 2000
#define KEPT_MAX  50000 /* symbols of one server */
#define SEARCH_MS 30000
#define DIR_DEPTH 32

static const char *const skipped[] = {"node_modules",  "__pycache__",	"venv",	 "env",
				      "site-packages", "dist-packages", "build", "dist"};

struct found {
	char *path;
	int64_t mtime_ns;
	uint64_t size;
	unsigned depth;
	bool dir;
};

/* Folders still to list and files found, in one list; heap. */
struct walk {
	const struct lsp_at *at;
	const struct lsp_language *lang;
	struct found *v;
	size_t n, cap, dirs, files;
	unsigned depth; /* of the folder being listed */
	size_t files_max;
	bool cut;
};

static void walk_done(struct walk *w)
{
	for (size_t i = 0; i < w->n; i++)
		free(w->v[i].path);
	free(w->v);
}

static bool wanted(struct walk *w, const struct agent_info *i)
{
	if (i->name[0] == '.')
		return false;
	if (i->type == 'f')
		return lsp_language_has(w->lang, i->name);
	if (i->type != 'd')
		return false;
	for (size_t k = 0; k < ARRAY_LEN(skipped); k++)
		if (strcmp(i->name, skipped[k]) == 0)
			return false;
	return true;
}

static int walk_add(struct walk *w, const char *path, const struct agent_info *i, struct err *err)
{
	bool dir = !i || i->type == 'd';
	struct found f = {.depth = w->depth + 1, .dir = dir};

	if ((dir && (w->dirs >= DIRS_MAX || f.depth > DIR_DEPTH)) ||
	    (!dir && w->files >= w->files_max)) {
		w->cut = true;
		return 0;
	}
	if (w->n == w->cap) {
		size_t cap = w->cap ? 2 * w->cap : 64;
		struct found *v = realloc(w->v, cap * sizeof(*v));

		if (!v)
			return err_set(err, ERR_NOMEM, "out of memory");
		w->v = v;
		w->cap = cap;
	}
	f.path = strdup(path);
	if (!f.path)
		return err_set(err, ERR_NOMEM, "out of memory");
	f.mtime_ns = i ? i->mtime_ns : 0;
	f.size = i ? i->size : 0;
	w->v[w->n++] = f;
	w->dirs += dir;
	w->files += !dir;
	return 0;
}

static int walk_entry(void *arg, const struct agent_info *i, struct err *err)
{
	struct walk *w = arg;

	return wanted(w, i) ? walk_add(w, i->path, i, err) : 0;
}

/* All folders, breadth first. One that can't be listed is as good as empty. */
static int walk_run(struct walk *w, const char *project, int64_t deadline_ms, struct err *err)
{
	const struct lsp_at *at = w->at;

	if (walk_add(w, project, NULL, err) < 0)
		return -1;
	for (size_t i = 0; i < w->n && w->files < w->files_max; i++) {
		auto_free char *path = NULL;
		struct err why = {0};
		bool more = false;

		if (!w->v[i].dir)
			continue;
		if (clock_mono_ms() > deadline_ms) {
			w->cut = true;
			break;
		}
		path = strdup(w->v[i].path); /* the list moves */
		w->depth = w->v[i].depth;
		if (path &&
		    file_list(at->core, at->who, at->sandbox, path, 1, walk_entry, w, &more, &why) <
			    0 &&
		    why.code != ERR_NOT_FOUND && why.code != ERR_FORBIDDEN &&
		    why.code != ERR_INVALID) {
			*err = why;
			return -1;
		}
		w->cut = w->cut || more;
	}
	return 0;
}

char *lsp_search_any(const struct lsp_at *at, struct lsp_server *s)
{
	__attribute__((cleanup(walk_done))) struct walk w = {
		.at = at, .lang = s->lang, .files_max = 1};

	if (walk_run(&w, s->project, clock_mono_ms() + SEARCH_MS, NULL) < 0)
		return NULL;
	for (size_t i = 0; i < w.n; i++)
		if (!w.v[i].dir)
			return TAKE_PTR(w.v[i].path);
	return NULL;
}

/* ---- what is kept; locked ---- */

static void symfile_free(struct lsp_server *s, struct lsp_symfile *f)
{
	s->nsymbols -= f->symbols.n + 1;
	lsp_symbols_done(&f->symbols);
	free(f->path);
	free(f);
}

void lsp_symfiles_free(struct lsp_server *s)
{
	while (s->symfiles) {
		struct lsp_symfile *f = s->symfiles;

		s->symfiles = f->next;
		symfile_free(s, f);
	}
}

/* The file's entry when it is of this state; an outdated one is dropped. */
static struct lsp_symfile *symfile_get(struct lsp_server *s, const struct found *want)
{
	struct lsp_symfile **p = &s->symfiles, *f;

	while (*p && strcmp((*p)->path, want->path) != 0)
		p = &(*p)->next;
	f = *p;
	if (!f || (f->mtime_ns == want->mtime_ns && f->size == want->size))
		return f;
	*p = f->next;
	symfile_free(s, f);
	return NULL;
}

/* Takes the symbols. What is too much to keep is forgotten, all of it: simple, and rare. */
static struct lsp_symfile *symfile_put(struct lsp_server *s, const struct found *of,
				       struct lsp_symbols *symbols)
{
	struct lsp_symfile *f = calloc(1, sizeof(*f));

	if (s->nsymbols + symbols->n > KEPT_MAX)
		lsp_symfiles_free(s);
	if (!f || !(f->path = strdup(of->path))) {
		free(f);
		lsp_symbols_done(symbols);
		return NULL;
	}
	f->mtime_ns = of->mtime_ns;
	f->size = of->size;
	f->symbols = *symbols;
	*symbols = (struct lsp_symbols){0};
	s->nsymbols += f->symbols.n + 1;
	f->next = s->symfiles;
	s->symfiles = f;
	return f;
}

static int symfile_match(const struct lsp_symfile *f, const char *query, const char *uri,
			 struct lsp_symbols *ret, struct err *err)
{
	for (size_t i = 0; i < f->symbols.n; i++) {
		struct lsp_symbol one = f->symbols.v[i];

		one.uri = (char *)uri;
		if (strcasestr(one.name, query) && lsp_symbols_add(ret, &one, err) < 0)
			return -1;
	}
	return 0;
}

/* ---- the search ---- */

/* The symbols of a file from the server, without their URI. */
static int ask_file(const struct lsp_at *at, struct lsp_server *s, const char *uri,
		    int64_t deadline_ms, struct lsp_symbols *ret, struct err *err)
{
	struct lsp_call call = {.want = LSP_WANT_SYMBOLS, .uri = uri, .ret = ret};
	int rc;

	if (lsp_call_begin(s, &call, err) < 0)
		return -1;
	rc = lsp_say_document_symbols(&s->out, call.id, uri, err);
	rc = lsp_call_end(s, &call, rc, at->client, deadline_ms, err);
	for (size_t i = 0; rc == 0 && i < ret->n; i++) {
		free(ret->v[i].uri);
		ret->v[i].uri = NULL;
	}
	return rc;
}

/* A file that the server can't read is one without symbols, but a server that died is an error. */
static bool is_of_file(const struct err *err)
{
	return err->code == ERR_UPSTREAM && !err->tag;
}

static int search_file(const struct lsp_at *at, struct lsp_server *s, const struct found *file,
		       const char *query, int64_t deadline_ms, struct lsp_symbols *ret,
		       struct err *err)
{
	auto_free char *uri = lsp_uri_of(file->path, err);
	struct lsp_symbols got = {0};
	struct lsp_symfile *f;
	struct err why = {0};
	int rc = 0;

	if (!uri)
		return -1;
	pthread_mutex_lock(&s->lock);
	f = symfile_get(s, file);
	if (f)
		rc = symfile_match(f, query, uri, ret, err);
	pthread_mutex_unlock(&s->lock);
	if (f)
		return rc;
	if (ask_file(at, s, uri, deadline_ms, &got, &why) < 0 && !is_of_file(&why)) {
		*err = why;
		return -1;
	}
	pthread_mutex_lock(&s->lock);
	f = symfile_put(s, file, &got);
	if (f)
		rc = symfile_match(f, query, uri, ret, err);
	pthread_mutex_unlock(&s->lock);
	return rc;
}

int lsp_search_files(const struct lsp_at *at, struct lsp_server *s, const char *query,
		     struct lsp_symbols *ret, struct err *err)
{
	__attribute__((cleanup(walk_done))) struct walk w = {
		.at = at, .lang = s->lang, .files_max = FILES_MAX};
	int64_t deadline = clock_mono_ms() + SEARCH_MS;
	struct lsp_symbols all = {0};
	struct err why = {0};

	if (walk_run(&w, s->project, deadline, err) < 0)
		return -1;
	for (size_t i = 0; i < w.n; i++) {
		if (w.v[i].dir)
			continue;
		if (search_file(at, s, &w.v[i], query, deadline, &all, &why) == 0)
			continue;
		if (why.code == ERR_TIMEOUT) {
			w.cut = true;
			break;
		}
		lsp_symbols_done(&all);
		*err = why;
		return -1;
	}
	all.more = all.more || w.cut;
	*ret = all;
	return 0;
}
