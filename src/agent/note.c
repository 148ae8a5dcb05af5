/*
 * note.c - reads what a caisson-init noted of its last failures (wire/agent_proto.h NOTES).
 */
#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "agent/call.h"
#include "base/clock.h"
#include "caisson/agent.h"

#define NOTE_CALL_MS 5000

/* "milliseconds id text"; what is otherwise, is all text. */
static void note_parse(char *line, struct agent_note *ret)
{
	char *id = NULL, *text = line;
	long long at;

	*ret = (struct agent_note){.at_ms = 0};
	errno = 0;
	at = isdigit((unsigned char)*line) ? strtoll(line, &id, 10) : 0;
	if (at > 0 && !errno && id && *id == ' ' && strchr(id + 1, ' ')) {
		text = strchr(id + 1, ' ');
		*text++ = '\0';
		ret->at_ms = at;
		snprintf(ret->request, sizeof(ret->request), "%s",
			 strcmp(id + 1, "-") == 0 ? "" : id + 1);
	}
	snprintf(ret->text, sizeof(ret->text), "%s", text);
}

int agent_notes_parse(char *text, struct agent_note **ret, size_t *ret_n, struct err *err)
{
	struct agent_note *note;
	size_t n = 0, lines = 1;
	char *end;

	for (const char *p = text; *p; p++)
		lines += *p == '\n';
	note = calloc(lines, sizeof(*note));
	if (!note)
		return err_set(err, ERR_NOMEM, "out of memory");
	for (char *line = text; *line; line = end) {
		end = line + strcspn(line, "\n");
		if (*end)
			*end++ = '\0';
		if (*line)
			note_parse(line, &note[n++]);
	}
	*ret = note;
	*ret_n = n;
	return 0;
}

int agent_notes(const char *path, struct agent_note **ret, size_t *ret_n, struct err *err)
{
	struct agent_req req = {.verb = AGENT_NOTES};
	auto_reply struct agent_reply r = {.nfds = 0};
	char text[AGENT_NOTES_MAX + 1];
	struct wire_in in;

	if (agent_call(path, &req, 0, &r, clock_mono_ms() + NOTE_CALL_MS, err) < 0)
		return -1;
	in = wire_in_on(r.p, r.len);
	wire_get_str(&in, text, sizeof(text));
	if (!wire_in_end(&in))
		return err_set(err, ERR_AGENT, "the sandbox's agent sent malformed notes");
	return agent_notes_parse(text, ret, ret_n, err);
}
