/*
 * glob.h - shell patterns on one name, as filepath.Match of Go has them.
 *
 *   *  any run, also empty     ?  one character (of UTF-8)     \x  x itself
 *   [abc] [a-z] [!a-z] [^a-z]  one of a set, bytes
 *
 * A leading dot is nothing special. Time is at most pattern times name; no recursion, no locale.
 */
#ifndef CAISSON_BASE_GLOB_H
#define CAISSON_BASE_GLOB_H

#include <stdbool.h>

/* False: a set is not closed, is empty, or a backslash ends the pattern. */
bool glob_valid(const char *pattern);
/* The whole name; a pattern that is not valid matches nothing. */
bool glob_match(const char *pattern, const char *name);

#endif
