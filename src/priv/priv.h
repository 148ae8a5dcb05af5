/*
 * priv.h - inside of the runner process, for the files of src/priv alone.
 *
 *   main thread     epoll: signals, the api's socket, pidfds, the kernel log
 *   4 launchers     START, KILL, DELETE, STATS, NET and the end of boxes that ended by themselves
 *   1 image thread  IMPORT, DEFAULT, LAYER_RM: the layer store takes one caller at a time
 *
 * A job carries the number of the api process it came from; its answer goes to that one or to
 * nobody. Verbs for one box run one after another, in the order they were taken up.
 */
#ifndef CAISSON_PRIV_PRIV_H
#define CAISSON_PRIV_PRIV_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/log.h"
#include "box/box.h"
#include "box/oom.h"
#include "caisson/image.h"
#include "caisson/priv.h"
#include "wire/priv_proto.h"
#include "wire/wire.h"

#define PRIV_LAUNCHERS	 4
#define PRIV_JOBS_MAX	 4096  /* waiting; beyond, verbs are answered "try again" */
#define PRIV_SEND_MS	 5000  /* longest the api may leave our messages unread */
#define PRIV_LOCK_MS	 5000  /* how long a new runner waits for its predecessor to let go */
#define PRIV_STOP_MS	 20000 /* what the api gets to finish its streams at SIGTERM */
#define PRIV_RESTART_MS	 100   /* first pause before a role is started again; doubles */
#define PRIV_RESTART_MAX 10000
#define PRIV_STABLE_MS	 60000 /* a role that lived this long starts again without a pause */
#define PRIV_API_TRIES	 5     /* starts of the api in a row that come to nothing; then we end */

/* ---- boxes: what lives, by id (boxes.c) ---- */

struct box_entry {
	struct box_entry *next;
	char id[ID_LEN];
	struct box *box; /* NULL while it is being started or ended */
	pid_t pid;	 /* of box, so the table can be searched without it */
	bool busy;	 /* one thread works on this id */
	unsigned waiting;
};

#define BOXES_BUCKETS 4096
struct boxes {
	pthread_mutex_t lock; /* guards all */
	pthread_cond_t freed;
	struct box_entry *bucket[BOXES_BUCKETS];
	uint32_t live;
};

void boxes_init(struct boxes *t);
void boxes_done(struct boxes *t);
/* Take the id for this thread; waits while another has it. NULL: out of memory or too long. */
struct box_entry *boxes_lock(struct boxes *t, const char *id, struct err *err);
/* The box, out of sight of searches and lists from now on: it is about to end. */
struct box *boxes_take(struct boxes *t, struct box_entry *e);
void boxes_set_flags(struct boxes *t, struct box_entry *e, uint32_t flags);
/* b can be found and is listed from now on, while the id stays taken. */
void boxes_publish(struct boxes *t, struct box_entry *e, struct box *b);
/* Give the id back with what stands behind it now (NULL: nothing). */
void boxes_unlock(struct boxes *t, struct box_entry *e, struct box *box);
/* Copy of the box with this id, cgroup name or pid; for reading, without waiting for its turn. */
bool boxes_find(struct boxes *t, const char *id, struct box *ret);
bool boxes_find_cg(struct boxes *t, const char *cg, struct box *ret);
bool boxes_find_pid(struct boxes *t, pid_t pid, struct box *ret);
/* The first max live boxes with an id above after, in order; returns how many. */
size_t boxes_page(struct boxes *t, const char *after, char (*id)[ID_LEN], uint32_t *pid,
		  size_t max);

/* ---- jobs ---- */

struct job {
	struct job *next;
	uint64_t peer; /* number of the api process; 0: our own */
	uint32_t seq;
	uint16_t verb;
	char reqid[LOG_REQID_LEN];
	int fd; /* passed along, or -1 */
	/* arguments, decoded and in range; which ones depends on the verb */
	char id[ID_LEN]; /* also: list after this one */
	char layer[PRIV_LAYER_ID_LEN];
	uint64_t max_bytes;
	uint32_t flags;
	uint8_t what;
	pid_t pid;
	struct box_spec spec; /* points into what follows */
	char **layers;
	char hostname[BOX_HOSTNAME_LEN];
	char why[PRIV_WHY_MAX];
};
struct job *job_new(void);
void job_free(struct job *j);

struct queue {
	pthread_mutex_t lock;
	pthread_cond_t more;
	struct job *first, **last;
	unsigned n;
	bool stop;
};
void queue_init(struct queue *q);
void queue_done(struct queue *q);
bool queue_put(struct queue *q, struct job *j); /* false: full, j stays the caller's */
struct job *queue_take(struct queue *q);	/* NULL: stopped and empty */
void queue_stop(struct queue *q);

/* ---- a child process that is kept running (role.c) ---- */

struct role {
	const char *name;
	pid_t pid; /* 0: not running */
	int pidfd;
	int64_t started_ms, next_ms; /* next_ms: when to start again, 0 while running */
	int64_t pause_ms;
};

struct priv {
	const struct priv_config *cfg;
	char instance[PRIV_INSTANCE_LEN];
	char run_dir[128], layers_dir[512];
	int data, lock;
	int epoll, signals, kmsg;
	struct net *net;
	struct box_host *host;
	struct image_store *images;
	struct boxes boxes;
	struct queue work, image_work;
	pthread_t launcher[PRIV_LAUNCHERS], image_thread;
	unsigned nlaunchers;
	bool image_runs;
	bool adopted; /* boxes holds all that lives */

	struct role api, netrole;
	bool api_ready;		    /* the one that runs serves */
	unsigned api_failed;	    /* how many in a row ended before they served */
	char api_why[PRIV_WHY_MAX]; /* what the last of them said */
	bool given_up;
	int net_control;      /* our end; the role ends when it closes */
	pthread_mutex_t send; /* guards sock and peer while sending */
	int sock;	      /* our end of the pair with the api, -1 without one */
	uint64_t peer;	      /* counts api processes */
	bool stopping;
	int64_t stop_ms; /* when patience with the api ends */
};

/* decode.c: bytes of the api into a job; NULL when they break the protocol (fd is closed). */
struct job *decode_message(const uint8_t *msg, size_t n, int fd);

/* verbs.c: -1 means the peer broke the protocol and must die. Owns fd. */
int verb_dispatch(struct priv *p, const uint8_t *msg, size_t n, int fd);
/* run by launchers and the image thread; j stays the caller's */
void verb_run(struct priv *p, struct box_launcher *l, struct job *j);
void verb_run_image(struct priv *p, struct job *j);
/* Queue the end of a box whose pid 1 has ended. */
void verb_reap(struct priv *p, pid_t pid);
/* A verb of our own instead of the api's: PRIV_EV_EXITED, run by a launcher. */
#define PRIV_VERB_REAP PRIV_EV_EXITED

/* peer.c */
#define PRIV_HEAD_MAX 64
struct wire_out peer_message(uint8_t *buf, size_t cap, uint32_t seq, uint16_t verb,
			     const char *reqid);
void peer_send(struct priv *p, uint64_t peer, const struct wire_out *o);
void peer_reply_err(struct priv *p, const struct job *j, const struct err *err);
void peer_event_exited(struct priv *p, const char *id, pid_t pid);
void peer_event_oom(struct priv *p, const struct oom_event *ev);
void peer_drop(struct priv *p); /* close our end: the api ends by it */

/* setup.c */
int priv_setup(struct priv *p, struct err *err);
void priv_teardown(struct priv *p);
/* Watch the pidfd of a box; its end comes back through verb_reap. */
int priv_watch_box(struct priv *p, const struct box *b, struct err *err);

/* strangers.c: end what instances left whose data directory is gone. */
void strangers_collect(struct priv *p);
/* Say in the run directory whose instance this is. */
int strangers_mark(struct priv *p, struct err *err);
void strangers_unmark(struct priv *p);

/* loop.c */
int priv_loop(struct priv *p);

/* What an epoll event is about: the kind in the upper half, a pid in the lower. */
enum priv_source { SRC_SIGNAL = 1, SRC_API_SOCK, SRC_API_PID, SRC_NET_PID, SRC_KMSG, SRC_BOX };
int priv_watch(struct priv *p, int fd, uint32_t events, enum priv_source src, uint32_t low,
	       struct err *err);

#endif
