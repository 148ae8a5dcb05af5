/*
 * table.h - output for people: columns, sizes, ages. Names come from others: control bytes and
 * broken UTF-8 are escaped, so that they can't drive the terminal or forge a line.
 */
#ifndef CAISSON_CLI_TABLE_H
#define CAISSON_CLI_TABLE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/scope.h"

#define TABLE_COLUMNS_MAX 10

struct table {
	const char *const *head; /* NULL-terminated */
	size_t columns;
	char **cell; /* rows * columns */
	size_t rows;
	bool failed; /* out of memory: nothing is printed */
};

struct table table_on(const char *const *head);
void table_done(struct table *t);
#define auto_table auto_call(table_done)
/* One cell after the other, row by row; text may be NULL. */
void table_add(struct table *t, const char *text);
void table_print(const struct table *t, FILE *f);

/* Escaped copy of text: never NULL unless out of memory. */
char *text_escape(const char *text);
/* Columns a terminal needs for UTF-8 text; wide characters count two. */
size_t text_width(const char *text);
void text_print(FILE *f, const char *text);
#define TEXT_SHORT 32
void text_bytes(uint64_t n, char out[TEXT_SHORT]);	 /* "1.4 GiB" */
void text_age(const char *iso, char out[TEXT_SHORT]);	 /* "3 min" */
const char *json_text(const json_t *o, const char *key); /* "" when absent */
int64_t json_number(const json_t *o, const char *key);	 /* 0 when absent */
int json_print(const json_t *v);			 /* to standard output; an exit code */

#endif
