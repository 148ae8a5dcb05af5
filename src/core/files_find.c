/*
 * files_find.c - searching in a sandbox. See caisson/files.h.
 */
#include <string.h>

#include "base/glob.h"
#include "core/files_int.h"

static int pattern_valid(const char *pattern, struct err *err)
{
	if (!*pattern || strlen(pattern) > AGENT_PATTERN_MAX || strchr(pattern, '\n'))
		return err_set(err, ERR_INVALID, "pattern: must be one line of 1 to %u bytes",
			       AGENT_PATTERN_MAX);
	return 0;
}

int file_find(struct core *c, const struct caller *who, const char *id, const char *path,
	      const char *pattern, int client, agent_match_fn fn, void *arg, bool *ret_more,
	      struct err *err)
{
	auto_file struct file_at f = {0};

	if (pattern_valid(pattern, err) < 0 || file_begin(c, who, id, path, &f, err) < 0)
		return -1;
	if (agent_find(f.agent, f.row.s.user, f.path, pattern, AGENT_FIND_MAX, client, fn, arg,
		       ret_more, err) < 0)
		return agent_failed(c, who, id, err);
	return 0;
}

int file_search(struct core *c, const struct caller *who, const char *id, const char *path,
		const char *pattern, int client, agent_name_fn fn, void *arg, bool *ret_more,
		struct err *err)
{
	auto_file struct file_at f = {0};

	if (pattern_valid(pattern, err) < 0)
		return -1;
	if (!glob_valid(pattern))
		return err_set(err, ERR_INVALID, "pattern: a [ set is not closed or a \\ ends it");
	if (file_begin(c, who, id, path, &f, err) < 0)
		return -1;
	if (agent_search(f.agent, f.row.s.user, f.path, pattern, AGENT_LIST_MAX, client, fn, arg,
			 ret_more, err) < 0)
		return agent_failed(c, who, id, err);
	return 0;
}
