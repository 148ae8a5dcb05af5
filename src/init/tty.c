/*
 * tty.c - a terminal of the sandbox's own devpts for one exec.
 *
 * /dev belongs to the sandbox, so the multiplexer is known by its device number, and the other end
 * is asked from the master itself (TIOCGPTPEER): no path of /dev/pts is ever followed
 * (CVE-2025-52565).
 */
#include "init/init.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#ifndef TIOCGPTPEER
#define TIOCGPTPEER 0x5441
#endif

#define PTMX_MAJOR 5
#define PTMX_MINOR 2

int tty_resize(int master, uint16_t cols, uint16_t rows)
{
	struct winsize ws = {.ws_row = rows ? rows : TTY_ROWS, .ws_col = cols ? cols : TTY_COLS};

	return ioctl(master, TIOCSWINSZ, &ws);
}

static int ptmx_open(void)
{
	static const char *const path[] = {"/dev/ptmx", "/dev/pts/ptmx"};

	for (size_t i = 0; i < ARRAY_LEN(path); i++) {
		struct stat st;
		auto_close int fd = open(path[i], O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);

		if (fd < 0 || fstat(fd, &st) < 0)
			continue;
		if (S_ISCHR(st.st_mode) && st.st_rdev == makedev(PTMX_MAJOR, PTMX_MINOR))
			return TAKE_FD(fd);
		errno = ENODEV;
	}
	return -1;
}

int tty_open(const struct user *u, uint16_t cols, uint16_t rows, int *ret_master, int *ret_slave,
	     struct err *err)
{
	auto_close int master = ptmx_open();
	auto_close int slave = -1;
	int unlocked = 0;

	if (master < 0)
		return err_errno(err, ERR_UNAVAILABLE, errno, "open a terminal");
	if (ioctl(master, TIOCSPTLCK, &unlocked) < 0)
		return err_errno(err, ERR_INTERNAL, errno, "unlock the terminal");
	slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (slave < 0)
		return err_errno(err, ERR_INTERNAL, errno, "open the terminal's other end");
	tty_resize(master, cols, rows);
	/* The user must be able to open /dev/tty's name again; where we may not, root keeps it. */
	(void)!fchown(slave, u->uid, (gid_t)-1);
	*ret_master = TAKE_FD(master);
	*ret_slave = TAKE_FD(slave);
	return 0;
}
