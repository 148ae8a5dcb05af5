/*
 * cmd_image.c - `caisson image import`, `list` and `delete`. A folder is sent as a tar stream that
 * is made while it is sent.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/opt.h"
#include "cli/pack.h"
#include "cli/progress.h"
#include "cli/rest.h"
#include "cli/table.h"

struct import {
	int fd; /* the tar */
	struct progress progress;
};

static ssize_t import_read(void *arg, void *p, size_t cap, struct err *err)
{
	struct import *im = arg;
	return progress_read(&im->progress, im->fd, p, cap, err);
}

static int send_tar(struct cli *c, const char *name, int fd, int64_t size, json_t **ret,
		    struct err *err)
{
	struct import im = {.fd = fd};
	auto_buf struct buf url = BUF_INIT(REST_URL_MAX);
	if (buf_adds(&url, "/caisson/images", err) < 0 || url_query(&url, "name", name, err) < 0)
		return -1;
	struct rest_stream s = {
		.read = import_read, .arg = &im, .size = size, .type = "application/x-tar"};
	progress_begin(&im.progress, c, name, size);
	int rc = rest_stream(c, "POST", buf_str(&url), &s, ret, err);
	progress_end(&im.progress);
	return rc;
}

/* The packer works on a thread of its own and ends when its pipe is closed. */
struct packer {
	const char *dir;
	int out;
	struct err err;
	int rc;
};

static void *packer_main(void *arg)
{
	struct packer *p = arg;
	p->rc = pack_dir(p->dir, p->out, &p->err);
	close(p->out);
	return NULL;
}

static int send_dir(struct cli *c, const char *name, const char *dir, json_t **ret, struct err *err)
{
	int ends[2];
	pthread_t thread;
	struct packer p = {.dir = dir};
	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_errno(err, ERR_INTERNAL, errno, "pipe");
	p.out = ends[1];
	if (pthread_create(&thread, NULL, packer_main, &p) != 0) {
		close(ends[0]);
		close(ends[1]);
		return err_set(err, ERR_NOMEM, "no thread");
	}
	int rc = send_tar(c, name, ends[0], -1, ret, err);
	close(ends[0]);
	pthread_join(thread, NULL);
	if (p.rc < 0 && rc == 0)
		*err = p.err;
	return p.rc < 0 ? -1 : rc;
}

static int import(struct cli *c, const char *name, const char *path, json_t **ret, struct err *err)
{
	struct stat st;
	auto_close int fd = strcmp(path, "-") ? open(path, O_RDONLY | O_CLOEXEC) : dup(0);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_errno(err, ERR_INVALID, errno, "%s", path);
	if (S_ISDIR(st.st_mode))
		return send_dir(c, name, path, ret, err);
	return send_tar(c, name, fd, S_ISREG(st.st_mode) ? st.st_size : -1, ret, err);
}

int cmd_image_import(struct cli *c, int argc, char **argv, struct err *err)
{
	auto_json json_t *im = NULL;
	char size[TEXT_SHORT];
	int left = opt_parse(c, argc, argv, NULL, err);
	if (left < 0 || c->help)
		return left < 0 ? CLI_USAGE : CLI_OK;
	if (left != 2) {
		err_set(err, ERR_INVALID, "takes a name and a tar file or folder");
		return CLI_USAGE;
	}
	if (import(c, argv[0], argv[1], &im, err) < 0)
		return CLI_FAILED;
	if (c->json)
		return json_print(im);
	text_bytes((uint64_t)json_number(im, "bytes"), size);
	text_print(stdout, json_text(im, "name"));
	printf("  %s in %lld files\n", size, (long long)json_number(im, "files"));
	return CLI_OK;
}

int cmd_image_list(struct cli *c, int argc, char **argv, struct err *err)
{
	static const char *const head[] = {"NAME", "SIZE", "FILES", "USER", "AGE", "LAYER", NULL};
	auto_json json_t *all = NULL;
	auto_table struct table t = table_on(head);
	char cell[TEXT_SHORT];
	json_t *it;
	size_t i;
	if (opt_parse(c, argc, argv, NULL, err) < 0)
		return CLI_USAGE;
	if (c->help)
		return CLI_OK;
	if (rest_call(c, "GET", "/caisson/images", NULL, &all, err) < 0)
		return CLI_FAILED;
	json_t *items = json_is_array(all) ? all : json_object_get(all, "items");
	if (c->json)
		return json_print(items ? items : all);
	json_array_foreach(items, i, it)
	{
		table_add(&t, json_text(it, "name"));
		text_bytes((uint64_t)json_number(it, "bytes"), cell);
		table_add(&t, cell);
		snprintf(cell, sizeof(cell), "%lld", (long long)json_number(it, "files"));
		table_add(&t, cell);
		table_add(&t, json_text(it, "user"));
		text_age(json_text(it, "createdAt"), cell);
		table_add(&t, cell);
		snprintf(cell, 13, "%s", json_text(it, "layer"));
		table_add(&t, cell);
	}
	table_print(&t, stdout);
	return CLI_OK;
}

int cmd_image_delete(struct cli *c, int argc, char **argv, struct err *err)
{
	return rest_delete_each(c, argc, argv, "/caisson/images/", "image", err);
}
