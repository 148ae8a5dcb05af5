/*
 * note.c - the last failures, for the operator: when, which request of the daemon, what was said.
 *
 * A request is known by the name its socket is bound to (wire/agent_proto.h), which is looked at
 * when something failed only; the memory is touched then, too. Written by the loop and by workers.
 */
#include "init/init.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/clock.h"

#define NOTE_LINE_MAX 256

/* A ring of bytes: lines, the oldest of which may have lost its beginning. */
static struct {
	pthread_mutex_t lock;
	uint64_t total; /* bytes ever written */
	char text[AGENT_NOTES_MAX];
} notes = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* The id in the peer's name, "-" without one; only what can't be taken for another field. */
static void note_peer(int fd, char out[AGENT_REQID_MAX])
{
	struct sockaddr_un addr = {.sun_family = 0};
	socklen_t len = sizeof(addr);
	const char *name = addr.sun_path + 1;
	size_t n = 0;

	if (getpeername(fd, (struct sockaddr *)&addr, &len) == 0 && len > sizeof(addr.sun_family) &&
	    memcmp(addr.sun_path, "\0" AGENT_REQID_NAME, sizeof(AGENT_REQID_NAME)) == 0) {
		name += strlen(AGENT_REQID_NAME);
		while (n < AGENT_REQID_MAX - 1 && name[n] > 32 && name[n] < 127 && name[n] != '/')
			n++;
		memcpy(out, name, n);
	}
	if (n == 0)
		out[n++] = '-';
	out[n] = '\0';
}

static void note_write(const char *line, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)line[i];

		notes.text[(notes.total + i) % AGENT_NOTES_MAX] =
			(char)(c < 32 && i + 1 < len ? ' ' : c);
	}
	notes.total += len;
}

void note_failure(int fd, const struct err *err)
{
	char line[NOTE_LINE_MAX], id[AGENT_REQID_MAX];
	int n;

	note_peer(fd, id);
	n = snprintf(line, sizeof(line), "%lld %s %.160s\n", (long long)clock_wall_ms(), id,
		     err->msg);
	if (n <= 0 || (size_t)n >= sizeof(line))
		return;
	pthread_mutex_lock(&notes.lock);
	note_write(line, (size_t)n);
	pthread_mutex_unlock(&notes.lock);
}

void note_request(struct init *in, struct conn *c)
{
	uint8_t raw[AGENT_NOTES_MAX + 8];
	struct wire_out o = wire_out_on(raw, sizeof(raw));
	char text[AGENT_NOTES_MAX + 1];
	uint64_t from;
	size_t n = 0;

	pthread_mutex_lock(&notes.lock);
	from = notes.total > AGENT_NOTES_MAX ? notes.total - AGENT_NOTES_MAX : 0;
	while (from + n < notes.total) {
		text[n] = notes.text[(from + n) % AGENT_NOTES_MAX];
		n++;
	}
	pthread_mutex_unlock(&notes.lock);
	text[n] = '\0';
	/* The first line is whole only when nothing was lost before it. */
	wire_put_str(&o, from ? text + strcspn(text, "\n") + 1 : text);
	conn_send(in, c, AGENT_OK, raw, o.len, NULL, 0, true);
}
