/*
 * launcher.c - a thread that can start boxes: own mount namespace, own stack for children, and
 * credentials that may take on a box's file ids without losing capabilities.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include "base/log.h"
#include "base/path.h"
#include "base/sys.h"
#include "box/host.h"

#define LAUNCHER_MOUNTS_MAX 2048 /* looked at when trimming */

/* CAP_SYS_RESOURCE lets writes ignore quotas and reserves; the overlay must not inherit it. */
static int launcher_caps(struct err *err)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2];

	if (syscall(SYS_capget, &head, data) < 0)
		return err_errno(err, ERR_INTERNAL, errno, "read capabilities");
	data[0].effective &= ~(1u << CAP_SYS_RESOURCE);
	data[0].permitted &= ~(1u << CAP_SYS_RESOURCE);
	data[0].inheritable = data[1].inheritable = 0;
	if (syscall(SYS_capset, &head, data) < 0)
		return err_errno(err, ERR_INTERNAL, errno, "drop CAP_SYS_RESOURCE");
	/* File ids change with every start; capabilities stay. */
	if (prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP) < 0)
		return err_errno(err, ERR_INTERNAL, errno, "set secure bits");
	return 0;
}

static int launcher_dir(const char *path, const char *sub, struct err *err)
{
	char full[PATH_MAX];
	int fd;

	snprintf(full, sizeof(full), "%s%s%s", path, sub ? "/" : "", sub ? sub : "");
	fd = open(full, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? err_errno(err, ERR_INTERNAL, errno, "open %s", full) : fd;
}

static int launcher_room(struct box_launcher *l, struct err *err)
{
	void *stack = mmap(NULL, CHILD_STACK_SIZE, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE | MAP_STACK, -1, 0);

	l->child = calloc(1, sizeof(*l->child));
	l->text = calloc(1, sizeof(*l->text));
	l->stack = stack == MAP_FAILED ? NULL : stack;
	if (!l->child || !l->text || !l->stack)
		return err_set(err, ERR_NOMEM, "out of memory for a child's stack");
	return 0;
}

void launcher_abandon(struct box_launcher *l)
{
	struct err err = {0};

	if (launcher_room(l, &err) < 0)
		log_error("%s", err.msg);
}

/* True when path is where or lies below it. */
static bool path_below(const char *path, const char *where)
{
	size_t n = strlen(where);

	return strcmp(where, "/") == 0 ||
	       (strncmp(path, where, n) == 0 && (path[n] == '/' || path[n] == '\0'));
}

/*
 * Every mount of this namespace is copied for each child and thrown away after its pivot_root, so
 * those that no start needs go. Last mounted first, or a parent would be busy; what stays is what
 * lies on the way to one of the paths, and proc, without which the child may not mount its own.
 */
static void launcher_trim(const struct box_host *h)
{
	const char *const need[] = {h->cfg.run_dir, h->cfg.data_dir, h->cfg.layers_dir,
				    h->cg.v2_mount, "/proc"};
	auto_fclose FILE *f = fopen("/proc/thread-self/mounts", "re");
	char line[PATH_MAX + 256], *where[LAUNCHER_MOUNTS_MAX];
	char real[ARRAY_LEN(need)][PATH_MAX];
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_LEN(need); i++) {
		if (!realpath(need[i], real[i]))
			return;
	}
	while (f && n < LAUNCHER_MOUNTS_MAX && fgets(line, sizeof(line), f)) {
		char *at = strchr(line, ' '), *end = at ? strchr(at + 1, ' ') : NULL;

		/* Names with escapes are left alone: they are rare, and staying is always safe. */
		if (end && !memchr(at, '\\', (size_t)(end - at)))
			where[n++] = strndup(at + 1, (size_t)(end - at - 1));
	}
	while (n--) {
		bool keep = !where[n];

		for (size_t i = 0; i < ARRAY_LEN(need) && !keep; i++)
			keep = path_below(real[i], where[n]);
		if (!keep)
			umount2(where[n], MNT_DETACH | UMOUNT_NOFOLLOW);
		free(where[n]);
	}
}

static int launcher_prepare(struct box_launcher *l, struct err *err)
{
	const struct box_config *cfg = &l->host->cfg;

	if (unshare(CLONE_FS | CLONE_NEWNS) < 0 ||
	    mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) < 0)
		return err_errno(err, ERR_INTERNAL, errno, "make a mount namespace");
	umask(0);
	launcher_trim(l->host);
	/* Mounts can be cloned only when found in the own namespace: open everything again. */
	l->boxes = launcher_dir(cfg->data_dir, "boxes", err);
	if (l->boxes < 0)
		return -1;
	l->layers = launcher_dir(cfg->layers_dir, NULL, err);
	if (l->layers < 0)
		return -1;
	l->v2 = launcher_dir(l->host->cg.v2_mount, l->host->cg.tree, err);
	if (l->v2 < 0)
		return -1;
	l->netns = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
	if (l->netns < 0)
		return err_errno(err, ERR_INTERNAL, errno, "open the network namespace");
	snprintf(l->stage, sizeof(l->stage), "%s/stage/l%d", cfg->run_dir, gettid());
	if (mkdir(l->stage, 0700) < 0 && errno != EEXIST)
		return err_errno(err, ERR_INTERNAL, errno, "make %s", l->stage);
	if (launcher_room(l, err) < 0)
		return -1;
	return launcher_caps(err);
}

struct box_launcher *box_launcher_open(struct box_host *h, struct err *err)
{
	struct box_launcher *l = calloc(1, sizeof(*l));

	if (!l) {
		err_set(err, ERR_NOMEM, "out of memory");
		return NULL;
	}
	l->host = h;
	l->boxes = l->layers = l->v2 = l->netns = -1;
	if (launcher_prepare(l, err) < 0) {
		box_launcher_close(l);
		return NULL;
	}
	return l;
}

void box_launcher_close(struct box_launcher *l)
{
	int *fd[] = {&l->boxes, &l->layers, &l->v2, &l->netns};

	for (size_t i = 0; i < ARRAY_LEN(fd); i++) {
		if (*fd[i] >= 0)
			close(*fd[i]);
	}
	if (l->stage[0])
		path_remove_tree(AT_FDCWD, l->stage, NULL);
	if (l->stack)
		munmap(l->stack, CHILD_STACK_SIZE);
	free(l->child);
	free(l->text);
	free(l);
}
