/*
 * id.h - identifiers and random tokens.
 */
#ifndef CAISSON_BASE_ID_H
#define CAISSON_BASE_ID_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

#define ID_LEN 37 /* lower-case UUID text with its NUL */

void id_new(char out[ID_LEN]);
bool id_valid(const char *s); /* exactly a lower-case UUID */
/* n random bytes as 2n lower-case hex digits and a NUL; out holds 2n + 1. */
void id_hex(char *out, size_t nbytes);
void id_random(void *out, size_t n);

#endif
