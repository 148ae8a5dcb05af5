/*
 * test_isolation.c - the isolation floor, row by row, tried from inside a running box.
 */
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/path.h"
#include "box_harness.h"
#include "caisson/agent.h"

static struct bh bh;
static struct box *box;
static char box_id[ID_LEN];
static struct bh_result out;

static int group_open(void **state)
{
	(void)state;
	bh_open(&bh);
	bh_layer(&bh, 1, true);
	box = bh_new(&bh, box_id);
	return 0;
}

static int group_close(void **state)
{
	(void)state;
	bh_delete(&bh, box);
	bh_close(&bh);
	return 0;
}

/* One fact a test: the probe of this name finds nothing bad, as root and as the image's user. */
#define PROBE_TEST(fact, name)                                                                     \
	static void fact(void **state)                                                             \
	{                                                                                          \
		(void)state;                                                                       \
		bh_probe(&bh, box, NULL, name);                                                    \
		bh_probe(&bh, box, "daytona", name);                                               \
	}

PROBE_TEST(cve_2024_21626_no_descriptor_but_stdio_is_visible, "fds")
PROBE_TEST(no_path_leads_to_the_hosts_root, "root")
PROBE_TEST(cve_2019_5736_agent_binary_is_not_writable, "init-exe")
PROBE_TEST(kernel_settings_are_not_writable, "settings")
PROBE_TEST(masked_files_tell_nothing, "secrets")
PROBE_TEST(mount_calls_are_refused_and_mounts_are_nodev, "mounts")
PROBE_TEST(namespaces_are_refused_by_each_call, "namespaces")
PROBE_TEST(dangerous_calls_are_refused_by_errno, "calls")
PROBE_TEST(foreign_abis_get_enosys, "i386")
PROBE_TEST(odd_sockets_are_refused, "sockets")
PROBE_TEST(terminal_injection_is_refused, "terminal")
PROBE_TEST(capabilities_are_no_more_than_dockers, "caps")
PROBE_TEST(only_own_processes_are_seen, "pids")
PROBE_TEST(debuggers_work_inside, "ptrace")
PROBE_TEST(shm_is_limited, "shm")

static void devices_are_not_made_or_opened(void **state)
{
	(void)state;
	bh_probe(&bh, box, NULL, "devices");
}

static void cve_2024_21626_cwd_is_never_outside(void **state)
{
	(void)state;
	for (int fd = 3; fd < 40; fd++) {
		const char *argv[] = {"/bin/sh", "-c", "pwd -P; ls -id /; ls -id ../../../..",
				      NULL};
		char cwd[64], path[108];
		struct agent_proc p = AGENT_PROC_INIT;
		struct agent_spawn s = {.argv = argv, .cwd = cwd, .user = "", .flags = SPAWN_MERGE};
		struct err err = {0};

		snprintf(cwd, sizeof(cwd), "/proc/self/fd/%d", fd);
		bh_agent_path(&bh, box, path);
		if (agent_spawn(path, &s, &p, clock_mono_ms() + BH_RUN_MS, &err) == 0)
			fail_msg("a command started in %s (%s)", cwd, p.cwd);
		agent_proc_done(&p);
	}
}

static void root_inside_is_an_unused_uid_outside(void **state)
{
	char path[64], text[4096], *line;
	unsigned uid = 0;

	(void)state;
	snprintf(path, sizeof(path), "/proc/%d/status", box->pid);
	assert_true(path_read_at(AT_FDCWD, path, text, sizeof(text), NULL) > 0);
	line = strstr(text, "\nUid:");
	assert_non_null(line);
	uid = (unsigned)strtoul(line + 5, NULL, 10);
	assert_int_equal(uid, box->uid_base);
	assert_true(uid >= 0x70000000u);
}

static void files_on_disk_have_canonical_ids(void **state)
{
	char path[300];
	struct stat st;

	(void)state;
	assert_int_equal(
		bh_sh(&bh, box, "echo x > /root/f; echo y > /tmp/g; chown 1000:1000 /tmp/g", &out),
		0);
	snprintf(path, sizeof(path), "%s/boxes/%s/upper/root/f", bh.data, box_id);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_uid, 0);
	snprintf(path, sizeof(path), "%s/boxes/%s/upper/tmp/g", bh.data, box_id);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_uid, 1000);
}

static void setuid_programs_work_unless_forbidden(void **state)
{
	char id[ID_LEN];
	struct box_spec s;
	struct box *b;
	const char *argv[] = {"/suid", "euid", NULL};

	(void)state;
	assert_int_equal(bh_sh(&bh, box, "cp /probe /suid && chmod 4755 /suid", &out), 0);
	bh_run(&bh, box, "daytona", argv, &out);
	assert_string_equal(out.out, "ok euid 0\n");
	id_new(id);
	s = bh_spec(id);
	s.flags = PRIV_START_NO_NEW_PRIVS;
	b = bh_start(&bh, &s);
	assert_int_equal(bh_sh(&bh, b, "cp /probe /suid && chmod 4755 /suid", &out), 0);
	bh_run(&bh, b, "daytona", argv, &out);
	assert_string_equal(out.out, "ok euid 1000\n");
	bh_delete(&bh, b);
}

static void nested_user_namespaces_only_when_asked_for(void **state)
{
	char id[ID_LEN];
	struct box_spec s;
	struct box *b;

	(void)state;
	assert_int_not_equal(bh_sh(&bh, box, "unshare -Ur true", &out), 0);
	id_new(id);
	s = bh_spec(id);
	s.flags = PRIV_START_NEST_USERNS;
	b = bh_start(&bh, &s);
	if (bh_sh(&bh, b, "unshare -Ur sh -c 'id -u'", &out) != 0)
		fail_msg("%s", out.out);
	bh_delete(&bh, b);
}

static void two_boxes_share_no_ipc(void **state)
{
	const char *argv[] = {"/probe", "share-make", NULL};
	struct agent_proc p = AGENT_PROC_INIT;
	struct agent_spawn s = {.argv = argv, .cwd = "/", .user = "", .flags = SPAWN_MERGE};
	struct err err = {0};
	char id[ID_LEN], path[108], text[512] = "";
	size_t n = 0;
	struct box *b;

	(void)state;
	bh_agent_path(&bh, box, path);
	assert_int_equal(agent_spawn(path, &s, &p, clock_mono_ms() + BH_RUN_MS, &err), 0);
	while (n < sizeof(text) - 1 && !strstr(text, "posix shared")) {
		fd_wait(p.out, POLLIN, -1, clock_mono_ms() + BH_RUN_MS, &err);
		n += (size_t)MAX(read(p.out, text + n, sizeof(text) - 1 - n), 0);
	}
	assert_null(strstr(text, "BAD"));
	b = bh_new(&bh, id);
	bh_probe(&bh, b, NULL, "share-find");
	bh_delete(&bh, b);
	agent_proc_kill(&p, &err);
	agent_proc_done(&p);
}

static void lower_layers_never_change(void **state)
{
	char path[300], before[65536], after[65536];
	ssize_t n, m;

	(void)state;
	snprintf(path, sizeof(path), "%s/%s/etc/passwd", bh.layers, bh_layer_id(1));
	n = path_read_at(AT_FDCWD, path, before, sizeof(before), NULL);
	assert_int_equal(bh_sh(&bh, box,
			       "echo evil >> /etc/passwd; chmod 777 /etc/passwd; rm -f /bin/ls;"
			       "chown 7:7 /etc/group; mv /etc /etc2; mv /etc2 /etc",
			       &out),
			 0);
	m = path_read_at(AT_FDCWD, path, after, sizeof(after), NULL);
	assert_int_equal(n, m);
	assert_memory_equal(before, after, (size_t)n);
	snprintf(path, sizeof(path), "%s/%s/bin/ls", bh.layers, bh_layer_id(1));
	assert_int_equal(access(path, F_OK), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cve_2024_21626_no_descriptor_but_stdio_is_visible),
		cmocka_unit_test(cve_2024_21626_cwd_is_never_outside),
		cmocka_unit_test(no_path_leads_to_the_hosts_root),
		cmocka_unit_test(cve_2019_5736_agent_binary_is_not_writable),
		cmocka_unit_test(kernel_settings_are_not_writable),
		cmocka_unit_test(masked_files_tell_nothing),
		cmocka_unit_test(mount_calls_are_refused_and_mounts_are_nodev),
		cmocka_unit_test(devices_are_not_made_or_opened),
		cmocka_unit_test(namespaces_are_refused_by_each_call),
		cmocka_unit_test(dangerous_calls_are_refused_by_errno),
		cmocka_unit_test(foreign_abis_get_enosys),
		cmocka_unit_test(odd_sockets_are_refused),
		cmocka_unit_test(terminal_injection_is_refused),
		cmocka_unit_test(capabilities_are_no_more_than_dockers),
		cmocka_unit_test(only_own_processes_are_seen),
		cmocka_unit_test(debuggers_work_inside),
		cmocka_unit_test(shm_is_limited),
		cmocka_unit_test(root_inside_is_an_unused_uid_outside),
		cmocka_unit_test(files_on_disk_have_canonical_ids),
		cmocka_unit_test(setuid_programs_work_unless_forbidden),
		cmocka_unit_test(nested_user_namespaces_only_when_asked_for),
		cmocka_unit_test(two_boxes_share_no_ipc),
		cmocka_unit_test(lower_layers_never_change),
	};

	bh_enter();
	return cmocka_run_group_tests(tests, group_open, group_close);
}
