/*
 * sandbox_state.c - the edges of a sandbox's state; the only place that moves one.
 *
 *             create                    start                   stop
 *    ─────► CREATING ──────────► STARTED ──────► STOPPING ──────► STOPPED
 *              │    op_create      ▲ │   op_stop    │                │
 *              │                   │ └──────────────┼──► STOPPED     │ (box_exited)
 *              │         op_begin_ │                │                │
 *              │         start     └── STARTING ◄───┼────────────────┘ sandbox_start
 *              ▼                          │         ▼
 *            ERROR ◄──────────────────────┴──── (any of them fails)
 *              └──► STARTING or STOPPED (sandbox_recover)
 *    any of the above ──► DESTROYING ──► DESTROYED      (delete_mark, reap)
 *
 * Whoever moves a row names the state it leaves; the UPDATE says whether it was still there.
 * A row in DESTROYING never comes back: operations that lose to a delete just end.
 */
#include <assert.h>
#include <string.h>

#include "base/clock.h"
#include "core/int.h"

#define TO(s) (1u << (s))

static const unsigned edge_to[SB_STATE_MAX] = {
	[SB_CREATING] = TO(SB_STARTED) | TO(SB_ERROR) | TO(SB_DESTROYING),
	[SB_STARTING] = TO(SB_STARTED) | TO(SB_ERROR) | TO(SB_DESTROYING),
	[SB_STARTED] = TO(SB_STOPPING) | TO(SB_STOPPED) | TO(SB_ERROR) | TO(SB_DESTROYING),
	[SB_STOPPING] = TO(SB_STOPPED) | TO(SB_ERROR) | TO(SB_DESTROYING),
	[SB_STOPPED] = TO(SB_STARTING) | TO(SB_DESTROYING),
	[SB_DESTROYING] = TO(SB_DESTROYED),
	[SB_DESTROYED] = 0,
	[SB_ERROR] = TO(SB_STARTING) | TO(SB_STOPPED) | TO(SB_DESTROYING),
};

static const char *const state_name[SB_STATE_MAX] = {
#define SB_NAME_(name, text) [name] = text,
	SANDBOX_STATES(SB_NAME_)
#undef SB_NAME_
};

const char *sandbox_state_name(enum sandbox_state s)
{
	return (unsigned)s < SB_STATE_MAX ? state_name[s] : "unknown";
}

int sandbox_state_parse(const char *text)
{
	for (int i = 0; i < SB_STATE_MAX; i++)
		if (strcmp(state_name[i], text) == 0)
			return i;
	return -1;
}

bool edge_legal(enum sandbox_state from, enum sandbox_state to)
{
	return (unsigned)from < SB_STATE_MAX && (edge_to[from] & TO(to)) != 0;
}

int state_move(struct core *c, const struct store_edge *e, struct err *err)
{
	struct store_edge edge = *e;
	int rc;

	assert(edge_legal(e->from, e->to));
	if (!edge.now_ms)
		edge.now_ms = clock_wall_ms();
	rc = store_sandbox_edge(c->st, &edge, err);
	if (rc > 0) {
		slot_touch(c, e->id); /* a change of state is activity */
		publish_state(c, e->id, e->from, e->to);
		if (e->from == SB_STARTED)
			uploads_lost(c, e->id);
	}
	return rc;
}
