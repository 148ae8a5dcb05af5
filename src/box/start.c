/*
 * start.c - one start of a box. The steps stand in box_start; whatever fails, box_undo gives
 * back what was taken, and the child, if it was born, is dead before anything it uses goes.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/crash.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/path.h"
#include "base/sys.h"
#include "box/host.h"
#include "box/rootfs.h"

#define START_BACKLOG 128
#define START_SHM_MIN (16ull << 20)
#define START_UNDO_MS 5000

const char *const box_mark_name[MARK_MAX] = {
	[MARK_CLAIMED] = "claimed", [MARK_SOCKET] = "socket", [MARK_CLONED] = "cloned",
	[MARK_MAPPED] = "mapped",   [MARK_BUILT] = "built",   [MARK_EXEC] = "child's exec",
	[MARK_READY] = "ready",
};

/* What one start holds beside the box itself. */
struct start {
	struct box_launcher *l;
	struct box_host *h;
	const struct box_spec *spec;
	struct box *b;
	struct host_cg cg;
	int status; /* our end of the status pipe */
	bool upper_made, rundir_made;
	int64_t begin_us;
};

static void start_mark(struct start *s, enum box_mark m)
{
	s->b->mark_us[m] = (uint32_t)(clock_mono_us() - s->begin_us);
}

int box_spec_check(const struct box_spec *s, struct err *err)
{
	size_t n = strlen(s->hostname);

	if (!id_valid(s->id))
		return err_set(err, ERR_INVALID, "id: must be a lower-case UUID");
	if (s->nlayers == 0 || s->nlayers > PRIV_LAYERS_MAX)
		return err_set(err, ERR_INVALID, "layers: must be 1 to %d", PRIV_LAYERS_MAX);
	for (size_t i = 0; i < s->nlayers; i++) {
		if (strlen(s->layer[i]) != PRIV_LAYER_ID_LEN - 1 ||
		    strspn(s->layer[i], "0123456789abcdef") != PRIV_LAYER_ID_LEN - 1)
			return err_set(err, ERR_INVALID, "layers: not a layer id");
	}
	if (s->mem_bytes < PRIV_MEM_MIN || s->mem_bytes > PRIV_MEM_MAX)
		return err_set(err, ERR_INVALID, "memory: must be 16 MiB to 4 TiB");
	if (s->cpu_milli < PRIV_CPU_MILLI_MIN || s->cpu_milli > PRIV_CPU_MILLI_MAX)
		return err_set(err, ERR_INVALID, "cpu: must be 100 to 512000 thousandths");
	if (s->pids_max < PRIV_PIDS_MIN || s->pids_max > PRIV_PIDS_MAX)
		return err_set(err, ERR_INVALID, "pids: must be 8 to 4194304");
	if (s->nofile < PRIV_NOFILE_MIN)
		return err_set(err, ERR_INVALID, "nofile: must be at least 64");
	if (n == 0 || n >= BOX_HOSTNAME_LEN ||
	    strspn(s->hostname, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				"0123456789-.") != n)
		return err_set(err, ERR_INVALID, "hostname: letters, digits, - and . alone");
	return 0;
}

static int start_claim(struct start *s, struct err *err)
{
	struct box_host *h = s->h;

	if (!s->spec->fresh && upper_check(h->uppers, s->spec->id, err) < 0)
		return -1;
	if (s->spec->fresh) {
		if (upper_create(h->uppers, s->spec->id, err) < 0)
			return -1;
		s->upper_made = true;
	}
	if (uids_claim(h->uids, &s->b->uid_base, err) < 0 || host_cg_claim(h, &s->cg, err) < 0)
		return -1;
	memcpy(s->b->cg, s->cg.name, CG_NAME_LEN);
	host_janitor_wake(h);
	crash_at("start.after_cgroup");
	if (net_claim(h->cfg.net, s->spec->flags & PRIV_START_NET_BLOCK ? NET_BLOCK : 0,
		      &s->b->lease, err) < 0)
		return -1;
	s->b->leased = true;
	return 0;
}

static bool limits_equal(const struct cg_limits *a, const struct cg_limits *b)
{
	return a->mem_bytes == b->mem_bytes && a->cpu_milli == b->cpu_milli &&
	       a->pids_max == b->pids_max;
}

static int start_limits(struct start *s, struct err *err)
{
	const struct cg_limits limits = {.mem_bytes = s->spec->mem_bytes,
					 .cpu_milli = s->spec->cpu_milli,
					 .pids_max = s->spec->pids_max};

	for (int i = 0; i < CG_V1_MAX; i++)
		s->l->child->fd[CFD_TASKS + i] = TAKE_FD(s->cg.tasks[i]);
	if (!limits_equal(&limits, &s->cg.limits)) {
		if (cg_set_limits(&s->h->cg, s->b->cg, &limits, err) < 0)
			return -1;
		pthread_mutex_lock(&s->h->lock);
		s->h->cg_guess = limits;
		pthread_mutex_unlock(&s->h->lock);
	}
	s->b->limits = limits;
	return cg_delegate(&s->h->cg, s->b->cg, s->b->uid_base, err);
}

/* The agent's socket is bound outside the box; pid 1 gets it listening already. */
static int start_socket(struct start *s, struct err *err)
{
	s->l->child->fd[CFD_LISTEN] = host_room_claim(s->h, s->spec->id, err);
	if (s->l->child->fd[CFD_LISTEN] < 0)
		return -1;
	s->rundir_made = true;
	return 0;
}

/*
 * The descriptor pid 1 keeps comes from a detached clone of just its group: ".." from it leads
 * nowhere, where one of the host's own mount would lead to the host's root (CVE-2024-21626).
 */
static int start_cgroup_fd(struct start *s, struct err *err)
{
	struct child *c = s->l->child;
	int tree = sys_open_tree(s->l->v2, s->b->cg,
				 OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_SYMLINK_NOFOLLOW);

	if (tree < 0)
		return err_errno(err, ERR_INTERNAL, errno, "clone cgroup %s", s->b->cg);
	c->spent[c->nspent++] = tree;
	c->fd[CFD_CGROUP] = openat(tree, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (c->fd[CFD_CGROUP] < 0)
		return err_errno(err, ERR_INTERNAL, errno, "open cgroup %s", s->b->cg);
	return 0;
}

static void start_child_init(struct start *s)
{
	struct child *c = s->l->child;
	struct rlimit lim = {0, 0};
	uint64_t shm = s->spec->mem_bytes / 2;

	*c = (struct child){
		.stage_root = s->h->stage_root,
		.stage_files = s->h->stage_files,
		.hostname = s->spec->hostname,
		.no_new_privs = s->spec->flags & PRIV_START_NO_NEW_PRIVS,
		.nest = s->spec->flags & PRIV_START_NEST_USERNS,
		.cgroup2 = s->h->cg.layout == CG_LAYOUT_V2,
		.mask = s->h->mask,
		.nmasks = s->h->nmasks,
		.filter = s->spec->flags & PRIV_START_NEST_USERNS ? &s->h->filter_nest.prog
								  : &s->h->filter.prog,
		.fail_step = -1,
	};
	for (int i = 0; i < CFD_MAX; i++)
		c->fd[i] = -1;
	/* No CAP_SYS_RESOURCE here: more than our own hard limit can't be given. */
	getrlimit(RLIMIT_NOFILE, &lim);
	c->nofile = MIN((uint64_t)s->spec->nofile, (uint64_t)lim.rlim_max);
	snprintf(c->shm_size, sizeof(c->shm_size), "%llu",
		 (unsigned long long)MAX(shm, START_SHM_MIN));
	c->fd[CFD_INIT] = s->h->init;
}

/* Texts the child writes while the parent builds the overlay; they need the lease's addresses. */
static void start_texts(struct start *s)
{
	const struct files_spec spec = {.mem_bytes = s->spec->mem_bytes,
					.cpu_milli = s->spec->cpu_milli,
					.hostname = s->spec->hostname,
					.ip4 = s->b->lease.ip4,
					.ip6 = s->b->lease.ip6,
					.resolver4 = s->b->lease.resolver4};
	struct files_text *t = s->l->text;

	files_compose(&s->h->files, &spec, t);
	const struct child_file file[] = {
		{"hosts", t->hosts, strlen(t->hosts), 0644},
		{"hostname", t->hostname, strlen(t->hostname), 0644},
		{"resolv.conf", t->resolv, strlen(t->resolv), 0644},
		{"meminfo", t->meminfo, strlen(t->meminfo), 0444},
		{"cpuinfo", t->cpuinfo, t->cpuinfo_len, 0444},
		{"online", t->online, strlen(t->online), 0444},
		{"empty", "", 0, 0444},
	};
	memcpy(s->l->child->file, file, sizeof(file));
}

static long start_clone(struct start *s, int cgroup)
{
	struct child *c = s->l->child;
	struct clone_args args = {
		.flags = CLONE_VM | CLONE_FILES | CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID |
			 CLONE_NEWUTS | CLONE_NEWIPC | CLONE_CLEAR_SIGHAND | CLONE_PIDFD,
		.pidfd = (uint64_t)(uintptr_t)&s->b->pidfd,
		.exit_signal = SIGCHLD,
		.stack = (uint64_t)(uintptr_t)s->l->stack,
		.stack_size = CHILD_STACK_SIZE,
	};

	if (cgroup >= 0) {
		args.flags |= CLONE_INTO_CGROUP;
		args.cgroup = (uint64_t)cgroup;
	}
	return child_clone(&args, c);
}

/*
 * What a box takes of inotify, timers, queued signals, message queues and namespaces is counted
 * for the owner of its user namespace too, against one limit an owner. The owner is the caller's
 * effective id: were it root's, one box could use up the share of all others and of the host.
 */
static long start_clone_owned(struct start *s, int cgroup)
{
	int saved;
	long pid;

	/* Raw calls, for this thread alone; the secure bits keep its capabilities. */
	if (syscall(SYS_setresuid, -1, s->b->uid_base, -1) < 0)
		return -1;
	/* What the kernel makes with the namespaces, such as the root of mqueue, gets both ids. */
	syscall(SYS_setfsgid, s->b->uid_base);
	pid = start_clone(s, cgroup);
	saved = errno;
	syscall(SYS_setfsgid, 0);
	syscall(SYS_setresuid, -1, 0, -1);
	errno = saved;
	return pid;
}

/* The new process is born in the lease's network namespace, which it could not join itself. */
static int start_spawn(struct start *s, struct err *err)
{
	struct child *c = s->l->child;
	auto_close int cgroup = cg_open(&s->h->cg, s->b->cg, err);
	long pid = -1;
	int saved, back;

	if (cgroup < 0)
		return -1;
	if (setns(s->b->lease.netns, CLONE_NEWNET) < 0)
		return err_errno(err, ERR_INTERNAL, errno, "join the network of %s", s->b->id);
	c->fd[CFD_SYSFS] = files_fsmount(
		"sysfs", NULL,
		MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC, err);
	if (c->fd[CFD_SYSFS] >= 0) {
		bool into = !(sys_forced_enosys & SYS_BIT_CLONE3_CGROUP);

		pid = start_clone_owned(s, into ? cgroup : -1);
		saved = errno;
		if (pid < 0)
			err_errno(err, ERR_INTERNAL, saved, "clone %s", s->b->id);
		else
			s->b->pid = (pid_t)pid;
		if (pid > 0 && !into && cg_attach_v2(&s->h->cg, s->b->cg, (pid_t)pid, err) < 0)
			pid = -1;
	}
	back = setns(s->l->netns, CLONE_NEWNET);
	if (back < 0)
		return err_errno(err, ERR_INTERNAL, errno, "return to the host's network");
	return pid < 0 ? -1 : 0;
}

static int start_map(struct start *s, struct err *err)
{
	static const char *const file[] = {"uid_map", "gid_map"};
	char path[40], line[40];
	int n = snprintf(line, sizeof(line), "0 %u %u", s->b->uid_base, UIDS_RANGE);

	for (size_t i = 0; i < ARRAY_LEN(file); i++) {
		auto_close int fd = -1;

		snprintf(path, sizeof(path), "/proc/%d/%s", s->b->pid, file[i]);
		fd = open(path, O_WRONLY | O_CLOEXEC);
		if (fd < 0 || write(fd, line, (size_t)n) != n)
			return err_errno(err, ERR_INTERNAL, errno, "write the %s of %s", file[i],
					 s->b->id);
	}
	return 0;
}

static int start_build(struct start *s, struct err *err)
{
	struct child *c = s->l->child;
	auto_close int userns = -1;
	char path[40];
	int rc;

	snprintf(path, sizeof(path), "/proc/%d/ns/user", s->b->pid);
	userns = open(path, O_RDONLY | O_CLOEXEC);
	if (userns < 0)
		return err_errno(err, ERR_INTERNAL, errno, "open the user namespace of %s",
				 s->b->id);
	c->fd[CFD_DEV] = host_dev_claim(s->h, err);
	if (c->fd[CFD_DEV] < 0 || files_give_dev(c->fd[CFD_DEV], userns, s->b->uid_base, err) < 0)
		return -1;
	setfsgid(s->b->uid_base);
	setfsuid(s->b->uid_base);
	rc = rootfs_build(s->l, s->spec, userns, err);
	setfsuid(0);
	setfsgid(0);
	return rc;
}

/* The child said why in its struct; without a word it was killed from outside (A35). */
static int start_child_error(struct start *s, struct err *err)
{
	struct child *c = s->l->child;
	int step = __atomic_load_n(&c->fail_step, __ATOMIC_ACQUIRE);

	if (step < 0)
		return err_set(err, ERR_INTERNAL, "pid 1 of %s was killed during its start",
			       s->b->id);
	return err_errno(err, ERR_INTERNAL, c->fail_errno, "%s: %s", s->b->id,
			 child_step_name(step));
}

static int start_wait_ready(struct start *s, struct err *err)
{
	int64_t deadline = clock_mono_ms() + BOX_START_MS;

	for (;;) {
		struct pollfd p[2] = {{.fd = s->status, .events = POLLIN},
				      {.fd = s->b->pidfd, .events = POLLIN}};
		char c = 0;
		int n = poll(p, 2, clock_left_ms(deadline));

		if (n == 0)
			return err_set(err, ERR_TIMEOUT, "pid 1 of %s is not ready after %d ms",
				       s->b->id, BOX_START_MS);
		if (n < 0 && errno != EINTR)
			return err_errno(err, ERR_INTERNAL, errno, "poll");
		if (n > 0 && p[0].revents & POLLIN && read(s->status, &c, 1) == 1 && c == 'R')
			return 0;
		if (n > 0 && p[1].revents)
			return start_child_error(s, err);
		if (n > 0 && p[0].revents)
			return err_set(err, ERR_AGENT, "pid 1 of %s closed its status pipe",
				       s->b->id);
	}
}

/* Our copies of what the child took over, and what it opened in the table we shared. */
static void start_close(struct start *s)
{
	struct child *c = s->l->child;

	for (int i = 0; i < CFD_MAX; i++) {
		if (i != CFD_INIT && c->fd[i] >= 0)
			close(c->fd[i]);
		c->fd[i] = -1;
	}
	while (c->nspent)
		close(c->spent[--c->nspent]);
	host_cg_close(&s->cg);
	if (s->status >= 0)
		close(s->status);
	s->status = -1;
}

static void start_undo(struct start *s)
{
	struct err ignored;

	if (s->b->pid > 0 && box_kill(s->h, s->b, &ignored) < 0) {
		log_error("a half-built process of %s does not die: %s", s->spec->id, ignored.msg);
		launcher_abandon(s->l);
		return;
	}
	start_close(s);
	if (s->rundir_made)
		box_rundir_remove(s->h, s->spec->id);
	if (s->upper_made)
		upper_retire(s->h->uppers, s->spec->id, -1, NULL);
	box_end(s->h, s->b);
}

static int start_status(struct start *s, struct err *err)
{
	int pipe[2];

	if (pipe2(pipe, O_CLOEXEC) < 0)
		return err_errno(err, ERR_NOMEM, errno, "make a pipe");
	s->status = pipe[0];
	s->l->child->fd[CFD_STATUS] = pipe[1];
	return 0;
}

/* The child is born early: its own steps run beside the parent's on another processor. */
static int start_run(struct start *s, struct err *err)
{
	struct child *c = s->l->child;

	start_child_init(s);
	if (start_claim(s, err) < 0)
		return -1;
	start_mark(s, MARK_CLAIMED);
	start_texts(s);
	if (start_spawn(s, err) < 0)
		return -1;
	start_mark(s, MARK_CLONED);
	crash_at("start.after_clone");
	if (start_map(s, err) < 0)
		return -1;
	child_go(c, GO_MAPPED);
	start_mark(s, MARK_MAPPED);
	if (start_limits(s, err) < 0 || start_socket(s, err) < 0 || start_cgroup_fd(s, err) < 0 ||
	    start_status(s, err) < 0)
		return -1;
	start_mark(s, MARK_SOCKET);
	if (start_build(s, err) < 0)
		return -1;
	child_go(c, GO_BUILT);
	start_mark(s, MARK_BUILT);
	s->b->start_ticks = proc_start_ticks(s->b->pid);
	if (box_save(s->h, s->b, err) < 0 || start_wait_ready(s, err) < 0)
		return -1;
	s->b->mark_us[MARK_EXEC] = (uint32_t)(c->exec_ns / 1000 - s->begin_us);
	start_mark(s, MARK_READY);
	crash_at("start.before_reply");
	return 0;
}

int box_start(struct box_launcher *l, const struct box_spec *spec, struct box **ret,
	      struct err *err)
{
	struct start s = {.l = l,
			  .h = l->host,
			  .spec = spec,
			  .cg = {.tasks = {-1, -1, -1, -1}},
			  .status = -1};

	s.begin_us = clock_mono_us();
	if (box_spec_check(spec, err) < 0)
		return -1;
	s.b = calloc(1, sizeof(*s.b));
	if (!s.b)
		return err_set(err, ERR_NOMEM, "out of memory");
	memcpy(s.b->id, spec->id, ID_LEN);
	s.b->pidfd = s.b->root = -1;
	s.b->child = true;
	s.b->flags = spec->flags;
	s.b->cpu_milli = spec->cpu_milli;
	s.b->mem_bytes = spec->mem_bytes;
	if (start_run(&s, err) < 0) {
		start_undo(&s);
		return -1;
	}
	s.b->root = TAKE_FD(l->child->fd[CFD_ROOT]);
	start_close(&s);
	*ret = s.b;
	return 0;
}
