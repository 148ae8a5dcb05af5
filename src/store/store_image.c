/*
 * store_image.c - images: a name and the layer it stands for.
 */
#include <string.h>

#include "store/store_int.h"

static const struct column image_columns[] = {
#define COL_ROW_(kind, field, column)                                                              \
	{kind, offsetof(struct image, field), sizeof(((struct image *)0)->field)},
	IMAGE_COLUMNS(COL_ROW_)
#undef COL_ROW_
};

static int image_find(struct conn *c, const char *name, struct image *ret, struct err *err)
{
	int got;

	bind_text(c->st[ST_IMAGE_GET], 1, name);
	got = stmt_next(c, ST_IMAGE_GET, err);
	if (got <= 0)
		return got;
	memset(ret, 0, sizeof(*ret));
	columns_read(c->st[ST_IMAGE_GET], 1, image_columns, ARRAY_LEN(image_columns), ret, NULL);
	stmt_end(c, ST_IMAGE_GET);
	return 1;
}

int store_image_get(struct store *s, const char *name, struct image *ret, struct err *err)
{
	struct conn *c = store_reader(s);
	int got = image_find(c, name, ret, err);

	store_reader_done(s, c);
	return got;
}

static int image_update(struct conn *c, const struct image *img, struct err *err)
{
	sqlite3_stmt *st = c->st[ST_IMAGE_UPDATE];

	bind_text(st, 1, img->id);
	bind_text(st, 2, img->layer);
	bind_text(st, 3, img->user);
	bind_text(st, 4, img->workdir);
	bind_i64(st, 5, (int64_t)img->bytes);
	bind_i64(st, 6, (int64_t)img->files);
	bind_i64(st, 7, img->created_ms);
	return stmt_run(c, ST_IMAGE_UPDATE, err);
}

int store_image_put(struct store *s, struct image *img, struct err *err)
{
	struct conn *c = store_writer(s);
	struct image have;
	int rc = image_find(c, img->name, &have, err);

	if (rc == 1) {
		memcpy(img->id, have.id, sizeof(img->id));
		rc = image_update(c, img, err);
	} else if (rc == 0) {
		id_new(img->id);
		columns_bind(c->st[ST_IMAGE_INSERT], 1, image_columns, ARRAY_LEN(image_columns),
			     img, NULL);
		rc = stmt_run(c, ST_IMAGE_INSERT, err);
	}
	store_writer_done(s);
	return rc < 0 ? -1 : 0;
}

int store_image_list(struct store *s, struct image **ret, size_t *ret_n, struct err *err)
{
	struct conn *c = store_reader(s);
	struct image *list = NULL, *more;
	size_t n = 0;
	int got;

	while ((got = stmt_next(c, ST_IMAGE_LIST, err)) > 0) {
		more = realloc(list, (n + 1) * sizeof(*list));
		if (!more) {
			got = err_set(err, ERR_NOMEM, "out of memory");
			stmt_end(c, ST_IMAGE_LIST);
			break;
		}
		list = more;
		memset(&list[n], 0, sizeof(*list));
		columns_read(c->st[ST_IMAGE_LIST], 1, image_columns, ARRAY_LEN(image_columns),
			     &list[n++], NULL);
	}
	store_reader_done(s, c);
	if (got < 0) {
		free(list);
		return -1;
	}
	*ret = list;
	*ret_n = n;
	return 0;
}

int store_image_delete(struct store *s, const char *name, struct err *err)
{
	struct conn *c = store_writer(s);
	int rc = store_begin(c, err), n = 0;

	if (rc == 0) {
		bind_text(c->st[ST_SNAPSHOT_DROP], 1, name);
		rc = stmt_run(c, ST_SNAPSHOT_DROP, err);
		bind_text(c->st[ST_IMAGE_DELETE], 1, name);
		if (rc >= 0)
			rc = n = stmt_run(c, ST_IMAGE_DELETE, err);
		rc = store_end(c, rc, err);
	}
	store_writer_done(s);
	return rc < 0 ? -1 : n;
}

int store_image_on_layer(struct store *s, const char *layer, unsigned *ret_n, struct err *err)
{
	struct conn *c = store_reader(s);
	int64_t n = 0;
	int rc;

	bind_text(c->st[ST_IMAGE_ON_LAYER], 1, layer);
	rc = stmt_number(c, ST_IMAGE_ON_LAYER, &n, err);
	store_reader_done(s, c);
	*ret_n = (unsigned)n;
	return rc;
}
