/*
 * find.c - FIND: lines of text files that hold a text; SEARCH: names that fit a pattern.
 *
 * A file with a NUL is binary and ends there. Lines come whole through a buffer; one that is
 * longer than it is searched in pieces that overlap, and shown cut. Nothing but regular files is
 * opened, and none twice.
 */
#include "init/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/glob.h"
#include "base/path.h"

#define FIND_BUF   (128u << 10)
#define FIND_FRAME (60u << 10)	/* well below AGENT_REPLY_MAX */
#define FIND_FILE  (1ull << 30) /* bytes of one file that are searched */

/* Replies of many items, counted. */
struct items {
	struct job *job;
	uint16_t type;
	uint32_t in_frame, total, max;
	bool more;
	struct wire_out o;
	uint8_t raw[FIND_FRAME];
};

static void items_reset(struct items *t)
{
	t->o = wire_out_on(t->raw, sizeof(t->raw));
	wire_put_u32(&t->o, 0);
	t->in_frame = 0;
}

static int items_send(struct items *t, struct err *err)
{
	struct wire_out count = wire_out_on(t->raw, 4);

	if (t->in_frame == 0)
		return 0;
	wire_put_u32(&count, t->in_frame);
	if (job_send(t->job, t->type, &t->o, NULL, 0, err) < 0)
		return -1;
	items_reset(t);
	return 0;
}

/* Room for one of n bytes. WALK_STOP: there are enough. */
static int items_room(struct items *t, size_t n, struct err *err)
{
	if (t->total >= t->max) {
		t->more = true;
		return WALK_STOP;
	}
	if (n > t->o.cap - t->o.len && items_send(t, err) < 0)
		return -1;
	t->in_frame++;
	t->total++;
	return WALK_ON;
}

static int items_end(struct items *t, bool more, struct err *err)
{
	uint8_t end[1];
	struct wire_out o = wire_out_on(end, sizeof(end));

	if (items_send(t, err) < 0)
		return -1;
	wire_put_u8(&o, more || t->more);
	return job_send(t->job, AGENT_OK, &o, NULL, 0, err);
}

static void items_init(struct items *t, struct job *j, uint16_t type, uint32_t max)
{
	t->job = j;
	t->type = type;
	t->total = 0;
	t->max = MIN(j->req.max, max);
	t->more = false;
	items_reset(t);
}

/* ---- FIND ---- */

struct find {
	struct items items;
	struct walk walk;
	const char *pattern;
	size_t plen;
	/* of the file at hand */
	uint64_t seen;
	uint32_t line; /* number of the line at the buffer's start */
	bool inside;   /* the buffer starts inside a line */
	bool told;     /* and that line is among the matches already */
	size_t have;
	char buf[FIND_BUF];
};

static int match_put(struct find *f, const char *text, size_t n, bool cut, struct err *err)
{
	int rc;

	if (n && text[n - 1] == '\r' && !cut)
		n--;
	if (n > AGENT_FIND_TEXT) {
		n = AGENT_FIND_TEXT;
		cut = true;
	}
	rc = items_room(&f->items, f->walk.len + n + 16, err);
	if (rc != WALK_ON)
		return rc;
	wire_put_str(&f->items.o, f->walk.path);
	wire_put_u32(&f->items.o, f->line);
	wire_put_u8(&f->items.o, cut);
	wire_put_bytes(&f->items.o, text, n);
	return WALK_ON;
}

static uint32_t lines_in(const char *p, const char *end)
{
	uint32_t n = 0;

	while (p < end && (p = memchr(p, '\n', (size_t)(end - p)))) {
		p++;
		n++;
	}
	return n;
}

/* Whole lines, the last with its newline. */
static int lines_run(struct find *f, const char *p, const char *end, struct err *err)
{
	const char *hit, *start, *stop;

	while (p < end && (hit = memmem(p, (size_t)(end - p), f->pattern, f->plen))) {
		bool first = f->inside && !memchr(p, '\n', (size_t)(hit - p));
		int rc = WALK_ON;

		start = hit;
		while (start > p && start[-1] != '\n')
			start--;
		stop = memchr(hit, '\n', (size_t)(end - hit));
		stop = stop ? stop : end;
		f->line += lines_in(p, start);
		if (!first || !f->told)
			rc = match_put(f, start, (size_t)(stop - start), first, err);
		if (rc != WALK_ON)
			return rc;
		f->inside = f->told = false;
		p = MIN(stop + 1, end);
		f->line += stop < end;
	}
	f->line += lines_in(p, end);
	f->inside = f->told = false;
	return WALK_ON;
}

/* The buffer is full of one line: look, and keep what a match could begin in. */
static int piece_run(struct find *f, struct err *err)
{
	size_t keep = f->plen - 1;
	int rc = WALK_ON;

	if (!f->told && memmem(f->buf, f->have, f->pattern, f->plen)) {
		rc = match_put(f, f->buf, f->have, true, err);
		f->told = true;
	}
	f->inside = true;
	memmove(f->buf, f->buf + f->have - keep, keep);
	f->have = keep;
	return rc;
}

/* What the buffer holds, as far as it can be judged; last: nothing follows. */
static int buf_run(struct find *f, bool last, struct err *err)
{
	const char *nl = memrchr(f->buf, '\n', f->have);
	size_t n = last ? f->have : nl ? (size_t)(nl - f->buf) + 1 : 0;
	int rc;

	if (!n)
		return f->have == sizeof(f->buf) ? piece_run(f, err) : WALK_ON;
	rc = lines_run(f, f->buf, f->buf + n, err);
	memmove(f->buf, f->buf + n, f->have - n);
	f->have -= n;
	return rc;
}

/* Time and the daemon's patience end within a large file, too. */
static bool file_is_enough(struct find *f)
{
	if (f->seen < FIND_FILE && clock_mono_ms() < f->walk.end_ms && !job_gone(f->items.job))
		return false;
	f->items.more = true;
	return true;
}

static int file_run(struct find *f, int fd, struct err *err)
{
	f->seen = 0;
	f->line = 1;
	f->inside = f->told = false;
	f->have = 0;
	for (;;) {
		ssize_t got = read(fd, f->buf + f->have, sizeof(f->buf) - f->have);
		int rc;

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0 || memchr(f->buf + f->have, 0, (size_t)MAX(got, 0)))
			return WALK_ON; /* not to be read, or binary */
		f->have += (size_t)got;
		f->seen += (uint64_t)got;
		rc = buf_run(f, got == 0, err);
		if (rc != WALK_ON || got == 0 || file_is_enough(f))
			return rc;
	}
}

static int find_entry(struct walk *w, int dir, const char *name, unsigned char type,
		      struct err *err)
{
	struct find *f = w->arg;
	auto_close int fd = -1;
	struct stat st;

	if (type != DT_REG)
		return WALK_ON;
	fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return WALK_ON;
	return file_run(f, fd, err);
}

/* A single file was named. */
static int find_file(struct find *f, int fd, struct err *err)
{
	f->walk.end_ms = clock_mono_ms() + WALK_MS_MAX;
	f->walk.len = strlen(f->walk.path);
	return file_run(f, fd, err) < 0 ? -1 : 0;
}

/* A descriptor to read; *ret_dir tells what of. Never waits for a FIFO or acts on a device. */
static int place_open(struct job *j, bool *ret_dir, struct err *err)
{
	auto_close int at = path_open_in(AT_FDCWD, j->req.path, O_PATH, 0, err);
	struct stat st;

	if (at < 0)
		return -1;
	if (fstat(at, &st) < 0)
		return err_errno(err, ERR_INTERNAL, errno, "stat %s", j->req.path);
	*ret_dir = S_ISDIR(st.st_mode);
	if (!*ret_dir && kind_check(&st, j->req.path, err) < 0)
		return -1;
	return path_open_in(AT_FDCWD, j->req.path,
			    O_RDONLY | O_NONBLOCK | O_NOCTTY | (*ret_dir ? O_DIRECTORY : 0), 0,
			    err);
}

static int pattern_check(const char *p, struct err *err)
{
	if (!*p || strlen(p) > AGENT_PATTERN_MAX || strchr(p, '\n'))
		return err_set(err, ERR_INVALID, "pattern: must be one line of 1 to %u bytes",
			       AGENT_PATTERN_MAX);
	return 0;
}

int find_run(struct job *j, struct err *err)
{
	auto_free struct find *f = NULL;
	bool dir = false;
	int fd;

	if (pattern_check(j->req.pattern, err) < 0)
		return -1;
	fd = place_open(j, &dir, err);
	if (fd < 0)
		return -1;
	f = malloc(sizeof(*f));
	if (!f) {
		close(fd);
		return err_set(err, ERR_NOMEM, "out of memory");
	}
	items_init(&f->items, j, AGENT_MATCHES, AGENT_FIND_MAX);
	f->pattern = j->req.pattern;
	f->plen = strlen(f->pattern);
	f->walk = (struct walk){.job = j, .fn = find_entry, .arg = f};
	memcpy(f->walk.path, j->req.path, strlen(j->req.path) + 1);
	if (dir ? walk_run(&f->walk, fd, err) < 0 : find_file(f, fd, err) < 0) {
		if (!dir)
			close(fd);
		return -1;
	}
	if (!dir)
		close(fd);
	return items_end(&f->items, f->walk.more, err);
}

/* ---- SEARCH ---- */

struct search {
	struct items items;
	struct walk walk;
	const char *pattern;
};

static int search_entry(struct walk *w, int dir, const char *name, unsigned char type,
			struct err *err)
{
	struct search *s = w->arg;
	int rc;

	(void)dir;
	if (type == DT_WHT || !glob_match(s->pattern, name))
		return WALK_ON;
	rc = items_room(&s->items, w->len + 8, err);
	if (rc == WALK_ON)
		wire_put_str(&s->items.o, w->path);
	return rc;
}

int search_run(struct job *j, struct err *err)
{
	auto_free struct search *s = NULL;
	int fd;

	if (pattern_check(j->req.pattern, err) < 0)
		return -1;
	if (!glob_valid(j->req.pattern))
		return err_set(err, ERR_INVALID, "pattern: a [ set is not closed or a \\ ends it");
	fd = path_open_in(AT_FDCWD, j->req.path, O_RDONLY | O_DIRECTORY | O_NONBLOCK, 0, err);
	if (fd < 0)
		return -1;
	s = malloc(sizeof(*s));
	if (!s) {
		close(fd);
		return err_set(err, ERR_NOMEM, "out of memory");
	}
	items_init(&s->items, j, AGENT_NAMES, AGENT_LIST_MAX);
	s->pattern = j->req.pattern;
	s->walk = (struct walk){.job = j, .fn = search_entry, .arg = s};
	memcpy(s->walk.path, j->req.path, strlen(j->req.path) + 1);
	if (walk_run(&s->walk, fd, err) < 0)
		return -1;
	return items_end(&s->items, s->walk.more, err);
}
