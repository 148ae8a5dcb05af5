/*
 * cgroup_probe.c - which cgroup hierarchies this host mounts, and our tree in each of them.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/path.h"
#include "box/cgroup.h"

static const char *const v1_controller[CG_V1_MAX] = {
	[CG_V1_MEMORY] = "memory",
	[CG_V1_CPU] = "cpu",
	[CG_V1_PIDS] = "pids",
	[CG_V1_DEVICES] = "devices",
};

static const char *const v2_controllers[] = {"cpu", "memory", "pids"};

/* True when the comma or space separated list has exactly this word. */
static bool list_has(const char *list, const char *word)
{
	size_t n = strlen(word);

	for (const char *p = list; *p; p += strcspn(p, ", \n"), p += strspn(p, ", \n")) {
		if (strncmp(p, word, n) == 0 && strchr(", \n", p[n]))
			return true;
	}
	return false;
}

static void probe_line(char *line, struct cg_host *ret, char v1_path[CG_V1_MAX][CG_PATH_MAX])
{
	char *save = NULL;
	char *dev = strtok_r(line, " ", &save);
	char *where = dev ? strtok_r(NULL, " ", &save) : NULL;
	char *fs = where ? strtok_r(NULL, " ", &save) : NULL;
	char *opts = fs ? strtok_r(NULL, " ", &save) : NULL;

	if (!opts || strlen(where) >= CG_PATH_MAX)
		return;
	if (strcmp(fs, "cgroup2") == 0 && !ret->v2_mount[0])
		snprintf(ret->v2_mount, CG_PATH_MAX, "%s", where);
	if (strcmp(fs, "cgroup") != 0)
		return;
	for (int i = 0; i < CG_V1_MAX; i++) {
		if (list_has(opts, v1_controller[i]))
			snprintf(v1_path[i], CG_PATH_MAX, "%s", where);
	}
}

int cg_probe(struct cg_host *ret, char v1_path[CG_V1_MAX][CG_PATH_MAX], struct err *err)
{
	auto_fclose FILE *f = fopen("/proc/self/mounts", "re");
	char line[4096], path[CG_PATH_MAX + 32], text[1024] = "";

	*ret = (struct cg_host){.v2 = -1, .v1 = {-1, -1, -1, -1}};
	memset(v1_path, 0, sizeof(char[CG_V1_MAX][CG_PATH_MAX]));
	if (!f)
		return err_errno(err, ERR_INTERNAL, errno, "open /proc/self/mounts");
	while (fgets(line, sizeof(line), f))
		probe_line(line, ret, v1_path);
	if (!ret->v2_mount[0])
		return err_set(err, ERR_INTERNAL,
			       "no cgroup2 is mounted; mount it at /sys/fs/cgroup/unified");
	ret->layout = CG_LAYOUT_HYBRID;
	for (int i = 0; i < CG_V1_DEVICES; i++) {
		if (v1_path[i][0])
			continue;
		ret->layout = CG_LAYOUT_V2;
	}
	if (ret->layout == CG_LAYOUT_HYBRID)
		return 0;
	snprintf(path, sizeof(path), "%s/cgroup.controllers", ret->v2_mount);
	path_read_at(AT_FDCWD, path, text, sizeof(text), NULL);
	for (size_t i = 0; i < ARRAY_LEN(v2_controllers); i++) {
		if (!list_has(text, v2_controllers[i]))
			return err_set(err, ERR_INTERNAL,
				       "cgroup controller %s is neither in v2 (%s) nor in v1",
				       v2_controllers[i], ret->v2_mount);
	}
	return 0;
}

static int tree_open(const char *mount, const char *tree, struct err *err)
{
	char path[CG_PATH_MAX + 40];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", mount, tree);
	if (mkdir(path, 0755) < 0 && errno != EEXIST)
		return err_errno(err, ERR_INTERNAL, errno, "make cgroup %s", path);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? err_errno(err, ERR_INTERNAL, errno, "open cgroup %s", path) : fd;
}

/* Controllers must be on in the root and in our tree before a sandbox's group has their files. */
static int v2_enable(const char *dir, struct err *err)
{
	char path[CG_PATH_MAX + 80], have[1024] = "";
	auto_close int fd = -1;

	snprintf(path, sizeof(path), "%s/cgroup.subtree_control", dir);
	path_read_at(AT_FDCWD, path, have, sizeof(have), NULL);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return err_errno(err, ERR_INTERNAL, errno, "open %s", path);
	for (size_t i = 0; i < ARRAY_LEN(v2_controllers); i++) {
		char text[32];

		if (list_has(have, v2_controllers[i]))
			continue;
		snprintf(text, sizeof(text), "+%s", v2_controllers[i]);
		if (write(fd, text, strlen(text)) < 0)
			return err_errno(err, ERR_INTERNAL, errno, "enable %s in %s",
					 v2_controllers[i], path);
	}
	return 0;
}

int cg_host_open(struct cg_host *h, const char *instance, struct err *err)
{
	char v1_path[CG_V1_MAX][CG_PATH_MAX], dir[CG_PATH_MAX + 40];

	if (cg_probe(h, v1_path, err) < 0)
		return -1;
	snprintf(h->tree, sizeof(h->tree), "caisson-%s", instance);
	h->v2 = tree_open(h->v2_mount, h->tree, err);
	if (h->v2 < 0)
		return -1;
	if (h->layout == CG_LAYOUT_V2) {
		snprintf(dir, sizeof(dir), "%s/%s", h->v2_mount, h->tree);
		return v2_enable(h->v2_mount, err) < 0 || v2_enable(dir, err) < 0 ? -1 : 0;
	}
	for (int i = 0; i < CG_V1_MAX; i++) {
		if (!v1_path[i][0])
			continue;
		h->v1[i] = tree_open(v1_path[i], h->tree, err);
		if (h->v1[i] < 0)
			return -1;
	}
	return 0;
}

void cg_host_close(struct cg_host *h, bool remove)
{
	int *fds[] = {&h->v2, &h->v1[0], &h->v1[1], &h->v1[2], &h->v1[3]};

	for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
		char up[64];

		if (*fds[i] < 0)
			continue;
		snprintf(up, sizeof(up), "../%s", h->tree);
		if (remove)
			unlinkat(*fds[i], up, AT_REMOVEDIR);
		close(*fds[i]);
		*fds[i] = -1;
	}
}
