/*
 * hog.c - takes all it can get of what the kernel counts by owner and says how much that was:
 * "inotify N", "timers N", "queues N". With "hold" it then keeps everything until its input ends.
 * "tcp" says how many MiB its connections to itself took.
 */
#include <fcntl.h>
#include <mqueue.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/socket.h>
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

/* MiB that connections to ourselves hold when nobody reads. */
static int hog_tcp(void)
{
	static char block[1 << 20];
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(a);
	int l = socket(AF_INET, SOCK_STREAM, 0);
	long long total = 0;

	if (bind(l, (struct sockaddr *)&a, len) < 0 || listen(l, 4096) < 0 ||
	    getsockname(l, (struct sockaddr *)&a, &len) < 0)
		return -1;
	for (int i = 0; i < 500; i++) {
		int s = socket(AF_INET, SOCK_STREAM, 0);
		ssize_t n;

		if (s < 0 || connect(s, (struct sockaddr *)&a, len) < 0 ||
		    accept(l, NULL, NULL) < 0)
			break;
		while ((n = send(s, block, sizeof(block), MSG_DONTWAIT)) > 0)
			total += n;
	}
	return (int)(total >> 20);
}

int main(int argc, char **argv)
{
	char c;

	if (argc > 1 && strcmp(argv[1], "tcp") == 0) {
		printf("tcp %d\n", hog_tcp());
		return 0;
	}
	printf("inotify %d\n", hog_inotify());
	printf("timers %d\n", hog_timers());
	printf("queues %d\n", hog_queues());
	fflush(stdout);
	while (argc > 1 && strcmp(argv[1], "hold") == 0 && read(0, &c, 1) > 0)
		continue;
	return 0;
}
