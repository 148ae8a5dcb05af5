/*
 * state.c - one line a box in <run_dir>/boxes/<id>/state, for the runner that comes after.
 *
 * The pid counts only with the boot id, the start time of the process and its membership of the
 * cgroup: /run may outlive a reboot, and numbers are reused.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/path.h"
#include "base/sys.h"
#include "box/host.h"

#define STATE_FORMAT "caisson1"
#define STATE_MAX    512

uint64_t proc_start_ticks(pid_t pid)
{
	char path[32], text[1024];
	const char *p;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	if (path_read_at(AT_FDCWD, path, text, sizeof(text), NULL) < 0)
		return 0;
	/* The name may hold anything; the fields after its last ")" start with the state, field 3.
	 */
	p = strrchr(text, ')');
	for (int field = 2; p && field < 22; field++)
		p = strchr(p + 1, ' ');
	return p ? strtoull(p + 1, NULL, 10) : 0;
}

static int state_dir(struct box_host *h, const char *id)
{
	return openat(h->boxes, id, O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
}

int box_save(struct box_host *h, const struct box *b, struct err *err)
{
	char text[STATE_MAX], path[ID_LEN + 8];
	auto_close int fd = -1;
	int n;

	n = snprintf(text, sizeof(text), "%s %s %d %llu %s %u %u %u %u %llu\n", STATE_FORMAT,
		     h->boot_id, b->pid, (unsigned long long)b->start_ticks, b->cg, b->uid_base,
		     b->lease.slot, b->flags, b->cpu_milli, (unsigned long long)b->mem_bytes);
	/* Only the first line counts, so what an earlier, longer text leaves behind it may stay;
	 * cutting it off would make some file systems write the file to disk. */
	snprintf(path, sizeof(path), "%s/state", b->id);
	fd = openat(h->boxes, path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0 || write(fd, text, (size_t)n) != n)
		return err_errno(err, ERR_INTERNAL, errno, "write the state of %s", b->id);
	return 0;
}

static bool state_parse(const char *text, struct box *b, char boot[40])
{
	unsigned long long ticks, mem;
	char format[16], end;
	int n = sscanf(text, "%15s %39s %d %llu %19s %u %u %u %u %llu%c", format, boot, &b->pid,
		       &ticks, b->cg, &b->uid_base, &b->lease.slot, &b->flags, &b->cpu_milli, &mem,
		       &end);

	b->start_ticks = ticks;
	b->mem_bytes = mem;
	return n == 11 && end == '\n' && strcmp(format, STATE_FORMAT) == 0 && b->pid > 1;
}

int box_state_read(struct box_host *h, const char *id, struct box *ret, struct err *err)
{
	auto_close int dir = state_dir(h, id);
	auto_close int pidfd = -1;
	struct box b = {.pidfd = -1, .root = -1};
	char text[STATE_MAX], boot[40] = "";

	if (dir < 0 || path_read_at(dir, "state", text, sizeof(text), NULL) < 0)
		return err_set(err, ERR_NOT_FOUND, "no state of %s", id);
	snprintf(b.id, sizeof(b.id), "%s", id);
	if (!state_parse(text, &b, boot))
		return err_set(err, ERR_INVALID, "the state file of %s is damaged", id);
	if (strcmp(boot, h->boot_id) != 0)
		return err_set(err, ERR_GONE, "%s ended with an earlier boot", id);
	/* The pidfd first: what is checked afterwards is then true of the process it names. */
	pidfd = sys_pidfd_open(b.pid, 0);
	if (pidfd < 0 || proc_start_ticks(b.pid) != b.start_ticks ||
	    !cg_contains(&h->cg, b.cg, b.pid))
		return err_set(err, ERR_GONE, "%s has ended", id);
	b.pidfd = TAKE_FD(pidfd);
	*ret = b;
	return 0;
}
