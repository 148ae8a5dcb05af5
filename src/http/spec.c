/*
 * spec.c - the API descriptions, served from memory; also the home of paths nobody else owns.
 */
#include "http/internal.h"

#include <string.h>

static int spec_index(struct http_req *req, struct err *err)
{
	struct buf out = BUF_INIT(64u << 10);
	int rc;

	buf_adds(&out,
		 "{\"openapi\":\"3.1.0\",\"info\":{\"title\":\"Caisson\",\"version\":"
		 "\"" CAISSON_VERSION
		 "\",\"description\":\"Index of the API descriptions of this server.\"},"
		 "\"paths\":{},\"x-documents\":[",
		 err);
	for (size_t i = 0; i < req->srv->nspecs; i++)
		buf_addf(&out, err, "%s{\"name\":\"%s\",\"url\":\"%s/openapi/%s.json\"}",
			 i ? "," : "", req->srv->spec[i].name, http_base_url(req),
			 req->srv->spec[i].name);
	buf_adds(&out, "]}", err);
	rc = http_reply(req, 200, "application/json", out.data, out.len, err);
	buf_done(&out);
	return rc;
}

static int spec_document(struct http_req *req, struct err *err)
{
	const char *file = http_param(req, "file");

	for (size_t i = 0; i < req->srv->nspecs; i++) {
		const struct http_spec *s = &req->srv->spec[i];
		size_t len = strlen(s->name);

		if (strncmp(file, s->name, len) == 0 && strcmp(file + len, ".json") == 0)
			return http_reply(req, 200, "application/json", s->text, s->len, err);
	}
	return err_set(err, ERR_NOT_FOUND, "no API description of that name; see /openapi.json");
}

static const struct http_route spec_routes[] = {
	{"GET", "/openapi.json", "getSpecIndex", spec_index, HTTP_BODY_NONE, 0, 0},
	{"GET", "/openapi/{file}", "getSpec", spec_document, HTTP_BODY_NONE, 0, 1},
};

const struct http_dialect spec_dialect = {
	.name = "spec",
	.prefix = "",
	.route = spec_routes,
	.nroutes = ARRAY_LEN(spec_routes),
};
