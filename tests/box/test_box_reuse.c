/*
 * test_box_reuse.c - what of an ended box serves the next one: nothing of the first may show, and
 * what can't be made as new is thrown away. (Networks: test_net_life.c.)
 */
#include <dirent.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "box_harness.h"

#define ROUNDS 40 /* more boxes than a pool holds */

static struct bh_result out;

static int open_base(void **state)
{
	struct bh *h = calloc(1, sizeof(*h));

	bh_open(h);
	bh_layer(h, 1, true);
	*state = h;
	return 0;
}

static int close_base(void **state)
{
	bh_close(*state);
	free(*state);
	return 0;
}

/* ---- uppers ---- */

static ino_t ino_of(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 ? st.st_ino : 0;
}

/* Is this upper in the pool? */
static bool upper_is_ready(const struct bh *h, ino_t ino)
{
	auto_closedir DIR *dir = NULL;
	char path[512];
	struct dirent *ent;
	bool found = false;

	snprintf(path, sizeof(path), "%s/boxes", h->data);
	dir = opendir(path);
	while (dir && (ent = readdir(dir))) {
		snprintf(path, sizeof(path), "%s/boxes/%s/upper", h->data, ent->d_name);
		found = found || (strncmp(ent->d_name, ".pool-", 6) == 0 && ino_of(path) == ino);
	}
	return found;
}

/* A pool that is full takes nothing back: a few are claimed first. */
static void uppers_drain(struct bh *h, char (*id)[ID_LEN], size_t n)
{
	for (size_t i = 0; i < n; i++) {
		id_new(id[i]);
		assert_int_equal(upper_create(box_host_uppers(h->host), id[i], NULL), 0);
	}
}

static void trace_file(const char *upper)
{
	char path[512];

	snprintf(path, sizeof(path), "%s/f", upper);
	close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
}

static void trace_folder(const char *upper)
{
	char path[512];

	snprintf(path, sizeof(path), "%s/d", upper);
	mkdir(path, 0755);
}

static void trace_mode(const char *upper)
{
	chmod(upper, 01755);
}

static void trace_owner(const char *upper)
{
	assert_int_equal(chown(upper, 1000, 0), 0);
}

static void trace_xattr(const char *upper)
{
	assert_int_equal(setxattr(upper, "user.mark", "x", 1, 0), 0);
}

static void trace_overlay(const char *upper)
{
	assert_int_equal(setxattr(upper, "trusted.overlay.opaque", "y", 1, 0), 0);
}

static void trace_flag(const char *upper)
{
	int fd = open(upper, O_RDONLY | O_DIRECTORY | O_CLOEXEC), flags = 0;

	assert_int_equal(ioctl(fd, FS_IOC_GETFLAGS, &flags), 0);
	flags |= FS_NODUMP_FL;
	assert_int_equal(ioctl(fd, FS_IOC_SETFLAGS, &flags), 0);
	close(fd);
}

/* Names that were there once: their directory is longer than a new one. */
static void trace_names(const char *upper)
{
	char path[512];

	for (int pass = 0; pass < 2; pass++) {
		for (int i = 0; i < 200; i++) {
			snprintf(path, sizeof(path), "%s/%0100d", upper, i);
			if (pass)
				unlink(path);
			else
				close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
		}
	}
}

static void an_upper_with_any_trace_is_thrown_away(void **state)
{
	static void (*const trace[])(const char *upper) = {
		trace_file,  trace_folder,  trace_mode, trace_owner,
		trace_xattr, trace_overlay, trace_flag, trace_names,
	};
	struct bh *h = *state;
	struct upper_store *u = box_host_uppers(h->host);
	char id[6][ID_LEN], path[512];
	ino_t ino;

	uppers_drain(h, id, 6);
	for (size_t i = 0; i <= ARRAY_LEN(trace); i++) {
		char one[ID_LEN];

		id_new(one);
		assert_int_equal(upper_create(u, one, NULL), 0);
		snprintf(path, sizeof(path), "%s/boxes/%s/upper", h->data, one);
		ino = ino_of(path);
		assert_true(ino != 0);
		if (i < ARRAY_LEN(trace))
			trace[i](path);
		assert_int_equal(upper_retire(u, one, -1, NULL), 0);
		assert_int_equal(upper_settle(u, clock_mono_ms() + 10000, NULL), 0);
		if (upper_is_ready(h, ino) != (i == ARRAY_LEN(trace)))
			fail_msg("trace %zu", i);
	}
	for (size_t i = 0; i < 6; i++)
		upper_retire(u, id[i], -1, NULL);
}

/* Through the box: an mtime is no trace, for it is wiped. */
static void a_box_tells_its_root_nothing_for_the_next_one(void **state)
{
	struct bh *h = *state;
	char id[ID_LEN], path[512];
	struct stat st;

	for (int i = 0; i < ROUNDS; i++) {
		struct box *b = bh_new(h, id);

		assert_int_equal(
			bh_sh(h, b, "touch -d 2001-02-03 / && stat -c %Y / && ls -A /tmp", &out),
			0);
		assert_in_range(strtol(out.out, NULL, 10), 981000000, 981300000);
		assert_null(strchr(out.out, '/'));
		snprintf(path, sizeof(path), "%s/boxes/%s/upper", h->data, id);
		bh_delete(h, b);
		b = bh_new(h, id);
		snprintf(path, sizeof(path), "%s/boxes/%s/upper", h->data, id);
		assert_int_equal(stat(path, &st), 0);
		assert_true(st.st_mtime > 1000000000);
		bh_delete(h, b);
		upper_settle(box_host_uppers(h->host), clock_mono_ms() + 10000, NULL);
	}
}

/* ---- cgroups ---- */

static ino_t memory_group(const struct bh *h, const struct box *b)
{
	const struct cg_host *cg = box_host_cgroups(h->host);
	struct stat st;

	if (cg->v1[CG_V1_MEMORY] < 0)
		return 0;
	assert_int_equal(fstatat(cg->v1[CG_V1_MEMORY], b->cg, &st, 0), 0);
	return st.st_ino;
}

/* Pools that are full take nothing back; boxes that start make room. */
static void groups_drain_and_delete(struct bh *h, struct box *b)
{
	struct box *other[6];
	char id[ID_LEN];

	for (size_t i = 0; i < ARRAY_LEN(other); i++)
		other[i] = bh_new(h, id);
	bh_delete(h, b);
	for (size_t i = 0; i < ARRAY_LEN(other); i++)
		bh_delete(h, other[i]);
}

/* The box that got this memory group, out of as many as it takes; NULL: nobody did. */
static struct box *box_with_group(struct bh *h, ino_t ino)
{
	struct box *other[ROUNDS], *found = NULL;
	char id[ID_LEN];
	size_t n = 0;

	while (n < ROUNDS && !found) {
		struct box *b = bh_new(h, id);

		if (memory_group(h, b) == ino)
			found = b;
		else
			other[n++] = b;
	}
	while (n)
		bh_delete(h, other[--n]);
	return found;
}

static void a_used_group_counts_from_nothing(void **state)
{
	struct bh *h = *state;
	char id[ID_LEN], old[CG_NAME_LEN];
	struct box *b = bh_new(h, id);
	struct cg_stats s;
	ino_t ino = memory_group(h, b);

	if (!ino)
		skip(); /* v2 alone: its counters may show inside, so its groups are always new */
	assert_int_equal(bh_sh(h, b,
			       "head -c 40000000 /dev/zero > /dev/shm/x; rm /dev/shm/x; "
			       "i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done; "
			       "(sleep 0.1 & sleep 0.1 & wait)",
			       &out),
			 0);
	assert_int_equal(box_stats(h->host, b, &s, NULL), 0);
	assert_true(s.mem_peak > 40000000 && s.cpu_us > 20000);
	memcpy(old, b->cg, sizeof(old));
	groups_drain_and_delete(h, b);
	b = box_with_group(h, ino);
	assert_non_null(b);
	assert_string_not_equal(b->cg, old);
	assert_int_equal(box_stats(h->host, b, &s, NULL), 0);
	assert_true(s.mem_peak < 8 << 20);
	assert_true(s.mem_bytes < 8 << 20);
	assert_int_equal(s.mem_limit, 256 << 20);
	assert_true(s.cpu_us < 20000);
	assert_int_equal(s.oom_kills, 0);
	assert_in_range(s.pids, 1, 2);
	/* Its limits hold: those of pids and devices are in other hierarchies. */
	assert_int_equal(
		bh_sh(h, b, "for i in $(seq 1 200); do sleep 1 & done 2>&1 | grep -c fork", &out),
		0);
	bh_delete(h, b);
}

static void a_group_with_a_kill_for_memory_is_thrown_away(void **state)
{
	const char *argv[] = {"/probe", "memory", NULL};
	struct bh *h = *state;
	char id[ID_LEN];
	struct box *b = bh_new(h, id);
	ino_t ino = memory_group(h, b);

	if (!ino)
		skip();
	bh_run(h, b, NULL, argv, &out);
	assert_true(out.signaled);
	groups_drain_and_delete(h, b);
	assert_null(box_with_group(h, ino));
}

/* ---- run directories ---- */

/* Whoever still knows the old socket reaches nobody, and the next box's agent never sees it. */
static void a_used_run_directory_has_a_socket_of_its_own(void **state)
{
	struct bh *h = *state;
	struct sockaddr_un sun = {.sun_family = AF_UNIX};
	char id[ID_LEN], path[108];

	for (int i = 0; i < ROUNDS; i++) {
		struct box *b = bh_new(h, id);
		int early = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), late;
		int dir;
		char byte;

		bh_agent_path(h, b, path);
		memcpy(sun.sun_path, path, sizeof(path));
		assert_int_equal(connect(early, (struct sockaddr *)&sun, sizeof(sun)), 0);
		dir = open(path, O_PATH | O_CLOEXEC);
		bh_delete(h, b);
		assert_int_equal(recv(early, &byte, 1, 0) <= 0, 1);
		late = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
		snprintf(sun.sun_path, sizeof(sun.sun_path), "/proc/self/fd/%d", dir);
		assert_int_equal(connect(late, (struct sockaddr *)&sun, sizeof(sun)), -1);
		assert_int_equal(access(path, F_OK), -1);
		close(early);
		close(late);
		close(dir);
	}
}

#define REUSE_TEST(fn) cmocka_unit_test_setup_teardown(fn, open_base, close_base)

int main(void)
{
	const struct CMUnitTest tests[] = {
		REUSE_TEST(an_upper_with_any_trace_is_thrown_away),
		REUSE_TEST(a_box_tells_its_root_nothing_for_the_next_one),
		REUSE_TEST(a_used_group_counts_from_nothing),
		REUSE_TEST(a_group_with_a_kill_for_memory_is_thrown_away),
		REUSE_TEST(a_used_run_directory_has_a_socket_of_its_own),
	};

	bh_enter();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
