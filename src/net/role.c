/*
 * role.c - see netrole.h: the loop of the `caissond net` process.
 */
#include "caisson/netrole.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/log.h"
#include "base/scope.h"
#include "net/role.h"

#define EVENT_BATCH 64

int role_watch(struct role *r, struct io *io, uint32_t events, struct err *err)
{
	struct epoll_event ev = {.events = events, .data.ptr = io};

	if (epoll_ctl(r->epoll, EPOLL_CTL_ADD, io->fd, &ev) < 0)
		return err_errno(err, ERR_NOMEM, errno, "watch a socket");
	return 0;
}

static void control_ready(struct role *r, struct io *io, uint32_t events)
{
	char buf[64];
	ssize_t n = recv(io->fd, buf, sizeof(buf), MSG_DONTWAIT);

	if (n < 0 && errno == ENOTSOCK)
		n = read(io->fd, buf, sizeof(buf));
	if (n == 0 || (events & (EPOLLHUP | EPOLLERR)))
		r->end = true;
}

static int role_setup(struct role *r, const struct netrole_config *cfg, struct err *err)
{
	const struct {
		struct io *io;
		int fd;
		void (*ready)(struct role *, struct io *, uint32_t);
	} row[] = {
		{&r->control, cfg->control, control_ready},
		{&r->udp, cfg->udp, query_readable},
		{&r->tcp, cfg->tcp, session_accept},
		{&r->refuse_udp, cfg->refuse_udp, query_refuse_readable},
		{&r->refuse_tcp, cfg->refuse_tcp, session_refuse_accept},
	};

	r->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (r->epoll < 0)
		return err_errno(err, ERR_NOMEM, errno, "epoll_create1");
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		*row[i].io = (struct io){.fd = row[i].fd, .ready = row[i].ready};
		if (fd_set_nonblock(row[i].fd, err) < 0 ||
		    role_watch(r, row[i].io, EPOLLIN, err) < 0)
			return -1;
	}
	id_random(&r->seed, sizeof(r->seed));
	r->now_ms = clock_mono_ms();
	return resolv_load(r, err);
}

/*
 * An event may free the object of a later event in the same batch (a session has two sockets), so
 * events are taken one by one where that can be: each wait asks for one event only when any
 * session lives.
 */
static void role_turn(struct role *r)
{
	struct epoll_event ev[EVENT_BATCH];
	bool busy = r->nqueries || r->nsessions;
	int n = epoll_wait(r->epoll, ev, r->nsessions ? 1 : EVENT_BATCH, busy ? ROLE_SWEEP_MS : -1);

	r->now_ms = clock_mono_ms();
	for (int i = 0; i < n; i++) {
		struct io *io = ev[i].data.ptr;

		io->ready(r, io, ev[i].events);
	}
}

int netrole_main(const struct netrole_config *cfg, struct err *err)
{
	struct role *r = calloc(1, sizeof(*r));
	int64_t swept = 0;

	if (!r)
		return err_set(err, ERR_NOMEM, "out of memory");
	r->resolvers = cfg->resolvers;
	if (role_setup(r, cfg, err) < 0) {
		free(r);
		return -1;
	}
	log_info("resolver ready, %u upstream servers", r->nups);
	while (!r->end) {
		role_turn(r);
		if (r->now_ms - swept < ROLE_SWEEP_MS)
			continue;
		swept = r->now_ms;
		query_sweep(r);
		session_sweep(r);
	}
	close(r->epoll);
	free(r);
	return 0;
}
