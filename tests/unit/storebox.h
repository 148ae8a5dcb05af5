/*
 * storebox.h - a store in a directory of its own, and rows to put in.
 */
#ifndef CAISSON_TESTS_STOREBOX_H
#define CAISSON_TESTS_STOREBOX_H

#include "store/store.h"

#define ORG "00000000-0000-4000-8000-000000000001"

struct storebox {
	char dir[64], path[96];
	struct store *st;
};

/* For cmocka_unit_test_setup_teardown. */
int storebox_setup(void **state);
int storebox_teardown(void **state);
/* One being created, with a new id; name NULL: named by its id. */
struct sandbox_row storebox_row(const char *name);
/* Insert it; asserts that it is new. */
void storebox_put(struct storebox *b, struct sandbox_row *row);

#endif
