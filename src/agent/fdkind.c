/*
 * fdkind.c - is a descriptor from a sandbox what it should be?
 *
 * A descriptor of the wrong kind could block a thread for ever (FUSE, a FIFO someone holds), act
 * when read (a device, a proc file) or lead elsewhere. The file description is shared with the
 * sender, so its flags and offset may change under us at any time: users poll before they read,
 * use a deadline, and take short, long and endless files for possible.
 */
#include "agent/call.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

#define MAGIC_PIPEFS 0x50495045

static int kind_fault(struct err *err, const char *want)
{
	return err_set(err, ERR_AGENT, "the sandbox's agent passed something that is no %s", want);
}

static bool mode_is(int fd, int mode)
{
	int fl = fcntl(fd, F_GETFL);

	return fl >= 0 && !(fl & O_PATH) && (fl & O_ACCMODE) == mode;
}

int agent_fd_pipe(int fd, int mode, struct err *err)
{
	struct statfs sf;
	struct stat st;

	if (fstat(fd, &st) < 0 || !S_ISFIFO(st.st_mode) || fstatfs(fd, &sf) < 0 ||
	    sf.f_type != MAGIC_PIPEFS || !mode_is(fd, mode))
		return kind_fault(err, "pipe");
	return fd_set_nonblock(fd, err);
}

int agent_fd_terminal(int fd, struct err *err)
{
	struct stat st;
	unsigned number;

	/* The multiplexer's device number: no other driver sees the ioctl. */
	if (fstat(fd, &st) < 0 || !S_ISCHR(st.st_mode) || st.st_rdev != makedev(5, 2) ||
	    !mode_is(fd, O_RDWR) || ioctl(fd, TIOCGPTN, &number) < 0)
		return kind_fault(err, "terminal");
	return fd_set_nonblock(fd, err);
}

/* File systems whose regular files answer without asking a process and hold plain bytes. */
static bool fs_plain(uint64_t magic)
{
	static const uint32_t plain[] = {
		0x794c7630, /* overlay */ 0x0000ef53,  /* ext2, 3, 4 */ 0x58465342, /* xfs */
		0x9123683e, /* btrfs */ 0x01021994,    /* tmpfs */ 0xe0f5e1e2,	    /* erofs */
		0x73717368, /* squashfs */ 0x858458f6, /* ramfs */ 0xf2f52010,	    /* f2fs */
		0x2fc12fc1, /* zfs */ 0xca451a4e,				    /* bcachefs */
	};

	for (size_t i = 0; i < ARRAY_LEN(plain); i++)
		if (plain[i] == magic)
			return true;
	return false;
}

int agent_fd_file(int fd, int mode, struct err *err)
{
	struct statfs sf;
	struct stat st;

	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || !mode_is(fd, mode) ||
	    fstatfs(fd, &sf) < 0)
		return kind_fault(err, "regular file");
	if (!fs_plain((uint64_t)sf.f_type & 0xffffffff))
		return err_tagged(err, ERR_INVALID, "INVALID_FILE_PATH",
				  "not a file on a disk of the sandbox");
	return fd_set_nonblock(fd, err);
}
