/*
 * files_watch.c - changes of files in a sandbox as they come. See caisson/files.h.
 */
#include <string.h>

#include "core/files_int.h"

struct file_watch {
	struct core *core;
	struct caller who;
	char id[ID_LEN];
	int fd;
};

struct file_watch *file_watch_open(struct core *c, const struct caller *who, const char *id,
				   const char *path, bool recursive, struct err *err)
{
	auto_file struct file_at f = {0};
	struct file_watch *w;
	int fd;

	if (file_begin(c, who, id, path, &f, err) < 0)
		return NULL;
	fd = agent_watch(f.agent, f.row.s.user, f.path, recursive, err);
	if (fd < 0) {
		agent_failed(c, who, id, err);
		return NULL;
	}
	w = malloc(sizeof(*w));
	if (!w) {
		close(fd);
		err_set(err, ERR_NOMEM, "out of memory");
		return NULL;
	}
	*w = (struct file_watch){.core = c, .who = *who, .fd = fd};
	memcpy(w->id, f.row.s.id, ID_LEN);
	return w;
}

int file_watch_next(struct file_watch *w, int client, int64_t deadline_ms, agent_event_fn fn,
		    void *arg, bool *ret_over, struct err *err)
{
	int got = agent_watch_next(w->fd, client, deadline_ms, fn, arg, ret_over, err);

	return got < 0 ? agent_failed(w->core, &w->who, w->id, err) : got;
}

void file_watch_free(struct file_watch *w)
{
	if (!w)
		return;
	close(w->fd);
	free(w);
}
