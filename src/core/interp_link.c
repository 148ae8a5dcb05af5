/*
 * interp_link.c - see interp_link.h.
 */
#include "core/interp_link.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

#include "base/base64.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/id.h"

#define LINK_WRITE_MS 30000
#define LINK_SLICE_MS 100
#define LINK_READ     65536
#define LINK_BUF_MAX  (INTERP_FRAME_MAX + INTERP_HEAD_MAX + 2 * LINK_READ)
#define LINK_LINE_MAX (16u << 20) /* code and environment in base64; the runner takes 24 MiB */
#define LINK_ALIVE_MS 5000
#define LINK_SAID_MAX 300 /* bytes of what a runner said that did not start */

void interp_link_init(struct interp_link *l)
{
	*l = (struct interp_link){.in = -1, .out = -1};
	buf_init(&l->buf, LINK_BUF_MAX);
}

void interp_link_done(struct interp_link *l)
{
	if (l->in >= 0)
		close(l->in);
	if (l->out >= 0)
		close(l->out);
	l->in = l->out = -1;
	buf_done(&l->buf);
}

static void nonce_new(char out[INTERP_NONCE_LEN])
{
	uint8_t raw[(INTERP_NONCE_LEN - 1) / 2];

	id_random(raw, sizeof(raw));
	for (size_t i = 0; i < sizeof(raw); i++)
		snprintf(out + 2 * i, 3, "%02x", raw[i]);
}

static int link_write(struct interp_link *l, const void *p, size_t n, struct err *err)
{
	return fd_write_all(l->in, p, n, clock_mono_ms() + LINK_WRITE_MS, err);
}

static int link_say(struct interp_link *l, struct err *err, const char *fmt, const char *word)
{
	char line[INTERP_NONCE_LEN + 16];
	int n = snprintf(line, sizeof(line), fmt, word);

	l->alive_ms = clock_mono_ms();
	return link_write(l, line, (size_t)n, err);
}

/* One read: 1 got some, 0 nothing there, or the end (l->ended). */
static int link_read(struct interp_link *l, struct err *err)
{
	char *at = buf_reserve(&l->buf, LINK_READ, err);
	ssize_t n;

	if (!at)
		return -1;
	n = read(l->out, at, LINK_READ);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n <= 0) {
		l->ended = true;
		return 0;
	}
	buf_commit(&l->buf, (size_t)n);
	return 1;
}

/* ---- attaching ---- */

/* What Python said before it ended, on one line. */
static int start_failed(const struct interp_link *l, struct err *err)
{
	const char *p = buf_str(&l->buf);
	size_t n = l->buf.len, skip = n > LINK_SAID_MAX ? n - LINK_SAID_MAX : 0;
	char said[LINK_SAID_MAX + 1];

	memcpy(said, p + skip, n - skip);
	said[n - skip] = '\0';
	for (char *c = said; *c; c++)
		if ((unsigned char)*c < ' ' || (unsigned char)*c > '~')
			*c = ' ';
	return err_set(err, ERR_GONE, "the interpreter ended: %s", said);
}

/* 1 the mark is there and passed, 0 not yet. */
static int mark_pass(struct interp_link *l, const char *nonce)
{
	size_t keep;
	const char *at = interp_mark_find(buf_str(&l->buf), l->buf.len, nonce, &keep);

	if (at) {
		buf_eat(&l->buf, (size_t)(at - buf_str(&l->buf)));
		return 1;
	}
	if (l->buf.len > keep + LINK_SAID_MAX)
		buf_eat(&l->buf, l->buf.len - keep - LINK_SAID_MAX);
	return 0;
}

/* Wait a slice for output; -1 when the time is over, the asker gone or the runner at its end. */
static int link_wait(struct interp_link *l, int64_t deadline_ms, turn_gone_fn gone, void *arg,
		     struct err *err)
{
	int64_t now = clock_mono_ms();

	if (now >= deadline_ms)
		return err_set(err, ERR_AGENT, "the interpreter does not answer");
	if (gone && gone(arg))
		return err_set(err, ERR_CANCELLED, "the client went before its code ran");
	if (fd_wait(l->out, POLLIN, -1, MIN(deadline_ms, now + LINK_SLICE_MS), NULL) < 0)
		return 0;
	if (link_read(l, err) < 0)
		return -1;
	return l->ended ? start_failed(l, err) : 0;
}

int interp_link_attach(struct interp_link *l, bool fresh, turn_gone_fn gone, void *arg,
		       struct err *err)
{
	int64_t deadline_ms = clock_mono_ms() + LINK_START_MS;
	char nonce[INTERP_NONCE_LEN];
	struct interp_frame f;
	int got;

	nonce_new(nonce);
	/* A runner that is at its end by now is found out by reading: there its words are. */
	if ((!fresh ||
	     link_write(l, interp_runner, (size_t)(interp_runner_end - interp_runner), err) == 0))
		link_say(l, err, "\nattach %s\n", nonce);
	while (!mark_pass(l, nonce))
		if (link_wait(l, deadline_ms, gone, arg, err) < 0)
			return -1;
	while ((got = interp_link_next(l, &f, err)) == 0)
		if (link_wait(l, deadline_ms, gone, arg, err) < 0)
			return -1;
	if (got > 0 && interp_attached_get(&f, nonce, &l->busy))
		return 0;
	return got < 0 ? -1 : err_set(err, ERR_AGENT, "the interpreter answered wrongly");
}

/* ---- runs ---- */

/* "run nonce timeout length ", then in base64: code NUL name=value NUL … */
static int run_line(struct interp_link *l, const char *code, const struct kv *env,
		    int64_t timeout_ms, struct buf *line, struct err *err)
{
	auto_buf struct buf raw = BUF_INIT(LINK_LINE_MAX);

	if (buf_add(&raw, code, strlen(code), err) < 0)
		return -1;
	for (size_t i = 0; env && i < env->n; i++)
		if (buf_add(&raw, "", 1, err) < 0 ||
		    buf_addf(&raw, err, "%s=%s", env->pair[i].key, env->pair[i].value) < 0)
			return -1;
	if (buf_addf(line, err, "run %s %lld %zu ", l->nonce, (long long)timeout_ms,
		     BASE64_LEN(raw.len)) < 0 ||
	    base64_encode(buf_str(&raw), raw.len, line, err) < 0)
		return -1;
	return buf_adds(line, "\n", err);
}

int interp_link_run(struct interp_link *l, const char *code, const struct kv *env,
		    int64_t timeout_ms, struct err *err)
{
	auto_buf struct buf line = BUF_INIT(LINK_LINE_MAX);

	nonce_new(l->nonce);
	if (run_line(l, code, env, timeout_ms, &line, err) < 0)
		return -1;
	l->alive_ms = clock_mono_ms();
	return link_write(l, buf_str(&line), line.len, err);
}

void interp_link_alive(struct interp_link *l)
{
	if (clock_mono_ms() - l->alive_ms < LINK_ALIVE_MS)
		return;
	l->alive_ms = clock_mono_ms();
	(void)!write(l->in, "alive\n", 6);
}

void interp_link_detach(struct interp_link *l)
{
	if (l->in >= 0)
		(void)!write(l->in, "\ndetach\n", 8);
}

int interp_link_next(struct interp_link *l, struct interp_frame *ret, struct err *err)
{
	size_t used = 0;
	int got;

	interp_link_alive(l);
	for (;;) {
		got = interp_frame_get(buf_str(&l->buf) + l->eaten, l->buf.len - l->eaten, ret,
				       &used);
		l->eaten += got > 0 ? used : 0;
		if (got < 0)
			return err_set(err, ERR_AGENT, "the interpreter's stream is broken");
		if (got > 0 || l->ended)
			return got;
		buf_eat(&l->buf, l->eaten);
		l->eaten = 0;
		got = link_read(l, err);
		if (got <= 0)
			return got;
	}
}
