/*
 * fuzz_interp.c - any bytes from a sandbox's interpreter: frames, their payloads, and the search
 * for the mark; a cut anywhere changes nothing but when a frame is seen.
 */
#include <stdlib.h>
#include <string.h>

#include "core/interp_frame.h"
#include "lib/fuzz_replay.h"

static void payload_read(const struct interp_frame *f)
{
	struct interp_text t[3];
	enum interp_status status;
	bool busy, timeout, signaled;
	uint64_t bytes;
	unsigned code;
	int stream;

	if (interp_error_get(f, t) && t[0].n + t[1].n + t[2].n + 2 != f->n)
		abort();
	if (interp_lost_get(f, &stream, &bytes) && stream != 1 && stream != 2)
		abort();
	if (interp_dead_get(f, &timeout, &signaled, &code) && code > 255)
		abort();
	interp_attached_get(f, "n", &busy);
	interp_done_get(f, "n", &status);
}

static void frames_read(const char *p, size_t n)
{
	struct interp_frame f;
	size_t used;

	while (interp_frame_get(p, n, &f, &used) > 0) {
		if (used > n || used < f.n || f.p < p || f.p + f.n != p + used)
			abort();
		/* Less than the whole of it is never another frame. */
		if (used > 1 && interp_frame_get(p, used - 1, &f, &used) != 0)
			abort();
		if (interp_frame_get(p, n, &f, &used) != 1)
			abort();
		payload_read(&f);
		p += used;
		n -= used;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *p = (const char *)data, *at;
	size_t keep;

	frames_read(p, size);
	at = interp_mark_find(p, size, "n", &keep);
	if (keep > size || (at && (at <= p || at > p + size)))
		abort();
	if (at)
		frames_read(at, (size_t)(p + size - at));
	return 0;
}
