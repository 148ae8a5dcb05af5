/*
 * uids.c - see uids.h. Ids start at 0x70000000: above what distributions give to users,
 * subordinate ranges, systemd's dynamic users and nspawn's containers.
 */
#include "box/uids.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/path.h"

#define UIDS_FIRST  0x70000000u
#define UIDS_BLOCK  256 /* ranges under one lock */
#define UIDS_BLOCKS 128 /* up to 0xefffffff */

struct uid_block {
	int lock; /* flock held while >= 0 */
	uint8_t used[UIDS_BLOCK];
};

struct uids {
	pthread_mutex_t lock; /* guards all below */
	int dir;
	char instance[16];
	uids_busy_fn busy;
	void *arg;
	unsigned next; /* range after the last one given: a used range rests as long as it can */
	struct uid_block block[UIDS_BLOCKS];
};

struct uids *uids_open(const char *dir, const char *instance, uids_busy_fn busy, void *arg,
		       struct err *err)
{
	struct uids *u = calloc(1, sizeof(*u));

	if (!u) {
		err_set(err, ERR_NOMEM, "out of memory");
		return NULL;
	}
	pthread_mutex_init(&u->lock, NULL);
	for (int i = 0; i < UIDS_BLOCKS; i++)
		u->block[i].lock = -1;
	snprintf(u->instance, sizeof(u->instance), "%s", instance);
	u->busy = busy;
	u->arg = arg;
	u->dir = -1;
	if ((mkdir(dir, 0755) == 0 || errno == EEXIST))
		u->dir = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (u->dir < 0) {
		err_errno(err, ERR_INTERNAL, errno, "open %s", dir);
		uids_close(u);
		return NULL;
	}
	return u;
}

void uids_close(struct uids *u)
{
	if (!u)
		return;
	for (int i = 0; i < UIDS_BLOCKS; i++) {
		if (u->block[i].lock >= 0)
			close(u->block[i].lock);
	}
	if (u->dir >= 0)
		close(u->dir);
	pthread_mutex_destroy(&u->lock);
	free(u);
}

/* 1 when the block is ours now, 0 when somebody else has it. */
static int block_claim(struct uids *u, unsigned i, struct err *err)
{
	char name[32], owner[16] = "";
	auto_close int fd = -1;

	if (u->block[i].lock >= 0)
		return 1;
	snprintf(name, sizeof(name), "uids-%u", i);
	fd = openat(u->dir, name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return err_errno(err, ERR_INTERNAL, errno, "open uid block %u", i);
	if (flock(fd, LOCK_EX | LOCK_NB) < 0)
		return 0;
	if (pread(fd, owner, sizeof(owner) - 1, 0) < 0)
		return err_errno(err, ERR_INTERNAL, errno, "read uid block %u", i);
	if (owner[0] && strcmp(owner, u->instance) != 0 && u->busy && u->busy(u->arg, owner))
		return 0;
	if (ftruncate(fd, 0) < 0 ||
	    pwrite(fd, u->instance, strlen(u->instance), 0) != (ssize_t)strlen(u->instance))
		return err_errno(err, ERR_INTERNAL, errno, "write uid block %u", i);
	u->block[i].lock = TAKE_FD(fd);
	return 1;
}

/* A free range of the blocks held, searching on from the last one; -1 when all are used. */
static int range_find(struct uids *u)
{
	for (unsigned k = 0; k < UIDS_BLOCK * UIDS_BLOCKS; k++) {
		unsigned r = (u->next + k) % (UIDS_BLOCK * UIDS_BLOCKS);
		struct uid_block *b = &u->block[r / UIDS_BLOCK];

		if (b->lock < 0) {
			k += UIDS_BLOCK - 1 - r % UIDS_BLOCK;
			continue;
		}
		if (!b->used[r % UIDS_BLOCK])
			return (int)r;
	}
	return -1;
}

static int range_find_more(struct uids *u, struct err *err)
{
	for (unsigned i = 0; i < UIDS_BLOCKS; i++) {
		int rc = u->block[i].lock >= 0 ? 0 : block_claim(u, i, err);

		if (rc < 0)
			return -1;
		if (rc == 1)
			return range_find(u);
	}
	return err_set(err, ERR_UNAVAILABLE, "all %u user id ranges of this machine are in use",
		       UIDS_BLOCK * UIDS_BLOCKS);
}

int uids_claim(struct uids *u, uid_t *ret_base, struct err *err)
{
	int r;

	pthread_mutex_lock(&u->lock);
	r = range_find(u);
	if (r < 0)
		r = range_find_more(u, err);
	if (r >= 0) {
		u->block[r / UIDS_BLOCK].used[r % UIDS_BLOCK] = 1;
		u->next = (unsigned)r + 1;
		*ret_base = UIDS_FIRST + (unsigned)r * UIDS_RANGE;
	}
	pthread_mutex_unlock(&u->lock);
	return r < 0 ? -1 : 0;
}

static bool range_of(uid_t base, unsigned *ret)
{
	unsigned off = base - UIDS_FIRST;

	*ret = off / UIDS_RANGE;
	return base >= UIDS_FIRST && off % UIDS_RANGE == 0 && *ret < UIDS_BLOCK * UIDS_BLOCKS;
}

int uids_adopt(struct uids *u, uid_t base, struct err *err)
{
	unsigned r;
	int rc;

	if (!range_of(base, &r))
		return err_set(err, ERR_INVALID, "uid base %u is not a range of ours", base);
	pthread_mutex_lock(&u->lock);
	rc = block_claim(u, r / UIDS_BLOCK, err);
	if (rc == 1)
		u->block[r / UIDS_BLOCK].used[r % UIDS_BLOCK] = 1;
	pthread_mutex_unlock(&u->lock);
	if (rc == 0)
		return err_set(err, ERR_CONFLICT, "uid block of base %u belongs to another daemon",
			       base);
	return rc < 0 ? -1 : 0;
}

void uids_release(struct uids *u, uid_t base)
{
	unsigned r;

	if (!range_of(base, &r))
		return;
	pthread_mutex_lock(&u->lock);
	u->block[r / UIDS_BLOCK].used[r % UIDS_BLOCK] = 0;
	pthread_mutex_unlock(&u->lock);
}
