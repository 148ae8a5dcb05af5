/*
 * request.c - what a frame makes the loop do.
 */
#include "init/task.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

#include "base/clock.h"

#define TERM_POLL_MS 50 /* orphans of others end without a SIGCHLD for us */

/* Feature bits of HELLO; none yet. */
#define INIT_FEATURES 0

void reply_err(struct wire_out *o, const struct err *err)
{
	wire_put_u16(o, (uint16_t)err->code);
	wire_put_u32(o, (uint32_t)err->errnum);
	wire_put_str(o, err->tag);
	wire_put_str(o, err->msg);
}

static void request_hello(struct init *in, struct conn *c)
{
	uint8_t raw[8];
	struct wire_out o = wire_out_on(raw, sizeof(raw));

	wire_put_u32(&o, AGENT_PROTO_VERSION);
	wire_put_u32(&o, INIT_FEATURES);
	conn_send(in, c, AGENT_OK, raw, o.len, NULL, 0, true);
}

static void request_user(struct init *in, struct conn *c, const struct agent_req *r)
{
	static uint8_t raw[4096];
	struct wire_out o = wire_out_on(raw, sizeof(raw));
	struct user u;
	struct err err;

	if (user_find(r->user, &u, &err) < 0) {
		conn_fail(in, c, &err);
		return;
	}
	wire_put_u32(&o, u.uid);
	wire_put_u32(&o, u.gid);
	wire_put_str(&o, u.name);
	wire_put_str(&o, u.home);
	wire_put_str(&o, u.shell);
	conn_send(in, c, AGENT_OK, raw, o.len, NULL, 0, true);
}

/* TERM reaches everything in our pid namespace but us; a stopped process has to wake to see it. */
static void request_term(struct init *in, struct conn *c, const struct agent_req *r)
{
	uint32_t grace_ms = MIN(r->grace_ms, (uint32_t)INIT_GRACE_MAX_MS);

	c->state = CONN_TERM;
	c->term_end_ms = clock_mono_ms() + grace_ms;
	tasks_stopping();
	kill(-1, SIGTERM);
	kill(-1, SIGCONT);
	request_term_check(in, c);
}

void request_term_check(struct init *in, struct conn *c)
{
	uint8_t raw[4];
	struct wire_out o = wire_out_on(raw, sizeof(raw));
	int64_t now = clock_mono_ms();
	bool alive;

	reap_orphans(in);
	alive = kill(-1, 0) == 0 || errno != ESRCH;
	if (alive && now < c->term_end_ms) {
		c->deadline_ms = MIN(now + TERM_POLL_MS, c->term_end_ms);
		return;
	}
	wire_put_u32(&o, alive ? reap_survivors() : 0);
	conn_send(in, c, AGENT_OK, raw, o.len, NULL, 0, true);
}

static void request_bad(struct init *in, struct conn *c, uint16_t verb, const char *what)
{
	struct err err;

	err_set(&err, ERR_INVALID, "agent request %u: %s", verb, what);
	conn_fail(in, c, &err);
}

static void exec_signal(const struct conn *c, const struct agent_req *r)
{
	if (!c->exec.pid || r->sig < 1 || r->sig > 64)
		return;
	if (r->tree)
		tree_signal(&c->exec, (int)r->sig);
	else
		kill(c->exec.pid, (int)r->sig);
}

/* On the connection of a running exec. There are no replies; a wrong frame ends it. */
static void request_exec(struct init *in, struct conn *c, const struct agent_req *r)
{
	switch (r->verb) {
	case AGENT_SIGNAL:
		exec_signal(c, r);
		break;
	case AGENT_RESIZE:
		if (c->exec.master >= 0)
			tty_resize(c->exec.master, r->cols, r->rows);
		break;
	case AGENT_KILL:
		if (c->exec.pid)
			tree_kill(&c->exec);
		break;
	default:
		conn_free(in, c);
		break;
	}
}

static void request_new(struct init *in, struct conn *c, const struct agent_req *r)
{
	switch (r->verb) {
	case AGENT_HELLO:
		request_hello(in, c);
		break;
	case AGENT_SPAWN:
		spawn_run(in, c, r);
		break;
	case AGENT_USER:
		request_user(in, c, r);
		break;
	case AGENT_TERM:
		request_term(in, c, r);
		break;
	case AGENT_NOTES:
		note_request(in, c);
		break;
	default:
		if (task_verb(r->verb)) {
			task_request(in, c, r);
			break;
		}
		request_bad(in, c, r->verb, "not valid here");
		break;
	}
}

void request_run(struct init *in, struct conn *c, uint16_t verb, void *payload, size_t len)
{
	struct agent_req r;
	struct err err;

	if ((c->state == CONN_REQUEST && job_verb(verb)) ||
	    (c->state == CONN_PUT && verb == AGENT_COMMIT)) {
		if (job_start(in, c, verb, payload, len, &err) < 0)
			conn_fail(in, c, &err);
		return;
	}
	if (agent_req_get(verb, payload, len, &r) < 0) {
		request_bad(in, c, verb, "malformed");
		return;
	}
	if (c->state == CONN_EXEC)
		request_exec(in, c, &r);
	else if (c->state == CONN_REQUEST)
		request_new(in, c, &r);
	else
		conn_free(in, c);
	agent_req_done(&r);
}
