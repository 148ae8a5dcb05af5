/*
 * core.h - the product, as the dialects see it. No HTTP, no JSON, no SQL in any signature.
 *
 * Every call takes the caller (who asks, for authorization and audit) and returns 0 or -1 with
 * err. Texts of ERR_INVALID name the field and the rule. A sandbox of a foreign organization is
 * ERR_NOT_FOUND. All calls are thread-safe and may block; client (a socket or -1) lets long waits
 * end when the asker hangs up.
 */
#ifndef CAISSON_CORE_H
#define CAISSON_CORE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/id.h"
#include "base/kv.h"
#include "caisson/agent.h"
#include "caisson/runner.h"

struct core;

/* ---- configuration of the core, filled by main ---- */

struct core_config {
	const char *data_dir;  /* the database lives in <data_dir>/api/ (owned by the api's uid) */
	const char *admin_key; /* plain text of the first key; stored as SHA-256 */
	const char *region;    /* id and name of the one region, default "local" */
	const char *version;
	unsigned warm_pool;	 /* parked sandboxes of the default snapshot, 0 = none */
	uint64_t disk_low_bytes; /* creates are refused below this much free disk */
	unsigned stop_grace_ms;	 /* TERM to KILL; 0: kill at once */
	unsigned hold_ms;	 /* most a create/start/stop reply is held; 0: not at all */
	unsigned max_sandboxes;	 /* live ones of the daemon; 0 = none */
	uint64_t output_max;	 /* bytes of collected output of a one-shot exec, default 64 MiB */
	bool destroy_on_exit;
	unsigned max_cpu, max_memory_gib, max_disk_gib; /* of one sandbox; 0: 4, 8, 10 */
};

/* Would core_open be able to use the records of this data directory? Changes nothing. */
int core_check(const char *data_dir, struct err *err);
struct core *core_open(const struct core_config *cfg, struct err *err);
/* Take the runner (core_close frees it), reconcile records with what lives, get the default image,
 * start timers. */
int core_attach(struct core *c, struct runner *r, struct err *err);
/* Events the runner reports; arg is the core. */
void core_runner_events(struct core *c, struct runner_events *ret);
bool core_ready(struct core *c, char *why, size_t cap); /* false: why holds the reason */
/* The settings core_open copied (region, version, output_max, …); lives as long as the core. */
const struct core_config *core_settings(const struct core *c);
/* End: finish or destroy sandboxes by configuration, close. */
void core_close(struct core *c);

/* ---- who asks ---- */

#define CORE_NAME_MAX 160 /* the longest: DESTROYED_<128 bytes>_<ms> */
#define CORE_USER_MAX 64

enum core_perm {
	PERM_WRITE_SANDBOXES = 1 << 0,
	PERM_DELETE_SANDBOXES = 1 << 1,
	PERM_WRITE_SNAPSHOTS = 1 << 2,
	PERM_DELETE_SNAPSHOTS = 1 << 3,
	PERM_MANAGE_API_KEYS = 1 << 4,
	PERM_READ_AUDIT = 1 << 5,
	PERM_OTHER = 1 << 6, /* the contract's other permissions, kept as text */
	PERM_ALL = 0xffff,
};

struct caller {
	char user_id[ID_LEN], org_id[ID_LEN];
	char key_name[CORE_NAME_MAX];
	char key_prefix[12], key_suffix[8]; /* for the audit, never the whole key */
	int64_t key_expires_ms;		    /* 0: never */
	uint32_t perms;
	char address[RUNNER_IP_LEN];
	char user_agent[200];
	char source[64]; /* X-Daytona-Source or the like */
};

/* Token to caller; org (or NULL/"") must be the key's organization: else ERR_NOT_FOUND.
 * A wrong or missing token: ERR_UNAUTHORIZED. address, user_agent, source are left alone. */
int identity_check(struct core *c, const char *token, const char *org, struct caller *ret,
		   struct err *err);
int identity_need(const struct caller *who, uint32_t perm, struct err *err); /* ERR_FORBIDDEN */

struct api_key {
	char name[CORE_NAME_MAX], user_id[ID_LEN], org_id[ID_LEN];
	char masked[24];			      /* "dtn_********abc" */
	char value[80];				      /* plain text, only in the reply of create */
	char permissions[1024];			      /* comma list of the contract's names */
	int64_t created_ms, last_used_ms, expires_ms; /* 0 = never / none */
};
int api_key_create(struct core *c, const struct caller *who, const char *name,
		   const char *permissions, int64_t expires_ms, struct api_key *ret,
		   struct err *err);
int api_key_list(struct core *c, const struct caller *who, struct api_key **ret, size_t *ret_n,
		 struct err *err); /* free() */
int api_key_get(struct core *c, const struct caller *who, const char *name, struct api_key *ret,
		struct err *err); /* name NULL: the one used for this call */
int api_key_delete(struct core *c, const struct caller *who, const char *name, struct err *err);

struct org {
	char id[ID_LEN], name[CORE_NAME_MAX], created_by[ID_LEN];
	int64_t created_ms, updated_ms;
	unsigned max_cpu, max_memory_gib, max_disk_gib; /* per sandbox */
};
int org_get(struct core *c, const struct caller *who, const char *id, struct org *ret,
	    struct err *err); /* id NULL: the caller's */

struct user {
	char id[ID_LEN], name[CORE_NAME_MAX], email[CORE_NAME_MAX];
	int64_t created_ms;
};
int user_get(struct core *c, const struct caller *who, struct user *ret, struct err *err);

/* One row per mutating call, written by the dialect's leave hook. */
struct audit_entry {
	const char *action, *target_type, *target_id, *error;
	int status;
};
void audit_write(struct core *c, const struct caller *who, const struct audit_entry *e);

/* ---- sandboxes ---- */

/*
 *   create ─► CREATING ─► STARTED ─► STOPPING ─► STOPPED ─► STARTING ─► STARTED
 *                │           │           │           │
 *                └► ERROR ◄──┴───────────┴───────────┘         any ─► DESTROYING ─► DESTROYED
 */
#define SANDBOX_STATES(X)                                                                          \
	X(SB_CREATING, "creating")                                                                 \
	X(SB_STARTING, "starting")                                                                 \
	X(SB_STARTED, "started")                                                                   \
	X(SB_STOPPING, "stopping")                                                                 \
	X(SB_STOPPED, "stopped")                                                                   \
	X(SB_DESTROYING, "destroying")                                                             \
	X(SB_DESTROYED, "destroyed")                                                               \
	X(SB_ERROR, "error")

enum sandbox_state {
#define SB_ENUM_(name, text) name,
	SANDBOX_STATES(SB_ENUM_)
#undef SB_ENUM_
		SB_STATE_MAX
};
const char *sandbox_state_name(enum sandbox_state s);
int sandbox_state_parse(const char *text); /* -1 unknown */

struct sandbox {
	char id[ID_LEN], org_id[ID_LEN], name[CORE_NAME_MAX];
	char snapshot[CORE_NAME_MAX]; /* "" none */
	char snapshot_id[ID_LEN];
	char user[CORE_USER_MAX];
	char region[64];
	struct kv env, labels;
	bool is_public, network_block_all, no_new_privs, warm;
	char *network_allow_list, *domain_allow_list; /* NULL: not set */
	unsigned cpu, memory_mib, disk_gib;	      /* cores, MiB, GiB */
	enum sandbox_state state, desired;
	char error_reason[ERR_MSG_MAX];
	bool recoverable;
	int64_t auto_stop_min, auto_pause_min, auto_archive_min, auto_delete_min;
	int64_t auto_destroy_ms; /* wall ms, 0 none */
	int64_t created_ms, updated_ms, last_activity_ms;
	char ip4[RUNNER_IP_LEN], ip6[RUNNER_IP_LEN];
	char workdir[1024]; /* of the image, "" = home of the user */
};
void sandbox_done(struct sandbox *s);
#define auto_sandbox auto_call(sandbox_done)

/* What a create asks. Pointers are borrowed. Absent numbers are INT64_MIN (SPEC_UNSET). */
#define SPEC_UNSET INT64_MIN
struct sandbox_spec {
	const char *name, *snapshot, *user, *target;
	const struct kv *env, *labels;
	bool is_public, network_block_all, no_new_privs;
	const char *network_allow_list, *domain_allow_list;
	/* Refused with snapshot set; memory: 512 or whole GiB. */
	int64_t cpu, memory_mib, disk_gib;
	int64_t auto_stop_min, auto_pause_min, auto_archive_min, auto_delete_min, ttl_min;
	/* Replay protection: same key and digest give the same sandbox, other digest ERR_CONFLICT.
	 */
	const char *idempotency_key;
	uint8_t body_digest[32];
};

/* Blocks until started, failed or config.hold_ms; then *ret is the state of that moment. A taken
 * name is ERR_CONFLICT and err->msg names the existing id. */
int sandbox_create(struct core *c, const struct caller *who, const struct sandbox_spec *spec,
		   int client, struct sandbox *ret, struct err *err);
int sandbox_get(struct core *c, const struct caller *who, const char *id_or_name,
		struct sandbox *ret, struct err *err);
int sandbox_start(struct core *c, const struct caller *who, const char *id_or_name, int client,
		  struct sandbox *ret, struct err *err);
int sandbox_stop(struct core *c, const struct caller *who, const char *id_or_name, bool force,
		 int client, struct sandbox *ret, struct err *err);
/* A sandbox in error that is recoverable is started again, with its files where it had any; or,
 * without start, is stopped afterwards, its processes dead. */
int sandbox_recover(struct core *c, const struct caller *who, const char *id_or_name, bool start,
		    int client, struct sandbox *ret, struct err *err);
/* Answers at once (state destroying or destroyed); cleaning is in the background. */
int sandbox_delete(struct core *c, const struct caller *who, const char *id_or_name,
		   struct sandbox *ret, struct err *err);
int sandbox_set_labels(struct core *c, const struct caller *who, const char *id_or_name,
		       const struct kv *labels, struct sandbox *ret, struct err *err);
int sandbox_set_public(struct core *c, const struct caller *who, const char *id_or_name, bool on,
		       struct sandbox *ret, struct err *err);
enum sandbox_timer { TIMER_STOP, TIMER_PAUSE, TIMER_ARCHIVE, TIMER_DELETE, TIMER_TTL };
int sandbox_set_timer(struct core *c, const struct caller *who, const char *id_or_name,
		      enum sandbox_timer t, int64_t minutes, struct sandbox *ret, struct err *err);
int sandbox_touch(struct core *c, const struct caller *who, const char *id_or_name,
		  struct err *err);
/* What is set wins over what goes, by name or by the start of its value. Pointers may be NULL. */
struct sandbox_env_change {
	const struct kv *set;
	const char *const *unset; /* names */
	size_t nunset;
	const char *unset_value_prefix; /* "" or NULL: none */
};
/* Environment of processes started later, as one step. ret (may be NULL): the new whole map. */
int sandbox_env(struct core *c, const struct caller *who, const char *id,
		const struct sandbox_env_change *change, struct kv *ret, struct err *err);

enum sandbox_sort { SORT_ACTIVITY, SORT_NAME, SORT_CPU, SORT_MEMORY, SORT_DISK, SORT_CREATED };

struct sandbox_query {
	const char *id_prefix, *name_prefix; /* NULL: any; case-insensitive */
	const struct kv *labels;	     /* all pairs must match */
	uint32_t states;		     /* bit 1 << enum, 0 any live */
	const char *const *snapshots;
	size_t nsnapshots;
	const char *const *regions;
	size_t nregions;
	/* cores, MiB, GiB; SPEC_UNSET */
	int64_t min_cpu, max_cpu, min_memory, max_memory, min_disk, max_disk;
	int is_public, is_recoverable; /* -1 any */
	int64_t created_after, created_before, active_after, active_before;
	int64_t destroy_after, destroy_before; /* wall ms, SPEC_UNSET any */
	bool include_errored_deleted, include_warm;
	enum sandbox_sort sort;
	bool ascending;
	unsigned limit;	    /* 1..200 */
	uint64_t offset;    /* rows left out before the first, without a cursor */
	const char *cursor; /* opaque, from the page before; NULL first */
};

struct sandbox_page {
	struct sandbox *item;
	size_t n;
	char next[512]; /* "" none */
};
void sandbox_page_done(struct sandbox_page *p);
int sandbox_list(struct core *c, const struct caller *who, const struct sandbox_query *q,
		 struct sandbox_page *ret, struct err *err);

/* How many the query's filters select. */
int sandbox_count(struct core *c, const struct caller *who, const struct sandbox_query *q,
		  uint64_t *ret, struct err *err);

struct sandbox_metrics {
	struct runner_stats s;
	double cpu_used_pct; /* of the limit, over the time since the last call, at least 100 ms;
				the first time since the start */
	uint64_t disk_total, disk_used, disk_free;
	struct agent_traffic net; /* as the sandbox sees it: received is what came in */
	int64_t at_ms;
};
int sandbox_metrics(struct core *c, const struct caller *who, const char *id,
		    struct sandbox_metrics *ret, struct err *err);

/* TCP ports somebody inside listens on, ascending; free(). */
int sandbox_ports(struct core *c, const struct caller *who, const char *id, uint16_t **ret,
		  size_t *ret_n, struct err *err);

/* ---- events ---- */

enum core_event_kind { EV_SANDBOX_CREATED, EV_SANDBOX_STATE, EV_SANDBOX_OOM };
struct core_event {
	enum core_event_kind kind;
	const struct sandbox *sandbox; /* borrowed for the call */
	enum sandbox_state old_state;
	const char *text; /* oom: "limit 1073741824, peak …, victim python3 (pid 17)" */
};

/*
 * What happened to a sandbox, oldest first: each state it came into with the reason, if any, and
 * each memory exhaustion. The newest 500 are kept, for 7 days, until the sandbox is gone.
 */
#define HISTORY_MAX 500
struct history_item {
	int64_t id; /* grows with time */
	int64_t at_ms;
	char kind[16];		/* "state", "oom" */
	int state;		/* enum sandbox_state; -1 for other kinds */
	char text[ERR_MSG_MAX]; /* the reason; of "oom" a sentence of the numbers below */
	uint64_t limit, peak;	/* bytes, of "oom" */
	char victim[64];	/* name of the program that was killed; any bytes but NUL */
};
struct history_page {
	struct history_item *item; /* free() */
	size_t n;
	int64_t next; /* 0: no more by now */
};
/* limit 1..HISTORY_MAX; after: next of the page before, or the last id seen, 0 first. */
int sandbox_history(struct core *c, const struct caller *who, const char *id_or_name, int64_t after,
		    unsigned limit, struct history_page *ret, struct err *err);

/* What the agent of a started sandbox noted of its last failures, oldest first. free() *ret. */
int sandbox_notes(struct core *c, const struct caller *who, const char *id_or_name,
		  struct agent_note **ret, size_t *ret_n, struct err *err);

/* Subscribers of an organization; fn runs on the publisher's thread and must not block. */
struct core_sub;
struct core_sub *core_subscribe(struct core *c, const struct caller *who,
				void (*fn)(void *arg, const struct core_event *ev), void *arg,
				struct err *err);
void core_unsubscribe(struct core *c, struct core_sub *s);

/* ---- exec ---- */

enum exec_cause { EXEC_EXITED, EXEC_SIGNAL, EXEC_TIMEOUT, EXEC_OOM };

struct exec_spec {
	const char *sandbox;	 /* id or name */
	bool shell;		 /* argv[0] is shell text */
	const char *const *argv; /* NULL-terminated */
	const struct kv *env;	 /* over the sandbox's own */
	const char *cwd;	 /* NULL: working directory, falling back; else must be usable */
	const char *user;	 /* NULL: the sandbox's */
	int64_t timeout_ms;	 /* 0 none */
	bool merge;		 /* stderr into stdout in order */
	bool tty;
	uint16_t cols, rows;
	const void *input; /* given whole on stdin, then end of file; NULL: /dev/null */
	size_t input_len;
	unsigned linger_ms; /* of exec_run: a client's hang-up kills only after so long */
};

struct exec_result {
	enum exec_cause cause;
	int exit_code; /* 128 + signal when a signal ended it */
	int signal;
	uint64_t total_out, total_err; /* bytes produced, also those the sink refused */
	uint64_t oom_limit, oom_peak;
	char oom_victim[64];
	char cwd[1024];
	bool cwd_fell_back;
	int64_t wall_us, cpu_us, maxrss_kib;
};

/* Sink of output; stream 1 or 2. Return -1 to stop: the tree is killed. Called on this thread. */
typedef int (*exec_sink_fn)(void *arg, int stream, const void *p, size_t n, struct err *err);
int exec_run(struct core *c, const struct caller *who, const struct exec_spec *spec,
	     exec_sink_fn sink, void *arg, int client, struct exec_result *ret, struct err *err);

/* Interactive form: the handler pumps the descriptors itself and calls exec_end for the result. */
struct exec_handle;
struct exec_handle *exec_open(struct core *c, const struct caller *who,
			      const struct exec_spec *spec, bool want_stdin, struct err *err);
struct agent_proc *exec_proc(struct exec_handle *h);
/* After agent_proc_exit reported ex: fill ret (oom, cause). timed_out: the handler killed it. */
void exec_end(struct exec_handle *h, const struct agent_exit *ex, bool timed_out,
	      struct exec_result *ret);
/* When err is the agent's hang-up under a running command: whether the sandbox was stopped or
 * deleted meanwhile is said there (ERR_GONE, SANDBOX_STOPPED). Waits a moment for that news. */
void exec_cut(struct exec_handle *h, const struct caller *who, struct err *err);
void exec_free(struct exec_handle *h); /* kills the tree when it still runs */

/* ---- files; relative paths start at the working directory ---- */

int file_stat(struct core *c, const struct caller *who, const char *id, const char *path,
	      struct agent_info *ret, struct err *err);
int file_list(struct core *c, const struct caller *who, const char *id, const char *path,
	      uint32_t depth, agent_list_fn fn, void *arg, bool *ret_more, struct err *err);
int file_open(struct core *c, const struct caller *who, const char *id, const char *path,
	      uint32_t flags, mode_t mode, struct agent_info *ret, struct err *err);
int file_mkdir(struct core *c, const struct caller *who, const char *id, const char *path,
	       mode_t mode, struct err *err); /* like mkdir -p */
int file_move(struct core *c, const struct caller *who, const char *id, const char *from,
	      const char *to, struct err *err);
int file_remove(struct core *c, const struct caller *who, const char *id, const char *path,
		bool recursive, struct err *err);
int file_setattr(struct core *c, const struct caller *who, const char *id, const char *path,
		 const mode_t *mode, const char *owner, const char *group, struct err *err);
int sandbox_home(struct core *c, const struct caller *who, const char *id, char *out, size_t cap,
		 struct err *err);
int sandbox_workdir(struct core *c, const struct caller *who, const char *id, char *out, size_t cap,
		    struct err *err);

/* ---- images and snapshots ---- */

struct image {
	char id[ID_LEN], name[CORE_NAME_MAX];
	char layer[PRIV_LAYER_ID_LEN];
	char user[CORE_USER_MAX], workdir[1024];
	uint64_t bytes, files;
	int64_t created_ms;
};
int image_import(struct core *c, const struct caller *who, const char *name, int tar_fd,
		 runner_progress_fn progress, void *arg, struct image *ret, struct err *err);
int image_list(struct core *c, const struct caller *who, struct image **ret, size_t *ret_n,
	       struct err *err); /* free() */
int image_delete(struct core *c, const struct caller *who, const char *name, struct err *err);

struct snapshot {
	char id[ID_LEN], org_id[ID_LEN], name[CORE_NAME_MAX], image[CORE_NAME_MAX];
	bool general;
	char state[16]; /* "active" */
	uint64_t bytes;
	unsigned cpu, memory_gib, disk_gib;
	int64_t created_ms, updated_ms, last_used_ms;
};
struct snapshot_page {
	struct snapshot *item;
	size_t n;
	unsigned total, page, pages;
};
int snapshot_list(struct core *c, const struct caller *who, const char *name_part, unsigned page,
		  unsigned limit, struct snapshot_page *ret, struct err *err); /* free(ret->item) */
int snapshot_get(struct core *c, const struct caller *who, const char *id_or_name,
		 struct snapshot *ret, struct err *err);

#endif
