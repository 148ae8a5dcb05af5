/*
 * stop.c - the end of a box, and taking back what lives after a restart.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/path.h"
#include "base/sys.h"
#include "box/host.h"

#define ADOPT_SURVIVORS_MAX 16384 /* groups of one instance looked at in one go */

static int kill_wait(struct box *b, int64_t deadline_ms, struct err *err)
{
	for (;;) {
		struct pollfd p = {.fd = b->pidfd, .events = POLLIN};
		int n = poll(&p, 1, clock_left_ms(deadline_ms));

		if (n > 0)
			return 0;
		if (n < 0 && errno != EINTR)
			return err_errno(err, ERR_INTERNAL, errno, "poll");
		if (n == 0)
			return err_set(err, ERR_TIMEOUT, "pid 1 of %s does not end", b->id);
	}
}

/*
 * The death of pid 1 ends every process of its pid namespace before pid 1 can be reaped, so its
 * group is nearly always empty then; the kill of the group is the backstop for one that would not
 * be in the namespace.
 */
int box_kill(struct box_host *h, struct box *b, struct err *err)
{
	int64_t deadline = clock_mono_ms() + BOX_KILL_MS;
	siginfo_t info;

	if (b->pidfd < 0)
		return 0;
	sys_pidfd_send_signal(b->pidfd, SIGKILL);
	if (kill_wait(b, deadline, err) < 0)
		return -1;
	if (b->child)
		waitid((idtype_t)P_PIDFD, (id_t)b->pidfd, &info, WEXITED | WNOHANG);
	if (!cg_populated(&h->cg, b->cg))
		return 0;
	cg_kill(&h->cg, b->cg);
	return cg_wait_empty(&h->cg, b->cg, deadline, err);
}

void box_end(struct box_host *h, struct box *b)
{
	if (!b)
		return;
	if (b->leased)
		net_release(h->cfg.net, &b->lease);
	if (b->cg[0])
		host_cg_return(h, b->cg, &b->limits);
	if (b->uid_base)
		uids_release(h->uids, b->uid_base);
	if (b->root >= 0)
		close(b->root);
	if (b->pidfd >= 0) {
		close(b->pidfd);
		host_room_return(h, b->id);
	}
	free(b);
}

int box_stats(struct box_host *h, const struct box *b, struct cg_stats *ret, struct err *err)
{
	return cg_stats_get(&h->cg, b->cg, ret, err);
}

/* ---- adoption ---- */

struct adopt {
	struct box_host *h;
	void (*fn)(void *arg, struct box *b);
	void *arg;
	char (*alive)[CG_NAME_LEN]; /* groups of adopted boxes */
	size_t nalive;
};

static bool adopt_one(struct adopt *a, const char *id, struct err *err)
{
	struct box *b = calloc(1, sizeof(*b));

	if (!b)
		return err_set(err, ERR_NOMEM, "out of memory") == 0;
	if (box_state_read(a->h, id, b, err) < 0) {
		free(b);
		return false;
	}
	if (uids_adopt(a->h->uids, b->uid_base, err) < 0 ||
	    net_adopt(a->h->cfg.net, b->lease.slot, b->pid,
		      b->flags & PRIV_START_NET_BLOCK ? NET_BLOCK : 0, &b->lease, err) < 0) {
		close(b->pidfd);
		free(b);
		return false;
	}
	b->leased = true;
	memcpy(a->alive[a->nalive++], b->cg, CG_NAME_LEN);
	a->fn(a->arg, b);
	return true;
}

/* Groups nobody adopted: their processes are ours by the tree's name alone, so they go. */
static void adopt_sweep(void *arg, const char *name)
{
	struct adopt *a = arg;
	struct err err = {0};

	for (size_t i = 0; i < a->nalive; i++) {
		if (strcmp(a->alive[i], name) == 0)
			return;
	}
	cg_kill(&a->h->cg, name);
	if (cg_wait_empty(&a->h->cg, name, clock_mono_ms() + BOX_KILL_MS, &err) < 0)
		log_warn("leftover group %s: %s", name, err.msg);
	host_cg_return(a->h, name, NULL);
}

static void adopt_rundirs(struct adopt *a)
{
	int fd = openat(a->h->boxes, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	auto_closedir DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *ent;

	while (dir && (ent = readdir(dir))) {
		struct err err = {0};

		if (strncmp(ent->d_name, ".pool-", 6) == 0)
			box_rundir_remove(a->h, ent->d_name);
		if (!id_valid(ent->d_name) || a->nalive >= ADOPT_SURVIVORS_MAX)
			continue;
		if (adopt_one(a, ent->d_name, &err))
			continue;
		log_info("not adopted: %s", err.msg);
		box_rundir_remove(a->h, ent->d_name);
	}
}

int box_adopt(struct box_host *h, void (*fn)(void *arg, struct box *b), void *arg, struct err *err)
{
	struct adopt a = {.h = h, .fn = fn, .arg = arg};

	a.alive = calloc(ADOPT_SURVIVORS_MAX, CG_NAME_LEN);
	if (!a.alive)
		return err_set(err, ERR_NOMEM, "out of memory");
	adopt_rundirs(&a);
	cg_each(&h->cg, adopt_sweep, &a);
	net_adopted(h->cfg.net);
	free(a.alive);
	pthread_mutex_lock(&h->lock);
	h->adopted = true;
	pthread_mutex_unlock(&h->lock);
	host_janitor_wake(h);
	return 0;
}
