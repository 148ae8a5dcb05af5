/*
 * daemon.c - the root process from its start until it becomes the runner loop.
 *
 * It makes the directories, writes the first key once, binds the listening socket (so a restart
 * of the api process refuses no connection), and hands over to src/priv. Nothing a client sent is
 * read here.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/id.h"
#include "base/log.h"
#include "base/path.h"
#include "main/roles.h"

#define DAEMON_BACKLOG	  1024
#define DAEMON_KEY_PREFIX "dtn_"
#define DAEMON_KEY_HEX	  64

static bool key_valid(const char *key)
{
	size_t n = strlen(DAEMON_KEY_PREFIX);

	return strncmp(key, DAEMON_KEY_PREFIX, n) == 0 && strlen(key) == n + DAEMON_KEY_HEX &&
	       strspn(key + n, "0123456789abcdef") == DAEMON_KEY_HEX;
}

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

	if (wanted && !key_valid(wanted))
		return err_set(err, ERR_INVALID,
			       "admin-key: must be %s and %d lower-case hex digits",
			       DAEMON_KEY_PREFIX, DAEMON_KEY_HEX);
	if (path_read_at(dir, "admin.key", key, sizeof(key), &missing) < 0 &&
	    missing.code != ERR_NOT_FOUND) {
		*err = missing;
		return -1;
	}
	key[strcspn(key, "\r\n")] = '\0';
	if (wanted ? strcmp(key, wanted) == 0 : key_valid(key))
		return 0;
	if (!wanted) {
		memcpy(key, DAEMON_KEY_PREFIX, sizeof(DAEMON_KEY_PREFIX));
		id_hex(key + strlen(DAEMON_KEY_PREFIX), DAEMON_KEY_HEX / 2);
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

/* "host:port", "[v6]:port" or ":port" into host and port texts. */
static int listen_split(const char *text, char host[256], char port[16], struct err *err)
{
	const char *colon = strrchr(text, ':');
	size_t n = colon ? (size_t)(colon - text) : 0;

	if (!colon || !colon[1] || strlen(colon + 1) > 5 || n > 255 ||
	    strspn(colon + 1, "0123456789") != strlen(colon + 1))
		return err_set(err, ERR_INVALID, "listen: \"%s\" is not HOST:PORT", text);
	if (n >= 2 && text[0] == '[' && text[n - 1] == ']') {
		text++;
		n -= 2;
	}
	memcpy(host, text, n);
	host[n] = '\0';
	snprintf(port, 16, "%s", colon + 1);
	return 0;
}

static int listen_one(const struct addrinfo *ai, const char *text, struct err *err)
{
	auto_close int fd = socket(ai->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int on = 1;

	if (fd < 0)
		return err_errno(err, ERR_INTERNAL, errno, "listen: socket");
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)); /* inherited by accept */
	if (bind(fd, ai->ai_addr, ai->ai_addrlen) < 0 || listen(fd, DAEMON_BACKLOG) < 0)
		return err_errno(err, ERR_INVALID, errno, "listen: bind %s", text);
	return TAKE_FD(fd);
}

static int daemon_listen(const char *text, struct err *err)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
	struct addrinfo *list = NULL;
	char host[256], port[16];
	int fd, rc;

	if (listen_split(text, host, port, err) < 0)
		return -1;
	rc = getaddrinfo(*host ? host : NULL, port, &hints, &list);
	if (rc != 0)
		return err_set(err, ERR_INVALID, "listen: %s: %s", text, gai_strerror(rc));
	fd = listen_one(list, text, err);
	freeaddrinfo(list);
	return fd;
}

static void daemon_say_address(int fd)
{
	struct sockaddr_storage ss;
	socklen_t n = sizeof(ss);
	char host[NI_MAXHOST], port[NI_MAXSERV];

	if (getsockname(fd, (struct sockaddr *)&ss, &n) == 0 &&
	    getnameinfo((struct sockaddr *)&ss, n, host, sizeof(host), port, sizeof(port),
			NI_NUMERICHOST | NI_NUMERICSERV) == 0)
		log_info("listening on %s port %s", host, port);
}
