/*
 * lsp.c - the calls of caisson/lsp.h: finding a server, starting and ending it, asking it.
 */
#include <string.h>

#include "base/clock.h"
#include "core/exec.h"
#include "core/files_int.h"
#include "core/lsp_int.h"
#include "lsp/say.h"

#define STOP_MS 2000 /* for the answer to shutdown, and again for the exit */

/* ---- which server ---- */

/* Sandbox, project and language of a call, checked. */
static int locate(const struct lsp_at *at, struct lsp_found *ret, struct err *err)
{
	auto_file struct file_at f = {0};
	const char *project = at->project && *at->project ? at->project : NULL;

	ret->server = NULL;
	ret->lang = lsp_language_get(at->language);
	if (!ret->lang)
		return err_set(err, ERR_INVALID,
			       "languageId: must be one of python, typescript, javascript");
	if (file_begin(at->core, at->who, at->sandbox, project, &f, err) < 0)
		return -1;
	snprintf(ret->id, sizeof(ret->id), "%s", f.row.s.id);
	snprintf(ret->project, sizeof(ret->project), "%s", f.path);
	lsp_path_tidy(ret->project);
	return 0;
}

/* The set's lock is held; the caller's reference. */
static struct lsp_server *get_locked(struct core *c, const struct lsp_found *f)
{
	struct lsp_server *s = c->lsp.first;

	while (s && (strcmp(s->id, f->id) != 0 || s->lang != f->lang ||
		     strcmp(s->project, f->project) != 0))
		s = s->next;
	if (s)
		s->refs++;
	return s;
}

/* Out of the set, if it is there; its reference goes too. */
static void forget(struct lsp_server *s)
{
	struct lsp_servers *all = &s->core->lsp;
	bool found = false;

	pthread_mutex_lock(&all->lock);
	for (struct lsp_server **p = &all->first; *p && !found;) {
		found = *p == s;
		if (found)
			*p = s->next;
		else
			p = &(*p)->next;
	}
	pthread_mutex_unlock(&all->lock);
	if (found)
		lsp_server_put(s);
}

/* 0 ready, -1 with how it ended. Waits while it starts. */
static int wait_ready(struct lsp_server *s, int64_t deadline_ms, struct err *err)
{
	int64_t left;
	int rc = 0;

	pthread_mutex_lock(&s->lock);
	while (s->state == LSP_STARTING && (left = deadline_ms - clock_mono_ms()) > 0)
		cond_wait_ms(&s->change, &s->lock, left);
	if (s->state == LSP_ENDED)
		rc = lsp_server_ended(s, err);
	else if (s->state == LSP_STARTING)
		rc = err_set(err, ERR_TIMEOUT, "the %s language server is still starting",
			     s->lang->name);
	pthread_mutex_unlock(&s->lock);
	return rc;
}

int lsp_find(const struct lsp_at *at, struct lsp_found *ret, struct err *err)
{
	struct lsp_servers *all = &at->core->lsp;

	if (locate(at, ret, err) < 0)
		return -1;
	pthread_mutex_lock(&all->lock);
	ret->server = get_locked(at->core, ret);
	pthread_mutex_unlock(&all->lock);
	if (!ret->server)
		return err_tagged(err, ERR_INVALID, "LSP_SERVER_NOT_INITIALIZED",
				  "no %s language server was started for %.300s", ret->lang->name,
				  ret->project);
	if (wait_ready(ret->server, clock_mono_ms() + LSP_START_MS, err) == 0)
		return 0;
	lsp_server_put(TAKE_PTR(ret->server));
	return -1;
}

/* ---- start ---- */

/* Under the set's lock: how many are there, and one of the sandbox's that has ended. */
static void count_servers(struct core *c, const char *id, unsigned *ret_mine, unsigned *ret_all)
{
	*ret_mine = *ret_all = 0;
	for (struct lsp_server *s = c->lsp.first; s; s = s->next) {
		bool live;

		pthread_mutex_lock(&s->lock);
		live = s->state != LSP_ENDED;
		pthread_mutex_unlock(&s->lock);
		*ret_all += live;
		*ret_mine += live && strcmp(s->id, id) == 0;
	}
}

/* Those that ended keep their reason until others need the place. */
static void drop_ended(struct core *c, const char *id)
{
	struct lsp_server *s, *ended = NULL;

	pthread_mutex_lock(&c->lsp.lock);
	for (struct lsp_server **p = &c->lsp.first; (s = *p);) {
		bool gone;

		pthread_mutex_lock(&s->lock);
		gone = s->state == LSP_ENDED && (!id || strcmp(s->id, id) == 0);
		pthread_mutex_unlock(&s->lock);
		if (!gone) {
			p = &s->next;
			continue;
		}
		*p = s->next;
		s->next = ended;
		ended = s;
	}
	pthread_mutex_unlock(&c->lsp.lock);
	while ((s = ended)) {
		ended = s->next;
		lsp_server_put(s);
	}
}

/* A server for found: *ret_fresh says whether the caller must bring it up. Two references. */
static int claim(const struct lsp_at *at, const struct lsp_found *f, struct lsp_server **ret,
		 bool *ret_fresh, struct err *err)
{
	struct core *c = at->core;
	struct lsp_server *fresh = lsp_server_new(c, f->id, f->lang, f->project, err), *old;
	unsigned mine, all;
	int rc = 0;

	if (!fresh)
		return -1;
	pthread_mutex_lock(&c->lsp.lock);
	old = get_locked(c, f);
	count_servers(c, f->id, &mine, &all);
	if (!old && (mine >= LSP_SERVERS_MAX || all >= LSP_SERVERS_ALL))
		rc = err_set(err, ERR_LIMIT,
			     "%u language servers run in the sandbox, of at most %d; stop one",
			     mine, LSP_SERVERS_MAX);
	if (!old && rc == 0) {
		fresh->refs++;
		fresh->next = c->lsp.first;
		c->lsp.first = fresh;
	}
	pthread_mutex_unlock(&c->lsp.lock);
	if (old || rc < 0)
		lsp_server_put(fresh);
	*ret = old ? old : fresh;
	*ret_fresh = !old;
	return rc;
}

static struct exec_handle *spawn(const struct lsp_at *at, const struct lsp_found *f,
				 struct err *err)
{
	const struct exec_spec spec = {.sandbox = f->id, .argv = f->lang->argv, .cwd = f->project};
	struct exec_handle *h = exec_open(at->core, at->who, &spec, true, err);

	if (!h && err && err->errnum && strncmp(err->msg, "run ", 4) == 0)
		err_set(err, ERR_UNPROCESSABLE,
			"languageId: %s is not installed in the image of this sandbox",
			f->lang->argv[0]);
	else if (!h && err && err->errnum && strncmp(err->msg, "cwd: ", 5) == 0)
		err_set(err, ERR_NOT_FOUND, "pathToProject: %.300s is no directory of the sandbox",
			f->project);
	if (!h)
		return NULL;
	/* A server that waits for questions must not keep its sandbox from being idle. */
	slot_exec_end(at->core, h->slot);
	h->counted = false;
	return h;
}

static int bring_up(const struct lsp_at *at, const struct lsp_found *f, struct lsp_server *s,
		    struct err *err)
{
	struct exec_handle *h = spawn(at, f, err);
	struct lsp_call call = {0};
	int rc;

	if (!h || lsp_server_run(s, h, err) < 0 || lsp_call_begin(s, &call, err) < 0)
		return -1;
	rc = lsp_say_initialize(&s->out, call.id, s->lang, s->project, s->root_uri, err);
	if (lsp_call_end(s, &call, rc, at->client, clock_mono_ms() + LSP_START_MS, err) < 0)
		return -1;
	pthread_mutex_lock(&s->lock);
	rc = s->state == LSP_ENDED ? lsp_server_ended(s, err)
				   : lsp_say_initialized(&s->out, s->lang, err);
	if (rc == 0)
		s->state = LSP_READY;
	pthread_cond_broadcast(&s->change);
	pthread_mutex_unlock(&s->lock);
	lsp_server_wake(s);
	return rc;
}

/* A start that came to nothing: those who wait for it get its reason. */
static void give_up(struct lsp_server *s, const struct err *err)
{
	pthread_mutex_lock(&s->lock);
	s->stop = true;
	if (!s->runs) {
		s->state = LSP_ENDED;
		snprintf(s->why, sizeof(s->why), "did not start: %.300s", err->msg);
	}
	pthread_cond_broadcast(&s->change);
	pthread_mutex_unlock(&s->lock);
	lsp_server_wake(s);
	forget(s);
}

int lsp_start(const struct lsp_at *at, struct err *err)
{
	struct lsp_found f = {0};
	struct lsp_server *s = NULL;
	struct err why = {0};
	bool fresh;
	int rc;

	if (locate(at, &f, err) < 0)
		return -1;
	drop_ended(at->core, f.id);
	if (claim(at, &f, &s, &fresh, err) < 0)
		return -1;
	rc = fresh ? bring_up(at, &f, s, &why)
		   : wait_ready(s, clock_mono_ms() + LSP_START_MS, &why);
	if (rc < 0 && fresh)
		give_up(s, &why);
	if (rc < 0) {
		/* To who starts it, a server that doesn't come up is a failure of that server. */
		if (why.tag && strcmp(why.tag, "LSP_SERVER_NOT_INITIALIZED") == 0) {
			why.code = ERR_UPSTREAM;
			why.tag = NULL;
		}
		*err = why;
	}
	lsp_server_put(s);
	return rc;
}

/* ---- stop ---- */

int lsp_stop(const struct lsp_at *at, struct err *err)
{
	struct lsp_servers *all = &at->core->lsp;
	struct lsp_found f = {0};
	struct lsp_call call = {0};
	struct lsp_server *s;
	int64_t left, end;

	if (locate(at, &f, err) < 0)
		return -1;
	pthread_mutex_lock(&all->lock);
	s = get_locked(at->core, &f);
	pthread_mutex_unlock(&all->lock);
	if (!s)
		return err_tagged(err, ERR_INVALID, "LSP_SERVER_NOT_INITIALIZED",
				  "no %s language server was started for %.300s", f.lang->name,
				  f.project);
	forget(s);
	end = clock_mono_ms() + STOP_MS;
	if (lsp_call_begin(s, &call, NULL) == 0)
		lsp_call_end(s, &call, lsp_say_shutdown(&s->out, call.id, NULL), -1, end, NULL);
	pthread_mutex_lock(&s->lock);
	if (s->state != LSP_ENDED)
		lsp_say_exit(&s->out, NULL);
	lsp_server_wake(s);
	end = clock_mono_ms() + STOP_MS;
	while (s->state != LSP_ENDED && (left = end - clock_mono_ms()) > 0)
		cond_wait_ms(&s->change, &s->lock, left);
	s->stop = true;
	lsp_server_wake(s);
	while (s->state != LSP_ENDED && (left = end + STOP_MS - clock_mono_ms()) > 0)
		cond_wait_ms(&s->change, &s->lock, left);
	pthread_mutex_unlock(&s->lock);
	lsp_server_put(s);
	return 0;
}

/* ---- documents and questions ---- */

/* A server, and the document's path. */
static int find_with_path(const struct lsp_at *at, const char *uri, struct lsp_found *f,
			  char path[AGENT_PATH_MAX], struct err *err)
{
	if (lsp_find(at, f, err) < 0)
		return -1;
	if (lsp_doc_path(at, uri, path, err) == 0)
		return 0;
	lsp_server_put(TAKE_PTR(f->server));
	return -1;
}

int lsp_open(const struct lsp_at *at, const char *uri, struct err *err)
{
	auto_free char *real = NULL;
	char path[AGENT_PATH_MAX];
	struct lsp_found f = {0};
	int rc;

	if (find_with_path(at, uri, &f, path, err) < 0)
		return -1;
	rc = lsp_doc_sync(at, f.server, path, true, &real, err);
	lsp_server_put(f.server);
	return rc;
}

int lsp_close(const struct lsp_at *at, const char *uri, struct err *err)
{
	auto_free char *real = NULL;
	char path[AGENT_PATH_MAX];
	struct lsp_found f = {0};

	if (find_with_path(at, uri, &f, path, err) < 0)
		return -1;
	real = lsp_uri_of(path, err);
	if (real) {
		pthread_mutex_lock(&f.server->lock);
		lsp_doc_drop(f.server, real);
		pthread_mutex_unlock(&f.server->lock);
	}
	lsp_server_put(f.server);
	return real ? 0 : -1;
}

/* A server with a document that it sees as it is now; *ret_uri is heap. */
static int find_with_doc(const struct lsp_at *at, const char *uri, struct lsp_found *f,
			 char **ret_uri, struct err *err)
{
	char path[AGENT_PATH_MAX];

	if (find_with_path(at, uri, f, path, err) < 0)
		return -1;
	if (lsp_doc_sync(at, f->server, path, false, ret_uri, err) == 0)
		return 0;
	lsp_server_put(TAKE_PTR(f->server));
	return -1;
}

int lsp_document_symbols(const struct lsp_at *at, const char *uri, struct lsp_symbols *ret,
			 struct err *err)
{
	auto_free char *real = NULL;
	struct lsp_found f = {0};
	struct lsp_call call = {.want = LSP_WANT_SYMBOLS, .ret = ret};
	int rc;

	if (find_with_doc(at, uri, &f, &real, err) < 0)
		return -1;
	call.uri = real;
	rc = lsp_call_begin(f.server, &call, err);
	if (rc == 0) {
		rc = lsp_say_document_symbols(&f.server->out, call.id, real, err);
		rc = lsp_call_end(f.server, &call, rc, at->client, clock_mono_ms() + LSP_REQUEST_MS,
				  err);
	}
	lsp_server_put(f.server);
	return rc;
}

int lsp_complete(const struct lsp_at *at, const char *uri, struct lsp_position pos,
		 const struct lsp_trigger *trigger, struct lsp_completions *ret, struct err *err)
{
	auto_free char *real = NULL;
	struct lsp_found f = {0};
	struct lsp_call call = {.want = LSP_WANT_COMPLETIONS, .ret = ret};
	int rc;

	if (find_with_doc(at, uri, &f, &real, err) < 0)
		return -1;
	rc = lsp_call_begin(f.server, &call, err);
	if (rc == 0) {
		rc = lsp_say_completion(&f.server->out, call.id, real, pos, trigger, err);
		rc = lsp_call_end(f.server, &call, rc, at->client, clock_mono_ms() + LSP_REQUEST_MS,
				  err);
	}
	lsp_server_put(f.server);
	return rc;
}

/* The server's own search, which looks from an open document. */
static int search_server(const struct lsp_at *at, struct lsp_server *s, const char *query,
			 struct lsp_symbols *ret, struct err *err)
{
	struct lsp_call call = {.want = LSP_WANT_SYMBOLS, .ret = ret};
	auto_free char *any = NULL, *real = NULL;
	bool none;
	int rc;

	pthread_mutex_lock(&s->lock);
	none = !s->docs;
	pthread_mutex_unlock(&s->lock);
	any = none ? lsp_search_any(at, s) : NULL;
	if (none && (!any || lsp_doc_sync(at, s, any, false, &real, err) < 0))
		return any ? -1 : 0; /* a project without sources has no symbols */
	if (lsp_call_begin(s, &call, err) < 0)
		return -1;
	rc = lsp_say_workspace_symbols(&s->out, call.id, query, err);
	return lsp_call_end(s, &call, rc, at->client, clock_mono_ms() + LSP_REQUEST_MS, err);
}

int lsp_workspace_symbols(const struct lsp_at *at, const char *query, struct lsp_symbols *ret,
			  struct err *err)
{
	struct lsp_found f = {0};
	int rc;

	if (lsp_find(at, &f, err) < 0)
		return -1;
	rc = f.lang->searches ? search_server(at, f.server, query, ret, err)
			      : lsp_search_files(at, f.server, query, ret, err);
	lsp_server_put(f.server);
	return rc;
}
