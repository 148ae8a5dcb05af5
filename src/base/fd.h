/*
 * fd.h - descriptors: waiting with a deadline, whole reads and writes, passing over unix sockets.
 *
 * Everything opened here is CLOEXEC. Deadlines are monotonic milliseconds, 0 = none.
 */
#ifndef CAISSON_BASE_FD_H
#define CAISSON_BASE_FD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

#define FD_PASS_MAX 4 /* descriptors in one message */

/*
 * Wait until fd is ready for events (poll bits). watch (or -1) is the client's socket: its
 * hang-up ends the wait. Returns the revents; -1 with ERR_TIMEOUT or ERR_CANCELLED.
 */
int fd_wait(int fd, short events, int watch, int64_t deadline_ms, struct err *err);

/* All n bytes or an error; end of file before n is ERR_GONE. Work on blocking and non-blocking. */
int fd_read_all(int fd, void *p, size_t n, int64_t deadline_ms, struct err *err);
int fd_write_all(int fd, const void *p, size_t n, int64_t deadline_ms, struct err *err);

int fd_set_nonblock(int fd, struct err *err);
int fd_set_cloexec(int fd, bool on, struct err *err);

/*
 * One send with up to FD_PASS_MAX descriptors attached (SCM_RIGHTS, MSG_NOSIGNAL). Stream
 * sockets: whole buffer, the descriptors ride on its first byte.
 */
int fd_send(int sock, const void *p, size_t n, const int *fds, size_t nfds, int64_t deadline_ms,
	    struct err *err);
/*
 * One receive of at most cap bytes. Descriptors arrive CLOEXEC in fds[FD_PASS_MAX], surplus or
 * truncated ones are closed and the call fails. Returns bytes, 0 at end of file.
 */
ssize_t fd_recv(int sock, void *p, size_t cap, int fds[FD_PASS_MAX], size_t *ret_nfds,
		int64_t deadline_ms, struct err *err);
void fd_close_all(int *fds, size_t n); /* closes and sets to -1 */

#endif
