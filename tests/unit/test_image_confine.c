/*
 * test_image_confine.c - from inside the unpacker's confinement: what must fail, fails.
 *
 * Each probe runs in a child of its own behind confine_enter and answers by its exit status.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <sys/xattr.h>

#include "base/sys.h"
#include "image/confine.h"
#include "tarball.h"

#define FILE_MAX_BYTES (1 << 20)
#define SETUP_FAILED   99

/* 0 = the probe was stopped, 1 = it went through. */
typedef int (*probe_fn)(int root);

static int probe_read_host_file(int root)
{
	return openat(root, "etc/passwd", O_RDONLY) >= 0 || open("/proc/self/status", 0) >= 0 ||
	       open("../../../etc/passwd", O_RDONLY) >= 0;
}

static int probe_socket(int root)
{
	(void)root;
	return socket(AF_INET, SOCK_STREAM, 0) >= 0 || socket(AF_UNIX, SOCK_STREAM, 0) >= 0;
}

static int probe_device(int root)
{
	return mknodat(root, "null", S_IFCHR | 0666, makedev(1, 3)) == 0;
}

static int probe_mount(int root)
{
	(void)root;
	return mount("proc", "/", "proc", 0, NULL) == 0 || sys_fsopen("tmpfs", 0) >= 0;
}

static int probe_namespace(int root)
{
	(void)root;
	return unshare(CLONE_NEWUSER) == 0 || unshare(CLONE_NEWNS) == 0;
}

static int probe_chroot(int root)
{
	(void)root;
	return chroot("/") == 0 || sys_pivot_root(".", ".") == 0;
}

static int probe_kill(int root)
{
	(void)root;
	return kill(getppid(), 0) == 0 || ptrace(PTRACE_ATTACH, getppid(), 0, 0) == 0;
}

static int probe_exec(int root)
{
	char *const argv[] = {"x", NULL};
	void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS,
		       -1, 0);

	execve("/x", argv, NULL);
	sys_execveat(root, "x", argv, NULL, 0);
	return p != MAP_FAILED;
}

static int probe_fork(int root)
{
	pid_t pid = fork();

	(void)root;
	if (pid == 0)
		_exit(1);
	return pid > 0;
}

static int probe_identity(int root)
{
	(void)root;
	return setuid(1) == 0 || setgroups(0, NULL) == 0;
}

static int probe_trusted_xattr(int root)
{
	return fsetxattr(root, "trusted.overlay.opaque", "y", 1, 0) == 0;
}

static int probe_large_file(int root)
{
	int fd = openat(root, "large", O_WRONLY | O_CREAT, 0600);

	return ftruncate(fd, FILE_MAX_BYTES + 1) == 0;
}

/* What unpacking needs still works, or every probe above would prove nothing. */
static int probe_honest_work(int root)
{
	int fd = openat(root, "file", O_WRONLY | O_CREAT | O_EXCL, 0600);

	return fd >= 0 && write(fd, "x", 1) == 1 && fchown(fd, 1000, 1000) == 0 &&
	       fchmod(fd, 04755) == 0 && mkdirat(root, "dir", 0700) == 0 &&
	       symlinkat("/x", root, "link") == 0 &&
	       linkat(root, "file", root, "dir/file", 0) == 0 &&
	       mknodat(root, "whiteout", S_IFCHR, 0) == 0;
}

static int run_probe(probe_fn probe)
{
	struct scratch s;
	int status = -1;
	pid_t pid;

	scratch_open(&s);
	assert_int_equal(path_write_at(s.root, "x", "#!/x\n", 5, 0755, NULL), 0);
	pid = confine_fork(NULL);
	if (pid == 0) {
		const int keep[] = {s.root};
		int root;

		signal(SIGXFSZ, SIG_IGN);
		confine_close_others(keep, 1);
		root = confine_enter(s.root, FILE_MAX_BYTES, NULL);
		close(s.root);
		_exit(root < 0 ? SETUP_FAILED : probe(root));
	}
	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	scratch_close(&s);
	assert_true(WIFEXITED(status));
	assert_int_not_equal(WEXITSTATUS(status), SETUP_FAILED);
	return WEXITSTATUS(status);
}

static void unpacker_can_do_its_work(void **state)
{
	(void)state;
	assert_int_equal(run_probe(probe_honest_work), 1);
}

static void unpacker_is_stopped_at(void **state)
{
	static const struct {
		const char *name;
		probe_fn probe;
	} rows[] = {
		{"read_host_file", probe_read_host_file},
		{"socket", probe_socket},
		{"device", probe_device},
		{"mount", probe_mount},
		{"namespace", probe_namespace},
		{"chroot", probe_chroot},
		{"kill", probe_kill},
		{"exec", probe_exec},
		{"fork", probe_fork},
		{"identity", probe_identity},
		{"trusted_xattr", probe_trusted_xattr},
		{"large_file", probe_large_file},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (run_probe(rows[i].probe) != 0)
			fail_msg("%s went through", rows[i].name);
}

static void descriptors_not_named_are_closed(void **state)
{
	int fds[6];
	pid_t pid;
	int status;

	(void)state;
	for (int i = 0; i < 6; i++)
		fds[i] = dup(1);
	pid = fork();
	if (pid == 0) {
		const int keep[] = {fds[4], fds[1], -1};
		int open_ones = 0;

		confine_close_others(keep, 3);
		for (int i = 0; i < 6; i++)
			open_ones |= (fcntl(fds[i], F_GETFD) >= 0) << i;
		_exit(open_ones);
	}
	for (int i = 0; i < 6; i++)
		close(fds[i]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(WEXITSTATUS(status), 1 << 4 | 1 << 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(unpacker_can_do_its_work),
		cmocka_unit_test(unpacker_is_stopped_at),
		cmocka_unit_test(descriptors_not_named_are_closed),
	};

	if (geteuid() != 0)
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
