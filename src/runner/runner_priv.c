/*
 * runner_priv.c - the runner behind the privileged protocol: one function a verb.
 */
#include <string.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "base/log.h"
#include "runner/priv_link.h"

static struct runner_priv *priv_of(struct runner *base)
{
	return container_of(base, struct runner_priv, base);
}

static int priv_start(struct runner *base, const struct runner_start *s, struct runner_started *ret,
		      struct err *err)
{
	struct runner_priv *r = priv_of(base);
	struct priv_call c = {0};
	auto_free uint8_t *body = NULL;
	uint8_t msg[8192];
	struct wire_out o = priv_begin(msg, sizeof(msg), &c, r, PRIV_START);
	struct runner_started got = {0};
	struct wire_in in;

	wire_put_str(&o, s->id);
	wire_put_u8(&o, s->fresh);
	wire_put_strv(&o, s->layer, s->nlayers);
	wire_put_u64(&o, s->mem_bytes);
	wire_put_u32(&o, s->cpu_milli);
	wire_put_u32(&o, s->pids_max);
	wire_put_u32(&o, s->nofile);
	wire_put_u64(&o, s->disk_bytes);
	wire_put_u32(&o, s->flags);
	wire_put_str(&o, s->hostname);
	if (priv_finish(r, &c, &o, -1, RUNNER_CALL_MS, err) < 0)
		return -1;
	body = c.body;
	in = wire_in_on(body, c.len);
	got.pid = wire_get_u32(&in);
	wire_get_str(&in, got.ip4, sizeof(got.ip4));
	wire_get_str(&in, got.ip6, sizeof(got.ip6));
	got.total_us = wire_get_u32(&in);
	if (reply_end(&in, err) < 0)
		return -1;
	*ret = got;
	return 0;
}

/* A verb with one string and, if flags is given, one number; the reply is empty. */
static int priv_simple(struct runner *base, uint16_t verb, const char *text, const uint32_t *flags,
		       struct err *err)
{
	struct runner_priv *r = priv_of(base);
	struct priv_call c = {0};
	auto_free uint8_t *body = NULL;
	uint8_t msg[512];
	struct wire_out o = priv_begin(msg, sizeof(msg), &c, r, verb);
	struct wire_in in;

	wire_put_str(&o, text);
	if (flags)
		wire_put_u32(&o, *flags);
	if (priv_finish(r, &c, &o, -1, RUNNER_CALL_MS, err) < 0)
		return -1;
	body = c.body;
	in = wire_in_on(body, c.len);
	return reply_end(&in, err);
}

static int priv_kill(struct runner *base, const char *id, struct err *err)
{
	return priv_simple(base, PRIV_KILL, id, NULL, err);
}

static int priv_remove(struct runner *base, const char *id, struct err *err)
{
	return priv_simple(base, PRIV_DELETE, id, NULL, err);
}

static int priv_net(struct runner *base, const char *id, uint32_t flags, struct err *err)
{
	return priv_simple(base, PRIV_NET, id, &flags, err);
}

static int priv_layer_remove(struct runner *base, const char *layer, struct err *err)
{
	return priv_simple(base, PRIV_LAYER_RM, layer, NULL, err);
}

static int priv_stats(struct runner *base, const char *id, struct runner_stats *ret,
		      struct err *err)
{
	struct runner_priv *r = priv_of(base);
	struct priv_call c = {0};
	auto_free uint8_t *body = NULL;
	uint8_t msg[512];
	struct wire_out o = priv_begin(msg, sizeof(msg), &c, r, PRIV_STATS);
	struct runner_stats got = {0};
	struct wire_in in;

	wire_put_str(&o, id);
	if (priv_finish(r, &c, &o, -1, RUNNER_CALL_MS, err) < 0)
		return -1;
	body = c.body;
	in = wire_in_on(body, c.len);
	got.cpu_us = wire_get_u64(&in);
	got.mem_bytes = wire_get_u64(&in);
	got.mem_peak = wire_get_u64(&in);
	got.mem_limit = wire_get_u64(&in);
	got.mem_cache = wire_get_u64(&in);
	got.oom_kills = wire_get_u64(&in);
	got.pids = wire_get_u32(&in);
	got.cpu_milli = wire_get_u32(&in);
	if (reply_end(&in, err) < 0)
		return -1;
	*ret = got;
	return 0;
}

/* One page of ids after the last one of *list; returns how many came. */
static int list_page(struct runner_priv *r, uint8_t what, struct runner_live **list, size_t *n,
		     struct err *err)
{
	struct priv_call c = {0};
	auto_free uint8_t *body = NULL;
	uint8_t msg[256];
	struct wire_out o = priv_begin(msg, sizeof(msg), &c, r, PRIV_LIST);
	struct runner_live *grown;
	struct wire_in in;
	size_t got;

	wire_put_u8(&o, what);
	wire_put_str(&o, *n ? (*list)[*n - 1].id : "");
	if (priv_finish(r, &c, &o, -1, RUNNER_CALL_MS, err) < 0)
		return -1;
	body = c.body;
	in = wire_in_on(body, c.len);
	got = wire_get_count(&in, PRIV_LIST_PAGE, 8);
	grown = realloc(*list, (*n + got + 1) * sizeof(*grown));
	if (!grown)
		return err_set(err, ERR_NOMEM, "out of memory");
	*list = grown;
	for (size_t i = 0; i < got; i++) {
		wire_get_str(&in, grown[*n + i].id, ID_LEN);
		grown[*n + i].pid = wire_get_u32(&in);
	}
	if (reply_end(&in, err) < 0)
		return -1;
	*n += got;
	return (int)got;
}

static int list_all(struct runner_priv *r, uint8_t what, struct runner_live **list, size_t *n,
		    struct err *err)
{
	int got;

	do
		got = list_page(r, what, list, n, err);
	while (got == PRIV_LIST_PAGE);
	return got < 0 ? -1 : 0;
}

static int priv_list(struct runner *base, struct runner_list *ret, struct err *err)
{
	struct runner_priv *r = priv_of(base);
	auto_free struct runner_live *uppers = NULL;
	struct runner_list got = {0};

	if (list_all(r, 0, &got.live, &got.nlive, err) < 0 ||
	    list_all(r, 1, &uppers, &got.nuppers, err) < 0) {
		runner_list_done(&got);
		return -1;
	}
	got.upper = calloc(got.nuppers + 1, sizeof(*got.upper));
	if (!got.upper) {
		runner_list_done(&got);
		return err_set(err, ERR_NOMEM, "out of memory");
	}
	for (size_t i = 0; i < got.nuppers; i++)
		memcpy(got.upper[i], uppers[i].id, ID_LEN);
	*ret = got;
	return 0;
}

static int layer_call(struct runner_priv *r, struct priv_call *c, struct wire_out *o, int fd,
		      struct runner_layer *ret, struct err *err)
{
	auto_free uint8_t *body = NULL;
	struct runner_layer got = {0};
	struct wire_in in;

	if (priv_finish(r, c, o, fd, 0, err) < 0)
		return -1;
	body = c->body;
	in = wire_in_on(body, c->len);
	wire_get_str(&in, got.id, sizeof(got.id));
	got.bytes = wire_get_u64(&in);
	got.files = wire_get_u64(&in);
	if (reply_end(&in, err) < 0)
		return -1;
	*ret = got;
	return 0;
}

static int priv_import(struct runner *base, int tar_fd, uint64_t max_bytes,
		       runner_progress_fn progress, void *arg, struct runner_layer *ret,
		       struct err *err)
{
	struct runner_priv *r = priv_of(base);
	struct priv_call c = {.progress = progress, .arg = arg};
	uint8_t msg[128];
	struct wire_out o = priv_begin(msg, sizeof(msg), &c, r, PRIV_IMPORT);

	wire_put_u64(&o, max_bytes);
	return layer_call(r, &c, &o, tar_fd, ret, err);
}

static int priv_default(struct runner *base, runner_progress_fn progress, void *arg,
			struct runner_layer *ret, struct err *err)
{
	struct runner_priv *r = priv_of(base);
	struct priv_call c = {.progress = progress, .arg = arg};
	uint8_t msg[128];
	struct wire_out o = priv_begin(msg, sizeof(msg), &c, r, PRIV_DEFAULT);

	return layer_call(r, &c, &o, -1, ret, err);
}

static int priv_host(struct runner *base, struct runner_host *ret, struct err *err)
{
	struct runner_priv *r = priv_of(base);
	struct priv_call c = {0};
	auto_free uint8_t *body = NULL;
	uint8_t msg[128];
	struct wire_out o = priv_begin(msg, sizeof(msg), &c, r, PRIV_HOST);
	struct runner_host got = {0};
	struct wire_in in;

	if (priv_finish(r, &c, &o, -1, RUNNER_CALL_MS, err) < 0)
		return -1;
	body = c.body;
	in = wire_in_on(body, c.len);
	got.disk_total = wire_get_u64(&in);
	got.disk_free = wire_get_u64(&in);
	got.mem_total = wire_get_u64(&in);
	got.cpus = wire_get_u32(&in);
	got.live = wire_get_u32(&in);
	if (reply_end(&in, err) < 0)
		return -1;
	*ret = got;
	return 0;
}

static int priv_agent_path(struct runner *base, const char *id, char out[108], struct err *err)
{
	struct runner_priv *r = priv_of(base);

	if (!id_valid(id))
		return err_set(err, ERR_INTERNAL, "bad sandbox id");
	if (snprintf(out, 108, "%s/boxes/%s/agent.sock", r->run_dir, id) >= 108)
		return err_set(err, ERR_INTERNAL, "run directory's path is too long");
	return 0;
}

static void priv_free(struct runner *base)
{
	struct runner_priv *r = priv_of(base);

	priv_link_stop(r);
	close(r->sock);
	free(r);
}

static const struct runner_ops priv_ops = {
	.start = priv_start,
	.kill = priv_kill,
	.remove = priv_remove,
	.stats = priv_stats,
	.list = priv_list,
	.net = priv_net,
	.import = priv_import,
	.default_image = priv_default,
	.layer_remove = priv_layer_remove,
	.host = priv_host,
	.agent_path = priv_agent_path,
	.free = priv_free,
};

static int priv_hello(struct runner_priv *r, struct err *err)
{
	struct priv_call c = {0};
	auto_free uint8_t *body = NULL;
	uint8_t msg[128];
	struct wire_out o = priv_begin(msg, sizeof(msg), &c, r, PRIV_HELLO);
	char instance[32], run_dir[sizeof(r->run_dir)];
	struct wire_in in;

	wire_put_u32(&o, PRIV_PROTO_VERSION);
	if (priv_finish(r, &c, &o, -1, RUNNER_CALL_MS, err) < 0)
		return err_wrap(err, "greet the runner");
	body = c.body;
	in = wire_in_on(body, c.len);
	wire_get_str(&in, instance, sizeof(instance));
	wire_get_str(&in, run_dir, sizeof(run_dir));
	if (reply_end(&in, err) < 0)
		return -1;
	memcpy(r->run_dir, run_dir, sizeof(run_dir));
	return 0;
}

void runner_priv_ready(int sock, const char *why)
{
	char text[PRIV_WHY_MAX];
	uint8_t msg[PRIV_WHY_MAX + 64];
	struct wire_out o = wire_out_on(msg, sizeof(msg));

	snprintf(text, sizeof(text), "%s", why);
	wire_put_u32(&o, UINT32_MAX);
	wire_put_u16(&o, PRIV_READY);
	wire_put_str(&o, log_request());
	wire_put_str(&o, text);
	send(sock, msg, o.len, MSG_NOSIGNAL | MSG_DONTWAIT);
}

struct runner *runner_priv_open(int sock, const struct runner_events *ev, struct err *err)
{
	struct runner_priv *r = calloc(1, sizeof(*r));

	if (!r) {
		close(sock);
		err_set(err, ERR_NOMEM, "out of memory");
		return NULL;
	}
	r->base.ops = &priv_ops;
	r->sock = sock;
	r->ev = *ev;
	if (fd_set_cloexec(sock, true, err) < 0 || priv_link_start(r, err) < 0) {
		close(sock);
		free(r);
		return NULL;
	}
	if (priv_hello(r, err) < 0) {
		priv_free(&r->base);
		return NULL;
	}
	return &r->base;
}
