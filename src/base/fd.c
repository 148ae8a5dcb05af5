/*
 * fd.c - see fd.h.
 */
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"

int fd_wait(int fd, short events, int watch, int64_t deadline_ms, struct err *err)
{
	struct pollfd p[2] = {{.fd = fd, .events = events}, {.fd = watch, .events = POLLRDHUP}};

	for (;;) {
		int n = poll(p, watch >= 0 ? 2 : 1, clock_left_ms(deadline_ms));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_errno(err, ERR_INTERNAL, errno, "poll");
		if (n == 0)
			return err_set(err, ERR_TIMEOUT, "timed out");
		/* Readiness first: bytes that came before the hang-up still count. */
		if (p[0].revents)
			return p[0].revents;
		if (watch >= 0 && p[1].revents)
			return err_set(err, ERR_CANCELLED, "client hung up");
	}
}

int fd_read_all(int fd, void *p, size_t n, int64_t deadline_ms, struct err *err)
{
	char *at = p;

	while (n) {
		ssize_t got;

		if (deadline_ms && fd_wait(fd, POLLIN, -1, deadline_ms, err) < 0)
			return -1;
		got = read(fd, at, n);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0 && errno == EAGAIN) {
			if (fd_wait(fd, POLLIN, -1, deadline_ms, err) < 0)
				return -1;
			continue;
		}
		if (got < 0)
			return err_errno(err, ERR_INTERNAL, errno, "read");
		if (got == 0)
			return err_set(err, ERR_GONE, "end of stream");
		at += got;
		n -= (size_t)got;
	}
	return 0;
}

int fd_write_all(int fd, const void *p, size_t n, int64_t deadline_ms, struct err *err)
{
	const char *at = p;

	while (n) {
		ssize_t put;

		if (deadline_ms && fd_wait(fd, POLLOUT, -1, deadline_ms, err) < 0)
			return -1;
		put = write(fd, at, n);
		if (put < 0 && errno == EINTR)
			continue;
		if (put < 0 && errno == EAGAIN) {
			if (fd_wait(fd, POLLOUT, -1, deadline_ms, err) < 0)
				return -1;
			continue;
		}
		if (put < 0)
			return err_errno(err, errno == EPIPE ? ERR_GONE : err_code_of_errno(errno),
					 errno, "write");
		at += put;
		n -= (size_t)put;
	}
	return 0;
}

int fd_set_nonblock(int fd, struct err *err)
{
	int fl = fcntl(fd, F_GETFL);

	if (fl < 0 || fcntl(fd, F_SETFL, fl | O_NONBLOCK) < 0)
		return err_errno(err, ERR_INTERNAL, errno, "set descriptor %d non-blocking", fd);
	return 0;
}

int fd_set_cloexec(int fd, bool on, struct err *err)
{
	if (fcntl(fd, F_SETFD, on ? FD_CLOEXEC : 0) < 0)
		return err_errno(err, ERR_INTERNAL, errno, "set close-on-exec of %d", fd);
	return 0;
}

void fd_close_all(int *fds, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (fds[i] >= 0)
			close(fds[i]);
		fds[i] = -1;
	}
}

int fd_send(int sock, const void *p, size_t n, const int *fds, size_t nfds, int64_t deadline_ms,
	    struct err *err)
{
	union {
		char raw[CMSG_SPACE(FD_PASS_MAX * sizeof(int))];
		struct cmsghdr align;
	} ctl;
	struct iovec iov = {.iov_base = (void *)p, .iov_len = n};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
	ssize_t put;

	if (nfds > FD_PASS_MAX)
		return err_set(err, ERR_INTERNAL, "%zu descriptors in one message", nfds);
	if (nfds) {
		struct cmsghdr *c;

		memset(&ctl, 0, sizeof(ctl));
		msg.msg_control = ctl.raw;
		msg.msg_controllen = CMSG_SPACE(nfds * sizeof(int));
		c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(nfds * sizeof(int));
		memcpy(CMSG_DATA(c), fds, nfds * sizeof(int));
	}
	for (;;) {
		put = sendmsg(sock, &msg, MSG_NOSIGNAL | (deadline_ms ? MSG_DONTWAIT : 0));
		if (put >= 0)
			break;
		if (errno == EINTR)
			continue;
		if (errno == EAGAIN) {
			if (fd_wait(sock, POLLOUT, -1, deadline_ms, err) < 0)
				return -1;
			continue;
		}
		return err_errno(err,
				 errno == EPIPE || errno == ECONNRESET ? ERR_GONE : ERR_INTERNAL,
				 errno, "send");
	}
	if ((size_t)put < n)
		return fd_write_all(sock, (const char *)p + put, n - (size_t)put, deadline_ms, err);
	return 0;
}

/* Collect passed descriptors; every one beyond the ceiling is closed and makes it fail. */
static int fd_collect(struct msghdr *msg, int fds[FD_PASS_MAX], size_t *ret_nfds)
{
	size_t n = 0;
	bool surplus = (msg->msg_flags & MSG_CTRUNC) != 0;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		size_t k;

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		k = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < k; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
			if (n < FD_PASS_MAX) {
				fds[n++] = fd;
			} else {
				close(fd);
				surplus = true;
			}
		}
	}
	*ret_nfds = n;
	return surplus ? -1 : 0;
}

ssize_t fd_recv(int sock, void *p, size_t cap, int fds[FD_PASS_MAX], size_t *ret_nfds,
		int64_t deadline_ms, struct err *err)
{
	union {
		char raw[CMSG_SPACE(FD_PASS_MAX * sizeof(int))];
		struct cmsghdr align;
	} ctl;
	struct iovec iov = {.iov_base = p, .iov_len = cap};
	struct msghdr msg;
	size_t nfds = 0;
	ssize_t got;

	for (;;) {
		msg = (struct msghdr){.msg_iov = &iov,
				      .msg_iovlen = 1,
				      .msg_control = ctl.raw,
				      .msg_controllen = sizeof(ctl.raw)};
		got = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC | (deadline_ms ? MSG_DONTWAIT : 0));
		if (got >= 0)
			break;
		if (errno == EINTR)
			continue;
		if (errno == EAGAIN) {
			if (fd_wait(sock, POLLIN, -1, deadline_ms, err) < 0)
				return -1;
			continue;
		}
		return err_errno(err, errno == ECONNRESET ? ERR_GONE : ERR_INTERNAL, errno,
				 "receive");
	}
	if (fd_collect(&msg, fds, &nfds) < 0 || (msg.msg_flags & MSG_TRUNC)) {
		fd_close_all(fds, nfds);
		return err_set(err, ERR_AGENT, "message or descriptors over the limit");
	}
	*ret_nfds = nfds;
	return got;
}
