/*
 * images.c - images, snapshots, and the default ones a daemon begins with.
 *
 * The runner unpacks the default image on a thread of ours: the daemon serves meanwhile and says
 * "not ready" with the progress. A sandbox keeps the layer it was made from; a newer image of the
 * same name changes nothing under it.
 */
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "core/int.h"

#define IMPORT_MAX    (64ull << 30)
#define RETRY_MIN_MS  1000 /* between tries of the default image; doubles */
#define RETRY_MAX_MS  60000
#define DEFAULT_TRIES 3 /* of one whose archive is refused: it will not mend itself */
#define DEFAULT_USER  "daytona"
#define USED_EVERY_MS 60000
#define PAGE_MAX      200

static const struct {
	const char *name;
	unsigned cpu, memory_gib, disk_gib;
} default_snapshots[] = {
	{DEFAULT_SNAPSHOT, 1, 1, 3},
	{"caisson-medium", 2, 4, 8},
	{"caisson-large", 4, 8, 10},
};

/* ---- the default image ---- */

static void images_say(struct core *c, bool ready, const char *why)
{
	pthread_mutex_lock(&c->state_lock);
	c->ready = ready;
	snprintf(c->why, sizeof(c->why), "%.159s", why);
	pthread_cond_broadcast(&c->state_change);
	pthread_mutex_unlock(&c->state_lock);
}

static void images_progress(void *arg, uint64_t bytes, uint64_t files)
{
	char why[160];

	snprintf(why, sizeof(why), "unpacking the default image: %llu MiB, %llu files",
		 (unsigned long long)(bytes >> 20), (unsigned long long)files);
	images_say(arg, false, why);
}

static int snapshot_make(struct core *c, const char *org, const char *name, const struct image *img,
			 unsigned size, bool general, struct err *err)
{
	struct snapshot s = {.general = general,
			     .state = "active",
			     .bytes = img->bytes,
			     .cpu = default_snapshots[size].cpu,
			     .memory_gib = default_snapshots[size].memory_gib,
			     .disk_gib = default_snapshots[size].disk_gib};

	s.created_ms = s.updated_ms = clock_wall_ms();
	snprintf(s.org_id, sizeof(s.org_id), "%s", org);
	snprintf(s.name, sizeof(s.name), "%s", name);
	snprintf(s.image, sizeof(s.image), "%s", img->name);
	return store_snapshot_put(c->st, &s, err);
}

static void image_fill(struct image *img, const char *name, const struct runner_layer *l)
{
	memset(img, 0, sizeof(*img));
	snprintf(img->name, sizeof(img->name), "%s", name);
	memcpy(img->layer, l->id, sizeof(img->layer));
	img->bytes = l->bytes;
	img->files = l->files;
	img->created_ms = clock_wall_ms();
}

static int images_default(struct core *c, struct err *err)
{
	struct runner_layer layer = {0};
	struct image img;

	if (c->run->ops->default_image(c->run, images_progress, c, &layer, err) < 0)
		return err_wrap(err, "default image");
	image_fill(&img, DEFAULT_IMAGE, &layer);
	snprintf(img.user, sizeof(img.user), DEFAULT_USER);
	if (store_image_put(c->st, &img, err) < 0)
		return -1;
	for (unsigned i = 0; i < ARRAY_LEN(default_snapshots); i++)
		if (snapshot_make(c, c->org.id, default_snapshots[i].name, &img, i, true, err) < 0)
			return -1;
	cache_clear(&c->origin);
	return 0;
}

/* True: the daemon is shutting down. */
static bool images_pause(struct core *c, int64_t ms)
{
	int64_t end = clock_mono_ms() + ms, left;
	bool stopping;

	pthread_mutex_lock(&c->state_lock);
	while (!c->stopping && (left = end - clock_mono_ms()) > 0)
		cond_wait_ms(&c->state_change, &c->state_lock, left);
	stopping = c->stopping;
	pthread_mutex_unlock(&c->state_lock);
	return stopping;
}

/* The archive itself is at fault, not the host. */
static bool image_refused(const struct err *err)
{
	return err->code == ERR_INVALID || err->code == ERR_LIMIT || err->code == ERR_TOO_LARGE;
}

/* Each reason goes to the log once, however often it comes. 0: there, 1: none is set, -1. */
static int images_try(struct core *c)
{
	struct err err = {0}, last = {0};
	int64_t pause = RETRY_MIN_MS;
	unsigned refused = 0;

	while (images_default(c, &err) < 0) {
		if (err.code == ERR_NOT_FOUND)
			return 1;
		if (strcmp(err.msg, last.msg) != 0)
			log_error("%s", err.msg);
		last = err;
		images_say(c, false, err.msg);
		if (image_refused(&err) && ++refused == DEFAULT_TRIES) {
			log_error("the default image is given up; start caissond again with "
				  "another --default-image");
			return -1;
		}
		if (images_pause(c, pause))
			return -1;
		pause = MIN(pause * 2, (int64_t)RETRY_MAX_MS);
	}
	return 0;
}

static void *images_thread(void *arg)
{
	struct core *c = arg;
	int got = images_try(c);

	if (got >= 0) {
		images_say(c, true, "");
		log_info(got == 0 ? "the default image is there" : "no default image is set");
	}
	if (got == 0)
		warm_refill(c);
	pthread_mutex_lock(&c->state_lock);
	c->imaging = false;
	pthread_cond_broadcast(&c->state_change);
	pthread_mutex_unlock(&c->state_lock);
	return NULL;
}

int images_start(struct core *c, struct err *err)
{
	int rc;

	images_say(c, false, "preparing the default image");
	c->imaging = true;
	rc = pthread_create(&c->imager, NULL, images_thread, c);
	if (rc)
		return err_errno(err, ERR_NOMEM, rc, "start the image thread");
	c->imager_on = true;
	return 0;
}

bool images_stop(struct core *c, int64_t wait_ms)
{
	int64_t end = clock_mono_ms() + wait_ms, left;
	bool busy;

	if (!c->imager_on)
		return true;
	pthread_mutex_lock(&c->state_lock);
	while (c->imaging && (left = end - clock_mono_ms()) > 0)
		cond_wait_ms(&c->state_change, &c->state_lock, left);
	busy = c->imaging;
	pthread_mutex_unlock(&c->state_lock);
	if (busy)
		return false;
	pthread_join(c->imager, NULL);
	c->imager_on = false;
	return true;
}

/* ---- what a create is made from ---- */

static int default_missing(struct err *err)
{
	return err_set(err, ERR_INVALID,
		       "snapshot: this daemon has no default image; name a snapshot, or start "
		       "caissond with --default-image");
}

static int image_need(struct core *c, const char *name, struct image *ret, struct err *err)
{
	int got = store_image_get(c->st, name, ret, err);

	if (got == 0 && strcmp(name, DEFAULT_IMAGE) == 0)
		return default_missing(err);
	if (got == 0)
		return err_set(err, ERR_INVALID, "snapshot: its image %.128s is not here", name);
	return got < 0 ? -1 : 0;
}

static int origin_read(struct core *c, const char *org, const char *name, struct origin *ret,
		       struct err *err)
{
	int got = store_snapshot_get(c->st, org, name, &ret->snap, err);

	if (got < 0)
		return -1;
	if (got == 0 && strcmp(name, DEFAULT_SNAPSHOT) == 0)
		return default_missing(err);
	if (got == 0)
		return err_set(err, ERR_INVALID, "snapshot: no snapshot %.128s", name);
	return image_need(c, ret->snap.image, &ret->img, err);
}

static void origin_used(struct core *c, const struct origin *o)
{
	int64_t now = clock_wall_ms();

	if (o->snap.last_used_ms + USED_EVERY_MS > now)
		return;
	store_snapshot_used(c->st, o->snap.id, now, NULL);
	cache_clear(&c->origin);
}

int images_resolve(struct core *c, const char *org, const struct sandbox_spec *spec,
		   struct origin *ret, struct err *err)
{
	bool sized = spec->cpu != SPEC_UNSET || spec->memory_mib != SPEC_UNSET ||
		     spec->disk_gib != SPEC_UNSET;
	bool named = spec->snapshot && spec->snapshot[0];
	const char *name = named ? spec->snapshot : DEFAULT_SNAPSHOT;
	char key[CACHE_KEY_MAX];
	uint64_t gen;
	int nkey;

	memset(&ret->snap, 0, sizeof(ret->snap));
	if (sized && !named)
		return image_need(c, DEFAULT_IMAGE, &ret->img, err);
	nkey = snprintf(key, sizeof(key), "%s %s", org, name);
	if (nkey >= (int)sizeof(key))
		return err_set(err, ERR_INVALID, "snapshot: no snapshot %.128s", name);
	if (!cache_get(&c->origin, key, (size_t)nkey, ret, &gen)) {
		if (origin_read(c, org, name, ret, err) < 0)
			return -1;
		cache_put(&c->origin, key, (size_t)nkey, ret, gen);
	}
	if (strcmp(ret->snap.state, "active") != 0)
		return err_set(err, ERR_INVALID, "snapshot: %.128s is %s, it must be active", name,
			       ret->snap.state);
	origin_used(c, ret);
	return 0;
}

/* ---- images ---- */

int image_import(struct core *c, const struct caller *who, const char *name, int tar_fd,
		 runner_progress_fn progress, void *arg, struct image *ret, struct err *err)
{
	struct runner_layer layer = {0};
	struct image img;

	if (valid_name("name", name, err) < 0)
		return -1;
	if (strcmp(name, DEFAULT_IMAGE) == 0)
		return err_set(err, ERR_CONFLICT, "name: %s is the daemon's own image", name);
	if (c->run->ops->import(c->run, tar_fd, IMPORT_MAX, progress, arg, &layer, err) < 0)
		return err_wrap(err, "import %s", name);
	image_fill(&img, name, &layer);
	/* The archive of a root file system tells no user: commands run as root inside. */
	snprintf(img.user, sizeof(img.user), "root");
	if (store_image_put(c->st, &img, err) < 0 ||
	    snapshot_make(c, who->org_id, name, &img, 0, false, err) < 0)
		return -1;
	cache_clear(&c->origin);
	*ret = img;
	return 0;
}

int image_list(struct core *c, const struct caller *who, struct image **ret, size_t *ret_n,
	       struct err *err)
{
	(void)who;
	return store_image_list(c->st, ret, ret_n, err);
}

static int image_free(struct core *c, const struct image *img, struct err *err)
{
	unsigned n = 0;

	int gone = store_image_delete(c->st, img->name, err);

	cache_clear(&c->origin);
	if (gone < 0 || store_image_on_layer(c->st, img->layer, &n, err) < 0)
		return -1;
	/* Two names may stand for the same content. */
	if (n == 0 && c->run->ops->layer_remove(c->run, img->layer, err) < 0)
		return err_wrap(err, "remove the layer of %s", img->name);
	return 0;
}

int image_delete(struct core *c, const struct caller *who, const char *name, struct err *err)
{
	struct image img;
	unsigned n = 0, names = 0;
	int got = store_image_get(c->st, name, &img, err);

	(void)who;
	if (got < 0)
		return -1;
	if (got == 0)
		return err_set(err, ERR_NOT_FOUND, "image %.128s not found", name);
	if (strcmp(name, DEFAULT_IMAGE) == 0)
		return err_set(err, ERR_CONFLICT, "image %s is the daemon's own", name);
	if (store_image_on_layer(c->st, img.layer, &names, err) < 0 ||
	    store_sandbox_on_layer(c->st, img.layer, &n, err) < 0)
		return -1;
	/* Another name keeps the layer for those who run on it. */
	if (n && names < 2)
		return err_set(err, ERR_CONFLICT,
			       "image %s is in use by %u sandboxes; delete them first", name, n);
	return image_free(c, &img, err);
}

/* ---- snapshots ---- */

int snapshot_list(struct core *c, const struct caller *who, const char *name_part, unsigned page,
		  unsigned limit, struct snapshot_page *ret, struct err *err)
{
	if (page < 1 || page > 1000000)
		return err_set(err, ERR_INVALID, "page: must be 1 or more");
	if (limit < 1 || limit > PAGE_MAX)
		return err_set(err, ERR_INVALID, "limit: must be 1 to %d", PAGE_MAX);
	return store_snapshot_list(c->st, who->org_id, name_part, page, limit, ret, err);
}

int snapshot_get(struct core *c, const struct caller *who, const char *id_or_name,
		 struct snapshot *ret, struct err *err)
{
	int got = store_snapshot_get(c->st, who->org_id, id_or_name, ret, err);

	if (got == 0)
		return err_set(err, ERR_NOT_FOUND, "snapshot %.128s not found", id_or_name);
	return got < 0 ? -1 : 0;
}
