/*
 * hog.c - takes all it can get of what the kernel counts by owner and says how much that was:
 * "inotify N", "timers N", "queues N". With "hold" it then keeps everything until its input ends.
 */
#include <fcntl.h>
#include <mqueue.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <time.h>
#include <unistd.h>

#define HOG_MAX 1000000

static int hog_inotify(void)
{
	int n = 0;

	while (n < HOG_MAX && inotify_init1(0) >= 0)
		n++;
	return n;
}

/* Each timer reserves a queued signal. */
static int hog_timers(void)
{
	struct sigevent ev = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
	timer_t t;
	int n = 0;

	while (n < HOG_MAX && timer_create(CLOCK_MONOTONIC, &ev, &t) == 0)
		n++;
	return n;
}

static int hog_queues(void)
{
	struct mq_attr attr = {.mq_maxmsg = 10, .mq_msgsize = 8192};
	char name[32];
	int n = 0;

	for (; n < HOG_MAX; n++) {
		snprintf(name, sizeof(name), "/hog-%d-%d", getpid(), n);
		if (mq_open(name, O_CREAT | O_RDWR, 0600, &attr) < 0)
			break;
		mq_unlink(name);
	}
	return n;
}

int main(int argc, char **argv)
{
	char c;

	printf("inotify %d\n", hog_inotify());
	printf("timers %d\n", hog_timers());
	printf("queues %d\n", hog_queues());
	fflush(stdout);
	while (argc > 1 && strcmp(argv[1], "hold") == 0 && read(0, &c, 1) > 0)
		continue;
	return 0;
}
