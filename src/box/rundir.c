/*
 * rundir.c - <run_dir>/boxes/<id>: the agent socket, for the api alone, and the state file.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "box/host.h"

#define RUNDIR_BACKLOG 128

static int rundir_socket(int dir, struct err *err)
{
	struct sockaddr_un sun = {.sun_family = AF_UNIX};
	auto_close int sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (sock < 0)
		return err_errno(err, ERR_NOMEM, errno, "make an agent socket");
	/* Set before the bind, the mode is the file's from its birth; umask may only lessen it. */
	snprintf(sun.sun_path, sizeof(sun.sun_path), "/proc/self/fd/%d/agent.sock", dir);
	if (fchmod(sock, 0660) < 0 || bind(sock, (struct sockaddr *)&sun, sizeof(sun)) < 0 ||
	    listen(sock, RUNDIR_BACKLOG) < 0)
		return err_errno(err, ERR_INTERNAL, errno, "bind an agent socket");
	return TAKE_FD(sock);
}

/* A socket that the api may connect to. */
static int rundir_fill(const struct box_host *h, int dir, struct err *err)
{
	auto_close int sock = rundir_socket(dir, err);

	if (sock < 0)
		return -1;
	if (fchownat(dir, "agent.sock", 0, h->cfg.api_gid, AT_SYMLINK_NOFOLLOW) < 0 ||
	    fchmodat(dir, "agent.sock", 0660, 0) < 0)
		return err_errno(err, ERR_INTERNAL, errno, "give an agent socket to the api");
	return TAKE_FD(sock);
}

int box_rundir_make(struct box_host *h, const char *name, struct err *err)
{
	auto_close int dir = -1;
	auto_close int state = -1;

	if (mkdirat(h->boxes, name, 0700) < 0)
		return err_errno(err, ERR_INTERNAL, errno, "make run directory %s", name);
	dir = openat(h->boxes, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir < 0)
		return err_errno(err, ERR_INTERNAL, errno, "open run directory %s", name);
	state = openat(dir, "state", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (state < 0 || fchown(dir, 0, h->cfg.api_gid) < 0 || fchmod(dir, 0750) < 0)
		return err_errno(err, ERR_INTERNAL, errno, "give run directory %s to the api",
				 name);
	return rundir_fill(h, dir, err);
}

int box_rundir_again(struct box_host *h, const char *id, const char *name, struct err *err)
{
	auto_close int dir = openat(h->boxes, id, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	auto_close int state = -1;

	if (dir < 0)
		return err_errno(err, ERR_INTERNAL, errno, "open run directory %s", id);
	/* The old socket goes with its name: who still has it open finds nobody. */
	state = openat(dir, "state", O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
	if (state < 0 || pwrite(state, "\n", 1, 0) != 1 || unlinkat(dir, "agent.sock", 0) < 0 ||
	    renameat(h->boxes, id, h->boxes, name) < 0)
		return err_errno(err, ERR_INTERNAL, errno, "empty run directory %s", id);
	return rundir_fill(h, dir, err);
}

void box_rundir_remove(struct box_host *h, const char *name)
{
	auto_close int dir = openat(h->boxes, name, O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

	if (dir < 0)
		return;
	unlinkat(dir, "agent.sock", 0);
	unlinkat(dir, "state", 0);
	unlinkat(h->boxes, name, AT_REMOVEDIR);
}
