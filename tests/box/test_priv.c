/*
 * test_priv.c - the runner process as its api process sees it: verbs, events, restarts.
 */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/path.h"
#include "base/sys.h"
#include "box_harness.h"
#include "caisson/agent.h"
#include "caisson/priv.h"
#include "caisson/runner.h"
#include "priv/priv.h"
#include "wire/wire.h"
#include "lab_priv.h"

static bool list_has(const struct runner_list *l, const char *id)
{
	for (size_t i = 0; i < l->nlive; i++) {
		if (strcmp(l->live[i].id, id) == 0)
			return true;
	}
	return false;
}

static void verbs_api(struct lab_priv *l, int number, int sock)
{
	struct runner *r = lab_api_runner(sock);
	struct runner_started st;
	struct runner_stats stats;
	struct runner_host host;
	struct runner_list list = {0};
	struct runner_start again;
	struct err err = {0};
	char path[108], id[ID_LEN];

	CHECK(number == 1);
	lab_api_start(r, id, &st);
	CHECK(st.pid > 1 && st.ip4[0] && st.ip6[0] && st.total_us > 0);
	again = lab_api_spec(id);
	CHECK(r->ops->start(r, &again, &st, &err) < 0 && err.code == ERR_CONFLICT);
	CHECK(r->ops->agent_path(r, id, path, &err) == 0);
	CHECK(agent_hello(path, clock_mono_ms() + 3000, &err) == 0);
	CHECK(r->ops->stats(r, id, &stats, &err) == 0);
	CHECK(stats.mem_limit == 64 << 20 && stats.pids >= 1 && stats.cpu_milli == 1000);
	CHECK(r->ops->host(r, &host, &err) == 0);
	CHECK(host.live == 1 && host.cpus > 0 && host.disk_total > host.disk_free);
	CHECK(r->ops->list(r, &list, &err) == 0);
	CHECK(list.nlive == 1 && list_has(&list, id) && list.nuppers == 1);
	CHECK(r->ops->net(r, id, PRIV_START_NET_BLOCK, &err) == 0);
	CHECK(r->ops->kill(r, id, &err) == 0);
	lab_wait_count(&l->sh->exited, 1);
	CHECK(r->ops->kill(r, id, &err) == 0);
	CHECK(r->ops->stats(r, id, &stats, &err) < 0 && err.code == ERR_NOT_FOUND);
	again.fresh = false;
	CHECK(r->ops->start(r, &again, &st, &err) == 0);
	CHECK(r->ops->remove(r, id, &err) == 0);
	CHECK(r->ops->remove(r, id, &err) == 0);
	CHECK(r->ops->start(r, &again, &st, &err) < 0 && err.code == ERR_NOT_FOUND);
	runner_list_done(&list);
	CHECK(r->ops->list(r, &list, &err) == 0 && list.nlive == 0 && list.nuppers == 0);
	l->sh->done = 1;
	lab_api_wait_term();
}

static void verbs_work_and_a_stop_leaves_nothing(void **state)
{
	char path[200];

	(void)state;
	lab.api = verbs_api;
	lab_runner_start();
	lab_wait_done();
	assert_int_equal(lab_runner_stop(SIGTERM), 0);
	snprintf(path, sizeof(path), "%s/data/trash", lab.dir);
	assert_int_equal(rmdir(path), 0);
}

static void image_api(struct lab_priv *l, int number, int sock)
{
	struct runner *r = lab_api_runner(sock);
	struct runner_layer layer;
	struct runner_started st;
	struct runner_start s;
	struct err err = {0};
	char id[ID_LEN];

	CHECK(number == 1);
	CHECK(r->ops->default_image(r, NULL, NULL, &layer, &err) == 0);
	CHECK(layer.files > 10 && strlen(layer.id) == 64);
	id_new(id);
	s = lab_api_spec(id);
	s.layer = (const char *[]){layer.id};
	CHECK(r->ops->start(r, &s, &st, &err) == 0);
	CHECK(r->ops->remove(r, id, &err) == 0);
	CHECK(r->ops->layer_remove(r, layer.id, &err) == 0);
	l->sh->done = 1;
	lab_api_wait_term();
}

static void default_image_becomes_a_layer(void **state)
{
	(void)state;
	lab.api = image_api;
	lab_runner_start();
	lab_wait_done();
	assert_int_equal(lab_runner_stop(SIGTERM), 0);
}

/* The first api starts boxes and dies; the second finds them; one more box dies by itself. */
static void restart_api(struct lab_priv *l, int number, int sock)
{
	struct runner *r = lab_api_runner(sock);
	struct runner_list list = {0};
	struct runner_started st;
	struct err err = {0};

	if (number == 1) {
		lab_api_start(r, l->sh->id[0], &st);
		lab_api_start(r, l->sh->id[1], &st);
		raise(SIGKILL);
	}
	CHECK(r->ops->list(r, &list, &err) == 0);
	CHECK(list.nlive == 2 && list_has(&list, l->sh->id[0]) && list_has(&list, l->sh->id[1]));
	kill((pid_t)list.live[0].pid, SIGKILL);
	lab_wait_count(&l->sh->exited, 1);
	runner_list_done(&list);
	CHECK(r->ops->list(r, &list, &err) == 0 && list.nlive == 1);
	CHECK(r->ops->remove(r, l->sh->id[0], &err) == 0);
	CHECK(r->ops->remove(r, l->sh->id[1], &err) == 0);
	l->sh->done = 1;
	lab_api_wait_term();
}

static void boxes_outlive_the_api_process(void **state)
{
	(void)state;
	lab.api = restart_api;
	lab_runner_start();
	lab_wait_done();
	assert_int_equal(lab.sh->apis, 2);
	assert_int_equal(lab_runner_stop(SIGTERM), 0);
}

static void adopt_api(struct lab_priv *l, int number, int sock)
{
	struct runner *r = lab_api_runner(sock);
	struct runner_list list = {0};
	struct runner_started st;
	struct err err = {0};
	char path[108];

	if (number == 1) {
		lab_api_start(r, l->sh->id[0], &st);
		l->sh->done = 1;
		lab_api_wait_term();
	}
	CHECK(r->ops->list(r, &list, &err) == 0 && list.nlive == 1);
	CHECK(r->ops->agent_path(r, l->sh->id[0], path, &err) == 0);
	CHECK(agent_hello(path, clock_mono_ms() + 3000, &err) == 0);
	CHECK(r->ops->remove(r, l->sh->id[0], &err) == 0);
	lab_wait_count(&l->sh->exited, 1);
	l->sh->done = 1;
	lab_api_wait_term();
}

static void boxes_outlive_the_runner(int sig)
{
	int status;

	lab.api = adopt_api;
	lab_runner_start();
	lab_wait_done();
	status = lab_runner_stop(sig);
	assert_int_equal(status, sig == SIGTERM ? 0 : sig);
	lab.sh->done = 0;
	lab_runner_start();
	lab_wait_done();
	assert_int_equal(lab_runner_stop(SIGTERM), 0);
}

static void boxes_outlive_an_orderly_stop(void **state)
{
	(void)state;
	boxes_outlive_the_runner(SIGTERM);
}

static void boxes_outlive_a_killed_runner(void **state)
{
	(void)state;
	boxes_outlive_the_runner(SIGKILL);
}

static void destroy_api(struct lab_priv *l, int number, int sock)
{
	struct runner *r = lab_api_runner(sock);
	struct runner_started st;

	CHECK(number == 1);
	for (int i = 0; i < 3; i++)
		lab_api_start(r, l->sh->id[i], &st);
	l->sh->done = 1;
	lab_api_wait_term();
}

static void on_exit_destroy_leaves_nothing(void **state)
{
	char path[200];

	(void)state;
	lab.cfg.destroy_on_exit = true;
	lab.api = destroy_api;
	lab_runner_start();
	lab_wait_done();
	assert_int_equal(lab_runner_stop(SIGTERM), 0);
	for (int i = 0; i < 3; i++) {
		snprintf(path, sizeof(path), "%s/data/boxes/%s", lab.dir, lab.sh->id[i]);
		assert_int_equal(access(path, F_OK), -1);
	}
}

static void leave_api(struct lab_priv *l, int number, int sock)
{
	struct runner *r = lab_api_runner(sock);
	struct runner_started st;

	if (l->sh->apis == 1) {
		lab_api_start(r, l->sh->id[0], &st);
		l->sh->pid = (int)st.pid;
	}
	CHECK(number <= 2);
	l->sh->done = 1;
	lab_api_wait_term();
}

/* A killed daemon whose data directory was deleted: no successor comes, the next daemon cleans. */
static void dead_instances_are_collected(void **state)
{
	char old_run[128], text[16] = "", path[160], other[96];

	(void)state;
	lab.api = leave_api;
	lab_runner_start();
	lab_wait_done();
	snprintf(path, sizeof(path), "%s/data/instance", lab.dir);
	path_read_at(AT_FDCWD, path, text, sizeof(text), NULL);
	snprintf(old_run, sizeof(old_run), "%s/%s", lab.dir, text);
	lab_runner_stop(SIGKILL);
	assert_int_equal(kill(lab.sh->pid, 0), 0);
	path_remove_tree(AT_FDCWD, lab.data, NULL);
	snprintf(other, sizeof(other), "%s/other", lab.dir);
	assert_int_equal(mkdir(other, 0711), 0);
	lab.cfg.data_dir = other;
	lab.sh->done = 0;
	lab_runner_start();
	lab_wait_done();
	assert_int_equal(access(old_run, F_OK), -1);
	assert_int_equal(lab_runner_stop(SIGTERM), 0);
	snprintf(path, sizeof(path), "/proc/%d/root", lab.sh->pid);
	assert_int_equal(readlink(path, text, sizeof(text)), -1);
}

static void oom_api(struct lab_priv *l, int number, int sock)
{
	const char *argv[] = {"/probe", "memory", NULL};
	struct agent_spawn s = {.argv = argv, .cwd = "/", .user = ""};
	struct agent_proc p = AGENT_PROC_INIT;
	struct runner *r = lab_api_runner(sock);
	struct runner_started st;
	struct err err = {0};
	char path[108], id[ID_LEN];

	CHECK(number == 1);
	lab_api_start(r, id, &st);
	CHECK(r->ops->agent_path(r, id, path, &err) == 0);
	CHECK(agent_spawn(path, &s, &p, clock_mono_ms() + 5000, &err) == 0);
	lab_wait_count(&l->sh->ooms, 1);
	agent_proc_done(&p);
	CHECK(r->ops->remove(r, id, &err) == 0);
	l->sh->done = 1;
	lab_api_wait_term();
}

static void a53_oom_is_an_event_with_limit_peak_and_victim(void **state)
{
	(void)state;
	lab.api = oom_api;
	lab_runner_start();
	lab_wait_done();
	assert_int_equal(lab_runner_stop(SIGTERM), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		PRIV_TEST(verbs_work_and_a_stop_leaves_nothing),
		PRIV_TEST(default_image_becomes_a_layer),
		PRIV_TEST(boxes_outlive_the_api_process),
		PRIV_TEST(boxes_outlive_an_orderly_stop),
		PRIV_TEST(boxes_outlive_a_killed_runner),
		PRIV_TEST(on_exit_destroy_leaves_nothing),
		PRIV_TEST(dead_instances_are_collected),
		PRIV_TEST(a53_oom_is_an_event_with_limit_peak_and_victim),
	};

	bh_enter();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
