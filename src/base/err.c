/*
 * err.c - see err.h.
 */
#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

static const struct {
	const char *name;
	int status;
} err_table[ERR_CODE_MAX] = {
#define ERR_ROW_(name, status) [name] = {#name, status},
	ERR_CODES(ERR_ROW_)
#undef ERR_ROW_
};

static void err_fill(struct err *err, enum err_code code, int errnum, const char *tag,
		     const char *fmt, va_list ap)
{
	int n;

	if (!err)
		return;
	err->code = code;
	err->errnum = errnum;
	err->tag = tag;
	n = vsnprintf(err->msg, sizeof(err->msg), fmt, ap);
	if (n < 0)
		err->msg[0] = '\0';
	if (errnum && n >= 0 && (size_t)n < sizeof(err->msg) - 4)
		snprintf(err->msg + n, sizeof(err->msg) - (size_t)n, ": %s", strerror(errnum));
}

int err_set(struct err *err, enum err_code code, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	err_fill(err, code, 0, NULL, fmt, ap);
	va_end(ap);
	return -1;
}

int err_errno(struct err *err, enum err_code code, int errnum, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	err_fill(err, code, errnum, NULL, fmt, ap);
	va_end(ap);
	return -1;
}

int err_tagged(struct err *err, enum err_code code, const char *tag, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	err_fill(err, code, 0, tag, fmt, ap);
	va_end(ap);
	return -1;
}

int err_wrap(struct err *err, const char *fmt, ...)
{
	char head[ERR_MSG_MAX];
	char tail[ERR_MSG_MAX];
	va_list ap;

	if (!err)
		return -1;
	va_start(ap, fmt);
	vsnprintf(head, sizeof(head), fmt, ap);
	va_end(ap);
	memcpy(tail, err->msg, sizeof(tail));
	/* The inner text is the one that matters: the context is cut first. */
	snprintf(err->msg, sizeof(err->msg), "%.200s: %.300s", head, tail);
	return -1;
}

enum err_code err_code_of_errno(int errnum)
{
	static const struct {
		int errnum;
		enum err_code code;
	} map[] = {
		{ENOENT, ERR_NOT_FOUND}, {ENOTDIR, ERR_CONFLICT},   {EISDIR, ERR_CONFLICT},
		{EEXIST, ERR_CONFLICT},	 {ENOTEMPTY, ERR_CONFLICT}, {EBUSY, ERR_CONFLICT},
		{EACCES, ERR_FORBIDDEN}, {EPERM, ERR_FORBIDDEN},    {EROFS, ERR_FORBIDDEN},
		{ELOOP, ERR_INVALID},	 {EINVAL, ERR_INVALID},	    {ENAMETOOLONG, ERR_INVALID},
		{EXDEV, ERR_CONFLICT},	 {ETXTBSY, ERR_CONFLICT},   {ENOSPC, ERR_LIMIT},
		{EDQUOT, ERR_LIMIT},	 {EFBIG, ERR_TOO_LARGE},    {ENOMEM, ERR_NOMEM},
		{EMFILE, ERR_NOMEM},	 {ENFILE, ERR_NOMEM},	    {ETIMEDOUT, ERR_TIMEOUT},
		{ENXIO, ERR_INVALID},	 {ENODEV, ERR_INVALID},	    {ESTALE, ERR_GONE},
	};

	for (size_t i = 0; i < ARRAY_LEN(map); i++)
		if (map[i].errnum == errnum)
			return map[i].code;
	return ERR_INTERNAL;
}

int err_http_status(enum err_code code)
{
	return (unsigned)code < ERR_CODE_MAX ? err_table[code].status : 500;
}

const char *err_code_name(enum err_code code)
{
	return (unsigned)code < ERR_CODE_MAX ? err_table[code].name : "ERR_INTERNAL";
}
