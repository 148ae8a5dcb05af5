/*
 * server.c - start, accept, stop.
 *
 * Our acceptor owns the listening socket and hands connections to libmicrohttpd, which runs one
 * thread for each; so caps answer with a reply instead of a silent close, and another reader of
 * connections (a preview relay) can be put in front later.
 */
#include "http/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/log.h"

#define ACCEPT_BATCH 64
#define SWEEP_MS     1000
#define EMFILE_MS    50 /* rest when descriptors are used up */
#define STOP_POLL_MS 50

static void mhd_log(void *cls, const char *fmt, va_list ap)
{
	char line[512];

	(void)cls;
	vsnprintf(line, sizeof(line), fmt, ap);
	line[strcspn(line, "\n")] = '\0';
	log_debug("microhttpd: %s", line);
}

/* Escapes are ours to decode; libmicrohttpd's own way hides an encoded NUL. */
static size_t unescape_nothing(void *cls, struct MHD_Connection *c, char *s)
{
	(void)cls;
	(void)c;
	return strlen(s);
}

/* A connection over a cap gets a reply, as far as one write goes. */
static void turn_away(struct http_server *s, int fd, const char *why)
{
	char junk[4096], body[256], reply[512];
	int n;

	log_warn("connection refused: %s", why);
	if (!s->tls) {
		n = snprintf(body, sizeof(body),
			     "{\"statusCode\":503,\"code\":\"ERR_UNAVAILABLE\",\"message\":\"%s\"}",
			     why);
		n = snprintf(
			reply, sizeof(reply),
			"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\n"
			"Retry-After: 1\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s",
			n, body);
		(void)!recv(fd, junk, sizeof(junk), MSG_DONTWAIT);
		(void)!send(fd, reply, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT);
		shutdown(fd, SHUT_WR);
	}
	close(fd);
}

static void accept_one(struct http_server *s, int fd, struct sockaddr_storage *ss, socklen_t len)
{
	char addr[HTTP_ADDR_LEN];
	const char *why = "";
	int one = 1;

	addr_text((struct sockaddr *)ss, addr);
	if (!conn_admit(s, addr, &why)) {
		turn_away(s, fd, why);
		return;
	}
	setsockopt(fd, IPPROTO_TCP, 1 /* TCP_NODELAY */, &one, sizeof(one));
	/* It closes the descriptor itself when it says no. */
	if (MHD_add_connection(s->mhd, fd, (struct sockaddr *)ss, len) != MHD_YES)
		log_warn("no thread for a connection from %s", addr);
}

static bool accept_some(struct http_server *s)
{
	for (int i = 0; i < ACCEPT_BATCH; i++) {
		struct sockaddr_storage ss = {0};
		socklen_t len = sizeof(ss);
		int fd = accept4(s->listen_fd, (struct sockaddr *)&ss, &len,
				 SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd >= 0) {
			accept_one(s, fd, &ss, len);
			continue;
		}
		if (errno == EINTR || errno == ECONNABORTED)
			continue;
		return errno == EAGAIN;
	}
	return true;
}

static void *acceptor(void *arg)
{
	struct http_server *s = arg;
	struct pollfd p[2] = {{.fd = s->listen_fd, .events = POLLIN},
			      {.fd = s->stop_fd, .events = POLLIN}};
	int64_t sweep_at = clock_mono_ms() + SWEEP_MS;

	while (!atomic_load(&s->stopping)) {
		if (poll(p, 2, clock_left_ms(sweep_at)) > 0 && p[0].revents && !accept_some(s)) {
			log_warn("cannot accept: %s", strerror(errno));
			poll(&p[1], 1, EMFILE_MS);
		}
		if (clock_mono_ms() < sweep_at)
			continue;
		conn_sweep(s, clock_mono_ms());
		sweep_at = clock_mono_ms() + SWEEP_MS;
	}
	return NULL;
}

static int trusted_parse(struct http_server *s, const char *list, struct err *err)
{
	while (list && *list) {
		size_t len = strcspn(list, ", ");

		if (len >= HTTP_ADDR_LEN || s->ntrusted == HTTP_TRUSTED_MAX)
			return err_set(err, ERR_INVALID,
				       "trusted_proxies: at most %d plain addresses",
				       HTTP_TRUSTED_MAX);
		if (len)
			snprintf(s->trusted[s->ntrusted++], HTTP_ADDR_LEN, "%.*s", (int)len, list);
		list += len;
		list += strspn(list, ", ");
	}
	return 0;
}

static int config_take(struct http_server *s, const struct http_config *cfg, struct err *err)
{
	s->app = cfg->app;
	s->tls = cfg->tls_cert && cfg->tls_key;
	s->spec = cfg->spec;
	s->nspecs = cfg->nspecs;
	s->max_connections = cfg->max_connections ? cfg->max_connections : 2048;
	s->max_per_address = cfg->max_per_address ? cfg->max_per_address : 512;
	s->idle_timeout_s = cfg->idle_timeout_s ? cfg->idle_timeout_s : 75;
	if (trusted_parse(s, cfg->trusted_proxies, err) < 0)
		return -1;
	s->dialect = calloc(cfg->ndialects + 1, sizeof(*s->dialect));
	if (cfg->public_url && *cfg->public_url)
		s->public_url = strdup(cfg->public_url);
	if (!s->dialect || (cfg->public_url && *cfg->public_url && !s->public_url))
		return err_set(err, ERR_NOMEM, "out of memory");
	for (size_t n = s->public_url ? strlen(s->public_url) : 0; n && s->public_url[n - 1] == '/';
	     n--)
		s->public_url[n - 1] = '\0';
	for (size_t i = 0; i < cfg->ndialects; i++)
		s->dialect[s->ndialects++] = cfg->dialect[i];
	s->dialect[s->ndialects++] = &spec_dialect;
	s->router = router_new(s->dialect, s->ndialects, err);
	return s->router ? 0 : -1;
}

static int mhd_start(struct http_server *s, const struct http_config *cfg, struct err *err)
{
	unsigned flags = MHD_USE_THREAD_PER_CONNECTION | MHD_USE_INTERNAL_POLLING_THREAD |
			 MHD_USE_POLL | MHD_USE_ITC | MHD_USE_NO_LISTEN_SOCKET | MHD_ALLOW_UPGRADE |
			 MHD_USE_ERROR_LOG;
	struct MHD_OptionItem tls[] = {
		{MHD_OPTION_HTTPS_MEM_CERT, 0, (void *)cfg->tls_cert},
		{MHD_OPTION_HTTPS_MEM_KEY, 0, (void *)cfg->tls_key},
		/* The library's own default offers 1.0 and 1.1 too. */
		{MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)"NORMAL:-VERS-TLS1.0:-VERS-TLS1.1"},
		{MHD_OPTION_END, 0, NULL},
	};
	struct MHD_OptionItem none[] = {{MHD_OPTION_END, 0, NULL}};

	if (s->tls)
		flags |= MHD_USE_TLS;
	/* The logger comes first: later options are checked with it. */
	s->mhd = MHD_start_daemon(
		flags, 0, NULL, NULL, request_step, s, MHD_OPTION_EXTERNAL_LOGGER, mhd_log, NULL,
		MHD_OPTION_URI_LOG_CALLBACK, request_line, s, MHD_OPTION_UNESCAPE_CALLBACK,
		unescape_nothing, NULL, MHD_OPTION_NOTIFY_COMPLETED, request_completed, s,
		MHD_OPTION_NOTIFY_CONNECTION, conn_notify, s, MHD_OPTION_CONNECTION_TIMEOUT,
		s->idle_timeout_s, MHD_OPTION_CONNECTION_LIMIT, s->max_connections + 16,
		MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HTTP_POOL, MHD_OPTION_THREAD_STACK_SIZE,
		(size_t)HTTP_STACK, MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_ARRAY,
		s->tls ? tls : none, MHD_OPTION_END);
	if (!s->mhd)
		return err_set(err, ERR_INVALID, "http: cannot start%s",
			       s->tls ? "; are tls_cert and tls_key a PEM pair?" : "");
	return 0;
}

static void server_free(struct http_server *s)
{
	if (s->mhd)
		MHD_stop_daemon(s->mhd);
	router_free(s->router);
	if (s->listen_fd >= 0)
		close(s->listen_fd);
	if (s->stop_fd >= 0)
		close(s->stop_fd);
	free(s->dialect);
	free(s->public_url);
	free(s);
}

static int acceptor_start(struct http_server *s, struct err *err)
{
	pthread_attr_t attr;
	int fl = fcntl(s->listen_fd, F_GETFL), rc;

	/* Another process of the family may hold it too, so a wake-up can find nothing. */
	if (fl < 0 || fcntl(s->listen_fd, F_SETFL, fl | O_NONBLOCK) < 0)
		return err_errno(err, ERR_INVALID, errno, "listening socket");
	s->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (s->stop_fd < 0)
		return err_errno(err, ERR_NOMEM, errno, "eventfd");
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, HTTP_STACK);
	rc = pthread_create(&s->acceptor, &attr, acceptor, s);
	pthread_attr_destroy(&attr);
	return rc ? err_errno(err, ERR_NOMEM, rc, "start the acceptor") : 0;
}

struct http_server *http_start(const struct http_config *cfg, struct err *err)
{
	struct http_server *s = calloc(1, sizeof(*s));

	if (!s) {
		err_set(err, ERR_NOMEM, "out of memory");
		close(cfg->listen_fd);
		return NULL;
	}
	s->listen_fd = cfg->listen_fd;
	s->stop_fd = -1;
	/* sendfile has no flag against SIGPIPE. */
	signal(SIGPIPE, SIG_IGN);
	if (conn_registry_init(s, err) < 0 || config_take(s, cfg, err) < 0 ||
	    mhd_start(s, cfg, err) < 0 || acceptor_start(s, err) < 0) {
		server_free(s);
		return NULL;
	}
	return s;
}

/* Wait until nobody is connected; false when the deadline came first. */
static bool wait_empty(struct http_server *s, int64_t deadline_ms)
{
	bool empty;

	pthread_mutex_lock(&s->lock);
	while ((s->nconns || s->sockets) && clock_left_ms(deadline_ms)) {
		int64_t at = MIN(deadline_ms, clock_mono_ms() + STOP_POLL_MS);
		struct timespec ts = {at / 1000, at % 1000 * 1000000};

		pthread_cond_timedwait(&s->changed, &s->lock, &ts);
		pthread_mutex_unlock(&s->lock);
		/* Connections that became idle meanwhile need not wait. */
		conn_sweep(s, clock_mono_ms());
		pthread_mutex_lock(&s->lock);
	}
	empty = !s->nconns && !s->sockets;
	pthread_mutex_unlock(&s->lock);
	return empty;
}

static void conns_kill(struct http_server *s)
{
	pthread_mutex_lock(&s->lock);
	for (struct http_conn *c = s->conns; c; c = c->next)
		if (!c->upgraded)
			shutdown(c->fd, SHUT_RDWR);
	pthread_mutex_unlock(&s->lock);
}

void http_stop(struct http_server *s, unsigned grace_ms)
{
	uint64_t one = 1;

	if (!s)
		return;
	atomic_store(&s->stopping, true);
	(void)!write(s->stop_fd, &one, sizeof(one));
	pthread_join(s->acceptor, NULL);
	close(TAKE_FD(s->listen_fd));
	conn_sweep(s, clock_mono_ms());
	if (!wait_empty(s, clock_mono_ms() + grace_ms)) {
		ws_stop_all(s);
		conns_kill(s);
		/* Whoever waits on the client's socket now sees the hang-up. */
		if (!wait_empty(s, clock_mono_ms() + 1000))
			ws_kill_all(s);
	}
	while (!wait_empty(s, clock_mono_ms() + 10000))
		log_warn("http: a handler does not notice the end of its client");
	pthread_mutex_destroy(&s->lock);
	pthread_cond_destroy(&s->changed);
	server_free(s);
}
