/*
 * router.h - from a path to a route.
 *
 * All dialects share one tree of path segments. A literal segment beats a parameter, a parameter
 * beats {rest*}; a path that fits several patterns goes to the first of them, in that order, that
 * has the method, so DELETE /keys/current may mean a key of that name. HEAD falls back to GET.
 * One slash at the end is ignored. Built once, then read by all threads.
 */
#ifndef CAISSON_HTTP_ROUTER_H
#define CAISSON_HTTP_ROUTER_H

#include "caisson/http.h"

#define ROUTE_PARAMS_MAX   8
#define ROUTE_SEGMENTS_MAX 64

struct router;

struct route_match {
	const struct http_dialect *dialect; /* set whenever a prefix fits */
	const struct http_route *route;	    /* NULL: no such path, or not with this method */
	size_t nparams;
	/* Raw text in the path, in the order of the pattern's braces. */
	struct {
		const char *at;
		size_t len;
	} param[ROUTE_PARAMS_MAX];
	char allow[96]; /* route NULL: methods the path has, "" none */
};

struct router *router_new(const struct http_dialect *const *dialect, size_t n, struct err *err);
void router_free(struct router *r);
/* path is raw (still escaped), without query. */
void router_find(const struct router *r, const char *method, const char *path,
		 struct route_match *ret);
/* Whose error bodies a path without a route gets: the longest prefix that fits, or NULL. */
const struct http_dialect *router_dialect(const struct router *r, const char *path);
/* Name of the i-th parameter of a pattern, not NUL-terminated: its length is returned, 0 none. */
size_t route_param_name(const struct http_route *rt, size_t i, const char **ret_name);

#endif
