/*
 * audit.c - one row a mutating call.
 *
 * The row is written on the caller's thread, before its reply goes out: some 20 us, and then an
 * acknowledged call has its row even when the process is killed the next moment. A queue would
 * save those 20 us and lose the last rows.
 */
#include "base/clock.h"
#include "base/log.h"
#include "core/int.h"

void audit_write(struct core *c, const struct caller *who, const struct audit_entry *e)
{
	struct err err = {0};

	if (store_audit_add(c->st, who, e, clock_wall_ms(), &err) < 0)
		log_error("audit of %s %s: %s", e->action ? e->action : "?",
			  e->target_id ? e->target_id : "", err.msg);
}
