/*
 * copy_sparse.c - a file with holes on its way up: as a tar of one entry, which the sandbox unpacks
 * with its holes. The packer works on a thread of its own and ends when its pipe is closed.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/copy.h"
#include "cli/pack.h"
#include "cli/rest.h"

#define HOLES_MIN (256 << 10) /* bytes of holes that are worth it */

struct packer {
	int in, out;
	const struct stat *st;
	const char *name;
	struct err err;
	int rc;
};

static void *packer_main(void *arg)
{
	struct packer *p = arg;
	p->rc = pack_sparse(p->in, p->st, p->name, p->out, &p->err);
	close(p->out);
	return NULL;
}

bool copy_is_sparse(const struct stat *st)
{
	return S_ISREG(st->st_mode) && st->st_blocks * 512 + HOLES_MIN < st->st_size;
}

static ssize_t read_tar(void *arg, void *p, size_t cap, struct err *err)
{
	struct copy *k = arg;
	return progress_read(&k->progress, k->fd, p, cap, err);
}

static int send_tar(struct copy *k, const char *dir, struct err *err)
{
	auto_buf struct buf url = BUF_INIT(REST_URL_MAX);
	auto_json json_t *reply = NULL;
	struct rest_stream s = {
		.read = read_tar, .arg = k, .size = -1, .type = "application/x-tar"};
	if (url_of(&url, "/caisson/sandboxes/", k->sandbox, "/tar", err) < 0 ||
	    url_query(&url, "path", dir, err) < 0)
		return -1;
	return rest_stream(k->c, "PUT", buf_str(&url), &s, &reply, err);
}

int copy_sparse_up(struct copy *k, int fd, const struct stat *st, const char *remote,
		   struct err *err)
{
	char dir[COPY_PATH_MAX], name[256];
	int ends[2];
	pthread_t thread;
	const char *slash = strrchr(remote, '/');
	snprintf(dir, sizeof(dir), "%.*s", slash ? (int)(slash - remote) + 1 : 1,
		 slash ? remote : ".");
	struct packer p = {.in = fd, .st = st, .name = copy_base(remote, name)};
	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_errno(err, ERR_INTERNAL, errno, "pipe");
	p.out = ends[1];
	if (pthread_create(&thread, NULL, packer_main, &p) != 0) {
		close(ends[0]);
		close(ends[1]);
		return err_set(err, ERR_NOMEM, "no thread");
	}
	k->fd = ends[0];
	int rc = send_tar(k, dir, err);
	close(ends[0]);
	pthread_join(thread, NULL);
	if (rc == 0 && p.rc < 0) {
		*err = p.err;
		rc = -1;
	}
	if (rc < 0)
		return err_wrap(err, "%s", remote);
	k->files++;
	k->bytes += (uint64_t)st->st_size;
	return 0;
}
