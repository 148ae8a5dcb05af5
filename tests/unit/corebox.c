/*
 * corebox.c - see corebox.h.
 */
#include "unit/corebox.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/path.h"
#include "wire/wire.h"

#ifdef __SANITIZE_THREAD__
/* The tests of sudden death start threads in a forked child; nothing of the parent is shared. */
const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
	return "die_after_fork=0";
}
#endif

/* ---- the stand-in: answers HELLO and TERM, one connection at a time ---- */

static void agent_answer(int conn)
{
	uint8_t head[WIRE_FRAME_HEAD], body[64];
	struct wire_frame f;
	struct wire_out o = wire_out_on(body, sizeof(body));

	if (fd_read_all(conn, head, sizeof(head), clock_mono_ms() + 1000, NULL) < 0 ||
	    wire_frame_get(head, sizeof(body), &f) < 0 ||
	    (f.len && fd_read_all(conn, body, f.len, clock_mono_ms() + 1000, NULL) < 0))
		return;
	if (f.type == AGENT_HELLO) {
		wire_put_u32(&o, AGENT_PROTO_VERSION);
		wire_put_u32(&o, 0);
	} else {
		wire_put_u32(&o, 0);
	}
	f = (struct wire_frame){.len = (uint32_t)o.len, .type = AGENT_OK};
	wire_frame_put(head, &f);
	fd_write_all(conn, head, sizeof(head), clock_mono_ms() + 1000, NULL);
	fd_write_all(conn, body, o.len, clock_mono_ms() + 1000, NULL);
}

void *corebox_agent(void *arg)
{
	struct corebox *b = arg;
	int held[64];
	size_t n = 0;

	while (!__atomic_load_n(&b->stop, __ATOMIC_ACQUIRE)) {
		struct pollfd p = {.fd = b->listener, .events = POLLIN};
		int conn;

		if (__atomic_load_n(&b->hangup, __ATOMIC_ACQUIRE)) {
			fd_close_all(held, n);
			n = 0;
		}
		if (poll(&p, 1, 20) <= 0)
			continue;
		conn = accept4(b->listener, NULL, NULL, SOCK_CLOEXEC);
		if (conn >= 0 && __atomic_load_n(&b->mute, __ATOMIC_ACQUIRE) &&
		    n < ARRAY_LEN(held)) {
			held[n++] = conn;
			continue;
		}
		if (conn < 0)
			continue;
		agent_answer(conn);
		close(conn);
	}
	fd_close_all(held, n);
	return NULL;
}

static void agent_start(struct corebox *b)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};

	snprintf(b->sock, sizeof(b->sock), "%s/agent.sock", b->dir);
	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", b->sock);
	/* Non-blocking: a forked twin of this box may take a connection between poll and accept. */
	b->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (b->listener < 0 || bind(b->listener, (struct sockaddr *)&addr, sizeof(addr)) < 0 ||
	    listen(b->listener, 512) < 0 || pthread_create(&b->agent, NULL, corebox_agent, b) != 0)
		abort();
}

/* ---- the box ---- */

static void box_dir(struct corebox *b)
{
	char api[96];

	snprintf(b->dir, sizeof(b->dir), "/tmp/caisson-core-XXXXXX");
	if (!mkdtemp(b->dir))
		abort();
	snprintf(api, sizeof(api), "%s/api", b->dir);
	if (mkdir(api, 0700) < 0)
		abort();
}

void corebox_init(struct corebox *b)
{
	memset(b, 0, sizeof(*b));
	signal(SIGPIPE, SIG_IGN);
	log_setup("test", LOG_ERROR, false);
	box_dir(b);
	agent_start(b);
	b->fake = fake_new();
	fake_agent_one(b->fake, b->sock);
	b->cfg = (struct core_config){.data_dir = b->dir,
				      .admin_key = COREBOX_KEY,
				      .region = "local",
				      .version = "0",
				      .hold_ms = 5000,
				      .stop_grace_ms = 200};
}

void corebox_attach(struct corebox *b)
{
	struct runner_events ev;
	struct err err = {0};

	b->core = core_open(&b->cfg, &err);
	if (!b->core) {
		fprintf(stderr, "core_open: %s\n", err.msg);
		abort();
	}
	core_runner_events(b->core, &ev);
	fake_events(b->fake, &ev);
	if (core_attach(b->core, fake_runner(b->fake), &err) < 0 ||
	    identity_check(b->core, COREBOX_KEY, NULL, &b->who, &err) < 0) {
		fprintf(stderr, "core_attach: %s\n", err.msg);
		abort();
	}
}

static bool box_ready(void *arg)
{
	struct corebox *b = arg;
	char why[160];

	return core_ready(b->core, why, sizeof(why));
}

void corebox_open(struct corebox *b)
{
	corebox_attach(b);
	if (!corebox_until(box_ready, b, 5000))
		abort();
}

void corebox_close(struct corebox *b)
{
	struct runner_events none = {0};

	fake_events(b->fake, &none);
	core_close(b->core);
	b->core = NULL;
}

void corebox_done(struct corebox *b)
{
	if (b->core)
		corebox_close(b);
	__atomic_store_n(&b->stop, true, __ATOMIC_RELEASE);
	pthread_join(b->agent, NULL);
	close(b->listener);
	if (b->fake)
		fake_free(b->fake);
	path_remove_tree(AT_FDCWD, b->dir, NULL);
}

struct sandbox_spec corebox_spec(const char *name)
{
	return (struct sandbox_spec){.name = name,
				     .cpu = SPEC_UNSET,
				     .memory_mib = SPEC_UNSET,
				     .disk_gib = SPEC_UNSET,
				     .auto_stop_min = SPEC_UNSET,
				     .auto_pause_min = SPEC_UNSET,
				     .auto_archive_min = SPEC_UNSET,
				     .auto_delete_min = SPEC_UNSET,
				     .ttl_min = SPEC_UNSET};
}

void corebox_create(struct corebox *b, const char *name, char id[ID_LEN])
{
	struct sandbox_spec spec = corebox_spec(name);
	struct sandbox s;
	struct err err = {0};

	if (sandbox_create(b->core, &b->who, &spec, -1, &s, &err) < 0) {
		fprintf(stderr, "create: %s\n", err.msg);
		abort();
	}
	if (s.state != SB_STARTED) {
		fprintf(stderr, "create: %s %s\n", sandbox_state_name(s.state), s.error_reason);
		abort();
	}
	memcpy(id, s.id, ID_LEN);
	sandbox_done(&s);
}

enum sandbox_state corebox_state(struct corebox *b, const char *id)
{
	enum sandbox_state state;
	struct sandbox s;

	if (sandbox_get(b->core, &b->who, id, &s, NULL) < 0)
		return SB_STATE_MAX;
	state = s.state;
	sandbox_done(&s);
	return state;
}

struct state_wait {
	struct corebox *b;
	const char *id;
	enum sandbox_state s;
};

static bool state_is(void *arg)
{
	struct state_wait *w = arg;

	return corebox_state(w->b, w->id) == w->s;
}

bool corebox_wait_state(struct corebox *b, const char *id, enum sandbox_state s, int ms)
{
	struct state_wait w = {b, id, s};

	return corebox_until(state_is, &w, ms);
}

bool corebox_until(bool (*fn)(void *arg), void *arg, int ms)
{
	int64_t end = clock_mono_ms() + ms;

	while (!fn(arg)) {
		if (clock_mono_ms() >= end)
			return false;
		usleep(1000);
	}
	return true;
}
