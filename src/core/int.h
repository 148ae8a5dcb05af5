/*
 * int.h - inside src/core: the core itself, the slots of sandboxes, operations, and the calls
 * between its files.
 *
 * Truth about a sandbox is its row; races between callers are decided by the row's state. A slot
 * holds what only matters while this process lives: who works on the sandbox, running commands,
 * activity not yet written, memory exhaustion seen. No lock is held across I/O.
 */
#ifndef CAISSON_CORE_INT_H
#define CAISSON_CORE_INT_H

#include <pthread.h>

#include "caisson/core.h"
#include "core/cache.h"
#include "core/pool.h"
#include "core/turn.h"
#include "store/store.h"

#define CORE_TICK_MS	      10000 /* timers (contract) */
#define CORE_START_MAX_MS     60000 /* a start that takes longer has failed */
#define CORE_OPS_MAX	      256   /* threads that create, start and stop */
#define CORE_REAP_MAX	      4	    /* threads that clean up behind deletes */
#define CORE_WAIT_SLICE	      250   /* ms between looks at the client while waiting */
#define CORE_PIDS_MAX	      4096
#define CORE_NOFILE	      16384
#define CORE_GIB	      (1ull << 30)
#define CORE_MEMORY_LEAST_MIB 512 /* of a sandbox, and the only size that is not whole GiB */

#define DEFAULT_IMAGE	 "default"
#define DEFAULT_SNAPSHOT "caisson-small"

struct held;

struct slot_oom {
	uint64_t seq; /* events seen since the sandbox started */
	uint64_t limit, peak, kills;
	char victim[64];
};

/* Every field but id under slots.lock. */
struct slot {
	char id[ID_LEN];
	struct slot *next;
	struct core *core;
	unsigned refs;
	unsigned running; /* commands under way */
	uint32_t pid;	  /* pid 1 of the box; 0 none */
	bool busy;	  /* an operation works on the sandbox */
	bool keep;	  /* the sandbox is started: what was seen must stay */
	bool halting;	  /* a stop was decided: no new commands */
	bool reaping;	  /* reap is queued */
	bool dirty;	  /* active_ms isn't in the row yet */
	int64_t active_ms;
	struct slot_oom oom;
	uint64_t cpu_us; /* at the last look of metrics */
	int64_t cpu_at_us;
	double cpu_pct;
	char *home, *home_user; /* cached home directory of home_user */
	unsigned tries;		/* of reap */
	struct job reap;
};

#define SLOT_BUCKETS 4096

struct slots {
	pthread_mutex_t lock;
	pthread_cond_t change; /* a slot became free, or saw memory exhaustion */
	struct slot *bucket[SLOT_BUCKETS];
	bool closing;
};

struct core_sub {
	struct core_sub *next;
	char org_id[ID_LEN];
	void (*fn)(void *arg, const struct core_event *ev);
	void *arg;
	unsigned calls; /* under subs.lock: being called right now */
	bool gone;
};

/* Language servers, lsp_server.c. */
struct lsp_servers {
	pthread_mutex_t lock; /* guards the fields down to the next line */
	pthread_cond_t quiet;
	struct lsp_server *first;
	unsigned threads;
	bool closing;

	pthread_mutex_t json; /* one message at a time is parsed: a tree is many times its text */
};

struct core {
	struct core_config cfg; /* its strings are owned */
	struct store *st;
	struct runner *run; /* set once by core_attach, before ready */
	struct org org;
	struct user user;
	struct slots slots;
	struct pool ops, reapers;
	struct turns turns;  /* runs in contexts of the interpreter */
	struct cache keys;   /* struct key_row by hash; identity.c writes keys */
	struct cache origin; /* struct origin by organization and name; images.c writes them */
	struct lsp_servers lsp;

	pthread_mutex_t subs_lock;
	pthread_cond_t subs_quiet;
	struct core_sub *subs;
	unsigned nsubs; /* atomic reads decide whether a row must be read for an event */

	pthread_mutex_t state_lock; /* guards the fields down to the next line */
	pthread_cond_t state_change;
	bool attached, ready, stopping, imaging;
	bool filling, refill; /* the warm pool: its job is queued; look again after it */
	char why[160];
	struct runner_host host;
	int64_t host_at_ms;
	unsigned live;	      /* sandboxes counted against max_sandboxes */
	int64_t warm_wait_ms; /* of the warm job alone */

	pthread_mutex_t uploads_lock; /* guards the two below */
	struct held *uploads;	      /* files_upload.c */
	unsigned nuploads;

	struct job warm_job;
	pthread_t timer, imager;
	bool timer_on, imager_on;
	int64_t aged_ms; /* of the timer thread */
};

/* ---- slots.c ---- */
void slots_init(struct slots *s);
void slots_done(struct slots *s);
struct slot *slot_get(struct core *c, const char *id); /* never NULL; slot_put */
void slot_put(struct core *c, struct slot *s);
/* Become the one who works on the sandbox; ERR_CONFLICT when others do until the deadline. */
struct slot *slot_begin(struct core *c, const char *id, int client, int64_t deadline_ms,
			struct err *err);
bool slot_try(struct core *c, struct slot *s); /* on a slot held by reference: takes one more */
void slot_end(struct core *c, struct slot *s); /* also puts it */
void slot_touch(struct core *c, const char *id);
/* The later of the row's and the slot's activity, without waiting for anything. */
int64_t slot_active(struct core *c, const char *id, int64_t row_ms);
/* A command begins: fails while a stop is under way. */
int slot_exec_begin(struct core *c, struct slot *s, struct err *err);
void slot_exec_end(struct core *c, struct slot *s);
/* Decide a stop for idleness: false when something runs or was active after before_ms. */
bool slot_halt_idle(struct core *c, struct slot *s, int64_t before_ms);
void slot_halt(struct core *c, struct slot *s, bool on);
void slot_started(struct core *c, struct slot *s, uint32_t pid);
void slot_stopped(struct core *c, struct slot *s);
void slots_flush(struct core *c); /* write activity */

/* ---- sandbox_state.c ---- */
bool edge_legal(enum sandbox_state from, enum sandbox_state to);
/* Move the row and tell subscribers: 1 moved, 0 it wasn't in from, -1. */
int state_move(struct core *c, const struct store_edge *e, struct err *err);

/* ---- sandbox_query.c ---- */
/* A row the caller may see; foreign and absent ones are ERR_NOT_FOUND. */
int row_need(struct core *c, const struct caller *who, const char *id_or_name,
	     struct sandbox_row *ret, struct err *err);
/* The same, and started: else ERR_CONFLICT that says what to do. */
int row_started(struct core *c, const struct caller *who, const char *id_or_name,
		struct sandbox_row *ret, struct err *err);

/* The same, with its agent's socket. ret is the caller's to end, also on failure. */
int row_agent(struct core *c, const struct caller *who, const char *id_or_name,
	      struct sandbox_row *ret, char path[108], struct err *err);

/* ---- operations (op.c, sandbox_life.c): work on a sandbox on a thread of the pool ---- */
struct op {
	struct job job;
	struct core *core;
	struct slot *slot; /* begun; the operation ends it */
	void (*run)(struct op *op);
	bool force;
	struct sandbox_row *row; /* op_create: the row as inserted, owned; after done as it is */
	pthread_mutex_t lock;
	pthread_cond_t change;
	unsigned refs; /* under lock, as is done */
	bool done;
	int rc;
	struct err err; /* of a run that failed; read after done */
	char reqid[24];
};
struct op *op_new(struct core *c, struct slot *taken, void (*run)(struct op *), struct err *err);
/* The same with a row, which is moved into it. */
struct op *op_new_row(struct core *c, struct slot *taken, void (*run)(struct op *),
		      struct sandbox_row *row, struct err *err);
void op_start(struct op *op);
/* Wait until done, the deadline, or the client's hang-up; true when done. Drops the reference. */
bool op_wait(struct op *op, int client, int64_t deadline_ms, int *ret_rc, struct err *err);
/* The same, and takes the row as the operation left it. */
bool op_wait_row(struct op *op, int client, int64_t deadline_ms, struct sandbox_row *ret);
void op_forget(struct op *op);

void op_create(struct op *op);
void op_begin_start(struct op *op);			       /* row is STARTING */
void op_stop(struct op *op);				       /* row is STOPPING */
void box_exited(struct core *c, const char *id, uint32_t pid); /* an event of the runner */
int stop_submit(struct core *c, struct slot *taken, bool force, struct op **ret, struct err *err);

/* ---- sandbox_create.c ---- */
/* Start the box of a row and wait for its agent; on failure nothing of it is left running. */
int core_box_start(struct core *c, const struct sandbox_row *row, bool fresh,
		   struct runner_started *ret, struct err *err);
int live_take(struct core *c, struct err *err);
void live_drop(struct core *c);

/* ---- sandbox_delete.c ---- */
int delete_mark(struct core *c, const char *id, struct err *err); /* and queue the cleaning */
void delete_queue(struct core *c, const char *id, int64_t delay_ms);

/* ---- identity.c ---- */
int identity_open(struct core *c, const char *admin_key, struct err *err);

/* ---- validate.c ---- */
int valid_spec(const struct sandbox_spec *s, struct err *err);
int valid_name(const char *field, const char *name, struct err *err);
int valid_key_name(const char *field, const char *name, struct err *err);
int valid_env(const char *field, const struct kv *env, struct err *err);
int valid_labels(const char *field, const struct kv *labels, struct err *err);
int valid_user(const char *field, const char *user, struct err *err);
int valid_timer(enum sandbox_timer t, int64_t minutes, struct err *err);
int valid_limits(const struct org *org, const struct sandbox_spec *s, struct err *err);
int valid_path(const char *path, struct err *err);
void hostname_of(const char *name, char out[64]);

/* ---- events.c ---- */
void publish_created(struct core *c, const struct sandbox *s);
void publish_state(struct core *c, const char *id, enum sandbox_state old, enum sandbox_state now);
void publish_destroyed(struct core *c, struct sandbox *s);
/* Record it and tell listeners. */
void publish_oom(struct core *c, const char *id, const struct history_item *item);
void subs_init(struct core *c);
void subs_done(struct core *c);

/* ---- images.c ---- */
int images_start(struct core *c, struct err *err);
bool images_stop(struct core *c, int64_t wait_ms); /* false: it hangs in the runner */
/* What a create is made from; snap.id is "" when it is the bare default image. */
struct origin {
	struct snapshot snap;
	struct image img;
};
int images_resolve(struct core *c, const char *org, const struct sandbox_spec *spec,
		   struct origin *ret, struct err *err);

/* ---- recovery.c, timers.c, warm.c ---- */
int recover_all(struct core *c, struct err *err);
int timers_start(struct core *c, struct err *err);
void timers_stop(struct core *c);
void core_tick(struct core *c, int64_t now_ms); /* one round of the timers */
/* Take a parked sandbox for the row's request; enum store_create. */
int warm_claim(struct core *c, const struct sandbox_row *want, const struct store_idem *idem,
	       char ret_id[ID_LEN], struct err *err);
void warm_refill(struct core *c);
void warm_init(struct core *c);

/* ---- files_upload.c ---- */
void uploads_age(struct core *c, int64_t now_ms);
void uploads_lost(struct core *c, const char *sandbox); /* it is no longer started */
void uploads_done(struct core *c);

/* ---- lsp_server.c ---- */
void lsp_servers_init(struct lsp_servers *s);
bool lsp_servers_end(struct lsp_servers *s, int64_t wait_ms); /* false: a thread hangs */
void lsp_servers_done(struct lsp_servers *s);

/* ---- small ---- */
int host_now(struct core *c, struct runner_host *ret, struct err *err); /* at most 10 s old */

#endif
