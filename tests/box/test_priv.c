/*
 * test_priv.c - the runner process as its api process sees it: verbs, events, restarts, and what
 * happens to an api that breaks the protocol. The "api" is a function of the test in a fork.
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

#define TEST_MS 30000

/* One scenario: what each api process does, by its number. 0: scenario goes on with the next. */
struct shared {
	int apis;   /* how many were started */
	int done;   /* the scenario is through */
	int failed; /* line of the first failed check */
	char note[256];
	char id[4][ID_LEN];
	int exited, ooms, pid;
};

struct lab_priv {
	char dir[64];
	struct shared *sh;
	void (*api)(struct lab_priv *l, int number, int sock);
	pid_t runner;
	struct priv_config cfg;
	char data[96], cache[96];
};

static struct lab_priv lab;

/* Checks in the api's process: cmocka's would jump into the runner's copy of the test. */
#define CHECK(cond)                                                                                \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			lab.sh->failed = __LINE__;                                                 \
			snprintf(lab.sh->note, sizeof(lab.sh->note), "%s", #cond);                 \
			lab.sh->done = 1;                                                          \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)

static pid_t spawn_api(void *arg, int sock, struct err *err)
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

static void runner_start(void)
{
	lab.runner = fork();
	if (lab.runner == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		log_setup("runner", getenv("TEST_LOG") ? LOG_DEBUG : LOG_ERROR, false);
		_exit(priv_main(&lab.cfg));
	}
}

static int runner_stop(int sig)
{
	int status = 0;

	kill(lab.runner, sig);
	assert_int_equal(waitpid(lab.runner, &status, 0), lab.runner);
	lab.runner = 0;
	return status;
}

static void wait_done(void)
{
	int64_t end = clock_mono_ms() + TEST_MS;

	while (!lab.sh->done && clock_mono_ms() < end)
		poll(NULL, 0, 5);
	if (lab.sh->failed)
		fail_msg("api process, line %d: %s", lab.sh->failed, lab.sh->note);
	assert_true(lab.sh->done);
}

static int lab_open(void **state)
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
				       .spawn_api = spawn_api,
				       .arg = &lab};
	return 0;
}

/* After a failed test a runner may still be there, and boxes of its instance. */
static int lab_close(void **state)
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

/* ---- helpers of the api's side ---- */

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

static struct runner *api_runner(int sock)
{
	struct runner_events ev = {.exited = ev_exited, .oom = ev_oom};
	struct err err = {0};
	struct runner *r = runner_priv_open(sock, &ev, &err);

	CHECK(r != NULL);
	return r;
}

static struct runner_start api_spec(const char *id)
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

static void api_start(struct runner *r, char id[ID_LEN], struct runner_started *ret)
{
	struct err err = {0};
	struct runner_start s;

	id_new(id);
	s = api_spec(id);
	if (r->ops->start(r, &s, ret, &err) < 0) {
		snprintf(lab.sh->note, sizeof(lab.sh->note), "%.200s", err.msg);
		CHECK(!"start");
	}
}

static void wait_count(const int *n, int want)
{
	int64_t end = clock_mono_ms() + 5000;

	while (__atomic_load_n(n, __ATOMIC_SEQ_CST) < want && clock_mono_ms() < end)
		poll(NULL, 0, 2);
	CHECK(__atomic_load_n(n, __ATOMIC_SEQ_CST) >= want);
}

static void api_wait_term(void)
{
	for (;;)
		pause();
}

/* ---- scenarios ---- */

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
	struct runner *r = api_runner(sock);
	struct runner_started st;
	struct runner_stats stats;
	struct runner_host host;
	struct runner_list list = {0};
	struct runner_start again;
	struct err err = {0};
	char path[108], id[ID_LEN];

	CHECK(number == 1);
	api_start(r, id, &st);
	CHECK(st.pid > 1 && st.ip4[0] && st.ip6[0] && st.total_us > 0);
	again = api_spec(id);
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
	wait_count(&l->sh->exited, 1);
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
	api_wait_term();
}

static void verbs_work_and_a_stop_leaves_nothing(void **state)
{
	char path[200];

	(void)state;
	lab.api = verbs_api;
	runner_start();
	wait_done();
	assert_int_equal(runner_stop(SIGTERM), 0);
	snprintf(path, sizeof(path), "%s/data/trash", lab.dir);
	assert_int_equal(rmdir(path), 0);
}

static void image_api(struct lab_priv *l, int number, int sock)
{
	struct runner *r = api_runner(sock);
	struct runner_layer layer;
	struct runner_started st;
	struct runner_start s;
	struct err err = {0};
	char id[ID_LEN];

	CHECK(number == 1);
	CHECK(r->ops->default_image(r, NULL, NULL, &layer, &err) == 0);
	CHECK(layer.files > 10 && strlen(layer.id) == 64);
	id_new(id);
	s = api_spec(id);
	s.layer = (const char *[]){layer.id};
	CHECK(r->ops->start(r, &s, &st, &err) == 0);
	CHECK(r->ops->remove(r, id, &err) == 0);
	CHECK(r->ops->layer_remove(r, layer.id, &err) == 0);
	l->sh->done = 1;
	api_wait_term();
}

static void default_image_becomes_a_layer(void **state)
{
	(void)state;
	lab.api = image_api;
	runner_start();
	wait_done();
	assert_int_equal(runner_stop(SIGTERM), 0);
}

/* The first api starts boxes and dies; the second finds them; one more box dies by itself. */
static void restart_api(struct lab_priv *l, int number, int sock)
{
	struct runner *r = api_runner(sock);
	struct runner_list list = {0};
	struct runner_started st;
	struct err err = {0};

	if (number == 1) {
		api_start(r, l->sh->id[0], &st);
		api_start(r, l->sh->id[1], &st);
		raise(SIGKILL);
	}
	CHECK(r->ops->list(r, &list, &err) == 0);
	CHECK(list.nlive == 2 && list_has(&list, l->sh->id[0]) && list_has(&list, l->sh->id[1]));
	kill((pid_t)list.live[0].pid, SIGKILL);
	wait_count(&l->sh->exited, 1);
	runner_list_done(&list);
	CHECK(r->ops->list(r, &list, &err) == 0 && list.nlive == 1);
	CHECK(r->ops->remove(r, l->sh->id[0], &err) == 0);
	CHECK(r->ops->remove(r, l->sh->id[1], &err) == 0);
	l->sh->done = 1;
	api_wait_term();
}

static void boxes_outlive_the_api_process(void **state)
{
	(void)state;
	lab.api = restart_api;
	runner_start();
	wait_done();
	assert_int_equal(lab.sh->apis, 2);
	assert_int_equal(runner_stop(SIGTERM), 0);
}

static void adopt_api(struct lab_priv *l, int number, int sock)
{
	struct runner *r = api_runner(sock);
	struct runner_list list = {0};
	struct runner_started st;
	struct err err = {0};
	char path[108];

	if (number == 1) {
		api_start(r, l->sh->id[0], &st);
		l->sh->done = 1;
		api_wait_term();
	}
	CHECK(r->ops->list(r, &list, &err) == 0 && list.nlive == 1);
	CHECK(r->ops->agent_path(r, l->sh->id[0], path, &err) == 0);
	CHECK(agent_hello(path, clock_mono_ms() + 3000, &err) == 0);
	CHECK(r->ops->remove(r, l->sh->id[0], &err) == 0);
	wait_count(&l->sh->exited, 1);
	l->sh->done = 1;
	api_wait_term();
}

static void boxes_outlive_the_runner(int sig)
{
	int status;

	lab.api = adopt_api;
	runner_start();
	wait_done();
	status = runner_stop(sig);
	assert_int_equal(status, sig == SIGTERM ? 0 : sig);
	lab.sh->done = 0;
	runner_start();
	wait_done();
	assert_int_equal(runner_stop(SIGTERM), 0);
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
	struct runner *r = api_runner(sock);
	struct runner_started st;

	CHECK(number == 1);
	for (int i = 0; i < 3; i++)
		api_start(r, l->sh->id[i], &st);
	l->sh->done = 1;
	api_wait_term();
}

static void on_exit_destroy_leaves_nothing(void **state)
{
	char path[200];

	(void)state;
	lab.cfg.destroy_on_exit = true;
	lab.api = destroy_api;
	runner_start();
	wait_done();
	assert_int_equal(runner_stop(SIGTERM), 0);
	for (int i = 0; i < 3; i++) {
		snprintf(path, sizeof(path), "%s/data/boxes/%s", lab.dir, lab.sh->id[i]);
		assert_int_equal(access(path, F_OK), -1);
	}
}

static void leave_api(struct lab_priv *l, int number, int sock)
{
	struct runner *r = api_runner(sock);
	struct runner_started st;

	if (l->sh->apis == 1) {
		api_start(r, l->sh->id[0], &st);
		l->sh->pid = (int)st.pid;
	}
	CHECK(number <= 2);
	l->sh->done = 1;
	api_wait_term();
}

/* A killed daemon whose data directory was deleted: no successor comes, the next daemon cleans. */
static void dead_instances_are_collected(void **state)
{
	char old_run[128], text[16] = "", path[160], other[96];

	(void)state;
	lab.api = leave_api;
	runner_start();
	wait_done();
	snprintf(path, sizeof(path), "%s/data/instance", lab.dir);
	path_read_at(AT_FDCWD, path, text, sizeof(text), NULL);
	snprintf(old_run, sizeof(old_run), "%s/%s", lab.dir, text);
	runner_stop(SIGKILL);
	assert_int_equal(kill(lab.sh->pid, 0), 0);
	path_remove_tree(AT_FDCWD, lab.data, NULL);
	snprintf(other, sizeof(other), "%s/other", lab.dir);
	assert_int_equal(mkdir(other, 0711), 0);
	lab.cfg.data_dir = other;
	lab.sh->done = 0;
	runner_start();
	wait_done();
	assert_int_equal(access(old_run, F_OK), -1);
	assert_int_equal(runner_stop(SIGTERM), 0);
	snprintf(path, sizeof(path), "/proc/%d/root", lab.sh->pid);
	assert_int_equal(readlink(path, text, sizeof(text)), -1);
}

static void oom_api(struct lab_priv *l, int number, int sock)
{
	const char *argv[] = {"/probe", "memory", NULL};
	struct agent_spawn s = {.argv = argv, .cwd = "/", .user = ""};
	struct agent_proc p = AGENT_PROC_INIT;
	struct runner *r = api_runner(sock);
	struct runner_started st;
	struct err err = {0};
	char path[108], id[ID_LEN];

	CHECK(number == 1);
	api_start(r, id, &st);
	CHECK(r->ops->agent_path(r, id, path, &err) == 0);
	CHECK(agent_spawn(path, &s, &p, clock_mono_ms() + 5000, &err) == 0);
	wait_count(&l->sh->ooms, 1);
	agent_proc_done(&p);
	CHECK(r->ops->remove(r, id, &err) == 0);
	l->sh->done = 1;
	api_wait_term();
}

static void a53_oom_is_an_event_with_limit_peak_and_victim(void **state)
{
	(void)state;
	lab.api = oom_api;
	runner_start();
	wait_done();
	assert_int_equal(runner_stop(SIGTERM), 0);
}

/* ---- an api that was taken over ---- */

struct bad_message {
	const char *why;
	size_t (*make)(struct wire_out *o);
};

static void head(struct wire_out *o, uint16_t verb)
{
	wire_put_u32(o, 9);
	wire_put_u16(o, verb);
	wire_put_str(o, "req");
}

static size_t bad_verb(struct wire_out *o)
{
	head(o, 77);
	return o->len;
}

static size_t bad_reply_verb(struct wire_out *o)
{
	head(o, PRIV_EV_EXITED);
	return o->len;
}

static size_t bad_short(struct wire_out *o)
{
	head(o, PRIV_KILL);
	return o->len;
}

static size_t bad_long(struct wire_out *o)
{
	head(o, PRIV_HOST);
	wire_put_u8(o, 0);
	return o->len;
}

static size_t bad_id(struct wire_out *o)
{
	head(o, PRIV_DELETE);
	wire_put_str(o, "../../etc");
	return o->len;
}

static size_t bad_layer(struct wire_out *o)
{
	head(o, PRIV_LAYER_RM);
	wire_put_str(o, "..");
	return o->len;
}

static size_t bad_start(struct wire_out *o)
{
	const char *layer[] = {"../../../etc"};

	head(o, PRIV_START);
	wire_put_str(o, "11111111-1111-4111-8111-111111111111");
	wire_put_u8(o, 1);
	wire_put_strv(o, layer, 1);
	wire_put_u64(o, 64 << 20);
	wire_put_u32(o, 1000);
	wire_put_u32(o, 64);
	wire_put_u32(o, 256);
	wire_put_u64(o, 0);
	wire_put_u32(o, 0);
	wire_put_str(o, "box");
	return o->len;
}

static size_t bad_import(struct wire_out *o)
{
	head(o, PRIV_IMPORT); /* without its descriptor */
	wire_put_u64(o, 1);
	return o->len;
}

static size_t bad_seq(struct wire_out *o)
{
	wire_put_u32(o, 0);
	wire_put_u16(o, PRIV_HOST);
	wire_put_str(o, "");
	return o->len;
}

static const struct bad_message bad_messages[] = {
	{"unknown verb", bad_verb},
	{"a reply's verb", bad_reply_verb},
	{"short", bad_short},
	{"left-over byte", bad_long},
	{"path as id", bad_id},
	{"path as layer", bad_layer},
	{"path as layer of a start", bad_start},
	{"no descriptor", bad_import},
	{"sequence 0", bad_seq},
};

static void messages_that_break_the_protocol_are_refused(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad_messages); i++) {
		uint8_t buf[1024];
		struct wire_out o = wire_out_on(buf, sizeof(buf));
		size_t n = bad_messages[i].make(&o);

		if (decode_message(buf, n, -1))
			fail_msg("taken: %s", bad_messages[i].why);
		for (size_t cut = 0; cut + 1 < n; cut++)
			assert_null(decode_message(buf, cut, -1));
	}
}

#define EVIL_LIVES 2 /* a restart pauses longer each time, so not all of them live */

static void evil_api(struct lab_priv *l, int number, int sock)
{
	uint8_t buf[1024];
	struct wire_out o = wire_out_on(buf, sizeof(buf));
	size_t n;

	if (number > EVIL_LIVES) {
		l->sh->done = 1;
		api_wait_term();
	}
	n = bad_messages[number - 1].make(&o);
	CHECK(send(sock, buf, n, 0) == (ssize_t)n);
	poll(NULL, 0, 10000);
	CHECK(!"this api process still lives");
}

static void api_that_breaks_the_protocol_is_killed(void **state)
{
	(void)state;
	lab.api = evil_api;
	runner_start();
	wait_done();
	assert_int_equal(lab.sh->apis, EVIL_LIVES + 1);
	assert_int_equal(runner_stop(SIGTERM), 0);
}

static int runner_ends(void)
{
	int status = 0;

	runner_start();
	assert_int_equal(waitpid(lab.runner, &status, 0), lab.runner);
	lab.runner = 0;
	return status;
}

/* What an api process says on its way out when it can't open the records. */
static void sick_api(struct lab_priv *l, int number, int sock)
{
	(void)l;
	(void)number;
	runner_priv_ready(sock, "open the records: damaged");
}

static void api_that_never_starts_ends_the_runner(void **state)
{
	int status;

	(void)state;
	lab.api = sick_api;
	status = runner_ends();
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 1);
	assert_int_equal(lab.sh->apis, PRIV_API_TRIES);
}

/* However often: what served before it ended is started again. */
static void short_lived_api(struct lab_priv *l, int number, int sock)
{
	runner_priv_ready(sock, "");
	if (number <= PRIV_API_TRIES)
		return;
	l->sh->done = 1;
	api_wait_term();
}

static void api_that_served_is_started_again_each_time(void **state)
{
	(void)state;
	lab.api = short_lived_api;
	runner_start();
	wait_done();
	assert_int_equal(lab.sh->apis, PRIV_API_TRIES + 1);
	assert_int_equal(runner_stop(SIGTERM), 0);
}

static void idle_api(struct lab_priv *l, int number, int sock)
{
	(void)number;
	(void)sock;
	l->sh->done = 1;
	api_wait_term();
}

static void second_runner_on_a_data_directory_refuses(void **state)
{
	int status = 0;
	pid_t first;

	(void)state;
	lab.api = idle_api;
	runner_start();
	wait_done();
	first = lab.runner;
	runner_start();
	assert_int_equal(waitpid(lab.runner, &status, 0), lab.runner);
	assert_int_equal(WEXITSTATUS(status), 1);
	lab.runner = first;
	assert_int_equal(runner_stop(SIGTERM), 0);
}

static void other_programs_are_not_taken_for_caisson_init(void **state)
{
	/* Dynamic, static, no ELF, and one that holds the marker without being it. */
	static const char *const other[] = {"/bin/ls", "/bin/busybox", "/etc/passwd",
					    TEST_BUILD "/caissond"};

	(void)state;
	lab.api = idle_api;
	for (size_t i = 0; i < ARRAY_LEN(other); i++) {
		lab.cfg.init_path = other[i];
		assert_int_equal(WEXITSTATUS(runner_ends()), 1);
		assert_int_equal(lab.sh->apis, 0);
	}
}

static void start_that_fails_leaves_no_run_directory(void **state)
{
	char path[160], instance[16] = "";

	(void)state;
	lab.api = idle_api;
	lab.cfg.init_path = "/nonexistent/caisson-init";
	assert_int_equal(WEXITSTATUS(runner_ends()), 1);
	snprintf(path, sizeof(path), "%s/instance", lab.data);
	assert_int_equal(path_read_at(AT_FDCWD, path, instance, sizeof(instance), NULL), 8);
	snprintf(path, sizeof(path), "%s/%s", lab.dir, instance);
	assert_int_equal(access(path, F_OK), -1);
	assert_int_equal(errno, ENOENT);
}

/* Directories of this name in any cgroup hierarchy. */
static size_t cgroups_named(const char *name)
{
	static const char *const above[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/*"};
	char pattern[160];
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_LEN(above); i++) {
		glob_t g = {0};

		snprintf(pattern, sizeof(pattern), "%s/%s", above[i], name);
		if (glob(pattern, 0, NULL, &g) == 0)
			n += g.gl_pathc;
		globfree(&g);
	}
	return n;
}

static void start_that_fails_leaves_no_cgroups(void **state)
{
	char path[160], instance[16] = "", name[40];

	(void)state;
	lab.api = idle_api;
	snprintf(path, sizeof(path), "%s/boxes", lab.data);
	assert_int_equal(path_write_at(AT_FDCWD, path, "no directory", 12, 0600, NULL), 0);
	assert_int_equal(WEXITSTATUS(runner_ends()), 1);
	snprintf(path, sizeof(path), "%s/instance", lab.data);
	assert_int_equal(path_read_at(AT_FDCWD, path, instance, sizeof(instance), NULL), 8);
	snprintf(name, sizeof(name), "caisson-%s", instance);
	assert_int_equal(cgroups_named(name), 0);
	assert_true(cgroups_named("cgroup.procs") > 0);
}

#define PRIV_TEST(fn) cmocka_unit_test_setup_teardown(fn, lab_open, lab_close)

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
		cmocka_unit_test(messages_that_break_the_protocol_are_refused),
		PRIV_TEST(api_that_breaks_the_protocol_is_killed),
		PRIV_TEST(api_that_never_starts_ends_the_runner),
		PRIV_TEST(api_that_served_is_started_again_each_time),
		PRIV_TEST(second_runner_on_a_data_directory_refuses),
		PRIV_TEST(start_that_fails_leaves_no_run_directory),
		PRIV_TEST(start_that_fails_leaves_no_cgroups),
		PRIV_TEST(other_programs_are_not_taken_for_caisson_init),
	};

	bh_enter();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
