/*
 * store_audit.c - who did what, one row a mutating call.
 */
#include "store/store_int.h"

int store_audit_add(struct store *s, const struct caller *who, const struct audit_entry *e,
		    int64_t now_ms, struct err *err)
{
	struct conn *c = store_writer(s);
	sqlite3_stmt *st = c->st[ST_AUDIT_INSERT];
	int rc;

	bind_i64(st, 1, now_ms);
	bind_text(st, 2, who->org_id);
	bind_text(st, 3, who->user_id);
	bind_text(st, 4, who->key_name);
	bind_text(st, 5, who->key_prefix);
	bind_text(st, 6, who->key_suffix);
	bind_text(st, 7, e->action ? e->action : "");
	bind_text(st, 8, e->target_type ? e->target_type : "");
	bind_text(st, 9, e->target_id ? e->target_id : "");
	bind_i64(st, 10, e->status);
	bind_text(st, 11, e->error ? e->error : "");
	bind_text(st, 12, who->address);
	bind_text(st, 13, who->user_agent);
	bind_text(st, 14, who->source);
	rc = stmt_run(c, ST_AUDIT_INSERT, err);
	store_writer_done(s);
	return rc < 0 ? -1 : 0;
}
