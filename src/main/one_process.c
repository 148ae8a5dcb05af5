/*
 * one_process.c - --no-privsep: the api role on a thread of the root process, for a debugger.
 *
 * The two roles speak the same socket as ever, so what is debugged is what runs. What is off: the
 * api's own user, its seccomp filter, and its restarts, since whatever ends it ends the process.
 * `caissond net` stays a process of its own. Nothing a sandbox is kept in by changes.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/log.h"
#include "main/roles.h"

static void *one_main(void *arg)
{
	struct one_process *o = arg;

	o->code = role_api_run(o->config, o->sock, o->listener, o->stop);
	eventfd_write(o->end, 1);
	return NULL;
}

int one_start(void *arg, int sock, struct err *err)
{
	struct one_process *o = arg;
	pthread_t thread;

	o->sock = fcntl(sock, F_DUPFD_CLOEXEC, 3);
	o->listener = fcntl(o->listener, F_DUPFD_CLOEXEC, 3);
	o->stop = eventfd(0, EFD_CLOEXEC);
	o->end = eventfd(0, EFD_CLOEXEC);
	if (o->sock < 0 || o->listener < 0 || o->stop < 0 || o->end < 0)
		return err_errno(err, ERR_NOMEM, errno, "make descriptors of the api's thread");
	if (pthread_create(&thread, NULL, one_main, o) != 0)
		return err_set(err, ERR_NOMEM, "start the api's thread");
	pthread_detach(thread);
	log_warn("--no-privsep: the api runs as root in this process; for debugging only");
	return o->end;
}

void one_stop(void *arg)
{
	struct one_process *o = arg;

	eventfd_write(o->stop, 1);
}
