/*
 * doctor_try.c - see doctor_try.h.
 */
#include "box/doctor_try.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netlink.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/sys.h"
#include "box/files.h"

#define TRY_BASE    0x70000000u
#define TRY_WAIT_MS 1000

/* A user namespace with the ids of a box, from a child that lives just long enough. */
static int try_userns(struct err *err)
{
	char path[40], line[40];
	auto_close int in = -1;
	int ready[2], fd = -1, n;
	char c;
	pid_t pid;

	if (pipe2(ready, O_CLOEXEC) < 0)
		return err_errno(err, ERR_NOMEM, errno, "make a pipe");
	in = ready[0];
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (unshare(CLONE_NEWUSER) == 0 && write(ready[1], "R", 1) == 1)
			pause();
		_exit(1);
	}
	close(ready[1]);
	if (pid < 0)
		return err_errno(err, ERR_NOMEM, errno, "fork");
	if (fd_read_all(in, &c, 1, clock_mono_ms() + TRY_WAIT_MS, NULL) < 0) {
		err_set(err, ERR_INTERNAL, "user namespaces can't be made");
	} else {
		n = snprintf(line, sizeof(line), "0 %u 65536", TRY_BASE);
		snprintf(path, sizeof(path), "/proc/%d/uid_map", pid);
		path_write_at(AT_FDCWD, path, line, (size_t)n, 0, NULL);
		snprintf(path, sizeof(path), "/proc/%d/gid_map", pid);
		path_write_at(AT_FDCWD, path, line, (size_t)n, 0, NULL);
		snprintf(path, sizeof(path), "/proc/%d/ns/user", pid);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			err_errno(err, ERR_INTERNAL, errno, "open a user namespace");
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	return fd;
}

static int try_idmap(const char *path, int userns, struct err *err)
{
	struct mount_attr attr = {.attr_set = MOUNT_ATTR_IDMAP, .userns_fd = (uint64_t)userns};
	auto_close int fd = sys_open_tree(AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);

	if (fd < 0)
		return err_errno(err, ERR_INTERNAL, errno, "clone a mount of %s", path);
	if (sys_mount_setattr(fd, "", AT_EMPTY_PATH, &attr) < 0)
		return err_errno(err, ERR_INTERNAL, errno,
				 "the file system of %s does not map ids in mounts", path);
	return TAKE_FD(fd);
}

static int overlay_sources(int fs, int lower, int box, const char *stage, bool by_fd)
{
	auto_close int upper = openat(box, "upper", O_PATH | O_DIRECTORY | O_CLOEXEC);
	auto_close int work = openat(box, "work", O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (by_fd) {
		if (sys_fsconfig(fs, FSCONFIG_SET_FD, "lowerdir+", NULL, lower) < 0 ||
		    sys_fsconfig(fs, FSCONFIG_SET_FD, "upperdir", NULL, upper) < 0)
			return -1;
		return sys_fsconfig(fs, FSCONFIG_SET_FD, "workdir", NULL, work);
	}
	/* In the private mount namespace of this process. */
	if (chdir(stage) < 0 ||
	    sys_move_mount(lower, "", AT_FDCWD, "at0", MOVE_MOUNT_F_EMPTY_PATH) < 0 ||
	    sys_move_mount(box, "", AT_FDCWD, "at1", MOVE_MOUNT_F_EMPTY_PATH) < 0 ||
	    sys_fsconfig(fs, FSCONFIG_SET_STRING, "lowerdir", "at0", 0) < 0 ||
	    sys_fsconfig(fs, FSCONFIG_SET_STRING, "upperdir", "at1/upper", 0) < 0)
		return -1;
	return sys_fsconfig(fs, FSCONFIG_SET_STRING, "workdir", "at1/work", 0);
}

/* The file is the box's root's through the overlay, and root's (0) on the disk. */
static int overlay_write(int mnt, const char *upper, struct err *err)
{
	struct stat in, on;
	char path[512];
	auto_close int fd = openat(mnt, "file", O_CREAT | O_RDWR | O_CLOEXEC, 0600);

	snprintf(path, sizeof(path), "%s/file", upper);
	if (fd < 0 || fstat(fd, &in) < 0 || stat(path, &on) < 0)
		return err_errno(err, ERR_INTERNAL, errno, "the overlay is not writable");
	if (in.st_uid != TRY_BASE || on.st_uid != 0)
		return err_set(err, ERR_INTERNAL,
			       "the overlay maps ids wrongly (%u inside, %u out)", in.st_uid,
			       on.st_uid);
	return 0;
}

static int overlay_try(const char *stage, int userns, bool by_fd, struct err *err)
{
	char lower_path[400], box_path[400], upper_path[400];
	auto_close int lower = -1;
	auto_close int box = -1;
	auto_close int fs = -1;
	auto_close int mnt = -1;
	int rc;

	snprintf(lower_path, sizeof(lower_path), "%s/lower", stage);
	snprintf(box_path, sizeof(box_path), "%s/box", stage);
	snprintf(upper_path, sizeof(upper_path), "%s/box/upper", stage);
	lower = try_idmap(lower_path, userns, err);
	if (lower < 0)
		return -1;
	box = try_idmap(box_path, userns, err);
	if (box < 0)
		return -1;
	fs = sys_fsopen("overlay", FSOPEN_CLOEXEC);
	if (fs < 0)
		return err_errno(err, ERR_INTERNAL, errno, "this kernel has no overlay");
	setfsgid(TRY_BASE);
	setfsuid(TRY_BASE);
	rc = overlay_sources(fs, lower, box, stage, by_fd);
	if (rc == 0)
		rc = sys_fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0);
	if (rc < 0)
		return err_errno(err, ERR_INTERNAL, errno, "an overlay of idmapped layers");
	mnt = sys_fsmount(fs, FSMOUNT_CLOEXEC, MOUNT_ATTR_NODEV);
	if (mnt < 0)
		return err_errno(err, ERR_INTERNAL, errno, "mount the overlay");
	return overlay_write(mnt, upper_path, err);
}

/* In a child: credentials and mount namespace are changed for good there. */
static int overlay_child(const char *stage, int userns, bool by_fd, struct err *err)
{
	pid_t pid = fork();
	int status = 0;

	if (pid < 0)
		return err_errno(err, ERR_NOMEM, errno, "fork");
	if (pid == 0) {
		prctl(PR_SET_SECUREBITS, 1 << 2 /* SECBIT_NO_SETUID_FIXUP */);
		if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL))
			_exit(1);
		_exit(overlay_try(stage, userns, by_fd, err) < 0 ? 1 : 0);
	}
	if (waitpid(pid, &status, 0) != pid || status != 0)
		return err_set(err, ERR_INTERNAL, "an overlay of idmapped layers does not work");
	return 0;
}

int try_overlay(const char *dir, bool *ret_by_fd, struct err *err)
{
	static const char *const sub[] = {"lower", "box", "box/upper", "box/work", "at0", "at1"};
	auto_close int at = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	auto_close int userns = -1;
	char stage[300];
	int rc = 0;

	snprintf(stage, sizeof(stage), "%s/.check-XXXXXX", dir);
	if (at < 0 || !mkdtemp(stage))
		return err_errno(err, ERR_INTERNAL, errno, "make a directory in %s", dir);
	for (size_t i = 0; i < ARRAY_LEN(sub); i++) {
		char path[400];

		snprintf(path, sizeof(path), "%s/%s", stage, sub[i]);
		if (mkdir(path, 0755) < 0)
			rc = err_errno(err, ERR_INTERNAL, errno, "make %s", path);
	}
	if (rc == 0)
		userns = try_userns(err);
	if (userns < 0)
		rc = -1;
	*ret_by_fd = true;
	if (rc == 0 && overlay_child(stage, userns, true, err) < 0) {
		*ret_by_fd = false;
		rc = overlay_child(stage, userns, false, err);
	}
	path_remove_tree(at, stage + strlen(dir) + 1, NULL);
	return rc;
}

int try_device(struct err *err)
{
	auto_close int dev = files_make_dev(err);
	auto_close int fd = dev < 0 ? -1 : openat(dev, "null", O_RDWR | O_CLOEXEC);

	if (dev < 0)
		return -1;
	return fd < 0 ? err_errno(err, ERR_INTERNAL, errno, "open a /dev/null of our own") : 0;
}

int try_clone(const char *cgroup2, struct err *err)
{
	auto_close int cg = open(cgroup2, O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct clone_args args = {.flags = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID |
					   CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWCGROUP |
					   CLONE_INTO_CGROUP | CLONE_CLEAR_SIGHAND,
				  .exit_signal = SIGCHLD,
				  .cgroup = (uint64_t)cg};
	long pid = cg < 0 ? -1 : sys_clone3(&args);

	if (pid == 0)
		_exit(0);
	if (pid < 0)
		return err_errno(err, ERR_INTERNAL, errno, "clone3 with namespaces");
	waitpid((pid_t)pid, NULL, 0);
	return 0;
}

static int nft_ask(struct err *err)
{
	struct {
		struct nlmsghdr head;
		struct nfgenmsg gen;
	} msg = {.head = {.nlmsg_len = sizeof(msg),
			  .nlmsg_type = (NFNL_SUBSYS_NFTABLES << 8) | NFT_MSG_GETGEN,
			  .nlmsg_flags = NLM_F_REQUEST}};
	auto_close int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER);
	struct nlmsghdr reply[64];

	if (fd < 0 || send(fd, &msg, sizeof(msg), 0) < 0)
		return err_errno(err, ERR_INTERNAL, errno, "ask nf_tables");
	if (fd_wait(fd, POLLIN, -1, clock_mono_ms() + TRY_WAIT_MS, err) < 0)
		return err_wrap(err, "nf_tables");
	if (recv(fd, reply, sizeof(reply), 0) < (ssize_t)sizeof(reply[0]) ||
	    reply[0].nlmsg_type == NLMSG_ERROR)
		return err_set(err, ERR_INTERNAL, "this kernel has no nf_tables");
	return 0;
}

int try_nft(struct err *err)
{
	pid_t pid = fork();
	int status = 0;

	if (pid < 0)
		return err_errno(err, ERR_NOMEM, errno, "fork");
	if (pid == 0)
		_exit(unshare(CLONE_NEWNET) == 0 && nft_ask(err) == 0 ? 0 : 1);
	if (waitpid(pid, &status, 0) != pid || status != 0)
		return err_set(err, ERR_INTERNAL, "no nf_tables in a new network namespace");
	return 0;
}
