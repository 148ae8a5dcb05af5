/*
 * fuzz_agent_note.c - the notes of a hostile agent: any text gives bounded, terminated records.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "agent/call.h"
#include "caisson/agent.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct agent_note *note = NULL;
	char *text = malloc(size + 1);
	size_t n = 0;

	memcpy(text, data, size);
	text[size] = '\0';
	if (agent_notes_parse(text, &note, &n, NULL) < 0)
		abort();
	for (size_t i = 0; i < n; i++) {
		if (note[i].at_ms < 0 || !memchr(note[i].request, 0, sizeof(note[i].request)) ||
		    !memchr(note[i].text, 0, sizeof(note[i].text)) || strchr(note[i].text, '\n'))
			abort();
	}
	free(note);
	free(text);
	return 0;
}
