/*
 * rootfs.c - see rootfs.h.
 */
#include "box/rootfs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/path.h"
#include "base/sys.h"

#define ROOTFS_PATH_MAX 256

/* Sources of one overlay: idmapped clones of the layers, and of the directory with the upper. */
/* The clones themselves are owned by l->child->spent from birth. */
struct sources {
	int layer[PRIV_LAYERS_MAX];
	size_t nlayers;
	int box, upper, work;
};

static void sources_done(struct sources *s)
{
	if (s->upper >= 0)
		close(s->upper);
	if (s->work >= 0)
		close(s->work);
}
#define auto_sources auto_call(sources_done)

static int source_open(int dir, const char *name, int userns, uint64_t attrs, struct err *err)
{
	struct mount_attr attr = {.attr_set = MOUNT_ATTR_IDMAP | MOUNT_ATTR_NODEV | attrs,
				  .propagation = MS_PRIVATE,
				  .userns_fd = (uint64_t)userns};
	auto_close int fd =
		sys_open_tree(dir, name, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_SYMLINK_NOFOLLOW);

	if (fd < 0)
		return err_errno(err, errno == ENOENT ? ERR_NOT_FOUND : ERR_INTERNAL, errno,
				 "open layer %s", name);
	if (sys_mount_setattr(fd, "", AT_EMPTY_PATH, &attr) < 0)
		return err_errno(err, ERR_INTERNAL, errno, "map the ids of layer %s", name);
	return TAKE_FD(fd);
}

static int sources_open(struct box_launcher *l, const struct box_spec *s, int userns,
			struct sources *src, struct err *err)
{
	for (size_t i = 0; i < s->nlayers; i++) {
		int fd = source_open(l->layers, s->layer[i], userns, MOUNT_ATTR_RDONLY, err);

		if (fd < 0)
			return -1;
		src->layer[src->nlayers++] = fd;
		l->child->spent[l->child->nspent++] = fd;
	}
	src->box = source_open(l->boxes, s->id, userns, 0, err);
	if (src->box < 0)
		return -1;
	l->child->spent[l->child->nspent++] = src->box;
	src->upper = openat(src->box, "upper", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	src->work = openat(src->box, "work", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (src->upper < 0 || src->work < 0)
		return err_errno(err, ERR_NOT_FOUND, errno, "open the upper of %s", s->id);
	return 0;
}

static int overlay_by_fd(int fs, const struct sources *src)
{
	for (size_t i = 0; i < src->nlayers; i++) {
		if (sys_fsconfig(fs, FSCONFIG_SET_FD, "lowerdir+", NULL, src->layer[i]) < 0)
			return -1;
	}
	if (sys_fsconfig(fs, FSCONFIG_SET_FD, "upperdir", NULL, src->upper) < 0)
		return -1;
	return sys_fsconfig(fs, FSCONFIG_SET_FD, "workdir", NULL, src->work);
}

/*
 * Before Linux 6.13 overlay takes paths alone, and clones only mounts that are attached: hang the
 * idmapped clones below our own directory in this thread's mount namespace, where no other process
 * sees them, and take them off once the overlay has its own clones.
 */
static int overlay_attach(struct box_launcher *l, const struct sources *src, size_t *ret_n,
			  struct err *err)
{
	for (size_t i = 0; i <= src->nlayers; i++) {
		int fd = i < src->nlayers ? src->layer[i] : src->box;
		char path[ROOTFS_PATH_MAX];

		snprintf(path, sizeof(path), "%s/%zu", l->stage, i);
		if (mkdir(path, 0700) < 0 && errno != EEXIST)
			return err_errno(err, ERR_INTERNAL, errno, "make %s", path);
		if (sys_move_mount(fd, "", AT_FDCWD, path, MOVE_MOUNT_F_EMPTY_PATH) < 0)
			return err_errno(err, ERR_INTERNAL, errno, "attach a layer to %s", path);
		*ret_n = i + 1;
	}
	return 0;
}

static void overlay_detach(struct box_launcher *l, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		char path[ROOTFS_PATH_MAX];

		snprintf(path, sizeof(path), "%s/%zu", l->stage, i);
		umount2(path, MNT_DETACH | UMOUNT_NOFOLLOW);
	}
}

static int overlay_by_path(struct box_launcher *l, int fs, const struct sources *src)
{
	char path[ROOTFS_PATH_MAX], list[PRIV_LAYERS_MAX * 8 + ROOTFS_PATH_MAX];
	size_t n = 0;

	/* Relative to the stage: 48 absolute paths would not fit into one option of 256 bytes. */
	if (chdir(l->stage) < 0)
		return -1;
	for (size_t i = 0; i < src->nlayers; i++)
		n += (size_t)snprintf(list + n, sizeof(list) - n, "%s%zu", i ? ":" : "", i);
	if (sys_fsconfig(fs, FSCONFIG_SET_STRING, "lowerdir", list, 0) < 0)
		return -1;
	snprintf(path, sizeof(path), "%zu/upper", src->nlayers);
	if (sys_fsconfig(fs, FSCONFIG_SET_STRING, "upperdir", path, 0) < 0)
		return -1;
	snprintf(path, sizeof(path), "%zu/work", src->nlayers);
	return sys_fsconfig(fs, FSCONFIG_SET_STRING, "workdir", path, 0);
}

/* An overlay that could not use its work directory comes up read-only without an error. */
static int overlay_check(int mnt, const char *id, struct err *err)
{
	struct statvfs st;

	if (fstatvfs(mnt, &st) < 0)
		return err_errno(err, ERR_INTERNAL, errno, "stat the overlay of %s", id);
	if (st.f_flag & ST_RDONLY)
		return err_set(err, ERR_INTERNAL, "the overlay of %s came up read-only", id);
	return 0;
}

static int overlay_create(int fs, bool durable, struct err *err)
{
	static const char *const off[] = {"redirect_dir", "metacopy", "index"};

	if (sys_fsconfig(fs, FSCONFIG_SET_STRING, "source", "overlay", 0) < 0)
		return err_errno(err, ERR_INTERNAL, errno, "overlay source");

	for (size_t i = 0; i < ARRAY_LEN(off); i++) {
		if (sys_fsconfig(fs, FSCONFIG_SET_STRING, off[i], "off", 0) < 0)
			return err_errno(err, ERR_INTERNAL, errno, "overlay option %s", off[i]);
	}
	if (!durable && sys_fsconfig(fs, FSCONFIG_SET_FLAG, "volatile", NULL, 0) < 0)
		return err_errno(err, ERR_INTERNAL, errno, "overlay option volatile");
	if (sys_fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return err_errno(err, ERR_INTERNAL, errno, "create the overlay");
	return 0;
}

static void spent_close(struct child *c)
{
	while (c->nspent)
		close(c->spent[--c->nspent]);
}

static int overlay_build(struct box_launcher *l, const struct box_spec *s,
			 const struct sources *src, struct err *err)
{
	auto_close int fs = sys_fsopen("overlay", FSOPEN_CLOEXEC);
	auto_close int mnt = -1;
	bool by_path = (sys_forced_enosys & SYS_BIT_LOWERDIR_FD) != 0;
	size_t attached = 0;
	int rc = 0;

	if (fs < 0)
		return err_errno(err, ERR_INTERNAL, errno, "open an overlay");
	if (!by_path && overlay_by_fd(fs, src) < 0) {
		/* A half-configured context can't start over. */
		close(fs);
		fs = sys_fsopen("overlay", FSOPEN_CLOEXEC);
		by_path = true;
	}
	if (by_path && overlay_attach(l, src, &attached, err) < 0)
		rc = -1;
	if (by_path && rc == 0 && overlay_by_path(l, fs, src) < 0)
		rc = err_errno(err, ERR_INTERNAL, errno, "name the layers of %s", s->id);
	if (rc == 0)
		rc = overlay_create(fs, l->host->cfg.durable, err);
	overlay_detach(l, attached);
	if (attached)
		spent_close(l->child); /* no longer detached mounts: nothing to move */
	if (rc < 0)
		return -1;
	mnt = sys_fsmount(fs, FSMOUNT_CLOEXEC, MOUNT_ATTR_NODEV);
	if (mnt < 0)
		return err_errno(err, ERR_INTERNAL, errno, "mount the overlay of %s", s->id);
	return overlay_check(mnt, s->id, err) < 0 ? -1 : TAKE_FD(mnt);
}

/* A directory of the root by one real name, or what stands there makes way for one. */
static int point_dir(int root, const char *name, struct err *err)
{
	for (int try = 0; try < 2; try++) {
		int fd = openat(root, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

		if (fd >= 0)
			return fd;
		if (errno != ENOENT && unlinkat(root, name, 0) < 0)
			return err_errno(err, ERR_INTERNAL, errno, "replace /%s", name);
		if (mkdirat(root, name, 0755) < 0)
			return err_errno(err, ERR_INTERNAL, errno, "make /%s", name);
	}
	return err_set(err, ERR_INTERNAL, "/%s can't be made a directory", name);
}

/* /etc may be a link that stays inside; one that leads nowhere is replaced. */
static int point_etc(int root, struct err *err)
{
	int fd = path_open_in(root, "etc", O_PATH | O_DIRECTORY, 0, NULL);

	return fd >= 0 ? fd : point_dir(root, "etc", err);
}

static int point_file(int dir, const char *name, struct err *err)
{
	int fd = openat(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
		return fd;
	if (fd >= 0) {
		int flags = S_ISDIR(st.st_mode) ? AT_REMOVEDIR : 0;

		close(fd);
		if (unlinkat(dir, name, flags) < 0)
			return err_errno(err, ERR_INTERNAL, errno, "replace /etc/%s", name);
	}
	fd = openat(dir, name, O_RDONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	return fd < 0 ? err_errno(err, ERR_INTERNAL, errno, "make /etc/%s", name) : fd;
}

static int points_open(struct child *c, struct err *err)
{
	static const struct {
		enum child_fd fd;
		const char *name;
	} dir[] = {{CFD_AT_DEV, "dev"}, {CFD_AT_PROC, "proc"}, {CFD_AT_SYS, "sys"}},
	  file[] = {{CFD_AT_HOSTS, "hosts"},
		    {CFD_AT_HOSTNAME, "hostname"},
		    {CFD_AT_RESOLV, "resolv.conf"}};
	auto_close int etc = -1;

	for (size_t i = 0; i < ARRAY_LEN(dir); i++) {
		c->fd[dir[i].fd] = point_dir(c->fd[CFD_ROOT], dir[i].name, err);
		if (c->fd[dir[i].fd] < 0)
			return -1;
	}
	etc = point_etc(c->fd[CFD_ROOT], err);
	if (etc < 0)
		return -1;
	for (size_t i = 0; i < ARRAY_LEN(file); i++) {
		c->fd[file[i].fd] = point_file(etc, file[i].name, err);
		if (c->fd[file[i].fd] < 0)
			return -1;
	}
	return 0;
}

int rootfs_build(struct box_launcher *l, const struct box_spec *s, int userns, struct err *err)
{
	auto_sources struct sources src = {.box = -1, .upper = -1, .work = -1};

	if (sources_open(l, s, userns, &src, err) < 0)
		return -1;
	l->child->fd[CFD_ROOT] = overlay_build(l, s, &src, err);
	if (l->child->fd[CFD_ROOT] < 0)
		return -1;
	return points_open(l->child, err);
}
