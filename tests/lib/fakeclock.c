/*
 * fakeclock.c - preloaded into a daemon by tests: the wall clock runs ahead by as many seconds as
 * the file of CAISSON_TEST_CLOCK says at the moment. Monotonic time, and with it every deadline of
 * a call, stays true.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *ahead;
static int (*real)(clockid_t, struct timespec *);

__attribute__((constructor)) static void begin(void)
{
	const char *path = getenv("CAISSON_TEST_CLOCK");
	int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
	if (fd < 0)
		return;
	void *p = mmap(NULL, sizeof(*ahead), PROT_READ, MAP_SHARED, fd, 0);
	ahead = p == MAP_FAILED ? NULL : p;
	close(fd);
}

int clock_gettime(clockid_t id, struct timespec *ts)
{
	if (!real)
		begin();
	int rc = real(id, ts);
	if (rc == 0 && id == CLOCK_REALTIME && ahead)
		ts->tv_sec += *ahead;
	return rc;
}
