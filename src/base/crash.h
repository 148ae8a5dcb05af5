/*
 * crash.h - named points at which a test lets a process die as if by kill -9.
 *
 * CAISSON_CRASH_AT=<point> in the environment arms one point; the first thread to pass it kills
 * the process. Unarmed, a point costs one load of a static.
 */
#ifndef CAISSON_BASE_CRASH_H
#define CAISSON_BASE_CRASH_H

void crash_at(const char *point);
/* Arm a point from within, for a forked child of a test; point stays borrowed. */
void crash_arm(const char *point);

#endif
