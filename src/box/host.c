/*
 * host.c - what all boxes of a daemon share, opened once.
 */
#include "box/host.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/path.h"
#include "base/sys.h"
#include "wire/agent_proto.h"

#define HOST_INIT_MAX (16u << 20)

static char *text_copy(const char *s)
{
	return s ? strdup(s) : NULL;
}

static int host_config(struct box_host *h, const struct box_config *cfg, struct err *err)
{
	h->cfg = *cfg;
	h->cfg.instance = text_copy(cfg->instance);
	h->cfg.data_dir = text_copy(cfg->data_dir);
	h->cfg.run_dir = text_copy(cfg->run_dir);
	h->cfg.run_root = text_copy(cfg->run_root);
	h->cfg.layers_dir = text_copy(cfg->layers_dir);
	h->cfg.init_path = text_copy(cfg->init_path);
	if (!h->cfg.instance || !h->cfg.data_dir || !h->cfg.run_dir || !h->cfg.run_root ||
	    !h->cfg.layers_dir || !h->cfg.init_path)
		return err_set(err, ERR_NOMEM, "out of memory");
	snprintf(h->stage_root, sizeof(h->stage_root), "%s/stage/root", cfg->run_dir);
	snprintf(h->stage_files, sizeof(h->stage_files), "%s/stage/files", cfg->run_dir);
	if (strlen(cfg->run_dir) > 64)
		return err_set(err, ERR_INVALID, "run directory %s: longer than 64 bytes",
			       cfg->run_dir);
	return 0;
}

/*
 * Another program in its place would make every create fail. A static one, since the box has no
 * interpreter for it; by that a daemon, which holds the marker too, is refused as well.
 */
static bool init_is_ours(const char *p, size_t n)
{
	const Elf64_Ehdr *e = (const Elf64_Ehdr *)(const void *)p;
	const Elf64_Phdr *ph;

	if (n < sizeof(*e) || memcmp(p, ELFMAG, SELFMAG) != 0 || p[EI_CLASS] != ELFCLASS64 ||
	    e->e_phentsize != sizeof(*ph) || e->e_phoff > n || e->e_phoff % _Alignof(Elf64_Phdr) ||
	    e->e_phnum > (n - e->e_phoff) / sizeof(*ph))
		return false;
	ph = (const Elf64_Phdr *)(const void *)(p + e->e_phoff);
	for (size_t i = 0; i < e->e_phnum; i++)
		if (ph[i].p_type == PT_INTERP)
			return false;
	return memmem(p, n, AGENT_MARKER, sizeof(AGENT_MARKER) - 1) != NULL;
}

static int init_check(int fd, size_t size, const char *path, struct err *err)
{
	char *p = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
	bool ours;

	if (p == MAP_FAILED)
		return err_errno(err, ERR_NOMEM, errno, "read %s", path);
	ours = init_is_ours(p, size);
	munmap(p, size);
	return ours ? 0
		    : err_set(err, ERR_INVALID,
			      "init-path: %s is not the caisson-init of this "
			      "version",
			      path);
}

/* A private, sealed copy: what a box can see of pid 1's file is nothing the host ever reads. */
static int host_init_copy(struct box_host *h, struct err *err)
{
	auto_close int src = open(h->cfg.init_path, O_RDONLY | O_CLOEXEC);
	auto_close int rw = -1;
	struct stat st;
	char path[64];

	if (src < 0 || fstat(src, &st) < 0)
		return err_errno(err, ERR_INTERNAL, errno, "open %s", h->cfg.init_path);
	if (st.st_size <= 0 || st.st_size > (off_t)HOST_INIT_MAX)
		return err_set(err, ERR_INTERNAL, "%s has an unlikely size", h->cfg.init_path);
	rw = memfd_create("caisson-init", MFD_CLOEXEC | MFD_ALLOW_SEALING | 0x10 /* MFD_EXEC */);
	if (rw < 0 && errno == EINVAL)
		rw = memfd_create("caisson-init", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (rw < 0)
		return err_errno(err, ERR_INTERNAL, errno, "copy %s", h->cfg.init_path);
	for (off_t at = 0; at < st.st_size;) {
		char chunk[65536];
		ssize_t n = pread(src, chunk, sizeof(chunk), at);

		if (n <= 0)
			return err_errno(err, ERR_INTERNAL, errno, "read %s", h->cfg.init_path);
		if (fd_write_all(rw, chunk, (size_t)n, 0, err) < 0)
			return err_wrap(err, "copy %s", h->cfg.init_path);
		at += n;
	}
	if (fchmod(rw, 0555) < 0 ||
	    fcntl(rw, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
		return err_errno(err, ERR_INTERNAL, errno, "seal caisson-init");
	/* An open writer makes the exec fail with ETXTBSY. */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", rw);
	h->init = open(path, O_RDONLY | O_CLOEXEC);
	if (h->init < 0)
		return err_errno(err, ERR_INTERNAL, errno, "reopen caisson-init");
	return init_check(h->init, (size_t)st.st_size, h->cfg.init_path, err);
}

static int host_make_dir(const char *path, mode_t mode, struct err *err)
{
	auto_close int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	auto_close int fd = path_mkdirs_in(root, path, mode, err);

	if (fd < 0)
		return -1;
	return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static int host_dirs(struct box_host *h, struct err *err)
{
	static const char *const sub[] = {"boxes", "stage", "stage/root", "stage/files"};

	h->run = host_make_dir(h->cfg.run_dir, 0711, err);
	if (h->run < 0)
		return -1;
	if (fchmod(h->run, 0711) < 0)
		return err_errno(err, ERR_INTERNAL, errno, "chmod %s", h->cfg.run_dir);
	for (size_t i = 0; i < ARRAY_LEN(sub); i++) {
		/* The child, already a stranger here, walks to the stage: x for others. */
		if ((mkdirat(h->run, sub[i], 0711) < 0 && errno != EEXIST) ||
		    fchmodat(h->run, sub[i], 0711, 0) < 0)
			return err_errno(err, ERR_INTERNAL, errno, "make %s/%s", h->cfg.run_dir,
					 sub[i]);
	}
	h->boxes = openat(h->run, "boxes", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (h->boxes < 0)
		return err_errno(err, ERR_INTERNAL, errno, "open %s/boxes", h->cfg.run_dir);
	path_spread(h->boxes);
	return 0;
}

/* Masks are bound only where this kernel has something to mask. */
static void host_masks(struct box_host *h)
{
	for (const struct child_mask *m = child_masks; m->path; m++) {
		char path[128];

		snprintf(path, sizeof(path), "/%s/%s", m->where == IN_PROC ? "proc" : "sys",
			 m->path);
		if (h->nmasks < CHILD_MASKS_MAX && access(path, F_OK) == 0)
			h->mask[h->nmasks++] = m;
	}
}

/* Another instance is busy while its tree in v2 holds a process. */
static bool host_instance_busy(void *arg, const char *instance)
{
	struct box_host *h = arg;
	char path[CG_PATH_MAX + 64], text[256];

	if (strlen(instance) != 8 || strspn(instance, "0123456789abcdef") != 8)
		return false;
	snprintf(path, sizeof(path), "%s/caisson-%s/cgroup.events", h->cg.v2_mount, instance);
	if (path_read_at(AT_FDCWD, path, text, sizeof(text), NULL) < 0)
		return false;
	return strstr(text, "populated 1") != NULL;
}

static int host_open(struct box_host *h, const struct box_config *cfg, struct err *err)
{
	auto_close int data = -1;

	if (host_config(h, cfg, err) < 0)
		return -1;
	if (path_read_at(AT_FDCWD, "/proc/sys/kernel/random/boot_id", h->boot_id,
			 sizeof(h->boot_id), err) < 0)
		return -1;
	h->boot_id[strcspn(h->boot_id, "\n")] = '\0';
	if (host_dirs(h, err) < 0 || host_init_copy(h, err) < 0)
		return -1;
	data = open(cfg->data_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (data < 0)
		return err_errno(err, ERR_INTERNAL, errno, "open %s", cfg->data_dir);
	if (cg_host_open(&h->cg, cfg->instance, err) < 0)
		return -1;
	h->uids = uids_open(cfg->run_root, cfg->instance, host_instance_busy, h, err);
	if (!h->uids)
		return -1;
	h->uppers = upper_store_open(data, cfg->upper_pool, err);
	if (!h->uppers)
		return -1;
	if (seccomp_build(&h->filter, false, err) < 0 ||
	    seccomp_build(&h->filter_nest, true, err) < 0 || host_files_open(&h->files, err) < 0)
		return -1;
	host_masks(h);
	return host_janitor_start(h, err);
}

struct box_host *box_host_open(const struct box_config *cfg, struct err *err)
{
	struct box_host *h = calloc(1, sizeof(*h));

	if (!h) {
		err_set(err, ERR_NOMEM, "out of memory");
		return NULL;
	}
	h->run = h->boxes = h->init = -1;
	h->cg = (struct cg_host){.v2 = -1, .v1 = {-1, -1, -1, -1}};
	pthread_mutex_init(&h->lock, NULL);
	pthread_cond_init(&h->work, NULL);
	pthread_cond_init(&h->done, NULL);
	if (host_open(h, cfg, err) < 0) {
		/* Groups that hold a predecessor's boxes are not empty, and so stay. */
		cg_host_close(&h->cg, true);
		box_host_close(h, false);
		return NULL;
	}
	return h;
}

static void host_remove_dirs(struct box_host *h)
{
	static const char *const sub[] = {"stage/root", "stage/files", "stage", "boxes"};

	path_remove_tree(h->run, "stage", NULL);
	for (size_t i = 0; i < ARRAY_LEN(sub); i++)
		unlinkat(h->run, sub[i], AT_REMOVEDIR);
	rmdir(h->cfg.run_dir);
}

void box_host_close(struct box_host *h, bool clean)
{
	if (!h)
		return;
	host_janitor_stop(h);
	cg_host_close(&h->cg, clean);
	upper_store_close(h->uppers);
	uids_close(h->uids);
	host_files_close(&h->files);
	if (clean && h->run >= 0)
		host_remove_dirs(h);
	fd_close_all((int[]){h->run, h->boxes, h->init}, 3);
	pthread_mutex_destroy(&h->lock);
	pthread_cond_destroy(&h->work);
	pthread_cond_destroy(&h->done);
	free((char *)h->cfg.instance);
	free((char *)h->cfg.data_dir);
	free((char *)h->cfg.run_dir);
	free((char *)h->cfg.run_root);
	free((char *)h->cfg.layers_dir);
	free((char *)h->cfg.init_path);
	free(h->dying);
	free(h);
}

const struct cg_host *box_host_cgroups(const struct box_host *h)
{
	return &h->cg;
}

struct upper_store *box_host_uppers(const struct box_host *h)
{
	return h->uppers;
}

void box_host_size(const struct box_host *h, uint64_t *ret_mem, uint32_t *ret_cpus)
{
	*ret_mem = h->files.mem_total;
	*ret_cpus = h->files.cpus;
}
