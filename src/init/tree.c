/*
 * tree.c - all processes of one exec, setsid and double fork or not.
 *
 * By leaf: the exec is born in a cgroup x<seq> below the delegated directory (clone3 with
 * CLONE_INTO_CGROUP). Nobody inside can leave it, the kill is one atomic write, and the leaf is
 * removed when it is empty. Without clone3 (old kernels, a filter of others) there are no leaves,
 * and moving a process into one is no substitute: it takes a lock that waits for an RCU grace
 * period unless it was taken just before, 14 ms measured, on each command that comes alone.
 *
 * By marker: each exec's processes inherit a value of the limit RLIMIT_LOCKS, which the kernel has
 * ignored since 2.4.25 and shows to everybody in /proc/PID/limits. It survives fork, exec and
 * setsid and can't be raised again. A process may lower it and so stay behind, as it could by
 * letting its command end; the sandbox's own kill takes it all the same. To kill, everything found
 * is stopped first, again and again until nothing new is found, for what is stopped can't fork.
 */
#include "init/init.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"

#define TREE_ROUNDS   1000
#define TREE_SWEEP_MS 100
#define TREE_MARK     (0x436ull << 52) /* the exec's number and TREE_SUBS bits follow */

static size_t tree_retired; /* leaves that were not empty when their exec ended */

/* "x<seq>" and file; no printf on this path: its pages would be touched in every sandbox. */
static void leaf_path(char out[48], uint32_t seq, const char *file)
{
	char digits[12];
	size_t n = 0, at = 0;

	do {
		digits[n++] = (char)('0' + seq % 10);
		seq /= 10;
	} while (seq);
	out[at++] = 'x';
	while (n)
		out[at++] = digits[--n];
	memcpy(out + at, file, strlen(file) + 1);
}

/* Asked once: with a size of 0 the call itself is refused, a missing one differently. */
static bool leaves_possible(void)
{
	static int possible = -1;

	if (possible < 0)
		possible = fcntl(INIT_FD_CGROUP, F_GETFD) >= 0 &&
			   syscall(SYS_clone3, NULL, 0) < 0 && errno == EINVAL;
	return possible > 0;
}

int tree_make(uint32_t seq)
{
	char path[48];

	if (!leaves_possible())
		return -1;
	leaf_path(path, seq, "");
	if (mkdirat(INIT_FD_CGROUP, path, 0755) < 0 && errno != EEXIST)
		return -1;
	return openat(INIT_FD_CGROUP, path, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

uint64_t tree_mark_of(uint32_t seq, uint32_t sub)
{
	return TREE_MARK | (uint64_t)seq << TREE_SUBS | sub;
}

void tree_mark(uint32_t seq)
{
	uint64_t own = tree_mark_of(seq, TREE_SUB_MAX);
	struct rlimit mark = {.rlim_cur = own, .rlim_max = own};

	setrlimit(RLIMIT_LOCKS, &mark);
}

void tree_retire(const struct exec *e)
{
	char path[48];

	if (!e->leaf)
		return;
	leaf_path(path, e->seq, "");
	if (unlinkat(INIT_FD_CGROUP, path, AT_REMOVEDIR) < 0 && errno != ENOENT)
		tree_retired++;
}

static bool leaf_name(const char *s)
{
	return s[0] == 'x' && s[1] && s[1 + strspn(s + 1, "0123456789")] == '\0';
}

/* A live exec's leaf is never empty, so rmdir itself tells the two apart. */
void tree_sweep(void)
{
	static int64_t last_ms;
	auto_closedir DIR *dir = NULL;
	struct dirent *ent;
	int fd;

	if (!tree_retired || clock_mono_ms() - last_ms < TREE_SWEEP_MS)
		return;
	last_ms = clock_mono_ms();
	fd = openat(INIT_FD_CGROUP, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	dir = fd < 0 ? NULL : fdopendir(fd);
	if (!dir) {
		if (fd >= 0)
			close(fd);
		return;
	}
	tree_retired = 0;
	while ((ent = readdir(dir)))
		if (leaf_name(ent->d_name) &&
		    unlinkat(INIT_FD_CGROUP, ent->d_name, AT_REMOVEDIR) < 0)
			tree_retired++;
}

/* ---- by marker ---- */

static ssize_t proc_read(int proc, const char *pid, const char *file, char *out, size_t cap)
{
	char path[40];
	size_t n = strlen(pid), k = strlen(file);
	auto_close int fd = -1;
	ssize_t got;

	if (n + k >= sizeof(path))
		return -1;
	memcpy(path, pid, n);
	memcpy(path + n, file, k + 1);
	fd = openat(proc, path, O_RDONLY | O_CLOEXEC);
	got = fd < 0 ? -1 : read(fd, out, cap - 1);
	if (got >= 0)
		out[got] = '\0';
	return got;
}

/* State letter and session of /proc/PID/stat; the name may hold anything, so from its last ')'. */
static char stat_parse(const char *text, pid_t *ret_session)
{
	const char *p = strrchr(text, ')');
	char state, *end;

	*ret_session = -1;
	if (!p || p[1] != ' ' || !p[2] || p[3] != ' ')
		return 'X';
	state = p[2];
	strtol(p + 3, &end, 10);		     /* parent */
	strtol(end, &end, 10);			     /* group */
	*ret_session = (pid_t)strtol(end, &end, 10); /* session */
	return state;
}

struct wanted {
	pid_t session; /* all of it, too; 0: none */
	pid_t spare;   /* one to be left out */
	uint64_t mark, mask;
};

static struct wanted wanted_tree(const struct exec *e)
{
	return (struct wanted){.session = e->pid,
			       .mark = tree_mark_of(e->seq, 0),
			       .mask = ~(uint64_t)TREE_SUB_MAX};
}

/* Is it a live one of those wanted? Its state as ps has it, else 0. */
static char proc_wanted(int proc, const char *pid, const struct wanted *w)
{
	char text[2048];
	const char *p;
	pid_t session;
	char state;

	if (proc_read(proc, pid, "/stat", text, sizeof(text)) <= 0)
		return 0;
	state = stat_parse(text, &session);
	if (state == 'Z' || state == 'X')
		return 0;
	if (w->session && session == w->session)
		return state;
	if (proc_read(proc, pid, "/limits", text, sizeof(text)) <= 0)
		return 0;
	p = strstr(text, "Max file locks");
	if (!p || (strtoull(p + strlen("Max file locks"), NULL, 10) & w->mask) != w->mark)
		return 0;
	return state;
}

/* Signal the processes of the tree once; stopped ones are left out on request. How many? */
static size_t marked_signal(const struct wanted *w, int sig, bool spare_stopped)
{
	auto_closedir DIR *proc = opendir("/proc");
	struct dirent *ent;
	size_t n = 0;

	while (proc && (ent = readdir(proc))) {
		pid_t pid;
		char state;

		if (ent->d_name[0] < '1' || ent->d_name[0] > '9')
			continue;
		pid = (pid_t)strtol(ent->d_name, NULL, 10);
		state = pid > 1 && pid != w->spare ? proc_wanted(dirfd(proc), ent->d_name, w) : 0;
		if (!state || (spare_stopped && (state == 'T' || state == 't')))
			continue;
		n += kill(pid, sig) == 0;
	}
	return n;
}

static void marked_kill(const struct wanted *w)
{
	for (int i = 0; i < TREE_ROUNDS && marked_signal(w, SIGSTOP, true); i++)
		continue;
	for (int i = 0; i < TREE_ROUNDS && marked_signal(w, SIGKILL, false); i++)
		continue;
}

void tree_sub_signal(uint64_t mark, pid_t spare, int sig)
{
	struct wanted w = {.mark = mark, .mask = ~0ull, .spare = spare};

	if (sig == SIGKILL)
		marked_kill(&w);
	else
		marked_signal(&w, sig, false);
}

/* ---- by leaf ---- */

static int leaf_write(const struct exec *e, const char *file, const char *text)
{
	char path[48];
	auto_close int fd = -1;

	leaf_path(path, e->seq, file);
	fd = openat(INIT_FD_CGROUP, path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	return write(fd, text, strlen(text)) < 0 ? -1 : 0;
}

/* The same as marked_signal for the processes of the leaf. */
static size_t leaf_signal(const struct exec *e, int sig)
{
	char path[48], text[4096 + 1];
	auto_close int fd = -1;
	size_t len = 0, n = 0;
	ssize_t got;

	leaf_path(path, e->seq, "/cgroup.procs");
	fd = openat(INIT_FD_CGROUP, path, O_RDONLY | O_CLOEXEC);
	while (fd >= 0 && (got = read(fd, text + len, sizeof(text) - 1 - len)) > 0) {
		char *at = text, *end;

		len += (size_t)got;
		text[len] = '\0';
		while ((end = strchr(at, '\n'))) {
			pid_t pid = (pid_t)strtol(at, NULL, 10);

			n += pid > 1 && kill(pid, sig) == 0;
			at = end + 1;
		}
		len -= (size_t)(at - text);
		memmove(text, at, len);
	}
	return n;
}

void tree_signal(const struct exec *e, int sig)
{
	struct wanted w = wanted_tree(e);

	if (e->leaf)
		leaf_signal(e, sig);
	else
		marked_signal(&w, sig, false);
}

bool tree_empty(const struct exec *e)
{
	struct wanted w = wanted_tree(e);

	return e->leaf ? leaf_signal(e, 0) == 0 : marked_signal(&w, 0, false) == 0;
}

void tree_kill(const struct exec *e)
{
	struct wanted w = wanted_tree(e);

	if (!e->leaf) {
		marked_kill(&w);
		return;
	}
	/* Linux before 5.14 has no cgroup.kill: one by one until nothing is left. */
	if (leaf_write(e, "/cgroup.kill", "1") < 0)
		for (int i = 0; i < TREE_ROUNDS && leaf_signal(e, SIGKILL); i++)
			continue;
}
