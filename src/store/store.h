/*
 * store.h - the records, in SQLite, for src/core alone.
 *
 * WAL, synchronous=NORMAL: what a call has written survives the death of our processes; a power
 * cut may take the last transactions. One writer connection under a mutex, a few readers; every
 * call is one transaction and safe from any thread. SQL text stays below this header. Lookups
 * return 1 found, 0 not found, -1 with err. Times are wall milliseconds.
 */
#ifndef CAISSON_STORE_STORE_H
#define CAISSON_STORE_STORE_H

#include "caisson/core.h"
#include "caisson/process.h"

struct store;

/* Opens or makes the file, applies migrations; a changed or newer one is ERR_CONFLICT. */
struct store *store_open(const char *path, struct err *err);
void store_close(struct store *s);
/* Would store_open succeed? Reads only, about 100 ms at most; a file that isn't there is fine. */
int store_check(const char *path, struct err *err);

/* ---- organizations, users, keys ---- */

/* The rows a daemon starts with. Insert what is missing; limits of the row follow the argument. */
int store_org_ensure(struct store *s, struct org *org, struct err *err); /* ->id is filled */
int store_org_get(struct store *s, const char *id, struct org *ret, struct err *err);
int store_user_ensure(struct store *s, struct user *user, struct err *err);
int store_user_get(struct store *s, const char *id, struct user *ret, struct err *err);

#define STORE_HASH_LEN 32
struct key_row {
	struct api_key k;
	uint8_t hash[STORE_HASH_LEN];
	char prefix[12], suffix[8];
};
/* A second key of one name and owner is ERR_CONFLICT. */
int store_key_insert(struct store *s, const struct key_row *row, struct err *err);
/* The one key of the command line: replaces an older key of the same name and owner. */
int store_key_replace(struct store *s, const struct key_row *row, struct err *err);
int store_key_find(struct store *s, const uint8_t hash[STORE_HASH_LEN], struct key_row *ret,
		   struct err *err);
int store_key_get(struct store *s, const char *org, const char *user, const char *name,
		  struct key_row *ret, struct err *err);
int store_key_list(struct store *s, const char *org, struct api_key **ret, size_t *ret_n,
		   struct err *err);
int store_key_delete(struct store *s, const char *org, const char *user, const char *name,
		     struct err *err);
int store_key_used(struct store *s, const uint8_t hash[STORE_HASH_LEN], int64_t now_ms,
		   struct err *err);

/* ---- sandboxes ---- */

struct sandbox_row {
	struct sandbox s;
	char layer[PRIV_LAYER_ID_LEN];
	int64_t stopped_ms;
	int64_t starts; /* how often it was started */
};
void sandbox_row_done(struct sandbox_row *r);
#define auto_row auto_call(sandbox_row_done)

struct store_idem {
	const char *key; /* NULL: none */
	const uint8_t *digest;
};

enum store_create {
	CREATE_NEW,	   /* the row is in */
	CREATE_REPLAY,	   /* this key made ret_id before */
	CREATE_KEY_REUSED, /* this key came with another body */
	CREATE_NAME_TAKEN, /* by ret_id */
	CREATE_NO_WARM,	   /* store_sandbox_claim: nothing is parked */
};
/* One transaction: the idempotency record, labels and row; returns enum store_create. */
int store_sandbox_insert(struct store *s, const struct sandbox_row *row,
			 const struct store_idem *idem, char ret_id[ID_LEN], struct err *err);
/* The same on a parked sandbox of row's snapshot; its id is ret_id. Name "" takes the id. */
int store_sandbox_claim(struct store *s, const struct sandbox_row *row,
			const struct store_idem *idem, char ret_id[ID_LEN], struct err *err);

/* By id, then by name, in org; org NULL: any, by id only. */
int store_sandbox_get(struct store *s, const char *org, const char *id_or_name,
		      struct sandbox_row *ret, struct err *err);

struct store_edge {
	const char *id;
	enum sandbox_state from, to;
	int desired;	    /* enum sandbox_state, -1 keeps */
	const char *reason; /* error_reason; NULL clears */
	bool recoverable;
	const char *ip4, *ip6; /* NULL keeps */
	int64_t now_ms;
};
/* 1 moved, 0 when the state was not from. To SB_DESTROYING also renames, to SB_DESTROYED (from
 * SB_DESTROYING) removes the row. */
int store_sandbox_edge(struct store *s, const struct store_edge *e, struct err *err);

/* Setters on live rows: 1 done, 0 no such row. */
int store_sandbox_labels(struct store *s, const char *id, const struct kv *labels, int64_t now_ms,
			 struct err *err);
/* 0 also when the environment is no longer was: read it again. */
int store_sandbox_env(struct store *s, const char *id, const struct kv *was, const struct kv *env,
		      int64_t now_ms, struct err *err);
int store_sandbox_public(struct store *s, const char *id, bool on, int64_t now_ms, struct err *err);
/* value: minutes; for TIMER_TTL wall ms of the end. */
int store_sandbox_timer(struct store *s, const char *id, enum sandbox_timer t, int64_t value,
			int64_t now_ms, struct err *err);
int store_sandbox_touch(struct store *s, const char *id, int64_t active_ms, struct err *err);

/* Items without env. The page's next cursor is filled. */
int store_sandbox_count(struct store *s, const char *org, const struct sandbox_query *q,
			uint64_t *ret, struct err *err);
int store_sandbox_list(struct store *s, const char *org, const struct sandbox_query *q,
		       struct sandbox_page *ret, struct err *err);

/* One row of the walk of recovery. */
struct store_brief {
	char id[ID_LEN];
	enum sandbox_state state;
	bool warm;
};
int store_sandbox_brief(struct store *s, struct store_brief **ret, size_t *ret_n,
			struct err *err); /* free() */

enum store_due { DUE_STOP, DUE_DELETE, DUE_TTL };
/* Ids of at most max sandboxes whose timer ran out by now_ms. */
int store_sandbox_due(struct store *s, enum store_due what, int64_t now_ms, char (*ret)[ID_LEN],
		      size_t max, size_t *ret_n, struct err *err);
int store_sandbox_parked(struct store *s, const char *snapshot, unsigned *ret_n, struct err *err);
/* Live sandboxes on a layer. */
int store_sandbox_on_layer(struct store *s, const char *layer, unsigned *ret_n, struct err *err);

/* ---- what was started in a sandbox (store_process.c) ---- */

struct process_row {
	char sandbox[ID_LEN];
	unsigned kind; /* enum process_kind */
	char id[PROCESS_ID_MAX + 1];
	char task[ID_LEN]; /* its id in the agent; "" not started yet */
	int64_t start;	   /* the sandbox_row.starts it belongs to */
	int64_t created_ms;
	char *cwd; /* heap; NULL: none given */
	struct kv env;
	unsigned cols, rows;
	bool lazy;
};
void process_row_done(struct process_row *r);
#define auto_process auto_call(process_row_done)

/*
 * 1 done; 0 when the sandbox is no longer started or was started anew since, or when the id is
 * taken in this start. was: the task whose row may be replaced; NULL none.
 */
int store_process_put(struct store *s, const struct process_row *row, const char *was,
		      struct err *err);
int store_process_get(struct store *s, const char *sandbox, unsigned kind, const char *id,
		      struct process_row *ret, struct err *err);
/* Of one start. Each of *ret is done with process_row_done, then free(). */
int store_process_list(struct store *s, const char *sandbox, unsigned kind, int64_t start,
		       struct process_row **ret, size_t *ret_n, struct err *err);
/* 1 when the row had this task and is gone. */
int store_process_drop(struct store *s, const char *sandbox, unsigned kind, const char *id,
		       const char *task, struct err *err);

struct exec_key_row {
	char exec_id[ID_LEN];
	int64_t created_ms;
	bool same;    /* the digest is that of the first call */
	bool started; /* the agent has had it */
};
/*
 * One transaction, synced: remember row under key. 1 done, 0 when the sandbox is not in that
 * start any more, 2 when the key is known (*ret).
 */
int store_exec_key(struct store *s, const struct process_row *row, const char *key,
		   const uint8_t digest[32], struct exec_key_row *ret, struct err *err);
int store_exec_key_started(struct store *s, const char *sandbox, const char *key, struct err *err);
/* 1 known, 0 not. */
int store_exec_key_get(struct store *s, const char *sandbox, const char *key,
		       const uint8_t digest[32], struct exec_key_row *ret, struct err *err);

/* ---- keys of signed links ---- */
int store_sign_get(struct store *s, const char *sandbox, char *ret, size_t cap, struct err *err);
/* replace false: one that is there stays. */
int store_sign_put(struct store *s, const char *sandbox, const char *key, bool replace,
		   int64_t now_ms, struct err *err);

/* ---- images, snapshots ---- */
int store_image_put(struct store *s, struct image *img, struct err *err); /* by name; id filled */
int store_image_get(struct store *s, const char *name, struct image *ret, struct err *err);
int store_image_list(struct store *s, struct image **ret, size_t *ret_n, struct err *err);
int store_image_delete(struct store *s, const char *name, struct err *err); /* and snapshots */
int store_image_on_layer(struct store *s, const char *layer, unsigned *ret_n, struct err *err);
int store_snapshot_put(struct store *s, struct snapshot *snap, struct err *err); /* by org, name */
int store_snapshot_get(struct store *s, const char *org, const char *id_or_name,
		       struct snapshot *ret, struct err *err);
int store_snapshot_used(struct store *s, const char *id, int64_t now_ms, struct err *err);
int store_snapshot_list(struct store *s, const char *org, const char *name_part, unsigned page,
			unsigned limit, struct snapshot_page *ret, struct err *err);

/* ---- audit, events, ageing ---- */
int store_audit_add(struct store *s, const struct caller *who, const struct audit_entry *e,
		    int64_t now_ms, struct err *err);
/* Of the item, id and state are left to the store: states are recorded by their edges alone. */
int store_event_add(struct store *s, const char *sandbox, const struct history_item *item,
		    struct err *err);
/* The first max with an id above after, in order. free() *ret. */
int store_event_list(struct store *s, const char *sandbox, int64_t after, size_t max,
		     struct history_item **ret, size_t *ret_n, struct err *err);
/* Rows of a sandbox's events of one kind (NULL: all). */
int store_event_count(struct store *s, const char *sandbox, const char *kind, unsigned *ret_n,
		      struct err *err);
/* Text of the last event of a kind between two times: 1 found. */
int store_event_last(struct store *s, const char *sandbox, const char *kind, int64_t from_ms,
		     int64_t to_ms, char *ret, size_t cap, struct err *err);
/* Drop idempotency records, ids of processes and events from before their horizon. */
int store_age(struct store *s, int64_t now_ms, struct err *err);

/* ---- for tests ---- */
/* Query plan lines of every statement; fn gets the SQL, one line, and whether a scan is meant. */
int store_plans(struct store *s,
		void (*fn)(void *arg, const char *sql, const char *line, bool scan_meant),
		void *arg, struct err *err);

#endif
