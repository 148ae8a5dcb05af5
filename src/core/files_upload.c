/*
 * files_upload.c - uploads that go on after a hang-up. See caisson/files.h.
 *
 *   begin ─► open ─piece…─► complete        the last byte commits it
 *              └─► lost                     the sandbox stopped
 *   any of them without a call for UPLOAD_IDLE_MS: forgotten
 *
 * What came lies in the sandbox in a file that nobody sees; this table holds its descriptor, so it
 * must let go when the sandbox ends, or its file system could not. A piece doesn't lock out the
 * next one: a client that comes back is heard at once, and what its dead connection still brings
 * is refused by number.
 */
#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "core/files_int.h"

struct held {
	struct held *next;
	unsigned refs; /* the table's and the pieces'; under core.uploads_lock */
	char org_id[ID_LEN];
	pthread_mutex_t lock; /* the fields below; held while a piece writes */
	struct upload u;
	struct file_put put;
	uint64_t piece; /* number of the piece that may write */
	bool lost;
	_Atomic bool doomed; /* any thread: it shall end */
};

struct upload_piece {
	struct core *core;
	struct held *h;
	uint64_t number;
};

static void held_unref(struct core *c, struct held *h)
{
	bool last;

	pthread_mutex_lock(&c->uploads_lock);
	last = --h->refs == 0;
	pthread_mutex_unlock(&c->uploads_lock);
	if (!last)
		return;
	file_put_done(&h->put);
	pthread_mutex_destroy(&h->lock);
	free(h);
}

/* Under its lock. */
static void held_finish(struct held *h)
{
	h->lost = !h->u.complete;
	h->piece++;
	file_put_done(&h->put);
}

/*
 * Its file goes, whoever still holds the record. A commit under way may copy for minutes, and a
 * stop must not wait for it: then whoever holds the lock does it after unlocking.
 */
static void held_doom(struct held *h)
{
	atomic_store(&h->doomed, true);
	if (pthread_mutex_trylock(&h->lock) != 0)
		return;
	held_finish(h);
	pthread_mutex_unlock(&h->lock);
}

static void held_unlock(struct held *h)
{
	pthread_mutex_unlock(&h->lock);
	if (atomic_load(&h->doomed))
		held_doom(h);
}

static void held_seen(struct held *h)
{
	h->u.expires_ms = clock_wall_ms() + UPLOAD_IDLE_MS;
}

/* Take all records out that pick chooses; the caller frees the list. */
static struct held *table_take(struct core *c, bool (*pick)(const struct held *h, const void *arg),
			       const void *arg)
{
	struct held *out = NULL, **at = &c->uploads;

	pthread_mutex_lock(&c->uploads_lock);
	while (*at) {
		struct held *h = *at;

		if (!pick(h, arg)) {
			at = &h->next;
			continue;
		}
		*at = h->next;
		h->next = out;
		out = h;
		c->nuploads--;
	}
	pthread_mutex_unlock(&c->uploads_lock);
	return out;
}

static void list_end(struct core *c, struct held *list)
{
	while (list) {
		struct held *h = list;

		list = h->next;
		held_doom(h);
		held_unref(c, h);
	}
}

/* expires_ms is read without its lock: a late look is as good. */
static bool pick_old(const struct held *h, const void *arg)
{
	return __atomic_load_n(&h->u.expires_ms, __ATOMIC_RELAXED) <= *(const int64_t *)arg;
}

static bool pick_all(const struct held *h, const void *arg)
{
	(void)h;
	(void)arg;
	return true;
}

void uploads_age(struct core *c, int64_t now_ms)
{
	list_end(c, table_take(c, pick_old, &now_ms));
}

void uploads_done(struct core *c)
{
	list_end(c, table_take(c, pick_all, NULL));
}

/* Records stay, to say what became of them. */
void uploads_lost(struct core *c, const char *sandbox)
{
	pthread_mutex_lock(&c->uploads_lock);
	for (struct held *h = c->uploads; h; h = h->next)
		if (strcmp(h->u.sandbox, sandbox) == 0)
			held_doom(h);
	pthread_mutex_unlock(&c->uploads_lock);
}

static int table_add(struct core *c, struct held *h, struct err *err)
{
	unsigned box = 0;
	int rc = 0;

	pthread_mutex_lock(&c->uploads_lock);
	for (struct held *o = c->uploads; o; o = o->next)
		box += strcmp(o->u.sandbox, h->u.sandbox) == 0;
	if (c->nuploads >= UPLOADS_MAX || box >= UPLOADS_BOX) {
		rc = err_set(err, ERR_LIMIT,
			     "uploads: %u of the sandbox and %u in all are open, at most %d and %d;"
			     " finish or delete some",
			     box, c->nuploads, UPLOADS_BOX, UPLOADS_MAX);
	} else {
		h->refs = 2; /* the table's and the caller's */
		h->next = c->uploads;
		c->uploads = h;
		c->nuploads++;
	}
	pthread_mutex_unlock(&c->uploads_lock);
	return rc;
}

/* All bytes are there: the file takes its place. Called with the lock. */
static int held_commit(struct held *h, const struct caller *who, struct err *err)
{
	if (file_put_commit(&h->put, who, NULL, &h->u.atomic, err) < 0) {
		h->lost = true;
		return -1;
	}
	h->u.complete = true;
	return 0;
}

static int held_open(struct core *c, const struct caller *who, const char *sandbox,
		     const char *path, struct held *h, struct err *err)
{
	auto_file struct file_at f = {0};

	if (file_begin(c, who, sandbox, path, &f, err) < 0)
		return -1;
	if (file_put_at(c, &f, AGENT_PUT_PARENTS, 0644, &h->put, err) < 0)
		return agent_failed(c, who, sandbox, err);
	memcpy(h->u.path, f.path, sizeof(h->u.path));
	memcpy(h->u.sandbox, f.row.s.id, ID_LEN);
	memcpy(h->org_id, f.row.s.org_id, ID_LEN);
	return 0;
}

int upload_begin(struct core *c, const struct caller *who, const char *sandbox, const char *path,
		 uint64_t size, struct upload *ret, struct err *err)
{
	auto_row struct sandbox_row row = {0};
	struct held *h = calloc(1, sizeof(*h));
	int rc = 0;

	if (!h)
		return err_set(err, ERR_NOMEM, "out of memory");
	h->put = (struct file_put)FILE_PUT_INIT;
	pthread_mutex_init(&h->lock, NULL);
	h->refs = 1;
	h->u.size = size;
	id_new(h->u.id);
	held_seen(h);
	if (held_open(c, who, sandbox, path, h, err) < 0 || table_add(c, h, err) < 0) {
		held_unref(c, h);
		return -1;
	}
	/* A stop in between has not seen it in the table. */
	if (row_started(c, who, h->u.sandbox, &row, err) < 0) {
		held_doom(h);
		rc = -1;
	}
	pthread_mutex_lock(&h->lock);
	if (rc == 0 && size == 0)
		rc = held_commit(h, who, err);
	*ret = h->u;
	held_unlock(h);
	held_unref(c, h);
	return rc;
}

/* The record with a reference; a foreign one does not exist. */
static struct held *held_get(struct core *c, const struct caller *who, const char *sandbox,
			     const char *upload, struct err *err)
{
	auto_row struct sandbox_row row = {0};
	struct held *h;

	if (row_need(c, who, sandbox, &row, err) < 0)
		return NULL;
	pthread_mutex_lock(&c->uploads_lock);
	for (h = c->uploads; h; h = h->next)
		if (strcmp(h->u.id, upload) == 0 && strcmp(h->u.sandbox, row.s.id) == 0)
			break;
	if (h)
		h->refs++;
	pthread_mutex_unlock(&c->uploads_lock);
	if (!h)
		err_set(err, ERR_NOT_FOUND,
			"upload %.64s not found: ended an hour ago or more, or with the daemon",
			upload);
	return h;
}

static int lost_check(const struct held *h, struct err *err)
{
	if (!h->lost)
		return 0;
	return err_tagged(err, ERR_GONE, "UPLOAD_LOST",
			  "upload %s is lost: its sandbox stopped, or it failed at its end; begin"
			  " again",
			  h->u.id);
}

int upload_get(struct core *c, const struct caller *who, const char *sandbox, const char *upload,
	       struct upload *ret, struct err *err)
{
	struct held *h = held_get(c, who, sandbox, upload, err);
	int rc;

	if (!h)
		return -1;
	pthread_mutex_lock(&h->lock);
	rc = lost_check(h, err);
	if (rc == 0) {
		held_seen(h);
		*ret = h->u;
	}
	held_unlock(h);
	held_unref(c, h);
	return rc;
}

static bool pick_id(const struct held *h, const void *arg)
{
	return strcmp(h->u.id, arg) == 0;
}

int upload_cancel(struct core *c, const struct caller *who, const char *sandbox, const char *upload,
		  struct err *err)
{
	struct held *h = held_get(c, who, sandbox, upload, err);

	if (!h)
		return -1;
	list_end(c, table_take(c, pick_id, h->u.id));
	held_unref(c, h);
	return 0;
}

static int piece_check(const struct held *h, uint64_t offset, struct err *err)
{
	if (lost_check(h, err) < 0)
		return -1;
	if (h->u.complete)
		return err_set(err, ERR_CONFLICT, "upload %s is complete", h->u.id);
	if (offset != h->u.offset)
		return err_tagged(err, ERR_CONFLICT, "UPLOAD_OFFSET",
				  "offset: the upload goes on at %llu",
				  (unsigned long long)h->u.offset);
	return 0;
}

struct upload_piece *upload_take(struct core *c, const struct caller *who, const char *sandbox,
				 const char *upload, uint64_t offset, struct err *err)
{
	struct upload_piece *p = malloc(sizeof(*p));
	struct held *h;
	int rc;

	if (!p) {
		err_set(err, ERR_NOMEM, "out of memory");
		return NULL;
	}
	h = held_get(c, who, sandbox, upload, err);
	if (!h) {
		free(p);
		return NULL;
	}
	pthread_mutex_lock(&h->lock);
	rc = piece_check(h, offset, err);
	if (rc == 0) {
		held_seen(h);
		*p = (struct upload_piece){c, h, ++h->piece};
	}
	held_unlock(h);
	if (rc == 0)
		return p;
	held_unref(c, h);
	free(p);
	return NULL;
}

static int turn_check(const struct upload_piece *p, struct err *err)
{
	if (lost_check(p->h, err) < 0)
		return -1;
	if (p->number != p->h->piece)
		return err_set(err, ERR_CONFLICT, "another piece of the upload has begun");
	return 0;
}

int upload_write(struct upload_piece *p, const void *data, size_t n, struct err *err)
{
	struct held *h = p->h;
	int rc;

	pthread_mutex_lock(&h->lock);
	rc = turn_check(p, err);
	if (rc == 0 && n > h->u.size - h->u.offset)
		rc = err_set(err, ERR_INVALID, "body: goes beyond the announced size of %llu",
			     (unsigned long long)h->u.size);
	if (rc == 0)
		rc = file_put_write(&h->put, data, n, err);
	/* Also after a write that broke off: what it took is there. */
	h->u.offset = h->put.size;
	held_seen(h);
	held_unlock(h);
	return rc;
}

int upload_end(struct upload_piece *p, const struct caller *who, struct upload *ret,
	       struct err *err)
{
	struct held *h = p->h;
	int rc;

	pthread_mutex_lock(&h->lock);
	rc = turn_check(p, err);
	if (rc == 0 && h->u.offset == h->u.size)
		rc = held_commit(h, who, err);
	if (rc == 0)
		*ret = h->u;
	held_unlock(h);
	return rc;
}

void upload_put_back(struct upload_piece *p)
{
	if (!p)
		return;
	held_unref(p->core, p->h);
	free(p);
}
