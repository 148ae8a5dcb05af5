/*
 * store_sandbox.h - the column table that store_sandbox.c and store_list.c share.
 */
#ifndef CAISSON_STORE_STORE_SANDBOX_H
#define CAISSON_STORE_STORE_SANDBOX_H

#include "store/store_int.h"

enum {
#define COL_COUNT_(kind, field, column) SANDBOX_COLUMN_##column,
	SANDBOX_COLUMNS(COL_COUNT_)
#undef COL_COUNT_
		SANDBOX_COLUMNS_N
};
#define SANDBOX_LIST_N (SANDBOX_COLUMNS_N - 1) /* without env, the last */

extern const struct column sandbox_columns[SANDBOX_COLUMNS_N];

#endif
