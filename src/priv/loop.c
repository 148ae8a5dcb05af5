/*
 * loop.c - the runner's main thread: what happens, in one epoll, and the roles kept running.
 *
 *   starting ──spawn──► running ──exit──► pausing ──pause over──► starting
 *                          │
 *                        SIGTERM: TERM to the api, wait, leave (boxes live on)
 *
 * An api that ends before it served PRIV_API_TRIES times in a row ends the loop as well.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/sys.h"
#include "priv/priv.h"

#define LOOP_EVENTS   64
#define LOOP_MESSAGES 64 /* taken from the api before other events get their turn */
#define LOOP_SNDBUF   (4 * PRIV_MSG_MAX)

static int role_born(struct priv *p, struct role *r, pid_t pid, enum priv_source src,
		     struct err *err)
{
	r->pid = pid;
	r->pidfd = sys_pidfd_open(pid, 0);
	r->started_ms = clock_mono_ms();
	r->next_ms = 0;
	if (r->pidfd < 0)
		return err_errno(err, ERR_INTERNAL, errno, "watch role %s", r->name);
	log_info("role %s runs as pid %d", r->name, pid);
	return priv_watch(p, r->pidfd, EPOLLIN, src, 0, err);
}

/* Plan the next start: at once after a long life, else with a pause that doubles. */
static void role_plan(struct role *r)
{
	int64_t now = clock_mono_ms();

	if (now - r->started_ms > PRIV_STABLE_MS)
		r->pause_ms = 0;
	r->next_ms = now + r->pause_ms;
	r->pause_ms = r->pause_ms ? MIN(2 * r->pause_ms, PRIV_RESTART_MAX) : PRIV_RESTART_MS;
}

static bool role_is_thread(const struct role *r)
{
	return r->pid == getpid();
}

/* Returns the wait status, 0 for a thread. */
static int role_reap(const struct priv *p, struct role *r)
{
	int status = 0;

	if (r->pid > 0 && !role_is_thread(r) && waitpid(r->pid, &status, 0) == r->pid)
		log_at(p->stopping ? LOG_INFO : LOG_WARN, "role %s (pid %d) ended with %s %d",
		       r->name, r->pid, WIFSIGNALED(status) ? "signal" : "code",
		       WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
	/* A child that is being born has a copy, which would keep telling this end as another. */
	if (r->pidfd >= 0) {
		epoll_ctl(p->epoll, EPOLL_CTL_DEL, r->pidfd, NULL);
		close(r->pidfd);
	}
	r->pid = 0;
	r->pidfd = -1;
	role_plan(r);
	return status;
}

/* The api's thread counts as a role whose process is ours. */
static int api_thread(struct priv *p, int sock, struct err *err)
{
	int end = p->cfg->thread_api(p->cfg->thread_arg, sock, err);

	if (end < 0)
		return -1;
	p->api.pid = getpid();
	p->api.pidfd = end;
	p->api.started_ms = clock_mono_ms();
	p->api.next_ms = 0;
	return priv_watch(p, end, EPOLLIN, SRC_API_PID, 0, err);
}

static void api_tell(struct priv *p, int sig)
{
	if (role_is_thread(&p->api)) {
		p->cfg->stop_api(p->cfg->thread_arg);
		/* What was to be killed can't be asked; without it there is nothing to go on for.
		 */
		p->given_up = p->given_up || sig == SIGKILL;
	} else if (p->api.pidfd >= 0) {
		sys_pidfd_send_signal(p->api.pidfd, sig);
	}
}

static int api_spawn(struct priv *p, int sock, struct err *err)
{
	pid_t pid;

	if (p->cfg->thread_api)
		return api_thread(p, sock, err);
	pid = p->cfg->spawn_api(p->cfg->arg, sock, err);
	return pid < 0 ? -1 : role_born(p, &p->api, pid, SRC_API_PID, err);
}

static int api_start(struct priv *p, struct err *err)
{
	int pair[2], size = LOOP_SNDBUF, rc;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return err_errno(err, ERR_NOMEM, errno, "make the api's socket");
	for (int i = 0; i < 2; i++)
		setsockopt(pair[i], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	pthread_mutex_lock(&p->send);
	p->sock = pair[0];
	p->peer++;
	p->api_ready = false;
	p->api_why[0] = '\0';
	pthread_mutex_unlock(&p->send);
	rc = api_spawn(p, pair[1], err);
	close(pair[1]);
	if (rc < 0) {
		peer_drop(p);
		return -1;
	}
	return priv_watch(p, p->sock, EPOLLIN, SRC_API_SOCK, 0, err);
}

static int netrole_start(struct priv *p, struct err *err)
{
	int dns[NET_DNS_FDS], control[2];
	pid_t pid;

	if (!p->cfg->spawn_net)
		return 0;
	if (net_dns_fds(p->net, dns, err) < 0)
		return -1;
	if (pipe2(control, O_CLOEXEC) < 0)
		return err_errno(err, ERR_NOMEM, errno, "make the net role's pipe");
	pid = p->cfg->spawn_net(p->cfg->arg, control[0], dns, net_outside_fd(p->net), err);
	close(control[0]);
	if (p->net_control >= 0)
		close(p->net_control);
	p->net_control = control[1];
	return pid < 0 ? -1 : role_born(p, &p->netrole, pid, SRC_NET_PID, err);
}

static void roles_start(struct priv *p)
{
	int64_t now = clock_mono_ms();
	struct err err = {0};

	if (p->stopping)
		return;
	if (!p->netrole.pid && now >= p->netrole.next_ms && p->cfg->spawn_net &&
	    netrole_start(p, &err) < 0) {
		log_error("start role net: %s", err.msg);
		role_plan(&p->netrole);
	}
	if (!p->api.pid && now >= p->api.next_ms && api_start(p, &err) < 0) {
		log_error("start role api: %s", err.msg);
		role_plan(&p->api);
	}
}

/* When the loop must wake though nothing happens. */
static int64_t loop_deadline(const struct priv *p)
{
	int64_t at = p->stopping ? p->stop_ms : 0;

	if (p->stopping)
		return at;
	if (!p->api.pid)
		at = MAX(p->api.next_ms, 1);
	if (!p->netrole.pid && p->cfg->spawn_net)
		at = at ? MIN(at, MAX(p->netrole.next_ms, 1)) : MAX(p->netrole.next_ms, 1);
	return at;
}

/*
 * One api process after another that ends before it serves has a cause that no restart mends, such
 * as damaged records: say it and end. Boxes live on, as on any end of ours. A KILL from outside
 * says nothing of the cause.
 */
static void api_ended(struct priv *p)
{
	bool thread = role_is_thread(&p->api);
	int status;

	status = role_reap(p, &p->api);
	if (p->api_ready || p->stopping)
		p->api_failed = 0;
	else if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
		p->api_failed++;
	p->api_ready = false;
	p->given_up = thread && !p->stopping;
	if (p->api_failed < PRIV_API_TRIES)
		return;
	log_error("the api process could not start %u times in a row, ending; sandboxes live on: "
		  "%s",
		  p->api_failed, p->api_why[0] ? p->api_why : "it ended without a reason");
	p->given_up = true;
}

static void api_kill(struct priv *p, const char *why)
{
	log_error("the api process is ended: %s", why);
	peer_drop(p);
	api_tell(p, SIGKILL);
}

static void api_readable(struct priv *p, uint8_t *buf)
{
	for (int i = 0; i < LOOP_MESSAGES && p->sock >= 0; i++) {
		int fds[FD_PASS_MAX];
		size_t nfds = 0;
		struct err err = {0};
		ssize_t n = fd_recv(p->sock, buf, PRIV_MSG_MAX, fds, &nfds, 1, &err);

		if (n < 0 && err.code == ERR_TIMEOUT)
			return;
		if (n == 0) {
			peer_drop(p); /* its pidfd tells the rest */
			return;
		}
		if (n < 0 || nfds > 1) {
			fd_close_all(fds, nfds);
			api_kill(p, n < 0 ? err.msg : "too many descriptors");
			return;
		}
		if (verb_dispatch(p, buf, (size_t)n, nfds ? fds[0] : -1) < 0) {
			api_kill(p, "it broke the privileged protocol");
			return;
		}
	}
}

static void kmsg_readable(struct priv *p)
{
	const struct cg_host *cg = box_host_cgroups(p->host);
	struct oom_victim v;
	struct err err = {0};
	int rc;

	while ((rc = oom_next(p->kmsg, cg->tree, &v, &err)) == 1) {
		struct oom_event ev = {.pid = oom_inner_pid(v.pid)};
		struct cg_stats s = {0};
		struct box b;

		if (!boxes_find_cg(&p->boxes, v.cg, &b))
			continue;
		box_stats(p->host, &b, &s, NULL);
		memcpy(ev.id, b.id, ID_LEN);
		memcpy(ev.comm, v.comm, sizeof(ev.comm));
		ev.limit = b.mem_bytes;
		ev.peak = s.mem_peak;
		ev.kills = s.oom_kills;
		log_info("sandbox %s: out of memory, %s killed", b.id, v.comm);
		peer_event_oom(p, &ev);
	}
	if (rc < 0) {
		log_warn("out-of-memory victims will have no name: %s", err.msg);
		close(p->kmsg);
		p->kmsg = -1;
	}
}

static void loop_stop(struct priv *p, int sig)
{
	if (p->stopping)
		return;
	log_info("signal %d: stopping, %u sandboxes %s", sig, p->boxes.live,
		 p->cfg->destroy_on_exit ? "end" : "live on");
	p->stopping = true;
	p->stop_ms = clock_mono_ms() + PRIV_STOP_MS;
	api_tell(p, SIGTERM);
}

static void signals_readable(struct priv *p)
{
	struct signalfd_siginfo si;

	while (read(p->signals, &si, sizeof(si)) == (ssize_t)sizeof(si)) {
		if (si.ssi_signo != SIGCHLD)
			loop_stop(p, (int)si.ssi_signo);
	}
}

static void loop_event(struct priv *p, uint64_t what, uint8_t *buf)
{
	switch ((enum priv_source)(what >> 32)) {
	case SRC_SIGNAL:
		signals_readable(p);
		return;
	case SRC_API_SOCK:
		api_readable(p, buf);
		return;
	case SRC_API_PID:
		api_readable(p, buf); /* its last words */
		peer_drop(p);
		api_ended(p);
		return;
	case SRC_NET_PID:
		role_reap(p, &p->netrole);
		return;
	case SRC_KMSG:
		kmsg_readable(p);
		return;
	case SRC_BOX:
		verb_reap(p, (pid_t)(uint32_t)what);
		return;
	}
}

static bool loop_over(struct priv *p)
{
	if (p->given_up)
		return true;
	if (!p->stopping)
		return false;
	if (p->api.pid && clock_left_ms(p->stop_ms) == 0)
		api_tell(p, SIGKILL);
	return !p->api.pid || clock_left_ms(p->stop_ms) == 0;
}

int priv_loop(struct priv *p)
{
	auto_free uint8_t *buf = malloc(PRIV_MSG_MAX);
	struct epoll_event ev[LOOP_EVENTS];

	if (!buf)
		return 1;
	while (!loop_over(p)) {
		int n;

		roles_start(p);
		n = epoll_wait(p->epoll, ev, LOOP_EVENTS, clock_left_ms(loop_deadline(p)));
		for (int i = 0; i < n; i++)
			loop_event(p, ev[i].data.u64, buf);
		if (n < 0 && errno != EINTR)
			return 1;
	}
	peer_drop(p);
	if (p->api.pid && !role_is_thread(&p->api))
		role_reap(p, &p->api);
	if (p->net_control >= 0)
		close(p->net_control);
	p->net_control = -1;
	if (p->netrole.pid) {
		sys_pidfd_send_signal(p->netrole.pidfd, SIGTERM);
		role_reap(p, &p->netrole);
	}
	return p->given_up ? 1 : 0;
}

int priv_main(const struct priv_config *cfg)
{
	struct priv p = {.cfg = cfg,
			 .data = -1,
			 .lock = -1,
			 .epoll = -1,
			 .signals = -1,
			 .kmsg = -1,
			 .net_control = -1,
			 .sock = -1,
			 .api = {.name = "api", .pidfd = -1},
			 .netrole = {.name = "net", .pidfd = -1}};
	struct err err = {0};
	int rc = 1;

	pthread_mutex_init(&p.send, NULL);
	boxes_init(&p.boxes);
	queue_init(&p.work);
	queue_init(&p.image_work);
	if (priv_setup(&p, &err) < 0)
		log_error("runner: %s", err.msg);
	else
		rc = priv_loop(&p);
	priv_teardown(&p);
	pthread_mutex_destroy(&p.send);
	return rc;
}
