/*
 * Searching and watching in a sandbox, through the daemon's side of the agent.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/scope.h"
#include "unit/agentbox.h"

#define WAIT_MS 10000

static struct agentbox box;

static int box_start(void **state)
{
	(void)state;
	return agentbox_start(&box, 0);
}

static int box_end(void **state)
{
	(void)state;
	agentbox_stop(&box);
	return 0;
}

static void sh(const char *text)
{
	agentbox_quiet(&box, text);
}

static int match_add(void *arg, const struct agent_match *m, struct err *err)
{
	return buf_addf(arg, err, "%s:%u:%s%s\n", m->path, m->line, m->text, m->cut ? "~" : "");
}

static void find_is(const char *user, const char *path, const char *pattern, const char *want)
{
	auto_buf struct buf b = BUF_INIT(16 << 20);
	struct err err = {.msg = ""};
	bool more = true;

	if (agent_find(box.sock, user, path, pattern, 1000, -1, match_add, &b, &more, &err) < 0)
		fail_msg("find %s: %s", pattern, err.msg);
	assert_string_equal(buf_str(&b), want);
	assert_false(more);
}

static void find_fails(const char *path, const char *pattern, enum err_code code)
{
	auto_buf struct buf b = BUF_INIT(16 << 20);
	struct err err = {.code = ERR_NONE};

	assert_int_equal(
		agent_find(box.sock, "dev", path, pattern, 10, -1, match_add, &b, NULL, &err), -1);
	assert_int_equal(err.code, code);
}

static void lines_are_found_with_path_and_number(void **state)
{
	(void)state;
	sh("mkdir -p /tmp/f/sub; cd /tmp/f; printf 'one\\ntwo NEEDLE a NEEDLE\\r\\n\\nNEEDLE' > a;"
	   "printf 'x\\nNEEDLEs\\n' > sub/b; printf 'NEEDLE\\0' > bin; ln -s a link;"
	   "mkfifo fifo; echo NEEDLE > secret; chmod 600 secret; echo > none");
	find_is("dev", "/tmp/f/a", "NEEDLE", "/tmp/f/a:2:two NEEDLE a NEEDLE\n/tmp/f/a:4:NEEDLE\n");
	find_is("dev", "/tmp/f/sub", "NEEDLE", "/tmp/f/sub/b:2:NEEDLEs\n");
	find_is("dev", "/tmp/f/bin", "NEEDLE", "");
	find_is("dev", "/tmp/f/none", "NEEDLE", "");
}

static void patterns_and_places_are_checked(void **state)
{
	(void)state;
	find_fails("/tmp/f", "", ERR_INVALID);
	find_fails("/tmp/f", "a\nb", ERR_INVALID);
	find_fails("/nope", "a", ERR_NOT_FOUND);
	find_fails("/dev/zero", "a", ERR_INVALID);
	find_fails("/tmp/f/secret", "a", ERR_FORBIDDEN);
}

static void long_lines_are_searched_and_shown_cut(void **state)
{
	auto_buf struct buf want = BUF_INIT(1 << 20);

	(void)state;
	/* The text lies across the end of the buffer, and the line goes on for megabytes. */
	sh("cd /tmp/f; rm -rf *; (head -c 131070 /dev/zero | busybox tr '\\0' x; printf NEEDLE;"
	   "head -c 3000000 /dev/zero | busybox tr '\\0' y; printf '\\nNEEDLE\\n') > long");
	buf_adds(&want, "/tmp/f/long:1:", NULL);
	{
		auto_buf struct buf b = BUF_INIT(16 << 20);
		const char *second;

		assert_int_equal(agent_find(box.sock, "dev", "/tmp/f", "NEEDLE", 10, -1, match_add,
					    &b, NULL, NULL),
				 0);
		assert_memory_equal(buf_str(&b), want.data, want.len);
		second = strchr(buf_str(&b), '\n');
		assert_non_null(second);
		assert_int_equal(second[-1], '~');
		assert_string_equal(second + 1, "/tmp/f/long:2:NEEDLE\n");
	}
	sh("rm /tmp/f/long; cd /tmp/f; busybox seq 1 300000 > many");
	find_is("dev", "/tmp/f", "299999", "/tmp/f/many:299999:299999\n");
}

static void a_search_says_when_there_is_more(void **state)
{
	auto_buf struct buf b = BUF_INIT(16 << 20);
	bool more = false;

	(void)state;
	assert_int_equal(
		agent_find(box.sock, "dev", "/tmp/f", "1", 7, -1, match_add, &b, &more, NULL), 0);
	assert_true(more);
	assert_string_equal(strrchr(buf_str(&b), ':'), ":15\n");
}

static int name_add(void *arg, const char *file, struct err *err)
{
	return buf_addf(arg, err, "%s\n", file);
}

static void names_are_found_by_pattern_directories_included(void **state)
{
	auto_buf struct buf b = BUF_INIT(16 << 20);
	struct err err = {.code = ERR_NONE};

	(void)state;
	sh("cd /tmp; rm -rf f; mkdir -p f/x.d/y; cd f; touch a.d x.d/b.d x.d/y/c.e; mkdir "
	   "x.d/y/z.d;"
	   "ln -s / up.d");
	assert_int_equal(agent_search(box.sock, "dev", "/tmp/f", "[!u]*.d", 100, -1, name_add, &b,
				      NULL, NULL),
			 0);
	assert_non_null(strstr(buf_str(&b), "/tmp/f/a.d\n"));
	assert_non_null(strstr(buf_str(&b), "/tmp/f/x.d\n"));
	assert_non_null(strstr(buf_str(&b), "/tmp/f/x.d/b.d\n"));
	assert_non_null(strstr(buf_str(&b), "/tmp/f/x.d/y/z.d\n"));
	assert_null(strstr(buf_str(&b), "up.d"));
	assert_int_equal(strlen(buf_str(&b)), strlen("/tmp/f/a.d\n/tmp/f/x.d\n/tmp/f/x.d/b.d\n"
						     "/tmp/f/x.d/y/z.d\n"));
	assert_int_equal(
		agent_search(box.sock, "dev", "/tmp/f", "[", 10, -1, name_add, &b, NULL, &err), -1);
	assert_int_equal(err.code, ERR_INVALID);
	/* All of the root, proc left out, ends. */
	assert_int_equal(agent_search(box.sock, "", "/", "pass*", 9, -1, name_add, &b, NULL, NULL),
			 0);
}

/* ---- watching ---- */

struct seen {
	struct buf b;
	bool overflow;
};

static int event_add(void *arg, const struct agent_event *e, struct err *err)
{
	static const char *const kinds[] = {"",	      "create", "write",    "remove",
					    "rename", "chmod",	"overflow", "limit"};
	struct seen *s = arg;

	s->overflow = s->overflow || e->kind == AGENT_EVENT_OVERFLOW;
	return buf_addf(&s->b, err, "%s %s%s%s\n", kinds[e->kind], e->path,
			*e->from ? " from " : "", e->from);
}

/* Until text was seen. */
static void watch_until(int watch, struct seen *s, const char *text)
{
	int64_t deadline = clock_mono_ms() + WAIT_MS;
	bool over = false;

	while (!strstr(buf_str(&s->b), text)) {
		struct err err = {.msg = ""};

		if (over || agent_watch_next(watch, -1, deadline, event_add, s, &over, &err) <= 0)
			fail_msg("no \"%s\" (%s) in:\n%s", text, err.msg, buf_str(&s->b));
	}
}

static void changes_below_are_told_with_their_paths(void **state)
{
	struct seen s = {.b = BUF_INIT(1 << 20)};
	auto_close int watch = -1;

	(void)state;
	sh("mkdir -p /tmp/w/old; busybox chown -R dev /tmp/w");
	watch = agent_watch(box.sock, "dev", "/tmp/w", true, NULL);
	assert_true(watch >= 0);
	sh("cd /tmp/w; echo x > old/f");
	watch_until(watch, &s, "create /tmp/w/old/f\nwrite /tmp/w/old/f\n");
	sh("cd /tmp/w; mkdir -p n/e/w; echo y > n/e/w/g");
	watch_until(watch, &s, "create /tmp/w/n\n");
	watch_until(watch, &s, "create /tmp/w/n/e/w/g\n");
	sh("cd /tmp/w; mv n m; echo z > m/e/w/h");
	watch_until(watch, &s, "rename /tmp/w/n\ncreate /tmp/w/m from /tmp/w/n\n");
	watch_until(watch, &s, "create /tmp/w/m/e/w/h\n");
	sh("cd /tmp/w; chmod 700 old/f; rm old/f");
	watch_until(watch, &s, "chmod /tmp/w/old/f\nremove /tmp/w/old/f\n");
	sh("rm -r /tmp/w");
	watch_until(watch, &s, "remove /tmp/w\n");
	buf_done(&s.b);
}

static void folders_that_move_in_and_out_are_followed(void **state)
{
	struct seen s = {.b = BUF_INIT(1 << 20)};
	auto_close int watch = -1;

	(void)state;
	sh("mkdir -p /tmp/m/in /tmp/out/x/y; echo > /tmp/out/x/y/f");
	watch = agent_watch(box.sock, "", "/tmp/m", true, NULL);
	sh("mv /tmp/out/x /tmp/m/in/x");
	watch_until(watch, &s, "create /tmp/m/in/x/y/f\n");
	for (int i = 0; i < 20; i++) {
		char text[160], want[64];

		snprintf(text, sizeof(text), "cd /tmp/m/in; mv x z; echo > z/y/g%d; mv z x", i);
		snprintf(want, sizeof(want), "create /tmp/m/in/z/y/g%d\n", i);
		sh(text);
		watch_until(watch, &s, want);
	}
	sh("mv /tmp/m/in/x /tmp/out/x; echo > /tmp/out/x/y/far; echo > /tmp/m/end");
	watch_until(watch, &s, "create /tmp/m/end\n");
	assert_null(strstr(buf_str(&s.b), "far"));
	buf_done(&s.b);
}

static void uploads_are_seen_as_what_they_are(void **state)
{
	struct seen s = {.b = BUF_INIT(1 << 20)};
	auto_close int watch = -1;

	(void)state;
	sh("mkdir /tmp/u; busybox chown dev /tmp/u");
	watch = agent_watch(box.sock, "dev", "/tmp/u", false, NULL);
	for (int i = 0; i < 2; i++) {
		struct agent_put p = AGENT_PUT_INIT;

		assert_int_equal(agent_put(box.sock, "dev", "/tmp/u/f", 0, 0644, &p, NULL), 0);
		assert_int_equal(write(p.fd, "x", 1), 1);
		assert_int_equal(agent_put_commit(&p, NULL, NULL, NULL), 0);
		watch_until(watch, &s, i ? "write /tmp/u/f\n" : "create /tmp/u/f\n");
	}
	assert_null(strstr(buf_str(&s.b), ".caisson"));
	buf_done(&s.b);
}

static void lost_events_are_told(void **state)
{
	struct seen s = {.b = BUF_INIT(64 << 20)};
	auto_close int watch = -1;

	(void)state;
	sh("mkdir /tmp/o");
	watch = agent_watch(box.sock, "", "/tmp/o", true, NULL);
	/* More than socket, frame and queue hold, and nobody reads. */
	sh("cd /tmp/o; i=0; while [ $i -lt 30000 ]; do : > f$i; i=$((i + 1)); done");
	watch_until(watch, &s, "overflow /tmp/o\n");
	sh("mkdir /tmp/o/after; : > /tmp/o/after/all");
	watch_until(watch, &s, "create /tmp/o/after/all\n");
	buf_done(&s.b);
}

static void watches_have_a_ceiling_and_end_with_their_reader(void **state)
{
	int watch[16], n = 0;
	struct err err = {.code = ERR_NONE};

	(void)state;
	/* One of the test before may not have ended yet. */
	for (int64_t end = clock_mono_ms() + WAIT_MS; n < 16 && clock_mono_ms() < end;) {
		watch[n] = agent_watch(box.sock, "", "/tmp", false, &err);
		n += watch[n] >= 0;
	}
	assert_int_equal(n, 16);
	assert_int_equal(agent_watch(box.sock, "", "/tmp", false, &err), -1);
	assert_int_equal(err.code, ERR_LIMIT);
	for (int i = 0; i < n; i++)
		close(watch[i]);
	for (int64_t end = clock_mono_ms() + WAIT_MS;;) {
		watch[0] = agent_watch(box.sock, "", "/tmp", false, &err);
		if (watch[0] >= 0)
			break;
		assert_true(clock_mono_ms() < end);
	}
	close(watch[0]);
	/* All places are free again only when the last one has ended. */
	for (int64_t end = clock_mono_ms() + WAIT_MS;;) {
		assert_int_equal(agent_watch(box.sock, "dev", "/nope", false, &err), -1);
		if (err.code != ERR_LIMIT || clock_mono_ms() > end)
			break;
	}
	assert_int_equal(err.code, ERR_NOT_FOUND);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_are_found_with_path_and_number),
		cmocka_unit_test(patterns_and_places_are_checked),
		cmocka_unit_test(long_lines_are_searched_and_shown_cut),
		cmocka_unit_test(a_search_says_when_there_is_more),
		cmocka_unit_test(names_are_found_by_pattern_directories_included),
		cmocka_unit_test(changes_below_are_told_with_their_paths),
		cmocka_unit_test(folders_that_move_in_and_out_are_followed),
		cmocka_unit_test(uploads_are_seen_as_what_they_are),
		cmocka_unit_test(lost_events_are_told),
		cmocka_unit_test(watches_have_a_ceiling_and_end_with_their_reader),
	};

	if (!agentbox_possible()) {
		printf("skipped: needs root, a static /bin/busybox and build/caisson-init\n");
		return 0;
	}
	return cmocka_run_group_tests(tests, box_start, box_end);
}
