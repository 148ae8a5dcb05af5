/*
 * progress.c - the progress line.
 */
#include "cli/progress.h"

#include <errno.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/sandbox.h"
#include "cli/table.h"

#define SHOW_EVERY_MS 200
#define SHOW_AFTER_MS 500 /* short work shows nothing */

void progress_begin(struct progress *p, const struct cli *c, const char *label, int64_t total)
{
	*p = (struct progress){.label = label, .total = total, .on = cli_progress(c)};
	p->began_ms = clock_mono_ms();
	p->shown_ms = p->began_ms + SHOW_AFTER_MS - SHOW_EVERY_MS;
}

static void draw(struct progress *p, int64_t now)
{
	char done[TEXT_SHORT], total[TEXT_SHORT] = "", rate[TEXT_SHORT];
	int64_t ms = now > p->began_ms ? now - p->began_ms : 1;
	text_bytes((uint64_t)p->done, done);
	text_bytes((uint64_t)(p->done * 1000 / ms), rate);
	if (p->total > 0)
		text_bytes((uint64_t)p->total, total);
	fputs("\r\033[K", stderr);
	text_print(stderr, p->label);
	if (p->total > 0)
		fprintf(stderr, "  %s of %s  %d %%  %s/s", done, total,
			(int)(p->done * 100 / p->total), rate);
	else
		fprintf(stderr, "  %s  %s/s", done, rate);
	fflush(stderr);
	p->drawn = true;
}

void progress_add(struct progress *p, int64_t bytes)
{
	p->done += bytes;
	if (!p->on)
		return;
	int64_t now = clock_mono_ms();
	if (now - p->shown_ms < SHOW_EVERY_MS)
		return;
	p->shown_ms = now;
	draw(p, now);
}

ssize_t progress_read(struct progress *p, int fd, void *out, size_t cap, struct err *err)
{
	ssize_t n = read(fd, out, cap);
	if (n < 0)
		return err_errno(err, ERR_INTERNAL, errno, "read the tar");
	progress_add(p, n);
	return n;
}

void progress_end(struct progress *p)
{
	if (p->drawn)
		fputs("\r\033[K", stderr);
	p->drawn = p->on = false;
}
