/*
 * crash.c - see crash.h. The environment is read once; secure_getenv, so that a process that
 * gained privileges by its file's mode ignores it.
 */
#include "base/crash.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *crash_point;
static pthread_once_t crash_once = PTHREAD_ONCE_INIT;

static void crash_read(void)
{
	crash_point = secure_getenv("CAISSON_CRASH_AT");
}

void crash_at(const char *point)
{
	pthread_once(&crash_once, crash_read);
	if (crash_point && strcmp(crash_point, point) == 0)
		kill(getpid(), SIGKILL);
}

void crash_arm(const char *point)
{
	pthread_once(&crash_once, crash_read);
	crash_point = point;
}
