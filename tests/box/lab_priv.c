/*
 * lab_priv.c - see lab_priv.h.
 */
#include "lab_priv.h"

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

struct lab_priv lab;

#define TEST_MS 30000

static pid_t lab_spawn_api(void *arg, int sock, struct err *err)
{
	struct lab_priv *l = arg;
	int number = ++l->sh->apis;
	sigset_t none;
	pid_t pid = fork();

	(void)err;
	if (pid == 0) {
		int own = dup(sock);

		prctl(PR_SET_PDEATHSIG, SIGKILL); /* scenarios that kill the runner */
		sys_close_range(3, (unsigned)own - 1, 0);
		sigemptyset(&none);
		sigprocmask(SIG_SETMASK, &none, NULL);
		l->api(l, number, own);
		_exit(0);
	}
	return pid;
}

void lab_runner_start(void)
{
	lab.runner = fork();
	if (lab.runner == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		log_setup("runner", getenv("TEST_LOG") ? LOG_DEBUG : LOG_ERROR, false);
		_exit(priv_main(&lab.cfg));
	}
}

int lab_runner_stop(int sig)
{
	int status = 0;

	kill(lab.runner, sig);
	assert_int_equal(waitpid(lab.runner, &status, 0), lab.runner);
	lab.runner = 0;
	return status;
}

void lab_wait_done(void)
{
	int64_t end = clock_mono_ms() + TEST_MS;

	while (!lab.sh->done && clock_mono_ms() < end)
		poll(NULL, 0, 5);
	if (lab.sh->failed)
		fail_msg("api process, line %d: %s", lab.sh->failed, lab.sh->note);
	assert_true(lab.sh->done);
}

int lab_priv_open(void **state)
{
	char path[96];
	struct bh fake = {.dir = ""};

	(void)state;
	memset(&lab, 0, sizeof(lab));
	snprintf(lab.dir, sizeof(lab.dir), "/tmp/caisson-priv-XXXXXX");
	assert_non_null(mkdtemp(lab.dir));
	chmod(lab.dir, 0711);
	lab.sh = mmap(NULL, sizeof(*lab.sh), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	snprintf(lab.data, sizeof(lab.data), "%s/data", lab.dir);
	snprintf(lab.cache, sizeof(lab.cache), "%s/cache", lab.dir);
	assert_int_equal(mkdir(lab.data, 0711), 0);
	assert_int_equal(mkdir(lab.cache, 0711), 0);
	snprintf(path, sizeof(path), "%s/cache/layers", lab.dir);
	assert_int_equal(mkdir(path, 0700), 0);
	memcpy(fake.layers, path, strlen(path) + 1);
	bh_layer(&fake, 1, true);
	lab.cfg = (struct priv_config){.data_dir = lab.data,
				       .run_root = lab.dir,
				       .cache_dir = lab.cache,
				       .default_image = TEST_TOP "/build/image/busybox.tar",
				       .init_path = TEST_BUILD "/caisson-init",
				       .net_pool = 2,
				       .upper_pool = 2,
				       .spawn_api = lab_spawn_api,
				       .arg = &lab};
	return 0;
}

/* After a failed test a runner may still be there, and boxes of its instance. */
int lab_priv_close(void **state)
{
	char path[160], instance[16] = "";

	(void)state;
	if (lab.runner > 0 && kill(lab.runner, SIGKILL) == 0)
		waitpid(lab.runner, NULL, 0);
	snprintf(path, sizeof(path), "%s/data/instance", lab.dir);
	if (path_read_at(AT_FDCWD, path, instance, sizeof(instance), NULL) == 8 && lab.sh->failed) {
		bh_wipe_at_exit(instance, lab.dir);
		return 0;
	}
	path_remove_tree(AT_FDCWD, lab.dir, NULL);
	munmap(lab.sh, sizeof(*lab.sh));
	return 0;
}

static void ev_exited(void *arg, const char *id, uint32_t pid)
{
	(void)arg;
	(void)id;
	(void)pid;
	__atomic_add_fetch(&lab.sh->exited, 1, __ATOMIC_SEQ_CST);
}

static void ev_oom(void *arg, const char *id, uint32_t pid, const char *comm, uint64_t limit,
		   uint64_t peak, uint64_t kills)
{
	(void)arg;
	(void)id;
	(void)pid;
	if (strcmp(comm, "probe") == 0 && limit == 64 << 20 && peak > 32 << 20 && kills == 1)
		__atomic_add_fetch(&lab.sh->ooms, 1, __ATOMIC_SEQ_CST);
}

struct runner *lab_api_runner(int sock)
{
	struct runner_events ev = {.exited = ev_exited, .oom = ev_oom};
	struct err err = {0};
	struct runner *r = runner_priv_open(sock, &ev, &err);

	CHECK(r != NULL);
	return r;
}

struct runner_start lab_api_spec(const char *id)
{
	static const char *layer[1];

	layer[0] = bh_layer_id(1);
	return (struct runner_start){.id = id,
				     .fresh = true,
				     .layer = layer,
				     .nlayers = 1,
				     .mem_bytes = 64 << 20,
				     .disk_bytes = 1 << 30,
				     .cpu_milli = 1000,
				     .pids_max = 64,
				     .nofile = 256,
				     .hostname = "box"};
}

void lab_api_start(struct runner *r, char id[ID_LEN], struct runner_started *ret)
{
	struct err err = {0};
	struct runner_start s;

	id_new(id);
	s = lab_api_spec(id);
	if (r->ops->start(r, &s, ret, &err) < 0) {
		snprintf(lab.sh->note, sizeof(lab.sh->note), "%.200s", err.msg);
		CHECK(!"start");
	}
}

void lab_wait_count(const int *n, int want)
{
	int64_t end = clock_mono_ms() + 5000;

	while (__atomic_load_n(n, __ATOMIC_SEQ_CST) < want && clock_mono_ms() < end)
		poll(NULL, 0, 2);
	CHECK(__atomic_load_n(n, __ATOMIC_SEQ_CST) >= want);
}

void lab_api_wait_term(void)
{
	for (;;)
		pause();
}

int lab_runner_ends(void)
{
	int status = 0;

	lab_runner_start();
	assert_int_equal(waitpid(lab.runner, &status, 0), lab.runner);
	lab.runner = 0;
	return status;
}
