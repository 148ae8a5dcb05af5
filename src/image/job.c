/*
 * job.c - the daemon's end of an import: starts the worker and takes its reports.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "image/confine.h"
#include "image/report.h"
#include "image/store.h"
#include "image/worker.h"

_Static_assert(sizeof(((struct image_job *)0)->msg) >= sizeof(struct report), "one record fits");

static _Noreturn void job_child(struct image_store *s, int tar_fd,
				const struct image_limits *limits, int report_fd)
{
	const int keep[] = {tar_fd, report_fd, s->layers, s->meta, s->ref, s->key, s->tmp};
	sigset_t none;

	/* The daemon's handlers mean nothing here; its death ends us, and with us the unpacker. */
	for (int sig = 1; sig < NSIG; sig++)
		signal(sig, SIG_DFL);
	signal(SIGPIPE, SIG_IGN);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_NAME, "caisson-import");
	confine_close_others(keep, ARRAY_LEN(keep));
	worker_main(s, tar_fd, limits, report_fd);
}

int image_job_start(struct image_store *s, int tar_fd, const struct image_limits *limits,
		    struct image_job *job, struct err *err)
{
	int p[2];
	pid_t pid;

	if (pipe2(p, O_CLOEXEC) < 0)
		return err_errno(err, ERR_NOMEM, errno, "pipe from the import");
	pid = fork();
	if (pid == 0)
		job_child(s, tar_fd, limits, p[1]);
	close(p[1]);
	if (pid < 0 || fd_set_nonblock(p[0], err) < 0) {
		int saved = errno;

		close(p[0]);
		if (pid < 0)
			return err_errno(err, ERR_NOMEM, saved, "fork the import");
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		return -1;
	}
	*job = (struct image_job){.pid = pid, .fd = p[0]};
	return 0;
}

/* 1 = a whole record in r, 0 = none for now. */
static int job_read(struct image_job *job, struct report *r, struct err *err)
{
	ssize_t n = read(job->fd, job->msg + job->have, sizeof(*r) - job->have);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n <= 0)
		return err_set(err, ERR_INTERNAL, "the import was ended");
	job->have += (size_t)n;
	if (job->have < sizeof(*r))
		return 0;
	memcpy(r, job->msg, sizeof(*r));
	job->have = 0;
	if (!report_valid(r))
		return err_set(err, ERR_INTERNAL, "the import broke its protocol");
	return 1;
}

int image_job_step(struct image_job *job, uint64_t *bytes, uint64_t *files, struct image_layer *ret,
		   struct err *err)
{
	struct report r;
	int rc;

	while ((rc = job_read(job, &r, err)) > 0) {
		if (r.kind == REPORT_FAILED)
			return report_to_err(&r, err);
		*bytes = r.bytes;
		*files = r.files;
		if (r.kind != REPORT_DONE)
			continue;
		if (!image_layer_id_valid(r.id))
			return err_set(err, ERR_INTERNAL, "the import broke its protocol");
		memcpy(ret->id, r.id, sizeof(ret->id));
		ret->bytes = r.bytes;
		ret->files = r.files;
		return 1;
	}
	return rc;
}

void image_job_done(struct image_job *job)
{
	if (job->pid > 0) {
		kill(job->pid, SIGKILL);
		while (waitpid(job->pid, NULL, 0) < 0 && errno == EINTR)
			;
	}
	if (job->fd >= 0)
		close(job->fd);
	*job = (struct image_job)IMAGE_JOB_INIT;
}

int image_store_import(struct image_store *s, int tar_fd, const struct image_limits *limits,
		       image_progress_fn progress, void *arg, struct image_layer *ret,
		       struct err *err)
{
	struct image_job job = IMAGE_JOB_INIT;
	uint64_t bytes = 0, files = 0;
	int rc = limits->stacked ? 0 : image_store_get_by_file(s, tar_fd, ret, err);

	if (rc != 0)
		return rc < 0 ? -1 : 0;
	if (image_job_start(s, tar_fd, limits, &job, err) < 0)
		return -1;
	/* The worker has its own deadline. */
	do {
		rc = fd_wait(job.fd, POLLIN, -1, 0, err);
		if (rc >= 0)
			rc = image_job_step(&job, &bytes, &files, ret, err);
		if (rc == 0 && progress)
			progress(arg, bytes, files);
	} while (rc == 0);
	image_job_done(&job);
	return rc < 0 ? -1 : 0;
}
