/*
 * log_split.c - taking the marks out of a log.
 */
#include "wire/log_split.h"

static int flush_held(struct log_split *s, log_split_fn fn, void *arg, struct err *err)
{
	uint8_t bytes[2] = {s->mark, s->mark};
	int n = s->held;
	s->held = 0;
	return n ? fn(arg, s->stream ? s->stream : 1, bytes, (size_t)n, err) : 0;
}

/* Length of the run at p that can't belong to a mark. */
static size_t plain_run(const uint8_t *p, size_t n)
{
	size_t i = 0;
	while (i < n && p[i] != 1 && p[i] != 2)
		i++;
	return i;
}

int log_split_add(struct log_split *s, const uint8_t *p, size_t n, log_split_fn fn, void *arg,
		  struct err *err)
{
	while (n) {
		size_t run = plain_run(p, n);
		if ((run || (s->held && *p != s->mark)) && flush_held(s, fn, arg, err) < 0)
			return -1;
		if (run && fn(arg, s->stream ? s->stream : 1, p, run, err) < 0)
			return -1;
		p += run;
		n -= run;
		if (!n)
			break;
		s->mark = *p;
		if (++s->held == 3) {
			s->stream = s->mark;
			s->held = 0;
		}
		p++;
		n--;
	}
	return 0;
}

int log_split_end(struct log_split *s, log_split_fn fn, void *arg, struct err *err)
{
	return flush_held(s, fn, arg, err);
}
