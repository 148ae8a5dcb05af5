/*
 * daytona.h - what the files of the Daytona dialect share; used by nobody else.
 */
#ifndef CAISSON_API_DAYTONA_H
#define CAISSON_API_DAYTONA_H

#include "api/api.h"

/* ---- errors.c: the two error bodies of contract §2.6 ---- */
void daytona_error_control(struct http_req *req, int status, const struct err *err,
			   struct buf *out);
void daytona_error_toolbox(struct http_req *req, int status, const struct err *err,
			   struct buf *out);
/* The members of a toolbox error (no braces), for error parts of multipart replies. */
void daytona_error_members(struct jw *w, int status, const struct err *err, const char *path,
			   const char *method);

/* ---- sandbox_dto.c ---- */
extern const struct jt_table daytona_sandbox_table, daytona_sandbox_item_table;
/* One whole Sandbox object; base is http_base_url() of whoever asks. */
void daytona_put_sandbox(struct jw *w, const struct sandbox *s, const char *base);
void daytona_put_sandbox_item(struct jw *w, const struct sandbox *s, const char *base);
/* 200 with the Sandbox. */
int daytona_reply_sandbox(struct http_req *req, const struct sandbox *s, struct err *err);

/* ---- tables, walked by a test against the OpenAPI documents ---- */
extern const struct jt_table daytona_create_table, daytona_labels_table, daytona_key_create_table,
	daytona_execute_table, daytona_code_run_table, daytona_env_table, daytona_paths_table,
	daytona_context_table, daytona_run_code_table, daytona_replace_table,
	daytona_organization_table, daytona_user_table, daytona_snapshot_table,
	daytona_list_query_table;

#endif
