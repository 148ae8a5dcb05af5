/*
 * runner_fake.c - see runner_fake.h.
 */
#include "runner/runner_fake.h"

#include <pthread.h>
#include <string.h>

#define FAKE_LIMIT (1ull << 30)

struct fake_box {
	char id[ID_LEN];
	uint32_t pid;
	uint64_t kills;
	bool live;
};

struct fake {
	pthread_mutex_t lock; /* guards everything */
	struct fake_box *box;
	size_t n, cap;
	uint32_t next_pid;
	int fail[FAKE_CALLS];
	enum err_code code[FAKE_CALLS];
	unsigned delay[FAKE_CALLS], count[FAKE_CALLS];
	uint64_t disk_free;
	char agent_dir[108], agent_one[108];
	struct runner_events ev;
	struct runner_start last;
};

struct fake_runner {
	struct runner base;
	struct fake *f;
};

static struct fake *fake_of(struct runner *r)
{
	return ((struct fake_runner *)r)->f;
}

static int fake_call(struct fake *f, enum fake_call call, struct err *err)
{
	unsigned delay;
	bool fails;
	enum err_code code;

	pthread_mutex_lock(&f->lock);
	f->count[call]++;
	delay = f->delay[call];
	fails = f->fail[call] != 0;
	code = f->code[call];
	if (f->fail[call] > 0)
		f->fail[call]--;
	pthread_mutex_unlock(&f->lock);
	if (delay)
		usleep(delay * 1000);
	return fails ? err_set(err, code, "the fake was told to fail") : 0;
}

static struct fake_box *box_find(struct fake *f, const char *id)
{
	for (size_t i = 0; i < f->n; i++)
		if (strcmp(f->box[i].id, id) == 0)
			return &f->box[i];
	return NULL;
}

static struct fake_box *box_add(struct fake *f, const char *id)
{
	struct fake_box *b = box_find(f, id);

	if (b)
		return b;
	if (f->n == f->cap) {
		f->cap = f->cap * 2 + 64;
		f->box = realloc(f->box, f->cap * sizeof(*f->box));
		if (!f->box)
			abort();
	}
	b = &f->box[f->n++];
	memset(b, 0, sizeof(*b));
	snprintf(b->id, sizeof(b->id), "%s", id);
	return b;
}

static int box_start_locked(struct fake *f, const struct runner_start *s,
			    struct runner_started *ret, struct err *err)
{
	struct fake_box *b = box_find(f, s->id);

	if (b && b->live)
		return err_set(err, ERR_CONFLICT, "box %s lives", s->id);
	if (!s->fresh && !b)
		return err_set(err, ERR_NOT_FOUND, "box %s has no upper", s->id);
	if (s->fresh && b)
		return err_set(err, ERR_CONFLICT, "box %s has an upper", s->id);
	b = box_add(f, s->id);
	b->live = true;
	b->pid = ++f->next_pid;
	b->kills = 0;
	f->last = *s;
	memset(ret, 0, sizeof(*ret));
	ret->pid = b->pid;
	snprintf(ret->ip4, sizeof(ret->ip4), "10.0.0.%u", b->pid % 250 + 1);
	snprintf(ret->ip6, sizeof(ret->ip6), "fd00::%x", b->pid);
	return 0;
}

static int op_start(struct runner *r, const struct runner_start *s, struct runner_started *ret,
		    struct err *err)
{
	struct fake *f = fake_of(r);
	int rc;

	if (fake_call(f, FAKE_START, err) < 0)
		return -1;
	pthread_mutex_lock(&f->lock);
	rc = box_start_locked(f, s, ret, err);
	pthread_mutex_unlock(&f->lock);
	return rc;
}

static int op_kill(struct runner *r, const char *id, struct err *err)
{
	struct fake *f = fake_of(r);
	struct fake_box *b;

	if (fake_call(f, FAKE_KILL, err) < 0)
		return -1;
	pthread_mutex_lock(&f->lock);
	b = box_find(f, id);
	if (b)
		b->live = false;
	pthread_mutex_unlock(&f->lock);
	return 0;
}

static int op_remove(struct runner *r, const char *id, struct err *err)
{
	struct fake *f = fake_of(r);
	struct fake_box *b;

	if (fake_call(f, FAKE_REMOVE, err) < 0)
		return -1;
	pthread_mutex_lock(&f->lock);
	b = box_find(f, id);
	if (b)
		*b = f->box[--f->n];
	pthread_mutex_unlock(&f->lock);
	return 0;
}

static int op_stats(struct runner *r, const char *id, struct runner_stats *ret, struct err *err)
{
	struct fake *f = fake_of(r);
	struct fake_box *b;
	int rc = 0;

	if (fake_call(f, FAKE_STATS, err) < 0)
		return -1;
	pthread_mutex_lock(&f->lock);
	b = box_find(f, id);
	if (b && b->live)
		*ret = (struct runner_stats){.mem_limit = FAKE_LIMIT,
					     .mem_peak = FAKE_LIMIT - 4096,
					     .oom_kills = b->kills,
					     .cpu_milli = 1000};
	else
		rc = err_set(err, ERR_NOT_FOUND, "box %s is not there", id);
	pthread_mutex_unlock(&f->lock);
	return rc;
}

static int op_list(struct runner *r, struct runner_list *ret, struct err *err)
{
	struct fake *f = fake_of(r);

	if (fake_call(f, FAKE_LIST, err) < 0)
		return -1;
	memset(ret, 0, sizeof(*ret));
	pthread_mutex_lock(&f->lock);
	ret->live = calloc(f->n + 1, sizeof(*ret->live));
	ret->upper = calloc(f->n + 1, sizeof(*ret->upper));
	if (!ret->live || !ret->upper)
		abort();
	for (size_t i = 0; i < f->n; i++) {
		memcpy(ret->upper[ret->nuppers++], f->box[i].id, ID_LEN);
		if (!f->box[i].live)
			continue;
		memcpy(ret->live[ret->nlive].id, f->box[i].id, ID_LEN);
		ret->live[ret->nlive++].pid = f->box[i].pid;
	}
	pthread_mutex_unlock(&f->lock);
	return 0;
}

static int op_net(struct runner *r, const char *id, uint32_t flags, struct err *err)
{
	(void)r;
	(void)id;
	(void)flags;
	(void)err;
	return 0;
}

static void layer_fill(struct runner_layer *ret, char digit)
{
	memset(ret, 0, sizeof(*ret));
	memset(ret->id, digit, PRIV_LAYER_ID_LEN - 1);
	ret->bytes = 1000;
	ret->files = 10;
}

static int op_import(struct runner *r, int tar_fd, uint64_t max_bytes, runner_progress_fn progress,
		     void *arg, struct runner_layer *ret, struct err *err)
{
	(void)tar_fd;
	(void)max_bytes;
	if (fake_call(fake_of(r), FAKE_IMPORT, err) < 0)
		return -1;
	if (progress)
		progress(arg, 500, 5);
	layer_fill(ret, 'b');
	return 0;
}

static int op_default(struct runner *r, runner_progress_fn progress, void *arg,
		      struct runner_layer *ret, struct err *err)
{
	if (fake_call(fake_of(r), FAKE_DEFAULT, err) < 0)
		return -1;
	if (progress)
		progress(arg, 500, 5);
	layer_fill(ret, 'a');
	return 0;
}

static int op_layer_remove(struct runner *r, const char *layer, struct err *err)
{
	(void)layer;
	return fake_call(fake_of(r), FAKE_LAYER_REMOVE, err);
}

static int op_host(struct runner *r, struct runner_host *ret, struct err *err)
{
	struct fake *f = fake_of(r);

	if (fake_call(f, FAKE_HOST, err) < 0)
		return -1;
	*ret = (struct runner_host){.disk_total = 100ull << 30,
				    .disk_free = f->disk_free,
				    .mem_total = 16ull << 30,
				    .cpus = 2,
				    .live = fake_live(f)};
	return 0;
}

static int op_agent_path(struct runner *r, const char *id, char out[108], struct err *err)
{
	struct fake *f = fake_of(r);
	int n;

	if (f->agent_one[0])
		n = snprintf(out, 108, "%s", f->agent_one);
	else
		n = snprintf(out, 108, "%s/%.12s.sock", f->agent_dir, id);
	return n < 0 || n >= 108 ? err_set(err, ERR_INTERNAL, "path is too long") : 0;
}

static void op_free(struct runner *r)
{
	free(r);
}

static const struct runner_ops fake_ops = {
	.start = op_start,
	.kill = op_kill,
	.remove = op_remove,
	.stats = op_stats,
	.list = op_list,
	.net = op_net,
	.import = op_import,
	.default_image = op_default,
	.layer_remove = op_layer_remove,
	.host = op_host,
	.agent_path = op_agent_path,
	.free = op_free,
};

/* ---- for the test ---- */

struct fake *fake_new(void)
{
	struct fake *f = calloc(1, sizeof(*f));

	if (!f)
		abort();
	pthread_mutex_init(&f->lock, NULL);
	f->disk_free = 50ull << 30;
	f->next_pid = 100;
	return f;
}

void fake_free(struct fake *f)
{
	pthread_mutex_destroy(&f->lock);
	free(f->box);
	free(f);
}

struct runner *fake_runner(struct fake *f)
{
	struct fake_runner *r = calloc(1, sizeof(*r));

	if (!r)
		abort();
	r->base.ops = &fake_ops;
	r->f = f;
	return &r->base;
}

void fake_events(struct fake *f, const struct runner_events *ev)
{
	f->ev = *ev;
}

void fake_fail(struct fake *f, enum fake_call call, int n, enum err_code code)
{
	pthread_mutex_lock(&f->lock);
	f->fail[call] = n;
	f->code[call] = code;
	pthread_mutex_unlock(&f->lock);
}

void fake_delay(struct fake *f, enum fake_call call, unsigned delay_ms)
{
	pthread_mutex_lock(&f->lock);
	f->delay[call] = delay_ms;
	pthread_mutex_unlock(&f->lock);
}

unsigned fake_count(struct fake *f, enum fake_call call)
{
	unsigned n;

	pthread_mutex_lock(&f->lock);
	n = f->count[call];
	pthread_mutex_unlock(&f->lock);
	return n;
}

void fake_host(struct fake *f, uint64_t disk_free)
{
	f->disk_free = disk_free;
}

void fake_agent_dir(struct fake *f, const char *dir)
{
	snprintf(f->agent_dir, sizeof(f->agent_dir), "%s", dir);
}

void fake_agent_one(struct fake *f, const char *path)
{
	snprintf(f->agent_one, sizeof(f->agent_one), "%s", path);
}

unsigned fake_live(struct fake *f)
{
	unsigned n = 0;

	pthread_mutex_lock(&f->lock);
	for (size_t i = 0; i < f->n; i++)
		n += f->box[i].live;
	pthread_mutex_unlock(&f->lock);
	return n;
}

unsigned fake_uppers(struct fake *f)
{
	unsigned n;

	pthread_mutex_lock(&f->lock);
	n = (unsigned)f->n;
	pthread_mutex_unlock(&f->lock);
	return n;
}

bool fake_is_live(struct fake *f, const char *id)
{
	struct fake_box *b;
	bool live;

	pthread_mutex_lock(&f->lock);
	b = box_find(f, id);
	live = b && b->live;
	pthread_mutex_unlock(&f->lock);
	return live;
}

void fake_last_start(struct fake *f, struct runner_start *ret)
{
	pthread_mutex_lock(&f->lock);
	*ret = f->last;
	pthread_mutex_unlock(&f->lock);
	ret->id = ret->hostname = NULL;
	ret->layer = NULL;
}

void fake_exit(struct fake *f, const char *id)
{
	struct fake_box *b;
	uint32_t pid = 0;

	pthread_mutex_lock(&f->lock);
	b = box_find(f, id);
	if (b) {
		b->live = false;
		pid = b->pid;
	}
	pthread_mutex_unlock(&f->lock);
	if (f->ev.exited)
		f->ev.exited(f->ev.arg, id, pid);
}

void fake_stray(struct fake *f, const char *id, bool live)
{
	struct fake_box *b;

	pthread_mutex_lock(&f->lock);
	b = box_add(f, id);
	b->live = live;
	b->pid = ++f->next_pid;
	pthread_mutex_unlock(&f->lock);
}

void fake_oom(struct fake *f, const char *id, const char *comm, bool event)
{
	struct fake_box *b;
	uint64_t kills = 0;
	uint32_t pid = 0;

	pthread_mutex_lock(&f->lock);
	b = box_find(f, id);
	if (b) {
		kills = ++b->kills;
		pid = b->pid;
	}
	pthread_mutex_unlock(&f->lock);
	if (event && f->ev.oom)
		f->ev.oom(f->ev.arg, id, pid, comm, FAKE_LIMIT, FAKE_LIMIT - 4096, kills);
}
