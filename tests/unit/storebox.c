/*
 * storebox.c - see storebox.h.
 */
#include "unit/storebox.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/path.h"

int storebox_setup(void **state)
{
	struct storebox *b = calloc(1, sizeof(*b));
	struct err err = {0};

	snprintf(b->dir, sizeof(b->dir), "/tmp/caisson-store-XXXXXX");
	assert_non_null(mkdtemp(b->dir));
	snprintf(b->path, sizeof(b->path), "%s/caisson.db", b->dir);
	b->st = store_open(b->path, &err);
	if (!b->st)
		fail_msg("%s", err.msg);
	*state = b;
	return 0;
}

int storebox_teardown(void **state)
{
	struct storebox *b = *state;

	store_close(b->st);
	path_remove_tree(AT_FDCWD, b->dir, NULL);
	free(b);
	return 0;
}

struct sandbox_row storebox_row(const char *name)
{
	struct sandbox_row row = {.s = {.state = SB_CREATING,
					.desired = SB_STARTED,
					.cpu = 1,
					.memory_mib = 1024,
					.disk_gib = 3,
					.auto_delete_min = -1}};

	id_new(row.s.id);
	memcpy(row.s.org_id, ORG, ID_LEN);
	snprintf(row.s.name, sizeof(row.s.name), "%s", name ? name : row.s.id);
	snprintf(row.s.region, sizeof(row.s.region), "local");
	snprintf(row.s.snapshot, sizeof(row.s.snapshot), "caisson-small");
	row.s.created_ms = row.s.updated_ms = row.s.last_activity_ms = clock_wall_ms();
	return row;
}

void storebox_put(struct storebox *b, struct sandbox_row *row)
{
	struct store_idem idem = {0};
	struct err err = {0};
	char id[ID_LEN];

	if (store_sandbox_insert(b->st, row, &idem, id, &err) != CREATE_NEW)
		fail_msg("%s", err.msg);
}
