/*
 * store_idem.c - idempotency records: which sandbox a key made, with which body.
 */
#include <string.h>

#include "store/store_int.h"

#define IDEM_DIGEST_LEN 32

int store_idem_find(struct conn *c, const char *org, const struct store_idem *idem,
		    char ret_id[ID_LEN], struct err *err)
{
	sqlite3_stmt *st = c->st[ST_IDEM_GET];
	int got;
	bool same;

	if (!idem->key)
		return CREATE_NEW;
	bind_text(st, 1, org);
	bind_text(st, 2, idem->key);
	got = stmt_next(c, ST_IDEM_GET, err);
	if (got <= 0)
		return got < 0 ? -1 : CREATE_NEW;
	same = sqlite3_column_bytes(st, 0) == IDEM_DIGEST_LEN &&
	       memcmp(sqlite3_column_blob(st, 0), idem->digest, IDEM_DIGEST_LEN) == 0;
	snprintf(ret_id, ID_LEN, "%s", (const char *)sqlite3_column_text(st, 1));
	stmt_end(c, ST_IDEM_GET);
	return same ? CREATE_REPLAY : CREATE_KEY_REUSED;
}

int store_idem_put(struct conn *c, const char *org, const struct store_idem *idem, const char *id,
		   int64_t now_ms, struct err *err)
{
	sqlite3_stmt *st = c->st[ST_IDEM_INSERT];

	if (!idem->key)
		return 0;
	bind_text(st, 1, org);
	bind_text(st, 2, idem->key);
	bind_blob(st, 3, idem->digest, IDEM_DIGEST_LEN);
	bind_text(st, 4, id);
	bind_i64(st, 5, now_ms);
	return stmt_run(c, ST_IDEM_INSERT, err) < 0 ? -1 : 0;
}
