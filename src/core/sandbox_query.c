/*
 * sandbox_query.c - reading sandboxes: one, pages of many, and who listens inside.
 *
 * Nothing here waits for an operation on a sandbox: rows are read as they are.
 */
#include <string.h>

#include "base/clock.h"
#include "core/exec.h"

#define LIST_DEFAULT 100
#define LIST_MAX     200

int row_need(struct core *c, const struct caller *who, const char *id_or_name,
	     struct sandbox_row *ret, struct err *err)
{
	int got = store_sandbox_get(c->st, who->org_id, id_or_name, ret, err);

	if (got < 0)
		return -1;
	if (got == 0)
		return err_set(err, ERR_NOT_FOUND, "sandbox %.160s not found", id_or_name);
	ret->s.last_activity_ms = slot_active(c, ret->s.id, ret->s.last_activity_ms);
	return 0;
}

int row_started(struct core *c, const struct caller *who, const char *id_or_name,
		struct sandbox_row *ret, struct err *err)
{
	auto_row struct sandbox_row row = {0};
	const char *name;

	if (row_need(c, who, id_or_name, &row, err) < 0)
		return -1;
	if (row.s.state == SB_STARTED) {
		*ret = row;
		row = (struct sandbox_row){0};
		return 0;
	}
	name = sandbox_state_name(row.s.state);
	if (row.s.state == SB_STOPPED || row.s.state == SB_ERROR)
		return err_tagged(err, ERR_CONFLICT, "SANDBOX_NOT_STARTED",
				  "sandbox %s is %s; start it first", row.s.id, name);
	return err_tagged(err, ERR_CONFLICT, "SANDBOX_NOT_STARTED",
			  "sandbox %s is %s; try again when it is started", row.s.id, name);
}

int row_agent(struct core *c, const struct caller *who, const char *id_or_name,
	      struct sandbox_row *ret, char path[108], struct err *err)
{
	if (row_started(c, who, id_or_name, ret, err) < 0)
		return -1;
	return c->run->ops->agent_path(c->run, ret->s.id, path, err);
}

int sandbox_get(struct core *c, const struct caller *who, const char *id_or_name,
		struct sandbox *ret, struct err *err)
{
	struct sandbox_row row;

	if (row_need(c, who, id_or_name, &row, err) < 0)
		return -1;
	*ret = row.s;
	return 0;
}

int sandbox_count(struct core *c, const struct caller *who, const struct sandbox_query *q,
		  uint64_t *ret, struct err *err)
{
	return store_sandbox_count(c->st, who->org_id, q, ret, err);
}

int sandbox_list(struct core *c, const struct caller *who, const struct sandbox_query *q,
		 struct sandbox_page *ret, struct err *err)
{
	struct sandbox_query query = *q;
	struct sandbox_page page;

	if (query.limit == 0)
		query.limit = LIST_DEFAULT;
	if (query.limit > LIST_MAX)
		return err_set(err, ERR_INVALID, "limit: must be 1 to %d", LIST_MAX);
	if ((unsigned)query.sort > SORT_CREATED)
		return err_set(err, ERR_INVALID, "sort: unknown order");
	if (query.cursor && !query.cursor[0])
		query.cursor = NULL;
	if (store_sandbox_list(c->st, who->org_id, &query, &page, err) < 0)
		return -1;
	for (size_t i = 0; i < page.n; i++)
		page.item[i].last_activity_ms =
			slot_active(c, page.item[i].id, page.item[i].last_activity_ms);
	*ret = page;
	return 0;
}

int sandbox_notes(struct core *c, const struct caller *who, const char *id, struct agent_note **ret,
		  size_t *ret_n, struct err *err)
{
	auto_row struct sandbox_row row = {0};
	char path[108];

	if (row_agent(c, who, id, &row, path, err) < 0)
		return -1;
	if (agent_notes(path, ret, ret_n, err) < 0)
		return agent_failed(c, who, row.s.id, err);
	return 0;
}

int sandbox_ports(struct core *c, const struct caller *who, const char *id, uint16_t **ret,
		  size_t *ret_n, struct err *err)
{
	auto_row struct sandbox_row row = {0};
	char path[108];

	if (row_agent(c, who, id, &row, path, err) < 0)
		return -1;
	slot_touch(c, row.s.id);
	if (agent_ports(path, ret, ret_n, err) < 0)
		return agent_failed(c, who, row.s.id, err);
	return 0;
}
