/*
 * worker.c - see worker.h.
 */
#include "image/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <openssl/evp.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/path.h"
#include "image/confine.h"
#include "image/report.h"
#include "image/store.h"
#include "image/unpack.h"

#define PUMP_BYTES  (256u << 10)
#define PIPE_BYTES  (1 << 20)
#define PROGRESS_MS 200

struct worker {
	struct image_store *store;
	struct image_limits limits;
	int tar, report; /* borrowed */
	int feed, said;	 /* to and from the unpacker */
	int opaque;	 /* its list of opaque directories, or -1 */
	pid_t child;
	int64_t deadline_ms;
	EVP_MD_CTX *sha;
	uint64_t taken;	    /* bytes of the archive so far */
	bool is_file;	    /* read by offset, twice */
	bool ended;	    /* the unpacker has had its last word: */
	struct report last; /* this one */
	char *buf;
	size_t have, put;
};

struct child_progress {
	int fd;
	int64_t next_ms;
};

static void child_progress(void *arg, uint64_t bytes, uint64_t files)
{
	const struct report r = {.kind = REPORT_PROGRESS, .bytes = bytes, .files = files};
	struct child_progress *p = arg;
	int64_t now = clock_mono_ms();

	if (now < p->next_ms)
		return;
	p->next_ms = now + PROGRESS_MS;
	report_send(p->fd, &r);
}

/* The unpacker's whole life. */
static _Noreturn void child_main(int feed, int said, int root, int opaque,
				 const struct image_limits *l)
{
	const int keep[] = {feed, said, root, opaque};
	struct child_progress progress = {.fd = said};
	struct unpack_stats st = {0};
	struct err err = {0};
	struct report done = {.kind = REPORT_DONE};
	int fd, null = open("/dev/null", O_RDWR | O_CLOEXEC);

	for (int i = 0; i < 3; i++)
		if (null < 0 || dup2(null, i) < 0)
			_exit(1);
	confine_close_others(keep, ARRAY_LEN(keep));
	fd = confine_enter(root, l->bytes_max, &err);
	close(root);
	if (fd < 0 || unpack_tar(feed, fd, opaque, l, child_progress, &progress, &st, &err) < 0) {
		report_send_err(said, &err);
		_exit(1);
	}
	done.bytes = st.bytes;
	done.files = st.files;
	report_send(said, &done);
	_exit(0);
}

static int worker_spawn(struct worker *w, int root, struct err *err)
{
	int feed[2], said[2];

	if (pipe2(feed, O_CLOEXEC) < 0)
		return err_errno(err, ERR_NOMEM, errno, "pipe to the unpacker");
	if (pipe2(said, O_CLOEXEC) < 0) {
		fd_close_all(feed, 2);
		return err_errno(err, ERR_NOMEM, errno, "pipe from the unpacker");
	}
	/* A longer pipe is speed only; root's share of pipe memory may be used up. */
	(void)!fcntl(feed[1], F_SETPIPE_SZ, PIPE_BYTES);
	w->child = confine_fork(err);
	if (w->child == 0)
		child_main(feed[0], said[1], root, w->opaque, &w->limits);
	w->feed = feed[1];
	w->said = said[0];
	close(feed[0]);
	close(said[1]);
	if (w->child < 0)
		return -1;
	return fd_set_nonblock(w->feed, err);
}

/* The next bytes of the archive into buf, digested. 0 at its end. */
static int worker_take(struct worker *w, struct err *err)
{
	ssize_t n;

	do {
		n = w->is_file ? pread(w->tar, w->buf, PUMP_BYTES, (off_t)w->taken)
			       : read(w->tar, w->buf, PUMP_BYTES);
	} while (n < 0 && errno == EINTR);
	if (n < 0 && errno == EAGAIN)
		return 1;
	if (n < 0)
		return err_errno(err, ERR_INTERNAL, errno, "read the archive");
	w->taken += (uint64_t)n;
	if (w->taken > w->limits.tar_max)
		return err_set(err, ERR_LIMIT, "archive: larger than %" PRIu64 " bytes",
			       w->limits.tar_max);
	if (n && EVP_DigestUpdate(w->sha, w->buf, (size_t)n) != 1)
		return err_set(err, ERR_INTERNAL, "digest the archive");
	w->have = (size_t)n;
	w->put = 0;
	return n > 0;
}

static void worker_end_feed(struct worker *w)
{
	if (w->feed >= 0)
		close(w->feed);
	w->feed = -1;
	w->have = w->put = 0;
}

/* Hand the unpacker what fits. It may have read enough and left: no error of its own. */
static int worker_feed(struct worker *w, struct err *err)
{
	ssize_t n = write(w->feed, w->buf + w->put, w->have - w->put);

	if (n < 0 && errno == EPIPE) {
		worker_end_feed(w);
		return 0;
	}
	if (n < 0 && errno != EAGAIN && errno != EINTR)
		return err_errno(err, ERR_INTERNAL, errno, "feed the unpacker");
	if (n > 0)
		w->put += (size_t)n;
	return 0;
}

static int worker_hear(struct worker *w, struct err *err)
{
	struct report r;
	ssize_t n = read(w->said, &r, sizeof(r));

	if (n < 0 && errno == EINTR)
		return 0;
	if (n == 0)
		return err_set(err, ERR_INVALID, "archive: the unpacker died of it");
	if (n != (ssize_t)sizeof(r) || !report_valid(&r))
		return err_set(err, ERR_INTERNAL, "the unpacker broke its protocol");
	r.id[0] = '\0'; /* not its business */
	if (r.kind == REPORT_FAILED)
		return report_to_err(&r, err);
	if (r.kind == REPORT_PROGRESS) {
		report_send(w->report, &r);
		return 0;
	}
	w->last = r;
	w->ended = true;
	return 0;
}

/* One wait for any of the three descriptors, and what is due on them. */
static int worker_turn(struct worker *w, struct err *err)
{
	bool full = w->put < w->have;
	struct pollfd p[] = {
		{.fd = w->said, .events = POLLIN},
		{.fd = w->feed >= 0 && !full ? w->tar : -1, .events = POLLIN},
		{.fd = full ? w->feed : -1, .events = POLLOUT},
	};
	int n = poll(p, ARRAY_LEN(p), clock_left_ms(w->deadline_ms)), rc;

	if (n < 0 && errno != EINTR)
		return err_errno(err, ERR_INTERNAL, errno, "wait for the unpacker");
	if (n == 0)
		return err_set(err, ERR_LIMIT, "archive: import took more than %" PRId64 " s",
			       w->limits.time_max_ms / 1000);
	if (n < 0)
		return 0;
	if (p[2].revents && worker_feed(w, err) < 0)
		return -1;
	if (p[1].revents) {
		rc = worker_take(w, err);
		if (rc < 0)
			return -1;
		if (rc == 0)
			worker_end_feed(w);
	}
	return p[0].revents ? worker_hear(w, err) : 0;
}

/* What lies behind the archive's end counts for the digest all the same. */
static int worker_drain(struct worker *w, struct err *err)
{
	int rc;

	do {
		if (fd_wait(w->tar, POLLIN, -1, w->deadline_ms, err) < 0)
			return -1;
		rc = worker_take(w, err);
	} while (rc > 0);
	return rc;
}

/* The same archive is two layers: whole, and as one of a stack. */
static int worker_digest_start(struct worker *w, struct err *err)
{
	static const char stacked[] = "caisson stacked layer\n";

	if (EVP_DigestInit_ex(w->sha, EVP_sha256(), NULL) != 1 ||
	    (w->limits.stacked && EVP_DigestUpdate(w->sha, stacked, sizeof(stacked) - 1) != 1))
		return err_set(err, ERR_INTERNAL, "digest the archive");
	return 0;
}

static int worker_digest(struct worker *w, char id[PRIV_LAYER_ID_LEN], struct err *err)
{
	unsigned char md[32];
	unsigned n = sizeof(md);

	if (EVP_DigestFinal_ex(w->sha, md, &n) != 1 || n != sizeof(md))
		return err_set(err, ERR_INTERNAL, "digest the archive");
	for (size_t i = 0; i < sizeof(md); i++)
		snprintf(id + 2 * i, 3, "%02x", md[i]);
	return 0;
}

static void worker_reap(struct worker *w)
{
	if (w->child <= 0)
		return;
	kill(w->child, SIGKILL);
	while (waitpid(w->child, NULL, 0) < 0 && errno == EINTR)
		;
	w->child = -1;
}

/* Names that are no directories (any more) are the unpacker's own loss. */
static int worker_mark_opaque(struct worker *w, int root, struct err *err)
{
	auto_buf struct buf list = BUF_INIT(8u << 20);
	struct stat st;

	if (w->opaque < 0)
		return 0;
	if (fstat(w->opaque, &st) < 0 || !buf_reserve(&list, (size_t)st.st_size + 1, err))
		return err_set(err, ERR_LIMIT, "archive: too many opaque directories");
	if (pread(w->opaque, list.data, (size_t)st.st_size, 0) != st.st_size)
		return err_set(err, ERR_INTERNAL, "read the opaque directories");
	list.data[st.st_size] = '\0';
	for (const char *p = list.data; p < list.data + st.st_size; p += strlen(p) + 1) {
		auto_close int fd =
			path_open_in(root, p, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0, NULL);

		if (fd >= 0 && fsetxattr(fd, "trusted.overlay.opaque", "y", 1, 0) < 0)
			return err_errno(err, ERR_INTERNAL, errno, "mark an opaque directory");
	}
	return 0;
}

/* Unpack into root (a fresh directory), and leave the tree on the disk. */
static int worker_unpack(struct worker *w, int root, struct image_layer *ret, struct err *err)
{
	w->taken = 0;
	if (worker_digest_start(w, err) < 0)
		return -1;
	if (w->limits.stacked && (w->opaque = memfd_create("opaque", MFD_CLOEXEC)) < 0)
		return err_errno(err, ERR_NOMEM, errno, "list of opaque directories");
	if (worker_spawn(w, root, err) < 0)
		return -1;
	while (!w->ended)
		if (worker_turn(w, err) < 0)
			return -1;
	/* Nobody may write any more before the tree gets its name. */
	worker_reap(w);
	if (worker_drain(w, err) < 0 || worker_digest(w, ret->id, err) < 0)
		return -1;
	if (worker_mark_opaque(w, root, err) < 0)
		return -1;
	ret->bytes = w->last.bytes;
	ret->files = w->last.files;
	if (syncfs(root) < 0)
		return err_errno(err, ERR_UNAVAILABLE, errno, "write the layer to the disk");
	return 0;
}

/* A file is digested first: half a second, against several for a layer already here. */
static int worker_known(struct worker *w, struct image_layer *ret, struct err *err)
{
	char id[PRIV_LAYER_ID_LEN];
	int rc = worker_digest_start(w, err);

	if (rc < 0)
		return -1;
	do {
		rc = worker_take(w, err);
	} while (rc > 0);
	if (rc < 0 || worker_digest(w, id, err) < 0)
		return -1;
	return image_store_get(w->store, id, ret, err);
}

static int worker_import(struct worker *w, struct image_layer *ret, struct err *err)
{
	char tmp[ID_LEN];
	auto_close int root = -1;
	int rc = w->is_file ? worker_known(w, ret, err) : 0;

	if (rc != 0)
		return rc < 0 ? -1 : 0;
	root = store_tmp_new(w->store, tmp, err);
	if (root < 0)
		return -1;
	rc = worker_unpack(w, root, ret, err);
	worker_reap(w);
	if (rc == 0)
		rc = store_publish(w->store, tmp, ret, err);
	/* Failed, or another import of the same archive came first. Else the name is gone. */
	path_remove_tree(w->store->tmp, tmp, NULL);
	return rc;
}

static int worker_run(struct worker *w, struct image_layer *ret, struct err *err)
{
	char key[STORE_KEY_LEN], after[STORE_KEY_LEN];
	bool keyed = !w->limits.stacked && store_key_of(w->tar, key);
	struct stat st;

	w->is_file = fstat(w->tar, &st) == 0 && S_ISREG(st.st_mode);
	w->deadline_ms = clock_mono_ms() + w->limits.time_max_ms;
	w->buf = malloc(PUMP_BYTES);
	w->sha = EVP_MD_CTX_new();
	if (!w->buf || !w->sha)
		return err_set(err, ERR_NOMEM, "out of memory for an import");
	if (worker_import(w, ret, err) < 0)
		return -1;
	if (keyed && store_key_of(w->tar, after) && strcmp(key, after) == 0)
		return store_key_set(w->store, key, ret->id, err);
	return 0;
}

_Noreturn void worker_main(struct image_store *s, int tar_fd, const struct image_limits *limits,
			   int report_fd)
{
	struct worker w = {.store = s,
			   .limits = *limits,
			   .tar = tar_fd,
			   .report = report_fd,
			   .opaque = -1,
			   .feed = -1,
			   .said = -1,
			   .child = -1};
	struct report done = {.kind = REPORT_DONE};
	struct image_layer layer = {0};
	struct err err = {0};

	unpack_limits_fill(&w.limits);
	if (worker_run(&w, &layer, &err) < 0) {
		report_send_err(report_fd, &err);
		_exit(1);
	}
	memcpy(done.id, layer.id, sizeof(done.id));
	done.bytes = layer.bytes;
	done.files = layer.files;
	report_send(report_fd, &done);
	_exit(0);
}
