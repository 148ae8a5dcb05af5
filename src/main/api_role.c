/*
 * api_role.c - the unprivileged process that speaks HTTP and keeps the records.
 *
 * As root it only loads settings, the first key and the TLS files and prepares its directory;
 * then it gives root up and opens the store, the runner's socket and the server. It ends when
 * told to (SIGTERM; orderly) and at once when the runner is gone: everything acknowledged is
 * durable. With --no-privsep the same runs in a thread of the runner's process (one_process.c),
 * keeps root, and only its files are made as the api's user.
 */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>

#include "base/log.h"
#include "base/path.h"
#include "base/sys.h"
#include "caisson/core.h"
#include "caisson/dialects.h"
#include "caisson/http.h"
#include "main/roles.h"
#include "routes.h"

#define API_STOP_GRACE_MS 5000
#define API_PEM_MAX	  (256 * 1024)
#define API_BIG_BYTES	  (128 * 1024) /* a block of this size has its own pages */
#define API_ARENAS	  4

struct api_state {
	char admin_key[128];
	char *tls_cert, *tls_key;
	struct core *core;
	struct http_server *http;
};

static int api_pem(const char *path, const char *field, char **ret, struct err *err)
{
	auto_free char *text = NULL;

	if (!path)
		return 0;
	text = malloc(API_PEM_MAX);
	if (!text)
		return err_set(err, ERR_NOMEM, "out of memory");
	if (path_read_at(AT_FDCWD, path, text, API_PEM_MAX, err) < 0)
		return err_wrap(err, "%s", field);
	*ret = TAKE_PTR(text);
	return 0;
}

/* All that needs root. */
static int api_prepare(struct config *c, struct api_state *s, struct err *err)
{
	auto_close int data = open(c->data_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	uid_t uid;
	gid_t gid;

	if (data < 0)
		return err_errno(err, ERR_INTERNAL, errno, "open %s", c->data_dir);
	if (path_read_at(data, "admin.key", s->admin_key, sizeof(s->admin_key), err) < 0)
		return -1;
	s->admin_key[strcspn(s->admin_key, "\r\n")] = '\0';
	if (api_pem(c->tls_cert, "tls-cert", &s->tls_cert, err) < 0 ||
	    api_pem(c->tls_key, "tls-key", &s->tls_key, err) < 0)
		return -1;
	if (role_ids(c, &uid, &gid, err) < 0)
		return -1;
	if (mkdirat(data, "api", 0700) < 0 && errno != EEXIST)
		return err_errno(err, ERR_INTERNAL, errno, "make %s/api", c->data_dir);
	if (fchownat(data, "api", uid, gid, AT_SYMLINK_NOFOLLOW) < 0)
		return err_errno(err, ERR_INTERNAL, errno, "give %s/api to uid %u", c->data_dir,
				 uid);
	if (c->no_privsep)
		return role_thread_files(uid, gid, err);
	umask(077);
	if (role_drop(uid, gid, err) < 0)
		return -1;
	return role_seccomp_api(err);
}

static void api_runner_lost(void *arg)
{
	(void)arg;
	log_error("the runner is gone; ending");
	_exit(3);
}

static int api_open(struct config *c, struct api_state *s, int sock, struct err *err)
{
	struct core_config cc = {
		.data_dir = c->data_dir,
		.admin_key = s->admin_key,
		.region = c->region,
		.version = CAISSON_VERSION,
		.warm_pool = (unsigned)c->warm_pool,
		.disk_low_bytes = (uint64_t)c->disk_low,
		.stop_grace_ms = (unsigned)c->stop_grace_ms,
		.hold_ms = (unsigned)c->hold_ms,
		.max_sandboxes = (unsigned)c->max_sandboxes,
		.max_cpu = (unsigned)c->max_cpu,
		.max_memory_gib = (unsigned)c->max_memory,
		.max_disk_gib = (unsigned)c->max_disk,
		.output_max = (uint64_t)c->output_max,
		.destroy_on_exit = strcmp(c->on_exit, "destroy") == 0,
	};
	struct runner_events ev = {0};
	struct runner *runner;

	s->core = core_open(&cc, err);
	if (!s->core)
		return err_wrap(err, "open the records");
	core_runner_events(s->core, &ev);
	ev.lost = api_runner_lost;
	runner = runner_priv_open(sock, &ev, err);
	if (!runner)
		return err_wrap(err, "reach the runner");
	if (core_attach(s->core, runner, err) < 0)
		return err_wrap(err, "recover");
	return 0;
}

static int api_serve(struct config *c, struct api_state *s, int listener, struct err *err)
{
	static const struct http_dialect *const dialects[] = {&daytona_control, &daytona_toolbox,
							      &caisson_native};
	struct http_config hc = {
		.listen_fd = listener,
		.dialect = dialects,
		.ndialects = ARRAY_LEN(dialects),
		.app = s->core,
		.public_url = c->public_url,
		.trusted_proxies = c->trusted_proxies,
		.tls_cert = s->tls_cert,
		.tls_key = s->tls_key,
		.max_connections = (unsigned)c->max_connections,
		.max_per_address = (unsigned)c->max_per_address,
		.spec = api_specs,
		.nspecs = api_nspecs,
	};

	s->http = http_start(&hc, err);
	return s->http ? 0 : err_wrap(err, "start the HTTP server");
}

static void api_raise_nofile(void)
{
	struct rlimit rl;

	if (getrlimit(RLIMIT_NOFILE, &rl) == 0) {
		rl.rlim_cur = rl.rlim_max;
		setrlimit(RLIMIT_NOFILE, &rl);
	}
}

/*
 * glibc takes larger and larger blocks from its heaps once one was freed, and each thread may get a
 * heap of its own: buffers of outputs then stay resident long after their request.
 */
static void api_bound_heap(void)
{
	mallopt(M_MMAP_THRESHOLD, API_BIG_BYTES);
	mallopt(M_TRIM_THRESHOLD, 2 * API_BIG_BYTES);
	mallopt(M_ARENA_MAX, API_ARENAS);
}

int role_api_run(struct config *c, int sock, int listener, int stop)
{
	struct pollfd told = {.fd = stop, .events = POLLIN};
	struct api_state s = {0};
	struct err err = {0};

	api_raise_nofile();
	api_bound_heap();
	if (api_prepare(c, &s, &err) < 0 || api_open(c, &s, sock, &err) < 0 ||
	    api_serve(c, &s, listener, &err) < 0) {
		log_error("api process: %s", err.msg);
		runner_priv_ready(sock, err.msg);
		return 1;
	}
	log_info("api process serves");
	runner_priv_ready(sock, "");
	while (poll(&told, 1, -1) <= 0)
		;
	log_info("api process stops");
	http_stop(s.http, API_STOP_GRACE_MS);
	core_close(s.core);
	free(s.tls_cert);
	free(s.tls_key);
	return 0;
}

int role_api(struct config *c)
{
	sigset_t set;
	int stop;

	signal(SIGPIPE, SIG_IGN);
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigprocmask(SIG_BLOCK, &set, NULL);
	sys_close_range(ROLE_FD_LISTEN + 1, ~0U, 0);
	stop = signalfd(-1, &set, SFD_CLOEXEC);
	if (stop < 0) {
		log_error("api process: make its signalfd: %s", strerror(errno));
		return 1;
	}
	return role_api_run(c, ROLE_FD_PRIV, ROLE_FD_LISTEN, stop);
}
