/*
 * report.c - see report.h.
 */
#include "image/report.h"

#include <limits.h>
#include <string.h>

#include "base/fd.h"

_Static_assert(sizeof(struct report) <= PIPE_BUF, "a record must fit one atomic write");

void report_send(int fd, const struct report *r)
{
	fd_write_all(fd, r, sizeof(*r), 0, NULL);
}

void report_send_err(int fd, const struct err *e)
{
	struct report r = {.kind = REPORT_FAILED, .code = (int32_t)e->code, .errnum = e->errnum};

	memcpy(r.msg, e->msg, sizeof(r.msg));
	report_send(fd, &r);
}

int report_to_err(const struct report *r, struct err *err)
{
	char text[ERR_MSG_MAX];

	memcpy(text, r->msg, sizeof(text));
	/* Names from the archive may be in it: no control bytes into logs and terminals. */
	for (char *p = text; *p; p++)
		if ((unsigned char)*p < ' ' || *p == 127)
			*p = '?';
	err_set(err, (enum err_code)r->code, "%s", text);
	if (err)
		err->errnum = r->errnum;
	return -1;
}

bool report_valid(const struct report *r)
{
	if (r->kind < REPORT_PROGRESS || r->kind > REPORT_FAILED)
		return false;
	if (!memchr(r->msg, '\0', sizeof(r->msg)) || !memchr(r->id, '\0', sizeof(r->id)))
		return false;
	return r->kind != REPORT_FAILED || (r->code > ERR_NONE && r->code < ERR_CODE_MAX);
}
