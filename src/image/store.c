/*
 * store.c - see store.h and caisson/image.h.
 */
#include "image/store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/path.h"

#define STORE_SMALL_FILE 4200 /* a path and a newline */

bool image_layer_id_valid(const char *id)
{
	return id && strlen(id) == PRIV_LAYER_ID_LEN - 1 &&
	       strspn(id, "0123456789abcdef") == PRIV_LAYER_ID_LEN - 1;
}

static int store_dir(int at, const char *name, struct err *err)
{
	int fd;

	if (mkdirat(at, name, 0700) < 0 && errno != EEXIST)
		return err_errno(err, ERR_INTERNAL, errno, "make %s of the layer store", name);
	fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return err_errno(err, ERR_INTERNAL, errno, "open %s of the layer store", name);
	return fd;
}

static int store_open_dirs(struct image_store *s, const char *cache_dir, struct err *err)
{
	auto_close int cache = -1;
	struct stat st;

	if (mkdir(cache_dir, 0755) < 0 && errno != EEXIST)
		return err_errno(err, ERR_INTERNAL, errno, "make %s", cache_dir);
	cache = open(cache_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (cache < 0)
		return err_errno(err, ERR_INTERNAL, errno, "open %s", cache_dir);
	if ((s->layers = store_dir(cache, "layers", err)) < 0 || fstat(s->layers, &st) < 0)
		return -1;
	/* Setuid programs of images lie in there: nobody of the host may pass. */
	if (st.st_uid != geteuid() || (st.st_mode & 077))
		return err_set(err, ERR_CONFLICT, "%s/layers must be root's with mode 0700",
			       cache_dir);
	if ((s->meta = store_dir(s->layers, ".meta", err)) < 0 ||
	    (s->ref = store_dir(s->layers, ".ref", err)) < 0 ||
	    (s->key = store_dir(s->layers, ".key", err)) < 0 ||
	    (s->tmp = store_dir(s->layers, ".tmp", err)) < 0)
		return -1;
	return 0;
}

int image_store_open(const char *cache_dir, const char *instance, const char *data_dir,
		     struct image_store **ret, struct err *err)
{
	struct image_store *s = calloc(1, sizeof(*s));

	if (!s)
		return err_set(err, ERR_NOMEM, "out of memory for the layer store");
	s->layers = s->meta = s->ref = s->key = s->tmp = -1;
	if (strlen(instance) >= sizeof(s->instance) || strlen(data_dir) >= sizeof(s->data_dir) ||
	    strspn(instance, "0123456789abcdef") != strlen(instance)) {
		image_store_close(s);
		return err_set(err, ERR_INVALID, "layer store: bad instance or data directory");
	}
	memcpy(s->instance, instance, strlen(instance) + 1);
	memcpy(s->data_dir, data_dir, strlen(data_dir) + 1);
	if (store_open_dirs(s, cache_dir, err) < 0) {
		image_store_close(s);
		return -1;
	}
	*ret = s;
	return 0;
}

void image_store_close(struct image_store *s)
{
	if (!s)
		return;
	const int fds[] = {s->layers, s->meta, s->ref, s->key, s->tmp};

	for (size_t i = 0; i < ARRAY_LEN(fds); i++)
		if (fds[i] >= 0)
			close(fds[i]);
	free(s);
}

int store_lock(struct image_store *s, struct err *err)
{
	auto_close int fd =
		openat(s->layers, ".lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);

	if (fd < 0)
		return err_errno(err, ERR_INTERNAL, errno, "open the layer store's lock");
	while (flock(fd, LOCK_EX) < 0)
		if (errno != EINTR)
			return err_errno(err, ERR_INTERNAL, errno, "lock the layer store");
	return TAKE_FD(fd);
}

int store_tmp_new(struct image_store *s, char name[ID_LEN], struct err *err)
{
	auto_close int lock = store_lock(s, err), fd = -1;

	if (lock < 0)
		return -1;
	id_new(name);
	if (mkdirat(s->tmp, name, 0755) < 0)
		return err_errno(err, ERR_UNAVAILABLE, errno, "make a new layer");
	fd = openat(s->tmp, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	/* Under the store's lock: no collector can look between the two. */
	if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0)
		return err_errno(err, ERR_INTERNAL, errno, "lock a new layer");
	return TAKE_FD(fd);
}

/* A small file of ours, whole or not at all, on the disk before it has its name. */
static int store_write(int dirfd, const char *name, const char *text, struct err *err)
{
	char tmp[ID_LEN + 1] = ".";
	auto_close int fd = -1;

	id_new(tmp + 1);
	if (path_write_at(dirfd, tmp, text, strlen(text), 0600, err) < 0)
		return -1;
	fd = openat(dirfd, tmp, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fsync(fd) < 0 || renameat(dirfd, tmp, dirfd, name) < 0 || fsync(dirfd) < 0) {
		int saved = errno;

		unlinkat(dirfd, tmp, 0);
		return err_errno(err, ERR_UNAVAILABLE, saved, "write %s of the layer store", name);
	}
	return 0;
}

static void store_ref_name(const struct image_store *s, const char *id, char out[96])
{
	snprintf(out, 96, "%s.%s", id, s->instance);
}

static int store_claim(struct image_store *s, const char *id, struct err *err)
{
	char name[96], have[STORE_SMALL_FILE];

	store_ref_name(s, id, name);
	/* The common case, at each start: nothing to write. */
	if (path_read_at(s->ref, name, have, sizeof(have), NULL) >= 0 &&
	    strcmp(have, s->data_dir) == 0)
		return 0;
	return store_write(s->ref, name, s->data_dir, err);
}

static int store_has(struct image_store *s, const char *id)
{
	struct stat st;

	return fstatat(s->layers, id, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
}

int image_store_get(struct image_store *s, const char *id, struct image_layer *ret, struct err *err)
{
	auto_close int lock = -1;
	struct image_layer l = {0};
	char text[64], *end;

	if (!image_layer_id_valid(id))
		return err_set(err, ERR_INVALID, "layer: not 64 lower-case hex digits");
	lock = store_lock(s, err);
	if (lock < 0)
		return -1;
	if (!store_has(s, id))
		return 0;
	memcpy(l.id, id, sizeof(l.id));
	/* The numbers are for display; a layer without them still works. */
	if (path_read_at(s->meta, id, text, sizeof(text), NULL) > 0) {
		l.bytes = strtoull(text, &end, 10);
		l.files = strtoull(end, NULL, 10);
	}
	if (store_claim(s, id, err) < 0)
		return -1;
	*ret = l;
	return 1;
}

int store_publish(struct image_store *s, const char *tmp, const struct image_layer *layer,
		  struct err *err)
{
	auto_close int lock = store_lock(s, err);
	char text[64];

	if (lock < 0)
		return -1;
	if (!store_has(s, layer->id)) {
		snprintf(text, sizeof(text), "%" PRIu64 " %" PRIu64 "\n", layer->bytes,
			 layer->files);
		if (store_write(s->meta, layer->id, text, err) < 0)
			return -1;
		if (renameat(s->tmp, tmp, s->layers, layer->id) < 0 || fsync(s->layers) < 0)
			return err_errno(err, ERR_UNAVAILABLE, errno, "name layer %s", layer->id);
	}
	return store_claim(s, layer->id, err);
}

int store_key_of(int fd, char key[STORE_KEY_LEN])
{
	struct stat st;

	/* Anybody else could write the file anew and put its times back. */
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_uid != 0 || (st.st_mode & 022))
		return 0;
	snprintf(key, STORE_KEY_LEN, "%jx-%jx-%jx-%jx.%lx", (uintmax_t)st.st_dev,
		 (uintmax_t)st.st_ino, (uintmax_t)st.st_size, (uintmax_t)st.st_mtim.tv_sec,
		 st.st_mtim.tv_nsec);
	return 1;
}

int store_key_set(struct image_store *s, const char *key, const char *id, struct err *err)
{
	return store_write(s->key, key, id, err);
}

int image_store_get_by_file(struct image_store *s, int tar_fd, struct image_layer *ret,
			    struct err *err)
{
	char key[STORE_KEY_LEN], id[PRIV_LAYER_ID_LEN];

	if (!store_key_of(tar_fd, key) || path_read_at(s->key, key, id, sizeof(id), NULL) < 0)
		return 0;
	if (!image_layer_id_valid(id))
		return 0;
	return image_store_get(s, id, ret, err);
}

int image_store_open_layer(struct image_store *s, const char *id, struct err *err)
{
	int fd;

	if (!image_layer_id_valid(id))
		return err_set(err, ERR_INVALID, "layer: not 64 lower-case hex digits");
	fd = openat(s->layers, id, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return err_errno(err, errno == ENOENT ? ERR_NOT_FOUND : ERR_INTERNAL, errno,
				 "layer %s", id);
	return fd;
}

/* Does any instance with a data directory still hold id? Dead claims are removed in passing. */
static int store_is_claimed(struct image_store *s, const char *id, struct err *err)
{
	auto_closedir DIR *dir = NULL;
	struct dirent *ent;
	int fd = openat(s->ref, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), n = 0;

	if (fd < 0)
		return err_errno(err, ERR_NOMEM, errno, "open the layers' claims");
	dir = fdopendir(fd);
	if (!dir) {
		close(fd);
		return err_errno(err, ERR_NOMEM, errno, "read the layers' claims");
	}
	while ((ent = readdir(dir))) {
		char data_dir[STORE_SMALL_FILE];
		struct stat st;

		if (strncmp(ent->d_name, id, PRIV_LAYER_ID_LEN - 1) != 0)
			continue;
		if (path_read_at(s->ref, ent->d_name, data_dir, sizeof(data_dir), NULL) > 0 &&
		    (stat(data_dir, &st) == 0 || errno != ENOENT))
			n++;
		else
			unlinkat(s->ref, ent->d_name, 0);
	}
	return n;
}

int image_store_remove(struct image_store *s, const char *id, struct err *err)
{
	auto_close int lock = -1;
	char name[96], trash[ID_LEN];
	int claimed;

	if (!image_layer_id_valid(id))
		return err_set(err, ERR_INVALID, "layer: not 64 lower-case hex digits");
	lock = store_lock(s, err);
	if (lock < 0)
		return -1;
	store_ref_name(s, id, name);
	if (unlinkat(s->ref, name, 0) < 0 && errno != ENOENT)
		return err_errno(err, ERR_INTERNAL, errno, "give up layer %s", id);
	claimed = store_is_claimed(s, id, err);
	if (claimed != 0)
		return claimed < 0 ? -1 : 0;
	id_new(trash);
	if (renameat(s->layers, id, s->tmp, trash) < 0 && errno != ENOENT)
		return err_errno(err, ERR_INTERNAL, errno, "remove layer %s", id);
	unlinkat(s->meta, id, 0);
	return 0;
}

/* 1 and the held directory when nobody fills name any more, else 0. */
static int store_tmp_seize(struct image_store *s, const char *name, int *ret, struct err *err)
{
	auto_close int lock = store_lock(s, err), fd = -1;

	if (lock < 0)
		return -1;
	fd = openat(s->tmp, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0)
		return 0;
	*ret = TAKE_FD(fd);
	return 1;
}

int image_store_collect(struct image_store *s, struct err *err)
{
	auto_closedir DIR *dir = NULL;
	struct dirent *ent;
	int fd = openat(s->tmp, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return err_errno(err, ERR_NOMEM, errno, "open the layers' leftovers");
	dir = fdopendir(fd);
	if (!dir) {
		close(fd);
		return err_errno(err, ERR_NOMEM, errno, "read the layers' leftovers");
	}
	while ((ent = readdir(dir))) {
		auto_close int held = -1;
		int rc;

		if (!id_valid(ent->d_name))
			continue;
		rc = store_tmp_seize(s, ent->d_name, &held, err);
		if (rc < 0 || (rc > 0 && path_remove_tree(s->tmp, ent->d_name, err) < 0))
			return -1;
	}
	return 0;
}
