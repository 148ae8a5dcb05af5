/*
 * verbs.c - what each verb of the privileged protocol does.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#include "base/crash.h"
#include "base/log.h"
#include "priv/priv.h"

#define REPLY_SMALL 2048

static struct wire_out reply_ok(uint8_t *buf, size_t cap, const struct job *j)
{
	return peer_message(buf, cap, j->seq, PRIV_OK, j->reqid);
}

static int reply_empty(struct priv *p, const struct job *j)
{
	uint8_t buf[REPLY_SMALL];
	struct wire_out o = reply_ok(buf, sizeof(buf), j);

	peer_send(p, j->peer, &o);
	return 0;
}

static int run_hello(struct priv *p, struct box_launcher *l, struct job *j, struct err *err)
{
	uint8_t buf[REPLY_SMALL];
	struct wire_out o = reply_ok(buf, sizeof(buf), j);

	(void)l;
	if (j->flags != PRIV_PROTO_VERSION)
		return err_set(err, ERR_INVALID, "privileged protocol %u is not %u", j->flags,
			       PRIV_PROTO_VERSION);
	wire_put_str(&o, p->instance);
	wire_put_str(&o, p->run_dir);
	peer_send(p, j->peer, &o);
	return 0;
}

static int disk_check(struct priv *p, struct err *err)
{
	struct statvfs st;

	if (p->cfg->disk_low == 0 || fstatvfs(p->data, &st) < 0 ||
	    (uint64_t)st.f_bavail * st.f_frsize >= p->cfg->disk_low)
		return 0;
	return err_set(err, ERR_UNAVAILABLE,
		       "disk: less than %llu bytes are free in %s; delete sandboxes or lower "
		       "disk-low",
		       (unsigned long long)p->cfg->disk_low, p->cfg->data_dir);
}

/* Where the time of a start went, step by step, for whoever looks for it. */
static void verb_say_start(const struct box *b)
{
	char steps[256];
	size_t n = 0;

	steps[0] = '\0';
	for (int m = 0; m < MARK_MAX && n < sizeof(steps); m++)
		if (b->mark_us[m])
			n += (size_t)snprintf(steps + n, sizeof(steps) - n, "%s%s %u",
					      m ? ", " : "", box_mark_name[m], b->mark_us[m]);
	log_debug("start %s: pid %d, us: %s", b->id, b->pid, steps);
}

static int run_start(struct priv *p, struct box_launcher *l, struct job *j, struct err *err)
{
	struct box_entry *e = boxes_lock(&p->boxes, j->id, err);
	uint8_t buf[REPLY_SMALL];
	struct wire_out o = reply_ok(buf, sizeof(buf), j);
	struct box *b = NULL;
	int rc = 0;

	if (!e)
		return -1;
	if (e->box) {
		err_set(err, ERR_CONFLICT, "sandbox %s runs already", j->id);
		boxes_unlock(&p->boxes, e, e->box);
		return -1;
	}
	if (p->stopping)
		rc = err_set(err, ERR_UNAVAILABLE, "the runner is stopping");
	if (rc == 0 && j->spec.fresh)
		rc = disk_check(p, err);
	if (rc == 0)
		rc = box_start(l, &j->spec, &b, err);
	if (rc == 0) {
		wire_put_u32(&o, (uint32_t)b->pid);
		wire_put_str(&o, b->lease.ip4);
		wire_put_str(&o, b->lease.ip6);
		wire_put_u32(&o, b->mark_us[MARK_READY]);
		verb_say_start(b);
		/* An api that dies of the answer has a successor, which lists what lives. */
		boxes_publish(&p->boxes, e, b);
		peer_send(p, j->peer, &o);
		if (priv_watch_box(p, b, err) < 0)
			log_error("watch %s: %s", b->id, err->msg);
	}
	boxes_unlock(&p->boxes, e, b);
	return rc;
}

/* ret_root: gets the last mount of the root file system, whose end the caller sees to, or NULL.
 * Processes dead, runtime given back; the api hears of the end before it hears of the success. */
static int end_box(struct priv *p, struct box_entry *e, int *ret_root, struct err *err)
{
	struct box *b = boxes_take(&p->boxes, e);
	pid_t pid;

	if (!b)
		return 0;
	pid = b->pid;
	if (box_kill(p->host, b, err) < 0) {
		boxes_unlock(&p->boxes, e, b);
		return -1;
	}
	peer_event_exited(p, b->id, pid);
	if (ret_root)
		*ret_root = TAKE_FD(b->root);
	box_end(p->host, b);
	return 0;
}

static int run_kill(struct priv *p, struct box_launcher *l, struct job *j, struct err *err)
{
	struct box_entry *e = boxes_lock(&p->boxes, j->id, err);

	(void)l;
	if (!e || end_box(p, e, NULL, err) < 0)
		return -1;
	reply_empty(p, j);
	boxes_unlock(&p->boxes, e, NULL);
	return 0;
}

static int run_delete(struct priv *p, struct box_launcher *l, struct job *j, struct err *err)
{
	struct box_entry *e = boxes_lock(&p->boxes, j->id, err);
	int root = -1, rc;

	(void)l;
	if (!e || end_box(p, e, &root, err) < 0)
		return -1;
	rc = upper_retire(box_host_uppers(p->host), j->id, root, err);
	crash_at("delete.after_rename");
	if (rc == 0)
		reply_empty(p, j);
	boxes_unlock(&p->boxes, e, NULL);
	return rc;
}

/* pid 1 ended by itself or by somebody's hand: the same end, with nobody waiting for it. */
static int run_reap(struct priv *p, struct box_launcher *l, struct job *j, struct err *err)
{
	struct box_entry *e = boxes_lock(&p->boxes, j->id, err);

	(void)l;
	if (!e)
		return -1;
	if (!e->box || e->box->pid != j->pid) {
		boxes_unlock(&p->boxes, e, e->box);
		return 0;
	}
	log_info("sandbox %s: pid 1 (%d) ended", j->id, j->pid);
	if (end_box(p, e, NULL, err) < 0)
		return -1;
	boxes_unlock(&p->boxes, e, NULL);
	return 0;
}

static int run_stats(struct priv *p, struct box_launcher *l, struct job *j, struct err *err)
{
	uint8_t buf[REPLY_SMALL];
	struct wire_out o = reply_ok(buf, sizeof(buf), j);
	struct cg_stats s;
	struct box b;

	(void)l;
	if (!boxes_find(&p->boxes, j->id, &b))
		return err_set(err, ERR_NOT_FOUND, "sandbox %s does not run", j->id);
	if (box_stats(p->host, &b, &s, err) < 0)
		return -1;
	wire_put_u64(&o, s.cpu_us);
	wire_put_u64(&o, s.mem_bytes);
	wire_put_u64(&o, s.mem_peak);
	wire_put_u64(&o, s.mem_limit);
	wire_put_u64(&o, s.mem_cache);
	wire_put_u64(&o, s.oom_kills);
	wire_put_u32(&o, s.pids);
	wire_put_u32(&o, b.cpu_milli);
	peer_send(p, j->peer, &o);
	return 0;
}

static int id_order(const void *a, const void *b)
{
	return strcmp(a, b);
}

/* The ids above after, in order, at most PRIV_LIST_PAGE of them. */
static int uppers_page(struct priv *p, const char *after, char (*id)[ID_LEN], size_t *ret_n,
		       struct err *err)
{
	auto_free char(*all)[ID_LEN] = NULL;
	size_t n = 0, at = 0;

	if (upper_list(box_host_uppers(p->host), &all, &n, err) < 0)
		return -1;
	if (n)
		qsort(all, n, ID_LEN, id_order);
	while (at < n && strcmp(all[at], after) <= 0)
		at++;
	*ret_n = MIN(n - at, (size_t)PRIV_LIST_PAGE);
	if (*ret_n)
		memcpy(id, all + at, *ret_n * ID_LEN);
	return 0;
}

static int run_list(struct priv *p, struct box_launcher *l, struct job *j, struct err *err)
{
	auto_free uint8_t *buf = malloc(PRIV_MSG_MAX);
	auto_free char(*id)[ID_LEN] = calloc(PRIV_LIST_PAGE, ID_LEN);
	auto_free uint32_t *pid = calloc(PRIV_LIST_PAGE, sizeof(*pid));
	struct wire_out o;
	size_t n = 0;

	(void)l;
	if (!buf || !id || !pid)
		return err_set(err, ERR_NOMEM, "out of memory");
	if (j->what == PRIV_LIST_LIVE)
		n = boxes_page(&p->boxes, j->id, id, pid, PRIV_LIST_PAGE);
	else if (uppers_page(p, j->id, id, &n, err) < 0)
		return -1;
	o = reply_ok(buf, PRIV_MSG_MAX, j);
	wire_put_u32(&o, (uint32_t)n);
	for (size_t i = 0; i < n; i++) {
		wire_put_str(&o, id[i]);
		wire_put_u32(&o, pid[i]);
	}
	peer_send(p, j->peer, &o);
	return 0;
}

static int run_net(struct priv *p, struct box_launcher *l, struct job *j, struct err *err)
{
	struct box_entry *e = boxes_lock(&p->boxes, j->id, err);
	int rc;

	(void)l;
	if (!e)
		return -1;
	if (!e->box) {
		err_set(err, ERR_NOT_FOUND, "sandbox %s does not run", j->id);
		boxes_unlock(&p->boxes, e, NULL);
		return -1;
	}
	rc = net_set_flags(p->net, &e->box->lease, j->flags & PRIV_START_NET_BLOCK ? NET_BLOCK : 0,
			   err);
	if (rc == 0) {
		uint32_t other = e->box->flags & ~(uint32_t)PRIV_START_NET_BLOCK;

		boxes_set_flags(&p->boxes, e, other | j->flags);
		rc = box_save(p->host, e->box, err);
	}
	if (rc == 0)
		reply_empty(p, j);
	boxes_unlock(&p->boxes, e, e->box);
	return rc;
}

static int run_host(struct priv *p, struct box_launcher *l, struct job *j, struct err *err)
{
	uint8_t buf[REPLY_SMALL];
	struct wire_out o = reply_ok(buf, sizeof(buf), j);
	struct statvfs st;
	uint64_t mem;
	uint32_t cpus;

	(void)l;
	if (fstatvfs(p->data, &st) < 0)
		return err_errno(err, ERR_INTERNAL, errno, "stat %s", p->cfg->data_dir);
	box_host_size(p->host, &mem, &cpus);
	wire_put_u64(&o, (uint64_t)st.f_blocks * st.f_frsize);
	wire_put_u64(&o, (uint64_t)st.f_bavail * st.f_frsize);
	wire_put_u64(&o, mem);
	wire_put_u32(&o, cpus);
	wire_put_u32(&o, p->boxes.live);
	peer_send(p, j->peer, &o);
	return 0;
}

static const struct verb_row {
	uint16_t verb;
	int (*run)(struct priv *p, struct box_launcher *l, struct job *j, struct err *err);
} verb_rows[] = {
	{PRIV_HELLO, run_hello},   {PRIV_START, run_start}, {PRIV_KILL, run_kill},
	{PRIV_DELETE, run_delete}, {PRIV_STATS, run_stats}, {PRIV_LIST, run_list},
	{PRIV_NET, run_net},	   {PRIV_HOST, run_host},   {PRIV_VERB_REAP, run_reap},
};

void verb_run(struct priv *p, struct box_launcher *l, struct job *j)
{
	struct err err = {0};

	log_set_request(j->reqid);
	for (size_t i = 0; i < ARRAY_LEN(verb_rows); i++) {
		if (verb_rows[i].verb != j->verb || verb_rows[i].run(p, l, j, &err) == 0)
			continue;
		/* A start that fails is the state and the log line of its sandbox, in the api. */
		log_at(j->verb == PRIV_START ? LOG_DEBUG : LOG_WARN, "verb %u of %s: %s", j->verb,
		       j->id[0] ? j->id : "-", err.msg);
		if (j->peer)
			peer_reply_err(p, j, &err);
	}
	log_set_request(NULL);
}

void verb_reap(struct priv *p, pid_t pid)
{
	struct job *j = job_new();
	struct box b;

	if (!j || !boxes_find_pid(&p->boxes, pid, &b)) {
		job_free(j);
		return;
	}
	j->verb = PRIV_VERB_REAP;
	j->pid = pid;
	memcpy(j->id, b.id, ID_LEN);
	if (!queue_put(&p->work, j))
		job_free(j);
}

/* On the loop itself: who counts the starts of the api must have seen this before its end. */
static void run_ready(struct priv *p, const struct job *j)
{
	p->api_ready = j->why[0] == '\0';
	memcpy(p->api_why, j->why, sizeof(p->api_why));
}

int verb_dispatch(struct priv *p, const uint8_t *msg, size_t n, int fd)
{
	struct job *j = decode_message(msg, n, fd);
	bool image;

	if (!j)
		return -1;
	j->peer = p->peer;
	if (j->verb == PRIV_READY) {
		run_ready(p, j);
		job_free(j);
		return 0;
	}
	image = j->verb == PRIV_IMPORT || j->verb == PRIV_DEFAULT || j->verb == PRIV_LAYER_RM;
	if (!queue_put(image ? &p->image_work : &p->work, j)) {
		struct err err = {0};

		err_set(&err, ERR_UNAVAILABLE, "the runner has too much to do; try again");
		peer_reply_err(p, j, &err);
		job_free(j);
	}
	return 0;
}
