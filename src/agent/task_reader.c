/*
 * task_reader.c - reading the output of a task, as it comes.
 *
 * Frames are gathered in a buffer of our own and handed out one by one, in place. The agent is
 * doubted: offsets have to go on where they stopped, gaps have to be gaps, sizes have ceilings.
 */
#include "caisson/task.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "agent/task_int.h"
#include "base/clock.h"

#define READER_MIN 4096

struct task_reader {
	int sock;
	uint32_t streams;
	bool known[2]; /* next[] is known */
	uint64_t next[2];
	uint8_t *p;
	size_t cap, pos, len; /* pos: what was handed out ends there */
	bool ended;
};

static int reader_fault(struct err *err)
{
	return err_set(err, ERR_AGENT, "the sandbox's agent sent malformed output");
}

struct task_reader *task_reader_on(int sock, uint32_t streams, uint64_t out_from, uint64_t err_from,
				   struct err *err)
{
	struct task_reader *r = calloc(1, sizeof(*r));

	if (!r) {
		err_set(err, ERR_NOMEM, "out of memory");
		return NULL;
	}
	*r = (struct task_reader){.sock = sock,
				  .streams = streams,
				  .known = {out_from != TASK_TAIL, err_from != TASK_TAIL},
				  .next = {out_from, err_from}};
	return r;
}

struct task_reader *task_reader_open(const char *path, const char *id, uint32_t streams,
				     uint64_t out_from, uint64_t err_from, bool follow,
				     struct err *err)
{
	int64_t deadline_ms = clock_mono_ms() + AGENT_CALL_MS;
	struct agent_req req = {.verb = AGENT_TASK_READ,
				.id = id,
				.streams = streams,
				.out_from = out_from,
				.err_from = err_from,
				.follow = follow};
	auto_close int sock = agent_call_open(path, deadline_ms, err);
	struct task_reader *r;

	if (sock < 0 || agent_call_send(sock, &req, deadline_ms, err) < 0)
		return NULL;
	r = task_reader_on(sock, streams, out_from, err_from, err);
	if (r)
		sock = -1;
	return r;
}

int task_reader_fd(const struct task_reader *r)
{
	return r->sock;
}

void task_reader_close(struct task_reader *r)
{
	if (!r)
		return;
	if (r->sock >= 0)
		close(r->sock);
	free(r->p);
	free(r);
}

/* ---- frames ---- */

static int stream_check(struct task_reader *r, int stream, uint64_t from, struct err *err)
{
	if (stream < 1 || stream > 2 || !(r->streams >> stream & 1))
		return reader_fault(err);
	if (r->known[stream - 1] && from != r->next[stream - 1])
		return reader_fault(err);
	r->known[stream - 1] = true;
	return 0;
}

static int frame_data(struct task_reader *r, struct wire_in *in, struct task_chunk *ret,
		      struct err *err)
{
	struct task_chunk c = {.stream = wire_get_u8(in), .offset = wire_get_u64(in)};
	size_t n;

	c.p = wire_get_bytes(in, &n);
	c.n = n;
	if (!wire_in_end(in) || !n || c.offset > UINT64_MAX - n)
		return reader_fault(err);
	if (stream_check(r, c.stream, c.offset, err) < 0)
		return -1;
	r->next[c.stream - 1] = c.offset + n;
	*ret = c;
	return TASK_READ_DATA;
}

static int frame_gap(struct task_reader *r, struct wire_in *in, struct task_chunk *ret,
		     struct err *err)
{
	struct task_chunk c = {.stream = wire_get_u8(in), .offset = wire_get_u64(in)};
	uint64_t to = wire_get_u64(in);

	if (!wire_in_end(in) || to <= c.offset || to == UINT64_MAX)
		return reader_fault(err);
	if (stream_check(r, c.stream, c.offset, err) < 0)
		return -1;
	r->next[c.stream - 1] = to;
	c.n = to - c.offset;
	*ret = c;
	return TASK_READ_GAP;
}

static int frame_end(struct task_reader *r, struct wire_in *in, struct task_info *end,
		     struct err *err)
{
	auto_task struct task_info t = {.label = NULL};

	if (agent_task_info(in, &t, err) < 0)
		return -1;
	if (!wire_in_end(in))
		return reader_fault(err);
	r->ended = true;
	if (end) {
		*end = t;
		t.label = NULL;
	}
	return TASK_READ_END;
}

static int frame_take(struct task_reader *r, const struct wire_frame *f, struct task_chunk *ret,
		      struct task_info *end, struct err *err)
{
	uint8_t *payload = r->p + r->pos + WIRE_FRAME_HEAD;
	struct wire_in in = wire_in_on(payload, f->len);

	r->pos += WIRE_FRAME_HEAD + f->len;
	switch (f->type) {
	case AGENT_DATA:
		return frame_data(r, &in, ret, err);
	case AGENT_GAP:
		return frame_gap(r, &in, ret, err);
	case AGENT_OK:
		return frame_end(r, &in, end, err);
	case AGENT_ERR:
		return agent_reply_error(payload, f->len, err);
	default:
		return reader_fault(err);
	}
}

/* 1 with the next whole frame at pos, 0 when more is needed (then *need is its size). */
static int frame_whole(const struct task_reader *r, struct wire_frame *ret, size_t *need,
		       struct err *err)
{
	*need = WIRE_FRAME_HEAD;
	if (r->len - r->pos < WIRE_FRAME_HEAD)
		return 0;
	if (wire_frame_get(r->p + r->pos, AGENT_REPLY_MAX, ret) < 0 || ret->flags)
		return reader_fault(err);
	*need = WIRE_FRAME_HEAD + ret->len;
	return r->len - r->pos >= *need;
}

/* Room for need bytes from pos on; what was handed out before is over. */
static int reader_room(struct task_reader *r, size_t need, struct err *err)
{
	size_t cap = MAX(need, (size_t)READER_MIN);
	uint8_t *bigger;

	if (r->pos) {
		memmove(r->p, r->p + r->pos, r->len - r->pos);
		r->len -= r->pos;
		r->pos = 0;
	}
	if (r->cap >= cap)
		return 0;
	bigger = realloc(r->p, cap);
	if (!bigger)
		return err_set(err, ERR_NOMEM, "out of memory");
	r->p = bigger;
	r->cap = cap;
	return 0;
}

/* 1 with bytes, 0 when there are none now. */
static int reader_recv(struct task_reader *r, struct err *err)
{
	ssize_t got = recv(r->sock, r->p + r->len, r->cap - r->len, MSG_DONTWAIT);

	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (got <= 0)
		return err_set(err, ERR_GONE, "the sandbox's agent hung up");
	r->len += (size_t)got;
	return 1;
}

static int reader_wait(const struct task_reader *r, int client, int64_t deadline_ms,
		       struct err *err)
{
	struct err why;

	if (fd_wait(r->sock, POLLIN, client, deadline_ms, &why) >= 0)
		return 1;
	if (why.code == ERR_TIMEOUT)
		return 0;
	if (err)
		*err = why;
	return -1;
}

int task_reader_next(struct task_reader *r, struct task_chunk *ret, struct task_info *end,
		     int client, int64_t deadline_ms, struct err *err)
{
	struct wire_frame f;
	size_t need;
	int rc;

	if (r->ended)
		return err_set(err, ERR_INTERNAL, "read beyond the end of a task");
	for (;;) {
		rc = frame_whole(r, &f, &need, err);
		if (rc > 0)
			return frame_take(r, &f, ret, end, err);
		if (rc < 0 || reader_room(r, need, err) < 0)
			return -1;
		rc = reader_recv(r, err);
		if (rc < 0)
			return -1;
		if (rc > 0)
			continue;
		rc = deadline_ms ? reader_wait(r, client, deadline_ms, err) : 0;
		if (rc <= 0)
			return rc < 0 ? -1 : TASK_READ_NONE;
	}
}
