/*
 * refusal.h - libmicrohttpd's own error pages into JSON.
 */
#ifndef CAISSON_HTTP_REFUSAL_H
#define CAISSON_HTTP_REFUSAL_H

#include <stddef.h>
#include <sys/socket.h>
#include <sys/uio.h>

/*
 * A reply of the library's own (its head and its page, in two pieces) as ours, whole, into out.
 * 0: it is none, or does not fit.
 */
size_t refusal_of_page(const char *head, size_t nhead, const char *page, size_t npage, char *out,
		       size_t cap);
ssize_t sendmsg(int fd, const struct msghdr *msg, int flags);

#endif
