/*
 * corebox.h - a core over the fake runner and a stand-in for the agents, in a directory of its own.
 */
#ifndef CAISSON_TESTS_COREBOX_H
#define CAISSON_TESTS_COREBOX_H

#include <pthread.h>

#include "caisson/core.h"
#include "core/int.h"
#include "runner/runner_fake.h"

struct corebox {
	char dir[64], sock[96];
	struct core_config cfg; /* change it before corebox_open */
	struct fake *fake;
	struct core *core;
	struct caller who; /* of the admin key */
	int listener;
	bool mute;   /* the stand-in accepts and never answers (a frozen agent) */
	bool hangup; /* it drops those it kept waiting */
	bool stop;
	pthread_t agent;
};

#define COREBOX_KEY "dtn_0000000000000000000000000000000000000000000000000000000000000abc"

void corebox_init(struct corebox *b);	/* directory, books, stand-in */
void corebox_open(struct corebox *b);	/* core_open, core_attach, ready */
void corebox_attach(struct corebox *b); /* without waiting for ready */
void corebox_close(struct corebox *b);	/* core_close; open again at will */
void corebox_done(struct corebox *b);
void *corebox_agent(void *box); /* the stand-in's thread, for a child that was forked */

struct sandbox_spec corebox_spec(const char *name);
/* Create with defaults; asserts that it started. Returns the id. */
void corebox_create(struct corebox *b, const char *name, char id[ID_LEN]);
enum sandbox_state corebox_state(struct corebox *b, const char *id); /* SB_STATE_MAX: not found */
bool corebox_wait_state(struct corebox *b, const char *id, enum sandbox_state s, int ms);
/* Poll until fn(arg) or ms passed. */
bool corebox_until(bool (*fn)(void *arg), void *arg, int ms);

#endif
