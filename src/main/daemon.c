/*
 * daemon.c - the root process from its start until it becomes the runner loop.
 *
 * It makes the directories, writes the first key once, binds the listening socket (so a restart
 * of the api process refuses no connection), and hands over to src/priv. Nothing a client sent is
 * read here.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/id.h"
#include "base/log.h"
#include "base/path.h"
#include "base/sys.h"
#include "caisson/doctor.h"
#include "caisson/netrole.h"
#include "caisson/priv.h"
#include "main/config_check.h"
#include "main/roles.h"

/* Write the key file whole or not at all: a reader never sees half a key. */
static int key_write(int dir, const char *key, struct err *err)
{
	char line[128];
	int n = snprintf(line, sizeof(line), "%s\n", key);
	auto_close int fd = openat(dir, "admin.key.new",
				   O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);

	if (fd < 0)
		return err_errno(err, ERR_INTERNAL, errno, "create admin.key");
	if (fd_write_all(fd, line, (size_t)n, 0, err) < 0)
		return -1;
	if (fsync(fd) < 0 || renameat(dir, "admin.key.new", dir, "admin.key") < 0)
		return err_errno(err, ERR_INTERNAL, errno, "store admin.key");
	return 0;
}

static int daemon_key(int dir, const char *wanted, struct err *err)
{
	char key[128] = "";
	struct err missing = {0};

	if (path_read_at(dir, "admin.key", key, sizeof(key), &missing) < 0 &&
	    missing.code != ERR_NOT_FOUND) {
		*err = missing;
		return -1;
	}
	key[strcspn(key, "\r\n")] = '\0';
	if (wanted ? strcmp(key, wanted) == 0 : config_key_valid(key))
		return 0;
	if (!wanted) {
		memcpy(key, CONFIG_KEY_PREFIX, sizeof(CONFIG_KEY_PREFIX));
		id_hex(key + strlen(CONFIG_KEY_PREFIX), CONFIG_KEY_HEX / 2);
	}
	return key_write(dir, wanted ? wanted : key, err);
}

/* mkdir -p of a configured, absolute path. */
static int daemon_mkdirs(const char *field, const char *path, mode_t mode, struct err *err)
{
	auto_close int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	int fd = path_mkdirs_in(root, path, mode, err);

	if (fd < 0)
		return err_wrap(err, "%s", field);
	close(fd);
	return 0;
}

/* The data directory may be crossed by the api process (its own part is api/), not listed. */
static int daemon_data_dir(const struct config *c, struct err *err)
{
	auto_close int fd = -1;
	struct stat st;

	if (daemon_mkdirs("data-dir", c->data_dir, 0711, err) < 0)
		return -1;
	fd = open(c->data_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return err_errno(err, ERR_INVALID, errno, "data-dir: open %s", c->data_dir);
	if (fstat(fd, &st) < 0 || st.st_uid != 0 || (st.st_mode & 022 && !(st.st_mode & 01000)))
		return err_set(err, ERR_INVALID,
			       "data-dir: %s must belong to root and be writable by nobody else",
			       c->data_dir);
	if (fchmod(fd, 0711) < 0)
		return err_errno(err, ERR_INTERNAL, errno, "chmod %s", c->data_dir);
	return daemon_key(fd, c->admin_key, err);
}

/* ---- roles started by the runner ---- */

struct daemon {
	struct config *config;
	int argc;
	char **argv;
	int listen_fd;
};

struct role_pass {
	int from, to; /* the role finds `from` at number `to` */
};

/*
 * In the forked child: put the descriptors in their places, then become ourselves again. The
 * program is opened through /proc/self/exe, so an upgrade of the file on disk is picked up by the
 * next start of the daemon, not by half of it. Between fork and exec only async-signal-safe calls.
 */
static void role_exec(char **argv, const struct role_pass *pass, size_t n)
{
	int at[8];
	sigset_t none;

	/* First out of the way of every target number, then into place. */
	for (size_t i = 0; i < n; i++) {
		at[i] = fcntl(pass[i].from, F_DUPFD, 64);
		if (at[i] < 0)
			_exit(126);
	}
	for (size_t i = 0; i < n; i++)
		if (dup2(at[i], pass[i].to) < 0)
			_exit(126);
	sys_close_range(n ? (unsigned)pass[n - 1].to + 1 : 3, ~0U, 0);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	execv("/proc/self/exe", argv);
	_exit(127);
}

static pid_t role_spawn(struct daemon *d, const char *role, const struct role_pass *pass, size_t n,
			struct err *err)
{
	auto_free char **argv = calloc((size_t)d->argc + 2, sizeof(*argv));
	pid_t pid;

	if (!argv)
		return err_set(err, ERR_NOMEM, "out of memory");
	argv[0] = d->argv[0];
	argv[1] = (char *)role;
	for (int i = 1; i < d->argc; i++)
		argv[i + 1] = d->argv[i];
	pid = fork();
	if (pid < 0)
		return err_errno(err, ERR_NOMEM, errno, "fork for role %s", role);
	if (pid == 0)
		role_exec(argv, pass, n);
	return pid;
}

static pid_t daemon_spawn_api(void *arg, int sock, struct err *err)
{
	struct daemon *d = arg;
	const struct role_pass pass[] = {{sock, ROLE_FD_PRIV}, {d->listen_fd, ROLE_FD_LISTEN}};

	return role_spawn(d, "api", pass, ARRAY_LEN(pass), err);
}

static pid_t daemon_spawn_net(void *arg, int control, const int dns[PRIV_NET_FDS], int uplink,
			      struct err *err)
{
	const struct role_pass pass[] = {
		{control, NETROLE_FD_CONTROL}, {dns[0], NETROLE_FD_DNS},
		{dns[1], NETROLE_FD_DNS + 1},  {dns[2], NETROLE_FD_DNS + 2},
		{dns[3], NETROLE_FD_DNS + 3},  {uplink, NETROLE_FD_UPLINK},
	};

	return role_spawn(arg, "net", pass, ARRAY_LEN(pass), err);
}

/*
 * Everybody on the machine sees arguments, and the roles inherit both: once the key is in its file,
 * neither may hold it.
 */
static void daemon_forget_key(struct config *c, int argc, char **argv)
{
	static const char flag[] = "--admin-key";
	size_t n = sizeof(flag) - 1;

	for (int i = 1; i < argc; i++) {
		char *value = NULL;

		if (strncmp(argv[i], flag, n) != 0)
			continue;
		if (argv[i][n] == '=')
			value = argv[i] + n + 1;
		else if (!argv[i][n] && i + 1 < argc)
			value = argv[++i];
		if (value)
			memset(value, '*', strlen(value));
	}
	unsetenv("CAISSON_ADMIN_KEY");
	if (c->admin_key)
		explicit_bzero(c->admin_key, strlen(c->admin_key));
}

/* caisson-init: configured, beside the program (build tree), or installed. */
static int daemon_init_path(const struct config *c, char out[PATH_MAX], struct err *err)
{
	static const char *const places[] = {"caisson-init", "../libexec/caisson/caisson-init"};
	char exe[PATH_MAX / 2];
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);

	if (c->init_path) {
		snprintf(out, PATH_MAX, "%s", c->init_path);
		return 0;
	}
	exe[n > 0 ? n : 0] = '\0';
	if (strrchr(exe, '/'))
		*strrchr(exe, '/') = '\0';
	for (size_t i = 0; i < ARRAY_LEN(places); i++) {
		snprintf(out, PATH_MAX, "%s/%s", exe, places[i]);
		if (access(out, X_OK) == 0)
			return 0;
	}
	return err_set(err, ERR_INVALID, "init-path: no caisson-init beside %s", exe);
}

/* What a role would fail on at each of its restarts is refused once, here. */
static int daemon_files(const struct config *c, struct err *err)
{
	const struct {
		const char *field, *path;
	} file[] = {{"tls-cert", c->tls_cert},
		    {"tls-key", c->tls_key},
		    {"default-image", c->default_image},
		    {"uplink-netns", c->uplink_netns}};

	for (size_t i = 0; i < ARRAY_LEN(file); i++)
		if (file[i].path && access(file[i].path, R_OK) < 0)
			return err_errno(err, ERR_INVALID, errno, "%s: read %s", file[i].field,
					 file[i].path);
	return config_check_tls(c, err);
}

static int daemon_check(const struct config *c)
{
	struct doctor_config dc;
	char *text = NULL;
	size_t n = 0;
	FILE *out = open_memstream(&text, &n);
	int rc;

	if (!out)
		return -1;
	role_doctor_config(c, &dc);
	rc = doctor_run(&dc, out);
	fclose(out);
	if (rc != 0)
		fprintf(stderr, "caissond: this machine can't run sandboxes yet:\n%s", text);
	free(text);
	return rc;
}

static int daemon_run(struct daemon *d, struct err *err)
{
	struct config *c = d->config;
	char init[PATH_MAX];
	struct priv_config pc = {
		.data_dir = c->data_dir,
		.run_root = c->run_dir,
		.cache_dir = c->cache_dir,
		.default_image = c->default_image,
		.init_path = init,
		.uplink_netns = c->uplink_netns,
		.resolvers = c->resolvers,
		.net_allow_ranges = c->net_allow_ranges,
		.net_pool = (unsigned)c->net_pool,
		.upper_pool = (unsigned)c->upper_pool,
		.disk_low = (uint64_t)c->disk_low,
		.destroy_on_exit = strcmp(c->on_exit, "destroy") == 0,
		.durable = true,
		.spawn_api = daemon_spawn_api,
		.spawn_net = daemon_spawn_net,
		.arg = d,
	};
	struct one_process one = {.config = c};
	uid_t uid;

	if (daemon_files(c, err) < 0 || role_ids(c, &uid, &pc.api_gid, err) < 0 ||
	    daemon_init_path(c, init, err) < 0 || daemon_data_dir(c, err) < 0)
		return -1;
	daemon_forget_key(c, d->argc, d->argv);
	d->listen_fd = listen_open(c->listen, err);
	if (d->listen_fd < 0)
		return -1;
	listen_say(d->listen_fd);
	if (c->no_privsep) {
		one.listener = d->listen_fd;
		pc.thread_api = one_start;
		pc.stop_api = one_stop;
		pc.thread_arg = &one;
	}
	return priv_main(&pc);
}

int role_daemon(struct config *c, int argc, char **argv)
{
	struct daemon d = {.config = c, .argc = argc, .argv = argv, .listen_fd = -1};
	struct err err = {0};
	int rc;

	signal(SIGPIPE, SIG_IGN);
	umask(022);
	if (geteuid() != 0) {
		fprintf(stderr, "caissond: must be started as root (it drops root where it reads "
				"what others wrote)\n");
		return 1;
	}
	if (daemon_check(c) != 0)
		return 1;
	rc = daemon_run(&d, &err);
	if (rc < 0) {
		log_error("%s", err.msg);
		rc = 1;
	}
	if (d.listen_fd >= 0)
		close(d.listen_fd);
	return rc;
}
