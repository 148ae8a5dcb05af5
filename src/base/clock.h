/*
 * clock.h - time in milliseconds; deadlines are on the monotonic clock, 0 means none.
 */
#ifndef CAISSON_BASE_CLOCK_H
#define CAISSON_BASE_CLOCK_H

#include <stddef.h>
#include <stdint.h>

int64_t clock_mono_ms(void);
int64_t clock_mono_us(void);
int64_t clock_wall_ms(void);
/* Poll timeout until a monotonic deadline: -1 for none, 0 when past, at most INT_MAX. */
int clock_left_ms(int64_t deadline_ms);
/* "2026-01-02T03:04:05.678Z" into out (CLOCK_ISO_LEN). */
#define CLOCK_ISO_LEN 32
void clock_iso(int64_t wall_ms, char out[CLOCK_ISO_LEN]);
/* RFC 3339 text to wall ms; -1 when it is not one. */
int clock_parse_iso(const char *s, int64_t *ret_ms);

#endif
