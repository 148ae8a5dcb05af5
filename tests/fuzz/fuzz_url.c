/*
 * fuzz_url.c - any target: refused, or decoded without NUL and not longer than it was; and the
 * route tree takes any path.
 */
#include <stdlib.h>
#include <string.h>

#include "http/router.h"
#include "http/url.h"

static const struct http_route routes[] = {
	{"GET", "/a", "a", NULL, HTTP_BODY_NONE, 0, 0},
	{"GET", "/a/{x}", "ax", NULL, HTTP_BODY_NONE, 0, 0},
	{"*", "/a/{x}/{y*}", "axy", NULL, HTTP_BODY_NONE, 0, 0},
	{"POST", "/{x}/b/{y}/c", "xbyc", NULL, HTTP_BODY_NONE, 0, 0},
};
static const struct http_dialect dialect = {
	.name = "d", .prefix = "", .route = routes, .nroutes = ARRAY_LEN(routes)};
static const struct http_dialect *const dialects[] = {&dialect};

static void check_decode(const char *text, bool plus)
{
	char *copy = strdup(text);
	int n = copy ? url_decode(copy, strlen(copy), plus, "url", NULL) : -1;

	if (n >= 0 && ((size_t)n != strlen(copy) || (size_t)n > strlen(text)))
		abort();
	free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct router *router;
	char *text = strndup((const char *)data, size);
	struct url_query q;
	struct route_match m;

	if (!router)
		router = router_new(dialects, 1, NULL);
	if (!text || !router)
		return 0;
	check_decode(text, false);
	check_decode(text, true);
	router_find(router, "GET", text, &m);
	for (size_t i = 0; i < m.nparams; i++)
		if (m.param[i].at < text || m.param[i].at + m.param[i].len > text + strlen(text))
			abort();
	if (url_query_parse(text, &q, NULL) == 0) {
		for (size_t i = 0; i < q.n; i++)
			if (!url_query_get(&q, q.pair[i].key, 0))
				abort();
		url_query_done(&q);
	}
	free(text);
	return 0;
}
