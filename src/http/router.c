/*
 * router.c - see router.h.
 */
#include "http/router.h"

#include <stdlib.h>
#include <string.h>

struct leaf {
	const struct http_dialect *dialect;
	const struct http_route *route;
};

struct node {
	char *text; /* of a literal segment */
	struct node **literal;
	size_t nliterals;
	struct node *param; /* any one segment */
	struct leaf *leaf, *rest;
	size_t nleaves, nrests;
};

struct router {
	struct node root;
	const struct http_dialect *const *dialect;
	size_t ndialects;
};

struct walk {
	const char *method;
	struct {
		const char *at;
		size_t len;
	} seg[ROUTE_SEGMENTS_MAX];
	size_t nsegs;
	size_t stack[ROUTE_PARAMS_MAX + ROUTE_SEGMENTS_MAX]; /* segments taken by parameters */
	size_t depth;
	struct route_match *match;
};

static size_t segments_split(const char *path, struct walk *w)
{
	const char *p = path;

	w->nsegs = 0;
	while (*p == '/') {
		const char *end = strchrnul(p + 1, '/');

		if (end == p + 1 && !*end)
			break;
		if (w->nsegs == ROUTE_SEGMENTS_MAX)
			return 0;
		w->seg[w->nsegs].at = p + 1;
		w->seg[w->nsegs++].len = (size_t)(end - p - 1);
		p = end;
	}
	return 1;
}

static struct node *literal_find(const struct node *n, const char *s, size_t len)
{
	for (size_t i = 0; i < n->nliterals; i++)
		if (strncmp(n->literal[i]->text, s, len) == 0 && !n->literal[i]->text[len])
			return n->literal[i];
	return NULL;
}

static struct node *literal_add(struct node *n, const char *s, size_t len)
{
	struct node *child = literal_find(n, s, len);
	struct node **grown;

	if (child)
		return child;
	grown = realloc(n->literal, (n->nliterals + 1) * sizeof(struct node *));
	if (!grown)
		return NULL;
	n->literal = grown;
	child = calloc(1, sizeof(*child));
	if (!child)
		return NULL;
	child->text = strndup(s, len);
	if (!child->text) {
		free(child);
		return NULL;
	}
	n->literal[n->nliterals++] = child;
	return child;
}

static int leaf_add(struct leaf **list, size_t *n, const struct http_dialect *d,
		    const struct http_route *rt)
{
	struct leaf *grown = realloc(*list, (*n + 1) * sizeof(**list));

	if (!grown)
		return -1;
	grown[*n] = (struct leaf){.dialect = d, .route = rt};
	*list = grown;
	*n += 1;
	return 0;
}

/* Add the segments of one pattern below at; the leaf goes to the last node. */
static int pattern_add(struct node *at, const struct http_dialect *d, const struct http_route *rt,
		       const char *pattern)
{
	struct walk w;
	struct node *n = at;

	if (!segments_split(pattern, &w))
		return -1;
	for (size_t i = 0; n && i < w.nsegs; i++) {
		const char *s = w.seg[i].at;
		size_t len = w.seg[i].len;

		if (len > 3 && s[0] == '{' && s[len - 2] == '*')
			return leaf_add(&n->rest, &n->nrests, d, rt);
		if (s[0] != '{') {
			n = literal_add(n, s, len);
			continue;
		}
		if (!n->param)
			n->param = calloc(1, sizeof(*n->param));
		n = n->param;
	}
	if (!n)
		return -1;
	return leaf_add(&n->leaf, &n->nleaves, d, rt);
}

static void node_free(struct node *n)
{
	if (!n)
		return;
	for (size_t i = 0; i < n->nliterals; i++) {
		node_free(n->literal[i]);
		free(n->literal[i]);
	}
	node_free(n->param);
	free(n->param);
	free(n->literal);
	free(n->leaf);
	free(n->rest);
	free(n->text);
}

void router_free(struct router *r)
{
	if (!r)
		return;
	node_free(&r->root);
	free(r);
}

struct router *router_new(const struct http_dialect *const *dialect, size_t n, struct err *err)
{
	struct router *r = calloc(1, sizeof(*r));
	char full[1024];

	if (!r)
		goto nomem;
	r->dialect = dialect;
	r->ndialects = n;
	for (size_t i = 0; i < n; i++) {
		const struct http_dialect *d = dialect[i];

		for (size_t k = 0; k < d->nroutes; k++) {
			snprintf(full, sizeof(full), "%s%s", d->prefix, d->route[k].path);
			if (pattern_add(&r->root, d, &d->route[k], full) < 0)
				goto nomem;
		}
	}
	return r;
nomem:
	router_free(r);
	err_set(err, ERR_NOMEM, "out of memory for the route tree");
	return NULL;
}

static bool method_fits(const char *have, const char *want)
{
	return have[0] == '*' || strcmp(have, want) == 0;
}

static void allow_add(struct route_match *m, const char *method)
{
	size_t used = strlen(m->allow);

	if (method[0] == '*' || strstr(m->allow, method))
		return;
	snprintf(m->allow + used, sizeof(m->allow) - used, "%s%s", used ? ", " : "", method);
}

static bool match_set(struct walk *w, const struct leaf *l, bool rest, size_t rest_seg)
{
	struct route_match *m = w->match;

	m->dialect = l->dialect;
	m->route = l->route;
	m->nparams = MIN(w->depth, (size_t)ROUTE_PARAMS_MAX);
	for (size_t i = 0; i < m->nparams; i++) {
		m->param[i].at = w->seg[w->stack[i]].at;
		m->param[i].len = w->seg[w->stack[i]].len;
	}
	if (rest && m->nparams < ROUTE_PARAMS_MAX) {
		m->param[m->nparams].at = w->seg[rest_seg].at;
		m->param[m->nparams++].len = strlen(w->seg[rest_seg].at);
	}
	return true;
}

static bool leaves_match(struct walk *w, const struct leaf *leaf, size_t n, bool rest, size_t seg)
{
	for (size_t i = 0; i < n; i++)
		if (method_fits(leaf[i].route->method, w->method))
			return match_set(w, &leaf[i], rest, seg);
	for (size_t i = 0; i < n; i++)
		if (strcmp(w->method, "HEAD") == 0 && method_fits(leaf[i].route->method, "GET"))
			return match_set(w, &leaf[i], rest, seg);
	for (size_t i = 0; i < n; i++)
		allow_add(w->match, leaf[i].route->method);
	return false;
}

/* Depth is bounded by the patterns, not by the request. */
static bool node_match(struct walk *w, const struct node *n, size_t seg)
{
	const struct node *child;

	if (seg == w->nsegs)
		return leaves_match(w, n->leaf, n->nleaves, false, 0);
	child = literal_find(n, w->seg[seg].at, w->seg[seg].len);
	if (child && node_match(w, child, seg + 1))
		return true;
	if (n->param && w->seg[seg].len) {
		w->stack[w->depth++] = seg;
		if (node_match(w, n->param, seg + 1))
			return true;
		w->depth--;
	}
	return n->nrests && leaves_match(w, n->rest, n->nrests, true, seg);
}

const struct http_dialect *router_dialect(const struct router *r, const char *path)
{
	const struct http_dialect *best = NULL;
	size_t best_len = 0;

	for (size_t i = 0; i < r->ndialects; i++) {
		const struct http_dialect *d = r->dialect[i];
		size_t len = strlen(d->prefix);

		if (strncmp(path, d->prefix, len) != 0 || (path[len] && path[len] != '/'))
			continue;
		if (best && len <= best_len)
			continue;
		best = d;
		best_len = len;
	}
	return best;
}

void router_find(const struct router *r, const char *method, const char *path,
		 struct route_match *ret)
{
	struct walk w;

	w.method = method;
	w.match = ret;
	w.depth = 0;
	ret->dialect = NULL;
	ret->route = NULL;
	ret->nparams = 0;
	ret->allow[0] = '\0';
	if (segments_split(path, &w) && node_match(&w, &r->root, 0))
		return;
	ret->dialect = router_dialect(r, path);
}

size_t route_param_name(const struct http_route *rt, size_t i, const char **ret_name)
{
	const char *p = rt->path;

	for (;; p++) {
		p = strchr(p, '{');
		if (!p)
			return 0;
		if (i-- == 0)
			break;
	}
	*ret_name = p + 1;
	return strcspn(p + 1, "*}");
}
