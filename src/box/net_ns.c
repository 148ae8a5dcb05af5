/*
 * net_ns.c - running code in another network namespace, and its /proc/sys/net.
 *
 * A thread that changes its namespace and fails to come back would poison the daemon, so work in
 * a foreign namespace is done on a thread that ends with it.
 */
#include "box/net_int.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

struct ns_call {
	int netns;
	int (*fn)(void *arg, struct err *err);
	void *arg;
	struct err *err;
	int ret;
};

static void *ns_thread(void *p)
{
	struct ns_call *c = p;

	if (setns(c->netns, CLONE_NEWNET) < 0)
		c->ret = err_errno(c->err, ERR_INTERNAL, errno, "enter network namespace");
	else
		c->ret = c->fn(c->arg, c->err);
	return NULL;
}

int net_in_ns(int netns, int (*fn)(void *arg, struct err *err), void *arg, struct err *err)
{
	struct ns_call c = {.netns = netns, .fn = fn, .arg = arg, .err = err, .ret = -1};
	pthread_t t;
	int e = pthread_create(&t, NULL, ns_thread, &c);

	if (e)
		return err_errno(err, ERR_NOMEM, e, "start a namespace thread");
	pthread_join(t, NULL);
	return c.ret;
}

int net_ns_open_self(struct err *err)
{
	int fd = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return err_errno(err, ERR_NOMEM, errno, "open own network namespace");
	return fd;
}

struct ns_socket {
	int bus;
	struct nl_sock *ret;
};

static int ns_socket_make(void *arg, struct err *err)
{
	struct ns_socket *s = arg;

	return nl_open(s->ret, s->bus, err);
}

int net_ns_socket(int netns, int bus, struct nl_sock *ret, struct err *err)
{
	struct ns_socket s = {.bus = bus, .ret = ret};

	return net_in_ns(netns, ns_socket_make, &s, err);
}

static int sysctl_open(const char *name, int flags)
{
	char path[128];

	if ((size_t)snprintf(path, sizeof(path), "/proc/sys/net/%s", name) >= sizeof(path)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	return open(path, flags | O_CLOEXEC);
}

int net_sysctl(const char *name, const char *value, struct err *err)
{
	auto_close int fd = sysctl_open(name, O_WRONLY);
	size_t len = strlen(value);

	if (fd < 0 || write(fd, value, len) != (ssize_t)len)
		return err_errno(err, ERR_INTERNAL, errno, "set net/%s to \"%s\"", name, value);
	return 0;
}

int net_sysctl_get(const char *name, char *out, size_t cap)
{
	auto_close int fd = sysctl_open(name, O_RDONLY);
	ssize_t got = fd < 0 ? -1 : read(fd, out, cap - 1);

	if (got < 0)
		return -1;
	while (got > 0 && out[got - 1] == '\n')
		got--;
	out[got] = '\0';
	return 0;
}
