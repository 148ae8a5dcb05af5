/*
 * core.c - the core as a whole: open, attach the runner, readiness, end.
 */
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "core/exec.h"

#define OUTPUT_MAX     (64ull << 20)
#define HOST_MAX_AGE   10000
#define CLOSE_MS       20000 /* for operations under way at the end */
#define IMAGER_MS      3000
#define DESTROY_MS     60000 /* for all sandboxes to go, with destroy_on_exit */
#define MAX_CPU	       4
#define MAX_MEMORY_GIB 8
#define MAX_DISK_GIB   10

static char *copy(const char *s, const char *otherwise)
{
	return strdup(s ? s : otherwise);
}

static int core_config_copy(struct core *c, const struct core_config *cfg, struct err *err)
{
	c->cfg = *cfg;
	c->cfg.admin_key = NULL; /* only its hash is kept */
	c->cfg.data_dir = copy(cfg->data_dir, ".");
	c->cfg.region = copy(cfg->region, "local");
	c->cfg.version = copy(cfg->version, "");
	if (!c->cfg.data_dir || !c->cfg.region || !c->cfg.version)
		return err_set(err, ERR_NOMEM, "out of memory");
	if (!c->cfg.output_max)
		c->cfg.output_max = OUTPUT_MAX;
	c->org.max_cpu = cfg->max_cpu ? cfg->max_cpu : MAX_CPU;
	c->org.max_memory_gib = cfg->max_memory_gib ? cfg->max_memory_gib : MAX_MEMORY_GIB;
	c->org.max_disk_gib = cfg->max_disk_gib ? cfg->max_disk_gib : MAX_DISK_GIB;
	return 0;
}

static void core_free(struct core *c)
{
	uploads_done(c);
	pthread_mutex_destroy(&c->uploads_lock);
	store_close(c->st);
	slots_done(&c->slots);
	turns_done(&c->turns);
	pool_done(&c->ops);
	pool_done(&c->reapers);
	cache_done(&c->keys);
	cache_done(&c->origin);
	subs_done(c);
	lsp_servers_done(&c->lsp);
	pthread_mutex_destroy(&c->state_lock);
	pthread_cond_destroy(&c->state_change);
	free((char *)c->cfg.data_dir);
	free((char *)c->cfg.region);
	free((char *)c->cfg.version);
	free(c);
}

static char *records_path(const char *data_dir)
{
	char *path = NULL;

	return asprintf(&path, "%s/api/caisson.db", data_dir) > 0 ? path : NULL;
}

int core_check(const char *data_dir, struct err *err)
{
	auto_free char *path = records_path(data_dir);

	return path ? store_check(path, err) : err_set(err, ERR_NOMEM, "out of memory");
}

struct core *core_open(const struct core_config *cfg, struct err *err)
{
	struct core *c = calloc(1, sizeof(*c));
	auto_free char *path = NULL;

	if (!c) {
		err_set(err, ERR_NOMEM, "out of memory");
		return NULL;
	}
	slots_init(&c->slots);
	turns_init(&c->turns);
	pool_init(&c->ops, CORE_OPS_MAX);
	pool_init(&c->reapers, CORE_REAP_MAX);
	cache_init(&c->keys, sizeof(struct key_row));
	cache_init(&c->origin, sizeof(struct origin));
	subs_init(c);
	warm_init(c);
	pthread_mutex_init(&c->uploads_lock, NULL);
	lsp_servers_init(&c->lsp);
	pthread_mutex_init(&c->state_lock, NULL);
	cond_init_mono(&c->state_change);
	snprintf(c->why, sizeof(c->why), "starting");
	if (core_config_copy(c, cfg, err) == 0 && (path = records_path(c->cfg.data_dir)) != NULL)
		c->st = store_open(path, err);
	if (!c->st || identity_open(c, cfg->admin_key, err) < 0) {
		core_free(c);
		return NULL;
	}
	return c;
}

int core_attach(struct core *c, struct runner *r, struct err *err)
{
	c->run = r;
	if (recover_all(c, err) < 0)
		return -1;
	pthread_mutex_lock(&c->state_lock);
	c->attached = true;
	pthread_mutex_unlock(&c->state_lock);
	if (images_start(c, err) < 0)
		return -1;
	return timers_start(c, err);
}

/* ---- events of the runner ---- */

/* Before the census is taken, events tell nothing that it doesn't. */
static bool core_listens(struct core *c)
{
	bool yes;

	pthread_mutex_lock(&c->state_lock);
	yes = c->attached && !c->stopping;
	pthread_mutex_unlock(&c->state_lock);
	return yes;
}

static void on_exited(void *arg, const char *id, uint32_t pid)
{
	if (core_listens(arg))
		box_exited(arg, id, pid);
}

static void on_oom(void *arg, const char *id, uint32_t pid, const char *comm, uint64_t limit,
		   uint64_t peak, uint64_t kills)
{
	if (core_listens(arg))
		box_oom(arg, id, comm, limit, peak, kills, pid);
}

static void on_lost(void *arg)
{
	(void)arg;
	log_error("the runner is gone");
}

void core_runner_events(struct core *c, struct runner_events *ret)
{
	*ret = (struct runner_events){
		.exited = on_exited, .oom = on_oom, .lost = on_lost, .arg = c};
}

/* ---- readiness, host, limits ---- */

bool core_ready(struct core *c, char *why, size_t cap)
{
	bool ready;

	pthread_mutex_lock(&c->state_lock);
	ready = c->ready && !c->stopping;
	if (!ready)
		snprintf(why, cap, "%s", c->stopping ? "shutting down" : c->why);
	pthread_mutex_unlock(&c->state_lock);
	return ready;
}

int host_now(struct core *c, struct runner_host *ret, struct err *err)
{
	struct runner_host h;
	int64_t now = clock_mono_ms();
	bool fresh;

	pthread_mutex_lock(&c->state_lock);
	fresh = c->host_at_ms && now - c->host_at_ms < HOST_MAX_AGE;
	h = c->host;
	pthread_mutex_unlock(&c->state_lock);
	if (!fresh || !ret) {
		if (c->run->ops->host(c->run, &h, err) < 0)
			return -1;
		pthread_mutex_lock(&c->state_lock);
		c->host = h;
		c->host_at_ms = now;
		pthread_mutex_unlock(&c->state_lock);
	}
	if (ret)
		*ret = h;
	return 0;
}

/* ---- the end ---- */

static void destroy_all(struct core *c)
{
	struct store_brief *row = NULL;
	struct err err = {0};
	size_t n = 0;
	int64_t end = clock_mono_ms() + DESTROY_MS;

	if (store_sandbox_brief(c->st, &row, &n, &err) < 0)
		log_error("end: %s", err.msg);
	for (size_t i = 0; i < n; i++)
		if (delete_mark(c, row[i].id, &err) < 0)
			log_error("delete %s: %s", row[i].id, err.msg);
	do {
		free(row);
		row = NULL;
		if (store_sandbox_brief(c->st, &row, &n, NULL) < 0 || n == 0)
			break;
		usleep(5000);
	} while (clock_mono_ms() < end);
	free(row);
	if (n)
		log_error("end: %zu sandboxes are left; the next start removes them", n);
}

void core_close(struct core *c)
{
	bool quiet;

	if (!c)
		return;
	pthread_mutex_lock(&c->state_lock);
	c->stopping = true;
	pthread_cond_broadcast(&c->state_change);
	pthread_mutex_unlock(&c->state_lock);
	timers_stop(c);
	quiet = lsp_servers_end(&c->lsp, CLOSE_MS);
	if (c->attached && c->cfg.destroy_on_exit)
		destroy_all(c);
	quiet = pool_stop(&c->ops, CLOSE_MS) && quiet;
	quiet = pool_stop(&c->reapers, CLOSE_MS) && quiet;
	slots_flush(c);
	quiet = images_stop(c, IMAGER_MS) && quiet;
	if (!quiet) {
		/* A thread that hangs in the runner still refers to all of this: the process ends
		 * next, and the records are whole at every moment. */
		log_warn("end: an operation hangs; left to recovery");
		return;
	}
	if (c->run)
		c->run->ops->free(c->run);
	core_free(c);
}
