/*
 * setup.c - from a data directory to a working runner, and back.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/path.h"
#include "priv/priv.h"

#define LOCK_POLL_MS  20
#define SETUP_CG_POOL 16
#define SETUP_NOFILE  (1u << 20)

static int data_lock(struct priv *p, struct err *err)
{
	int64_t deadline = clock_mono_ms() + PRIV_LOCK_MS;

	p->data = open(p->cfg->data_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (p->data < 0)
		return err_errno(err, ERR_INVALID, errno, "open %s", p->cfg->data_dir);
	p->lock = openat(p->data, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (p->lock < 0)
		return err_errno(err, ERR_INTERNAL, errno, "open %s/lock", p->cfg->data_dir);
	/* A predecessor that is on its way out gets a moment; a healthy one keeps us out. */
	while (flock(p->lock, LOCK_EX | LOCK_NB) < 0) {
		if (clock_left_ms(deadline) == 0)
			return err_set(err, ERR_CONFLICT,
				       "another caissond uses %s; stop it or choose another "
				       "--data-dir",
				       p->cfg->data_dir);
		usleep(LOCK_POLL_MS * 1000);
	}
	return 0;
}

static bool instance_valid(const char *s)
{
	return strlen(s) == PRIV_INSTANCE_LEN - 1 &&
	       strspn(s, "0123456789abcdef") == PRIV_INSTANCE_LEN - 1;
}

static int data_instance(struct priv *p, struct err *err)
{
	char text[32] = "";

	path_read_at(p->data, "instance", text, sizeof(text), NULL);
	text[strcspn(text, "\n")] = '\0';
	if (!instance_valid(text)) {
		id_hex(text, (PRIV_INSTANCE_LEN - 1) / 2);
		if (path_write_at(p->data, "instance", text, strlen(text), 0644, err) < 0)
			return -1;
	}
	memcpy(p->instance, text, PRIV_INSTANCE_LEN);
	snprintf(p->run_dir, sizeof(p->run_dir), "%s/%s", p->cfg->run_root, p->instance);
	snprintf(p->layers_dir, sizeof(p->layers_dir), "%s/layers", p->cfg->cache_dir);
	return 0;
}

static int setup_dirs(struct priv *p, struct err *err)
{
	auto_close int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	const char *const dir[] = {p->run_dir, p->layers_dir};

	for (size_t i = 0; i < ARRAY_LEN(dir); i++) {
		auto_close int fd = path_mkdirs_in(root, dir[i], 0755, err);

		if (fd < 0)
			return -1;
	}
	if (chmod(p->layers_dir, 0700) < 0)
		return err_errno(err, ERR_INTERNAL, errno, "chmod %s", p->layers_dir);
	return 0;
}

static void setup_limits(void)
{
	struct rlimit lim;

	if (getrlimit(RLIMIT_NOFILE, &lim) < 0)
		return;
	if (lim.rlim_max < SETUP_NOFILE) {
		struct rlimit more = {SETUP_NOFILE, SETUP_NOFILE};

		if (setrlimit(RLIMIT_NOFILE, &more) == 0)
			return;
	}
	lim.rlim_cur = lim.rlim_max;
	setrlimit(RLIMIT_NOFILE, &lim);
}

int priv_watch(struct priv *p, int fd, uint32_t events, enum priv_source src, uint32_t low,
	       struct err *err)
{
	struct epoll_event ev = {.events = events, .data.u64 = ((uint64_t)src << 32) | low};

	if (epoll_ctl(p->epoll, EPOLL_CTL_ADD, fd, &ev) < 0)
		return err_errno(err, ERR_NOMEM, errno, "watch descriptor %d", fd);
	return 0;
}

int priv_watch_box(struct priv *p, const struct box *b, struct err *err)
{
	return priv_watch(p, b->pidfd, EPOLLIN | EPOLLONESHOT, SRC_BOX, (uint32_t)b->pid, err);
}

static int setup_events(struct priv *p, struct err *err)
{
	static const int sigs[] = {SIGTERM, SIGINT, SIGCHLD};
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < ARRAY_LEN(sigs); i++)
		sigaddset(&set, sigs[i]);
	/* Before any thread: all inherit the mask, and only signalfd sees them. */
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	p->epoll = epoll_create1(EPOLL_CLOEXEC);
	p->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (p->epoll < 0 || p->signals < 0)
		return err_errno(err, ERR_NOMEM, errno, "make the event loop");
	if (priv_watch(p, p->signals, EPOLLIN, SRC_SIGNAL, 0, err) < 0)
		return -1;
	p->kmsg = oom_open(err);
	if (p->kmsg < 0) {
		log_warn("out-of-memory victims will have no name: %s", err->msg);
		return 0;
	}
	return priv_watch(p, p->kmsg, EPOLLIN, SRC_KMSG, 0, err);
}

static void *launcher_main(void *arg)
{
	struct priv *p = arg;
	struct err err = {0};
	struct box_launcher *l = box_launcher_open(p->host, &err);
	struct job *j;

	if (!l) {
		log_error("launcher: %s", err.msg);
		kill(getpid(), SIGTERM); /* a runner that can't start boxes must not pretend */
		return NULL;
	}
	while ((j = queue_take(&p->work))) {
		verb_run(p, l, j);
		job_free(j);
	}
	box_launcher_close(l);
	return NULL;
}

static void *image_main(void *arg)
{
	struct priv *p = arg;
	struct err err = {0};
	struct job *j;

	if (image_store_collect(p->images, &err) < 0)
		log_warn("empty the layer trash: %s", err.msg);
	while ((j = queue_take(&p->image_work))) {
		verb_run_image(p, j);
		job_free(j);
	}
	return NULL;
}

static int setup_threads(struct priv *p, struct err *err)
{
	for (unsigned i = 0; i < PRIV_LAUNCHERS; i++) {
		if (pthread_create(&p->launcher[i], NULL, launcher_main, p) != 0)
			return err_set(err, ERR_NOMEM, "start a launcher thread");
		p->nlaunchers++;
	}
	if (pthread_create(&p->image_thread, NULL, image_main, p) != 0)
		return err_set(err, ERR_NOMEM, "start the image thread");
	p->image_runs = true;
	return 0;
}

static void setup_adopted(void *arg, struct box *b)
{
	struct priv *p = arg;
	struct err err = {0};
	struct box_entry *e = boxes_lock(&p->boxes, b->id, &err);

	if (!e) {
		log_error("adopt %s: %s", b->id, err.msg);
		return;
	}
	log_info("adopted sandbox %s, pid %d", b->id, b->pid);
	boxes_publish(&p->boxes, e, b);
	if (priv_watch_box(p, b, &err) < 0)
		log_error("watch %s: %s", b->id, err.msg);
	boxes_unlock(&p->boxes, e, b);
}

static int setup_host(struct priv *p, struct err *err)
{
	const struct net_config net = {.instance = p->instance,
				       .run_dir = p->run_dir,
				       .uplink_netns = p->cfg->uplink_netns,
				       .resolvers = p->cfg->resolvers,
				       .pool = p->cfg->net_pool,
				       .allow_ranges = p->cfg->net_allow_ranges};
	struct box_config box = {.instance = p->instance,
				 .data_dir = p->cfg->data_dir,
				 .run_dir = p->run_dir,
				 .run_root = p->cfg->run_root,
				 .layers_dir = p->layers_dir,
				 .init_path = p->cfg->init_path,
				 .api_gid = p->cfg->api_gid,
				 .upper_pool = p->cfg->upper_pool,
				 .cgroup_pool = SETUP_CG_POOL,
				 .durable = p->cfg->durable};

	p->net = net_open(&net, err);
	if (!p->net)
		return err_wrap(err, "network");
	box.net = p->net;
	p->host = box_host_open(&box, err);
	if (!p->host)
		return -1;
	if (image_store_open(p->cfg->cache_dir, p->instance, p->cfg->data_dir, &p->images, err) < 0)
		return -1;
	if (box_adopt(p->host, setup_adopted, p, err) < 0)
		return -1;
	p->adopted = true;
	return 0;
}

int priv_setup(struct priv *p, struct err *err)
{
	setup_limits();
	if (data_lock(p, err) < 0 || data_instance(p, err) < 0 || setup_dirs(p, err) < 0)
		return -1;
	if (strangers_mark(p, err) < 0 || setup_events(p, err) < 0 || setup_host(p, err) < 0)
		return -1;
	strangers_collect(p);
	return setup_threads(p, err);
}

static void end_one(struct priv *p, const char *id)
{
	struct err err = {0};
	struct box_entry *e = boxes_lock(&p->boxes, id, &err);
	struct box *b = e ? boxes_take(&p->boxes, e) : NULL;

	if (b && box_kill(p->host, b, &err) < 0) {
		log_error("end %s: %s", id, err.msg);
		boxes_unlock(&p->boxes, e, b);
		return;
	}
	if (b)
		box_end(p->host, b);
	if (e)
		boxes_unlock(&p->boxes, e, NULL);
}

/* --on-exit destroy: every box, and everything boxes wrote. */
static void destroy_all(struct priv *p)
{
	struct upper_store *u = box_host_uppers(p->host);
	auto_free char(*upper)[ID_LEN] = NULL;
	char id[1][ID_LEN] = {""};
	uint32_t pid[1];
	size_t n = 0;

	while (boxes_page(&p->boxes, id[0], id, pid, 1) == 1)
		end_one(p, id[0]);
	if (upper_list(u, &upper, &n, NULL) == 0) {
		for (size_t i = 0; i < n; i++)
			upper_retire(u, upper[i], -1, NULL);
	}
	box_host_settle(p->host, clock_mono_ms() + PRIV_STOP_MS);
}

/*
 * Whether nothing of the instance lives. A start that failed before it knew the boxes goes by
 * their directories: of those of a predecessor none may be touched, and its network neither.
 */
static bool nothing_lives(const struct priv *p)
{
	auto_close int run = -1;

	if (p->adopted)
		return p->boxes.live == 0;
	run = open(p->run_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return run >= 0 && (unlinkat(run, "boxes", AT_REMOVEDIR) == 0 || errno == ENOENT);
}

/* What a host that could not be opened made: the stage, and the directory when it is empty. */
static void remove_run_dir(const struct priv *p)
{
	auto_close int run = open(p->run_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (run >= 0)
		path_remove_tree(run, "stage", NULL);
	rmdir(p->run_dir);
}

void priv_teardown(struct priv *p)
{
	bool clean, had_host = p->host != NULL;

	queue_stop(&p->work);
	queue_stop(&p->image_work);
	for (unsigned i = 0; i < p->nlaunchers; i++)
		pthread_join(p->launcher[i], NULL);
	if (p->image_runs)
		pthread_join(p->image_thread, NULL);
	if (p->host && p->cfg->destroy_on_exit && p->stopping)
		destroy_all(p);
	clean = nothing_lives(p);
	if (p->net)
		net_close(p->net, !clean);
	image_store_close(p->images);
	if (clean && p->run_dir[0])
		strangers_unmark(p);
	box_host_close(p->host, clean);
	if (clean && !had_host)
		remove_run_dir(p);
	boxes_done(&p->boxes);
	queue_done(&p->work);
	queue_done(&p->image_work);
	fd_close_all((int[]){p->kmsg, p->signals, p->epoll, p->data, p->lock}, 5);
}
