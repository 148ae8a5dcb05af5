/*
 * fakeagent.h - a socket where a thread of the test answers in an agent's stead.
 */
#ifndef CAISSON_TESTS_FAKEAGENT_H
#define CAISSON_TESTS_FAKEAGENT_H

#include <pthread.h>

struct fakeagent {
	char path[64];
	int listener; /* for the thread to accept from */
	pthread_t thread;
};

/* Listen, and run answer(arg) on a thread. */
void fakeagent_start(struct fakeagent *f, void *(*answer)(void *arg), void *arg);
/* Wait for the thread's end. */
void fakeagent_end(struct fakeagent *f);

#endif
