/*
 * watch.c - WATCH: changes below a place as they come, on a thread of its own.
 *
 * Each folder has an inotify watch; new folders get theirs before they are read, so that what was
 * made in them meanwhile is told once from the reading, perhaps twice, but never not at all. A
 * reader that is slow makes the kernel drop events, which it says: OVERFLOW goes out and all is
 * read again. Ceilings are told by LIMIT. Staged uploads are not shown.
 */
#include "init/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/path.h"

#define WATCH_DIRS_MAX 8192
#define WATCH_FRAME    (60u << 10)
#define WATCH_READ     (16u << 10)
#define WATCH_MASK                                                                                 \
	(IN_CREATE | IN_MODIFY | IN_CLOSE_WRITE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO |        \
	 IN_ATTRIB | IN_DELETE_SELF | IN_MOVE_SELF)

struct watch_dir {
	int wd;
	char *path;
};

struct watch {
	struct job *job;
	int ino;
	bool limited; /* a ceiling was told */
	bool tell;    /* the walk reports what it finds as new */
	bool over;    /* the place itself is gone */
	size_t n;
	struct watch_dir *dir; /* by wd */
	uint32_t cookie;       /* of the last name something moved away from */
	bool away;	       /* it is a folder, and where it went is not known yet */
	uint8_t last_kind;
	struct wire_out o;
	uint32_t in_frame;
	struct walk walk;
	char from[PATH_MAX + NAME_MAX + 2], last[PATH_MAX + NAME_MAX + 2];
	uint8_t raw[WATCH_FRAME];
	char in[WATCH_READ] __attribute__((aligned(8)));
};

/* ---- out ---- */

static void frame_reset(struct watch *w)
{
	w->o = wire_out_on(w->raw, sizeof(w->raw));
	wire_put_u32(&w->o, 0);
	w->in_frame = 0;
	w->last_kind = 0;
}

/* Waits for a slow reader as long as it is there. */
static int frame_send(struct watch *w, struct err *err)
{
	struct wire_out count = wire_out_on(w->raw, 4);
	struct wire_frame f = {.len = (uint32_t)w->o.len, .type = AGENT_EVENTS};
	uint8_t head[WIRE_FRAME_HEAD];

	if (w->in_frame == 0)
		return 0;
	wire_put_u32(&count, w->in_frame);
	wire_frame_put(head, &f);
	if (fd_write_all(w->job->fd, head, sizeof(head), 0, err) < 0 ||
	    fd_write_all(w->job->fd, w->raw, w->o.len, 0, err) < 0)
		return -1;
	frame_reset(w);
	return 0;
}

static int event_put(struct watch *w, uint8_t kind, bool dir, const char *path, const char *from,
		     struct err *err)
{
	size_t room = strlen(path) + strlen(from) + 16;

	/* A program that writes in small pieces is one event a frame. */
	if (kind == w->last_kind && strcmp(path, w->last) == 0)
		return 0;
	if (room > w->o.cap - w->o.len && frame_send(w, err) < 0)
		return -1;
	wire_put_u8(&w->o, kind);
	wire_put_u8(&w->o, dir ? 'd' : 'f');
	wire_put_str(&w->o, path);
	wire_put_str(&w->o, from);
	w->in_frame++;
	w->last_kind = kind;
	memcpy(w->last, path, strlen(path) + 1);
	return 0;
}

static int limit_put(struct watch *w, const char *path, struct err *err)
{
	if (w->limited)
		return 0;
	w->limited = true;
	return event_put(w, AGENT_EVENT_LIMIT, true, path, "", err);
}

/* ---- the table ---- */

/* Where wd is or would be. */
static size_t dir_slot(const struct watch *w, int wd)
{
	size_t lo = 0, hi = w->n;

	while (lo < hi) {
		size_t mid = (lo + hi) / 2;

		if (w->dir[mid].wd < wd)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static const char *dir_path(const struct watch *w, int wd)
{
	size_t i = dir_slot(w, wd);

	return i < w->n && w->dir[i].wd == wd ? w->dir[i].path : NULL;
}

static void dir_forget(struct watch *w, size_t i)
{
	free(w->dir[i].path);
	memmove(&w->dir[i], &w->dir[i + 1], (w->n - i - 1) * sizeof(w->dir[0]));
	w->n--;
}

static bool dir_keep(struct watch *w, int wd, const char *path)
{
	size_t i = dir_slot(w, wd);
	char *copy = strdup(path);

	if (!copy)
		return false;
	if (i < w->n && w->dir[i].wd == wd) {
		free(w->dir[i].path);
		w->dir[i].path = copy;
		return true;
	}
	memmove(&w->dir[i + 1], &w->dir[i], (w->n - i) * sizeof(w->dir[0]));
	w->dir[i] = (struct watch_dir){wd, copy};
	w->n++;
	return true;
}

/* 1 watched, 0 a ceiling, -1 gone or not for this user. */
static int dir_add(struct watch *w, int fd, const char *path)
{
	char name[40];
	int wd;

	if (w->n == WATCH_DIRS_MAX)
		return 0;
	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	wd = inotify_add_watch(w->ino, name, WATCH_MASK);
	if (wd < 0)
		return errno == ENOSPC || errno == ENOMEM ? 0 : -1;
	return dir_keep(w, wd, path);
}

static bool path_is_below(const char *path, const char *top)
{
	size_t n = strlen(top);

	return strncmp(path, top, n) == 0 && (path[n] == '/' || path[n] == '\0');
}

/* A folder has left: its watches would report under names that are wrong now. */
static void tree_drop(struct watch *w, const char *top)
{
	for (size_t i = w->n; i-- > 0;)
		if (path_is_below(w->dir[i].path, top)) {
			inotify_rm_watch(w->ino, w->dir[i].wd);
			dir_forget(w, i);
		}
}

/* The same within the watched place: the watches go along, so that nothing is missed meanwhile. */
static void tree_rename(struct watch *w, const char *from, const char *to)
{
	size_t nfrom = strlen(from), nto = strlen(to);

	for (size_t i = w->n; i-- > 0;) {
		size_t rest;
		char *path;

		if (!path_is_below(w->dir[i].path, from))
			continue;
		rest = strlen(w->dir[i].path) - nfrom;
		path = nto + rest < PATH_MAX ? malloc(nto + rest + 1) : NULL;
		if (!path) {
			inotify_rm_watch(w->ino, w->dir[i].wd);
			dir_forget(w, i);
			continue;
		}
		memcpy(path, to, nto);
		memcpy(path + nto, w->dir[i].path + nfrom, rest + 1);
		free(w->dir[i].path);
		w->dir[i].path = path;
	}
}

/* ---- reading folders ---- */

static bool name_is_staged(const char *name)
{
	return strncmp(name, ".caisson-", 9) == 0 && strlen(name) == 25 &&
	       strspn(name + 9, "0123456789abcdef") == 16;
}

/* A file without a name yet is told by the kernel as '#' and its inode number. */
static bool name_is_none(const char *name, const char *path)
{
	auto_close int fd = -1;

	if (name[0] != '#' || !name[1] || name[1 + strspn(name + 1, "0123456789")])
		return false;
	fd = path_open_in(AT_FDCWD, path, O_PATH | O_NOFOLLOW, 0, NULL);
	return fd < 0;
}

static int walk_found(struct walk *walk, int dirfd, const char *name, unsigned char type,
		      struct err *err)
{
	struct watch *w = walk->arg;
	auto_close int fd = -1;
	int added;

	if (name_is_staged(name))
		return WALK_ON;
	if (w->tell && event_put(w, AGENT_EVENT_CREATE, type == DT_DIR, walk->path, "", err) < 0)
		return -1;
	if (type != DT_DIR)
		return WALK_ON;
	fd = openat(dirfd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	added = fd < 0 ? -1 : dir_add(w, fd, walk->path);
	if (added == 0 && limit_put(w, walk->path, err) < 0)
		return -1;
	return added > 0 ? WALK_ON : WALK_SKIP;
}

/* Watch all folders below path, which is watched already. */
static int tree_add(struct watch *w, const char *path, bool tell, struct err *err)
{
	int fd = path_open_in(AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0, NULL);

	if (fd < 0)
		return 0; /* gone again */
	w->tell = tell;
	w->walk = (struct walk){.job = w->job, .fn = walk_found, .arg = w};
	memcpy(w->walk.path, path, strlen(path) + 1);
	if (walk_run(&w->walk, fd, err) < 0)
		return -1;
	return w->walk.more ? limit_put(w, path, err) : 0;
}

static int folder_new(struct watch *w, const char *path, bool tell, struct err *err)
{
	auto_close int fd = -1;
	int added;

	if (!w->job->req.recursive)
		return 0;
	fd = path_open_in(AT_FDCWD, path, O_PATH | O_DIRECTORY | O_NOFOLLOW, 0, NULL);
	added = fd < 0 ? -1 : dir_add(w, fd, path);
	if (added == 0)
		return limit_put(w, path, err);
	return added < 0 ? 0 : tree_add(w, path, tell, err);
}

/* ---- events ---- */

/* Of IN_MOVED_TO: a staged upload that took its place was a write to it. */
static int moved_to(struct watch *w, const struct inotify_event *e, const char *path,
		    struct err *err)
{
	bool known = e->cookie && e->cookie == w->cookie;
	bool staged = known && !w->from[0];
	bool dir = e->mask & IN_ISDIR;

	w->cookie = 0;
	if (event_put(w, staged ? AGENT_EVENT_WRITE : AGENT_EVENT_CREATE, dir, path,
		      known ? w->from : "", err) < 0)
		return -1;
	if (known && w->away)
		tree_rename(w, w->from, path);
	else if (dir)
		return folder_new(w, path, true, err);
	w->away = false;
	return 0;
}

static int moved_from(struct watch *w, const struct inotify_event *e, const char *path,
		      struct err *err)
{
	w->cookie = e->cookie;
	w->from[0] = '\0';
	if (name_is_staged(e->name))
		return 0;
	memcpy(w->from, path, strlen(path) + 1);
	w->away = e->mask & IN_ISDIR;
	return event_put(w, AGENT_EVENT_RENAME, e->mask & IN_ISDIR, path, "", err);
}

static int child_event(struct watch *w, const struct inotify_event *e, const char *path,
		       struct err *err)
{
	bool dir = e->mask & IN_ISDIR;

	if (e->mask & IN_MOVED_FROM)
		return moved_from(w, e, path, err);
	if (e->len && name_is_staged(e->name))
		return 0;
	if (e->mask & IN_MOVED_TO)
		return moved_to(w, e, path, err);
	if (e->mask & IN_CREATE) {
		if (event_put(w, AGENT_EVENT_CREATE, dir, path, "", err) < 0)
			return -1;
		return dir ? folder_new(w, path, true, err) : 0;
	}
	if (e->mask & IN_DELETE)
		return event_put(w, AGENT_EVENT_REMOVE, dir, path, "", err);
	if (e->len && name_is_none(e->name, path))
		return 0;
	return event_put(w, e->mask & IN_ATTRIB ? AGENT_EVENT_CHMOD : AGENT_EVENT_WRITE, dir, path,
			 "", err);
}

/* The folder itself changed; of all but the first its parent has told. */
static int self_event(struct watch *w, const struct inotify_event *e, const char *path,
		      struct err *err)
{
	if (strcmp(path, w->job->req.path) != 0)
		return 0;
	if (e->mask & (IN_DELETE_SELF | IN_MOVE_SELF)) {
		w->over = true;
		return event_put(w,
				 e->mask & IN_MOVE_SELF ? AGENT_EVENT_RENAME : AGENT_EVENT_REMOVE,
				 e->mask & IN_ISDIR, path, "", err);
	}
	return child_event(w, e, path, err);
}

static int event_run(struct watch *w, const struct inotify_event *e, struct err *err)
{
	char path[PATH_MAX + NAME_MAX + 2];
	const char *dir;
	size_t n;

	if (e->mask & IN_Q_OVERFLOW) {
		w->limited = false;
		if (event_put(w, AGENT_EVENT_OVERFLOW, true, w->job->req.path, "", err) < 0)
			return -1;
		return w->job->req.recursive ? tree_add(w, w->job->req.path, false, err) : 0;
	}
	/* The two halves of a rename come together, or it has left the watched place. */
	if (w->away && !(e->mask & IN_MOVED_TO && e->cookie == w->cookie)) {
		tree_drop(w, w->from);
		w->away = false;
	}
	dir = dir_path(w, e->wd);
	if (!dir)
		return 0;
	if (e->mask & IN_IGNORED) {
		w->over = w->over || strcmp(dir, w->job->req.path) == 0;
		dir_forget(w, dir_slot(w, e->wd));
		return 0;
	}
	n = strlen(dir);
	memcpy(path, dir, n + 1);
	if (!e->len)
		return self_event(w, e, path, err);
	if (n + 1 + strlen(e->name) >= sizeof(w->walk.path))
		return 0;
	if (n == 0 || path[n - 1] != '/')
		path[n++] = '/';
	memcpy(path + n, e->name, strlen(e->name) + 1);
	return child_event(w, e, path, err);
}

static int events_read(struct watch *w, struct err *err)
{
	ssize_t got = read(w->ino, w->in, sizeof(w->in));

	if (got < 0)
		return errno == EAGAIN || errno == EINTR
			       ? 0
			       : err_errno(err, ERR_INTERNAL, errno, "read events");
	for (ssize_t at = 0; at < got && !w->over;) {
		const struct inotify_event *e = (const struct inotify_event *)(w->in + at);

		if (event_run(w, e, err) < 0)
			return -1;
		at += (ssize_t)(sizeof(*e) + e->len);
	}
	return frame_send(w, err);
}

static int watch_loop(struct watch *w, struct err *err)
{
	struct pollfd p[2] = {{.fd = w->ino, .events = POLLIN},
			      {.fd = w->job->fd, .events = POLLIN | POLLRDHUP}};

	while (!w->over) {
		if (poll(p, 2, -1) < 0 && errno != EINTR)
			return err_errno(err, ERR_INTERNAL, errno, "poll");
		if (p[1].revents)
			return err_set(err, ERR_CANCELLED, "the daemon hung up");
		if (p[0].revents && events_read(w, err) < 0)
			return -1;
	}
	return 0;
}

static int watch_begin(struct watch *w, struct err *err)
{
	auto_close int fd = path_open_in(AT_FDCWD, w->job->req.path, O_PATH, 0, err);
	struct wire_out none = wire_out_on(NULL, 0);
	struct stat st;
	int added;

	if (fd < 0)
		return -1;
	w->ino = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	w->dir = malloc((WATCH_DIRS_MAX + 1) * sizeof(w->dir[0]));
	if (w->ino < 0 || !w->dir)
		return err_set(err, ERR_LIMIT, "watches: no more can be had in this sandbox");
	added = dir_add(w, fd, w->job->req.path);
	if (added == 0)
		return err_set(err, ERR_LIMIT, "watches: no more can be had in this sandbox");
	if (added < 0 || fstat(fd, &st) < 0)
		return err_errno(err, err_code_of_errno(errno), errno, "open %s", w->job->req.path);
	if (w->job->req.recursive && S_ISDIR(st.st_mode) &&
	    tree_add(w, w->job->req.path, false, err) < 0)
		return -1;
	if (job_send(w->job, AGENT_OK, &none, NULL, 0, err) < 0)
		return -1;
	return frame_send(w, err);
}

static void watch_free(struct watch *w)
{
	while (w->n)
		free(w->dir[--w->n].path);
	free(w->dir);
	if (w->ino >= 0)
		close(w->ino);
	free(w);
}

int watch_run(struct job *j, struct err *err)
{
	struct wire_out none = wire_out_on(NULL, 0);
	struct watch *w = malloc(sizeof(*w));
	int rc;

	if (!w)
		return err_set(err, ERR_NOMEM, "out of memory");
	memset(w, 0, offsetof(struct watch, walk));
	w->job = j;
	w->ino = -1;
	frame_reset(w);
	rc = watch_begin(w, err);
	if (rc == 0)
		rc = watch_loop(w, err);
	if (rc == 0)
		rc = job_send(j, AGENT_OK, &none, NULL, 0, err);
	watch_free(w);
	return rc;
}
