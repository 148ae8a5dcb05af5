/*
 * clock.c - see clock.h.
 */
#include "base/clock.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static int64_t clock_us(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

int64_t clock_mono_us(void)
{
	return clock_us(CLOCK_MONOTONIC);
}

int64_t clock_mono_ms(void)
{
	return clock_us(CLOCK_MONOTONIC) / 1000;
}

int64_t clock_wall_ms(void)
{
	return clock_us(CLOCK_REALTIME) / 1000;
}

int clock_left_ms(int64_t deadline_ms)
{
	int64_t left;

	if (deadline_ms == 0)
		return -1;
	left = deadline_ms - clock_mono_ms();
	if (left < 0)
		return 0;
	return left > INT_MAX ? INT_MAX : (int)left;
}

void clock_iso(int64_t wall_ms, char out[CLOCK_ISO_LEN])
{
	time_t sec = (time_t)(wall_ms / 1000);
	struct tm tm;
	char day[24];

	gmtime_r(&sec, &tm);
	strftime(day, sizeof(day), "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(out, CLOCK_ISO_LEN, "%s.%03dZ", day, (int)(wall_ms % 1000));
}

static int clock_parse_offset(const char *s, int64_t *ret_ms)
{
	int h, m, n = 0;
	char sign;

	if ((s[0] == 'Z' || s[0] == 'z') && s[1] == '\0') {
		*ret_ms = 0;
		return 0;
	}
	if (sscanf(s, "%c%2d:%2d%n", &sign, &h, &m, &n) != 3 || s[n] != '\0')
		return -1;
	if ((sign != '+' && sign != '-') || h > 23 || m > 59 || h < 0 || m < 0)
		return -1;
	*ret_ms = (int64_t)(h * 60 + m) * 60000 * (sign == '+' ? 1 : -1);
	return 0;
}

int clock_parse_iso(const char *s, int64_t *ret_ms)
{
	struct tm tm = {0};
	int64_t frac_ms = 0, off_ms = 0, scale = 100;
	const char *p;

	p = strptime(s, "%Y-%m-%d", &tm);
	if (!p || (*p != 'T' && *p != 't' && *p != ' '))
		return -1;
	p = strptime(p + 1, "%H:%M:%S", &tm);
	if (!p)
		return -1;
	if (*p == '.') {
		for (p++; *p >= '0' && *p <= '9'; p++, scale /= 10)
			frac_ms += (*p - '0') * scale;
	}
	if (clock_parse_offset(p, &off_ms) < 0)
		return -1;
	*ret_ms = (int64_t)timegm(&tm) * 1000 + frac_ms - off_ms;
	return 0;
}
