/*
 * box_harness.c - see box_harness.h.
 */
#include "box_harness.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/path.h"
#include "caisson/agent.h"

#define BH_SETTLE_MS 20000

extern char **environ;

void bh_enter(void)
{
	struct ifreq ifr = {.ifr_name = "lo"};
	auto_close int fd = -1;

	if (geteuid() != 0) {
		printf("needs root\n");
		exit(77);
	}
	umask(022);
	signal(SIGPIPE, SIG_IGN);
	/* Mounts of a pinned router stay in here too. */
	if (unshare(CLONE_NEWNET | CLONE_NEWNS) < 0 ||
	    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0) {
		perror("unshare");
		exit(1);
	}
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	ifr.ifr_flags = IFF_UP | IFF_RUNNING;
	if (ioctl(fd, SIOCSIFFLAGS, &ifr) < 0) {
		perror("lo up");
		exit(1);
	}
}

/* ---- what failed tests leave ---- */

#define BH_WIPE_MAX 256

static struct {
	char instance[9], dir[64];
} wipe[BH_WIPE_MAX];
static size_t nwipe;

static void wipe_group(void *arg, const char *name)
{
	const struct cg_host *cg = arg;

	cg_kill(cg, name);
	cg_wait_empty(cg, name, clock_mono_ms() + 3000, NULL);
	for (int i = 0; i < 200 && cg_remove(cg, name); i++)
		usleep(5000);
}

static void wipe_all(void)
{
	for (size_t i = 0; i < nwipe; i++) {
		struct cg_host cg;

		/* After a test that passed both are gone already. */
		if (access(wipe[i].dir, F_OK) < 0)
			continue;
		if (cg_host_open(&cg, wipe[i].instance, NULL) == 0)
			cg_each(&cg, wipe_group, &cg);
		cg_host_close(&cg, true);
		path_remove_tree(AT_FDCWD, wipe[i].dir, NULL);
	}
}

void bh_wipe_at_exit(const char *instance, const char *dir)
{
	if (nwipe == 0)
		atexit(wipe_all);
	if (nwipe == BH_WIPE_MAX)
		return;
	snprintf(wipe[nwipe].instance, sizeof(wipe[nwipe].instance), "%s", instance);
	snprintf(wipe[nwipe++].dir, sizeof(wipe[0].dir), "%s", dir);
}

static void spawn_wait(const char *const *argv)
{
	pid_t pid;
	int status = -1;

	assert_int_equal(posix_spawnp(&pid, argv[0], NULL, NULL, (char *const *)argv, environ), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

const char *bh_layer_id(int n)
{
	static char id[8][PRIV_LAYER_ID_LEN];

	snprintf(id[n & 7], PRIV_LAYER_ID_LEN, "%064x", n);
	return id[n & 7];
}

const char *bh_layer(struct bh *h, int n, bool base)
{
	static char path[256];
	char probe[300];

	snprintf(path, sizeof(path), "%s/%s", h->layers, bh_layer_id(n));
	assert_int_equal(mkdir(path, 0755), 0);
	if (!base)
		return path;
	spawn_wait((const char *[]){"tar", "-xf", TEST_TOP "/build/image/busybox.tar", "-C", path,
				    NULL});
	snprintf(probe, sizeof(probe), "%s/probe", path);
	spawn_wait((const char *[]){"cp", TEST_BUILD "/tests/box/probe", probe, NULL});
	return path;
}

static void host_open(struct bh *h)
{
	struct net_config nc = {.instance = h->instance, .run_dir = h->run, .pool = 4};
	struct box_config bc = {.instance = h->instance,
				.data_dir = h->data,
				.run_dir = h->run,
				.run_root = h->dir,
				.layers_dir = h->layers,
				.init_path = h->init,
				.upper_pool = 4,
				.cgroup_pool = 4};
	struct err err = {0};

	h->net = net_open(&nc, &err);
	if (!h->net)
		fail_msg("net_open: %s", err.msg);
	bc.net = h->net;
	h->host = box_host_open(&bc, &err);
	if (!h->host)
		fail_msg("box_host_open: %s", err.msg);
}

static void nobody_lives(void *arg, struct box *b)
{
	(void)arg;
	fail_msg("adopted %s in a fresh directory", b->id);
}

struct bh_job {
	const struct box_spec *spec;
	struct box **ret;
	struct err *err;
	int rc;
};

static void *launcher_main(void *arg)
{
	struct bh *h = arg;
	struct err err = {0};
	struct box_launcher *l = box_launcher_open(h->host, &err);
	pid_t tid = gettid();
	struct bh_job *j;

	if (!l) {
		fprintf(stderr, "box_launcher_open: %s\n", err.msg);
		abort();
	}
	write(h->answers[1], &tid, sizeof(tid));
	while (read(h->jobs[0], &j, sizeof(j)) == (ssize_t)sizeof(j) && j) {
		j->rc = box_start(l, j->spec, j->ret, j->err);
		write(h->answers[1], &j, sizeof(j));
	}
	box_launcher_close(l);
	return NULL;
}

static void launcher_open(struct bh *h)
{
	assert_int_equal(pipe2(h->jobs, O_CLOEXEC), 0);
	assert_int_equal(pipe2(h->answers, O_CLOEXEC), 0);
	assert_int_equal(pthread_create(&h->thread, NULL, launcher_main, h), 0);
	read(h->answers[0], &h->launcher_tid, sizeof(h->launcher_tid));
}

static void launcher_close(struct bh *h)
{
	struct bh_job *none = NULL;

	write(h->jobs[1], &none, sizeof(none));
	pthread_join(h->thread, NULL);
	fd_close_all(h->jobs, 2);
	fd_close_all(h->answers, 2);
	h->launcher_tid = 0;
}

int bh_try_start(struct bh *h, const struct box_spec *s, struct box **ret, struct err *err)
{
	struct bh_job job = {.spec = s, .ret = ret, .err = err}, *j = &job;

	write(h->jobs[1], &j, sizeof(j));
	read(h->answers[0], &j, sizeof(j));
	return job.rc;
}

void bh_open(struct bh *h)
{
	struct err err = {0};

	snprintf(h->dir, sizeof(h->dir), "/tmp/caisson-box-XXXXXX");
	assert_non_null(mkdtemp(h->dir));
	chmod(h->dir, 0711);
	id_hex(h->instance, 4);
	bh_wipe_at_exit(h->instance, h->dir);
	if (!h->init)
		h->init = TEST_BUILD "/caisson-init";
	snprintf(h->data, sizeof(h->data), "%s/data", h->dir);
	snprintf(h->run, sizeof(h->run), "%s/%s", h->dir, h->instance);
	snprintf(h->layers, sizeof(h->layers), "%s/layers", h->dir);
	assert_int_equal(mkdir(h->data, 0711), 0);
	assert_int_equal(mkdir(h->layers, 0700), 0);
	assert_int_equal(mkdir(h->run, 0711), 0);
	host_open(h);
	if (box_adopt(h->host, nobody_lives, NULL, &err) < 0)
		fail_msg("box_adopt: %s", err.msg);
	launcher_open(h);
}

void bh_reopen(struct bh *h)
{
	host_open(h);
	launcher_open(h);
}

void bh_forget(struct bh *h)
{
	launcher_close(h);
	box_host_close(h->host, false);
	net_close(h->net, true);
	h->host = NULL;
	h->net = NULL;
}

int bh_processes(const struct bh *h)
{
	char text[256];
	char path[CG_PATH_MAX + 80];
	const struct cg_host *cg = box_host_cgroups(h->host);

	snprintf(path, sizeof(path), "%s/%s/cgroup.events", cg->v2_mount, cg->tree);
	path_read_at(AT_FDCWD, path, text, sizeof(text), NULL);
	return strstr(text, "populated 1") ? 1 : 0;
}

static void no_text(const char *file, const char *text)
{
	auto_free char *all = malloc(1 << 20);

	path_read_at(AT_FDCWD, file, all, 1 << 20, NULL);
	if (strstr(all, text))
		fail_msg("%s still names %s", file, text);
}

/* The instance's tree is gone from the v2 hierarchy and every v1 one. */
static void no_groups(const struct bh *h)
{
	static const char *const at[] = {"/sys/fs/cgroup",	  "/sys/fs/cgroup/unified",
					 "/sys/fs/cgroup/memory", "/sys/fs/cgroup/cpu",
					 "/sys/fs/cgroup/pids",	  "/sys/fs/cgroup/devices"};

	for (size_t i = 0; i < ARRAY_LEN(at); i++) {
		char path[128];

		snprintf(path, sizeof(path), "%s/caisson-%s", at[i], h->instance);
		if (access(path, F_OK) == 0)
			fail_msg("%s is left over", path);
	}
}

void bh_close(struct bh *h)
{
	box_host_settle(h->host, clock_mono_ms() + BH_SETTLE_MS);
	assert_int_equal(bh_processes(h), 0);
	launcher_close(h);
	net_close(h->net, false);
	box_host_close(h->host, true);
	no_groups(h);
	no_text("/proc/self/mountinfo", h->dir);
	if (access(h->run, F_OK) == 0)
		fail_msg("%s is left over", h->run);
	path_remove_tree(AT_FDCWD, h->dir, NULL);
	h->host = NULL;
}

struct box_spec bh_spec(const char *id)
{
	static const char *base[1];

	base[0] = bh_layer_id(1);
	return (struct box_spec){.id = id,
				 .fresh = true,
				 .layer = base,
				 .nlayers = 1,
				 .mem_bytes = 256 << 20,
				 .disk_bytes = 1 << 30,
				 .cpu_milli = 1000,
				 .pids_max = 128,
				 .nofile = 1024,
				 .hostname = "box"};
}

struct box *bh_start(struct bh *h, const struct box_spec *s)
{
	struct err err = {0};
	struct box *b = NULL;

	if (bh_try_start(h, s, &b, &err) < 0)
		fail_msg("box_start: %s", err.msg);
	return b;
}

struct box *bh_new(struct bh *h, char id[ID_LEN])
{
	struct box_spec s;

	id_new(id);
	s = bh_spec(id);
	return bh_start(h, &s);
}

void bh_kill(struct bh *h, struct box *b)
{
	struct err err = {0};

	if (box_kill(h->host, b, &err) < 0)
		fail_msg("box_kill: %s", err.msg);
	box_end(h->host, b);
}

void bh_delete(struct bh *h, struct box *b)
{
	char id[ID_LEN];
	struct err err = {0};

	memcpy(id, b->id, ID_LEN);
	bh_kill(h, b);
	if (upper_retire(box_host_uppers(h->host), id, -1, &err) < 0)
		fail_msg("upper_retire: %s", err.msg);
}

void bh_agent_path(const struct bh *h, const struct box *b, char out[108])
{
	if (snprintf(out, 108, "%s/boxes/%s/agent.sock", h->run, b->id) >= 108)
		fail_msg("path of the agent socket is too long");
}

/* All output until both the pipe's end and the exit are there. */
static void run_pump(struct agent_proc *p, struct bh_result *ret, int64_t deadline)
{
	struct agent_exit exit = {0};
	struct err err = {0};
	size_t n = 0;
	bool open = true, done = false;

	while (open || !done) {
		struct pollfd pfd[2] = {{.fd = open ? p->out : -1, .events = POLLIN},
					{.fd = done ? -1 : p->conn, .events = POLLIN}};

		if (poll(pfd, 2, clock_left_ms(deadline)) == 0)
			fail_msg("command did not end in time; output so far:\n%s", ret->out);
		if (pfd[0].revents) {
			ssize_t got = read(p->out, ret->out + n, BH_OUT_MAX - 1 - n);

			if (got > 0)
				n += (size_t)got;
			open = got > 0 || (got < 0 && errno == EAGAIN);
			ret->out[n] = '\0';
		}
		if (pfd[1].revents) {
			int rc = agent_proc_exit(p, &exit, &err);

			if (rc < 0)
				fail_msg("agent_proc_exit: %s", err.msg);
			done = rc == 1;
		}
	}
	ret->signaled = exit.signaled;
	ret->code = exit.code;
}

static void run_spawn(struct bh *h, struct box *b, const struct agent_spawn *s,
		      struct bh_result *ret)
{
	struct agent_proc p = AGENT_PROC_INIT;
	int64_t deadline = clock_mono_ms() + BH_RUN_MS;
	struct err err = {0};
	char path[108];

	ret->out[0] = '\0';
	bh_agent_path(h, b, path);
	if (agent_spawn(path, s, &p, deadline, &err) < 0)
		fail_msg("agent_spawn: %s", err.msg);
	run_pump(&p, ret, deadline);
	agent_proc_done(&p);
}

void bh_run(struct bh *h, struct box *b, const char *user, const char *const *argv,
	    struct bh_result *ret)
{
	const struct agent_spawn s = {
		.argv = argv, .cwd = "/", .user = user ? user : "", .flags = SPAWN_MERGE};

	run_spawn(h, b, &s, ret);
}

unsigned bh_sh(struct bh *h, struct box *b, const char *text, struct bh_result *ret)
{
	const char *argv[] = {text, NULL};
	const struct agent_spawn s = {
		.argv = argv, .cwd = "/", .user = "", .flags = SPAWN_MERGE | SPAWN_SHELL};

	run_spawn(h, b, &s, ret);
	return ret->signaled ? 128 + ret->code : ret->code;
}

void bh_probe(struct bh *h, struct box *b, const char *user, const char *name)
{
	static struct bh_result r;
	const char *argv[] = {"/probe", name, NULL};
	bool bad;

	bh_run(h, b, user, argv, &r);
	bad = r.signaled || r.code != 0 || strncmp(r.out, "ok", 2) != 0;
	for (char *line = r.out; line && *line; line = strchr(line, '\n')) {
		line += *line == '\n';
		bad |= *line && strncmp(line, "ok", 2) != 0;
	}
	if (bad)
		fail_msg("probe %s (%s %u):\n%s", name, r.signaled ? "signal" : "code", r.code,
			 r.out);
}

int bh_open_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	int n = 0;

	while (readdir(d))
		n++;
	closedir(d);
	return n;
}
