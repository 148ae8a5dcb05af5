/*
 * native.h - what the files of the native dialect share: what the command line needs beyond the
 * Daytona dialect.
 */
#ifndef CAISSON_API_CAISSON_NATIVE_H
#define CAISSON_API_CAISSON_NATIVE_H

#include "api/api.h"

extern const struct jt_table native_upload_table, native_upload_create_table;
extern const struct jt_table native_exec_table, native_image_table, native_history_table,
	native_failure_table;

/* The members of an error (no braces). */
void native_error_members(struct jw *w, int status, const struct err *err);

#endif
