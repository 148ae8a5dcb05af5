/*
 * signed.h - links that carry their right to one file in their query (contract §3.2).
 */
#ifndef CAISSON_API_DAYTONA_SIGNED_H
#define CAISSON_API_DAYTONA_SIGNED_H

#include "api/daytona/daytona.h"

/* A request without a key for a route that links may open, with a signature. */
bool signed_link(struct http_req *req, const struct http_route *rt);
/* Its caller, when the signature is good. */
int signed_enter(struct http_req *req, const struct http_route *rt, struct err *err);

#endif
