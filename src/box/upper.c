/*
 * upper.c - see upper.h. A sweeper thread of low priority empties the trash directory; what is
 * listed for it in memory is all there, so nothing is lost over a crash.
 */
#include "box/upper.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/path.h"

#define UPPER_POOL_MAX	 64
#define UPPER_SWEEP_NICE 15
#define UPPER_LIST_MAX	 1000000
#define IOPRIO_IDLE	 (3 << 13) /* IOPRIO_CLASS_IDLE */

/* What an upper that nobody wrote to looks like, compared whole. */
struct upper_mark {
	mode_t mode;
	uid_t uid;
	gid_t gid;
	nlink_t nlink;
	off_t size;
	int flags; /* of chattr */
	ssize_t xattrs;
};

struct upper_store {
	int boxes, trash;
	struct upper_mark mark; /* mode 0: none to compare with; constant after the opening */
	unsigned pool_max;
	pthread_mutex_t lock; /* guards what follows */
	pthread_cond_t work, idle;
	unsigned ready[UPPER_POOL_MAX];
	unsigned nready, next;
	struct retired *first, **last; /* what the sweeper has not taken up yet */
	bool leftovers;		       /* the trash may hold what is not in that list */
	bool stop;
	bool sweeping;
	pthread_t sweeper;
};

static int upper_mark_get(int fd, struct upper_mark *ret)
{
	struct stat st;

	memset(ret, 0, sizeof(*ret)); /* it is compared with its padding */
	if (fstat(fd, &st) < 0)
		return -1;
	ret->mode = st.st_mode;
	ret->uid = st.st_uid;
	ret->gid = st.st_gid;
	ret->nlink = st.st_nlink;
	ret->size = st.st_size;
	ret->xattrs = flistxattr(fd, NULL, 0);
	if (ioctl(fd, FS_IOC_GETFLAGS, &ret->flags) < 0)
		ret->flags = -1;
	return 0;
}

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
	unsigned max = brim ? s->pool_max : s->pool_max - s->pool_max / 4, n;
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

static void retired_add(struct upper_store *s, struct retired *r)
{
	pthread_mutex_lock(&s->lock);
	if (r) {
		r->next = NULL;
		*s->last = r;
		s->last = &r->next;
	} else {
		s->leftovers = true;
	}
	pthread_cond_signal(&s->work);
	pthread_mutex_unlock(&s->lock);
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
		r->root = TAKE_FD(own);
	}
	retired_add(s, r);
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

/* ---- uppers that come back ---- */

static bool dir_is_empty(int fd)
{
	auto_closedir DIR *dir = fdopendir(dup(fd));
	struct dirent *ent;
	int n = 0;

	while (dir && (ent = readdir(dir)))
		n++;
	return dir && n == 2;
}

/*
 * As on the day it was made: nobody's mark on the directory itself either, which is the root of
 * the next box. What its mtime could tell is wiped.
 */
static bool upper_is_new(const struct upper_store *s, int box)
{
	auto_close int fd = openat(box, "upper", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	struct upper_mark m;

	return fd >= 0 && upper_mark_get(fd, &m) == 0 && memcmp(&m, &s->mark, sizeof(m)) == 0 &&
	       dir_is_empty(fd) && futimens(fd, NULL) == 0;
}

/* Only the kernel writes here; what it leaves after an orderly end are empty directories. */
static bool work_tidy(int box)
{
	static const char *const left[] = {"work/work", "work/incompat/volatile", "work/incompat"};

	for (size_t i = 0; i < ARRAY_LEN(left); i++)
		if (unlinkat(box, left[i], AT_REMOVEDIR) < 0 && errno != ENOENT)
			return false;
	return true;
}

/* True when the trash's entry is a ready upper now. */
static bool upper_again(struct upper_store *s, const char *entry)
{
	unsigned n = pool_number(s, s->pool_max);
	char name[32];

	snprintf(name, sizeof(name), ".pool-%u", n);
	{
		auto_close int box =
			openat(s->trash, entry, O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

		if (n == 0 || box < 0 || !s->mark.mode || !upper_is_new(s, box) || !work_tidy(box))
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
 * All of the list. Letting go of a root file system syncs the whole disk below it; of the second
 * one and those after it there is next to nothing left to sync.
 */
static void trash_list(struct upper_store *s, struct retired *r)
{
	struct retired *next;

	for (; r; r = next) {
		next = r->next;
		if (r->root >= 0)
			close(r->root);
		if (!upper_again(s, r->name))
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

static struct retired *retired_take(struct upper_store *s)
{
	struct retired *r = s->first;

	s->first = NULL;
	s->last = &s->first;
	return r;
}

static void *sweeper_main(void *arg)
{
	struct upper_store *s = arg;

	/* Threads have their own nice value and I/O class on Linux. */
	setpriority(PRIO_PROCESS, (id_t)gettid(), UPPER_SWEEP_NICE);
	syscall(SYS_ioprio_set, 1, 0, IOPRIO_IDLE);
	pthread_mutex_lock(&s->lock);
	while (!s->stop) {
		struct retired *r = retired_take(s);
		bool scan = s->leftovers;

		s->leftovers = false;
		s->sweeping = true;
		pthread_mutex_unlock(&s->lock);
		trash_list(s, r);
		if (scan)
			trash_scan(s);
		pthread_mutex_lock(&s->lock);
		s->sweeping = false;
		pthread_cond_broadcast(&s->idle);
		while (!s->stop && !s->first && !s->leftovers)
			pthread_cond_wait(&s->work, &s->lock);
	}
	pthread_mutex_unlock(&s->lock);
	return NULL;
}

int upper_settle(struct upper_store *s, int64_t deadline_ms, struct err *err)
{
	int rc = 0;

	pthread_mutex_lock(&s->lock);
	while (rc == 0 && (s->first || s->leftovers || s->sweeping)) {
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
	s->last = &s->first;
	s->leftovers = true;
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
	mark_learn(s);
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

/* The entries stay for the next store. */
static void retired_drop(struct upper_store *s)
{
	struct retired *r = retired_take(s), *next;

	for (; r; r = next) {
		next = r->next;
		if (r->root >= 0)
			close(r->root);
		free(r);
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
	retired_drop(s);
	if (s->boxes >= 0)
		close(s->boxes);
	if (s->trash >= 0)
		close(s->trash);
	pthread_mutex_destroy(&s->lock);
	pthread_cond_destroy(&s->work);
	pthread_cond_destroy(&s->idle);
	free(s);
}
