/*
 * taskbox.c - see taskbox.h.
 */
#include "unit/taskbox.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/clock.h"

#define LOG_MAX (512u << 20)

int taskbox_try(const struct agentbox *b, const char *id, enum task_kind kind, uint32_t tflags,
		const char *text, struct task_info *ret, bool *existed, struct err *err)
{
	const char *const argv[] = {text, NULL};
	struct task_spec s = {.id = id, .kind = kind, .tflags = tflags};

	s.spawn = (struct agent_spawn){
		.argv = text ? argv : NULL, .user = "", .flags = text ? SPAWN_SHELL : 0};
	return agent_task_start(b->sock, &s, ret, existed, err);
}

void taskbox_start(const struct agentbox *b, const char *id, enum task_kind kind, uint32_t tflags,
		   const char *text)
{
	struct err err = {.code = ERR_NONE};
	bool existed = true;

	if (taskbox_try(b, id, kind, tflags, text, NULL, &existed, &err) < 0)
		fail_msg("start %s: %s", id, err.msg);
	assert_false(existed);
}

static void log_chunk(struct taskbox_log *l, enum task_read kind, const struct task_chunk *c)
{
	if (kind == TASK_READ_GAP) {
		l->lost[c->stream - 1] += c->n;
		l->gaps++;
		return;
	}
	assert_int_equal(buf_add(c->stream == 1 ? &l->out : &l->err, c->p, c->n, NULL), 0);
	assert_int_equal(buf_add(&l->all, c->p, c->n, NULL), 0);
}

static void log_read(const struct agentbox *b, const char *id, uint64_t out_from, uint64_t err_from,
		     bool follow, struct taskbox_log *l)
{
	struct err err = {.code = ERR_NONE};
	struct task_reader *r;
	struct task_chunk c;
	int rc;

	memset(l, 0, sizeof(*l));
	buf_init(&l->out, LOG_MAX);
	buf_init(&l->err, LOG_MAX);
	buf_init(&l->all, LOG_MAX);
	r = task_reader_open(b->sock, id, TASK_OUT | TASK_ERR, out_from, err_from, follow, &err);
	if (!r)
		fail_msg("read %s: %s", id, err.msg);
	while ((rc = task_reader_next(r, &c, &l->end, -1, clock_mono_ms() + TASKBOX_MS, &err)) !=
	       TASK_READ_END) {
		if (rc <= 0)
			fail_msg("read %s: %d %s", id, rc, err.msg);
		log_chunk(l, (enum task_read)rc, &c);
	}
	task_reader_close(r);
}

void taskbox_follow(const struct agentbox *b, const char *id, uint64_t out_from, uint64_t err_from,
		    struct taskbox_log *ret)
{
	log_read(b, id, out_from, err_from, true, ret);
}

void taskbox_read(const struct agentbox *b, const char *id, struct taskbox_log *ret)
{
	log_read(b, id, 0, 0, false, ret);
}

void taskbox_log_done(struct taskbox_log *l)
{
	buf_done(&l->out);
	buf_done(&l->err);
	buf_done(&l->all);
	task_info_done(&l->end);
}

void taskbox_wait(const struct agentbox *b, const char *id, struct task_info *ret)
{
	struct err err = {.code = ERR_NONE};
	struct task_reader *r = task_reader_open(b->sock, id, 0, 0, 0, true, &err);
	struct task_chunk c;

	if (!r ||
	    task_reader_next(r, &c, ret, -1, clock_mono_ms() + TASKBOX_MS, &err) != TASK_READ_END)
		fail_msg("wait for %s: %s", id, err.msg);
	task_reader_close(r);
}

void taskbox_get(const struct agentbox *b, const char *id, struct task_info *ret)
{
	struct err err;

	if (agent_task_get(b->sock, id, ret, &err) < 0)
		fail_msg("get %s: %s", id, err.msg);
}

void taskbox_remove(const struct agentbox *b, const char *id)
{
	struct err err;

	if (agent_task_remove(b->sock, id, &err) < 0)
		fail_msg("remove %s: %s", id, err.msg);
}

void taskbox_write(const struct agentbox *b, const char *id, const char *text, bool eof)
{
	struct err err;

	if (agent_task_write(b->sock, id, text, strlen(text), eof, -1, clock_mono_ms() + TASKBOX_MS,
			     NULL, &err) < 0)
		fail_msg("write to %s: %s", id, err.msg);
}

void taskbox_expect(const struct agentbox *b, const char *id, const char *text)
{
	struct err err = {.code = ERR_NONE};
	struct task_reader *r =
		task_reader_open(b->sock, id, TASK_OUT | TASK_ERR, 0, 0, true, &err);
	struct buf all = BUF_INIT(LOG_MAX);
	int64_t end = clock_mono_ms() + TASKBOX_MS;
	struct task_chunk c;

	assert_non_null(r);
	while (!strstr(buf_str(&all), text)) {
		int rc = task_reader_next(r, &c, NULL, -1, end, &err);

		if (rc != TASK_READ_DATA)
			fail_msg("%s wrote no \"%s\" (%d), only: %s", id, text, rc, buf_str(&all));
		assert_int_equal(buf_add(&all, c.p, c.n, NULL), 0);
	}
	buf_done(&all);
	task_reader_close(r);
}

/* ---- sessions ---- */

/* Same path in the box; what is not here is not needed. */
static void file_take(const struct agentbox *b, const char *from, const char *to)
{
	auto_close int in = open(from, O_RDONLY | O_CLOEXEC);
	auto_close int out = -1;
	char full[512];

	if (in < 0)
		return;
	snprintf(full, sizeof(full), "%s%s", b->root, to);
	for (char *p = full + strlen(b->root) + 1; (p = strchr(p, '/')); *p++ = '/') {
		*p = '\0';
		mkdir(full, 0755);
	}
	unlink(full);
	out = open(full, O_WRONLY | O_CREAT | O_CLOEXEC, 0755);
	while (sendfile(out, in, NULL, 1 << 20) > 0)
		continue;
}

bool taskbox_shell(const struct agentbox *b, const char *shell, const char *path)
{
	static const char *const dirs[] = {"/lib", "/lib64", "/lib/x86_64-linux-gnu",
					   "/lib/aarch64-linux-gnu"};
	static const char *const libs[] = {"ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1",
					   "libc.so.6", "libtinfo.so.6", "libdl.so.2"};
	char at[128];

	if (access(shell, X_OK) < 0)
		return false;
	file_take(b, shell, path);
	for (size_t i = 0; i < ARRAY_LEN(dirs) * ARRAY_LEN(libs); i++) {
		snprintf(at, sizeof(at), "%s/%s", dirs[i / ARRAY_LEN(libs)],
			 libs[i % ARRAY_LEN(libs)]);
		file_take(b, at, at);
	}
	return true;
}

void taskbox_session(const struct agentbox *b, const char *id, const char *user)
{
	struct task_spec s = {.id = id, .kind = TASK_SESSION, .spawn = {.user = user}};
	struct err err;

	if (agent_task_start(b->sock, &s, NULL, NULL, &err) < 0)
		fail_msg("session %s: %s", id, err.msg);
}

void taskbox_exec(const struct agentbox *b, const char *session, const char *text,
		  struct taskbox_log *ret)
{
	static unsigned n;
	struct err err;
	char id[64];

	snprintf(id, sizeof(id), "c%u", n++);
	if (agent_task_exec(b->sock, session, id, text, 0, 0, NULL, &err) < 0)
		fail_msg("exec of %s: %s", text, err.msg);
	taskbox_follow(b, id, 0, 0, ret);
}

void taskbox_says(const struct agentbox *b, const char *session, const char *text, uint32_t code,
		  const char *out)
{
	auto_tasklog struct taskbox_log l;

	taskbox_exec(b, session, text, &l);
	assert_string_equal(buf_str(&l.all), out);
	assert_int_equal(l.end.code, code);
}

/* ---- the box ---- */

void taskbox_empty(const struct agentbox *b)
{
	int64_t end = clock_mono_ms() + 5000;

	while (agentbox_processes(b, false) > 0 && clock_mono_ms() < end)
		poll(NULL, 0, 5);
	assert_int_equal(agentbox_processes(b, false), 0);
}

long taskbox_rss_kib(const struct agentbox *b)
{
	char path[64], line[256];
	long kib = -1;
	auto_fclose FILE *f = NULL;

	snprintf(path, sizeof(path), "/proc/%d/status", b->pid);
	f = fopen(path, "r");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f))
		if (strncmp(line, "VmRSS:", 6) == 0)
			kib = strtol(line + 6, NULL, 10);
	return kib;
}

size_t taskbox_fds(const struct agentbox *b)
{
	char path[64];
	auto_closedir DIR *dir = NULL;
	size_t n = 0;

	snprintf(path, sizeof(path), "/proc/%d/fd", b->pid);
	dir = opendir(path);
	assert_non_null(dir);
	while (readdir(dir))
		n++;
	return n - 2;
}

void taskbox_fds_at_most(const struct agentbox *b, size_t n)
{
	int64_t end = clock_mono_ms() + 5000;

	while (taskbox_fds(b) > n && clock_mono_ms() < end)
		poll(NULL, 0, 5);
	assert_true(taskbox_fds(b) <= n);
}
