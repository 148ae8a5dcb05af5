/*
 * events.c - the event socket of contract §2.4: what happens to the organization's sandboxes.
 *
 * The key comes in the first packet, not in a header, so the connection is anonymous until then.
 * Payloads are written on the publisher's thread, which must not wait: sio_emit only queues.
 */
#include "api/daytona/daytona.h"

#include <stdio.h>
#include <string.h>

#define EVENT_MAX (2u << 20) /* bytes of one payload */

struct listener {
	struct core *core;
	char base[256];
	char org[ID_LEN];
	struct caller who;
	char *token; /* looked at again before each event: a key may end */
	struct core_sub *sub;
	struct sio_conn *conn;
};

static void put_change(struct jw *w, const struct core_event *ev)
{
	jw_kstr(w, "oldState", sandbox_state_name(ev->old_state));
	jw_kstr(w, "newState", sandbox_state_name(ev->sandbox->state));
}

static void on_event(void *arg, const struct core_event *ev)
{
	static const char *const names[] = {
		[EV_SANDBOX_CREATED] = "sandbox.created",
		[EV_SANDBOX_STATE] = "sandbox.state.updated",
		[EV_SANDBOX_OOM] = "sandbox.oom", /* ours */
	};
	auto_buf struct buf b = BUF_INIT(EVENT_MAX);
	struct listener *l = arg;
	struct caller who;
	struct jw w;

	if (identity_check(l->core, l->token, l->who.org_id, &who, NULL) < 0) {
		sio_revoke(l->conn);
		return;
	}
	jw_init(&w, &b);
	if (ev->kind == EV_SANDBOX_CREATED) {
		daytona_put_sandbox(&w, ev->sandbox, l->base);
	} else {
		jw_open(&w, '{');
		jw_key(&w, "sandbox");
		daytona_put_sandbox(&w, ev->sandbox, l->base);
		if (ev->kind == EV_SANDBOX_STATE)
			put_change(&w, ev);
		else
			jw_kstr(&w, "message", ev->text);
		jw_close(&w, '}');
	}
	if (jw_end(&w, NULL) == 0)
		sio_emit(l->conn, names[ev->kind], buf_str(&b));
}

static int listener_connect(void *arg, struct sio_conn *conn, const char *token, struct err *err)
{
	struct listener *l = arg;

	if (identity_check(l->core, token, l->org[0] ? l->org : NULL, &l->who, err) < 0)
		return -1;
	l->token = strdup(token);
	if (!l->token)
		return err_set(err, ERR_NOMEM, "out of memory");
	l->conn = conn;
	l->sub = core_subscribe(l->core, &l->who, on_event, l, err);
	return l->sub ? 0 : -1;
}

static void listener_disconnect(void *arg, struct sio_conn *conn)
{
	struct listener *l = arg;

	(void)conn;
	core_unsubscribe(l->core, l->sub);
	l->sub = NULL;
}

static const struct sio_ops listener_ops = {listener_connect, listener_disconnect};

static void listener_main(struct http_ws *ws, void *arg)
{
	struct listener *l = arg;

	sio_serve(ws, &listener_ops, l);
	free(l->token);
	free(l);
}

int daytona_control_connectEvents(struct http_req *req, struct err *err)
{
	const char *org = http_query(req, "organizationId");
	struct listener *l;

	if (!http_wants_upgrade(req))
		return err_set(err, ERR_INVALID, "transport: only websocket is offered");
	l = calloc(1, sizeof(*l));
	if (!l)
		return err_set(err, ERR_NOMEM, "out of memory");
	l->core = api_core(req);
	snprintf(l->base, sizeof(l->base), "%s", http_base_url(req));
	snprintf(l->org, sizeof(l->org), "%s", org ? org : "");
	if (http_upgrade(req, NULL, listener_main, l, err) < 0) {
		free(l);
		return -1;
	}
	return 0;
}
