/*
 * history.c - what happened to a sandbox, for whoever asks why.
 *
 * States are written by the store with the edge itself (migrations/003_event.sql); memory
 * exhaustion by events.c. Here they are only read.
 */
#include "core/int.h"

int sandbox_history(struct core *c, const struct caller *who, const char *id_or_name, int64_t after,
		    unsigned limit, struct history_page *ret, struct err *err)
{
	auto_row struct sandbox_row row = {0};
	struct history_page page = {0};

	if (row_need(c, who, id_or_name, &row, err) < 0)
		return -1;
	/* One more than asked for tells whether there is another page. */
	if (store_event_list(c->st, row.s.id, after, (size_t)limit + 1, &page.item, &page.n, err) <
	    0)
		return -1;
	if (page.n > limit) {
		page.n = limit;
		page.next = page.item[limit - 1].id;
	}
	*ret = page;
	return 0;
}
