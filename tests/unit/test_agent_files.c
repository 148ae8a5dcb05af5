/*
 * Files of a sandbox through the daemon's side of the agent and a real caisson-init.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/scope.h"
#include "unit/agentbox.h"

static struct agentbox box;

#define UPLOAD (AGENT_OPEN_WRITE | AGENT_OPEN_CREATE | AGENT_OPEN_TRUNC)

#define auto_info auto_call(agent_info_done)

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

static void sh_is(const char *text, const char *out)
{
	agentbox_says(&box, text, out);
}

static void upload(const char *user, const char *path, uint32_t flags, mode_t mode,
		   const char *text)
{
	struct err err = {.msg = ""};
	auto_close int fd = agent_open(box.sock, user, path, flags, mode, NULL, &err);

	if (fd < 0)
		fail_msg("open %s: %s", path, err.msg);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
}

static void open_fails(const char *user, const char *path, uint32_t flags, enum err_code code,
		       const char *tag)
{
	struct err err = {.code = ERR_NONE};

	assert_int_equal(agent_open(box.sock, user, path, flags, 0644, NULL, &err), -1);
	if (err.code != code)
		fail_msg("open %s: %s %s", path, err_code_name(err.code), err.msg);
	if (tag)
		assert_string_equal(err.tag, tag);
}

static void a_file_written_is_there_for_the_next_command(void **state)
{
	(void)state;
	for (int i = 0; i < 50; i++) {
		upload("dev", "/home/dev/b3", UPLOAD, 0644, "hello\n");
		sh_is("stat -c '%u %g %a %s' /home/dev/b3; cat /home/dev/b3; rm /home/dev/b3",
		      "1000 1000 644 6\nhello\n");
	}
}

static void open_makes_parents_when_asked(void **state)
{
	(void)state;
	open_fails("dev", "/home/dev/p/q/r", UPLOAD, ERR_NOT_FOUND, "FILE_NOT_FOUND");
	upload("dev", "/home/dev/p/q/r", UPLOAD | AGENT_OPEN_PARENTS, 0600, "x");
	sh_is("stat -c '%U %a' /home/dev/p /home/dev/p/q/r", "dev 755\ndev 600\n");
	upload("dev", "/home/dev/p/q/r", AGENT_OPEN_WRITE | AGENT_OPEN_APPEND, 0600, "y");
	sh_is("cat /home/dev/p/q/r", "xy");
}

static void b5_paths_stay_in_the_sandbox(void **state)
{
	auto_info struct agent_info i = {0};
	auto_close int fd = -1;
	struct stat in, host;

	(void)state;
	sh("ln -s / /tmp/top; ln -s ../../../../../../etc /tmp/up; mkfifo /tmp/fifo");
	fd = agent_open(box.sock, "", "/tmp/top/../../tmp/up/passwd", AGENT_OPEN_READ, 0, &i, NULL);
	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &in), 0);
	assert_int_equal(stat("/etc/passwd", &host), 0);
	assert_false(in.st_ino == host.st_ino && in.st_dev == host.st_dev);
	open_fails("", "/proc/self/root/etc/passwd", AGENT_OPEN_READ, ERR_INVALID,
		   "INVALID_FILE_PATH");
	open_fails("", "/proc/self/exe", AGENT_OPEN_READ, ERR_INVALID, NULL);
	open_fails("", "/proc/self/fd/3", AGENT_OPEN_READ, ERR_INVALID, NULL);
	open_fails("", "/proc/1/cwd/etc/passwd", AGENT_OPEN_READ, ERR_INVALID, NULL);
	open_fails("", "/proc/1/status", AGENT_OPEN_READ, ERR_INVALID, NULL);
	open_fails("", "/dev/zero", AGENT_OPEN_READ, ERR_INVALID, NULL);
	open_fails("", "/dev/ptmx", AGENT_OPEN_READ, ERR_INVALID, NULL);
}

static void b5_a_fifo_is_refused_at_once(void **state)
{
	int64_t began = clock_mono_ms();

	(void)state;
	sh("rm -f /tmp/fifo; mkfifo /tmp/fifo");
	open_fails("", "/tmp/fifo", AGENT_OPEN_READ, ERR_INVALID, "INVALID_FILE_PATH");
	open_fails("", "/tmp/fifo", AGENT_OPEN_WRITE, ERR_INVALID, "INVALID_FILE_PATH");
	assert_true(clock_mono_ms() - began < 1000);
}

static void b8_faults_have_their_codes(void **state)
{
	struct err err = {.code = ERR_NONE};
	char longest[5000];
	struct agent_info i;

	(void)state;
	sh("mkdir -p /root/d; chmod 700 /root; echo > /root/f; mkdir -p /tmp/d/e");
	open_fails("dev", "/nope", AGENT_OPEN_READ, ERR_NOT_FOUND, "FILE_NOT_FOUND");
	open_fails("dev", "/root/f", AGENT_OPEN_READ, ERR_FORBIDDEN, "FILE_ACCESS_DENIED");
	open_fails("dev", "/etc/passwd", AGENT_OPEN_WRITE, ERR_FORBIDDEN, "FILE_ACCESS_DENIED");
	open_fails("dev", "/newfile", UPLOAD, ERR_FORBIDDEN, "FILE_ACCESS_DENIED");
	open_fails("", "/etc/passwd/x", AGENT_OPEN_READ, ERR_CONFLICT, NULL);
	open_fails("", "/tmp/d", AGENT_OPEN_READ, ERR_CONFLICT, NULL);
	open_fails("", "", AGENT_OPEN_READ, ERR_INVALID, "INVALID_FILE_PATH");
	open_fails("nobody42", "/etc/passwd", AGENT_OPEN_READ, ERR_INVALID, NULL);
	memset(longest, 'x', sizeof(longest) - 1);
	longest[0] = '/';
	longest[sizeof(longest) - 1] = '\0';
	open_fails("", longest, AGENT_OPEN_READ, ERR_INVALID, "INVALID_FILE_PATH");
	assert_int_equal(agent_stat(box.sock, "dev", "/root/d", true, &i, &err), -1);
	assert_int_equal(err.code, ERR_FORBIDDEN);
	assert_int_equal(agent_remove(box.sock, "", "/nope", false, &err), -1);
	assert_int_equal(err.code, ERR_NOT_FOUND);
	assert_int_equal(agent_remove(box.sock, "", "/tmp/d", false, &err), -1);
	assert_int_equal(err.code, ERR_INVALID);
	assert_int_equal(agent_remove(box.sock, "dev", "/etc/passwd", false, &err), -1);
	assert_int_equal(err.code, ERR_FORBIDDEN);
	assert_int_equal(agent_remove(box.sock, "", "/", true, &err), -1);
	assert_int_equal(err.code, ERR_INVALID);
	assert_int_equal(agent_remove(box.sock, "", "/tmp/d/..", true, &err), -1);
	assert_int_equal(err.code, ERR_INVALID);
	assert_int_equal(agent_rename(box.sock, "", "/nope", "/tmp/x", &err), -1);
	assert_int_equal(err.code, ERR_NOT_FOUND);
	assert_int_equal(agent_rename(box.sock, "", "/tmp/d", "/tmp/d/e/f", &err), -1);
	assert_int_equal(agent_mkdir(box.sock, "", "/tmp/d", 0755, false, &err), -1);
	assert_int_equal(err.code, ERR_CONFLICT);
	assert_int_equal(agent_mkdir(box.sock, "dev", "/root/x/y", 0755, true, &err), -1);
	assert_int_equal(err.code, ERR_FORBIDDEN);
	assert_string_equal(err.tag, "FILE_ACCESS_DENIED");
}

static void b10_overwriting_keeps_owner_mode_and_attributes(void **state)
{
	char host[256], value[8] = "";

	(void)state;
	sh("echo old > /home/dev/keep; chmod 750 /home/dev/keep; chown 1000:27 /home/dev/keep "
	   "2>/dev/null || busybox chown 1000:27 /home/dev/keep; chmod 750 /home/dev/keep");
	snprintf(host, sizeof(host), "%s/home/dev/keep", box.root);
	setxattr(host, "user.a", "b", 1, 0);
	upload("", "/home/dev/keep", UPLOAD, 0644, "new");
	sh_is("stat -c '%u %g %a' /home/dev/keep; cat /home/dev/keep", "1000 27 750\nnew");
	if (getxattr(host, "user.a", value, sizeof(value)) > 0)
		assert_string_equal(value, "b");
}

static void b10_a_read_only_file_of_the_user_can_be_overwritten(void **state)
{
	(void)state;
	sh("echo old > /home/dev/ro; busybox chown dev /home/dev/ro; chmod 444 /home/dev/ro;"
	   "echo root > /tmp/rootro; chmod 444 /tmp/rootro");
	upload("dev", "/home/dev/ro", UPLOAD, 0644, "new");
	sh_is("stat -c '%u %a' /home/dev/ro; cat /home/dev/ro", "1000 444\nnew");
	open_fails("dev", "/tmp/rootro", UPLOAD, ERR_FORBIDDEN, "FILE_ACCESS_DENIED");
	/* The rights were given back: as before for the next call of this worker. */
	open_fails("dev", "/root/f", AGENT_OPEN_READ, ERR_FORBIDDEN, "FILE_ACCESS_DENIED");
}

struct seen {
	size_t n;
	char names[64][256];
	char types[64];
	char link[256];
};

static int seen_add(void *arg, const struct agent_info *i, struct err *err)
{
	struct seen *s = arg;

	(void)err;
	if (s->n < ARRAY_LEN(s->types)) {
		snprintf(s->names[s->n], sizeof(s->names[0]), "%s", i->path);
		s->types[s->n] = i->type;
		if (i->type == 'l')
			snprintf(s->link, sizeof(s->link), "%s", i->link);
	}
	s->n++;
	return 0;
}

static void b16_a_large_listing_is_whole(void **state)
{
	struct seen s = {.n = 0};
	bool more = true;
	struct err err = {.msg = ""};

	(void)state;
	sh("mkdir /tmp/many; cd /tmp/many; seq 1 5000 | busybox xargs touch");
	assert_int_equal(
		agent_list(box.sock, "", "/tmp/many", 1, AGENT_LIST_MAX, seen_add, &s, &more, &err),
		0);
	assert_int_equal(s.n, 5000);
	assert_false(more);
	s.n = 0;
	assert_int_equal(agent_list(box.sock, "", "/tmp/many", 1, 4999, seen_add, &s, &more, NULL),
			 0);
	assert_int_equal(s.n, 4999);
	assert_true(more);
	s.n = 0;
	assert_int_equal(agent_list(box.sock, "", "/tmp/many", 1, 5000, seen_add, &s, &more, NULL),
			 0);
	assert_false(more);
}

static void listings_go_to_their_depth_with_any_name(void **state)
{
	struct seen s = {.n = 0};
	bool more;

	(void)state;
	sh("mkdir -p /tmp/t/a/b/c; ln -s /nowhere /tmp/t/l; cd /tmp/t; touch \"$(printf "
	   "'x\\377\\n')y\"");
	assert_int_equal(agent_list(box.sock, "", "/tmp/t", 1, 100, seen_add, &s, &more, NULL), 0);
	assert_int_equal(s.n, 3);
	assert_string_equal(s.link, "/nowhere");
	s.n = 0;
	assert_int_equal(agent_list(box.sock, "", "/tmp/t", 3, 100, seen_add, &s, &more, NULL), 0);
	assert_int_equal(s.n, 5);
	s.n = 0;
	assert_int_equal(agent_list(box.sock, "", "/tmp/t/", 2, 100, seen_add, &s, &more, NULL), 0);
	assert_int_equal(s.n, 4);
	for (size_t i = 0; i < s.n; i++)
		assert_null(strstr(s.names[i], "//"));
	assert_int_equal(agent_list(box.sock, "dev", "/root", 1, 100, seen_add, &s, &more, NULL),
			 -1);
	assert_int_equal(agent_list(box.sock, "", "/etc/passwd", 1, 100, seen_add, &s, &more, NULL),
			 -1);
}

static void stat_tells_a_link_from_its_target(void **state)
{
	auto_info struct agent_info l = {0}, f = {0};

	(void)state;
	sh("ln -s /etc/passwd /tmp/pw");
	assert_int_equal(agent_stat(box.sock, "", "/tmp/pw", false, &l, NULL), 0);
	assert_int_equal(l.type, 'l');
	assert_string_equal(l.link, "/etc/passwd");
	assert_string_equal(l.name, "pw");
	assert_int_equal(agent_stat(box.sock, "", "/tmp/pw", true, &f, NULL), 0);
	assert_int_equal(f.type, 'f');
	assert_int_equal(f.mode, 0644);
	assert_true(f.mtime_ns > 0);
}

static void remove_takes_a_tree_but_not_what_links_lead_to(void **state)
{
	(void)state;
	sh("mkdir -p /tmp/r/a/b /tmp/safe; touch /tmp/safe/f /tmp/r/a/b/f; ln -s /tmp/safe "
	   "/tmp/r/l;"
	   "ln -s /tmp/safe /tmp/link");
	assert_int_equal(agent_remove(box.sock, "", "/tmp/r", true, NULL), 0);
	assert_int_equal(agent_remove(box.sock, "", "/tmp/link", true, NULL), 0);
	sh_is("ls -d /tmp/r /tmp/link 2>/dev/null; ls /tmp/safe", "f\n");
}

static void rename_moves_and_overwrites(void **state)
{
	(void)state;
	sh("echo a > /tmp/m1; echo b > /tmp/m2; busybox chown dev /tmp/m1 /tmp/m2");
	assert_int_equal(agent_rename(box.sock, "dev", "/tmp/m1", "/tmp/m2", NULL), 0);
	sh_is("cat /tmp/m2; ls /tmp/m1 2>/dev/null", "a\n");
}

static void modes_and_owners_follow_the_users_rights(void **state)
{
	struct err err = {.code = ERR_NONE};
	mode_t mode = 0640;

	(void)state;
	sh("echo > /home/dev/s; busybox chown dev:dev /home/dev/s");
	assert_int_equal(agent_setattr(box.sock, "dev", "/home/dev/s", &mode, "", "", NULL), 0);
	assert_int_equal(agent_setattr(box.sock, "dev", "/home/dev/s", NULL, "", "sudo", NULL), 0);
	sh_is("stat -c '%u %g %a' /home/dev/s", "1000 27 640\n");
	assert_int_equal(agent_setattr(box.sock, "dev", "/home/dev/s", NULL, "root", "", &err), -1);
	assert_int_equal(err.code, ERR_FORBIDDEN);
	assert_int_equal(agent_setattr(box.sock, "dev", "/etc/passwd", &mode, "", "", &err), -1);
	assert_int_equal(err.code, ERR_FORBIDDEN);
	mode = 04755;
	assert_int_equal(agent_setattr(box.sock, "", "/home/dev/s", &mode, "0", "999", NULL), 0);
	sh_is("stat -c '%u %g %a' /home/dev/s", "0 999 4755\n");
	assert_int_equal(agent_setattr(box.sock, "", "/home/dev/s", NULL, "x y", "", &err), -1);
	assert_int_equal(err.code, ERR_INVALID);
}

static void mkdir_makes_parents_and_takes_what_is_there(void **state)
{
	(void)state;
	assert_int_equal(agent_mkdir(box.sock, "dev", "/home/dev/k/l/m", 0750, true, NULL), 0);
	assert_int_equal(agent_mkdir(box.sock, "dev", "/home/dev/k/l/m", 0750, true, NULL), 0);
	assert_int_equal(agent_mkdir(box.sock, "dev", "/home/dev/k/n", 0700, false, NULL), 0);
	sh_is("stat -c '%U %a' /home/dev/k/l/m /home/dev/k/n", "dev 750\ndev 700\n");
}

static void statfs_has_plausible_figures(void **state)
{
	uint64_t total, used, avail;
	struct err err;

	(void)state;
	assert_int_equal(agent_statfs(box.sock, "/", &total, &used, &avail, NULL), 0);
	assert_true(total > 0 && used <= total && avail <= total);
	assert_int_equal(agent_statfs(box.sock, "/nope", &total, &used, &avail, &err), -1);
}

/* The agent of this test shares the machine's network, so other ports may be there too. */
static bool port_listed(uint16_t want)
{
	auto_free uint16_t *port = NULL;
	bool found = false;
	size_t n;

	assert_int_equal(agent_ports(box.sock, &port, &n, NULL), 0);
	for (size_t i = 0; i < n; i++)
		found = found || port[i] == want;
	return found;
}

static void a_port_is_listed_while_somebody_listens(void **state)
{
	struct sockaddr_in6 a = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
	struct sockaddr_in b = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int v6 = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int v4 = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t na = sizeof(a), nb = sizeof(b);

	(void)state;
	assert_int_equal(bind(v4, (struct sockaddr *)&b, nb), 0);
	assert_int_equal(getsockname(v4, (struct sockaddr *)&b, &nb), 0);
	assert_false(port_listed(ntohs(b.sin_port)));
	assert_int_equal(listen(v4, 1), 0);
	assert_true(port_listed(ntohs(b.sin_port)));
	close(v4);
	if (bind(v6, (struct sockaddr *)&a, na) == 0) {
		assert_int_equal(getsockname(v6, (struct sockaddr *)&a, &na), 0);
		assert_int_equal(listen(v6, 1), 0);
		assert_true(port_listed(ntohs(a.sin6_port)));
	}
	close(v6);
}

static void traffic_is_told(void **state)
{
	struct agent_traffic t = {.rx_bytes = UINT64_MAX};

	(void)state;
	assert_int_equal(agent_traffic(box.sock, &t, NULL), 0);
	assert_true(t.rx_bytes >= t.rx_packets && t.tx_bytes >= t.tx_packets);
}

static void hostile_account_files_do_no_harm(void **state)
{
	struct agent_user u;
	struct err err;

	(void)state;
	sh("mv /etc/passwd /etc/passwd.ok; mkfifo /etc/passwd");
	assert_int_equal(agent_user(box.sock, "dev", &u, &err), -1);
	assert_int_equal(agent_user(box.sock, "1000", &u, NULL), 0);
	sh("rm /etc/passwd; head -c 20000000 /dev/zero > /etc/passwd");
	assert_int_equal(agent_user(box.sock, "dev", &u, &err), -1);
	sh("rm /etc/passwd; (head -c 9000 /dev/zero | busybox tr '\\0' x; echo;"
	   "echo 'late:x:7:8:::/bin/late'; printf 'nolf:x:9:9::/h:') > /etc/passwd");
	assert_int_equal(agent_user(box.sock, "late", &u, NULL), 0);
	assert_int_equal(u.uid, 7);
	assert_string_equal(u.home, "/");
	assert_string_equal(u.shell, "/bin/late");
	assert_int_equal(agent_user(box.sock, "nolf", &u, NULL), 0);
	assert_string_equal(u.home, "/h");
	assert_string_equal(u.shell, "/bin/sh");
	sh("mv /etc/passwd.ok /etc/passwd");
	assert_int_equal(agent_user(box.sock, "dev", &u, NULL), 0);
	assert_string_equal(u.home, "/home/dev");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_file_written_is_there_for_the_next_command),
		cmocka_unit_test(open_makes_parents_when_asked),
		cmocka_unit_test(b5_paths_stay_in_the_sandbox),
		cmocka_unit_test(b5_a_fifo_is_refused_at_once),
		cmocka_unit_test(b8_faults_have_their_codes),
		cmocka_unit_test(b10_overwriting_keeps_owner_mode_and_attributes),
		cmocka_unit_test(b10_a_read_only_file_of_the_user_can_be_overwritten),
		cmocka_unit_test(b16_a_large_listing_is_whole),
		cmocka_unit_test(listings_go_to_their_depth_with_any_name),
		cmocka_unit_test(stat_tells_a_link_from_its_target),
		cmocka_unit_test(remove_takes_a_tree_but_not_what_links_lead_to),
		cmocka_unit_test(rename_moves_and_overwrites),
		cmocka_unit_test(modes_and_owners_follow_the_users_rights),
		cmocka_unit_test(mkdir_makes_parents_and_takes_what_is_there),
		cmocka_unit_test(statfs_has_plausible_figures),
		cmocka_unit_test(a_port_is_listed_while_somebody_listens),
		cmocka_unit_test(traffic_is_told),
		cmocka_unit_test(hostile_account_files_do_no_harm),
	};

	if (!agentbox_possible()) {
		printf("skipped: needs root, a static /bin/busybox and build/caisson-init\n");
		return 0;
	}
	return cmocka_run_group_tests(tests, box_start, box_end);
}
