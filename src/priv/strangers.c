/*
 * strangers.c - what other instances left behind for ever.
 *
 * A daemon that stopped leaves living boxes to its successor, so a foreign instance is let alone
 * as long as its data directory exists. Where that is gone (a test's, or deleted by hand) no
 * successor will come: processes, groups, network and run directory go.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/path.h"
#include "priv/priv.h"

#define STRANGERS_MAX 256 /* run directories looked at in one start */
#define MARK_NAME     "data-dir"
#define END_MS	      5000

int strangers_mark(struct priv *p, struct err *err)
{
	auto_close int dir = open(p->run_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (dir < 0)
		return err_errno(err, ERR_INTERNAL, errno, "open %s", p->run_dir);
	return path_write_at(dir, MARK_NAME, p->cfg->data_dir, strlen(p->cfg->data_dir), 0600, err);
}

void strangers_unmark(struct priv *p)
{
	auto_close int dir = open(p->run_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (dir >= 0)
		unlinkat(dir, MARK_NAME, 0);
}

/* Gone, or given to another instance since. */
static bool data_dir_dead(const char *path, const char *instance)
{
	auto_close int dir = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	char text[32] = "";

	if (dir < 0)
		return errno == ENOENT;
	if (path_read_at(dir, "instance", text, sizeof(text), NULL) < 0)
		return false; /* just being made */
	text[strcspn(text, "\n")] = '\0';
	return strcmp(text, instance) != 0;
}

static void end_group(void *arg, const char *name)
{
	const struct cg_host *cg = arg;

	cg_kill(cg, name);
	cg_wait_empty(cg, name, clock_mono_ms() + END_MS, NULL);
	for (int64_t end = clock_mono_ms() + END_MS; cg_remove(cg, name);) {
		if (clock_left_ms(end) == 0)
			return;
		usleep(5000);
	}
}

static void end_instance(struct priv *p, const char *instance, int run_root)
{
	char run_dir[PATH_MAX];
	struct net_config nc = {.instance = instance,
				.run_dir = run_dir,
				.uplink_netns = p->cfg->uplink_netns,
				.pool = 1};
	struct err err = {0};
	struct cg_host cg;
	struct net *net;

	log_info("collecting what instance %s left", instance);
	snprintf(run_dir, sizeof(run_dir), "%s/%s", p->cfg->run_root, instance);
	if (cg_host_open(&cg, instance, &err) == 0)
		cg_each(&cg, end_group, &cg);
	cg_host_close(&cg, true);
	net = net_open(&nc, &err);
	if (net) {
		net_adopted(net);
		net_close(net, false);
	}
	if (path_remove_tree(run_root, instance, &err) < 0)
		log_warn("collect instance %s: %s", instance, err.msg);
}

void strangers_collect(struct priv *p)
{
	int fd = open(p->cfg->run_root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	auto_closedir DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *ent;
	int looked = 0;

	while (dir && (ent = readdir(dir)) && looked < STRANGERS_MAX) {
		char mark[PRIV_INSTANCE_LEN + sizeof(MARK_NAME) + 1], path[PATH_MAX];
		auto_close int lock = -1;

		if (strlen(ent->d_name) != PRIV_INSTANCE_LEN - 1 ||
		    strspn(ent->d_name, "0123456789abcdef") != PRIV_INSTANCE_LEN - 1 ||
		    strcmp(ent->d_name, p->instance) == 0)
			continue;
		looked++;
		snprintf(mark, sizeof(mark), "%.8s/%s", ent->d_name, MARK_NAME);
		if (path_read_at(fd, mark, path, sizeof(path), NULL) <= 0 ||
		    !data_dir_dead(path, ent->d_name))
			continue;
		lock = openat(fd, mark, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
		if (lock >= 0 && flock(lock, LOCK_EX | LOCK_NB) == 0)
			end_instance(p, ent->d_name, fd);
	}
}
