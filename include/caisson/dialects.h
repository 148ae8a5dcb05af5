/*
 * dialects.h - the dialects a server is started with; each is the whole of one wire contract.
 */
#ifndef CAISSON_DIALECTS_H
#define CAISSON_DIALECTS_H

struct http_dialect;

extern const struct http_dialect daytona_control; /* /api */
extern const struct http_dialect daytona_toolbox; /* /toolbox/{sandboxId} */
extern const struct http_dialect caisson_native;  /* /api/caisson */

#endif
