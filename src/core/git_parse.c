/*
 * git_parse.c - what git prints, made into lists: status in porcelain v2, history, branches and
 * remotes, all NUL-separated. The bytes come from a sandbox and may be anything: what doesn't fit
 * the format is ERR_AGENT, and every string handed out lies inside the text.
 */
#include <string.h>

#include "core/git_int.h"

/* Records of a text: each ends with a NUL; the last may lack it. */
struct records {
	char *at, *end;
};

static char *record_next(struct records *r)
{
	char *now = r->at, *nul;

	if (now >= r->end)
		return NULL;
	nul = memchr(now, '\0', (size_t)(r->end - now));
	r->at = nul ? nul + 1 : r->end;
	return now; /* the text has a NUL behind its end */
}

static size_t records_count(const char *p, size_t n)
{
	size_t count = 1;

	for (size_t i = 0; i < n; i++)
		count += p[i] == '\0';
	return count;
}

static int malformed(const char *what, struct err *err)
{
	return err_set(err, ERR_AGENT, "git in the sandbox printed a malformed %s", what);
}

/* The text behind n fields that end with one blank each, or NULL. */
static char *skip_fields(char *p, int n)
{
	while (n-- > 0) {
		p = strchr(p, ' ');
		if (!p)
			return NULL;
		p++;
	}
	return p;
}

/* ---- status ---- */

static int state_of(char ch)
{
	static const struct {
		char ch;
		enum git_file_state state;
	} rows[] = {
		{'.', GIT_UNMODIFIED}, {'M', GIT_MODIFIED}, {'T', GIT_MODIFIED},
		{'A', GIT_ADDED},      {'D', GIT_DELETED},  {'R', GIT_RENAMED},
		{'C', GIT_COPIED},     {'U', GIT_UNMERGED},
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (rows[i].ch == ch)
			return rows[i].state;
	return -1;
}

static bool number_of(const char *p, int64_t *ret)
{
	int64_t v = 0;

	if (!*p)
		return false;
	for (; *p >= '0' && *p <= '9'; p++) {
		if (v > INT32_MAX)
			return false;
		v = v * 10 + (*p - '0');
	}
	*ret = v;
	return *p == '\0' || *p == ' ';
}

static int parse_header(char *p, struct git_status *s)
{
	const char *behind;

	if (strncmp(p, "branch.head ", 12) == 0) {
		s->branch = p + 12;
		s->detached = strcmp(s->branch, "(detached)") == 0;
		if (s->detached)
			s->branch = "HEAD";
	} else if (strncmp(p, "branch.upstream ", 16) == 0) {
		s->upstream = p + 16;
	} else if (strncmp(p, "branch.ab ", 10) == 0) {
		behind = strchr(p, '-');
		if (p[10] != '+' || !behind || !number_of(p + 11, &s->ahead) ||
		    !number_of(behind + 1, &s->behind))
			return -1;
		s->published = true;
	}
	return 0;
}

/* "1 XY …" and "2 XY …", the latter with the old name in a record of its own. */
static int parse_changed(char *p, struct records *r, struct git_file *f)
{
	bool moved = p[0] == '2';
	int staging, worktree;

	if (!p[1] || !p[2] || !p[3])
		return -1;
	staging = state_of(p[2]);
	worktree = state_of(p[3]);
	f->name = skip_fields(p, moved ? 9 : 8);
	f->extra = moved ? record_next(r) : "";
	if (staging < 0 || worktree < 0 || !f->name || !f->extra)
		return -1;
	f->staging = (enum git_file_state)staging;
	f->worktree = (enum git_file_state)worktree;
	return 0;
}

static int parse_record(char *p, struct records *r, struct git_status *s)
{
	struct git_file f = {.extra = ""};

	switch (*p) {
	case '#':
		return p[1] == ' ' ? parse_header(p + 2, s) : -1;
	case '!': /* ignored: nothing asks for it */
	case '\0':
		return 0;
	case '?':
		f.name = p[1] == ' ' ? p + 2 : NULL;
		f.staging = f.worktree = GIT_UNTRACKED;
		break;
	case 'u':
		f.name = skip_fields(p, 10);
		f.staging = f.worktree = GIT_UNMERGED;
		break;
	case '1':
	case '2':
		if (parse_changed(p, r, &f) < 0)
			return -1;
		break;
	default:
		return -1;
	}
	if (!f.name || !*f.name)
		return -1;
	s->file[s->n++] = f;
	return 0;
}

void git_status_done(struct git_status *s)
{
	free(s->file);
	free(s->text);
	*s = (struct git_status){0};
}

int git_parse_status(char *text, size_t n, struct git_status *ret, struct err *err)
{
	struct git_status s = {.branch = "", .upstream = "", .text = text};
	struct records r = {text, text + n};
	char *p;

	s.file = calloc(records_count(text, n), sizeof(*s.file));
	if (!s.file) {
		git_status_done(&s);
		return err_set(err, ERR_NOMEM, "out of memory");
	}
	while ((p = record_next(&r)))
		if (parse_record(p, &r, &s) < 0) {
			git_status_done(&s);
			return malformed("status", err);
		}
	*ret = s;
	return 0;
}

/* ---- history: hash, author, email and time in a line each, the rest is the message ---- */

static char *line_take(char **p)
{
	char *now = *p, *end = now ? strchr(now, '\n') : NULL;

	if (!end)
		return NULL;
	*end = '\0';
	*p = end + 1;
	return now;
}

static bool commit_take(char *p, struct git_commit *c)
{
	size_t n;

	c->hash = line_take(&p);
	c->author = c->hash ? line_take(&p) : NULL;
	c->email = c->author ? line_take(&p) : NULL;
	c->time = c->email ? line_take(&p) : NULL;
	if (!c->time)
		return false;
	n = strlen(p);
	while (n && p[n - 1] == '\n')
		p[--n] = '\0';
	c->message = p;
	return true;
}

void git_history_done(struct git_history *h)
{
	free(h->commit);
	free(h->text);
	*h = (struct git_history){0};
}

int git_parse_history(char *text, size_t n, struct git_history *ret, struct err *err)
{
	struct git_history h = {.text = text};
	struct records r = {text, text + n};
	char *p;

	h.commit = calloc(records_count(text, n), sizeof(*h.commit));
	if (!h.commit) {
		git_history_done(&h);
		return err_set(err, ERR_NOMEM, "out of memory");
	}
	while ((p = record_next(&r)))
		if (!commit_take(p, &h.commit[h.n++])) {
			git_history_done(&h);
			return malformed("history", err);
		}
	*ret = h;
	return 0;
}

/* ---- branches: "*refs/heads/main", " refs/heads/x" ---- */

void git_branches_done(struct git_branches *b)
{
	free(b->name);
	free(b->text);
	free(b->head);
	*b = (struct git_branches){0};
}

int git_parse_branches(char *text, size_t n, struct git_branches *ret, struct err *err)
{
	static const char head[] = "refs/heads/";
	struct git_branches b = {.current = "", .text = text};
	char *p = text, *line;
	size_t lines = 1;

	for (size_t i = 0; i < n; i++)
		lines += text[i] == '\n';
	b.name = calloc(lines + 1, sizeof(*b.name));
	if (!b.name) {
		git_branches_done(&b);
		return err_set(err, ERR_NOMEM, "out of memory");
	}
	while ((line = line_take(&p))) {
		if (!*line || strncmp(line + 1, head, sizeof(head) - 1) != 0) {
			git_branches_done(&b);
			return malformed("list of branches", err);
		}
		b.name[b.n++] = line + sizeof(head);
		if (*line == '*')
			b.current = line + sizeof(head);
	}
	*ret = b;
	return 0;
}

/* ---- remotes: "remote.<name>.url\n<url>" a record ---- */

void git_remotes_done(struct git_remotes *r)
{
	free(r->remote);
	free(r->text);
	*r = (struct git_remotes){0};
}

static bool remote_take(char *p, struct git_remotes *ret)
{
	char *key = line_take(&p);
	size_t n = key ? strlen(key) : 0;

	if (n <= 11 || strncmp(key, "remote.", 7) != 0 || strcmp(key + n - 4, ".url") != 0)
		return false;
	key[n - 4] = '\0';
	/* A remote may have several addresses; the first is the one that is fetched from. */
	for (size_t i = 0; i < ret->n; i++)
		if (strcmp(ret->remote[i].name, key + 7) == 0)
			return true;
	ret->remote[ret->n++] = (struct git_remote){key + 7, p};
	return true;
}

int git_parse_remotes(char *text, size_t n, struct git_remotes *ret, struct err *err)
{
	struct git_remotes all = {.text = text};
	struct records r = {text, text + n};
	char *p;

	all.remote = calloc(records_count(text, n), sizeof(*all.remote));
	if (!all.remote) {
		git_remotes_done(&all);
		return err_set(err, ERR_NOMEM, "out of memory");
	}
	while ((p = record_next(&r)))
		if (!remote_take(p, &all)) {
			git_remotes_done(&all);
			return malformed("list of remotes", err);
		}
	*ret = all;
	return 0;
}
