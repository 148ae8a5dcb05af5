/*
 * store_sign.c - keys of signed links to files.
 */
#include "store/store_int.h"

int store_sign_get(struct store *s, const char *sandbox, char *ret, size_t cap, struct err *err)
{
	struct conn *c = store_reader(s);
	int got;

	bind_text(c->st[ST_SIGN_GET], 1, sandbox);
	got = stmt_text(c, ST_SIGN_GET, ret, cap, err);
	store_reader_done(s, c);
	return got;
}

int store_sign_put(struct store *s, const char *sandbox, const char *key, bool replace,
		   int64_t now_ms, struct err *err)
{
	enum stmt_id id = replace ? ST_SIGN_PUT : ST_SIGN_ADD;
	struct conn *c = store_writer(s);
	int rc;

	bind_text(c->st[id], 1, sandbox);
	bind_text(c->st[id], 2, key);
	bind_i64(c->st[id], 3, now_ms);
	rc = stmt_run(c, id, err);
	store_writer_done(s);
	return rc < 0 ? -1 : 0;
}
