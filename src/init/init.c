/*
 * init.c - caisson-init, pid 1 of a sandbox: start-up.
 *
 * Started with fd 3 = listening unix socket, fd 4 = status pipe (gets 'R' when the loop serves,
 * then is closed), fd 5 = directory of the delegated cgroup v2 or closed, 0-2 = /dev/null. It
 * needs no argument, environment, file or library of the image. It never exits: the death of pid 1
 * kills the sandbox, so from main on every fault is answered and survived. Each system call and
 * touched page here is paid at every create.
 */
#include "init/init.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/sys.h"

static struct init the_init;
static const char marker[] = AGENT_MARKER;

/*
 * All signals stay blocked for good; SIGCHLD is read from a descriptor. Pid 1 gets no signal it
 * has no handler for, so nothing can end us but the kernel's own (SIGSEGV of a bug) and the
 * parent namespace. Ignored dispositions of our starter would reach the commands: reset them.
 */
static int signals_take(void)
{
	static const unsigned long deflt[8];
	sigset_t all, chld;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	/* Raw, with an all-zero action (SIG_DFL): libc hides the first real-time signals. */
	for (int sig = 1; sig <= 64; sig++)
		syscall(SYS_rt_sigaction, sig, deflt, NULL, 8);
	sigemptyset(&chld);
	sigaddset(&chld, SIGCHLD);
	return signalfd(-1, &chld, SFD_CLOEXEC | SFD_NONBLOCK);
}

/*
 * The score of a command is raised by raising our own around its birth: it is inherited, and going
 * back down to where we were needs no capability. The file must be opened before dumpable is off,
 * for /proc/self then belongs to nobody here. A failure means no raise.
 */
static void oom_take(struct init *in)
{
	ssize_t n;

	in->oom = open("/proc/self/oom_score_adj", O_RDWR | O_CLOEXEC);
	if (in->oom < 0)
		return;
	n = read(in->oom, in->oom_own, sizeof(in->oom_own) - 1);
	if (n <= 0) {
		close(in->oom);
		in->oom = -1;
	}
}

static void fds_take(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	while (fd >= 0 && fd <= 2);
	if (fd > INIT_FD_CGROUP)
		close(fd);
	fcntl(INIT_FD_LISTEN, F_SETFD, FD_CLOEXEC);
	fcntl(INIT_FD_LISTEN, F_SETFL, O_NONBLOCK);
	fcntl(INIT_FD_STATUS, F_SETFD, FD_CLOEXEC);
	fcntl(INIT_FD_CGROUP, F_SETFD, FD_CLOEXEC);
	/* Whatever else leaked into us ends here (CVE-2024-21626). */
	sys_close_range(INIT_FD_CGROUP + 1, ~0u, 0);
}

int main(void)
{
	struct init *in = &the_init;

	__asm__ volatile("" : : "r"(marker)); /* nobody reads it, the linker must keep it */
	fds_take();
	oom_take(in);
	/* No one in here may read our descriptors, memory or executable through /proc. */
	prctl(PR_SET_DUMPABLE, 0);
	prctl(PR_SET_NAME, "caisson-init");
	in->signals = signals_take();
	in->wake = -1;
	in->epoll = epoll_create1(EPOLL_CLOEXEC);
	(void)!chdir("/");
	umask(0);
	loop_run(in);
}
