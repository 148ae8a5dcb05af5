/*
 * test_image_store.c - the layer store and its imports: one layer an archive, nothing half-made,
 * nothing deleted that somebody uses.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <openssl/evp.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

#include "base/fd.h"
#include "base/id.h"
#include "caisson/image.h"
#include "tarball.h"

#define IMPORT_MS 20000

struct fixture {
	struct scratch dir;
	char cache[96], data[2][96];
	struct image_store *store[2]; /* two daemons of the machine */
};

static struct image_store *store_of(const char *cache, const char *instance, const char *data)
{
	struct image_store *s = NULL;
	struct err err = {0};

	if (image_store_open(cache, instance, data, &s, &err) < 0)
		fail_msg("%s", err.msg);
	return s;
}

static int setup(void **state)
{
	static struct fixture f;
	char data[80];

	if (geteuid() != 0)
		return -1;
	scratch_open(&f.dir);
	snprintf(data, sizeof(data), "%s/data", f.dir.path);
	snprintf(f.cache, sizeof(f.cache), "%.64s/cache", data);
	mkdir(data, 0700);
	for (int i = 0; i < 2; i++) {
		snprintf(f.data[i], sizeof(f.data[i]), "%s%d", data, i);
		mkdir(f.data[i], 0700);
		f.store[i] = store_of(f.cache, i ? "0000000b" : "0000000a", f.data[i]);
	}
	*state = &f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	for (int i = 0; i < 2; i++)
		image_store_close(f->store[i]);
	scratch_close(&f->dir);
	return 0;
}

/* A small archive in a file of the scratch directory; text makes it another one. */
static int archive_file(struct fixture *f, const char *name, const char *text)
{
	struct tarball t = {0};
	int fd = openat(f->dir.top, name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	tar_dir(&t, "etc");
	tar_file(&t, "etc/text", text);
	tar_end(&t);
	assert_int_equal(write(fd, t.data, t.len), t.len);
	lseek(fd, 0, SEEK_SET);
	free(t.data);
	return fd;
}

static struct image_layer import_ok(struct image_store *s, int fd)
{
	struct image_limits limits = {.time_max_ms = IMPORT_MS};
	struct image_layer l = {0};
	struct err err = {0};

	if (image_store_import(s, fd, &limits, NULL, NULL, &l, &err) < 0)
		fail_msg("%s", err.msg);
	return l;
}

static int entries(struct fixture *f, const char *sub)
{
	char path[160];
	DIR *d;
	int n = 0;

	snprintf(path, sizeof(path), "%s/layers/%s", f->cache, sub);
	d = opendir(path);
	assert_non_null(d);
	for (struct dirent *e; (e = readdir(d));)
		n += e->d_name[0] != '.';
	closedir(d);
	return n;
}

static bool stored(struct fixture *f, const char *id)
{
	int fd = image_store_open_layer(f->store[0], id, NULL);

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

static void import_makes_a_layer_named_by_the_archive(void **state)
{
	struct fixture *f = *state;
	auto_close int fd = archive_file(f, "a.tar", "1"), dir = -1;
	struct image_layer l = import_ok(f->store[0], fd);
	char text[8];

	assert_true(image_layer_id_valid(l.id));
	assert_int_equal(l.files, 2);
	dir = image_store_open_layer(f->store[0], l.id, NULL);
	assert_true(dir >= 0);
	assert_int_equal(path_read_at(dir, "etc/text", text, sizeof(text), NULL), 1);
	assert_string_equal(text, "1");
	assert_int_equal(entries(f, ".tmp"), 0);
}

static void import_of_a_known_file_is_not_unpacked_again(void **state)
{
	struct fixture *f = *state;
	auto_close int fd = archive_file(f, "a.tar", "1"), other = archive_file(f, "b.tar", "1");
	struct image_layer l = import_ok(f->store[0], fd), m, k = {0};
	struct stat before, after;
	auto_close int dir = image_store_open_layer(f->store[0], l.id, NULL), again = -1;

	assert_int_equal(image_store_get_by_file(f->store[1], fd, &k, NULL), 1);
	assert_string_equal(k.id, l.id);
	assert_int_equal(k.bytes, l.bytes);
	/* Same bytes, another file: found by its digest. */
	assert_int_equal(image_store_get_by_file(f->store[1], other, &k, NULL), 0);
	m = import_ok(f->store[1], other);
	assert_string_equal(m.id, l.id);
	assert_int_equal(fstatat(dir, "", &before, AT_EMPTY_PATH), 0);
	again = image_store_open_layer(f->store[1], l.id, NULL);
	assert_int_equal(fstatat(again, "", &after, AT_EMPTY_PATH), 0);
	assert_int_equal(before.st_ino, after.st_ino);
	assert_int_equal(image_store_get_by_file(f->store[0], other, &k, NULL), 1);
}

static void file_that_others_can_write_is_never_known(void **state)
{
	struct fixture *f = *state;
	auto_close int fd = archive_file(f, "a.tar", "1");
	struct image_layer k;

	assert_int_equal(fchmod(fd, 0666), 0);
	import_ok(f->store[0], fd);
	assert_int_equal(image_store_get_by_file(f->store[0], fd, &k, NULL), 0);
	assert_int_equal(entries(f, ".key"), 0);
}

static void import_reads_a_pipe_to_the_same_layer(void **state)
{
	struct fixture *f = *state;
	auto_close int fd = archive_file(f, "a.tar", "1");
	struct image_layer l = import_ok(f->store[0], fd), m;
	char bytes[8192];
	ssize_t n = pread(fd, bytes, sizeof(bytes), 0);
	int p[2];

	assert_int_equal(pipe2(p, O_CLOEXEC), 0);
	assert_int_equal(write(p[1], bytes, (size_t)n), n);
	close(p[1]);
	m = import_ok(f->store[0], p[0]);
	close(p[0]);
	assert_string_equal(m.id, l.id);
	assert_int_equal(entries(f, ".tmp"), 0);
}

static void digest_of(int fd, char out[PRIV_LAYER_ID_LEN])
{
	static char bytes[4 << 20];
	unsigned char md[32];
	ssize_t n = pread(fd, bytes, sizeof(bytes), 0);

	assert_true(n > 0 && n < (ssize_t)sizeof(bytes));
	assert_int_equal(EVP_Digest(bytes, (size_t)n, md, NULL, EVP_sha256(), NULL), 1);
	for (size_t i = 0; i < sizeof(md); i++)
		snprintf(out + 2 * i, 3, "%02x", md[i]);
}

static void bytes_behind_the_end_mark_belong_to_the_digest(void **state)
{
	struct fixture *f = *state;
	auto_close int fd = archive_file(f, "a.tar", "1"), dir = -1;
	static char tail[3 << 20];
	struct image_layer l = import_ok(f->store[0], fd), m;
	char id[PRIV_LAYER_ID_LEN];

	memset(tail, 'x', sizeof(tail));
	lseek(fd, 0, SEEK_END);
	assert_int_equal(write(fd, tail, sizeof(tail)), sizeof(tail));
	m = import_ok(f->store[0], fd);
	assert_string_not_equal(m.id, l.id);
	digest_of(fd, id);
	assert_string_equal(m.id, id);
	dir = image_store_open_layer(f->store[0], m.id, NULL);
	assert_int_equal(faccessat(dir, "etc/text", F_OK, 0), 0);
}

static void c16_failed_import_leaves_nothing(void **state)
{
	struct fixture *f = *state;
	struct image_limits limits = {0};
	struct image_layer l;
	struct err err = {0};
	struct tarball t = {0};
	int fd;

	tar_file(&t, "fine", "1");
	tar_file(&t, "../outside", "evil");
	tar_end(&t);
	fd = tar_fd(&t);
	assert_int_equal(image_store_import(f->store[0], fd, &limits, NULL, NULL, &l, &err), -1);
	assert_int_equal(err.code, ERR_INVALID);
	assert_non_null(strstr(err.msg, "upwards"));
	close(fd);
	assert_int_equal(entries(f, "."), 0);
	assert_int_equal(entries(f, ".tmp"), 0);
	assert_int_equal(entries(f, ".meta"), 0);
}

static void limits_hold_across_the_processes(void **state)
{
	static const struct {
		struct image_limits limits;
		const char *says;
	} rows[] = {
		{{.files_max = 1}, "more than 1 entries"},
		{{.bytes_max = 5000}, "more than 5000 bytes"},
		{{.tar_max = 100}, "larger than 100 bytes"},
	};
	struct fixture *f = *state;
	auto_close int fd = archive_file(f, "a.tar", "1");

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct image_layer l;
		struct err err = {0};

		assert_int_equal(
			image_store_import(f->store[0], fd, &rows[i].limits, NULL, NULL, &l, &err),
			-1);
		assert_int_equal(err.code, ERR_LIMIT);
		assert_non_null(strstr(err.msg, rows[i].says));
	}
	assert_int_equal(entries(f, "."), 0);
}

static void import_that_gets_no_more_bytes_ends_by_its_limit(void **state)
{
	struct fixture *f = *state;
	struct image_limits limits = {.time_max_ms = 100};
	struct image_layer l;
	struct err err = {0};
	int p[2];

	assert_int_equal(pipe2(p, O_CLOEXEC), 0);
	assert_int_equal(image_store_import(f->store[0], p[0], &limits, NULL, NULL, &l, &err), -1);
	assert_int_equal(err.code, ERR_LIMIT);
	close(p[0]);
	close(p[1]);
	assert_int_equal(entries(f, ".tmp"), 0);
}

static void cancelled_import_leaves_what_collect_removes(void **state)
{
	struct fixture *f = *state;
	struct image_limits limits = {0};
	struct image_job job = IMAGE_JOB_INIT;
	struct tarball t = {0};
	int p[2];

	tar_file(&t, "half", "1");
	assert_int_equal(pipe2(p, O_CLOEXEC), 0);
	assert_int_equal(write(p[1], t.data, t.len), t.len);
	free(t.data);
	assert_int_equal(image_job_start(f->store[0], p[0], &limits, &job, NULL), 0);
	while (entries(f, ".tmp") == 0)
		poll(NULL, 0, 1);
	/* While its maker lives it is nobody's leftover. */
	assert_int_equal(image_store_collect(f->store[1], NULL), 0);
	assert_int_equal(entries(f, ".tmp"), 1);
	image_job_done(&job);
	assert_int_equal(job.pid, -1);
	assert_int_equal(entries(f, "."), 0);
	/* The unpacker may take a moment to die of its parent's death. */
	for (int i = 0; i < 1000 && entries(f, ".tmp") > 0; i++) {
		assert_int_equal(image_store_collect(f->store[1], NULL), 0);
		poll(NULL, 0, 1);
	}
	assert_int_equal(entries(f, ".tmp"), 0);
	close(p[0]);
	close(p[1]);
}

static void layer_stays_while_another_instance_claims_it(void **state)
{
	struct fixture *f = *state;
	auto_close int fd = archive_file(f, "a.tar", "1");
	struct image_layer l = import_ok(f->store[0], fd);

	import_ok(f->store[1], fd);
	assert_int_equal(image_store_remove(f->store[0], l.id, NULL), 0);
	assert_true(stored(f, l.id));
	assert_int_equal(image_store_remove(f->store[1], l.id, NULL), 0);
	assert_false(stored(f, l.id));
	assert_int_equal(entries(f, ".tmp"), 1);
	assert_int_equal(image_store_collect(f->store[0], NULL), 0);
	assert_int_equal(entries(f, ".tmp"), 0);
	/* The file is remembered, its layer is not there: not known. */
	assert_int_equal(image_store_get_by_file(f->store[0], fd, &l, NULL), 0);
	import_ok(f->store[0], fd);
	assert_true(stored(f, l.id));
}

static void claim_of_an_instance_without_its_data_counts_no_more(void **state)
{
	struct fixture *f = *state;
	auto_close int fd = archive_file(f, "a.tar", "1");
	struct image_layer l = import_ok(f->store[0], fd);

	import_ok(f->store[1], fd);
	assert_int_equal(rmdir(f->data[1]), 0);
	assert_int_equal(image_store_remove(f->store[0], l.id, NULL), 0);
	assert_false(stored(f, l.id));
	assert_int_equal(entries(f, ".ref"), 0);
}

static void c8_layer_id_that_is_a_path_is_refused(void **state)
{
	struct fixture *f = *state;
	static const char *const rows[] = {"../../etc", "", ".", ".tmp", "sha256:ab"};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct image_layer l;
		struct err err = {0};

		assert_int_equal(image_store_get(f->store[0], rows[i], &l, &err), -1);
		assert_int_equal(err.code, ERR_INVALID);
		assert_int_equal(image_store_open_layer(f->store[0], rows[i], &err), -1);
		assert_int_equal(image_store_remove(f->store[0], rows[i], &err), -1);
	}
}

static void missing_layer_is_an_answer_not_an_error(void **state)
{
	struct fixture *f = *state;
	struct image_layer l;
	struct err err = {0};
	char id[PRIV_LAYER_ID_LEN];

	memset(id, '0', sizeof(id) - 1);
	id[sizeof(id) - 1] = '\0';
	assert_int_equal(image_store_get(f->store[0], id, &l, &err), 0);
	assert_int_equal(image_store_open_layer(f->store[0], id, &err), -1);
	assert_int_equal(err.code, ERR_NOT_FOUND);
	assert_int_equal(image_store_remove(f->store[0], id, NULL), 0);
}

static void store_open_to_others_is_refused(void **state)
{
	struct fixture *f = *state;
	struct image_store *s;
	struct err err = {0};
	char path[160];

	snprintf(path, sizeof(path), "%s/layers", f->cache);
	assert_int_equal(chmod(path, 0755), 0);
	assert_int_equal(image_store_open(f->cache, "0000000c", f->data[0], &s, &err), -1);
	assert_int_equal(err.code, ERR_CONFLICT);
}

static void imports_side_by_side_make_one_layer(void **state)
{
	struct fixture *f = *state;
	struct image_limits limits = {0};
	struct image_job job[4];
	struct image_layer l[4] = {0};

	for (int i = 0; i < 4; i++) {
		auto_close int fd = archive_file(f, "a.tar", "same");

		job[i] = (struct image_job)IMAGE_JOB_INIT;
		assert_int_equal(image_job_start(f->store[i % 2], fd, &limits, &job[i], NULL), 0);
		/* The next one writes the file anew: let this one finish reading. */
		for (int rc = 0; rc == 0;) {
			uint64_t bytes, files;

			assert_true(fd_wait(job[i].fd, POLLIN, -1, 0, NULL) > 0);
			rc = image_job_step(&job[i], &bytes, &files, &l[i], NULL);
			assert_true(rc >= 0);
		}
		image_job_done(&job[i]);
		assert_string_equal(l[i].id, l[0].id);
	}
	assert_int_equal(entries(f, "."), 1);
	assert_int_equal(entries(f, ".tmp"), 0);
}

#define IN_STORE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_STORE(import_makes_a_layer_named_by_the_archive),
		IN_STORE(import_of_a_known_file_is_not_unpacked_again),
		IN_STORE(file_that_others_can_write_is_never_known),
		IN_STORE(import_reads_a_pipe_to_the_same_layer),
		IN_STORE(bytes_behind_the_end_mark_belong_to_the_digest),
		IN_STORE(c16_failed_import_leaves_nothing),
		IN_STORE(limits_hold_across_the_processes),
		IN_STORE(import_that_gets_no_more_bytes_ends_by_its_limit),
		IN_STORE(cancelled_import_leaves_what_collect_removes),
		IN_STORE(layer_stays_while_another_instance_claims_it),
		IN_STORE(claim_of_an_instance_without_its_data_counts_no_more),
		IN_STORE(c8_layer_id_that_is_a_path_is_refused),
		IN_STORE(missing_layer_is_an_answer_not_an_error),
		IN_STORE(store_open_to_others_is_refused),
		IN_STORE(imports_side_by_side_make_one_layer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
