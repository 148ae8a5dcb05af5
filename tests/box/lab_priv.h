/*
 * lab_priv.h - a runner process in a directory of its own, whose "api" is a function of the test in
 * a fork.
 */
#ifndef CAISSON_TESTS_LAB_PRIV_H
#define CAISSON_TESTS_LAB_PRIV_H

#include <stdio.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/id.h"
#include "caisson/priv.h"
#include "caisson/runner.h"

/* One scenario: what each api process does, by its number. 0: scenario goes on with the next. */
struct shared {
	int apis;   /* how many were started */
	int done;   /* the scenario is through */
	int failed; /* line of the first failed check */
	char note[256];
	char id[4][ID_LEN];
	int exited, ooms, pid;
};

struct lab_priv {
	char dir[64];
	struct shared *sh;
	void (*api)(struct lab_priv *l, int number, int sock);
	pid_t runner;
	struct priv_config cfg;
	char data[96], cache[96];
};

/* Checks in the api's process: cmocka's would jump into the runner's copy of the test. */
#define CHECK(cond)                                                                                \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			lab.sh->failed = __LINE__;                                                 \
			snprintf(lab.sh->note, sizeof(lab.sh->note), "%s", #cond);                 \
			lab.sh->done = 1;                                                          \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)

extern struct lab_priv lab;

/* The runner of lab.cfg in a child; its exit status after a signal, or when it ends by itself. */
void lab_runner_start(void);
int lab_runner_stop(int sig);
int lab_runner_ends(void);
/* Until a scenario is through; fails the test with what the api process found wrong. */
void lab_wait_done(void);
int lab_priv_open(void **state); /* for cmocka */
int lab_priv_close(void **state);
#define PRIV_TEST(fn) cmocka_unit_test_setup_teardown(fn, lab_priv_open, lab_priv_close)

/* ---- on the api's side ---- */
struct runner *lab_api_runner(int sock);
struct runner_start lab_api_spec(const char *id);
/* A new box; id is filled. */
void lab_api_start(struct runner *r, char id[ID_LEN], struct runner_started *ret);
void lab_wait_count(const int *n, int want);
void lab_api_wait_term(void);

#endif
