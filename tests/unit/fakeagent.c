/*
 * fakeagent.c - see fakeagent.h.
 */
#include "unit/fakeagent.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#define BACKLOG 4

void fakeagent_start(struct fakeagent *f, void *(*answer)(void *arg), void *arg)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};

	snprintf(f->path, sizeof(f->path), "/tmp/caisson-fake-%d.sock", getpid());
	unlink(f->path);
	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", f->path);
	f->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(f->listener, (struct sockaddr *)&addr, sizeof(addr)), 0);
	assert_int_equal(listen(f->listener, BACKLOG), 0);
	assert_int_equal(pthread_create(&f->thread, NULL, answer, arg), 0);
}

void fakeagent_end(struct fakeagent *f)
{
	pthread_join(f->thread, NULL);
	close(f->listener);
	unlink(f->path);
}
