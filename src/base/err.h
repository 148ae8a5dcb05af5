/*
 * err.h - the one error convention.
 *
 * Every fallible function takes `struct err *err` last, returns 0 or a value >= 0 on success and
 * -1 on failure with err set. On success err is left alone. err may be NULL where the caller does
 * not care. Callers branch on err->code, never on the text. Texts never hold secrets, tokens or
 * file contents; they may hold attackers' bytes, so whoever prints them escapes.
 */
#ifndef CAISSON_BASE_ERR_H
#define CAISSON_BASE_ERR_H

#include <stdbool.h>

#include "base/scope.h"

/* One row a code: name, HTTP status the default table gives it. */
#define ERR_CODES(X)                                                                               \
	X(ERR_NONE, 500)                                                                           \
	X(ERR_INTERNAL, 500)	 /* our own bug or an unexpected kernel answer */                  \
	X(ERR_NOMEM, 503)	 /* memory or descriptors of the host are used up */               \
	X(ERR_INVALID, 400)	 /* the caller's input breaks a named rule */                      \
	X(ERR_UNAUTHORIZED, 401) /* no key, or not a valid one */                                  \
	X(ERR_FORBIDDEN, 403)                                                                      \
	X(ERR_NOT_FOUND, 404)                                                                      \
	X(ERR_TIMEOUT, 408)  /* the caller's own time limit ran out */                             \
	X(ERR_CONFLICT, 409) /* state or name does not allow it now */                             \
	X(ERR_GONE, 410)     /* it existed and has ended */                                        \
	X(ERR_TOO_LARGE, 413)                                                                      \
	X(ERR_UNPROCESSABLE, 422)                                                                  \
	X(ERR_LIMIT, 400) /* a quota or ceiling; text names limit, use, remedy */                  \
	X(ERR_RATE, 429)                                                                           \
	X(ERR_NOT_BUILT, 501)                                                                      \
	X(ERR_AGENT, 502)	/* the agent in the sandbox broke its protocol */                  \
	X(ERR_UNAVAILABLE, 503) /* try again later: starting, full, shutting down */               \
	X(ERR_CANCELLED, 499)	/* the client hung up */                                           \
	X(ERR_UPSTREAM, 502)	/* a server that the sandbox talks to failed */

enum err_code {
#define ERR_ENUM_(name, status) name,
	ERR_CODES(ERR_ENUM_)
#undef ERR_ENUM_
		ERR_CODE_MAX
};

#define ERR_MSG_MAX 512

struct err {
	enum err_code code;
	int errnum;	       /* errno behind it, or 0 */
	const char *tag;       /* optional static machine-readable code, e.g. "FILE_NOT_FOUND" */
	char msg[ERR_MSG_MAX]; /* one line for people */
};

/* Fill err and return -1. */
int err_set(struct err *err, enum err_code code, const char *fmt, ...) PRINTF_LIKE(3, 4);
/* The same from errno: appends ": <strerror>", keeps errnum. */
int err_errno(struct err *err, enum err_code code, int errnum, const char *fmt, ...)
	PRINTF_LIKE(4, 5);
/* As err_set with a static tag for dialects that carry machine codes. */
int err_tagged(struct err *err, enum err_code code, const char *tag, const char *fmt, ...)
	PRINTF_LIKE(4, 5);
/* Prepend "context: " to an error being passed up; returns -1. */
int err_wrap(struct err *err, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* Map an errno of a file operation to a code (ENOENT -> NOT_FOUND, EACCES -> FORBIDDEN, …). */
enum err_code err_code_of_errno(int errnum);
int err_http_status(enum err_code code);
const char *err_code_name(enum err_code code);

#endif
