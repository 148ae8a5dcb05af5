/*
 * migration.h - the embedded migrations, generated from migrations/ by tools/embed-migrations.
 */
#ifndef CAISSON_STORE_MIGRATION_H
#define CAISSON_STORE_MIGRATION_H

#include <stddef.h>

struct migration {
	int n;
	const char *name;
	const char *sha256; /* of the file, lower-case hex */
	const char *sql;
};

extern const struct migration migrations[];
extern const size_t migrations_n;

#endif
