/*
 * runner_fake.h - a runner for tests: keeps books, spawns nothing, fails and delays on demand.
 *
 * Its state (which boxes live, which uppers exist) may outlive one core, so that a test can play
 * a crash: fake_detach() gives the next core a fresh struct runner over the same books.
 */
#ifndef CAISSON_RUNNER_RUNNER_FAKE_H
#define CAISSON_RUNNER_RUNNER_FAKE_H

#include "caisson/runner.h"

enum fake_call {
	FAKE_START,
	FAKE_KILL,
	FAKE_REMOVE,
	FAKE_STATS,
	FAKE_LIST,
	FAKE_IMPORT,
	FAKE_DEFAULT,
	FAKE_LAYER_REMOVE,
	FAKE_HOST,
	FAKE_CALLS
};

struct fake;

struct fake *fake_new(void);
void fake_free(struct fake *f);
/* A struct runner over the books; core_close frees it, not the books. */
struct runner *fake_runner(struct fake *f);
void fake_events(struct fake *f, const struct runner_events *ev);

/* The next n calls of a kind fail with this code (n < 0: all). Each call takes delay_ms. */
void fake_fail(struct fake *f, enum fake_call call, int n, enum err_code code);
void fake_delay(struct fake *f, enum fake_call call, unsigned delay_ms);
unsigned fake_count(struct fake *f, enum fake_call call); /* calls made so far */
void fake_host(struct fake *f, uint64_t disk_free);
/* Directory of the agent sockets: <dir>/<id>.sock, or one socket for all. */
void fake_agent_dir(struct fake *f, const char *dir);
void fake_agent_one(struct fake *f, const char *path);

unsigned fake_live(struct fake *f);
unsigned fake_uppers(struct fake *f);
bool fake_is_live(struct fake *f, const char *id);
void fake_last_start(struct fake *f, struct runner_start *ret); /* strings are not kept */
/* Happenings: pid 1 ends; a box nobody knows; memory runs out. */
void fake_exit(struct fake *f, const char *id);
void fake_stray(struct fake *f, const char *id, bool live);
void fake_oom(struct fake *f, const char *id, const char *comm, bool event);

#endif
