/*
 * upper.c - see upper.h. Two threads stand behind it:
 *
 *   retired ─► releaser: ends the mount ─► untouched: ready again
 *                                     └──► sweeper, of low priority: removes the tree
 *
 * What is listed for them in memory is all in the trash directory, so nothing is lost over a crash.
 */
#include "box/upper.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/path.h"
#include "box/upper_mark.h"

#define UPPER_POOL_MAX	 64
#define UPPER_SWEEP_NICE 15
#define UPPER_HELD_MAX	 64 /* mounts that wait for their end; one more is ended by its caller */
#define UPPER_BATCH	 8
#define UPPER_BATCH_MS	 4
#define UPPER_LIST_MAX	 1000000
#define IOPRIO_IDLE	 (3 << 13) /* IOPRIO_CLASS_IDLE */

/* A thread and what it has not taken up yet. */
struct lane {
	struct retired *first, **last;
	unsigned n;
	bool busy, runs;
	pthread_cond_t work;
	pthread_t thread;
};

struct upper_store {
	int boxes, trash;
	struct upper_mark mark; /* mode 0: none to compare with; constant after the opening */
	unsigned pool_max;
	pthread_mutex_t lock; /* guards what follows */
	pthread_cond_t idle;
	unsigned ready[UPPER_POOL_MAX];
	unsigned nready, next;
	struct lane release, sweep;
	bool leftovers; /* the trash may hold what is not listed */
	bool stop;
};

static int upper_make(struct upper_store *s, const char *name, struct err *err)
{
	auto_close int dir = -1;

	if (mkdirat(s->boxes, name, 0700) < 0)
		return err_errno(err, err_code_of_errno(errno), errno, "make upper %s", name);
	dir = openat(s->boxes, name, O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (dir < 0 || mkdirat(dir, "upper", 0755) < 0 || mkdirat(dir, "work", 0700) < 0)
		return err_errno(err, ERR_INTERNAL, errno, "make upper %s", name);
	return 0;
}

/* A number for a ready upper, or 0 when there are max. */
static unsigned pool_number(struct upper_store *s, unsigned max)
{
	unsigned n;

	pthread_mutex_lock(&s->lock);
	n = s->nready < max ? s->next++ : 0;
	pthread_mutex_unlock(&s->lock);
	return n;
}

/* Two threads fill the pool; one too many is left to them to be made and not kept. */
static bool pool_add(struct upper_store *s, unsigned n)
{
	bool room;

	pthread_mutex_lock(&s->lock);
	room = s->nready < UPPER_POOL_MAX;
	if (room)
		s->ready[s->nready++] = n;
	pthread_mutex_unlock(&s->lock);
	return room;
}

bool upper_refill(struct upper_store *s, bool brim)
{
	unsigned max = brim ? s->pool_max : s->pool_max - s->pool_max / 2, n;
	bool full;

	while ((n = pool_number(s, max)) != 0) {
		char name[32];

		snprintf(name, sizeof(name), ".pool-%u", n);
		if (upper_make(s, name, NULL) < 0 || !pool_add(s, n))
			break;
	}
	pthread_mutex_lock(&s->lock);
	full = s->nready >= s->pool_max;
	pthread_mutex_unlock(&s->lock);
	return full;
}

int upper_create(struct upper_store *s, const char *id, struct err *err)
{
	char name[32];
	unsigned n = 0;

	pthread_mutex_lock(&s->lock);
	if (s->nready)
		n = s->ready[--s->nready];
	pthread_mutex_unlock(&s->lock);
	if (n == 0)
		return upper_make(s, id, err);
	snprintf(name, sizeof(name), ".pool-%u", n);
	if (syscall(SYS_renameat2, s->boxes, name, s->boxes, id, 1 /* RENAME_NOREPLACE */) == 0)
		return 0;
	if (errno == ENOENT)
		return upper_make(s, id, err);
	return err_errno(err, errno == EEXIST ? ERR_CONFLICT : ERR_INTERNAL, errno, "make upper %s",
			 id);
}

int upper_check(struct upper_store *s, const char *id, struct err *err)
{
	auto_close int dir = openat(s->boxes, id, O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	struct stat st;

	if (dir < 0 || fstatat(dir, "upper", &st, AT_SYMLINK_NOFOLLOW) < 0)
		return err_set(err, ERR_NOT_FOUND, "the files of sandbox %s are not here", id);
	/* What an end left half done, and the mark of a volatile mount that the next would refuse.
	 */
	if (path_remove_tree(dir, "work", err) < 0)
		return -1;
	if (mkdirat(dir, "work", 0700) < 0)
		return err_errno(err, ERR_INTERNAL, errno, "make work directory of %s", id);
	return 0;
}

/* An entry of the trash, and the mount that must go before it. */
struct retired {
	struct retired *next;
	int root; /* or -1 */
	char name[ID_LEN + 16];
};

static void lane_add(struct upper_store *s, struct lane *l, struct retired *r)
{
	pthread_mutex_lock(&s->lock);
	if (r) {
		r->next = NULL;
		*l->last = r;
		l->last = &r->next;
		l->n++;
	} else {
		s->leftovers = true;
		l = &s->sweep;
	}
	pthread_cond_signal(&l->work);
	pthread_mutex_unlock(&s->lock);
}

/* Called with lock held. */
static struct retired *lane_take(struct lane *l)
{
	struct retired *r = l->first;

	l->first = NULL;
	l->last = &l->first;
	l->n = 0;
	return r;
}

static bool lane_full(struct upper_store *s)
{
	bool full;

	pthread_mutex_lock(&s->lock);
	full = s->release.n >= UPPER_HELD_MAX;
	pthread_mutex_unlock(&s->lock);
	return full;
}

int upper_retire(struct upper_store *s, const char *id, int root, struct err *err)
{
	auto_close int own = root;
	struct retired *r = malloc(sizeof(*r));
	char name[sizeof(r->name)], tail[9];

	id_hex(tail, 4);
	snprintf(name, sizeof(name), "%s.%s", id, tail);
	if (renameat(s->boxes, id, s->trash, name) < 0) {
		free(r);
		return errno == ENOENT ? 0
				       : err_errno(err, ERR_INTERNAL, errno, "retire upper %s", id);
	}
	if (r) {
		memcpy(r->name, name, sizeof(name));
		r->root = lane_full(s) ? -1 : TAKE_FD(own);
	}
	/* Before it is listed: an upper is looked at when no mount of it is left. */
	scope_close(&own);
	own = -1;
	lane_add(s, &s->release, r);
	return 0;
}

int upper_list(struct upper_store *s, char (**ret)[ID_LEN], size_t *ret_n, struct err *err)
{
	int fd = openat(s->boxes, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	auto_closedir DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	auto_free char(*list)[ID_LEN] = NULL;
	size_t n = 0, cap = 0;
	struct dirent *ent;

	if (!dir)
		return err_errno(err, ERR_INTERNAL, errno, "list uppers");
	while ((ent = readdir(dir)) && n < UPPER_LIST_MAX) {
		if (!id_valid(ent->d_name))
			continue;
		if (n == cap) {
			void *more = realloc(list, (cap = cap ? 2 * cap : 64) * ID_LEN);

			if (!more)
				return err_set(err, ERR_NOMEM, "out of memory");
			list = more;
		}
		memcpy(list[n++], ent->d_name, ID_LEN);
	}
	*ret_n = n;
	*ret = TAKE_PTR(list);
	return 0;
}

/* True when the trash's entry is a ready upper now. */
static bool upper_again(struct upper_store *s, const char *entry)
{
	/* A quarter more may come back than is made. */
	unsigned n = pool_number(s, MIN(s->pool_max + s->pool_max / 4, UPPER_POOL_MAX));
	char name[32];

	snprintf(name, sizeof(name), ".pool-%u", n);
	{
		auto_close int box =
			openat(s->trash, entry, O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

		if (n == 0 || box < 0 || !s->mark.mode || !upper_is_new(box, &s->mark))
			return false;
	}
	if (renameat(s->trash, entry, s->boxes, name) < 0)
		return false;
	if (!pool_add(s, n))
		upper_retire(s, name, -1, NULL);
	return true;
}

static void trash_remove(struct upper_store *s, const char *name)
{
	struct err err = {0};

	if (path_remove_tree(s->trash, name, &err) < 0)
		log_warn("trash %s stays: %s", name, err.msg);
}

/*
 * Letting go of a root file system syncs the whole disk below it; of the second one and those after
 * it there is next to nothing left to sync. So a few are gathered, while more come.
 */
static void release_gather(struct upper_store *s)
{
	const struct timespec nap = {.tv_nsec = UPPER_BATCH_MS * 1000000L};

	for (unsigned n = 0; !s->stop && s->release.n > n && s->release.n < UPPER_BATCH;) {
		n = s->release.n;
		pthread_mutex_unlock(&s->lock);
		nanosleep(&nap, NULL);
		pthread_mutex_lock(&s->lock);
	}
}

static void release_list(struct upper_store *s, struct retired *r)
{
	struct retired *next;

	for (; r; r = next) {
		next = r->next;
		if (r->root >= 0)
			close(r->root);
		r->root = -1;
		if (upper_again(s, r->name))
			free(r);
		else
			lane_add(s, &s->sweep, r);
	}
}

static void sweep_list(struct upper_store *s, struct retired *r)
{
	struct retired *next;

	for (; r; r = next) {
		next = r->next;
		trash_remove(s, r->name);
		free(r);
	}
}

/*
 * What an earlier process left, or what the list had no memory for. Some of it may still be
 * mounted, so all is removed. A tree that can't be stays for the next start.
 */
static void trash_scan(struct upper_store *s)
{
	int fd = openat(s->trash, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	auto_closedir DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *ent;

	while (dir && (ent = readdir(dir)))
		if (strcmp(ent->d_name, ".") != 0 && strcmp(ent->d_name, "..") != 0)
			trash_remove(s, ent->d_name);
}

static void *releaser_main(void *arg)
{
	struct upper_store *s = arg;
	struct lane *l = &s->release;

	pthread_mutex_lock(&s->lock);
	while (!s->stop) {
		struct retired *r;

		l->busy = true;
		release_gather(s);
		r = lane_take(l);
		pthread_mutex_unlock(&s->lock);
		release_list(s, r);
		pthread_mutex_lock(&s->lock);
		l->busy = false;
		pthread_cond_broadcast(&s->idle);
		while (!s->stop && !l->first)
			pthread_cond_wait(&l->work, &s->lock);
	}
	pthread_mutex_unlock(&s->lock);
	return NULL;
}

static void *sweeper_main(void *arg)
{
	struct upper_store *s = arg;
	struct lane *l = &s->sweep;

	/* Threads have their own nice value and I/O class on Linux. */
	setpriority(PRIO_PROCESS, (id_t)gettid(), UPPER_SWEEP_NICE);
	syscall(SYS_ioprio_set, 1, 0, IOPRIO_IDLE);
	pthread_mutex_lock(&s->lock);
	while (!s->stop) {
		struct retired *r = lane_take(l);
		bool scan = s->leftovers;

		s->leftovers = false;
		l->busy = true;
		pthread_mutex_unlock(&s->lock);
		sweep_list(s, r);
		if (scan)
			trash_scan(s);
		pthread_mutex_lock(&s->lock);
		l->busy = false;
		pthread_cond_broadcast(&s->idle);
		while (!s->stop && !l->first && !s->leftovers)
			pthread_cond_wait(&l->work, &s->lock);
	}
	pthread_mutex_unlock(&s->lock);
	return NULL;
}

static bool store_busy(const struct upper_store *s)
{
	return s->release.first || s->release.busy || s->sweep.first || s->sweep.busy ||
	       s->leftovers;
}

int upper_settle(struct upper_store *s, int64_t deadline_ms, struct err *err)
{
	int rc = 0;

	pthread_mutex_lock(&s->lock);
	while (rc == 0 && store_busy(s)) {
		int64_t at = clock_wall_ms() + clock_left_ms(deadline_ms);
		struct timespec ts = {.tv_sec = at / 1000, .tv_nsec = (at % 1000) * 1000000};

		rc = pthread_cond_timedwait(&s->idle, &s->lock, &ts);
	}
	pthread_mutex_unlock(&s->lock);
	return rc ? err_set(err, ERR_TIMEOUT, "the trash is not empty yet") : 0;
}

static int store_dir(int data_dir, const char *name, struct err *err)
{
	int fd;

	if (mkdirat(data_dir, name, 0700) < 0 && errno != EEXIST)
		return err_errno(err, ERR_INTERNAL, errno, "make %s", name);
	fd = openat(data_dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	return fd < 0 ? err_errno(err, ERR_INTERNAL, errno, "open %s", name) : fd;
}

/* Unclaimed pool entries of a former run go to the trash: their numbers start again. */
static void pool_collect(struct upper_store *s)
{
	int fd = openat(s->boxes, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	auto_closedir DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *ent;

	while (dir && (ent = readdir(dir))) {
		if (strncmp(ent->d_name, ".pool-", 6) == 0)
			upper_retire(s, ent->d_name, -1, NULL);
	}
}

static void mark_learn(struct upper_store *s)
{
	auto_close int fd = -1;
	char name[32];
	unsigned n = pool_number(s, s->pool_max);

	snprintf(name, sizeof(name), ".pool-%u", n);
	if (n == 0 || upper_make(s, name, NULL) < 0)
		return;
	snprintf(name, sizeof(name), ".pool-%u/upper", n);
	fd = openat(s->boxes, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 || upper_mark_get(fd, &s->mark) < 0)
		s->mark.mode = 0;
	pool_add(s, n);
}

static void lane_init(struct lane *l)
{
	l->last = &l->first;
	pthread_cond_init(&l->work, NULL);
}

static int lane_start(struct upper_store *s, struct lane *l, void *(*fn)(void *arg),
		      struct err *err)
{
	l->runs = pthread_create(&l->thread, NULL, fn, s) == 0;
	return l->runs ? 0 : err_set(err, ERR_NOMEM, "start a thread of the upper store");
}

struct upper_store *upper_store_open(int data_dir, unsigned pool, struct err *err)
{
	struct upper_store *s = calloc(1, sizeof(*s));

	if (!s) {
		err_set(err, ERR_NOMEM, "out of memory");
		return NULL;
	}
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->idle, NULL);
	lane_init(&s->release);
	lane_init(&s->sweep);
	s->pool_max = MIN(pool, UPPER_POOL_MAX);
	s->next = 1;
	s->leftovers = true;
	s->trash = -1;
	s->boxes = store_dir(data_dir, "boxes", err);
	if (s->boxes >= 0)
		s->trash = store_dir(data_dir, "trash", err);
	if (s->boxes < 0 || s->trash < 0) {
		upper_store_close(s);
		return NULL;
	}
	path_spread(s->boxes);
	pool_collect(s);
	mark_learn(s);
	if (lane_start(s, &s->release, releaser_main, err) < 0 ||
	    lane_start(s, &s->sweep, sweeper_main, err) < 0) {
		upper_store_close(s);
		return NULL;
	}
	return s;
}

/* Ready uppers are empty; the next store makes its own. */
static void pool_remove(struct upper_store *s)
{
	while (s->nready) {
		char name[32];
		auto_close int dir = -1;

		snprintf(name, sizeof(name), ".pool-%u", s->ready[--s->nready]);
		dir = openat(s->boxes, name, O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
		if (dir < 0)
			continue;
		unlinkat(dir, "upper", AT_REMOVEDIR);
		unlinkat(dir, "work", AT_REMOVEDIR);
		unlinkat(s->boxes, name, AT_REMOVEDIR);
	}
}

/* The entries stay for the next store. */
static void lane_done(struct lane *l)
{
	struct retired *r = lane_take(l), *next;

	for (; r; r = next) {
		next = r->next;
		if (r->root >= 0)
			close(r->root);
		free(r);
	}
	pthread_cond_destroy(&l->work);
}

void upper_store_close(struct upper_store *s)
{
	if (!s)
		return;
	pthread_mutex_lock(&s->lock);
	s->stop = true;
	pthread_cond_signal(&s->release.work);
	pthread_cond_signal(&s->sweep.work);
	pthread_mutex_unlock(&s->lock);
	if (s->release.runs)
		pthread_join(s->release.thread, NULL);
	if (s->sweep.runs)
		pthread_join(s->sweep.thread, NULL);
	pool_remove(s);
	lane_done(&s->release);
	lane_done(&s->sweep);
	if (s->boxes >= 0)
		close(s->boxes);
	if (s->trash >= 0)
		close(s->trash);
	pthread_mutex_destroy(&s->lock);
	pthread_cond_destroy(&s->idle);
	free(s);
}
