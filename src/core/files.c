/*
 * files.c - files in a sandbox, through its agent, as the sandbox's user.
 *
 * Relative paths start at the working directory: the image's, else the user's home. The agent
 * resolves inside its root; nothing here touches a path of the host.
 */
#include <string.h>

#include "core/files_int.h"

#define LOST_LOOKS    5
#define LOST_PAUSE_MS 20

void file_at_done(struct file_at *f)
{
	sandbox_row_done(&f->row);
}

/* Home directory of the sandbox's user; asked once per start. */
static int home_of(struct core *c, const struct sandbox_row *row, const char *agent,
		   char out[AGENT_PATH_MAX], struct err *err)
{
	struct slot *s = slot_get(c, row->s.id);
	struct agent_user u;
	bool have;
	int rc = 0;

	pthread_mutex_lock(&c->slots.lock);
	have = s->home && strcmp(s->home_user, row->s.user) == 0;
	if (have)
		snprintf(out, AGENT_PATH_MAX, "%s", s->home);
	pthread_mutex_unlock(&c->slots.lock);
	if (!have) {
		rc = agent_user(agent, row->s.user, &u, err);
		if (rc == 0) {
			snprintf(out, AGENT_PATH_MAX, "%s", u.home[0] == '/' ? u.home : "/");
			pthread_mutex_lock(&c->slots.lock);
			free(s->home);
			free(s->home_user);
			s->home = strdup(out);
			s->home_user = s->home ? strdup(row->s.user) : NULL;
			if (!s->home_user) {
				free(s->home);
				s->home = NULL;
			}
			pthread_mutex_unlock(&c->slots.lock);
		}
	}
	slot_put(c, s);
	return rc;
}

static int workdir_of(struct core *c, const struct sandbox_row *row, const char *agent,
		      char out[AGENT_PATH_MAX], struct err *err)
{
	if (!row->s.workdir[0])
		return home_of(c, row, agent, out, err);
	snprintf(out, AGENT_PATH_MAX, "%s", row->s.workdir);
	return 0;
}

int path_of(struct core *c, const struct sandbox_row *row, const char *agent, const char *path,
	    char out[AGENT_PATH_MAX], struct err *err)
{
	char dir[AGENT_PATH_MAX];
	int n;

	if (valid_path(path, err) < 0)
		return -1;
	if (path[0] == '/') {
		snprintf(out, AGENT_PATH_MAX, "%s", path);
		return 0;
	}
	if (workdir_of(c, row, agent, dir, err) < 0)
		return -1;
	n = snprintf(out, AGENT_PATH_MAX, "%s/%s", strcmp(dir, "/") ? dir : "", path);
	if (n >= AGENT_PATH_MAX)
		return err_tagged(err, ERR_INVALID, "INVALID_FILE_PATH",
				  "path: must be at most %d bytes with the working directory",
				  AGENT_PATH_MAX - 1);
	return 0;
}

int agent_failed(struct core *c, const struct caller *who, const char *id, struct err *err)
{
	struct err why = {0};

	/* An error that came from inside is the answer; a lost agent may mean a lost sandbox, and
	 * the news of that may be a moment behind. */
	if (err && err->code != ERR_AGENT && err->code != ERR_UNAVAILABLE && err->code != ERR_GONE)
		return -1;
	for (int i = 0; i < LOST_LOOKS; i++) {
		auto_row struct sandbox_row row = {0};

		if (row_started(c, who, id, &row, &why) < 0) {
			if (err)
				*err = why;
			return -1;
		}
		usleep(LOST_PAUSE_MS * 1000);
	}
	return -1;
}

int file_begin(struct core *c, const struct caller *who, const char *id, const char *path,
	       struct file_at *f, struct err *err)
{
	if (path && valid_path(path, err) < 0)
		return -1;
	if (row_agent(c, who, id, &f->row, f->agent, err) < 0)
		return -1;
	slot_touch(c, f->row.s.id);
	if ((path ? path_of(c, &f->row, f->agent, path, f->path, err)
		  : workdir_of(c, &f->row, f->agent, f->path, err)) < 0)
		return agent_failed(c, who, id, err);
	return 0;
}

int file_stat(struct core *c, const struct caller *who, const char *id, const char *path,
	      struct agent_info *ret, struct err *err)
{
	auto_file struct file_at f = {0};

	if (file_begin(c, who, id, path, &f, err) < 0)
		return -1;
	if (agent_stat(f.agent, f.row.s.user, f.path, true, ret, err) < 0)
		return agent_failed(c, who, id, err);
	return 0;
}

int file_list(struct core *c, const struct caller *who, const char *id, const char *path,
	      uint32_t depth, agent_list_fn fn, void *arg, bool *ret_more, struct err *err)
{
	auto_file struct file_at f = {0};

	if (depth < 1)
		return err_set(err, ERR_INVALID, "depth: must be 1 or more");
	if (file_begin(c, who, id, path && path[0] ? path : NULL, &f, err) < 0)
		return -1;
	if (agent_list(f.agent, f.row.s.user, f.path, depth, AGENT_LIST_MAX, fn, arg, ret_more,
		       err) < 0)
		return agent_failed(c, who, id, err);
	return 0;
}

int file_open(struct core *c, const struct caller *who, const char *id, const char *path,
	      uint32_t flags, mode_t mode, struct agent_info *ret, struct err *err)
{
	auto_file struct file_at f = {0};
	int fd;

	if (file_begin(c, who, id, path, &f, err) < 0)
		return -1;
	fd = agent_open(f.agent, f.row.s.user, f.path, flags, mode, ret, err);
	return fd < 0 ? agent_failed(c, who, id, err) : fd;
}

int file_mkdir(struct core *c, const struct caller *who, const char *id, const char *path,
	       mode_t mode, struct err *err)
{
	auto_file struct file_at f = {0};

	if (file_begin(c, who, id, path, &f, err) < 0)
		return -1;
	if (agent_mkdir(f.agent, f.row.s.user, f.path, mode, true, err) < 0)
		return agent_failed(c, who, id, err);
	return 0;
}

int file_move(struct core *c, const struct caller *who, const char *id, const char *from,
	      const char *to, struct err *err)
{
	auto_file struct file_at f = {0};
	char dst[AGENT_PATH_MAX];

	if (file_begin(c, who, id, from, &f, err) < 0 ||
	    path_of(c, &f.row, f.agent, to, dst, err) < 0)
		return -1;
	if (agent_rename(f.agent, f.row.s.user, f.path, dst, err) < 0)
		return agent_failed(c, who, id, err);
	return 0;
}

int file_remove(struct core *c, const struct caller *who, const char *id, const char *path,
		bool recursive, struct err *err)
{
	auto_file struct file_at f = {0};

	if (file_begin(c, who, id, path, &f, err) < 0)
		return -1;
	if (agent_remove(f.agent, f.row.s.user, f.path, recursive, err) < 0)
		return agent_failed(c, who, id, err);
	return 0;
}

int file_setattr(struct core *c, const struct caller *who, const char *id, const char *path,
		 const mode_t *mode, const char *owner, const char *group, struct err *err)
{
	auto_file struct file_at f = {0};

	if (file_begin(c, who, id, path, &f, err) < 0)
		return -1;
	if (agent_setattr(f.agent, f.row.s.user, f.path, mode, owner ? owner : "",
			  group ? group : "", err) < 0)
		return agent_failed(c, who, id, err);
	return 0;
}

static int dir_copy(const char *dir, char *out, size_t cap, struct err *err)
{
	int n = snprintf(out, cap, "%s", dir);

	return n < 0 || (size_t)n >= cap ? err_set(err, ERR_TOO_LARGE, "path is too long") : 0;
}

int sandbox_home(struct core *c, const struct caller *who, const char *id, char *out, size_t cap,
		 struct err *err)
{
	auto_file struct file_at f = {0};
	char dir[AGENT_PATH_MAX];

	if (file_begin(c, who, id, "/", &f, err) < 0)
		return -1;
	if (home_of(c, &f.row, f.agent, dir, err) < 0)
		return agent_failed(c, who, id, err);
	return dir_copy(dir, out, cap, err);
}

int sandbox_workdir(struct core *c, const struct caller *who, const char *id, char *out, size_t cap,
		    struct err *err)
{
	auto_file struct file_at f = {0};

	if (file_begin(c, who, id, NULL, &f, err) < 0)
		return -1;
	return dir_copy(f.path, out, cap, err);
}
