/*
 * upper.c - see upper.h. A sweeper thread of low priority empties the trash directory, which is
 * its queue: nothing is lost over a crash and nothing grows in memory.
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
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/path.h"

#define UPPER_POOL_MAX	 64
#define UPPER_SWEEP_NICE 15
#define UPPER_LIST_MAX	 1000000
#define IOPRIO_IDLE	 (3 << 13) /* IOPRIO_CLASS_IDLE */

struct upper_store {
	int boxes, trash;
	unsigned pool_max;
	pthread_mutex_t lock; /* guards what follows */
	pthread_cond_t work, idle;
	unsigned ready[UPPER_POOL_MAX];
	unsigned nready, next;
	uint64_t retired; /* counts entries moved to the trash */
	uint64_t swept;	  /* value of retired that the last finished sweep had seen */
	bool stop;
	bool sweeping;
	pthread_t sweeper;
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

void upper_refill(struct upper_store *s)
{
	for (;;) {
		char name[32];
		unsigned n;

		pthread_mutex_lock(&s->lock);
		n = s->nready < s->pool_max ? s->next++ : 0;
		pthread_mutex_unlock(&s->lock);
		if (n == 0)
			return;
		snprintf(name, sizeof(name), ".pool-%u", n);
		if (upper_make(s, name, NULL) < 0)
			return;
		pthread_mutex_lock(&s->lock);
		if (s->nready < s->pool_max)
			s->ready[s->nready++] = n;
		pthread_mutex_unlock(&s->lock);
	}
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

int upper_retire(struct upper_store *s, const char *id, struct err *err)
{
	char name[ID_LEN + 16], tail[9];

	id_hex(tail, 4);
	snprintf(name, sizeof(name), "%s.%s", id, tail);
	if (renameat(s->boxes, id, s->trash, name) < 0)
		return errno == ENOENT ? 0
				       : err_errno(err, ERR_INTERNAL, errno, "retire upper %s", id);
	pthread_mutex_lock(&s->lock);
	s->retired++;
	pthread_cond_signal(&s->work);
	pthread_mutex_unlock(&s->lock);
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

/* One pass over the trash. A tree that can't be removed stays for the next start. */
static void trash_sweep(struct upper_store *s)
{
	int fd = openat(s->trash, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	auto_closedir DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *ent;

	while (dir && (ent = readdir(dir))) {
		struct err err = {0};

		if (strcmp(ent->d_name, ".") == 0 || strcmp(ent->d_name, "..") == 0)
			continue;
		if (path_remove_tree(s->trash, ent->d_name, &err) < 0)
			log_warn("trash %s stays: %s", ent->d_name, err.msg);
	}
}

static void *sweeper_main(void *arg)
{
	struct upper_store *s = arg;

	/* Threads have their own nice value and I/O class on Linux. */
	setpriority(PRIO_PROCESS, (id_t)gettid(), UPPER_SWEEP_NICE);
	syscall(SYS_ioprio_set, 1, 0, IOPRIO_IDLE);
	pthread_mutex_lock(&s->lock);
	while (!s->stop) {
		uint64_t seen = s->retired;

		s->sweeping = true;
		pthread_mutex_unlock(&s->lock);
		trash_sweep(s);
		pthread_mutex_lock(&s->lock);
		s->sweeping = false;
		s->swept = seen;
		pthread_cond_broadcast(&s->idle);
		while (!s->stop && s->retired == seen)
			pthread_cond_wait(&s->work, &s->lock);
	}
	pthread_mutex_unlock(&s->lock);
	return NULL;
}

int upper_settle(struct upper_store *s, int64_t deadline_ms, struct err *err)
{
	int rc = 0;

	pthread_mutex_lock(&s->lock);
	while (rc == 0 && (s->swept != s->retired || s->sweeping)) {
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
			upper_retire(s, ent->d_name, NULL);
	}
}

struct upper_store *upper_store_open(int data_dir, unsigned pool, struct err *err)
{
	struct upper_store *s = calloc(1, sizeof(*s));

	if (!s) {
		err_set(err, ERR_NOMEM, "out of memory");
		return NULL;
	}
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->work, NULL);
	pthread_cond_init(&s->idle, NULL);
	s->pool_max = MIN(pool, UPPER_POOL_MAX);
	s->next = 1;
	s->trash = -1;
	s->boxes = store_dir(data_dir, "boxes", err);
	if (s->boxes >= 0)
		s->trash = store_dir(data_dir, "trash", err);
	if (s->boxes < 0 || s->trash < 0) {
		s->stop = true;
		upper_store_close(s);
		return NULL;
	}
	pool_collect(s);
	if (pthread_create(&s->sweeper, NULL, sweeper_main, s) != 0) {
		s->stop = true;
		upper_store_close(s);
		err_set(err, ERR_NOMEM, "start the sweeper thread");
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

void upper_store_close(struct upper_store *s)
{
	if (!s)
		return;
	if (!s->stop) {
		pthread_mutex_lock(&s->lock);
		s->stop = true;
		pthread_cond_signal(&s->work);
		pthread_mutex_unlock(&s->lock);
		pthread_join(s->sweeper, NULL);
	}
	pool_remove(s);
	if (s->boxes >= 0)
		close(s->boxes);
	if (s->trash >= 0)
		close(s->trash);
	pthread_mutex_destroy(&s->lock);
	pthread_cond_destroy(&s->work);
	pthread_cond_destroy(&s->idle);
	free(s);
}
